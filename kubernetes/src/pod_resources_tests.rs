use std::{path::Path, sync::atomic::AtomicUsize};

use tokio::{net::UnixListener, sync::oneshot, task::JoinHandle};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response};

use super::*;
use crate::pod_resources_wire as wire;
use wire::pod_resources_lister_server::{PodResourcesLister, PodResourcesListerServer};

/// Answers with so many pods, after refusing the first calls.
#[derive(Clone)]
struct Kubelet {
    refusals: usize,
    calls: Arc<AtomicUsize>,
    pods: usize,
    name_length: usize,
}

#[tonic::async_trait]
impl PodResourcesLister for Kubelet {
    async fn list(
        &self,
        request: Request<wire::ListPodResourcesRequest>,
    ) -> Result<Response<wire::ListPodResourcesResponse>, Status> {
        drop(request);
        if self.calls.fetch_add(1, Ordering::SeqCst) < self.refusals {
            return Err(Status::resource_exhausted("rejected by rate limit"));
        }
        let pod = |n: usize| wire::PodResources {
            name: format!("pod-{n}"),
            namespace: "ns".to_owned(),
            containers: vec![wire::ContainerResources {
                name: "x".repeat(self.name_length),
                ..wire::ContainerResources::default()
            }],
        };
        Ok(Response::new(wire::ListPodResourcesResponse {
            pod_resources: (0..self.pods).map(pod).collect(),
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

fn kubelet(pods: usize) -> Kubelet {
    Kubelet {
        refusals: 0,
        calls: Arc::default(),
        pods,
        name_length: 1,
    }
}

/// A server that ends with its connections when this is dropped or stopped.
struct Server {
    task: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Server {
    async fn stop(self) {
        drop(self.stop);
        self.task.await.unwrap();
    }
}

fn serve(socket: &Path, kubelet: Kubelet) -> Server {
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        tonic::transport::Server::builder()
            .add_service(PodResourcesListerServer::new(kubelet))
            .serve_with_incoming_shutdown(UnixListenerStream::new(listener), async {
                let _ = stopped.await;
            })
            .await
            .unwrap();
    });
    Server { task, stop }
}

const WITHIN: Duration = Duration::from_secs(2);

#[tokio::test]
async fn an_answer_of_more_than_4_mib_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kubelet.sock");
    let mut large = kubelet(6000);
    large.name_length = 1000;
    let server = serve(&socket, large);
    let pods = PodResources::new(socket).list(WITHIN).await.unwrap();
    assert_eq!(pods.len(), 6000);
    assert_eq!(pods[5999].pod.to_string(), "ns/pod-5999");
    server.stop().await;
}

#[tokio::test]
async fn a_rate_limited_call_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kubelet.sock");
    let mut limited = kubelet(1);
    limited.refusals = 3;
    let calls = Arc::clone(&limited.calls);
    let server = serve(&socket, limited);
    let pods = PodResources::new(socket).list(WITHIN).await.unwrap();
    assert_eq!(pods.len(), 1);
    assert_eq!(calls.load(Ordering::SeqCst), 4);
    server.stop().await;
}

#[tokio::test]
async fn a_limit_that_stays_is_told_within_the_given_time() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kubelet.sock");
    let mut limited = kubelet(1);
    limited.refusals = usize::MAX;
    let server = serve(&socket, limited);
    let within = Duration::from_millis(50);
    let error = PodResources::new(socket).list(within).await.unwrap_err();
    assert!(
        matches!(error, Error::RateLimited(d) if d == within),
        "{error}"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_kubelet_that_restarted_on_a_new_socket_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kubelet.sock");
    let client = PodResources::new(socket.clone());
    assert!(matches!(
        client.list(WITHIN).await,
        Err(Error::Unavailable { .. })
    ));
    let server = serve(&socket, kubelet(1));
    assert_eq!(client.list(WITHIN).await.unwrap().len(), 1);
    server.stop().await;
    let server = serve(&socket, kubelet(2));
    assert_eq!(client.list(WITHIN).await.unwrap().len(), 2);
    server.stop().await;
}

#[tokio::test]
async fn an_absent_socket_is_named() {
    let client = PodResources::new("/nowhere/kubelet.sock".into());
    let text = client.list(WITHIN).await.unwrap_err().to_string();
    assert!(
        text.contains("/nowhere/kubelet.sock") && text.contains("No such file"),
        "{text}"
    );
}
