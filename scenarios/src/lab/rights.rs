//! What each service account asked of the API server, against what its roles grant.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::{Api, api::ListParams};
use serde_json::Value;
use testbed::stage::{Deadline, get, until};

use super::{Lab, NAMESPACE, SOON};
use crate::ground::Ground;

/// `verb group/resource/subresource`
type Right = String;

/// Programs with roles of their own. kube-scheduler's are Kubernetes' own.
const ACCOUNTS: [&str; 4] = [
    "lj-runtimekit-device-plugin",
    "lj-runtimekit-scheduler",
    "lj-runtimekit-exporter",
    "lj-runtimekit-controller",
];

/// Only asked when a write meets somebody else's, which no scenario brings about; the controller's
/// own tests do.
const ON_CONFLICT: [&str; 2] = [
    "lj-runtimekit-controller: get /nodes",
    "lj-runtimekit-controller: get batch/jobs",
];

/// Nobody was refused anything, and no right was granted that nobody used.
pub async fn rights(lab: &Lab) -> anyhow::Result<()> {
    // The exporter asks when it is scraped, and the API server only where kubelet's read-only port
    // is closed, as on the second node.
    lab.switch_on(2).await?;
    until(
        "the exporter to answer",
        Deadline::seconds(SOON),
        || async {
            let answer = get("http://10.77.0.12:9501/metrics").await;
            answer.map(drop).map_err(|e| format!("{e:#}"))
        },
    )
    .await?;
    lab.cluster().label_node("node-2", false).await?;
    let log = std::fs::read_to_string(lab.folder().join("logs/audit.log"))?;
    let mut used: BTreeMap<String, BTreeSet<Right>> = BTreeMap::new();
    let (mut allowed, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for line in log.lines() {
        // The last line may be half-written.
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let name = event["user"]["username"].as_str().unwrap_or_default();
        let prefix = format!("system:serviceaccount:{NAMESPACE}:");
        let Some(account) = name.strip_prefix(&prefix) else {
            continue;
        };
        if !account.starts_with("lj-runtimekit") {
            continue;
        }
        let right = asked(&event);
        let namespace = event["objectRef"]["namespace"].as_str().unwrap_or("none");
        let named = format!("{account}: {right}, namespace {namespace}");
        if event["responseStatus"]["code"] == 403 {
            refused.insert(named);
        } else {
            allowed.insert(named);
            used.entry(account.to_owned()).or_default().insert(right);
        }
    }
    // An API server that has just started doesn't know its roles yet, and refuses for a moment what
    // it allows at any other time.
    let refused: Vec<_> = refused.difference(&allowed).collect();
    ensure!(refused.is_empty(), "refused: {refused:#?}");

    let mut unused = Vec::new();
    for account in ACCOUNTS {
        let asked = used
            .get(account)
            .with_context(|| format!("{account} asked nothing"))?;
        for right in granted(lab, account).await? {
            let named = format!("{account}: {right}");
            if !asked.contains(&right) && !ON_CONFLICT.contains(&named.as_str()) {
                unused.push(named);
            }
        }
    }
    ensure!(unused.is_empty(), "granted and never used: {unused:#?}");
    Ok(())
}

fn asked(event: &Value) -> Right {
    let object = &event["objectRef"];
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let mut resource = format!("{}/{}", text("apiGroup"), text("resource"));
    if !text("subresource").is_empty() {
        resource = format!("{resource}/{}", text("subresource"));
    }
    format!("{} {resource}", event["verb"].as_str().unwrap_or_default())
}

async fn granted(lab: &Lab, account: &str) -> anyhow::Result<BTreeSet<Right>> {
    let labelled = ListParams::default().labels(&format!("app={account}"));
    let cluster: Api<ClusterRole> = Api::all(lab.client());
    let namespaced: Api<Role> = Api::all(lab.client());
    let mut rules: Vec<PolicyRule> = Vec::new();
    for role in cluster.list(&labelled).await? {
        rules.extend(role.rules.unwrap_or_default());
    }
    for role in namespaced.list(&labelled).await? {
        rules.extend(role.rules.unwrap_or_default());
    }
    ensure!(!rules.is_empty(), "{account} has no role");
    let mut all = BTreeSet::new();
    for rule in rules {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for verb in &rule.verbs {
                    all.insert(format!("{verb} {group}/{resource}"));
                }
            }
        }
    }
    Ok(all)
}
