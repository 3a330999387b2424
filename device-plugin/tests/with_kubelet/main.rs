//! The whole device plugin between a simulated Runtime and a kubelet made for these tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    missing_docs,
    unreachable_pub,
    reason = "a test fails by panicking, and is read with its source"
)]

mod old_kubelets;
mod plugins_registry;
mod world;

use std::os::unix::fs::MetadataExt as _;

use clap::Parser;
use device_plugin::Args;
use kit::Chassis;
use model::{
    annotation::{read_inventory, read_plan, write_plan},
    name::{CardId, ContainerName},
    plan::{ContainerGrants, Grant, GrantMode, Plan},
    quantity::{CorePercent, MemoryBytes},
};
use runtime_sim::{Fault, Options, Profile, Sim, fault::CardFault};
use serde_json::{Value, json};
use tempfile::TempDir;
use world::{NODE, World, until};

const GPU: &str = "aliyun.com/gpu";
const PPU: &str = "alibabacloud.com/ppu";
const CORE: &str = "aliyun.com/gpu-core";
const MEMORY: &str = "aliyun.com/gpu-memory";
const ALL: [&str; 4] = [GPU, PPU, CORE, MEMORY];

struct Stage {
    folder: TempDir,
    world: World,
    url: String,
}

impl Stage {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let world = World::new(folder.path());
        let url = world.start_http().await;
        Self { folder, world, url }
    }

    fn runtime(&self) -> Sim {
        let profile = Profile::load("ppu-8x144").unwrap();
        let mut options = Options::quick(&self.folder.path().join("runtime"), profile);
        options.state = Some(self.folder.path().join("runtime.json"));
        Sim::start(options).unwrap()
    }

    /// The plugin, in this process.
    async fn plugin(&self) -> Chassis {
        self.plugin_with(&[]).await
    }

    async fn plugin_with(&self, more: &[&str]) -> Chassis {
        let folder = self.folder.path();
        let runtime = folder.join("runtime");
        let args = [
            "lj-runtimekit-device-plugin".as_ref(),
            "--node-name".as_ref(),
            NODE.as_ref(),
            "--runtime-dir".as_ref(),
            runtime.as_os_str(),
            "--kubelet-dir".as_ref(),
            folder.as_os_str(),
            "--kubelet-read-only-url".as_ref(),
            self.url.as_ref(),
            "--api-server".as_ref(),
            self.url.as_ref(),
            "--runtime-grace".as_ref(),
            "0.2".as_ref(),
            "--reconcile-interval".as_ref(),
            "0.2".as_ref(),
        ];
        let args = Args::parse_from(args.into_iter().chain(more.iter().map(AsRef::as_ref)));
        let chassis = Chassis::default();
        device_plugin::run(args, chassis.clone()).await.unwrap();
        chassis
    }

    async fn ready(&self, chassis: &Chassis) {
        until("ready", || chassis.readiness.unmet().is_empty()).await;
    }

    fn healthy(&self, resource: &str) -> usize {
        let inner = self.world.lock();
        let list = inner.lists.get(resource);
        list.map_or(0, |l| l.values().filter(|h| *h == "Healthy").count())
    }

    /// Ends the plugin and waits until its sockets are gone.
    async fn end(&self, chassis: Chassis) {
        chassis.tasks.shutdown_token().cancel();
        let folders = [self.world.plugins(), self.world.registry()];
        until("the plugin's sockets are gone", || {
            folders.iter().all(|f| sockets(f).is_empty())
        })
        .await;
    }
}

/// Ours in that folder, and which file each is.
fn sockets(folder: &std::path::Path) -> Vec<(String, u64, i64)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|e| {
            let name = e.file_name().into_string().unwrap();
            let meta = e.metadata().ok()?;
            name.starts_with("lj-")
                .then(|| (name, meta.ino(), meta.ctime_nsec()))
        })
        .collect()
}

fn share(card: &str, core: u32, gib: u64) -> Grant {
    Grant {
        card: CardId::new(card).unwrap(),
        mode: GrantMode::Share {
            core: CorePercent::new(core),
            memory: MemoryBytes::from_gib(gib),
        },
    }
}

fn plan(grants: &[Grant]) -> Plan {
    Plan {
        containers: vec![ContainerGrants {
            container: ContainerName::new("main").unwrap(),
            grants: grants.to_vec(),
        }],
    }
}

fn pod(name: &str, limits: &[(&str, u64)], assigned: Option<&Plan>) -> Value {
    let limits: serde_json::Map<String, Value> = limits
        .iter()
        .map(|(r, n)| ((*r).to_owned(), json!(n.to_string())))
        .collect();
    let mut annotations = json!({});
    if let Some(plan) = assigned {
        annotations["lj-runtimekit/assigned"] = json!(write_plan(plan));
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-{name}"),
            "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": annotations,
        },
        "spec": {
            "nodeName": NODE,
            "containers": [{"name": "main", "resources": {"limits": limits}}],
        },
        "status": {"phase": "Pending"},
    })
}

fn granted(sim: &Sim) -> Vec<(String, Vec<Grant>)> {
    let mut all: Vec<(String, Vec<Grant>)> =
        sim.book().into_iter().map(|a| (a.id, a.grants)).collect();
    all.sort();
    all
}

#[tokio::test]
async fn registers_everything_and_gives_each_pod_the_card_of_its_plan() {
    let stage = Stage::new().await;
    let sim = stage.runtime();
    let _kubelet = stage.world.start_kubelet();
    let plugin = stage.plugin().await;
    stage.ready(&plugin).await;
    let counts = ALL.map(|r| stage.healthy(r));
    assert_eq!(counts, [8, 8, 800, 1152]);

    let far = plan(&[share("ppu-5", 50, 24)]);
    let limits: &[(&str, u64)] = &[(CORE, 50), (MEMORY, 24)];
    let answers = stage
        .world
        .admit(pod("planned", limits, Some(&far)))
        .await
        .unwrap();
    // Both calls of the container are answered the same.
    assert_eq!(answers["main"].len(), 2);
    assert_eq!(answers["main"][0], answers["main"][1]);
    assert!(!answers["main"][0].envs.is_empty());
    stage
        .world
        .admit(pod("whole", &[(GPU, 2)], None))
        .await
        .unwrap();
    let book = granted(&sim);
    assert_eq!(
        book[0],
        ("uid-planned/main".to_owned(), vec![share("ppu-5", 50, 24)])
    );
    assert_eq!(book[1].1.len(), 2);

    until("the truth is on the pods", || {
        ["planned", "whole"].iter().all(|p| {
            let text = stage.world.annotation(p, "lj-runtimekit/allocated");
            text.is_some_and(|t| read_plan(&t).is_ok())
        })
    })
    .await;
    let text = stage.world.annotation("planned", "lj-runtimekit/allocated");
    assert_eq!(read_plan(&text.unwrap()).unwrap(), far);
    let node = stage.world.lock().node.clone();
    let annotations = &node["metadata"]["annotations"];
    let inventory = annotations["lj-runtimekit/inventory"].as_str().unwrap();
    let ids: Vec<String> = read_inventory(inventory)
        .unwrap()
        .cards
        .cards()
        .iter()
        .map(|c| c.id.to_string())
        .collect();
    let all: Vec<String> = (0..8).map(|i| format!("ppu-{i}")).collect();
    assert_eq!(ids, all);
    let owned = annotations["lj-runtimekit/owned-resources"]
        .as_str()
        .unwrap();
    assert_eq!(serde_json::from_str::<Vec<String>>(owned).unwrap().len(), 4);

    // The end of a pod frees its cards everywhere.
    stage.world.delete("whole");
    until("released", || granted(&sim).len() == 1).await;
    stage.end(plugin).await;
}

#[tokio::test]
async fn a_restarted_kubelet_has_everything_again_and_running_pods_are_untouched() {
    let stage = Stage::new().await;
    let sim = stage.runtime();
    let kubelet = stage.world.start_kubelet();
    let plugin = stage.plugin().await;
    stage.ready(&plugin).await;
    stage
        .world
        .admit(pod("runs", &[(GPU, 1)], None))
        .await
        .unwrap();
    let before = granted(&sim);
    drop(kubelet);
    let _kubelet = stage.world.start_kubelet();
    until("registered twice", || {
        let registrations = stage.world.lock().registrations.clone();
        ALL.iter().all(|r| registrations.get(*r) == Some(&2))
    })
    .await;
    until("lists are back", || stage.healthy(MEMORY) == 1152).await;
    assert_eq!(granted(&sim), before);
    stage
        .world
        .admit(pod("next", &[(GPU, 7)], None))
        .await
        .unwrap();
    let refused = stage
        .world
        .admit(pod("none-left", &[(CORE, 10)], None))
        .await
        .unwrap_err();
    assert!(refused.message().contains("default/none-left"), "{refused}");
    stage.end(plugin).await;
}

/// Kubelet writes its record once a container has everything: one that is killed before that has
/// forgotten what the plugin answered, and calls again for the same pod.
#[tokio::test]
async fn a_kubelet_killed_before_it_wrote_its_record_is_answered_again() {
    let stage = Stage::new().await;
    let sim = stage.runtime();
    let kubelet = stage.world.start_kubelet();
    let plugin = stage.plugin().await;
    stage.ready(&plugin).await;
    let asks = pod("cut-off", &[(CORE, 40), (MEMORY, 20)], None);
    stage.world.admit(asks.clone()).await.unwrap();
    let before = granted(&sim);
    drop(kubelet);
    let nothing = std::collections::BTreeMap::new();
    stage.world.edit("cut-off", |pod| pod["status"] = json!({}));
    stage.world.lock().given.insert("cut-off".into(), nothing);
    let _kubelet = stage.world.start_kubelet();
    let record = stage.world.plugins().join("kubelet_internal_checkpoint");
    let empty = r#"{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":0}"#;
    std::fs::write(record, empty).unwrap();
    until("lists are back", || {
        stage.healthy(CORE) == 800 && stage.healthy(MEMORY) == 1152
    })
    .await;
    stage.world.delete("cut-off");
    stage.world.admit(asks).await.unwrap();
    assert_eq!(granted(&sim), before);
    stage.end(plugin).await;
}

#[tokio::test]
async fn a_pod_that_ended_while_the_plugin_was_down_is_released_and_the_others_stay() {
    let stage = Stage::new().await;
    let sim = stage.runtime();
    let _kubelet = stage.world.start_kubelet();
    let plugin = stage.plugin().await;
    stage.ready(&plugin).await;
    stage
        .world
        .admit(pod("stays", &[(CORE, 40)], None))
        .await
        .unwrap();
    stage
        .world
        .admit(pod("ends", &[(CORE, 40)], None))
        .await
        .unwrap();
    stage.end(plugin).await;
    stage
        .world
        .edit("ends", |pod| pod["status"] = json!({"phase": "Succeeded"}));
    stage.world.lock().given.remove("ends");

    let plugin = stage.plugin().await;
    stage.ready(&plugin).await;
    until("only one is left", || granted(&sim).len() == 1).await;
    assert_eq!(granted(&sim)[0].0, "uid-stays/main");
    stage
        .world
        .admit(pod("later", &[(CORE, 100)], None))
        .await
        .unwrap();
    stage.end(plugin).await;
}

#[tokio::test]
async fn a_runtime_that_lost_its_book_is_told_again() {
    let stage = Stage::new().await;
    let sim = stage.runtime();
    let _kubelet = stage.world.start_kubelet();
    let plugin = stage.plugin().await;
    stage.ready(&plugin).await;
    stage
        .world
        .admit(pod("runs", &[(CORE, 40)], None))
        .await
        .unwrap();
    let before = granted(&sim);
    drop(sim);
    std::fs::remove_file(stage.folder.path().join("runtime.json")).unwrap();
    until("its cards are unhealthy", || stage.healthy(CORE) == 0).await;
    assert_eq!(stage.world.lock().lists[CORE].len(), 800);
    let sim = stage.runtime();
    until("healthy again", || stage.healthy(CORE) == 800).await;
    until("told again", || granted(&sim) == before).await;
    stage.end(plugin).await;
}

#[tokio::test]
async fn a_lost_card_is_unhealthy_and_disturbs_nothing_else() {
    let stage = Stage::new().await;
    let sim = stage.runtime();
    let _kubelet = stage.world.start_kubelet();
    let plugin = stage.plugin().await;
    stage.ready(&plugin).await;
    let first = CardId::new("ppu-0").unwrap();
    let bad = Fault::Card(first, CardFault::Unhealthy("ECC".to_owned()));
    sim.fault(&bad).unwrap();
    until("one card is unhealthy", || stage.healthy(GPU) == 7).await;
    stage
        .world
        .admit(pod("all-others", &[(GPU, 7)], None))
        .await
        .unwrap();
    assert_eq!(granted(&sim)[0].1.len(), 7);
    stage.end(plugin).await;
}

#[tokio::test]
async fn without_cards_the_names_leave_the_node_s_status() {
    let stage = Stage::new().await;
    let sim = stage.runtime();
    let _kubelet = stage.world.start_kubelet();
    let plugin = stage.plugin().await;
    stage.ready(&plugin).await;
    let client = runtime_proto::Client::new(sim.sockets());
    client.disable("test").await.unwrap();
    until("the names are gone", || {
        let node = stage.world.lock().node.clone();
        let there = |field: &str| ALL.iter().any(|r| node["status"][field].get(r).is_some());
        !there("capacity") && !there("allocatable")
    })
    .await;
    assert_eq!(stage.world.lock().node["status"]["capacity"]["cpu"], "4");
    client.enable("test").await.unwrap();
    until("offered again", || stage.healthy(MEMORY) == 1152).await;
    stage.end(plugin).await;
}

#[tokio::test]
async fn a_refusing_runtime_fails_that_pod_alone() {
    let stage = Stage::new().await;
    let sim = stage.runtime();
    let _kubelet = stage.world.start_kubelet();
    let plugin = stage.plugin().await;
    stage.ready(&plugin).await;
    sim.fault(&Fault::RefuseAllocate(1)).unwrap();
    let refused = stage
        .world
        .admit(pod("unlucky", &[(GPU, 8)], None))
        .await
        .unwrap_err();
    assert!(
        refused.message().contains("the Runtime refused"),
        "{refused}"
    );
    stage
        .world
        .admit(pod("lucky", &[(GPU, 8)], None))
        .await
        .unwrap();
    assert_eq!(granted(&sim).len(), 1);
    stage.end(plugin).await;
}

#[tokio::test]
async fn before_the_runtime_is_there_nothing_is_offered_and_readiness_says_why() {
    let stage = Stage::new().await;
    let _kubelet = stage.world.start_kubelet();
    let plugin = stage.plugin().await;
    until("it says so", || {
        plugin
            .readiness
            .unmet()
            .iter()
            .any(|(name, why)| *name == "runtime" && why.contains("dp2mgr.sock"))
    })
    .await;
    assert!(stage.world.lock().registrations.is_empty());
    let _sim = stage.runtime();
    stage.ready(&plugin).await;
    stage.end(plugin).await;
}
