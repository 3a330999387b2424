//! The part of a Runtime that the device plugin and the exporter call. It grants everything at
//! once and measures what it is told to, so that nothing of its own is measured.

use std::{
    collections::BTreeMap,
    path::Path,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::{Stream, StreamExt as _, stream};
use runtime_proto::wire::{self, device_manager_server as server};
use tokio::net::UnixListener;
use tokio_stream::wrappers::{IntervalStream, UnixListenerStream};
use tonic::{Request, Response, Status, transport::Server};

use crate::cluster;

/// What is measured.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Measured {
    /// Values a card.
    pub(crate) of_card: usize,
    /// Values a container.
    pub(crate) of_container: usize,
}

/// A Runtime. Cheap to clone; all clones are one.
#[derive(Clone)]
pub(crate) struct Runtime {
    cards: u32,
    measured: Measured,
    book: Arc<Mutex<BTreeMap<String, wire::AllocateRequest>>>,
    turn: Arc<AtomicU32>,
}

impl Runtime {
    /// With that many cards, and nothing granted.
    pub(crate) fn new(cards: u32, measured: Measured) -> Self {
        Self {
            cards,
            measured,
            book: Arc::default(),
            turn: Arc::default(),
        }
    }

    /// Serves in that folder, under the socket's usual name.
    pub(crate) fn serve(&self, folder: &Path) -> anyhow::Result<()> {
        let listener = UnixListener::bind(folder.join("dp2mgr.sock"))?;
        let service = server::DeviceManagerServer::new(self.clone());
        let serving = Server::builder()
            .add_service(service)
            .serve_with_incoming(UnixListenerStream::new(listener));
        tokio::spawn(serving);
        Ok(())
    }

    /// What is granted, by allocation id.
    pub(crate) fn book(&self) -> MutexGuard<'_, BTreeMap<String, wire::AllocateRequest>> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(&self) -> Result<wire::CardList, Status> {
        let inventory = cluster::inventory(self.cards);
        let inventory = inventory.map_err(|error| Status::internal(error.to_string()))?;
        let link = |link: &model::card::Link| wire::Link {
            peer_card_id: link.peer.to_string(),
            bandwidth_bytes_per_second: link.bandwidth,
        };
        let cards = inventory.cards().iter().map(|card| wire::Card {
            id: card.id.to_string(),
            index: card.index,
            kind: wire::XpuKind::Ppu.into(),
            model: card.model.clone(),
            uuid: card.uuid.clone(),
            memory_bytes: card.memory.bytes(),
            health: wire::CardHealth::Healthy.into(),
            numa_node: card.numa,
            pcie_switch: card.switch.clone().unwrap_or_default(),
            links: card.links.iter().map(link).collect(),
            shareable: true,
            ..wire::Card::default()
        });
        Ok(wire::CardList {
            generation: 1,
            cards: cards.collect(),
        })
    }

    /// One collection. Values differ from the last, and are of the forms that real ones have.
    fn snapshot(&self) -> wire::MetricSnapshot {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let values = |count: usize, of: u32| {
            let value = |at: u32| match at % 3 {
                0 => f64::from((of * 7 + at + turn) % 1000) / 1000.0,
                1 => f64::from(of + turn) * 1_048_576.0,
                _ => f64::from(turn + at) * 12_345.5,
            };
            (0..).map(value).take(count).collect()
        };
        let cards = (0..self.cards).map(|card| wire::CardSample {
            card_id: format!("ppu-{card}"),
            values: values(self.measured.of_card, card),
        });
        let book = self.book();
        let containers = (0..).zip(book.values()).map(|(at, allocation)| {
            let grant = allocation.grants.first();
            wire::ContainerSample {
                card_id: grant.map(|g| g.card_id.clone()).unwrap_or_default(),
                allocation_id: allocation.allocation_id.clone(),
                consumer: allocation.consumer.clone(),
                values: values(self.measured.of_container, at),
            }
        });
        wire::MetricSnapshot {
            config_version: 1,
            timestamp_milliseconds: 1_764_567_890_500 + u64::from(turn) * 1000,
            cards: cards.collect(),
            containers: containers.collect(),
        }
    }
}

type Sent<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn not_here<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("nothing that is measured asks this"))
}

#[tonic::async_trait]
impl server::DeviceManager for Runtime {
    type ListAndWatchStream = Sent<wire::CardList>;
    type ExporterDataStreamStream = Sent<wire::MetricSnapshot>;

    async fn list_supported_xpu_type(
        &self,
        _: Request<wire::ListSupportedXpuTypeRequest>,
    ) -> Result<Response<wire::ListSupportedXpuTypeResponse>, Status> {
        not_here()
    }

    async fn list_and_watch(
        &self,
        _: Request<wire::ListAndWatchRequest>,
    ) -> Result<Response<Self::ListAndWatchStream>, Status> {
        let lists = stream::iter([self.list()]).chain(stream::pending());
        Ok(Response::new(Box::pin(lists)))
    }

    async fn allocate(
        &self,
        request: Request<wire::AllocateRequest>,
    ) -> Result<Response<wire::AllocateResponse>, Status> {
        let request = request.into_inner();
        let node = |path: String| wire::DeviceNode {
            container_path: path.clone(),
            host_path: path,
            permissions: "rw".into(),
        };
        let cards = request.grants.iter().map(|grant| grant.card_id.as_str());
        let of_cards = cards.clone().map(|card| node(format!("/dev/{card}")));
        let control = ["/dev/ppu_ctl", "/dev/ppu_uvm"].map(|path| node(path.into()));
        let visible = cards.collect::<Vec<_>>().join(",");
        let answer = wire::AllocateResponse {
            environment: [("PPU_VISIBLE_DEVICES".into(), visible)].into(),
            device_nodes: of_cards.chain(control).collect(),
            ..wire::AllocateResponse::default()
        };
        self.book().insert(request.allocation_id.clone(), request);
        Ok(Response::new(answer))
    }

    async fn release(
        &self,
        request: Request<wire::ReleaseRequest>,
    ) -> Result<Response<wire::ReleaseResponse>, Status> {
        let mut book = self.book();
        let ids = request.into_inner().allocation_ids.into_iter();
        let released = ids.filter(|id| book.remove(id).is_some()).collect();
        Ok(Response::new(wire::ReleaseResponse { released }))
    }

    async fn list_gpu_info(
        &self,
        _: Request<wire::ListGpuInfoRequest>,
    ) -> Result<Response<wire::ListGpuInfoResponse>, Status> {
        let list = self.list()?;
        let book = self.book();
        let allocations = book.values().map(|granted| wire::Allocation {
            allocation_id: granted.allocation_id.clone(),
            consumer: granted.consumer.clone(),
            grants: granted.grants.clone(),
        });
        Ok(Response::new(wire::ListGpuInfoResponse {
            generation: list.generation,
            cards: list.cards,
            allocations: allocations.collect(),
        }))
    }

    async fn exporter_get_config(
        &self,
        _: Request<wire::ExporterGetConfigRequest>,
    ) -> Result<Response<wire::ExporterGetConfigResponse>, Status> {
        let metric = |scope: wire::MetricScope, word, at| wire::MetricDescriptor {
            name: format!("accel_{word}_measured_{at}_bytes"),
            help: "What a Runtime measures.".into(),
            r#type: wire::MetricType::Gauge.into(),
            scope: scope.into(),
        };
        let of_cards =
            (0..self.measured.of_card).map(|at| metric(wire::MetricScope::Card, "card", at));
        let of_containers = (0..self.measured.of_container)
            .map(|at| metric(wire::MetricScope::Container, "container", at));
        Ok(Response::new(wire::ExporterGetConfigResponse {
            config_version: 1,
            metrics: of_cards.chain(of_containers).collect(),
            collection_interval_milliseconds: 1000,
        }))
    }

    async fn exporter_get_data_list(
        &self,
        _: Request<wire::ExporterGetDataListRequest>,
    ) -> Result<Response<wire::MetricSnapshot>, Status> {
        Ok(Response::new(self.snapshot()))
    }

    async fn exporter_data_stream(
        &self,
        request: Request<wire::ExporterDataStreamRequest>,
    ) -> Result<Response<Self::ExporterDataStreamStream>, Status> {
        let every = request.into_inner().interval_milliseconds.max(100);
        let ticks = tokio::time::interval(Duration::from_millis(every.into()));
        let runtime = self.clone();
        let collections = IntervalStream::new(ticks).map(move |_| Ok(runtime.snapshot()));
        Ok(Response::new(Box::pin(collections)))
    }

    async fn exporter_get_status(
        &self,
        _: Request<wire::ExporterGetStatusRequest>,
    ) -> Result<Response<wire::ExporterGetStatusResponse>, Status> {
        not_here()
    }
}
