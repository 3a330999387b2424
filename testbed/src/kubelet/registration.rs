//! `kubelet.sock`: plugins register, kubelet dials back and follows their lists.

use std::{path::PathBuf, sync::Arc};

use hyper_util::rt::TokioIo;
use kit::Failure;
use kubernetes::device_plugin::{
    Empty, RegisterRequest,
    device_plugin_client::DevicePluginClient,
    registration_server::{Registration, RegistrationServer},
};
use model::name::ResourceName;
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{
    Request, Response, Status,
    transport::{Channel, Server, Uri},
};
use tower::service_fn;

use super::state::{Endpoint, State, second};

struct Kubelet {
    state: Arc<State>,
    tasks: kit::Tasks,
}

/// Serves registrations until shutdown.
pub(super) fn serve(state: Arc<State>, tasks: &kit::Tasks) -> anyhow::Result<()> {
    let listener = bind(state.path("device-plugins/kubelet.sock"))?;
    let service = RegistrationServer::new(Kubelet {
        state,
        tasks: tasks.clone(),
    });
    let stop = tasks.shutdown_token();
    tasks.critical("registration", async move {
        Server::builder()
            .add_service(service)
            .serve_with_incoming_shutdown(UnixListenerStream::new(listener), stop.cancelled_owned())
            .await
            .map_err(Failure::fatal)
    });
    Ok(())
}

/// A unix socket in place of whatever an earlier run left there.
pub(super) fn bind(path: PathBuf) -> anyhow::Result<UnixListener> {
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    Ok(UnixListener::bind(path)?)
}

async fn dial(socket: PathBuf) -> Result<Channel, tonic::transport::Error> {
    let connect = service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    tonic::transport::Endpoint::from_static("http://localhost")
        .connect_with_connector(connect)
        .await
}

#[tonic::async_trait]
impl Registration for Kubelet {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        let request = request.into_inner();
        if request.version != "v1beta1" {
            return Err(Status::unknown(format!(
                "requested API version {:?} is not supported by kubelet. Supported version is v1beta1",
                request.version
            )));
        }
        let resource = ResourceName::new(&request.resource_name).map_err(|e| {
            Status::unknown(format!(
                "the ResourceName {:?} is invalid: {e}",
                request.resource_name
            ))
        })?;
        if request.endpoint.is_empty() || request.endpoint.contains('/') {
            return Err(Status::unknown(format!(
                "endpoint {:?} is not a file name",
                request.endpoint
            )));
        }
        let socket = self.state.path("device-plugins").join(&request.endpoint);
        // kubelet dials back before it answers: a plugin must serve before it registers.
        let channel = dial(socket)
            .await
            .map_err(|e| Status::unknown(format!("failed to dial device plugin: {e}")))?;
        let endpoint = {
            let mut inner = self.state.lock();
            let generation = inner
                .endpoints
                .get(resource.as_str())
                .map_or(0, |e| e.generation)
                + 1;
            let prefers = request
                .options
                .is_some_and(|o| o.get_preferred_allocation_available);
            let endpoint = Endpoint {
                generation,
                client: DevicePluginClient::new(channel),
                prefers,
            };
            inner.devices.register(resource.as_str());
            inner
                .endpoints
                .insert(resource.to_string(), endpoint.clone());
            endpoint
        };
        tracing::info!(%resource, endpoint = request.endpoint, "registered");
        let (state, stop) = (self.state.clone(), self.tasks.shutdown_token());
        self.tasks.detached("list-and-watch", async move {
            tokio::select! {
                () = follow(&state, resource.as_str(), endpoint) => {}
                () = stop.cancelled() => {}
            }
        });
        Ok(Response::new(Empty {}))
    }
}

/// Follows the plugin's list until it ends. A newer registration of the resource replaces this.
async fn follow(state: &State, resource: &str, mut endpoint: Endpoint) {
    let generation = endpoint.generation;
    let is_current = |state: &State| {
        state
            .lock()
            .endpoints
            .get(resource)
            .is_some_and(|e| e.generation == generation)
    };
    let why = match endpoint.client.list_and_watch(Empty {}).await {
        Err(status) => status.message().to_owned(),
        Ok(stream) => {
            let mut stream = stream.into_inner();
            loop {
                match stream.message().await {
                    Ok(Some(list)) if is_current(state) => {
                        let devices = list
                            .devices
                            .into_iter()
                            .map(|d| (d.id, d.health == "Healthy"));
                        state.lock().devices.list(resource, devices);
                    }
                    Ok(Some(_)) => return,
                    Ok(None) => break "the list has ended".to_owned(),
                    Err(status) => break status.message().to_owned(),
                }
            }
        }
    };
    if is_current(state) {
        tracing::info!(resource, why, "the plugin is gone");
        let mut inner = state.lock();
        inner.devices.gone(resource, second());
        inner.endpoints.remove(resource);
    }
}
