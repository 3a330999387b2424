//! Deploying again: other names, another version.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use testbed::{
    stage::{Deadline, until},
    workload::Workload,
};

use tokio::sync::watch;

use super::{Lab, SOON, deploy_folder};
use crate::{
    ground::{
        Ground, WHOLE_NODE,
        names::{CORE, MEMORY},
    },
    short_pods,
};

const NEW_CORE: &str = "example.com/core";
const NEW_MEMORY: &str = "example.com/memory";

/// A rename in the `ConfigMap`, deployed: the new names appear, nothing more is offered under the
/// old ones, running pods stay as they are; and back. That the names go from the nodes is looked
/// at last, because kubelet takes 5 minutes for it.
pub async fn rename(lab: &Lab) -> anyhow::Result<()> {
    let cluster = lab.cluster();
    let deadline = || Deadline::seconds(SOON);
    let keeper = Workload::one("keeper", &[(CORE, 20), (MEMORY, 10)]);
    cluster.create(&keeper).await?;
    cluster.pod_is("keeper", "Running", deadline()).await?;
    let before = cluster.allocated("keeper", deadline()).await?;

    let renamed = copy_of_deploy(lab, &[(CORE, NEW_CORE), (MEMORY, NEW_MEMORY)]).await?;
    lab.deploy(&renamed, &[]).await?;
    lab.offers("node-1", &[(NEW_CORE, 800), (NEW_MEMORY, 1152)])
        .await?;
    until("the old names to offer nothing", deadline(), || async {
        let now = cluster.node_resources("node-1").await;
        let now = now.map_err(|e| format!("{e:#}"))?;
        let offered = |name: &str| now.get(name).is_some_and(|(_, free)| free != "0");
        if offered(CORE) || offered(MEMORY) {
            Err(format!("{now:?}"))
        } else {
            Ok(())
        }
    })
    .await?;
    let now = cluster.allocated("keeper", deadline()).await?;
    ensure!(now == before, "keeper had {before:?}, now {now:?}");
    cluster.pod_is("keeper", "Running", deadline()).await?;
    let newcomer = Workload::one("newcomer", &[(NEW_CORE, 30), (NEW_MEMORY, 20)]);
    cluster.create(&newcomer).await?;
    cluster.pod_is("newcomer", "Running", deadline()).await?;

    cluster.delete("newcomer").await?;
    lab.deploy(&deploy_folder(), &[]).await?;
    lab.offers("node-1", &WHOLE_NODE).await?;
    let now = cluster.allocated("keeper", deadline()).await?;
    ensure!(now == before, "keeper had {before:?}, now {now:?}");
    cluster.pod_is("keeper", "Running", deadline()).await
}

/// The deploy folder with other names in its `ConfigMap`.
async fn copy_of_deploy(lab: &Lab, names: &[(&str, &str)]) -> anyhow::Result<PathBuf> {
    let copy = lab.folder().join("deploy-renamed");
    let status = tokio::process::Command::new("cp")
        .arg("-r")
        .args([&deploy_folder(), &copy])
        .status()
        .await?;
    ensure!(status.success(), "cp: {status}");
    let file = copy.join("00-config.yaml");
    let mut text = std::fs::read_to_string(&file)?;
    for (old, new) in names {
        let (old, new) = (format!("name: {old}\n"), format!("name: {new}\n"));
        ensure!(text.contains(&old), "no {old:?} in {}", file.display());
        text = text.replace(&old, &new);
    }
    std::fs::write(&file, text)?;
    Ok(copy)
}

/// Each component alone to the next version and back, under a steady stream of short pods: none
/// of them fails for it.
pub async fn upgrade_and_rollback(lab: &Lab) -> anyhow::Result<()> {
    let next = std::env::var("E2E_NEXT").context("E2E_NEXT: the tag to upgrade to")?;
    let (stop, stopped) = watch::channel(false);
    let made = watch::Sender::new(0);
    let stream = short_pods(lab.cluster(), stopped, &made);
    let changes = async {
        let components = [
            ("device-plugin", "lj-runtimekit-device-plugin"),
            ("scheduler", "lj-runtimekit-scheduler"),
            ("exporter", "lj-runtimekit-exporter"),
            ("controller", "lj-runtimekit-controller"),
        ];
        for (component, app) in components {
            for version in [next.as_str(), env!("CARGO_PKG_VERSION")] {
                let component = format!("--components={component}");
                lab.deploy(
                    &deploy_folder(),
                    &[&component, &format!("--version={version}")],
                )
                .await?;
                lab.rolled_out(app).await?;
                for pod in lab.present(app).await? {
                    let spec = pod.spec.unwrap_or_default();
                    let images: Vec<_> = spec
                        .containers
                        .iter()
                        .filter_map(|c| c.image.as_ref())
                        .collect();
                    let wanted = format!("{app}:{version}");
                    ensure!(images == [&wanted], "{app} runs {images:?}, not {wanted}");
                }
            }
        }
        stop.send_replace(true);
        anyhow::Ok(())
    };
    let (pods, ()) = tokio::try_join!(stream, changes)?;
    ensure!(pods >= 40, "only {pods} pods ran meanwhile");
    lab.books_are_empty().await
}
