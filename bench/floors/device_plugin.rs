//! The least device plugin: one resource of whole cards, registered once. It prefers the first
//! ids that it is offered, and asks the Runtime for each container without knowing for whom.
//!
//! `floor-device-plugin FOLDER CARDS [RUNTIME-SOCKET]`; without a Runtime it answers by itself.

use std::{path::PathBuf, pin::Pin};

use futures_util::{Stream, StreamExt as _, stream};
use hyper_util::rt::TokioIo;
use kubernetes::device_plugin as kubelet;
use runtime_proto::wire as runtime;
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{
    Request, Response, Status,
    transport::{Channel, Endpoint, Server},
};

type Runtime = runtime::device_manager_client::DeviceManagerClient<Channel>;

struct Plugin {
    cards: usize,
    runtime: Option<Runtime>,
}

fn id(card: usize) -> String {
    format!("ppu-{card}.card.0")
}

fn connect(socket: PathBuf) -> Channel {
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector)
}

impl Plugin {
    async fn grant(&self, ids: &[String]) -> Result<kubelet::ContainerAllocateResponse, Status> {
        for asked in ids {
            if !(0..self.cards).any(|card| id(card) == *asked) {
                return Err(Status::invalid_argument("an unknown device"));
            }
        }
        let Some(mut runtime) = self.runtime.clone() else {
            return Ok(kubelet::ContainerAllocateResponse::default());
        };
        let grant = |id: &String| runtime::Grant {
            card_id: id.split('.').next().unwrap_or_default().to_owned(),
            mode: Some(runtime::grant::Mode::Whole(runtime::WholeGrant {})),
        };
        let request = runtime::AllocateRequest {
            allocation_id: ids.join(","),
            consumer: Some(runtime::Consumer {
                namespace: "default".into(),
                pod: "pod-00000".into(),
                pod_uid: "00000000-0000-4000-8000-000000000000".into(),
                container: "main".into(),
            }),
            grants: ids.iter().map(grant).collect(),
        };
        let edits = runtime.allocate(request).await?.into_inner();
        let device = |d: runtime::DeviceNode| kubelet::DeviceSpec {
            container_path: d.container_path,
            host_path: d.host_path,
            permissions: d.permissions,
        };
        let mount = |m: runtime::Mount| kubelet::Mount {
            container_path: m.container_path,
            host_path: m.host_path,
            read_only: m.read_only,
        };
        Ok(kubelet::ContainerAllocateResponse {
            envs: edits.environment,
            mounts: edits.mounts.into_iter().map(mount).collect(),
            devices: edits.device_nodes.into_iter().map(device).collect(),
            annotations: edits.annotations,
            cdi_devices: Vec::new(),
        })
    }
}

#[tonic::async_trait]
impl kubelet::device_plugin_server::DevicePlugin for Plugin {
    type ListAndWatchStream =
        Pin<Box<dyn Stream<Item = Result<kubelet::ListAndWatchResponse, Status>> + Send>>;

    async fn get_device_plugin_options(
        &self,
        _: Request<kubelet::Empty>,
    ) -> Result<Response<kubelet::DevicePluginOptions>, Status> {
        Ok(Response::new(kubelet::DevicePluginOptions {
            pre_start_required: false,
            get_preferred_allocation_available: true,
        }))
    }

    async fn list_and_watch(
        &self,
        _: Request<kubelet::Empty>,
    ) -> Result<Response<Self::ListAndWatchStream>, Status> {
        let device = |card| kubelet::Device {
            id: id(card),
            health: "Healthy".into(),
            topology: None,
        };
        let list = kubelet::ListAndWatchResponse {
            devices: (0..self.cards).map(device).collect(),
        };
        let lists = stream::iter([Ok(list)]).chain(stream::pending());
        Ok(Response::new(Box::pin(lists)))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<kubelet::PreferredAllocationRequest>,
    ) -> Result<Response<kubelet::PreferredAllocationResponse>, Status> {
        let containers = request.into_inner().container_requests.into_iter();
        let first = containers.map(|container| {
            let size = usize::try_from(container.allocation_size).unwrap_or(0);
            let ids = container.available_device_i_ds.into_iter();
            kubelet::ContainerPreferredAllocationResponse {
                device_i_ds: ids.take(size).collect(),
            }
        });
        Ok(Response::new(kubelet::PreferredAllocationResponse {
            container_responses: first.collect(),
        }))
    }

    async fn allocate(
        &self,
        request: Request<kubelet::AllocateRequest>,
    ) -> Result<Response<kubelet::AllocateResponse>, Status> {
        let mut answer = kubelet::AllocateResponse::default();
        for container in request.into_inner().container_requests {
            let granted = self.grant(&container.devices_ids).await?;
            answer.container_responses.push(granted);
        }
        Ok(Response::new(answer))
    }

    async fn pre_start_container(
        &self,
        _: Request<kubelet::PreStartContainerRequest>,
    ) -> Result<Response<kubelet::PreStartContainerResponse>, Status> {
        Ok(Response::new(kubelet::PreStartContainerResponse {}))
    }
}

type AnyError = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), AnyError> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().unwrap_or_default());
    let cards = args.next().unwrap_or_default().parse()?;
    let runtime = args
        .next()
        .map(|socket| Runtime::new(connect(socket.into())));
    let listener = UnixListener::bind(folder.join("floor.sock"))?;
    let service = kubelet::device_plugin_server::DevicePluginServer::new(Plugin { cards, runtime });
    let served = tokio::spawn(
        Server::builder()
            .add_service(service)
            .serve_with_incoming(UnixListenerStream::new(listener)),
    );
    let kubelet = connect(folder.join("kubelet.sock"));
    kubelet::registration_client::RegistrationClient::new(kubelet)
        .register(kubelet::RegisterRequest {
            version: "v1beta1".into(),
            endpoint: "floor.sock".into(),
            resource_name: "example.com/gpu".into(),
            options: None,
        })
        .await?;
    served.await??;
    Ok(())
}
