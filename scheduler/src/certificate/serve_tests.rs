use std::{net::SocketAddr, time::Duration};

use kit::{Limits, Tasks};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, RootCertStore},
};

use super::*;
use crate::certificate::{
    keep::{Kept, next},
    now,
};

const NAME: &str = "extender.kube-system.svc";

/// A fresh CA, as PEM, and a pair of it.
fn fresh() -> (String, Pair) {
    let names = [NAME.to_owned()];
    let kept = next(&Kept::default(), &names, now())
        .unwrap()
        .write
        .unwrap();
    let pair = next(&kept, &names, now()).unwrap().serve.unwrap();
    (kept.ca.unwrap(), pair)
}

/// A server on loopback that answers `/` with `well`.
fn serve(served: &Arc<Served>) -> SocketAddr {
    let listener = kit::listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let router = axum::Router::new().route("/", axum::routing::get(|| async { "well" }));
    let limits = Limits {
        max_connections: 4,
        header_timeout: Duration::from_secs(2),
        ..Limits::default()
    };
    let config = served.config().unwrap();
    tokio::spawn(kit::serve_tls(
        listener,
        router,
        Tasks::default(),
        limits,
        config,
    ));
    address
}

async fn connect(
    address: SocketAddr,
    ca: &str,
    name: &'static str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for ca in CertificateDer::pem_slice_iter(ca.as_bytes()) {
        roots.add(ca.unwrap()).unwrap();
    }
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    let name = name.try_into().unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

async fn asks(stream: &mut TlsStream<TcpStream>) -> String {
    let request = format!("GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let length = stream.read(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

#[tokio::test]
async fn a_client_that_knows_the_ca_and_the_name_is_served_and_no_other() {
    let (ca, pair) = fresh();
    let served = Arc::new(Served::default());
    let address = serve(&served);
    assert!(connect(address, &ca, NAME).await.is_err(), "none yet");
    served.replace(&pair).unwrap();

    let mut stream = connect(address, &ca, NAME).await.unwrap();
    assert!(asks(&mut stream).await.ends_with("well"));
    let elsewhere = connect(address, &ca, "elsewhere.svc").await.unwrap_err();
    assert!(
        elsewhere.to_string().contains("not valid for name"),
        "{elsewhere}"
    );
    let (foreign, _) = fresh();
    let unknown = connect(address, &foreign, NAME).await.unwrap_err();
    assert!(
        unknown.to_string().contains("invalid peer certificate"),
        "{unknown}"
    );
}

#[tokio::test]
async fn a_new_certificate_is_shown_to_new_connections_and_old_ones_go_on() {
    let (ca, pair) = fresh();
    let served = Arc::new(Served::default());
    served.replace(&pair).unwrap();
    let address = serve(&served);
    let mut old = connect(address, &ca, NAME).await.unwrap();
    let (new_ca, new) = fresh();
    served.replace(&new).unwrap();
    assert!(connect(address, &ca, NAME).await.is_err());
    assert!(connect(address, &new_ca, NAME).await.is_ok());
    assert!(asks(&mut old).await.ends_with("well"));
}

#[tokio::test]
async fn clients_that_speak_no_tls_or_nothing_are_closed_and_block_nobody() {
    let (ca, pair) = fresh();
    let served = Arc::new(Served::default());
    served.replace(&pair).unwrap();
    let address = serve(&served);
    let mut silent = Vec::new();
    for _ in 0..3 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let mut stream = connect(address, &ca, NAME).await.unwrap();
    assert!(asks(&mut stream).await.ends_with("well"));
    drop(stream);

    let mut plain = TcpStream::connect(address).await.unwrap();
    plain
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let mut rest = Vec::new();
    let closed = timeout(Duration::from_secs(5), plain.read_to_end(&mut rest)).await;
    assert!(closed.is_ok(), "a plain client is left hanging");
    assert!(!rest.starts_with(b"HTTP"), "it was served");
    for mut one in silent {
        let mut rest = Vec::new();
        let closed = timeout(Duration::from_secs(5), one.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "a silent client keeps its place");
    }
}
