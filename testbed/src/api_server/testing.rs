//! A server inside the test, and its client.

use std::{future::Future, time::Duration};

use kube::{Api, Client, api::PostParams, core::NamespaceResourceScope};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio_util::sync::DropGuard;

use super::ApiServerArgs;

/// A running server; it ends with this value.
pub(crate) struct Server {
    pub(crate) client: Client,
    pub(crate) url: String,
    _end: DropGuard,
}

impl Server {
    pub(crate) fn start(args: &ApiServerArgs) -> Self {
        let tasks = kit::Tasks::default();
        let address = super::start(args, &tasks).unwrap();
        let url = format!("http://{address}");
        let api = kubernetes::api::ApiArgs {
            kubeconfig: None,
            api_server: Some(url.clone()),
        };
        Self {
            client: api.client().unwrap(),
            url,
            _end: tasks.shutdown_token().drop_guard(),
        }
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) fn cluster_api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::ClusterResourceScope, DynamicType = ()>,
    {
        Api::all(self.client.clone())
    }

    /// Sends any request; the code and the document that came back.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> (u16, Value) {
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = kube::client::Body::from(body.into());
        let response = self.client.send(request.body(body).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let body = http_body_util::BodyExt::collect(response.into_body())
            .await
            .unwrap();
        (
            code,
            serde_json::from_slice(&body.to_bytes()).unwrap_or_default(),
        )
    }
}

/// Creates an object from JSON.
pub(crate) async fn create<K>(api: &Api<K>, object: Value) -> Result<K, kube::Error>
where
    K: Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await
}

/// The code that the API server refused with.
pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> u16 {
    match result {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("not refused: {other:?}"),
    }
}

/// Fails a test that hangs.
pub(crate) async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what)
        .await
        .expect("it takes too long")
}

/// Waits until the object is as wanted.
pub(crate) async fn until<K>(
    api: &Api<K>,
    name: &str,
    wanted: impl Fn(Option<&K>) -> bool + Send + Sync,
) where
    K: Clone + DeserializeOwned + std::fmt::Debug + kube::Resource + Send + Sync + 'static,
{
    let condition = |object: Option<&K>| wanted(object);
    let waiting = kube::runtime::wait::await_condition(api.clone(), name, condition);
    // A watcher's state is large for a stack.
    within(Box::pin(waiting)).await.unwrap();
}
