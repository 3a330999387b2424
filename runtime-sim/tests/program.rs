//! The simulator as a program: its control server and its end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod scene;

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use clap::Parser;
use kit::Chassis;
use model::{backoff::Backoff, plan::GrantMode};
use runtime_proto::{Client, Sockets};
use runtime_sim::{Args, Fault, Profile, Sim};
use scene::{WITHIN, allocation, cards_after_loss, next_cards_at_last, refusal, soon};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

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

/// The program itself; killed when the test ends.
struct Process(Child);

impl Process {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_runtime-sim"));
        command.args(["--feature", "on", "--dir"]).arg(folder);
        command.arg("--state").arg(folder.join("state.json"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[tokio::test]
async fn a_killed_simulator_comes_back_with_its_book_over_its_stale_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let step = Duration::from_millis(20);
    let sockets = Sockets::in_folder(folder.path());
    let client = Client::with_backoff(sockets.clone(), Backoff::new(step, step * 4));
    let mut events = client.watch_cards();

    let first = Process::start(folder.path());
    let before = next_cards_at_last(&mut events).await;
    assert_eq!(before.inventory.cards().len(), 8);
    let asked = allocation("a", vec![("ppu-0", GrantMode::Whole)]);
    let edits = client.allocate(&asked, WITHIN).await.unwrap();
    drop(first);
    assert!(sockets.device_manager.exists(), "a kill leaves the socket");

    let _second = Process::start(folder.path());
    assert_eq!(cards_after_loss(&mut events).await, before);
    let (_, book) = soon(client.book()).await.unwrap();
    assert_eq!(book, std::slice::from_ref(&asked));
    assert_eq!(client.allocate(&asked, WITHIN).await.unwrap(), edits);
    let clash = allocation("b", vec![("ppu-0", GrantMode::Whole)]);
    assert!(refusal(client.allocate(&clash, WITHIN).await).contains("ppu-0"));
}

#[tokio::test]
async fn replaced_cards_outlast_a_restart_where_there_is_a_state_file() {
    let folder = scene::folder();
    let start = |run: &str| {
        let mut options = scene::options(&folder.path().join(run), "ppu-8x144");
        options.state = Some(folder.path().join("state.json"));
        Sim::start(options).unwrap()
    };
    let shown = async |sim: &Sim| soon(scene::client(sim).book()).await.unwrap().0.inventory;
    let [cut, whole] = ["ppu-8-cut", "ppu-8x144"].map(|p| Profile::built_in_called(p).unwrap());

    let sim = start("first");
    assert_eq!(shown(&sim).await, whole.inventory().unwrap());
    let cards = cut.inventory().unwrap();
    sim.fault(&Fault::ReplaceCards(Box::new(cut))).unwrap();
    drop(sim);

    let sim = start("second");
    assert_eq!(shown(&sim).await, cards);
    let cards = whole.inventory().unwrap();
    sim.fault(&Fault::ReplaceCards(Box::new(whole))).unwrap();
    drop(sim);
    assert_eq!(shown(&start("third")).await, cards);
}
