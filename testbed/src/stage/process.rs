//! One process of a stage.

use std::{
    fs::OpenOptions,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail};

use super::wait::{Deadline, until};

/// How a process is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// It may drain.
    Term,
    /// At once, as a power failure would.
    Kill,
}

/// A child process; killed when dropped.
pub(super) struct Process {
    child: Child,
}

impl Process {
    /// Starts it with both outputs appended to `log`.
    pub(super) fn start(mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let program = command.get_program().to_owned();
        if !Path::new(&program).exists() {
            bail!(
                "there is no {}: build all programs first (cargo build --workspace)",
                program.display()
            );
        }
        let out = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| log.display().to_string())?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()?;
        Ok(Self { child })
    }

    /// Whether it still runs.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it and waits for it; one that does not drain within 30 s is an error.
    pub(super) async fn end(mut self, signal: Signal) -> anyhow::Result<()> {
        match signal {
            Signal::Kill => self.child.kill()?,
            Signal::Term => {
                if let Some(pid) = i32::try_from(self.child.id())
                    .ok()
                    .and_then(rustix::process::Pid::from_raw)
                {
                    // It may have ended by itself; then there is nothing to tell it.
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
                }
            }
        }
        let deadline = Deadline::after(Duration::from_secs(30));
        let child = std::cell::RefCell::new(&mut self.child);
        until("the process to end", deadline, || async {
            match child.borrow_mut().try_wait() {
                Ok(Some(_)) => Ok(()),
                Ok(None) => Err("it still runs".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        })
        .await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
