//! Two extenders that share a lease: one decides, either may go.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{Api, api::ListParams};
use model::annotation::read_plan;
use serde_json::json;
use testbed::{
    cluster::Cluster,
    stage::{Deadline, EXTENDER_LEASE, Part, Signal, Stage, get, post_json, until},
    workload::Workload,
};

use crate::{
    ground::{Ground, names::GPU},
    stand_ins::StandIns,
};

/// Each takes one of 8 cards for a second: cards change hands all the time.
const PODS: usize = 24;

/// From the signal to another holder: a lease that ran out, or one that was given back.
fn takeover(signal: Signal) -> Duration {
    match signal {
        Signal::Kill => Duration::from_secs(13),
        Signal::Term => Duration::from_secs(4),
    }
}

/// More pods than cards are made; while they are bound and run the leading extender ends. The
/// other one, ready all the time, leads soon; every pod runs, and none is promised a card that
/// another one has. Then the first one comes back, and the new leader ends in its turn.
pub async fn the_leading_extender_goes(ground: &StandIns, signal: Signal) -> anyhow::Result<()> {
    let cluster = ground.cluster();
    for round in 0..2 {
        let name = |number: usize| format!("round-{round}-{number}");
        let leader = leading(ground.stage()).await?;
        let follower = 1 - leader;
        the_follower_passes_calls_on(ground.stage(), follower).await?;
        for number in 0..PODS {
            let pod = Workload::one(&name(number), &[(GPU, 1)]).runs_for(1);
            cluster.create(&pod).await?;
        }
        let goes = async {
            have_succeeded(cluster, 6).await?;
            one_goes(ground.stage(), leader, signal).await?;
            have_succeeded(cluster, PODS).await
        };
        let always = always_holds(ground, follower);
        tokio::select! {
            done = goes => done?,
            broken = always => return broken,
        }
        ground.stage().start_part(Part::Extender(leader))?;
        is_ready(ground.stage(), leader).await?;
        for number in 0..PODS {
            cluster.delete(&name(number)).await?;
        }
        ground.books_are_empty().await?;
    }
    Ok(())
}

/// Ends only where something does not hold.
async fn always_holds(ground: &StandIns, follower: usize) -> anyhow::Result<()> {
    let url = readyz(ground.stage(), follower)?;
    loop {
        get(&url).await.context("the follower was not ready")?;
        no_card_is_promised_twice(ground.cluster()).await?;
        // Between two looks.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// As the API server has it at one moment, whatever the programs think.
async fn no_card_is_promised_twice(cluster: &Cluster) -> anyhow::Result<()> {
    let mut taken = BTreeSet::new();
    for pod in pods(cluster).await? {
        let phase = pod.status.unwrap_or_default().phase.unwrap_or_default();
        if ["Succeeded", "Failed"].contains(&phase.as_str()) {
            continue;
        }
        let annotations = pod.metadata.annotations.unwrap_or_default();
        let keys = &cluster.settings().annotations;
        let plan = annotations
            .get(&keys.allocated)
            .or_else(|| annotations.get(&keys.assigned));
        let Some(plan) = plan else { continue };
        for grant in read_plan(plan)?.containers.iter().flat_map(|c| &c.grants) {
            ensure!(
                taken.insert(grant.card.clone()),
                "{} is promised to {:?} and to another pod",
                grant.card,
                pod.metadata.name
            );
        }
    }
    Ok(())
}

async fn pods(cluster: &Cluster) -> anyhow::Result<Vec<Pod>> {
    Ok(cluster.pods().list(&ListParams::default()).await?.items)
}

async fn one_goes(stage: &Stage, leader: usize, signal: Signal) -> anyhow::Result<()> {
    let follower = 1 - leader;
    let since = Instant::now();
    stage.stop_part(Part::Extender(leader), signal).await?;
    until(
        "the other extender to lead",
        Deadline::after(takeover(signal)),
        || async {
            match leading(stage).await {
                Ok(now) if now == follower => Ok(()),
                Ok(_) => Err("the one that ended has the lease".to_owned()),
                Err(error) => Err(format!("{error:#}")),
            }
        },
    )
    .await?;
    eprintln!("{signal:?}: another leads after {:?}", since.elapsed());
    Ok(())
}

/// Which replica the lease names.
async fn leading(stage: &Stage) -> anyhow::Result<usize> {
    let (namespace, name) = EXTENDER_LEASE.split_once('/').context("a name")?;
    let leases: Api<Lease> = Api::namespaced(stage.client(), namespace);
    until("the lease", Deadline::seconds(15), || async {
        let lease = leases.get(name).await.map_err(|e| e.to_string())?;
        let holder = lease.spec.unwrap_or_default().holder_identity;
        let holder = holder.unwrap_or_default();
        (0..stage.layout().extenders())
            .find(|replica| {
                let address = stage.layout().extender_address(*replica);
                holder.contains(&format!("_{address}_"))
            })
            .ok_or(format!("its holder is {holder:?}"))
    })
    .await
}

/// What is asked of the follower is answered by the leader, once and in whole.
async fn the_follower_passes_calls_on(stage: &Stage, follower: usize) -> anyhow::Result<()> {
    let url = format!("http://{}", stage.layout().extender_address(follower));
    let pod = json!({"metadata": {"name": "asked", "namespace": "default", "uid": "asked"},
        "spec": {"containers": [{"name": "main", "resources": {"limits": {GPU: "1"}}}]}});
    let question = json!({"Pod": pod, "NodeNames": [stage.layout().node_name(0), "unknown"]});
    until("the leader to answer", Deadline::seconds(10), || async {
        let failed = |error: anyhow::Error| format!("{error:#}");
        let filter = format!("{url}/filter");
        let answer = post_json(&filter, question.to_string());
        let answer: serde_json::Value =
            serde_json::from_str(&answer.await.map_err(failed)?).map_err(|e| e.to_string())?;
        if answer["NodeNames"] != json!([stage.layout().node_name(0)]) {
            return Err(answer.to_string());
        }
        get(&format!("{url}/snapshot"))
            .await
            .map(drop)
            .map_err(failed)
    })
    .await?;
    let metrics = get(&format!("{}/metrics", admin(stage, follower)?)).await?;
    ensure!(
        metrics.contains("lj_runtimekit_scheduler_leader 0")
            && metrics.contains("forwarded_calls_total{outcome=\"answered\"}"),
        "{metrics}"
    );
    Ok(())
}

fn admin(stage: &Stage, replica: usize) -> anyhow::Result<String> {
    let url = Part::Extender(replica).admin_url(stage.layout());
    url.context("no admin server")
}

fn readyz(stage: &Stage, replica: usize) -> anyhow::Result<String> {
    Ok(format!("{}/readyz", admin(stage, replica)?))
}

async fn is_ready(stage: &Stage, replica: usize) -> anyhow::Result<()> {
    let url = readyz(stage, replica)?;
    until("the extender to be ready", Deadline::seconds(20), || {
        let answer = get(&url);
        async { answer.await.map(drop).map_err(|e| format!("{e:#}")) }
    })
    .await
}

/// Waits until so many pods have succeeded; one that failed is an error at once.
async fn have_succeeded(cluster: &Cluster, wanted: usize) -> anyhow::Result<()> {
    until("pods to succeed", Deadline::seconds(120), || async {
        let mut succeeded = 0;
        for pod in pods(cluster).await.map_err(|e| format!("{e:#}"))? {
            let status = pod.status.unwrap_or_default();
            match status.phase.as_deref() {
                Some("Succeeded") => succeeded += 1,
                Some("Failed") => {
                    let text = format!("{:?} failed: {:?}", pod.metadata.name, status.message);
                    return Ok(Err(anyhow::anyhow!(text)));
                }
                _ => {}
            }
        }
        if succeeded >= wanted {
            return Ok(Ok(()));
        }
        Err(format!("{succeeded} of {wanted} have"))
    })
    .await?
}
