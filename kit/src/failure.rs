//! How a program ends when it can't go on.

use std::{error::Error, process::ExitCode};

/// Why a program ends with a code other than 0. The text is one line.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A wrong argument, environment variable or configuration key: exit code 64.
    #[error("{0}")]
    Usage(String),
    /// Anything else: exit code 1.
    #[error("{0}")]
    Fatal(#[source] Box<dyn Error + Send + Sync>),
}

impl Failure {
    /// A failure from any error.
    pub fn fatal(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Fatal(error.into())
    }

    /// What the process ends with: 64 (`EX_USAGE` of sysexits) or 1.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(64),
            Self::Fatal(_) => ExitCode::FAILURE,
        }
    }

    /// The same failure, with the name of the task that it came from before it.
    pub(crate) fn within(self, task: &str) -> Self {
        match self {
            Self::Usage(text) => Self::Usage(format!("{task}: {text}")),
            Self::Fatal(source) => Self::fatal(TaskFailure {
                task: task.to_owned(),
                source,
            }),
        }
    }
}

/// A failure of one task; the text has its causes already, as `Failure` does.
#[derive(Debug, thiserror::Error)]
#[error("{task}: {source}")]
struct TaskFailure {
    task: String,
    source: Box<dyn Error + Send + Sync>,
}

/// `text` with line breaks and other control characters made visible, so that it stays one line.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escaped = c.is_control().then(|| c.escape_default());
            let plain = escaped.is_none().then_some(c);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_a_task_names_the_task_and_keeps_its_code() {
        let usage = Failure::Usage("bad --listen".into()).within("http");
        assert_eq!(usage.to_string(), "http: bad --listen");
        assert_eq!(usage.exit_code(), ExitCode::from(64));
        let fatal = Failure::fatal("gone").within("watch");
        assert_eq!(fatal.to_string(), "watch: gone");
        assert_eq!(fatal.exit_code(), ExitCode::FAILURE);
    }

    #[test]
    fn line_breaks_are_made_visible() {
        assert_eq!(one_line("a\nb\u{1b}[1m é"), "a\\nb\\u{1b}[1m é");
    }
}
