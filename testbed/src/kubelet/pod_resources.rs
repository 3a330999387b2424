//! PodResources v1 as kubelet 1.36 answers it: app containers and sidecars of pods that are
//! being admitted or run, one entry an id, never plain init containers, never a rejected or
//! ended pod; 100 calls a second with a burst of 10, shared by all callers.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use kit::Failure;
use kubernetes::pod_resources_wire::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, ContainerDevices,
    ContainerResources, GetPodResourcesRequest, GetPodResourcesResponse, ListPodResourcesRequest,
    ListPodResourcesResponse, PodResources,
    pod_resources_lister_server::{PodResourcesLister, PodResourcesListerServer},
};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status, transport::Server};

use super::{
    pod::{Kind, Local, Stage},
    registration::bind,
    state::{Inner, State},
};

const CALLS_A_SECOND: f64 = 100.0;
const BURST: f64 = 10.0;

struct Kubelet {
    state: Arc<State>,
    bucket: Mutex<(f64, Instant)>,
}

/// Serves PodResources until shutdown.
pub(super) fn serve(state: Arc<State>, tasks: &kit::Tasks) -> anyhow::Result<()> {
    let listener = bind(state.path("pod-resources/kubelet.sock"))?;
    let service = Kubelet {
        state,
        bucket: Mutex::new((BURST, Instant::now())),
    };
    let stop = tasks.shutdown_token();
    tasks.critical("pod-resources", async move {
        Server::builder()
            .add_service(PodResourcesListerServer::new(service))
            .serve_with_incoming_shutdown(UnixListenerStream::new(listener), stop.cancelled_owned())
            .await
            .map_err(Failure::fatal)
    });
    Ok(())
}

impl Kubelet {
    fn limited(&self) -> Result<(), Status> {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let (tokens, at) = *bucket;
        let tokens = (tokens + at.elapsed().as_secs_f64() * CALLS_A_SECOND).min(BURST);
        let taken = tokens >= 1.0;
        *bucket = (if taken { tokens - 1.0 } else { tokens }, Instant::now());
        if taken {
            Ok(())
        } else {
            Err(Status::resource_exhausted("rejected by rate limit"))
        }
    }
}

fn entry(pod: &Local, inner: &Inner) -> PodResources {
    let given = inner.devices.of(pod.uid());
    let containers = pod
        .containers()
        .into_iter()
        .filter(|c| c.kind != Kind::Init)
        .map(|container| {
            let devices = given
                .and_then(|g| g.get(&container.name))
                .into_iter()
                .flatten();
            let entries = devices.flat_map(|(resource, given)| {
                given.ids.iter().map(move |id| ContainerDevices {
                    resource_name: resource.clone(),
                    device_ids: vec![id.clone()],
                    topology: None,
                })
            });
            ContainerResources {
                devices: entries.collect(),
                name: container.name,
                cpu_ids: Vec::new(),
            }
        });
    PodResources {
        name: pod.name().to_owned(),
        namespace: pod.namespace().to_owned(),
        containers: containers.collect(),
    }
}

const fn listed(pod: &Local) -> bool {
    matches!(pod.stage, Stage::Admitting | Stage::Admitted)
}

#[tonic::async_trait]
impl PodResourcesLister for Kubelet {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        self.limited()?;
        let inner = self.state.lock();
        let pod_resources = inner
            .pods
            .iter()
            .filter(|p| listed(p))
            .map(|p| entry(p, &inner))
            .collect();
        Ok(Response::new(ListPodResourcesResponse { pod_resources }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<AllocatableResourcesRequest>,
    ) -> Result<Response<AllocatableResourcesResponse>, Status> {
        self.limited()?;
        Err(Status::unimplemented("nothing of the kit asks this"))
    }

    async fn get(
        &self,
        request: Request<GetPodResourcesRequest>,
    ) -> Result<Response<GetPodResourcesResponse>, Status> {
        self.limited()?;
        let request = request.into_inner();
        let inner = self.state.lock();
        let pod = inner.pods.iter().filter(|p| listed(p));
        let pod = pod
            .into_iter()
            .find(|p| p.name() == request.pod_name && p.namespace() == request.pod_namespace);
        let pod = pod.ok_or_else(|| {
            Status::unknown(format!(
                "pod {} in namespace {} not found",
                request.pod_name, request.pod_namespace
            ))
        })?;
        Ok(Response::new(GetPodResourcesResponse {
            pod_resources: Some(entry(pod, &inner)),
        }))
    }
}
