//! The extender protocol, version 1, from the scheduler's side.

use std::{collections::BTreeMap, time::Duration};

use http::{Request, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    cluster::{Cluster, PodKey},
    decide::{Rejection, Verdict},
};
use crate::api_server::field;

/// kube-scheduler's default.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A configured extender. Cheap to clone.
#[derive(Clone)]
pub(super) struct Extender {
    client: kube::Client,
    url: String,
    /// Whether it keeps nodes itself and is sent names only.
    names_only: bool,
}

/// `ExtenderArgs`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Args<'a> {
    pod: &'a Value,
    nodes: Option<Value>,
    node_names: Option<&'a [String]>,
}

/// `ExtenderFilterResult`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct FilterResult {
    nodes: Option<Value>,
    node_names: Option<Vec<String>>,
    failed_nodes: Option<BTreeMap<String, String>>,
    failed_and_unresolvable_nodes: Option<BTreeMap<String, String>>,
    error: Option<String>,
}

/// `HostPriority`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HostPriority {
    host: String,
    score: i64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct BindingResult {
    #[serde(default)]
    error: Option<String>,
}

/// Why the extender gave no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExtenderError {
    /// It was not reached, or answered with no 200 or no JSON of the right shape.
    #[error("failed to {verb} with extender at URL {url}: {why}")]
    Call {
        /// Which verb.
        verb: &'static str,
        /// The extender's.
        url: String,
        /// From the transport.
        why: String,
    },
    /// It said so.
    #[error("{0}")]
    Refused(String),
    /// It named a node that it was not asked about.
    #[error(
        "extender {url:?} claims a filtered node {node:?} which is not found in the input node list"
    )]
    Stranger {
        /// The extender's.
        url: String,
        /// Which node.
        node: String,
    },
}

impl Extender {
    /// An extender at a URL. Connects when first called.
    pub(super) fn new(url: &str, names_only: bool) -> Result<Self, kubernetes::api::ApiError> {
        let api = kubernetes::api::ApiArgs {
            kubeconfig: None,
            api_server: Some(url.to_owned()),
        };
        Ok(Self {
            client: api.client()?,
            url: url.to_owned(),
            names_only,
        })
    }

    /// Takes the nodes out of the verdict that the extender rejects.
    pub(super) async fn filter(
        &self,
        pod: &Value,
        cluster: &Cluster,
        verdict: &mut Verdict,
    ) -> Result<(), ExtenderError> {
        let args = self.args(pod, cluster, &verdict.fits);
        let result: FilterResult = self.call("filter", &args).await?;
        sort_out(&self.url, self.names_only, verdict, result)
    }

    /// The extender's scores of the nodes that fit, 0 to 10. Errors are of no matter here.
    pub(super) async fn prioritize(
        &self,
        pod: &Value,
        cluster: &Cluster,
        fits: &[String],
    ) -> BTreeMap<String, i64> {
        let args = self.args(pod, cluster, fits);
        let result: Result<Vec<HostPriority>, _> = self.call("prioritize", &args).await;
        match result {
            Ok(list) => list.into_iter().map(|p| (p.host, p.score)).collect(),
            Err(error) => {
                tracing::warn!(%error, "the extender's scores are left out");
                BTreeMap::new()
            }
        }
    }

    /// Has the extender bind a pod.
    pub(super) async fn bind(
        &self,
        (namespace, name): &PodKey,
        uid: &str,
        node: &str,
    ) -> Result<(), ExtenderError> {
        let args = json!({"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node});
        let result: BindingResult = self.call("bind", &args).await?;
        match result.error.filter(|e| !e.is_empty()) {
            Some(error) => Err(ExtenderError::Refused(error)),
            None => Ok(()),
        }
    }

    fn args<'a>(&self, pod: &'a Value, cluster: &Cluster, names: &'a [String]) -> Args<'a> {
        let objects = || {
            let nodes = names.iter().filter_map(|name| cluster.nodes().get(name));
            let items: Vec<&Value> = nodes.map(|node| &node.object).collect();
            json!({"metadata": {}, "items": items})
        };
        Args {
            pod,
            nodes: (!self.names_only).then(objects),
            node_names: self.names_only.then_some(names),
        }
    }

    async fn call<T: serde::de::DeserializeOwned>(
        &self,
        verb: &'static str,
        args: &impl Serialize,
    ) -> Result<T, ExtenderError> {
        let failed = |why: String| ExtenderError::Call {
            verb,
            url: self.url.clone(),
            why,
        };
        let body = serde_json::to_vec(args).map_err(|e| failed(e.to_string()))?;
        let request = Request::post(format!("/{verb}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|e| failed(e.to_string()))?;
        match tokio::time::timeout(TIMEOUT, self.client.request(request)).await {
            Ok(answer) => answer.map_err(|e| failed(e.to_string())),
            Err(_) => Err(failed(format!("no answer within {} s", TIMEOUT.as_secs()))),
        }
    }
}

/// Applies a filter's result: a node in none of its lists is out, without a reason.
pub(super) fn sort_out(
    url: &str,
    names_only: bool,
    verdict: &mut Verdict,
    result: FilterResult,
) -> Result<(), ExtenderError> {
    if let Some(error) = result.error.filter(|e| !e.is_empty()) {
        return Err(ExtenderError::Refused(error));
    }
    let kept = if names_only {
        result.node_names.unwrap_or_default()
    } else {
        let nodes = result.nodes.unwrap_or_default();
        let items = field::list(&nodes, "/items").iter();
        items
            .map(|n| field::text(n, "/metadata/name").to_owned())
            .collect()
    };
    if let Some(node) = kept.iter().find(|name| !verdict.fits.contains(name)) {
        return Err(ExtenderError::Stranger {
            url: url.to_owned(),
            node: node.clone(),
        });
    }
    for (failed, unresolvable) in [
        (result.failed_nodes, false),
        (result.failed_and_unresolvable_nodes, true),
    ] {
        for (name, reason) in failed.unwrap_or_default() {
            verdict
                .rejected
                .insert(name, Rejection::by_extender(reason, unresolvable));
        }
    }
    verdict.fits.retain(|name| kept.contains(name));
    Ok(())
}

#[cfg(test)]
#[path = "extender_tests.rs"]
mod tests;
