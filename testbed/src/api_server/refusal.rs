//! Answers other than success, as `Status` objects.

use serde_json::{Value, json};

use super::resource::Resource;

/// Why a request is refused, in the terms of `metav1.Status`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The HTTP status code.
    pub code: u16,
    /// What clients decide by.
    pub reason: &'static str,
    /// In words.
    pub message: String,
    /// `StatusDetails`, or null.
    pub details: Value,
}

impl Refusal {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
        }
    }

    fn about(mut self, resource: &Resource, name: &str) -> Self {
        self.details = json!({"name": name, "group": resource.group, "kind": resource.plural});
        self
    }

    /// No such object.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} not found", resource.qualified());
        Self::new(404, "NotFound", message).about(resource, name)
    }

    /// No such path.
    pub fn no_path() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    /// An object of that name is there.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", resource.qualified());
        Self::new(409, "AlreadyExists", message).about(resource, name)
    }

    /// The object is not in the state that the request counts on.
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: {why}",
            resource.qualified()
        );
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// The writer read an older version.
    pub fn stale(resource: &Resource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// Fields that break a rule: field and what is wrong with it.
    pub fn invalid(resource: &Resource, name: &str, causes: &[Cause]) -> Self {
        let words: Vec<String> = causes
            .iter()
            .map(|c| format!("{}: {}", c.field, c.message))
            .collect();
        let words = match words.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} {name:?} is invalid: {words}", kind_of(resource));
        let mut refusal = Self::new(422, "Invalid", message);
        let causes: Vec<Value> = causes
            .iter()
            .map(|c| json!({"field": c.field, "message": c.message, "reason": c.reason}))
            .collect();
        refusal.details = json!({
            "name": name, "group": resource.group, "kind": resource.kind, "causes": causes,
        });
        refusal
    }

    /// Well-formed, but it can't be carried out, such as a JSON Patch whose test fails.
    pub fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(422, "Invalid", message)
    }

    /// Not understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Not allowed in this state.
    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("{} {name:?} is forbidden: {why}", resource.qualified());
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    /// The path has no such verb.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message)
    }

    /// None of the shapes in Accept is made.
    pub fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json";
        Self::new(406, "NotAcceptable", message)
    }

    /// The body's type is not read.
    pub fn unsupported(given: &str, accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted} (given: {given})"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// The revision is past the window, or not reached.
    pub fn expired(asked: u64, oldest: u64) -> Self {
        Self::new(
            410,
            "Expired",
            format!("too old resource version: {asked} ({oldest})"),
        )
    }

    /// The body is larger than is read.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// The `Status` object.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let (Some(fields), false) = (status.as_object_mut(), self.details.is_null()) {
            fields.insert("details".into(), self.details.clone());
        }
        status
    }
}

fn kind_of(resource: &Resource) -> String {
    if resource.group.is_empty() {
        resource.kind.to_owned()
    } else {
        format!("{}.{}", resource.kind, resource.group)
    }
}

/// One field that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Such as `metadata.name`.
    pub field: String,
    /// Such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// Such as `Invalid value: "A": …`.
    pub message: String,
}

impl Cause {
    /// A value that is not allowed.
    pub fn invalid(field: impl Into<String>, value: &str, why: &str) -> Self {
        Self {
            field: field.into(),
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {value:?}: {why}"),
        }
    }

    /// A field that must be there.
    pub fn required(field: impl Into<String>, why: &str) -> Self {
        let message = match why {
            "" => "Required value".to_owned(),
            why => format!("Required value: {why}"),
        };
        Self {
            field: field.into(),
            reason: "FieldValueRequired",
            message,
        }
    }

    /// A change that is not allowed.
    pub fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self {
            field: field.into(),
            reason: "FieldValueForbidden",
            message: format!("Forbidden: {why}"),
        }
    }
}
