//! One JSON line a request, for tests that ask who did what.

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use k8s_openapi::jiff::Timestamp;
use kit::Failure;
use serde_json::json;

/// An open audit file. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Audit {
    path: PathBuf,
    /// `None` once writing failed.
    file: Arc<Mutex<Option<File>>>,
}

/// What is written of a request.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// GET, POST …
    pub method: &'a str,
    /// With the query.
    pub path: &'a str,
    /// Who says to have asked.
    pub user_agent: &'a str,
    /// Of the patch or object.
    pub content_type: &'a str,
    /// What was answered. Of a watch: when it started.
    pub code: u16,
}

impl Audit {
    /// Opens the file to add to it.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let file = File::options().create(true).append(true).open(path);
        let file =
            file.map_err(|e| Failure::fatal(format!("audit file {}: {e}", path.display())))?;
        Ok(Self {
            path: path.to_owned(),
            file: Arc::new(Mutex::new(Some(file))),
        })
    }

    /// Adds a line. A failure is logged, once, and ends the auditing.
    pub fn write(&self, entry: &Entry<'_>) {
        let mut line = json!({
            "time": Timestamp::now().to_string(), "method": entry.method, "path": entry.path,
            "userAgent": entry.user_agent, "contentType": entry.content_type, "code": entry.code,
        })
        .to_string();
        line.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = file.as_mut() else { return };
        if let Err(error) = open.write_all(line.as_bytes()) {
            tracing::error!(file = %self.path.display(), %error, "requests are no longer audited");
            *file = None;
        }
    }
}
