//! A stage: one small cluster of real programs on stand-ins, as processes of this user.
//!
//! Each stage has a temporary folder and loopback addresses of its own, so that any number of
//! stages run side by side. Every part can be stopped, killed and started again while the
//! others go on; what it needs to come back is in the folder. Dropping the stage ends all of
//! its processes.

mod http;
mod layout;
mod part;
mod process;
mod service;
mod wait;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, bail};

pub use http::{get, post, post_json};
pub use layout::{Layout, Options};
pub use part::{AGENT_IMAGE, EXTENDER_LEASE, Part, SCHEDULER_NAME};
pub use process::Signal;
pub use wait::{Deadline, until};

use process::Process;
use service::Service;

/// A running stage.
pub struct Stage {
    layout: Layout,
    client: kube::Client,
    processes: Mutex<BTreeMap<Part, Process>>,
    _extenders: Option<Service>,
    _folder: Folder,
}

/// Removed with the stage, unless it was given by the user.
struct Folder {
    path: PathBuf,
    keep: bool,
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.keep {
            drop(std::fs::remove_dir_all(&self.path));
        }
    }
}

impl Stage {
    /// Lays the stage out and starts nothing yet. Must be called on a tokio runtime.
    pub fn new(options: Options) -> anyhow::Result<Self> {
        let keep = options.folder.is_some();
        let layout = Layout::new(options)?;
        let folder = Folder {
            path: layout.folder.clone(),
            keep,
        };
        let api = kubernetes::api::ApiArgs {
            kubeconfig: None,
            api_server: Some(layout.api_url()),
        };
        Ok(Self {
            client: api.client()?,
            _extenders: Service::of_extenders(&layout)?,
            layout,
            processes: Mutex::default(),
            _folder: folder,
        })
    }

    /// Lays out and starts every part, in an order in which each finds what it needs.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let stage = Self::new(options)?;
        for part in stage.parts() {
            stage.start_part(part)?;
            if part == Part::ApiServer {
                stage.api_server_answers().await?;
            }
        }
        Ok(stage)
    }

    /// Every part of this stage, in the order they are started.
    pub fn parts(&self) -> Vec<Part> {
        let nodes = 0..self.layout.nodes();
        let mut parts = vec![
            Part::ApiServer,
            Part::KubeScheduler,
            Part::DefaultScheduler,
            Part::Controller,
        ];
        let extenders = (0..self.layout.extenders()).map(Part::Extender);
        parts.splice(1..1, extenders);
        for node in nodes {
            parts.extend([
                Part::Runtime(node),
                Part::Kubelet(node),
                Part::DevicePlugin(node),
                Part::Exporter(node),
            ]);
        }
        parts
    }

    /// Where everything is.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// A client of the stand-in API server.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Starts a part that is not running.
    pub fn start_part(&self, part: Part) -> anyhow::Result<()> {
        let mut processes = self
            .processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = processes.get_mut(&part)
            && running.is_alive()
        {
            bail!("{part} is already running");
        }
        let log = self.log_of(part);
        let process = Process::start(part.command(&self.layout), &log)
            .with_context(|| format!("can't start {part}"))?;
        processes.insert(part, process);
        Ok(())
    }

    /// Ends a part and waits until it is gone.
    pub async fn stop_part(&self, part: Part, signal: Signal) -> anyhow::Result<()> {
        let process = self
            .processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&part);
        let Some(process) = process else {
            bail!("{part} is not running")
        };
        process
            .end(signal)
            .await
            .with_context(|| format!("can't end {part}"))
    }

    /// Ends a part and starts it again.
    pub async fn restart(&self, part: Part, signal: Signal) -> anyhow::Result<()> {
        self.stop_part(part, signal).await?;
        self.start_part(part)?;
        if part == Part::ApiServer {
            self.api_server_answers().await?;
        }
        Ok(())
    }

    /// The parts that have ended by themselves, with the end of their logs.
    pub fn dead(&self) -> Vec<(Part, String)> {
        let mut processes = self
            .processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut dead = Vec::new();
        for (part, process) in processes.iter_mut() {
            if !process.is_alive() {
                dead.push((*part, self.log_tail(*part)));
            }
        }
        dead
    }

    /// Where that part logs.
    pub fn log_of(&self, part: Part) -> PathBuf {
        self.layout
            .folder
            .join("logs")
            .join(format!("{}.log", part.file_name()))
    }

    /// The last lines that the part logged.
    pub fn log_tail(&self, part: Part) -> String {
        tail(&self.log_of(part), 15)
    }

    /// Ends everything, programs first, so that none logs about a peer that went before it.
    pub async fn end(self) -> anyhow::Result<()> {
        let mut parts = self.parts();
        parts.reverse();
        for part in parts {
            let process = self
                .processes
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&part);
            if let Some(process) = process {
                process
                    .end(Signal::Term)
                    .await
                    .with_context(|| format!("can't end {part}"))?;
            }
        }
        Ok(())
    }

    /// Waits until the API server answers.
    pub async fn api_server_answers(&self) -> anyhow::Result<()> {
        let url = format!("{}/version", self.layout.api_url());
        until(
            "the stand-in API server to answer",
            Deadline::seconds(20),
            || async {
                get(&url)
                    .await
                    .map(drop)
                    .map_err(|e| format!("{e:#}; {}", self.log_tail(Part::ApiServer)))
            },
        )
        .await
    }
}

fn tail(file: &Path, lines: usize) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all.iter()
        .skip(all.len().saturating_sub(lines))
        .copied()
        .collect::<Vec<_>>()
        .join("\n")
}
