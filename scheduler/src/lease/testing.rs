//! An API server in small, for tests: it has one Lease.

use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::sync::Barrier;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// How the API server treats one replica's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    Good,
    /// It answers, and badly.
    Fails,
    /// It never answers, and does nothing.
    Hangs,
    /// It does what it is told, and the answer is lost.
    LosesAnswers,
}

/// One Lease, or none.
#[derive(Clone, Default)]
pub(super) struct Api(Arc<Mutex<Objects>>);

#[derive(Default)]
pub(super) struct Objects {
    pub(super) lease: Option<Value>,
    /// Of the latest write.
    pub(super) version: u64,
    writes: Vec<(Method, StatusCode)>,
}

impl Api {
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut Objects) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }

    /// Somebody else writes that.
    pub(super) fn put(&self, spec: &Value) {
        self.with(|objects| objects.put(json!({"metadata": {"name": "lease"}, "spec": spec})));
    }

    pub(super) fn spec(&self) -> Value {
        self.with(|o| o.lease.as_ref().map_or(Value::Null, |l| l["spec"].clone()))
    }

    pub(super) fn holder(&self) -> String {
        let holder = self.spec()["holderIdentity"].clone();
        holder.as_str().unwrap_or_default().to_owned()
    }

    /// What was written since this was last asked, and what came of it.
    pub(super) fn writes(&self) -> Vec<(Method, StatusCode)> {
        self.with(|objects| std::mem::take(&mut objects.writes))
    }

    /// The answer to the first read waits until all of `together` have read.
    pub(super) fn client(&self, link: &Arc<Mutex<Link>>, together: Option<Arc<Barrier>>) -> Client {
        let (api, link) = (self.clone(), Arc::clone(link));
        let together = Arc::new(Mutex::new(together));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (api, link, together) = (api.clone(), Arc::clone(&link), Arc::clone(&together));
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let link = *link.lock().unwrap();
                let (code, answer) = match link {
                    Link::Hangs => std::future::pending().await,
                    Link::Fails => status(StatusCode::INTERNAL_SERVER_ERROR),
                    Link::Good | Link::LosesAnswers => {
                        api.with(|o| o.answer(&parts.method, parts.uri.path(), body))
                    }
                };
                if link == Link::LosesAnswers && parts.method != Method::GET {
                    return Err(tower::BoxError::from("the connection is gone"));
                }
                let together = together.lock().unwrap().take();
                if let Some(together) = together {
                    together.wait().await;
                }
                let answer = Body::from(answer.to_string().into_bytes());
                Ok(Response::builder().status(code).body(answer).unwrap())
            }
        });
        Client::new(service, "kube-system")
    }
}

impl Objects {
    pub(super) fn put(&mut self, mut lease: Value) {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.lease = Some(lease);
    }

    fn answer(&mut self, method: &Method, path: &str, body: Value) -> (StatusCode, Value) {
        let named = format!("{LEASES}/lease");
        if *method == Method::GET {
            assert_eq!(path, named);
            return match &self.lease {
                Some(lease) => (StatusCode::OK, lease.clone()),
                None => status(StatusCode::NOT_FOUND),
            };
        }
        let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
        let answer = match (method, &self.lease) {
            (&Method::POST, None) if path == LEASES => Ok(StatusCode::CREATED),
            (&Method::POST, Some(_)) if path == LEASES => Err(StatusCode::CONFLICT),
            (&Method::PUT, None) if path == named => Err(StatusCode::NOT_FOUND),
            (&Method::PUT, Some(now)) if path == named && version(now) != version(&body) => {
                Err(StatusCode::CONFLICT)
            }
            (&Method::PUT, Some(_)) if path == named => Ok(StatusCode::OK),
            other => panic!("more than the program may do: {other:?} at {path}"),
        };
        self.writes
            .push((method.clone(), answer.unwrap_or_else(|refused| refused)));
        match answer {
            Ok(code) => {
                self.put(body);
                (code, self.lease.clone().unwrap_or_default())
            }
            Err(code) => status(code),
        }
    }
}

fn status(code: StatusCode) -> (StatusCode, Value) {
    let reason = match code {
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::CONFLICT => "Conflict",
        _ => "InternalError",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code.as_u16(), "reason": reason, "message": "on purpose",
    });
    (code, body)
}

/// What a keeper of another process wrote.
pub(super) fn held(by: &str, seconds: i32) -> Value {
    json!({
        "holderIdentity": by, "leaseDurationSeconds": seconds, "leaseTransitions": 3,
        "renewTime": "2027-01-01T00:00:00.000000Z",
    })
}
