//! Writing on pods what kubelet gave them.

use std::{sync::Mutex, time::Duration};

use kube::api::{Api, Patch, PatchParams};
use kubernetes::object::Pod;
use serde_json::json;
use tokio::time::timeout;

use crate::{core::Annotate, metrics::Metrics};

/// The API server's own limit for a request is a minute.
const WITHIN: Duration = Duration::from_secs(10);

/// What the API server said, without the rest of its answer.
pub fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        other => other.to_string(),
    }
}

/// Writes on pods.
pub struct PodWriter {
    client: kube::Client,
    key: String,
    metrics: Metrics,
    /// What was last logged to be wrong.
    failing: Mutex<Option<String>>,
}

impl PodWriter {
    /// `key`: the annotation's.
    pub const fn new(client: kube::Client, key: String, metrics: Metrics) -> Self {
        Self {
            client,
            key,
            metrics,
            failing: Mutex::new(None),
        }
    }

    /// Writes the annotation. Whether nothing is left to do: it is written, or that pod is gone.
    pub async fn allocated(&self, annotate: &Annotate) -> bool {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), annotate.pod.namespace.as_str());
        // With its uid: another pod of this name answers with a conflict.
        let patch = Patch::Merge(json!({"metadata": {
            "uid": annotate.uid.as_str(),
            "annotations": {(self.key.as_str()): annotate.text},
        }}));
        let how = PatchParams::default();
        let write = pods.patch(annotate.pod.name.as_str(), &how, &patch);
        let (done, outcome, why) = match timeout(WITHIN, write).await {
            Ok(Ok(_)) => (true, "ok", None),
            Ok(Err(kube::Error::Api(status))) if [404, 409].contains(&status.code) => {
                (true, "gone", None)
            }
            Ok(Err(error)) => (false, "failed", Some(words(&error))),
            Err(_) => (
                false,
                "failed",
                Some(format!("no answer within {WITHIN:?}")),
            ),
        };
        self.metrics
            .writes
            .with_label_values(&["pod", outcome])
            .inc();
        let mut failing = self
            .failing
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(why) = &why
            && failing.as_ref() != Some(why)
        {
            tracing::warn!(pod = %annotate.pod, why, "annotation not written, trying again");
        }
        *failing = why;
        done
    }
}
