//! The part of kubelet that the device plugin and the exporter see: Registration, PodResources,
//! and the pods of the node.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use hyper_util::rt::TokioIo;
use kubernetes::{
    device_plugin::{
        Empty, RegisterRequest,
        device_plugin_client::DevicePluginClient,
        registration_server::{Registration, RegistrationServer},
    },
    pod_resources_wire::{
        self as wire,
        pod_resources_lister_server::{PodResourcesLister, PodResourcesListerServer},
    },
};
use serde_json::{Value, json};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::mpsc,
};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{
    Request, Response, Status,
    transport::{Channel, Endpoint, Server},
};

/// The node's name.
pub(crate) const NODE: &str = "node-1";

/// A pod with one container, `main`.
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    /// In namespace `default`.
    pub(crate) name: String,
    /// Its unique id.
    pub(crate) uid: String,
    /// What its container asks: resource and how many.
    pub(crate) asks: BTreeMap<String, usize>,
    /// What it was given.
    pub(crate) given: BTreeMap<String, Vec<String>>,
    /// What is written on it.
    pub(crate) annotations: Value,
    /// Succeeded.
    pub(crate) ended: bool,
}

impl Pod {
    /// One that asks for this and has nothing yet.
    pub(crate) fn asking(number: usize, asks: &[(&str, usize)]) -> Self {
        Self {
            name: format!("pod-{number:05}"),
            uid: crate::cluster::uid(number),
            asks: asks.iter().map(|(r, n)| ((*r).to_owned(), *n)).collect(),
            given: BTreeMap::new(),
            annotations: json!({}),
            ended: false,
        }
    }

    fn object(&self) -> Value {
        let limits: BTreeMap<_, _> = self.asks.iter().map(|(r, n)| (r, n.to_string())).collect();
        let started = json!({"name": "main", "state": {"running": {}}});
        let complete = self.given.len() == self.asks.len();
        let statuses: Vec<_> = complete.then_some(started).into_iter().collect();
        json!({
            "metadata": {"name": self.name, "namespace": "default", "uid": self.uid,
                "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": self.annotations},
            "spec": {"nodeName": NODE,
                "containers": [{"name": "main", "resources": {"limits": limits}}]},
            "status": {"phase": if self.ended { "Succeeded" } else { "Running" },
                "containerStatuses": statuses},
        })
    }

    fn resources(&self) -> wire::PodResources {
        // kubelet makes an entry of each id.
        let entries = self.given.iter().flat_map(|(resource, ids)| {
            ids.iter().map(|id| wire::ContainerDevices {
                resource_name: resource.clone(),
                device_ids: vec![id.clone()],
                topology: None,
            })
        });
        wire::PodResources {
            name: self.name.clone(),
            namespace: "default".into(),
            containers: vec![wire::ContainerResources {
                name: "main".into(),
                devices: entries.collect(),
                cpu_ids: Vec::new(),
            }],
        }
    }
}

/// The pods of the node. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pods(Arc<Mutex<Vec<Pod>>>);

impl Pods {
    /// To read or change.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Pod>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As a list of Kubernetes objects.
    pub(crate) fn list(&self) -> Value {
        let items: Vec<_> = self.lock().iter().map(Pod::object).collect();
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"},
            "items": items})
    }

    /// The newest pod has been given these.
    pub(crate) fn give(&self, resource: &str, ids: &[String]) {
        if let Some(pod) = self.lock().last_mut() {
            pod.given.insert(resource.to_owned(), ids.to_vec());
        }
    }

    /// Serves PodResources.
    pub(crate) fn serve(&self, socket: &Path) -> anyhow::Result<()> {
        let listener = UnixListener::bind(socket)?;
        let service = PodResourcesListerServer::new(self.clone());
        let serving = Server::builder()
            .add_service(service)
            .serve_with_incoming(UnixListenerStream::new(listener));
        tokio::spawn(serving);
        Ok(())
    }
}

#[tonic::async_trait]
impl PodResourcesLister for Pods {
    async fn list(
        &self,
        _: Request<wire::ListPodResourcesRequest>,
    ) -> Result<Response<wire::ListPodResourcesResponse>, Status> {
        let pods = self.lock();
        let live = pods.iter().filter(|pod| !pod.ended);
        Ok(Response::new(wire::ListPodResourcesResponse {
            pod_resources: live.map(Pod::resources).collect(),
        }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<wire::AllocatableResourcesRequest>,
    ) -> Result<Response<wire::AllocatableResourcesResponse>, Status> {
        Err(Status::unimplemented("nothing that is measured asks this"))
    }

    async fn get(
        &self,
        _: Request<wire::GetPodResourcesRequest>,
    ) -> Result<Response<wire::GetPodResourcesResponse>, Status> {
        Err(Status::unimplemented("nothing that is measured asks this"))
    }
}

/// A plugin's registration, and when it came.
pub(crate) type Registered = (Instant, RegisterRequest);

struct Register(mpsc::UnboundedSender<Registered>);

#[tonic::async_trait]
impl Registration for Register {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        // The bench may have seen all it wants.
        let _ = self.0.send((Instant::now(), request.into_inner()));
        Ok(Response::new(Empty {}))
    }
}

/// Takes registrations in kubelet's device-plugins folder.
pub(crate) fn registrations(folder: &Path) -> anyhow::Result<mpsc::UnboundedReceiver<Registered>> {
    let listener = UnixListener::bind(folder.join("kubelet.sock"))?;
    let (told, registered) = mpsc::unbounded_channel();
    let serving = Server::builder()
        .add_service(RegistrationServer::new(Register(told)))
        .serve_with_incoming(UnixListenerStream::new(listener));
    tokio::spawn(serving);
    Ok(registered)
}

/// A connection to a plugin's socket.
pub(crate) fn dial(socket: PathBuf) -> DevicePluginClient<Channel> {
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    // The host becomes the `:authority`; no name is looked up.
    let endpoint = Endpoint::from_static("http://localhost");
    DevicePluginClient::new(endpoint.connect_with_connector_lazy(connector))
        .max_decoding_message_size(16 << 20)
}
