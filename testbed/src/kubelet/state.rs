//! What all parts of the stand-in kubelet share.

use std::{
    collections::BTreeMap,
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use kubernetes::device_plugin::{
    ContainerAllocateResponse, device_plugin_client::DevicePluginClient,
};
use prost::Message as _;
use serde_json::{Value, json};
use tonic::transport::Channel;

use super::{
    checkpoint,
    devices::{Devices, Ids},
    pod::{Local, Stage},
};

/// A registered plugin's side of one resource.
#[derive(Clone)]
pub(super) struct Endpoint {
    /// Grows with each registration of the resource.
    pub(super) generation: u64,
    /// Calls it.
    pub(super) client: DevicePluginClient<Channel>,
    /// Whether it wants to be asked which devices it prefers.
    pub(super) prefers: bool,
}

/// Everything under one lock, never held over a call.
#[derive(Default)]
pub(super) struct Inner {
    /// In order of arrival.
    pub(super) pods: Vec<Local>,
    /// Whether the first pods from the API server have been taken in. Until then kubelet does not
    /// know who has ended, and keeps their devices.
    pub(super) sources_ready: bool,
    /// The device manager.
    pub(super) devices: Devices,
    /// By resource.
    pub(super) endpoints: BTreeMap<String, Endpoint>,
}

impl Inner {
    /// As kubelet does it: at the next admission, and not before it knows all pods, so that those
    /// of the first batch after a restart find devices taken by pods that are gone.
    pub(super) fn free_devices_of_ended_pods(&mut self) {
        if self.sources_ready {
            let pods = &self.pods;
            let live = |p: &&Local| matches!(p.stage, Stage::Admitting | Stage::Admitted);
            self.devices
                .keep_only(|uid| pods.iter().filter(live).any(|p| p.uid() == uid));
        }
    }
}

/// The stand-in kubelet.
pub(super) struct State {
    root: PathBuf,
    inner: Mutex<Inner>,
}

impl State {
    /// Reads the checkpoint of an earlier run and empties the device-plugins folder but for it,
    /// as kubelet does at its start.
    pub(super) fn open(root: &Path) -> anyhow::Result<Self> {
        for folder in ["device-plugins", "pod-resources", "containers", "logs"] {
            std::fs::create_dir_all(root.join(folder))?;
        }
        let state = Self {
            root: root.to_owned(),
            inner: Mutex::default(),
        };
        for entry in std::fs::read_dir(root.join("device-plugins"))? {
            let path = entry?.path();
            if path != state.checkpoint_file() {
                std::fs::remove_file(&path)?;
            }
        }
        let given = checkpoint::read(&state.checkpoint_file())?;
        state.lock().devices.restore(given);
        Ok(state)
    }

    /// The lock.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A path below the root folder.
    pub(super) fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    fn checkpoint_file(&self) -> PathBuf {
        self.path("device-plugins/kubelet_internal_checkpoint")
    }

    /// Writes the checkpoint.
    pub(super) fn save(&self) {
        let inner = self.lock();
        if let Err(error) = checkpoint::write(&self.checkpoint_file(), &inner.devices) {
            tracing::error!(%error, "the checkpoint can't be written");
        }
    }

    /// Runs `change` on the pod, if it is here.
    pub(super) fn with_pod<T>(&self, uid: &str, change: impl FnOnce(&mut Local) -> T) -> Option<T> {
        self.lock()
            .pods
            .iter_mut()
            .find(|p| p.uid() == uid)
            .map(change)
    }

    /// The pod, if it is here.
    pub(super) fn pod(&self, uid: &str) -> Option<Local> {
        self.with_pod(uid, |p| p.clone())
    }

    /// The pod has no containers any more. Its devices are free from the next admission on.
    pub(super) fn ended(&self, uid: &str, stage: Stage) {
        self.with_pod(uid, |p| p.stage = stage);
    }

    /// Writes down a call to a plugin: what a test compares the plugin's own view with.
    pub(super) fn trace(&self, line: &Value) {
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.path("trace.jsonl"));
        if let Err(error) = file.and_then(|mut f| writeln!(f, "{line}")) {
            tracing::error!(%error, "the trace can't be written");
        }
    }

    /// Writes what the container runtime would be told: the merged answers of all resources.
    pub(super) fn write_container(&self, uid: &str, container: &str) {
        let (mut env, mut mounts, mut nodes, mut annotations, mut cdi) = (
            BTreeMap::new(),
            Vec::new(),
            Vec::new(),
            BTreeMap::new(),
            Vec::new(),
        );
        {
            let inner = self.lock();
            let given = inner.devices.of(uid).and_then(|p| p.get(container));
            for given in given.into_iter().flat_map(BTreeMap::values) {
                let Ok(answer) = ContainerAllocateResponse::decode(given.answer.as_slice()) else {
                    continue;
                };
                env.extend(answer.envs);
                annotations.extend(answer.annotations);
                mounts.extend(
                    answer
                        .mounts
                        .into_iter()
                        .map(|m| format!("{}:{}", m.host_path, m.container_path)),
                );
                nodes.extend(answer.devices.into_iter().map(|d| d.host_path));
                cdi.extend(answer.cdi_devices.into_iter().map(|d| d.name));
            }
        }
        for list in [&mut mounts, &mut nodes, &mut cdi] {
            list.sort();
            list.dedup();
        }
        let text = json!({"env": env, "mounts": mounts, "devices": nodes, "annotations": annotations, "cdi": cdi});
        let file = self
            .path("containers")
            .join(format!("{uid}_{container}.json"));
        if let Err(error) = std::fs::write(&file, text.to_string()) {
            tracing::error!(%error, file = %file.display(), "can't be written");
        }
    }
}

/// Seconds since 1970.
pub(super) fn second() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
}

/// Device ids as JSON, at most a few: the trace stays readable.
pub(super) fn ids_json(ids: &Ids) -> Value {
    json!(ids)
}
