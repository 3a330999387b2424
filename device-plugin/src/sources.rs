//! Asking kubelet and the API server what is on this node.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kubernetes::{
    node_pods::{Error, NodePods},
    pod_resources::{self, PodResources},
};
use model::{name::PodUid, settings::Settings};

use crate::{
    checkpoint::{self, Checkpoint},
    convert,
    metrics::Metrics,
    view::{Look, PodSource, PodView},
};

/// PodResources is limited by kubelet for all of its clients together: one call waits its turn
/// for this long, then the pods alone have to do.
const POD_RESOURCES_WITHIN: Duration = Duration::from_secs(1);

/// Far larger than the record of any node's devices.
const MOST_CHECKPOINT_BYTES: u64 = 64 << 20;

/// Where to look.
pub struct Sources {
    pod_resources: PodResources,
    kubelet: Option<NodePods>,
    api: NodePods,
    checkpoint: PathBuf,
    settings: Arc<Settings>,
    metrics: Metrics,
    said: Mutex<Said>,
}

/// What was logged last, so that only changes are.
#[derive(Default)]
struct Said {
    bad_pods: BTreeSet<String>,
    pod_resources: Option<&'static str>,
    read_only_port: bool,
}

impl Sources {
    /// `kubelet`: its read-only port, where it is to be asked.
    pub fn new(
        pod_resources: PodResources,
        kubelet: Option<NodePods>,
        api: NodePods,
        device_plugin_dir: &std::path::Path,
        settings: Arc<Settings>,
        metrics: Metrics,
    ) -> Self {
        Self {
            pod_resources,
            kubelet,
            api,
            checkpoint: device_plugin_dir.join(checkpoint::FILE_NAME),
            settings,
            metrics,
            said: Mutex::default(),
        }
    }

    /// Looks. `ticket` was taken before.
    pub async fn look(&self, ticket: u64) -> Result<Look, Error> {
        let listed = self.pod_resources.list(POD_RESOURCES_WITHIN).await;
        self.say_pod_resources(listed.as_ref().err());
        let (pods, source) = self.pods().await?;
        Ok(Look {
            ticket,
            listed: listed.ok(),
            pods,
            source,
            beyond: BTreeSet::new(),
        })
    }

    /// Adds what only the API server shows. A kubelet that has just started lists no pods yet,
    /// while their containers run on.
    pub async fn look_beyond(&self, look: &mut Look) -> Result<(), Error> {
        if look.source == PodSource::ApiServer {
            return Ok(());
        }
        let objects = self.api.list().await?;
        for view in self.read(&objects) {
            if look.pods.iter().all(|p| p.uid != view.uid) {
                look.beyond.insert(view.uid.clone());
                look.pods.push(view);
            }
        }
        Ok(())
    }

    async fn pods(&self) -> Result<(Vec<PodView>, PodSource), Error> {
        if let Some(kubelet) = &self.kubelet {
            let answer = kubelet.list().await;
            self.say_port(answer.as_ref().err());
            if let Ok(pods) = answer {
                return Ok((self.read(&pods), PodSource::Kubelet));
            }
        }
        let pods = self.api.list().await?;
        Ok((self.read(&pods), PodSource::ApiServer))
    }

    /// Which of these pods the API server does not know any more, or knows to have ended.
    /// Kubelet's own list may be empty when it has just started, so it can't tell.
    pub async fn gone(&self, suspects: Vec<PodUid>) -> Result<Vec<PodUid>, Error> {
        if suspects.is_empty() {
            return Ok(suspects);
        }
        let objects = self.api.list().await?;
        // A pod that can't be read is there all the same.
        let unreadable: BTreeSet<&str> = objects
            .iter()
            .filter(|p| convert::pod_view(p, &self.settings).is_err())
            .filter_map(|p| p.metadata.uid.as_deref())
            .collect();
        let live: BTreeSet<PodUid> = self
            .read(&objects)
            .into_iter()
            .filter(PodView::is_live)
            .map(|p| p.uid)
            .collect();
        Ok(suspects
            .into_iter()
            .filter(|uid| !live.contains(uid) && !unreadable.contains(uid.as_str()))
            .collect())
    }

    /// Kubelet's own record, where this program may read it.
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        let size = std::fs::metadata(&self.checkpoint).ok()?.len();
        if size > MOST_CHECKPOINT_BYTES {
            return None;
        }
        let text = std::fs::read_to_string(&self.checkpoint).ok()?;
        match checkpoint::parse(&text) {
            Ok((checkpoint, unreadable)) => {
                if unreadable > 0 {
                    tracing::warn!(
                        unreadable,
                        "kubelet's checkpoint has entries of an unknown form"
                    );
                    self.metrics
                        .malformed
                        .with_label_values(&["checkpoint"])
                        .inc();
                }
                Some(checkpoint)
            }
            Err(error) => {
                tracing::warn!(file = %self.checkpoint.display(), %error, "kubelet's checkpoint can't be read");
                self.metrics
                    .malformed
                    .with_label_values(&["checkpoint"])
                    .inc();
                None
            }
        }
    }

    fn read(&self, objects: &[kubernetes::object::Pod]) -> Vec<PodView> {
        let mut bad = BTreeSet::new();
        let mut views = Vec::with_capacity(objects.len());
        for object in objects {
            match convert::pod_view(object, &self.settings) {
                Ok(view) => views.push(view),
                Err(error) => {
                    let name = convert::pod_name(object);
                    if !self.said().bad_pods.contains(&name) {
                        tracing::warn!(pod = name, %error, "a pod can't be read and is passed over");
                        self.metrics.malformed.with_label_values(&["pod"]).inc();
                    }
                    bad.insert(name);
                }
            }
        }
        self.said().bad_pods = bad;
        views
    }

    fn say_pod_resources(&self, error: Option<&pod_resources::Error>) {
        let kind = error.map(|e| match e {
            pod_resources::Error::Unavailable { .. } => "not there",
            pod_resources::Error::RateLimited(_) => "limited",
            pod_resources::Error::Failed { .. } => "failed",
        });
        let mut said = self.said();
        if said.pod_resources != kind {
            said.pod_resources = kind;
            if let Some(error) = error {
                tracing::warn!(%error, "going by the pods alone");
            } else {
                tracing::info!("PodResources answers again");
            }
        }
    }

    fn say_port(&self, error: Option<&Error>) {
        let mut said = self.said();
        if said.read_only_port != error.is_some() {
            said.read_only_port = error.is_some();
            if let Some(error) = error {
                tracing::warn!(%error, "asking the API server for the node's pods instead");
            } else {
                tracing::info!("kubelet's read-only port answers again");
            }
        }
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
