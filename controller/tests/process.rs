//! The program as a process: exit codes, the lines that it says, its end.

#![allow(clippy::unwrap_used, clippy::expect_used)] // test code: a panic is how it fails

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

/// A deadline for what a test waits for.
const SOON: Duration = Duration::from_secs(30);

/// Nobody listens there.
const NO_SERVER: &str = "http://127.77.200.1:1";

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lj-runtimekit-controller"));
    command.env_clear().args(arguments).stdin(Stdio::null());
    command
}

fn refused(arguments: &[&str]) -> String {
    let Output { status, stderr, .. } = program(arguments).output().unwrap();
    let text = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(64), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

/// Ends the process with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Its lines of standard error as they come.
    fn lines(&mut self) -> mpsc::Receiver<String> {
        let (sender, lines) = mpsc::channel();
        let stderr = BufReader::new(self.0.stderr.take().unwrap());
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        lines
    }

    fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        let killed = Command::new("kill").args([name, &pid]).status().unwrap();
        assert!(killed.success());
    }
}

fn until(lines: &mpsc::Receiver<String>, what: &str) -> String {
    loop {
        let line = lines.recv_timeout(SOON).expect("more lines in time");
        if line.contains(what) {
            return line;
        }
    }
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn wrong_usage_ends_with_64_and_one_line_that_names_it() {
    assert_eq!(
        refused(&["--job-imge", "a"]),
        "lj-runtimekit-controller: unexpected argument '--job-imge' found; did you mean '--job-image'? (see --help)"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kit.yaml");
    std::fs::write(&file, "nodeLable: {}\n").unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(
        refused(&["--job-image", "a", "--config", file]),
        format!(
            "lj-runtimekit-controller: {file}:1:1: unknown key \"nodeLable\", did you mean \"nodeLabel\"?"
        )
    );
    let relative = refused(&["--job-image", "a", "--runtime-dir", "here"]);
    assert!(relative.contains("--runtime-dir here"), "{relative}");
    let url = refused(&["--job-image", "a", "--api-server", "nowhere"]);
    assert!(url.contains("--api-server \"nowhere\""), "{url}");
}

#[test]
fn help_and_version_go_to_standard_output() {
    for (flag, expected) in [
        ("--help", "--job-image"),
        ("--version", "lj-runtimekit-controller 1."),
    ] {
        let output = program(&[flag]).output().unwrap();
        assert!(output.status.success());
        assert!(output.stderr.is_empty());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn without_an_api_server_it_waits_and_says_so_and_a_signal_ends_it_well() {
    let arguments = [
        ["--job-image", "a"],
        ["--api-server", NO_SERVER],
        ["--admin-listen", "127.77.200.2:0"],
    ];
    let mut command = program(arguments.as_flattened());
    let mut running = Running(command.stderr(Stdio::piped()).spawn().unwrap());
    let lines = running.lines();
    let line = until(&lines, "admin server listens");
    let (_, address) = line.rsplit_once("address=").unwrap();
    until(&lines, "trying on");
    let ready = get(address, "/readyz");
    assert!(ready.starts_with("HTTP/1.1 503 "), "{ready}");
    assert!(ready.contains("\napi-server: "), "{ready}");
    assert!(get(address, "/healthz").starts_with("HTTP/1.1 200 "));
    let metrics = get(address, "/metrics");
    for name in [
        "lj_runtimekit_build_info{program=\"lj-runtimekit-controller\"",
        "lj_runtimekit_controller_jobs 0",
        "process_start_time_seconds",
    ] {
        assert!(metrics.contains(name), "{metrics}");
    }
    running.signal("-TERM");
    until(&lines, "ended");
    assert_eq!(running.0.wait().unwrap().code(), Some(0));
}
