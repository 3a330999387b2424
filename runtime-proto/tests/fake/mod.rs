//! A Runtime that does as its script says, on a thread and a tokio runtime of its own: it can be
//! killed (all its connections break) and frozen (nothing answers, not even a ping).

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc as blocking,
    },
    thread::JoinHandle,
    time::Duration,
};

use futures_util::{Stream, StreamExt, stream};
use model::backoff::Backoff;
use runtime_proto::{
    Client, Sockets,
    client::Timing,
    wire::{
        self,
        device_manager_server::{DeviceManager, DeviceManagerServer},
    },
};
use tokio::{net::UnixListener, sync::oneshot};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status, service::Routes, transport::Server};

/// Everything in these tests ends by itself.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("within 20 s")
}

/// Quick enough for tests.
pub(crate) fn timing() -> Timing {
    Timing {
        backoff: Backoff::new(Duration::from_millis(10), Duration::from_millis(40)),
        ..Timing::standard()
    }
}

pub(crate) fn client(folder: &Path, timing: Timing) -> Client {
    Client::with_timing(Sockets::in_folder(folder), timing)
}

/// A list of so many plain cards.
pub(crate) fn list(generation: u64, count: u32) -> wire::CardList {
    let cards = (0..count).map(|index| wire::Card {
        id: format!("gpu-{index}"),
        index,
        kind: wire::XpuKind::Gpu.into(),
        model: "G".into(),
        memory_bytes: 1 << 30,
        health: wire::CardHealth::Healthy.into(),
        shareable: true,
        ..wire::Card::default()
    });
    wire::CardList {
        generation,
        cards: cards.collect(),
    }
}

/// What one stream does.
#[derive(Debug, Clone)]
pub(crate) enum Step<T> {
    Send(T),
    Fail(Status),
    /// Nothing more, and no end.
    Stay,
    /// This for ever.
    Flood(T),
}

/// What one call answers.
#[derive(Debug, Clone)]
pub(crate) enum Answer<T> {
    Give(T),
    Fail(Status),
    Hang,
}

#[derive(Debug, Default)]
pub(crate) struct Script {
    /// One a call of `ListAndWatch`; without any, a list of one card that stays.
    pub(crate) cards: Mutex<VecDeque<Vec<Step<wire::CardList>>>>,
    /// One a call of `ExporterDataStream`; without any, nothing that stays.
    pub(crate) snapshots: Mutex<VecDeque<Vec<Step<wire::MetricSnapshot>>>>,
    /// One a call; the last one stays.
    pub(crate) configs: Mutex<VecDeque<wire::ExporterGetConfigResponse>>,
    pub(crate) allocate: Mutex<Option<Answer<wire::AllocateResponse>>>,
    pub(crate) book: Mutex<Option<wire::ListGpuInfoResponse>>,
    /// Messages that streams have handed to the transport.
    pub(crate) sent: AtomicUsize,
    /// Streams that are open.
    pub(crate) open: Arc<AtomicUsize>,
    /// Calls of Allocate so far.
    pub(crate) allocations: AtomicUsize,
}

#[derive(Debug, Clone)]
struct Fake(Arc<Script>);

struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Fake {
    fn play<T: Clone + Send + 'static>(&self, steps: Vec<Step<T>>) -> Messages<T> {
        let script = self.0.clone();
        script.open.fetch_add(1, Ordering::SeqCst);
        let open = Open(script.open.clone());
        let messages = stream::iter(steps).flat_map(|step| match step {
            Step::Send(message) => stream::iter([Ok(message)]).boxed(),
            Step::Fail(status) => stream::iter([Err(status)]).boxed(),
            Step::Stay => stream::pending().boxed(),
            Step::Flood(message) => stream::repeat_with(move || Ok(message.clone())).boxed(),
        });
        Box::pin(messages.inspect(move |_| {
            let _still = &open;
            script.sent.fetch_add(1, Ordering::SeqCst);
        }))
    }
}

#[tonic::async_trait]
impl DeviceManager for Fake {
    async fn list_supported_xpu_type(
        &self,
        _: Request<wire::ListSupportedXpuTypeRequest>,
    ) -> Result<Response<wire::ListSupportedXpuTypeResponse>, Status> {
        Ok(Response::new(wire::ListSupportedXpuTypeResponse {
            kinds: vec![wire::XpuKind::Gpu.into()],
            interface_version: "1.1".into(),
            runtime_version: "fake".into(),
        }))
    }

    type ListAndWatchStream = Messages<wire::CardList>;

    async fn list_and_watch(
        &self,
        _: Request<wire::ListAndWatchRequest>,
    ) -> Result<Response<Self::ListAndWatchStream>, Status> {
        let steps = self.0.cards.lock().unwrap().pop_front();
        let steps = steps.unwrap_or_else(|| vec![Step::Send(list(1, 1)), Step::Stay]);
        Ok(Response::new(self.play(steps)))
    }

    async fn allocate(
        &self,
        _: Request<wire::AllocateRequest>,
    ) -> Result<Response<wire::AllocateResponse>, Status> {
        self.0.allocations.fetch_add(1, Ordering::SeqCst);
        let answer = self.0.allocate.lock().unwrap().clone();
        match answer {
            Some(Answer::Hang) => std::future::pending().await,
            Some(Answer::Fail(status)) => Err(status),
            Some(Answer::Give(answer)) => Ok(Response::new(answer)),
            None => Ok(Response::new(wire::AllocateResponse::default())),
        }
    }

    async fn release(
        &self,
        request: Request<wire::ReleaseRequest>,
    ) -> Result<Response<wire::ReleaseResponse>, Status> {
        let mut released = request.into_inner().allocation_ids;
        released.push("somebody-else".into());
        Ok(Response::new(wire::ReleaseResponse { released }))
    }

    async fn list_gpu_info(
        &self,
        _: Request<wire::ListGpuInfoRequest>,
    ) -> Result<Response<wire::ListGpuInfoResponse>, Status> {
        let book = self.0.book.lock().unwrap().clone();
        book.map(Response::new)
            .ok_or_else(|| Status::unimplemented("no ListGpuInfo here"))
    }

    async fn exporter_get_config(
        &self,
        _: Request<wire::ExporterGetConfigRequest>,
    ) -> Result<Response<wire::ExporterGetConfigResponse>, Status> {
        let mut configs = self.0.configs.lock().unwrap();
        let config = match configs.len() {
            0 | 1 => configs.front().cloned(),
            _ => configs.pop_front(),
        };
        Ok(Response::new(config.unwrap_or_default()))
    }

    async fn exporter_get_data_list(
        &self,
        _: Request<wire::ExporterGetDataListRequest>,
    ) -> Result<Response<wire::MetricSnapshot>, Status> {
        Ok(Response::new(wire::MetricSnapshot::default()))
    }

    type ExporterDataStreamStream = Messages<wire::MetricSnapshot>;

    async fn exporter_data_stream(
        &self,
        _: Request<wire::ExporterDataStreamRequest>,
    ) -> Result<Response<Self::ExporterDataStreamStream>, Status> {
        let steps = self.0.snapshots.lock().unwrap().pop_front();
        Ok(Response::new(
            self.play(steps.unwrap_or_else(|| vec![Step::Stay])),
        ))
    }

    async fn exporter_get_status(
        &self,
        _: Request<wire::ExporterGetStatusRequest>,
    ) -> Result<Response<wire::ExporterGetStatusResponse>, Status> {
        Err(Status::unimplemented("no ExporterGetStatus here"))
    }
}

/// Says that it has begun, and waits for the end.
type Freeze = (blocking::Sender<()>, blocking::Receiver<()>);

/// A server on `dp2mgr.sock` until it is killed or dropped; then its socket file is removed.
pub(crate) struct Runtime {
    stop: Option<oneshot::Sender<()>>,
    freeze: Option<oneshot::Sender<Freeze>>,
    thaw: Option<blocking::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    socket: PathBuf,
}

impl Runtime {
    pub(crate) fn start(folder: &Path, script: &Arc<Script>) -> Self {
        let fake = DeviceManagerServer::new(Fake(script.clone()));
        Self::serve(folder, Routes::new(fake))
    }

    /// Any routes, for answers that no service of ours would give.
    pub(crate) fn serve(folder: &Path, routes: Routes) -> Self {
        let socket = Sockets::in_folder(folder).device_manager;
        let (stop, stopped) = oneshot::channel();
        let (freeze, frozen) = oneshot::channel::<Freeze>();
        let (ready, is_ready) = blocking::channel();
        let path = socket.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let listener = UnixListener::bind(path).unwrap();
                ready.send(()).unwrap();
                let serving = Server::builder()
                    .add_routes(routes)
                    .serve_with_incoming(UnixListenerStream::new(listener));
                tokio::spawn(async move {
                    if let Ok((begun, thaw)) = frozen.await {
                        begun.send(()).unwrap();
                        // Blocks this thread, which does everything here.
                        let _ = thaw.recv();
                    }
                });
                tokio::select! {
                    served = serving => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        is_ready.recv().unwrap();
        Self {
            stop: Some(stop),
            freeze: Some(freeze),
            thaw: None,
            thread: Some(thread),
            socket,
        }
    }

    /// From now on nothing answers.
    pub(crate) fn freeze(&mut self) {
        let (thaw, thawed) = blocking::channel();
        self.thaw = Some(thaw);
        let (begun, has_begun) = blocking::channel();
        let freeze = self.freeze.take().unwrap();
        freeze.send((begun, thawed)).unwrap();
        has_begun.recv().unwrap();
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        drop(self.thaw.take());
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        std::fs::remove_file(&self.socket).unwrap();
    }
}
