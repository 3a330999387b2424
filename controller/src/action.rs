//! What can be done to a node, and the record of it: the annotation
//! `lj-runtimekit-controller/last-action-status`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Switching a node's feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// On.
    Enable,
    /// Off.
    Disable,
}

impl Action {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Enable, Self::Disable];

    /// As the job agent takes it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Enable => "enable",
            Self::Disable => "disable",
        }
    }

    /// The reverse of [`Action::word`].
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.word() == word)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// How an action stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// Its Job is being made or runs. Written before the Job is made, so that a node that loses
    /// its label and its Job half-way is still known to need switching off.
    Running,
    /// Done.
    Succeeded,
    /// Not done.
    Failed,
}

impl Status {
    /// As it stands in the record.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

/// The record of a node's last action, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Version of the form.
    pub v: u64,
    /// Which action.
    pub action: Action,
    /// How it stands.
    pub status: Status,
    /// When it came to stand so, RFC 3339.
    pub time: String,
    /// Name of the Job.
    pub job: String,
    /// Unique id of the Job; empty while there is none.
    #[serde(default)]
    pub job_uid: String,
    /// Unique id of the node: a record that was carried over to another node object is no proof.
    #[serde(default)]
    pub node_uid: String,
    /// For a person.
    #[serde(default)]
    pub message: String,
}

/// The version that this program writes.
pub const VERSION: u64 = 1;
/// Longer than any record: messages are cut.
const MOST_BYTES: usize = 8 << 10;
/// The most of a message that is kept, in characters.
const MOST_MESSAGE: usize = 300;

/// Why a record can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Not of the form.
    #[error("{0}")]
    Malformed(String),
    /// Written by a newer controller.
    #[error("version {0} is newer than this program understands (1)")]
    Version(u64),
    /// Longer than anything the controller writes.
    #[error("{0} bytes long, more than the {MOST_BYTES} that can be right")]
    TooLong(usize),
}

impl Record {
    /// Reads the annotation's value.
    pub fn read(text: &str) -> Result<Self, RecordError> {
        #[derive(Deserialize)]
        struct Version {
            v: u64,
        }
        if text.len() > MOST_BYTES {
            return Err(RecordError::TooLong(text.len()));
        }
        let malformed = |error: serde_json::Error| RecordError::Malformed(error.to_string());
        let Version { v } = serde_json::from_str(text).map_err(malformed)?;
        if v != VERSION {
            return Err(RecordError::Version(v));
        }
        serde_json::from_str(text).map_err(malformed)
    }

    /// The annotation's value: compact JSON.
    pub fn write(&self) -> String {
        // Plain fields only: there is nothing in it that could fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A message on one line, at most 300 characters.
pub fn short(message: &str) -> String {
    message
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(MOST_MESSAGE)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            v: 1,
            action: Action::Enable,
            status: Status::Succeeded,
            time: "2026-12-01T10:00:00Z".into(),
            job: "lj-agent-n1-enable".into(),
            job_uid: "j1".into(),
            node_uid: "u1".into(),
            message: String::new(),
        }
    }

    #[test]
    fn a_record_is_compact_json_and_is_read_back() {
        let text = record().write();
        assert_eq!(
            text,
            r#"{"v":1,"action":"enable","status":"Succeeded","time":"2026-12-01T10:00:00Z","job":"lj-agent-n1-enable","jobUid":"j1","nodeUid":"u1","message":""}"#
        );
        assert_eq!(Record::read(&text), Ok(record()));
    }

    #[test]
    fn fields_of_a_later_minor_form_are_passed_over() {
        let text = record().write().replacen('{', r#"{"more":[1],"#, 1);
        assert_eq!(Record::read(&text), Ok(record()));
    }

    #[test]
    fn what_is_no_record_says_why() {
        for text in ["", "Succeeded", "{}", r#"{"v":1}"#, r#"{"v":-1}"#, "[1]"] {
            assert!(
                matches!(Record::read(text), Err(RecordError::Malformed(_))),
                "{text}"
            );
        }
        let newer = record().write().replace(r#""v":1"#, r#""v":2"#);
        assert_eq!(Record::read(&newer), Err(RecordError::Version(2)));
        let long = "x".repeat(9000);
        assert_eq!(Record::read(&long), Err(RecordError::TooLong(9000)));
    }

    #[test]
    fn messages_are_one_short_line() {
        assert_eq!(short(" a\n b\t"), "a b");
        assert_eq!(short(&"é".repeat(400)).chars().count(), 300);
    }
}
