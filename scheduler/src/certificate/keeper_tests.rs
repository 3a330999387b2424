//! The keeper against an API server in small, and its certificates in real handshakes.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, routing::get};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::ByteString;
use kube::{Client, client::Body};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::Barrier,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    content::Content,
    keeper::Keeper,
    serve::{self, Current},
    store::Store,
    testing::{DAY, START, names, of_others},
};
use crate::metrics::CertificateMetrics;

const NAME: &str = "scheduler.kube-system.svc";
const SECRET: &str = "/api/v1/namespaces/kube-system/secrets/tls";
const CONFIG_MAP: &str = "/api/v1/namespaces/kube-system/configmaps/ca";
const SOON: Duration = Duration::from_secs(20);

/// An API server with one Secret and one `ConfigMap`, both made empty.
#[derive(Clone)]
struct Api(Arc<Mutex<Objects>>);

struct Objects {
    secret: Value,
    config_map: Value,
    writes: Vec<(String, StatusCode)>,
    is_away: bool,
    /// A path that may not be patched.
    forbidden: Option<&'static str>,
}

impl Api {
    fn start() -> Self {
        let object = json!({ "metadata": { "resourceVersion": "1" } });
        Self(Arc::new(Mutex::new(Objects {
            secret: object.clone(),
            config_map: object,
            writes: Vec::new(),
            is_away: false,
            forbidden: None,
        })))
    }

    fn with<T>(&self, change: impl FnOnce(&mut Objects) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }

    /// With `together`, the answer to the first read of the Secret waits until as many have read.
    fn client(&self, together: Option<Arc<Barrier>>) -> Client {
        let api = self.clone();
        let together = Arc::new(Mutex::new(together));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (api, together) = (api.clone(), together.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let path = parts.uri.path();
                let (code, answer) = api.with(|o| o.answer(&parts.method, path, &body));
                let waits = path == SECRET && parts.method == Method::GET;
                let together = waits.then(|| together.lock().unwrap().take()).flatten();
                if let Some(together) = together {
                    timeout(SOON, together.wait()).await?;
                }
                let answer = Body::from(answer.to_string().into_bytes());
                let answer = Response::builder().status(code).body(answer).unwrap();
                Ok::<_, tower::BoxError>(answer)
            }
        });
        Client::new(service, "kube-system")
    }

    fn put(&self, content: &Content) {
        let text = |text: &[u8]| ByteString(text.to_vec());
        self.with(|objects| {
            objects.secret["data"] = json!({
                "ca.crt": text(&content.ca_crt), "ca.key": text(&content.ca_key),
                "tls.crt": text(&content.tls_crt), "tls.key": text(&content.tls_key),
            });
            next_version(&mut objects.secret);
        });
    }

    fn published(&self) -> String {
        let text = self.with(|o| o.config_map["data"]["ca.crt"].clone());
        text.as_str().unwrap_or_default().to_owned()
    }

    fn writes(&self, path: &str) -> Vec<StatusCode> {
        let all = self.with(|o| o.writes.clone());
        let of_path = all.into_iter().filter(|(p, _)| p == path);
        of_path.map(|(_, code)| code).collect()
    }
}

impl Objects {
    fn answer(&mut self, method: &Method, path: &str, body: &Value) -> (StatusCode, Value) {
        if self.is_away {
            return status(StatusCode::SERVICE_UNAVAILABLE);
        }
        if *method == Method::PATCH && self.forbidden == Some(path) {
            return status(StatusCode::FORBIDDEN);
        }
        let object = match path {
            SECRET => &mut self.secret,
            CONFIG_MAP => &mut self.config_map,
            _ => return status(StatusCode::FORBIDDEN),
        };
        if *method == Method::GET {
            return (StatusCode::OK, object.clone());
        }
        assert_eq!(*method, Method::PATCH, "more than the program may do");
        let version = &body["metadata"]["resourceVersion"];
        let is_stale = !version.is_null() && *version != object["metadata"]["resourceVersion"];
        let answer = if is_stale {
            status(StatusCode::CONFLICT)
        } else {
            for (key, value) in body["data"].as_object().unwrap() {
                object["data"][key] = value.clone();
            }
            next_version(object);
            (StatusCode::OK, object.clone())
        };
        self.writes.push((path.to_owned(), answer.0));
        answer
    }
}

fn next_version(object: &mut Value) {
    let version = object["metadata"]["resourceVersion"].as_str().unwrap();
    let next = version.parse::<u64>().unwrap() + 1;
    object["metadata"]["resourceVersion"] = next.to_string().into();
}

fn status(code: StatusCode) -> (StatusCode, Value) {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code.as_u16(), "reason": "on purpose", "message": "on purpose",
    });
    (code, body)
}

/// One replica: its keeper, and a server with what it keeps.
struct Replica {
    keeper: Keeper,
    readiness: kit::Readiness,
    metrics: CertificateMetrics,
    address: SocketAddr,
}

impl Replica {
    fn start(client: Client) -> Self {
        let current = Arc::new(Current::default());
        let readiness = kit::Readiness::default();
        let metrics = CertificateMetrics::new(&prometheus::Registry::new()).unwrap();
        let listener = kit::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let config = Arc::new(serve::config(Arc::clone(&current)).unwrap());
        let router = Router::new().route("/", get(async || "hello"));
        let limits = kit::Limits::default();
        tokio::spawn(kit::serve_tls(
            listener,
            router,
            kit::Tasks::default(),
            limits,
            config,
        ));
        let object = |text: &str| text.parse().unwrap();
        let keeper = Keeper::new(
            Store::new(
                client,
                object("kube-system/tls"),
                Some(object("kube-system/ca")),
            ),
            names(&[NAME]),
            current,
            readiness.condition("certificate", "waiting"),
            metrics.clone(),
        );
        Self {
            keeper,
            readiness,
            metrics,
            address,
        }
    }

    fn failures(&self, kind: &str) -> u64 {
        self.metrics.failures.with_label_values(&[kind]).get()
    }

    /// A connection of a client that trusts just these and expects this name.
    async fn connect(&self, ca_crt: &str, name: &'static str) -> std::io::Result<Connection> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca_crt.as_bytes()) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(self.address).await?;
        let connecting =
            TlsConnector::from(Arc::new(config)).connect(names(&[name]).remove(0), stream);
        timeout(SOON, connecting).await.unwrap().map(Connection)
    }
}

struct Connection(TlsStream<TcpStream>);

impl Connection {
    async fn ask(&mut self) -> String {
        let request = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
        self.0.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        while !answer.ends_with("hello") {
            let mut buffer = [0; 1024];
            let read = timeout(SOON, self.0.read(&mut buffer)).await.unwrap();
            let read = read.unwrap();
            assert_ne!(read, 0, "closed after {answer:?}");
            answer.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
        }
        answer
    }

    fn certificate(&self) -> CertificateDer<'static> {
        let chain = self.0.get_ref().1.peer_certificates().unwrap();
        chain[0].clone().into_owned()
    }
}

/// Certificates that are handed to real handshakes are made for now.
fn now() -> u64 {
    rustls::pki_types::UnixTime::now().as_secs()
}

#[tokio::test]
async fn a_client_that_trusts_the_published_ca_is_served_and_others_are_not() {
    let api = Api::start();
    let mut replica = Replica::start(api.client(None));
    assert!(
        replica.connect("", NAME).await.is_err(),
        "nothing to serve yet"
    );
    let wait = replica.keeper.look(now()).await;
    assert_eq!(wait, Duration::from_hours(1));
    assert!(replica.readiness.unmet().is_empty());
    let ca = api.published();
    let mut connection = replica.connect(&ca, NAME).await.unwrap();
    assert!(connection.ask().await.starts_with("HTTP/1.1 200 OK\r\n"));
    let foreign = of_others(NAME, START, START + DAY).ca_crt;
    let refused = replica.connect(std::str::from_utf8(&foreign).unwrap(), NAME);
    assert!(refused.await.is_err(), "signed by a foreign CA");
    let refused = replica.connect(&ca, "other.kube-system.svc").await;
    assert!(refused.is_err(), "another name");
    let expiry = replica.metrics.expiry.get();
    assert!(u64::try_from(expiry).unwrap() > now() + 89 * DAY);

    // There is nothing to do at the next look.
    replica.keeper.look(now()).await;
    assert_eq!(api.writes(SECRET), [StatusCode::OK]);
    assert_eq!(api.writes(CONFIG_MAP), [StatusCode::OK]);
}

#[tokio::test]
async fn a_new_certificate_is_served_and_open_connections_go_on() {
    let api = Api::start();
    let mut replica = Replica::start(api.client(None));
    // Made 61 days ago: still good, and due.
    replica.keeper.look(now() - 61 * DAY).await;
    let ca = api.published();
    let mut before = replica.connect(&ca, NAME).await.unwrap();
    before.ask().await;
    replica.keeper.look(now()).await;
    let mut after = replica.connect(&ca, NAME).await.unwrap();
    assert_ne!(before.certificate(), after.certificate());
    before.ask().await;
    after.ask().await;
    assert_eq!(api.published(), ca);
}

#[tokio::test]
async fn two_replicas_that_start_at_once_serve_the_same_certificate() {
    let api = Api::start();
    let together = Arc::new(Barrier::new(2));
    let mut one = Replica::start(api.client(Some(Arc::clone(&together))));
    let mut other = Replica::start(api.client(Some(together)));
    tokio::join!(one.keeper.look(now()), other.keeper.look(now()));
    let mut outcomes = api.writes(SECRET);
    outcomes.sort();
    assert_eq!(outcomes, [StatusCode::OK, StatusCode::CONFLICT]);
    let ready = |replica: &Replica| replica.readiness.unmet().is_empty();
    assert!(ready(&one) != ready(&other), "the slower has to read again");

    let wait = if ready(&one) { &mut other } else { &mut one }
        .keeper
        .look(now())
        .await;
    assert_eq!(wait, Duration::from_hours(1));
    let ca = api.published();
    let mut served = Vec::new();
    for replica in [&one, &other] {
        assert!(ready(replica));
        assert_eq!(replica.failures("write"), 0);
        served.push(replica.connect(&ca, NAME).await.unwrap().certificate());
    }
    assert_eq!(served[0], served[1]);
    assert_eq!(api.writes(SECRET).len(), 2);
}

#[tokio::test]
async fn an_api_server_that_is_away_is_waited_for_and_a_good_certificate_stays() {
    let api = Api::start();
    let mut replica = Replica::start(api.client(None));
    api.with(|objects| objects.is_away = true);
    let wait = replica.keeper.look(now()).await;
    assert!(wait <= Duration::from_secs(1), "{wait:?}");
    let unmet = replica.readiness.unmet();
    assert_eq!(unmet[0].0, "certificate");
    assert!(unmet[0].1.contains("Secret kube-system/tls"), "{unmet:?}");
    api.with(|objects| objects.is_away = false);
    replica.keeper.look(now()).await;
    assert!(replica.readiness.unmet().is_empty());
    api.with(|objects| objects.is_away = true);
    replica.keeper.look(now()).await;
    assert!(replica.readiness.unmet().is_empty(), "it still serves");
    replica.keeper.look(now() + 91 * DAY).await;
    assert_eq!(
        replica.readiness.unmet().len(),
        1,
        "it serves what has ended"
    );
    assert_eq!(replica.failures("read"), 3);
}

#[tokio::test]
async fn somebody_else_s_certificate_is_followed_and_never_written() {
    let api = Api::start();
    let mut replica = Replica::start(api.client(None));
    let content = of_others(NAME, now() - DAY, now() + 80 * DAY);
    api.put(&content);
    let wait = replica.keeper.look(now()).await;
    assert_eq!(wait, Duration::from_mins(1));
    let first = replica.connect(&api.published(), NAME).await.unwrap();
    assert_eq!(replica.failures("ending"), 0);

    replica.keeper.look(now() + 70 * DAY).await;
    assert_eq!(replica.failures("ending"), 1);

    let mut damaged = content.clone();
    damaged.tls_key = b"junk".to_vec();
    api.put(&damaged);
    replica.keeper.look(now()).await;
    assert_eq!(replica.failures("malformed"), 1);
    let still = replica.connect(&api.published(), NAME).await.unwrap();
    assert_eq!(still.certificate(), first.certificate());

    api.put(&of_others(NAME, now() - DAY, now() + 80 * DAY));
    replica.keeper.look(now()).await;
    let renewed = replica.connect(&api.published(), NAME).await.unwrap();
    assert_ne!(renewed.certificate(), first.certificate());
    assert!(api.writes(SECRET).is_empty());
}

#[tokio::test]
async fn a_damaged_secret_of_ours_is_mended() {
    let api = Api::start();
    let mut replica = Replica::start(api.client(None));
    replica.keeper.look(now()).await;
    let ca = api.published();
    api.with(|objects| objects.secret["data"]["tls.crt"] = "anVuaw==".into());
    replica.keeper.look(now()).await;
    assert_eq!(replica.failures("malformed"), 1);
    assert!(replica.connect(&ca, NAME).await.is_ok());
    // A ConfigMap that somebody emptied is filled again.
    api.with(|objects| objects.config_map["data"] = json!({}));
    replica.keeper.look(now()).await;
    assert_eq!(api.published(), ca);
}

#[tokio::test]
async fn what_may_not_be_written_is_named_and_tried_again_soon() {
    let api = Api::start();
    let mut replica = Replica::start(api.client(None));
    api.with(|objects| objects.forbidden = Some(SECRET));
    assert!(replica.keeper.look(now()).await <= Duration::from_secs(1));
    let unmet = replica.readiness.unmet();
    assert_eq!(unmet[0].1, "Secret kube-system/tls: on purpose");
    assert_eq!(api.published(), "", "a CA that nobody has");

    api.with(|objects| objects.forbidden = Some(CONFIG_MAP));
    assert!(replica.keeper.look(now()).await <= Duration::from_secs(2));
    assert!(replica.readiness.unmet().is_empty(), "it can serve");
    assert_eq!(
        (replica.failures("write"), replica.failures("publish")),
        (1, 1)
    );

    api.with(|objects| objects.forbidden = None);
    assert_eq!(replica.keeper.look(now()).await, Duration::from_hours(1));
    assert!(replica.connect(&api.published(), NAME).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn it_looks_again_by_itself() {
    let api = Api::start();
    api.with(|objects| objects.is_away = true);
    let replica = Replica::start(api.client(None));
    let failures = replica.metrics.failures.with_label_values(&["read"]);
    tokio::spawn(replica.keeper.run(kit::Tasks::default()));
    let until = async |holds: &dyn Fn() -> bool| {
        while !holds() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let in_time = Duration::from_mins(10);
    timeout(in_time, until(&|| failures.get() > 3))
        .await
        .unwrap();
    api.with(|objects| objects.is_away = false);
    timeout(in_time, until(&|| replica.readiness.unmet().is_empty()))
        .await
        .unwrap();
    // And an hour later again.
    api.with(|objects| objects.config_map["data"] = json!({}));
    timeout(in_time * 7, until(&|| !api.published().is_empty()))
        .await
        .unwrap();
}
