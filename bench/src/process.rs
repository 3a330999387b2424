//! A program under measurement, and what the kernel counts of it.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context as _;

use crate::table::Figure;

/// A running program. Dropped, it is killed.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
    started: Instant,
}

impl Process {
    /// Starts `program`, which writes its log to a file of that name in `folder`.
    pub(crate) fn start<S: AsRef<std::ffi::OsStr>>(
        program: &Path,
        args: impl IntoIterator<Item = S>,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let name = program.file_name().unwrap_or_default();
        let log = folder.join(name).with_extension("log");
        let file = File::create(&log)?;
        let mut command = Command::new(program);
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        // What the caller's shell sets is not to be measured.
        for variable in ["KUBECONFIG", "LJ_RUNTIMEKIT_CONFIG", "LJ_RUNTIMEKIT_LOG"] {
            command.env_remove(variable);
        }
        let started = Instant::now();
        let child = command
            .spawn()
            .with_context(|| format!("can't start {}", program.display()))?;
        Ok(Self {
            child,
            log,
            started,
        })
    }

    /// When it was started.
    pub(crate) const fn started(&self) -> Instant {
        self.started
    }

    /// Fails with its last log lines where it has ended.
    pub(crate) fn is_alive(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let last: Vec<_> = log.lines().rev().take(5).collect();
            anyhow::bail!("{}: {status}: {last:?}", self.log.display());
        }
        Ok(())
    }

    /// CPU that its threads have used. A thread that has ended is not in it: none of the programs
    /// ends threads while it is measured.
    pub(crate) fn cpu(&self) -> Duration {
        let tasks = fs::read_dir(self.proc("task")).into_iter().flatten();
        let nanoseconds = tasks.flatten().filter_map(|task| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanoseconds.sum())
    }

    /// Resident memory now.
    pub(crate) fn memory(&self) -> Figure {
        self.status("VmRSS:")
    }

    /// The most it ever was.
    pub(crate) fn most_memory(&self) -> Figure {
        self.status("VmHWM:")
    }

    fn status(&self, key: &str) -> Figure {
        let text = fs::read_to_string(self.proc("status")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
        Figure::Memory(kib.unwrap_or_default() * 1024.0)
    }

    fn proc(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.child.id()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A port of 127.0.0.1 that is free now.
pub(crate) fn free_address() -> anyhow::Result<std::net::SocketAddr> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
