//! The pods of this node: kubelet's read-only port where it is open, else the API server.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use kube::api::ListParams;
use serde::Deserialize;
use tokio::net::TcpStream;

use crate::object::Pod;

/// Why the pods are not known now.
#[derive(Debug, Clone, thiserror::Error)]
#[error("pods of this node from {source_name}: {why}")]
pub struct Error {
    /// URL that was asked.
    pub source_name: String,
    /// What went wrong.
    pub why: String,
}

/// Where the node's pods are read from. Cheap to clone.
#[derive(Clone)]
pub struct NodePods {
    source: Arc<Source>,
}

enum Source {
    Port {
        url: String,
        /// Pods that could not be read at the last call, so that each is logged once.
        bad: Mutex<BTreeSet<String>>,
    },
    ApiServer {
        pods: Box<kube::Api<Pod>>,
        selector: String,
    },
    Either {
        first: NodePods,
        second: NodePods,
        on_second: AtomicBool,
    },
}

impl NodePods {
    /// The most that is read of one answer.
    pub const MAX_ANSWER_BYTES: usize = 64 << 20;

    /// Kubelet answers from memory.
    const PORT_TIMEOUT: Duration = Duration::from_secs(5);
    const API_TIMEOUT: Duration = Duration::from_secs(30);
    /// Pods of one answer of the API server; a node runs at most a few hundred.
    const PAGE: u32 = 500;
    /// So many pages make the same bound as [`Self::MAX_ANSWER_BYTES`] at 6 KiB a pod.
    const MAX_PAGES: usize = 20;

    /// `http://127.0.0.1:10255`, asked for `/pods`.
    pub fn read_only_port(url: &str) -> Self {
        Self::from(Source::Port {
            url: format!("{}/pods", url.trim_end_matches('/')),
            bad: Mutex::default(),
        })
    }

    /// The API server, by field selector `spec.nodeName`.
    pub fn api_server(client: kube::Client, node: &model::name::NodeName) -> Self {
        Self::from(Source::ApiServer {
            pods: Box::new(kube::Api::all(client)),
            selector: format!("spec.nodeName={node}"),
        })
    }

    /// `first`, and whenever that fails `second`. Logs only when it changes from one to the
    /// other.
    pub fn either(first: Self, second: Self) -> Self {
        Self::from(Source::Either {
            first,
            second,
            on_second: AtomicBool::new(false),
        })
    }

    fn from(source: Source) -> Self {
        Self {
            source: Arc::new(source),
        }
    }

    /// The pods now, ended ones included. At most 64 MiB are read.
    pub async fn list(&self) -> Result<Vec<Pod>, Error> {
        match &*self.source {
            Source::Port { url, bad } => from_port(url, bad).await.map_err(|why| Error {
                source_name: url.clone(),
                why,
            }),
            Source::ApiServer { pods, selector } => {
                let listed = tokio::time::timeout(Self::API_TIMEOUT, from_api(pods, selector));
                let listed = listed
                    .await
                    .unwrap_or_else(|_| Err(format!("no answer within {:?}", Self::API_TIMEOUT)));
                listed.map_err(|why| Error {
                    source_name: format!("the API server ({selector})"),
                    why,
                })
            }
            Source::Either {
                first,
                second,
                on_second,
            } => Box::pin(from_either(first, second, on_second)).await,
        }
    }
}

async fn from_either(
    first: &NodePods,
    second: &NodePods,
    on_second: &AtomicBool,
) -> Result<Vec<Pod>, Error> {
    let error = match first.list().await {
        Ok(pods) => {
            if on_second.swap(false, Ordering::Relaxed) {
                tracing::info!("this node's pods are read from their first source again");
            }
            return Ok(pods);
        }
        Err(error) => error,
    };
    match second.list().await {
        Ok(pods) => {
            if !on_second.swap(true, Ordering::Relaxed) {
                tracing::warn!(%error, "this node's pods are read from their second source");
            }
            Ok(pods)
        }
        Err(other) => Err(Error {
            source_name: format!("{} and {}", error.source_name, other.source_name),
            why: format!("{}; {}", error.why, other.why),
        }),
    }
}

async fn from_api(pods: &kube::Api<Pod>, selector: &str) -> Result<Vec<Pod>, String> {
    let mut all = Vec::new();
    // Any version will do: it is answered from the API server's memory, not from etcd. Such an
    // answer comes in one piece, whatever limit is given; a server that cuts it is followed.
    let mut params = ListParams::default().fields(selector).match_any();
    for _ in 0..NodePods::MAX_PAGES {
        let page = pods.list(&params).await.map_err(|e| e.to_string())?;
        all.extend(page.items);
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => {
                params = ListParams::default()
                    .fields(selector)
                    .limit(NodePods::PAGE)
                    .continue_token(&token);
            }
            _ => return Ok(all),
        }
    }
    Err(format!("more than {} pods", all.len()))
}

async fn from_port(url: &str, bad: &Mutex<BTreeSet<String>>) -> Result<Vec<Pod>, String> {
    let body = tokio::time::timeout(NodePods::PORT_TIMEOUT, get(url))
        .await
        .map_err(|_| format!("no answer within {:?}", NodePods::PORT_TIMEOUT))??;
    let (pods, unread) = decode(&body)?;
    let mut known = bad.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, why) in &unread {
        if !known.contains(name) {
            tracing::warn!(
                pod = name,
                why,
                "a pod of the read-only port is passed over"
            );
        }
    }
    *known = unread.into_iter().map(|(name, _)| name).collect();
    Ok(pods)
}

#[derive(Deserialize)]
struct PodList {
    items: Option<Vec<Pod>>,
}

#[derive(Deserialize)]
struct RawList {
    items: Option<Vec<serde_json::Value>>,
}

type Unread = Vec<(String, String)>;

/// A pod that cannot be read does not hide the others.
fn decode(body: &[u8]) -> Result<(Vec<Pod>, Unread), String> {
    if let Ok(list) = serde_json::from_slice::<PodList>(body) {
        return Ok((list.items.unwrap_or_default(), Vec::new()));
    }
    let list: RawList = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let mut pods = Vec::new();
    let mut unread = Vec::new();
    for item in list.items.unwrap_or_default() {
        let part = |pointer| item.pointer(pointer).and_then(|v| v.as_str());
        let name = format!(
            "{}/{}",
            part("/metadata/namespace").unwrap_or("?"),
            part("/metadata/name").unwrap_or("?")
        );
        match Pod::deserialize(item) {
            Ok(pod) => pods.push(pod),
            Err(why) => unread.push((name, why.to_string())),
        }
    }
    Ok((pods, unread))
}

/// One plain GET on a connection of its own.
async fn get(url: &str) -> Result<Bytes, String> {
    let uri: http::Uri = url
        .parse()
        .map_err(|e: http::uri::InvalidUri| e.to_string())?;
    if uri.scheme_str() != Some("http") {
        return Err("must start with http://".to_owned());
    }
    let authority = uri.authority().ok_or("has no host")?;
    let host = authority.host().trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, authority.port_u16().unwrap_or(80)))
        .await
        .map_err(|e| e.to_string())?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| e.to_string())?;
    let request = http::Request::get(uri.path())
        .header(http::header::HOST, authority.as_str())
        .header(http::header::ACCEPT, "application/json")
        .body(Empty::<Bytes>::new())
        .map_err(|e| e.to_string())?;
    let answer = async move {
        let response = sender
            .send_request(request)
            .await
            .map_err(|e| e.to_string())?;
        if response.status() != http::StatusCode::OK {
            return Err(format!("answered {}", response.status()));
        }
        let body = Limited::new(response.into_body(), NodePods::MAX_ANSWER_BYTES);
        let read = body.collect().await.map_err(|e| e.to_string())?;
        Ok(read.to_bytes())
    };
    // Dropping the sender at the end of `answer` ends the connection too.
    futures_util::future::join(answer, connection).await.0
}

#[cfg(test)]
#[path = "node_pods_tests.rs"]
mod tests;
