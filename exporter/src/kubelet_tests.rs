use std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use kubernetes::pod_resources_wire::{
    self as wire,
    pod_resources_lister_server::{PodResourcesLister, PodResourcesListerServer},
};
use runtime_proto::Sockets;
use tokio::{net::UnixListener, sync::oneshot};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

use super::*;
use crate::{
    exposition_reader::{Text, read},
    metrics::OwnMetrics,
    scene::{cards, state},
};

/// A kubelet whose answer and number of calls a test can see to.
#[derive(Clone, Default)]
pub(crate) struct Lister {
    pub(crate) pods: Vec<wire::PodResources>,
    pub(crate) calls: Arc<AtomicUsize>,
}

#[tonic::async_trait]
impl PodResourcesLister for Lister {
    async fn list(
        &self,
        _: Request<wire::ListPodResourcesRequest>,
    ) -> Result<Response<wire::ListPodResourcesResponse>, Status> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Ok(Response::new(wire::ListPodResourcesResponse {
            pod_resources: self.pods.clone(),
        }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<wire::AllocatableResourcesRequest>,
    ) -> Result<Response<wire::AllocatableResourcesResponse>, Status> {
        Err(Status::unimplemented("not asked here"))
    }

    async fn get(
        &self,
        _: Request<wire::GetPodResourcesRequest>,
    ) -> Result<Response<wire::GetPodResourcesResponse>, Status> {
        Err(Status::unimplemented("not asked here"))
    }
}

/// Stops when dropped, connections included.
pub(crate) struct Served {
    _stop: oneshot::Sender<()>,
}

pub(crate) fn serve(lister: &Lister, socket: &Path) -> Served {
    let listener = UnixListener::bind(socket).unwrap();
    let (stop, stopped) = oneshot::channel();
    let server = tonic::transport::Server::builder()
        .add_service(PodResourcesListerServer::new(lister.clone()))
        .serve_with_incoming_shutdown(UnixListenerStream::new(listener), async {
            let _ = stopped.await;
        });
    tokio::spawn(server);
    Served { _stop: stop }
}

pub(crate) fn pod(name: &str, card: &str, core: u32) -> wire::PodResources {
    wire::PodResources {
        name: name.to_owned(),
        namespace: "ns".to_owned(),
        containers: vec![wire::ContainerResources {
            name: "main".to_owned(),
            devices: vec![wire::ContainerDevices {
                resource_name: "aliyun.com/gpu-core".to_owned(),
                device_ids: (0..core).map(|n| format!("{card}.core.{n}")).collect(),
                topology: None,
            }],
            cpu_ids: Vec::new(),
        }],
    }
}

pub(crate) fn page() -> Arc<Page> {
    let metrics = OwnMetrics::new(&prometheus::Registry::new()).unwrap();
    Arc::new(Page::new(state(), metrics))
}

pub(crate) fn kubelet(page: &Arc<Page>, folder: &Path, every: Duration) -> Kubelet {
    kubelet_with_pods(page, folder, every, None)
}

fn kubelet_with_pods(
    page: &Arc<Page>,
    folder: &Path,
    every: Duration,
    pods: Option<NodePods>,
) -> Kubelet {
    Kubelet::new(
        Arc::clone(page),
        pod_resources::PodResources::new(folder.join("kubelet.sock")),
        pods,
        Client::new(Sockets::in_folder(folder)),
        every,
    )
}

fn shown(page: &Page) -> Text {
    read(std::str::from_utf8(&page.body()).unwrap()).unwrap()
}

#[tokio::test]
async fn case_12_an_answer_larger_than_4_mib_is_attributed() {
    let folder = tempfile::tempdir().unwrap();
    let mut pods = vec![pod("mine", "ppu-0", 40)];
    // Another plugin's ids are what makes it large.
    let foreign = (0..50).map(|n| {
        let mut pod = pod(&format!("other-{n}"), "x", 0);
        pod.containers[0].devices[0] = wire::ContainerDevices {
            resource_name: "example.com/thing".to_owned(),
            device_ids: (0..3000).map(|id| format!("device-{n}-{id:026}")).collect(),
            topology: None,
        };
        pod
    });
    pods.extend(foreign);
    let size: usize = pods.iter().map(prost::Message::encoded_len).sum();
    assert!(size > 5 << 20, "{size}");
    let lister = Lister {
        pods,
        ..Lister::default()
    };
    let _served = serve(&lister, &folder.path().join("kubelet.sock"));
    let page = page();
    page.update(|state| state.take_cards(cards(1)));
    kubelet(&page, folder.path(), Duration::from_secs(5))
        .refresh()
        .await;
    let text = shown(&page);
    assert_eq!(text.value("accel_exporter_kubelet_up", &[]), Some(1.0));
    let mine = [
        ("card", "ppu-0"),
        ("namespace", "ns"),
        ("pod", "mine"),
        ("container", "main"),
    ];
    assert_eq!(
        text.value("accel_container_core_limit_ratio", &mine),
        Some(0.4)
    );
    assert_eq!(text.of("accel_container_core_limit_ratio").count(), 1);
}

#[tokio::test]
async fn scrapes_at_the_same_time_share_one_call() {
    let folder = tempfile::tempdir().unwrap();
    let lister = Lister::default();
    let _served = serve(&lister, &folder.path().join("kubelet.sock"));
    let page = page();
    let hour = kubelet(&page, folder.path(), Duration::from_hours(1));
    tokio::join!(hour.refresh(), hour.refresh(), hour.refresh());
    hour.refresh().await;
    assert_eq!(lister.calls.load(Ordering::SeqCst), 1);
    let always = kubelet(&page, folder.path(), Duration::ZERO);
    always.refresh().await;
    always.refresh().await;
    assert_eq!(lister.calls.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn kubelet_may_go_away_and_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kubelet.sock");
    let page = page();
    let kubelet = kubelet(&page, folder.path(), Duration::ZERO);
    let up = || shown(&page).value("accel_exporter_kubelet_up", &[]);
    kubelet.refresh().await;
    assert_eq!(up(), Some(0.0));
    let lister = Lister {
        pods: vec![pod("a", "ppu-0", 1)],
        ..Lister::default()
    };
    let served = serve(&lister, &socket);
    let deadline = Instant::now() + Duration::from_secs(10);
    while up() != Some(1.0) {
        assert!(Instant::now() < deadline);
        kubelet.refresh().await;
    }
    assert_eq!(
        shown(&page).of("accel_container_core_limit_ratio").count(),
        1
    );
    drop(served);
    std::fs::remove_file(&socket).unwrap();
    while up() != Some(0.0) {
        assert!(Instant::now() < deadline);
        kubelet.refresh().await;
    }
    assert_eq!(
        shown(&page).of("accel_container_core_limit_ratio").count(),
        0
    );
}

#[tokio::test]
async fn a_pod_that_the_read_only_port_shows_as_ended_has_no_series() {
    let folder = tempfile::tempdir().unwrap();
    let lister = Lister {
        pods: vec![pod("a", "ppu-0", 10), pod("over", "ppu-0", 20)],
        ..Lister::default()
    };
    let _served = serve(&lister, &folder.path().join("kubelet.sock"));
    let object = |name: &str, phase: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"ns","uid":"uid-{name}"}},"status":{{"phase":"{phase}"}}}}"#
        )
    };
    let list = format!(
        r#"{{"kind":"PodList","items":[{},{},{{"metadata":{{"name":"odd","namespace":"ns"}}}}]}}"#,
        object("a", "Running"),
        object("over", "Succeeded"),
    );
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", port.local_addr().unwrap());
    let router = axum::Router::new().route("/pods", axum::routing::get(|| async { list }));
    let server = tokio::spawn(async { axum::serve(port, router).await });
    let page = page();
    let pods = Some(NodePods::read_only_port(&url));
    kubelet_with_pods(&page, folder.path(), Duration::ZERO, pods)
        .refresh()
        .await;
    server.abort();
    let text = shown(&page);
    assert_eq!(text.value("accel_exporter_pod_list_up", &[]), Some(1.0));
    let limits: Vec<_> = text.of("accel_container_core_limit_ratio").collect();
    assert_eq!(limits.len(), 1);
    assert_eq!(limits[0].label("pod"), Some("a"));
    // The one without a uid.
    let malformed = text.value("accel_exporter_malformed_total", &[("source", "pods")]);
    assert_eq!(malformed, Some(1.0));
}
