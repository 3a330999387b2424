//! The stand-ins of `testbed`.

use anyhow::{bail, ensure};
use model::{
    quantity::MemoryUnit,
    settings::{Gives, Settings},
};
use testbed::{
    books::{self, Books, Sources},
    cluster::Cluster,
    stage::{Deadline, Options, Part, Signal, Stage, get},
};

use crate::ground::{Ground, Victim, WHOLE_NODE, names};

/// So small that kubelet takes its memory counted in MiB.
const TWO_SMALL_CARDS: &str = "\
kind: ppu
model: PPU-40G
cards: 2
memoryGiB: 40
device: /dev/ppu{index}
cdi: alibabacloud.com/ppu
idleWatts: 50
mostWatts: 300
mostMegahertz: 1500
";

/// The stand-ins of `testbed`.
pub struct StandIns {
    stage: Stage,
    cluster: Cluster,
}

impl StandIns {
    /// One node of 8 PPU cards, switched on.
    pub async fn ready() -> anyhow::Result<Self> {
        Self::ready_with(Options::default()).await
    }

    async fn ready_with(options: Options) -> anyhow::Result<Self> {
        let ground = Self::with(options, Settings::default()).await?;
        ground.switch_on(&WHOLE_NODE).await?;
        Ok(ground)
    }

    /// One node of 2 cards of 40 GiB whose memory is counted in MiB, switched on.
    pub async fn in_mib() -> anyhow::Result<Self> {
        let mut settings = Settings::default();
        for resource in &mut settings.resources {
            if resource.gives == Gives::Memory {
                resource.unit = Some(MemoryUnit::Mib);
            }
        }
        let options = Options {
            profiles: vec![TWO_SMALL_CARDS.into()],
            settings: Some(serde_json::to_string(&settings)?),
            ..Options::default()
        };
        let ground = Self::with(options, settings).await?;
        let wanted = [
            (names::PPU, 2),
            (names::GPU, 2),
            (names::CORE, 200),
            (names::MEMORY, 81920),
        ];
        ground.switch_on(&wanted).await?;
        Ok(ground)
    }

    /// Like [`StandIns::ready`], with a Runtime that forgets its book when it restarts.
    pub async fn forgetful() -> anyhow::Result<Self> {
        Self::ready_with(Options {
            forgetful_runtime: true,
            ..Options::default()
        })
        .await
    }

    /// Like [`StandIns::ready`], with a kubelet that gives a resource without plugin up after 5
    /// seconds.
    pub async fn with_short_grace() -> anyhow::Result<Self> {
        Self::ready_with(Options {
            capacity_grace: Some(5),
            ..Options::default()
        })
        .await
    }

    /// Like [`StandIns::ready`], with two extenders that share a lease.
    pub async fn with_two_extenders() -> anyhow::Result<Self> {
        Self::ready_with(Options {
            extenders: 2,
            ..Options::default()
        })
        .await
    }

    /// Everything started, nothing labelled. `settings` must be what `options.settings` says.
    pub async fn with(mut options: Options, settings: Settings) -> anyhow::Result<Self> {
        if options.profiles.is_empty() {
            options.profiles.push("ppu-8x144".into());
        }
        let stage = Stage::start(options).await?;
        let cluster = Cluster::new(stage.client(), settings);
        let ground = Self { stage, cluster };
        testbed::stage::until("the node to register", Deadline::seconds(30), || async {
            let node = ground.node(0);
            ground
                .cluster
                .node_resources(&node)
                .await
                .map(drop)
                .map_err(|e| format!("{e:#}"))
        })
        .await?;
        Ok(ground)
    }

    /// Labels node 0 and waits for its resources.
    pub async fn switch_on(&self, wanted: &[(&str, u64)]) -> anyhow::Result<()> {
        let node = self.node(0);
        self.cluster.label_node(&node, true).await?;
        self.cluster
            .resources_are(&node, wanted, Deadline::seconds(40))
            .await
    }

    /// The outcome of a scenario; with the ends of all logs where it failed.
    pub fn seen<T>(&self, outcome: anyhow::Result<T>) -> anyhow::Result<T> {
        if outcome.is_err() {
            for part in self.stage.parts() {
                eprintln!("--- {part}\n{}", self.stage.log_tail(part));
            }
        }
        outcome
    }

    fn sources(&self, number: usize) -> Sources {
        let layout = self.stage.layout();
        Sources {
            client: self.stage.client(),
            node: layout.node_name(number),
            pod_resources: layout
                .kubelet_root(number)
                .join("pod-resources/kubelet.sock"),
            runtime: layout.runtime_folder(number),
        }
    }

    /// Every part that can be ended.
    pub fn victims() -> Vec<Victim> {
        let all = Victim::ALL.into_iter();
        all.filter(|v| part(*v).is_ok()).collect()
    }

    /// The processes.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// Ends everything; a part that had ended by itself is an error.
    pub async fn end(self) -> anyhow::Result<()> {
        let dead = self.stage.dead();
        ensure!(dead.is_empty(), "ended by itself: {dead:?}");
        self.stage.end().await
    }
}

fn part(victim: Victim) -> anyhow::Result<Part> {
    Ok(match victim {
        Victim::ApiServer => Part::ApiServer,
        Victim::Kubelet => Part::Kubelet(0),
        Victim::Runtime => Part::Runtime(0),
        Victim::DevicePlugin => Part::DevicePlugin(0),
        Victim::Exporter => Part::Exporter(0),
        Victim::Extender => Part::Extender(0),
        Victim::KubeScheduler => Part::KubeScheduler,
        Victim::Controller => Part::Controller,
        Victim::Etcd | Victim::Containerd => bail!("the stand-ins have no {victim:?}"),
    })
}

impl Ground for StandIns {
    fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    fn node(&self, number: usize) -> String {
        self.stage.layout().node_name(number)
    }

    async fn metrics(&self) -> anyhow::Result<String> {
        get(&self.stage.layout().metrics_url(0)).await
    }

    async fn books(&self) -> anyhow::Result<Books> {
        books::agree(
            &self.sources(0),
            self.cluster.settings(),
            Deadline::seconds(40),
        )
        .await
    }

    async fn books_now(&self, number: usize) -> anyhow::Result<Books> {
        Books::read(&self.sources(number), self.cluster.settings()).await
    }

    fn node_count(&self) -> usize {
        self.stage.layout().nodes()
    }

    async fn books_are_empty(&self) -> anyhow::Result<()> {
        books::are_empty(
            &self.sources(0),
            self.cluster.settings(),
            Deadline::seconds(40),
        )
        .await
    }

    async fn extender(
        &self,
        verb: &str,
        body: &serde_json::Value,
    ) -> anyhow::Result<serde_json::Value> {
        let url = format!("{}/{verb}", self.stage.layout().extender_url());
        Ok(serde_json::from_str(
            &testbed::stage::post_json(&url, body.to_string()).await?,
        )?)
    }

    async fn runtime_fault(&self, number: usize, fault: &str) -> anyhow::Result<()> {
        let control = self.stage.layout().runtime_control_url(number);
        testbed::stage::post(&format!("{control}/faults/{fault}"))
            .await
            .map(drop)
    }

    async fn stop(&self, victim: Victim, signal: Signal) -> anyhow::Result<()> {
        self.stage.stop_part(part(victim)?, signal).await
    }

    async fn start(&self, victim: Victim) -> anyhow::Result<()> {
        self.stage.start_part(part(victim)?)?;
        if victim == Victim::ApiServer {
            self.stage.api_server_answers().await
        } else {
            Ok(())
        }
    }
}
