//! One device plugin, ours or the floor, with its kubelet and its Runtime.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use kubernetes::device_plugin::{Empty, device_plugin_client::DevicePluginClient};
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;

use crate::{
    Ground,
    api_server::Served,
    kubelet::{NODE, Pods, dial, registrations},
    node_server,
    process::Process,
    runtime::{Measured, Runtime},
};

/// How long a plugin may take to register all of its resources.
const REGISTERED_WITHIN: Duration = Duration::from_secs(20);

/// How long the plugin may take to release what has ended.
const RELEASED_WITHIN: Duration = Duration::from_secs(20);

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Ours,
    /// Asks the Runtime, as ours does.
    Floor,
    /// Answers by itself.
    FloorAlone,
}

impl Kind {
    /// Resources that it registers.
    const fn resources(self) -> usize {
        match self {
            Self::Ours => 4,
            Self::Floor | Self::FloorAlone => 1,
        }
    }
}

/// One registered resource.
pub(super) struct Plugin {
    pub(super) client: DevicePluginClient<Channel>,
    /// All of its devices.
    pub(super) ids: Vec<String>,
}

/// A plugin at work.
pub(super) struct Stage {
    kind: Kind,
    pub(super) program: PathBuf,
    pub(super) process: Process,
    /// From the start to the first registration.
    pub(super) first: Duration,
    /// From the start to the last registration.
    pub(super) last: Duration,
    pub(super) pods: Pods,
    runtime: Runtime,
    plugins: BTreeMap<String, Plugin>,
    _served: Served,
}

impl Stage {
    /// Starts everything, the plugin last, and takes its registrations.
    pub(super) async fn start(ground: &Ground, kind: Kind, cards: u32) -> anyhow::Result<Self> {
        let folder = ground.folder.path().join(format!("{kind:?}-{cards}"));
        let (plugins, runtimes) = (folder.join("device-plugins"), folder.join("runtime"));
        std::fs::create_dir_all(&plugins)?;
        std::fs::create_dir_all(&runtimes)?;
        let pod_resources = folder.join("pod-resources.sock");
        let pods = Pods::default();
        pods.serve(&pod_resources)?;
        let (address, served) = node_server::serve(pods.clone()).await?;
        let runtime = Runtime::new(cards, Measured::default());
        runtime.serve(&runtimes)?;
        let mut registered = registrations(&plugins)?;

        let ours = [
            format!("--node-name={NODE}"),
            format!("--runtime-dir={}", runtimes.display()),
            format!("--device-plugin-dir={}", plugins.display()),
            format!("--pod-resources-socket={}", pod_resources.display()),
            format!("--kubelet-read-only-url=http://{address}"),
            format!("--api-server=http://{address}"),
        ];
        let socket = runtimes.join("dp2mgr.sock").display().to_string();
        let floor = [plugins.display().to_string(), cards.to_string(), socket];
        let (name, args) = match kind {
            Kind::Ours => ("lj-runtimekit-device-plugin", ours.as_slice()),
            Kind::Floor => ("floor-device-plugin", floor.as_slice()),
            Kind::FloorAlone => ("floor-device-plugin", floor.get(..2).unwrap_or_default()),
        };
        let program = ground.programs.join(name);
        let mut process = Process::start(&program, args, &folder)?;
        let mut by_resource = BTreeMap::new();
        let mut times = Vec::new();
        while by_resource.len() < kind.resources() {
            let next = timeout(REGISTERED_WITHIN, registered.recv()).await;
            process.is_alive()?;
            let (at, request) = next.context("no registration")?.context("no kubelet")?;
            times.push(at.duration_since(process.started()));
            let mut client = dial(plugins.join(&request.endpoint));
            let mut lists = client.list_and_watch(Empty {}).await?.into_inner();
            let list = lists.message().await?.context("no device list")?;
            // As kubelet does, for as long as the plugin runs.
            tokio::spawn(async move { while let Ok(Some(_)) = lists.message().await {} });
            let ids = list.devices.into_iter().map(|device| device.id).collect();
            by_resource.insert(request.resource_name, Plugin { client, ids });
        }
        Ok(Self {
            kind,
            program,
            process,
            first: times.first().copied().unwrap_or_default(),
            last: times.last().copied().unwrap_or_default(),
            pods,
            runtime,
            plugins: by_resource,
            _served: served,
        })
    }

    /// The plugin of that resource; the floor has one for all.
    pub(super) fn plugin(&mut self, resource: &str) -> anyhow::Result<&mut Plugin> {
        let any = self.kind != Kind::Ours;
        let mut found = self.plugins.iter_mut();
        let found = found.find(|(name, _)| any || *name == resource);
        Ok(found.with_context(|| format!("no {resource}"))?.1)
    }

    /// All pods succeed; returns when the plugin has released what they had.
    pub(super) async fn end_pods(&mut self) -> anyhow::Result<()> {
        self.pods.lock().iter_mut().for_each(|pod| pod.ended = true);
        let deadline = Instant::now() + RELEASED_WITHIN;
        while !self.runtime.book().is_empty() {
            ensure!(Instant::now() < deadline, "ended pods are not released");
            self.process.is_alive()?;
            sleep(Duration::from_millis(2)).await;
        }
        self.pods.lock().clear();
        Ok(())
    }
}
