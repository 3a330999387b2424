//! The server over TLS: what a handshake may not do to others.

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName},
    },
};

use super::*;

const SOON: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(300);
const CLOSE: &str = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

struct Server {
    address: SocketAddr,
    tasks: Tasks,
    handle: tokio::task::JoinHandle<Result<(), Failure>>,
    certificate: CertificateDer<'static>,
}

fn start(limits: Limits) -> Server {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["here.test".to_owned()]).unwrap();
    let certificate = cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let tasks = Tasks::default();
    let router = Router::new().route("/", axum::routing::get(async || "hello"));
    let server = serve_tls(listener, router, tasks.clone(), limits, Arc::new(config));
    Server {
        address,
        tasks,
        handle: tokio::spawn(server),
        certificate,
    }
}

impl Server {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Asks over TLS and reads all of the answer.
    async fn ask(&self) -> String {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("here.test").unwrap();
        let asked = async {
            let stream = self.connect().await;
            let mut stream = TlsConnector::from(Arc::new(config))
                .connect(name, stream)
                .await
                .unwrap();
            stream.write_all(CLOSE.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        timeout(SOON, asked).await.unwrap()
    }

    async fn end(self) {
        self.tasks.start_shutdown();
        timeout(SOON, self.handle).await.unwrap().unwrap().unwrap();
    }
}

/// Reads until the server closes: a reset is as good an end.
async fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    let _ = timeout(SOON, stream.read_to_end(&mut answer))
        .await
        .expect("an end in time");
    answer
}

#[tokio::test]
async fn requests_are_answered_over_tls() {
    let server = start(Limits::default());
    let answer = server.ask().await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("hello"), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn a_client_that_speaks_plain_http_is_closed_at_once() {
    let server = start(Limits {
        handshake_timeout: SOON * 10,
        header_timeout: SOON * 10,
        ..Limits::default()
    });
    let mut plain = server.connect().await;
    plain.write_all(CLOSE.as_bytes()).await.unwrap();
    let answer = until_closed(&mut plain).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    server.end().await;
}

/// Sends a record that says it is 512 bytes of a handshake, and no more than its first two.
async fn half_open(server: &Server) -> TcpStream {
    let mut stream = server.connect().await;
    stream.write_all(&[22, 3, 1, 2, 0, 1, 0]).await.unwrap();
    stream
}

#[tokio::test]
async fn clients_that_stop_in_their_handshake_keep_nobody_waiting() {
    let server = start(Limits {
        handshake_timeout: SOON * 10,
        ..Limits::default()
    });
    let mut slow = Vec::new();
    for _ in 0..8 {
        slow.push(half_open(&server).await);
    }
    assert!(server.ask().await.ends_with("hello"));
    // They are let go with the program, not only after their time.
    server.end().await;
}

#[tokio::test]
async fn clients_in_their_handshake_take_places_and_lose_them_in_time() {
    let server = start(Limits {
        max_connections: 1,
        handshake_timeout: SHORT,
        header_timeout: SOON * 10,
        ..Limits::default()
    });
    let started = Instant::now();
    let mut silent = server.connect().await;
    let mut slow = half_open(&server).await;
    assert!(server.ask().await.ends_with("hello"));
    assert!(started.elapsed() >= SHORT * 2, "{:?}", started.elapsed());
    assert!(until_closed(&mut silent).await.is_empty());
    assert!(until_closed(&mut slow).await.is_empty());
    server.end().await;
}
