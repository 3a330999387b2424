//! A kubelet and an API server as far as the device plugin sees them, in one process: kubelet's
//! Registration and PodResources sockets, its read-only port, and the node's and pods' objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Path as UrlPath, State},
    http::StatusCode,
    routing::{get, patch},
};
use futures_util::StreamExt;
use kubernetes::{
    device_plugin::{
        AllocateRequest, ContainerAllocateRequest, ContainerAllocateResponse,
        ContainerPreferredAllocationRequest, Empty, PreferredAllocationRequest, RegisterRequest,
        device_plugin_client::DevicePluginClient,
        registration_server::{Registration, RegistrationServer},
    },
    pod_resources_wire::{
        AllocatableResourcesRequest, AllocatableResourcesResponse, ContainerDevices,
        ContainerResources, GetPodResourcesRequest, GetPodResourcesResponse,
        ListPodResourcesRequest, ListPodResourcesResponse, PodResources,
        pod_resources_lister_server::{PodResourcesLister, PodResourcesListerServer},
    },
};
use serde_json::{Value, json};
use tokio::{
    net::UnixListener,
    task::{JoinHandle, JoinSet},
};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{
    Request, Response, Status,
    transport::{Channel, Endpoint, Server},
};

#[path = "watcher.rs"]
mod watcher;

pub const NODE: &str = "node-1";

/// Resource to ids.
pub type Devices = BTreeMap<String, Vec<String>>;

/// What both see.
#[derive(Default)]
pub struct Inner {
    pub node: Value,
    /// Objects, in order of admission.
    pub pods: Vec<Value>,
    /// Pod to container to devices, of pods that kubelet has.
    pub given: BTreeMap<String, BTreeMap<String, Devices>>,
    /// Resource to device id and health, while the stream is open.
    pub lists: BTreeMap<String, BTreeMap<String, String>>,
    /// How often each resource was registered.
    pub registrations: BTreeMap<String, usize>,
    /// Kubelet's plugin watcher refuses all for this reason.
    pub refusal: Option<String>,
    /// Kubelet has no PodResources v1 on its socket.
    pub no_pod_resources: bool,
    sockets: BTreeMap<String, PathBuf>,
    streams: JoinSet<()>,
}

#[derive(Clone, Default)]
pub struct World {
    inner: Arc<Mutex<Inner>>,
    folder: PathBuf,
}

/// A running kubelet; dropped, it is gone.
pub struct Kubelet {
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl World {
    pub fn new(folder: &Path) -> Self {
        let world = Self {
            inner: Arc::default(),
            folder: folder.to_owned(),
        };
        world.lock().node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": NODE, "annotations": {}},
            "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}},
        });
        world
    }

    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    pub fn plugins(&self) -> PathBuf {
        self.folder.join("device-plugins")
    }

    pub fn pod_resources(&self) -> PathBuf {
        self.folder.join("pod-resources/kubelet.sock")
    }

    pub fn registry(&self) -> PathBuf {
        self.folder.join("plugins_registry")
    }

    /// Starts kubelet: deletes all sockets of the folder, as the real one does.
    pub fn start_kubelet(&self) -> Kubelet {
        std::fs::create_dir_all(self.plugins()).unwrap();
        for entry in std::fs::read_dir(self.plugins()).unwrap().flatten() {
            std::fs::remove_file(entry.path()).unwrap();
        }
        std::fs::create_dir_all(self.registry()).unwrap();
        self.lock().lists.clear();
        self.end_streams();
        std::fs::create_dir_all(self.folder.join("pod-resources")).unwrap();
        let _ = std::fs::remove_file(self.pod_resources());
        let registration = UnixListener::bind(self.plugins().join("kubelet.sock")).unwrap();
        let pod_resources = UnixListener::bind(self.pod_resources()).unwrap();
        let world = self.clone();
        let serve_registration = tokio::spawn(async move {
            let server = Server::builder().add_service(RegistrationServer::new(world));
            let sockets = UnixListenerStream::new(registration);
            server.serve_with_incoming(sockets).await.unwrap();
        });
        let world = self.clone();
        let serve_pod_resources = tokio::spawn(async move {
            let server = Server::builder().add_service(PodResourcesListerServer::new(world));
            let sockets = UnixListenerStream::new(pod_resources);
            server.serve_with_incoming(sockets).await.unwrap();
        });
        Kubelet {
            tasks: vec![
                serve_registration,
                serve_pod_resources,
                tokio::spawn(watcher::watch(self.clone())),
            ],
        }
    }

    /// Serves the read-only port and the API server; its URL.
    pub async fn start_http(&self) -> String {
        let node = get(|State(w): State<Self>| async move { Json(w.lock().node.clone()) });
        let pods = get(|State(w): State<Self>| async move {
            Json(json!({
                "apiVersion": "v1", "kind": "PodList",
                "metadata": {}, "items": w.lock().pods.clone(),
            }))
        });
        let router = Router::new()
            .route("/pods", pods.clone())
            .route("/api/v1/pods", pods)
            .route("/api/v1/nodes/{name}", node.patch(patch_node))
            .route("/api/v1/nodes/{name}/status", patch(patch_node_status))
            .route(
                "/api/v1/namespaces/{namespace}/pods/{name}",
                patch(patch_pod),
            )
            .with_state(self.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }

    /// Where the resource is served.
    pub fn socket(&self, resource: &str) -> PathBuf {
        self.lock().sockets[resource].clone()
    }

    /// Kubelet lets go of all lists, as after an answer that it can't take.
    pub fn end_streams(&self) {
        self.lock().streams = JoinSet::new();
    }

    /// Follows a plugin's list.
    async fn connect(&self, resource: String, socket: PathBuf) -> Result<(), Status> {
        self.lock().sockets.insert(resource.clone(), socket);
        let mut plugin = self.plugin(&resource).await;
        plugin.get_device_plugin_options(Empty {}).await?;
        let mut lists = plugin.list_and_watch(Empty {}).await?.into_inner();
        let mut inner = self.lock();
        *inner.registrations.entry(resource.clone()).or_default() += 1;
        let world = self.clone();
        inner.streams.spawn(async move {
            while let Some(Ok(list)) = lists.next().await {
                let devices = list.devices.into_iter().map(|d| (d.id, d.health));
                let devices: BTreeMap<String, String> = devices.collect();
                let mut inner = world.lock();
                let count = json!(devices.len().to_string());
                inner.node["status"]["capacity"][&resource] = count.clone();
                inner.node["status"]["allocatable"][&resource] = count;
                inner.lists.insert(resource.clone(), devices);
            }
        });
        Ok(())
    }

    async fn plugin(&self, resource: &str) -> DevicePluginClient<Channel> {
        let path = format!("unix://{}", self.socket(resource).display());
        let channel = Endpoint::from_shared(path)
            .unwrap()
            .connect()
            .await
            .unwrap();
        DevicePluginClient::new(channel)
    }

    /// Admits a pod of the API server, as kubelet does. Its containers' answers, or the refusal.
    pub async fn admit(
        &self,
        pod: Value,
    ) -> Result<BTreeMap<String, Vec<ContainerAllocateResponse>>, Status> {
        let name = text(&pod, "/metadata/name");
        self.lock().pods.push(pod.clone());
        self.lock().given.insert(name.clone(), BTreeMap::new());
        let mut answers: BTreeMap<String, Vec<ContainerAllocateResponse>> = BTreeMap::new();
        for container in pod["spec"]["containers"].as_array().unwrap() {
            let limits = container["resources"]["limits"].as_object().unwrap();
            for (resource, count) in limits {
                let count: usize = count.as_str().unwrap().parse().unwrap();
                let container = text(container, "/name");
                match self.give(&name, &container, resource, count).await {
                    Ok(answer) => answers.entry(container).or_default().push(answer),
                    Err(status) => {
                        self.lock().given.remove(&name);
                        self.edit(&name, |pod| pod["status"] = json!({"phase": "Failed"}));
                        return Err(status);
                    }
                }
            }
        }
        self.edit(&name, |pod| {
            pod["status"] = json!({"phase": "Running", "containerStatuses": [{"name": "main"}]});
        });
        Ok(answers)
    }

    async fn give(
        &self,
        pod: &str,
        container: &str,
        resource: &str,
        count: usize,
    ) -> Result<ContainerAllocateResponse, Status> {
        let mut plugin = self.plugin(resource).await;
        let available = self.available(resource);
        let ids = if available.len() > count {
            let request = PreferredAllocationRequest {
                container_requests: vec![ContainerPreferredAllocationRequest {
                    available_device_i_ds: available,
                    must_include_device_i_ds: Vec::new(),
                    allocation_size: i32::try_from(count).unwrap(),
                }],
            };
            let response = plugin.get_preferred_allocation(request).await?;
            response.into_inner().container_responses[0]
                .device_i_ds
                .clone()
        } else {
            available
        };
        assert_eq!(ids.len(), count);
        let request = AllocateRequest {
            container_requests: vec![ContainerAllocateRequest {
                devices_ids: ids.clone(),
            }],
        };
        let response = plugin.allocate(request).await?.into_inner();
        let mut inner = self.lock();
        let devices = inner.given.get_mut(pod).unwrap();
        devices
            .entry(container.to_owned())
            .or_default()
            .insert(resource.to_owned(), ids);
        Ok(response.container_responses[0].clone())
    }

    fn available(&self, resource: &str) -> Vec<String> {
        let inner = self.lock();
        let used: BTreeSet<&String> = inner
            .given
            .values()
            .flat_map(BTreeMap::values)
            .filter_map(|d| d.get(resource))
            .flatten()
            .collect();
        inner.lists[resource]
            .iter()
            .filter(|(id, health)| *health == "Healthy" && !used.contains(id))
            .map(|(id, _)| id.clone())
            .collect()
    }

    pub fn edit(&self, pod: &str, change: impl FnOnce(&mut Value)) {
        let mut inner = self.lock();
        let mut pods = inner.pods.iter_mut();
        change(pods.find(|p| text(p, "/metadata/name") == pod).unwrap());
    }

    pub fn delete(&self, pod: &str) {
        let mut inner = self.lock();
        inner.pods.retain(|p| text(p, "/metadata/name") != pod);
        inner.given.remove(pod);
    }

    pub fn annotation(&self, pod: &str, key: &str) -> Option<String> {
        let inner = self.lock();
        let mut pods = inner.pods.iter();
        let pod = pods.find(|p| text(p, "/metadata/name") == pod)?;
        pod["metadata"]["annotations"][key]
            .as_str()
            .map(str::to_owned)
    }
}

fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).unwrap().as_str().unwrap().to_owned()
}

fn merge(into: &mut Value, patch: &Value) {
    match patch {
        Value::Object(fields) => {
            if !into.is_object() {
                *into = json!({});
            }
            for (key, value) in fields {
                if value.is_null() {
                    into.as_object_mut().unwrap().remove(key);
                } else {
                    merge(&mut into[key], value);
                }
            }
        }
        other => *into = other.clone(),
    }
}

async fn patch_node(State(world): State<World>, Json(patch): Json<Value>) -> Json<Value> {
    let mut inner = world.lock();
    merge(&mut inner.node, &patch);
    Json(inner.node.clone())
}

async fn patch_node_status(
    State(world): State<World>,
    body: axum::body::Bytes,
) -> Result<Json<Value>, StatusCode> {
    let operations: Value = serde_json::from_slice(&body).unwrap();
    let mut inner = world.lock();
    for operation in operations.as_array().unwrap() {
        assert_eq!(operation["op"], "remove");
        let path = text(operation, "/path");
        let (parent, key) = path.rsplit_once('/').unwrap();
        let key = key.replace("~1", "/");
        let parent = inner.node.pointer_mut(parent).unwrap();
        let removed = parent.as_object_mut().unwrap().remove(&key);
        removed.ok_or(StatusCode::UNPROCESSABLE_ENTITY)?;
    }
    Ok(Json(inner.node.clone()))
}

async fn patch_pod(
    State(world): State<World>,
    UrlPath((_, name)): UrlPath<(String, String)>,
    Json(patch): Json<Value>,
) -> Result<Json<Value>, StatusCode> {
    let mut inner = world.lock();
    let mut pods = inner.pods.iter_mut();
    let pod = pods
        .find(|p| text(p, "/metadata/name") == name)
        .ok_or(StatusCode::NOT_FOUND)?;
    if patch["metadata"]["uid"] != pod["metadata"]["uid"] {
        return Err(StatusCode::CONFLICT);
    }
    merge(pod, &patch);
    Ok(Json(pod.clone()))
}

#[tonic::async_trait]
impl Registration for World {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        let request = request.into_inner();
        assert_eq!(request.version, "v1beta1");
        assert!(request.options.unwrap().get_preferred_allocation_available);
        let resource = request.resource_name;
        // Dials back before it answers.
        let socket = self.plugins().join(request.endpoint);
        self.connect(resource, socket).await?;
        Ok(Response::new(Empty {}))
    }
}

#[tonic::async_trait]
impl PodResourcesLister for World {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        if self.lock().no_pod_resources {
            return Err(Status::unimplemented(
                "unknown service v1.PodResourcesLister",
            ));
        }
        let given = self.lock().given.clone();
        let pods = given.into_iter().map(|(name, containers)| PodResources {
            name,
            namespace: "default".to_owned(),
            containers: containers
                .into_iter()
                .map(|(name, devices)| ContainerResources {
                    name,
                    devices: devices
                        .into_iter()
                        .map(|(resource_name, device_ids)| ContainerDevices {
                            resource_name,
                            device_ids,
                            topology: None,
                        })
                        .collect(),
                    cpu_ids: Vec::new(),
                })
                .collect(),
        });
        Ok(Response::new(ListPodResourcesResponse {
            pod_resources: pods.collect(),
        }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<AllocatableResourcesRequest>,
    ) -> Result<Response<AllocatableResourcesResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn get(
        &self,
        _: Request<GetPodResourcesRequest>,
    ) -> Result<Response<GetPodResourcesResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }
}

/// Waits until it is so; fails after 20 s.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    assert!(waited.is_ok(), "not within 20 s: {what}");
}
