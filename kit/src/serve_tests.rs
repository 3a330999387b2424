use std::sync::atomic::AtomicUsize;

use axum::routing::{get, post};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::Notify,
    task::JoinHandle,
};

use super::*;

/// A deadline for what a test waits for.
const SOON: Duration = Duration::from_secs(20);

/// Short enough that a test does not last, long enough that a busy machine does not reach it.
const SHORT: Duration = Duration::from_millis(300);

struct Server {
    address: SocketAddr,
    tasks: Tasks,
    handle: JoinHandle<Result<(), Failure>>,
}

fn start(router: Router, limits: Limits) -> Server {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let tasks = Tasks::default();
    let handle = tokio::spawn(serve(listener, router, tasks.clone(), limits));
    Server {
        address,
        tasks,
        handle,
    }
}

impl Server {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn end(self) {
        self.tasks.start_shutdown();
        timeout(SOON, self.handle).await.unwrap().unwrap().unwrap();
    }
}

fn hello() -> Router {
    Router::new().route("/", get(async || "hello"))
}

/// Sends and reads what comes until the other side closes.
async fn say(stream: &mut TcpStream, text: &str) -> String {
    stream.write_all(text.as_bytes()).await.unwrap();
    rest(stream).await
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    // A reset instead of a close is as good an end.
    let _ = timeout(SOON, stream.read_to_end(&mut answer))
        .await
        .unwrap();
    String::from_utf8(answer).unwrap()
}

const CLOSE: &str = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
const KEEP: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

#[tokio::test]
async fn requests_are_answered_and_the_end_is_clean() {
    let server = start(hello(), Limits::default());
    let answer = say(&mut server.connect().await, CLOSE).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nhello"), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn a_client_that_says_nothing_is_closed() {
    let limits = Limits {
        header_timeout: SHORT,
        ..Limits::default()
    };
    let server = start(hello(), limits);
    let mut silent = server.connect().await;
    let mut dribbling = server.connect().await;
    dribbling.write_all(b"GET / HT").await.unwrap();
    assert_eq!(rest(&mut silent).await, "");
    rest(&mut dribbling).await;
    server.end().await;
}

#[tokio::test]
async fn slow_clients_do_not_keep_others_out_for_longer_than_the_header_timeout() {
    let limits = Limits {
        max_connections: 2,
        header_timeout: SHORT,
        ..Limits::default()
    };
    let server = start(hello(), limits);
    let mut slow = Vec::new();
    for _ in 0..6 {
        slow.push(server.connect().await);
    }
    let answer = say(&mut server.connect().await, CLOSE).await;
    assert!(answer.ends_with("hello"), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_time() {
    let limits = Limits {
        idle_timeout: SHORT,
        ..Limits::default()
    };
    let server = start(hello(), limits);
    let answer = say(&mut server.connect().await, KEEP).await;
    assert!(answer.ends_with("hello"), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let router = Router::new().route("/", post(async |body: String| body));
    let limits = Limits {
        request_timeout: SHORT,
        ..Limits::default()
    };
    let server = start(router, limits);
    let head = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n1234";
    let answer = say(&mut server.connect().await, head).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn connections_are_limited_and_none_is_refused() {
    let open = Arc::new(AtomicUsize::new(0));
    let release = Arc::new(Notify::new());
    let router = {
        let (open, release) = (Arc::clone(&open), Arc::clone(&release));
        Router::new().route(
            "/",
            get(async move || {
                let now = open.fetch_add(1, Ordering::SeqCst) + 1;
                release.notified().await;
                open.fetch_sub(1, Ordering::SeqCst);
                now.to_string()
            }),
        )
    };
    let limits = Limits {
        max_connections: 2,
        ..Limits::default()
    };
    let server = start(router, limits);
    let mut clients = JoinSet::new();
    for _ in 0..6 {
        let mut stream = server.connect().await;
        clients.spawn(async move { say(&mut stream, CLOSE).await });
    }
    let all = async {
        let mut answers = Vec::new();
        while answers.len() < 6 {
            release.notify_one();
            tokio::select! {
                Some(answer) = clients.join_next() => answers.push(answer.unwrap()),
                () = tokio::task::yield_now() => {}
            }
        }
        answers
    };
    for answer in timeout(SOON, all).await.unwrap() {
        assert!(
            answer.ends_with("\r\n1") || answer.ends_with("\r\n2"),
            "{answer}"
        );
    }
    server.end().await;
}

#[tokio::test]
async fn a_request_in_flight_is_finished_when_the_program_ends() {
    let entered = Arc::new(Notify::new());
    let release = Arc::new(Notify::new());
    let router = {
        let (entered, release) = (Arc::clone(&entered), Arc::clone(&release));
        Router::new().route(
            "/",
            get(async move || {
                entered.notify_one();
                release.notified().await;
                "finished"
            }),
        )
    };
    let server = start(router, Limits::default());
    let mut idle = server.connect().await;
    let mut busy = server.connect().await;
    busy.write_all(KEEP.as_bytes()).await.unwrap();
    timeout(SOON, entered.notified()).await.unwrap();
    server.tasks.start_shutdown();
    assert_eq!(rest(&mut idle).await, "");
    release.notify_one();
    assert!(rest(&mut busy).await.ends_with("finished"));
    server.end().await;
}

#[tokio::test]
async fn a_panic_in_a_handler_closes_only_its_connection() {
    let router = hello().route(
        "/panic",
        get(async || -> &'static str { panic!("on purpose") }),
    );
    let server = start(router, Limits::default());
    let request = "GET /panic HTTP/1.1\r\nhost: x\r\n\r\n";
    assert_eq!(say(&mut server.connect().await, request).await, "");
    let answer = say(&mut server.connect().await, CLOSE).await;
    assert!(answer.ends_with("hello"), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn garbage_is_answered_with_bad_request() {
    let server = start(hello(), Limits::default());
    let answer = say(&mut server.connect().await, "\u{16}\u{3}\u{1}\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn the_unspecified_ipv6_address_takes_ipv4_too() {
    let listener = listen("[::]:0".parse().unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = TcpStream::connect(("127.0.0.1", port));
    timeout(SOON, connect).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let first = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = first.local_addr().unwrap();
    let error = listen(address).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("can't listen on {address}: ")),
        "{error}"
    );
}

#[test]
fn only_the_lack_of_ipv6_falls_back() {
    assert!(no_ipv6(&io::Error::from_raw_os_error(97)));
    assert!(no_ipv6(&io::ErrorKind::AddrNotAvailable.into()));
    assert!(!no_ipv6(&io::ErrorKind::AddrInUse.into()));
    assert!(!no_ipv6(&io::ErrorKind::PermissionDenied.into()));
}
