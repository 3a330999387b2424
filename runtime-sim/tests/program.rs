//! The simulator as a program: its control server and its end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{path::Path, time::Duration};

use clap::Parser;
use kit::Chassis;
use runtime_proto::{Client, Sockets};
use runtime_sim::Args;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("within 20 s")
}

fn args(folder: &Path, control: &str) -> Args {
    let folder = folder.to_str().unwrap();
    Args::parse_from([
        "runtime-sim",
        "--dir",
        folder,
        "--profile",
        "ppu-8x144",
        "--feature",
        "on",
        "--control-listen",
        control,
    ])
}

/// Status line and body.
async fn http(address: &str, method: &str, path: &str) -> (String, String) {
    let mut stream = soon(TcpStream::connect(address)).await.unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: sim\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon(stream.read_to_string(&mut answer)).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[tokio::test]
async fn faults_are_commanded_and_books_read_over_http() {
    let control = "127.0.91.1:9600";
    let folder = tempfile::tempdir().unwrap();
    let chassis = Chassis::default();
    let tasks = chassis.tasks.clone();
    let readiness = chassis.readiness.clone();
    runtime_sim::run(args(folder.path(), control), chassis)
        .await
        .unwrap();
    assert_eq!(readiness.unmet(), []);

    let (status, body) = http(control, "GET", "/book").await;
    assert!(status.contains("200"), "{status}");
    assert!(body.contains(r#"{"allocations":[]}"#), "{body}");
    let (_, body) = http(control, "GET", "/cards").await;
    assert!(body.contains(r#""feature":"enabled""#) && body.contains("ppu-7"));

    let (status, _) = http(control, "POST", "/faults/card-lost?card=ppu-7").await;
    assert!(status.contains("200"), "{status}");
    let client = Client::new(Sockets::in_folder(folder.path()));
    let (cards, _) = soon(client.book()).await.unwrap();
    assert_eq!(cards.inventory.cards().len(), 7);

    for (path, named) in [
        ("/faults/card-lost?card=ppu-9", "ppu-9"),
        ("/faults/melt", "melt"),
        ("/faults/slow?milliseconds=long", "long"),
        ("/faults/eof?a=b", "a"),
    ] {
        let (status, body) = http(control, "POST", path).await;
        assert!(status.contains("400"), "{path}: {status}");
        assert!(body.contains(named), "{path}: {body}");
        assert_eq!(body.trim().lines().count(), 1, "{path}: {body}");
    }
    assert!(http(control, "GET", "/faults/eof").await.0.contains("405"));

    tasks.shutdown_token().cancel();
    let sockets = Sockets::in_folder(folder.path());
    soon(async {
        while sockets.device_manager.exists() || sockets.config_daemon.exists() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_second_simulator_in_the_same_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let chassis = Chassis::default();
    runtime_sim::run(args(folder.path(), "127.0.91.2:9600"), chassis.clone())
        .await
        .unwrap();
    let error = runtime_sim::run(args(folder.path(), "127.0.91.3:9600"), Chassis::default())
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("listens there already"),
        "{error}"
    );
    chassis.tasks.shutdown_token().cancel();
}
