//! The agent against a Runtime that speaks gRPC over a real socket.

use std::{
    collections::VecDeque,
    path::Path,
    sync::{Arc, Mutex},
};

use runtime_proto::wire::{
    DisableRequest, EnableRequest, FeaturePhase, OperationStatus, QueryStatusRequest,
    config_daemon_server::{ConfigDaemon, ConfigDaemonServer},
};
use tokio::{net::UnixListener, task::JoinHandle, time::timeout};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status, transport::Server};

use super::*;

/// A deadline for what a test waits for.
const SOON: Duration = Duration::from_secs(30);

/// Answers the calls in this order, whichever they are; the last answer again and again.
#[derive(Clone)]
struct Script {
    answers: Arc<Mutex<VecDeque<Result<FeaturePhase, Status>>>>,
    calls: Arc<Mutex<Vec<&'static str>>>,
}

impl Script {
    fn new<const N: usize>(answers: [Result<FeaturePhase, Status>; N]) -> Self {
        Self {
            answers: Arc::new(Mutex::new(answers.into())),
            calls: Arc::default(),
        }
    }

    fn answer(&self, call: &'static str) -> Result<Response<OperationStatus>, Status> {
        self.calls.lock().unwrap().push(call);
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 {
            answers.pop_front()
        } else {
            answers.front().cloned()
        };
        let phase = answer.expect("a script has an answer")?;
        Ok(Response::new(OperationStatus {
            phase: phase.into(),
            message: "as the script says".into(),
            progress_percent: 0,
        }))
    }

    fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().unwrap().clone()
    }

    fn serve(&self, folder: &Path) -> JoinHandle<()> {
        let socket = Sockets::in_folder(folder).config_daemon;
        let listener = UnixListener::bind(socket).unwrap();
        let service = ConfigDaemonServer::new(self.clone());
        tokio::spawn(async move {
            Server::builder()
                .add_service(service)
                .serve_with_incoming(UnixListenerStream::new(listener))
                .await
                .unwrap();
        })
    }
}

#[tonic::async_trait]
impl ConfigDaemon for Script {
    async fn enable(
        &self,
        request: Request<EnableRequest>,
    ) -> Result<Response<OperationStatus>, Status> {
        assert!(request.get_ref().request_id.starts_with("job-agent-"));
        self.answer("enable")
    }

    async fn disable(
        &self,
        _: Request<DisableRequest>,
    ) -> Result<Response<OperationStatus>, Status> {
        self.answer("disable")
    }

    async fn query_status(
        &self,
        _: Request<QueryStatusRequest>,
    ) -> Result<Response<OperationStatus>, Status> {
        self.answer("status")
    }
}

async fn switched(folder: &Path, wanted: Wanted, within: Duration) -> Result<(), String> {
    let client = Client::new(Sockets::in_folder(folder));
    timeout(SOON, switch_to(&client, wanted, within))
        .await
        .expect("an end in time")
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn the_feature_is_switched_on_and_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script::new([
        Ok(FeaturePhase::Disabled),
        Ok(FeaturePhase::Enabling),
        Ok(FeaturePhase::Enabling),
        Ok(FeaturePhase::Enabled),
    ]);
    let server = script.serve(folder.path());
    assert_eq!(switched(folder.path(), Wanted::Enabled, SOON).await, Ok(()));
    assert_eq!(script.calls(), ["status", "enable", "status", "status"]);
    assert_eq!(switched(folder.path(), Wanted::Enabled, SOON).await, Ok(()));
    assert_eq!(script.calls().len(), 5, "asked though it was on already");
    server.abort();
}

#[tokio::test]
async fn a_failed_switch_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script::new([
        Ok(FeaturePhase::Enabled),
        Ok(FeaturePhase::Disabling),
        Ok(FeaturePhase::Failed),
    ]);
    let server = script.serve(folder.path());
    assert_eq!(
        switched(folder.path(), Wanted::Disabled, SOON).await,
        Err("the switch failed: as the script says".into())
    );
    server.abort();
}

#[tokio::test]
async fn a_runtime_that_comes_late_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let agent = tokio::spawn(async move { switched(&path, Wanted::Enabled, SOON).await });
    // The first look has failed by the time that the second task runs, or fails after it: both
    // are right.
    tokio::task::yield_now().await;
    let script = Script::new([Ok(FeaturePhase::Enabled)]);
    let server = script.serve(folder.path());
    assert_eq!(agent.await.unwrap(), Ok(()));
    server.abort();
}

#[tokio::test]
async fn a_runtime_that_never_comes_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let within = Duration::from_secs(1);
    let why = switched(folder.path(), Wanted::Enabled, within)
        .await
        .unwrap_err();
    assert!(
        why.starts_with("the feature is not enabled within 1 s: no Runtime at "),
        "{why}"
    );
    assert!(why.contains("config-daemon.sock"), "{why}");
}

#[tokio::test]
async fn a_refusal_that_stands_is_final() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script::new([
        Ok(FeaturePhase::Disabled),
        Err(Status::failed_precondition("no licence")),
        Ok(FeaturePhase::Disabled),
    ]);
    let server = script.serve(folder.path());
    let why = switched(folder.path(), Wanted::Enabled, SOON)
        .await
        .unwrap_err();
    assert!(why.contains("no licence"), "{why}");
    assert_eq!(script.calls(), ["status", "enable", "status"]);
    server.abort();
}
