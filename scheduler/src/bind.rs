//! Bind: the promise is entered first, then the API server is asked, then it is kept or taken
//! back.

use std::time::{Duration, Instant};

use kit::{Failure, Tasks};
use kube::{Api, Client};
use kubernetes::object::Pod;
use model::{
    name::{PodRef, PodUid},
    plan::Plan,
};

use crate::{
    assume::{Found, NoBind},
    convert::{self, BindCall},
    lease::{Leadership, Pass},
    pod::{PodSeen, Stand},
    shared::Shared,
};

/// How often doubtful binds are asked about.
const SETTLE_EVERY: Duration = Duration::from_secs(5);

/// What kube-scheduler is told by a replica that has ceased to lead since the call came in.
const NOT_LEADING: &str = "this replica does not lead any more";

/// The longest that one call of the API server may take here; kube-scheduler waits a little more.
const API_WITHIN: Duration = Duration::from_secs(10);

/// Binds pods and settles what stayed open.
#[derive(Clone)]
pub struct Binder {
    client: Client,
    shared: Shared,
    leadership: Leadership,
}

/// What is to be done for one call.
enum Start {
    /// With this plan.
    Planned(Plan),
    /// The pod asks for no card: it is bound as kube-scheduler would.
    Plain,
}

impl Binder {
    /// Over this client.
    pub(crate) fn new(client: Client, shared: Shared, leadership: Leadership) -> Self {
        Self {
            client,
            shared,
            leadership,
        }
    }

    /// Binds the pod. The error is for kube-scheduler, which shows it in the pod's event.
    pub async fn bind(&self, call: &BindCall) -> Result<(), String> {
        let pass = self.leadership.pass().await.ok_or(NOT_LEADING)?;
        let start = self.begin(call).await?;
        let plan = match &start {
            Start::Planned(plan) => Some(plan),
            Start::Plain => None,
        };
        let settings = self.shared.read().settings().clone();
        let body = convert::binding(call, plan, &settings);
        let outcome = self.post(call, body, &pass).await;
        let now = Instant::now();
        let mut index = self.shared.write();
        match outcome {
            Ok(()) => {
                index.bind_accepted(&call.uid, now);
                drop(index);
                tracing::info!(pod = %call.pod, node = %call.node, "bound");
                Ok(())
            }
            Err(Answer::Refused(why)) => {
                index.bind_refused(&call.uid);
                Err(format!("the API server refused the binding: {why}"))
            }
            Err(Answer::Gone) => {
                index.delete_pod(&call.uid);
                Err(NoBind::Gone.to_string())
            }
            Err(Answer::NotAsked(why)) => {
                index.bind_refused(&call.uid);
                Err(why.to_owned())
            }
            Err(Answer::Lost(why)) => {
                index.bind_unknown(&call.uid, now);
                Err(format!(
                    "the API server's answer to the binding is not known: {why}"
                ))
            }
        }
    }

    async fn begin(&self, call: &BindCall) -> Result<Start, String> {
        let first = self.shared.write().begin_bind(&call.uid, &call.node);
        match first {
            Ok(plan) => return Ok(Start::Planned(plan)),
            Err(NoBind::Gone) => {}
            Err(why) => return Err(why.to_string()),
        }
        // The watch may be behind kube-scheduler's.
        match self.find(&call.pod, &call.uid).await? {
            Found::Gone => Err(NoBind::Gone.to_string()),
            Found::Pod(seen) if matches!(seen.stand, Stand::Nothing) => Ok(Start::Plain),
            Found::Pod(PodSeen {
                stand: Stand::Holds { node, .. } | Stand::NotKnown { node, .. },
                ..
            }) => Err(NoBind::Bound(node).to_string()),
            Found::Pod(seen) => {
                let mut index = self.shared.write();
                index.learn(seen);
                index
                    .begin_bind(&call.uid, &call.node)
                    .map(Start::Planned)
                    .map_err(|why| why.to_string())
            }
        }
    }

    async fn find(&self, pod: &PodRef, uid: &PodUid) -> Result<Found, String> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), pod.namespace.as_str());
        let found = tokio::time::timeout(API_WITHIN, api.get_opt(pod.name.as_str()))
            .await
            .map_err(|_| format!("the API server did not answer within {API_WITHIN:?}"))?
            .map_err(|error| format!("pod {pod} can't be read: {error}"))?;
        let settings = self.shared.read().settings().clone();
        match found.filter(|p| p.metadata.uid.as_deref() == Some(uid.as_str())) {
            None => Ok(Found::Gone),
            Some(object) => convert::pod(&object, &settings)
                .map(Found::Pod)
                .map_err(|e| format!("pod {pod}: {e}")),
        }
    }

    async fn post(&self, call: &BindCall, body: Vec<u8>, pass: &Pass) -> Result<(), Answer> {
        let within = self
            .leadership
            .left(pass, API_WITHIN, Instant::now())
            .ok_or(Answer::NotAsked(NOT_LEADING))?;
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}/binding",
            call.pod.namespace, call.pod.name
        );
        let request = http::Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|e| Answer::Refused(e.to_string()))?;
        match tokio::time::timeout(within, self.client.request_text(request)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Err(Answer::Gone),
            Ok(Err(kube::Error::Api(status))) if is_refusal(status.code) => {
                Err(Answer::Refused(status.message.clone()))
            }
            Ok(Err(error)) => Err(Answer::Lost(error.to_string())),
            Err(_) => Err(Answer::Lost(format!("none within {within:?}"))),
        }
    }

    /// Asks about doubtful binds until shutdown.
    pub async fn settle(self, tasks: Tasks) -> Result<(), Failure> {
        let mut tick = tokio::time::interval(SETTLE_EVERY);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = tasks.shutdown() => return Ok(()),
            }
            let doubtful = self.shared.read().doubtful(Instant::now());
            for (uid, pod) in doubtful {
                // What is seen is at least as new as this, and may be no newer.
                let asked = self.shared.read().asking(Instant::now());
                match self.find(&pod, &uid).await {
                    Ok(found) => {
                        let notice = self.shared.write().settle(&uid, found, asked);
                        if let Some(notice) = notice {
                            tracing::warn!("{notice}");
                        }
                    }
                    Err(why) => tracing::debug!(%pod, why, "a bind stays open"),
                }
            }
        }
    }
}

/// Whether an answer says for sure that the bind has not been made. 429 and 5xx may stand for a
/// write that was made all the same; so may 409, where the client repeated the call by itself
/// after such an answer: the pod is bound already, by the first one.
pub(crate) fn is_refusal(code: u16) -> bool {
    (400..500).contains(&code) && !matches!(code, 409 | 429)
}

/// How the API server answered, other than with yes.
enum Answer {
    /// It was not asked.
    NotAsked(&'static str),
    /// There is no such pod. Its uid never comes again.
    Gone,
    /// No, for sure.
    Refused(String),
    /// It may have taken effect.
    Lost(String),
}
