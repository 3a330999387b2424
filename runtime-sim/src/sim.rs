//! A whole simulated Runtime: state, sockets, and the time that passes.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::TryStreamExt;
use runtime_proto::{
    Sockets,
    client::Allocation,
    wire::{config_daemon_server::ConfigDaemonServer, device_manager_server::DeviceManagerServer},
};
use tokio::{net::UnixListener, time::sleep};
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tonic::transport::Server;

use crate::{
    edits::Edits,
    fault::Fault,
    feature::Feature,
    profile::Profile,
    services::Services,
    shared::Shared,
    socket::{self, Breakable, SocketError, SocketFile},
    state::State,
    store::{self, StoreError},
};

/// How to simulate.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folder of the sockets; made where it is not there.
    pub folder: PathBuf,
    /// What hardware.
    pub profile: Profile,
    /// Where the feature and the book outlast a restart; without it a restart loses the book.
    pub state: Option<PathBuf>,
    /// Whether the feature is on at the start. A state file that is there says it instead.
    pub feature_on: bool,
    /// How long switching the feature takes.
    pub switch_takes: Duration,
    /// How often the hardware is read.
    pub collection_interval: Duration,
    /// What containers get.
    pub edits: Edits,
    /// What the measured values start from.
    pub seed: u64,
}

impl Options {
    /// A Runtime that is on and quick, for tests.
    pub fn quick(folder: &Path, profile: Profile) -> Self {
        Self {
            folder: folder.to_owned(),
            profile,
            state: None,
            feature_on: true,
            switch_takes: Duration::from_millis(50),
            collection_interval: Duration::from_millis(100),
            edits: Edits::All,
            seed: 1,
        }
    }
}

/// Why a simulated Runtime can't run.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The profile makes no cards.
    #[error("profile: {0}")]
    Profile(String),
    /// The folder can't be made.
    #[error("folder {folder}: {why}")]
    Folder {
        /// Which.
        folder: PathBuf,
        /// From the system.
        why: std::io::Error,
    },
    /// A socket can't be had.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The state file can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A server ended by itself.
    #[error("the server ended: {0}")]
    Server(String),
}

/// A simulated Runtime. Dropped, it stops as if killed; its socket files go.
#[derive(Debug)]
pub struct Sim {
    shared: Arc<Shared>,
    sockets: Sockets,
    _task: AbortOnDropHandle<Result<(), SimError>>,
}

impl Sim {
    /// Starts it; both sockets are there when this returns.
    pub fn start(options: Options) -> Result<Self, SimError> {
        let sockets = Sockets::in_folder(&options.folder);
        let (shared, serving) = prepare(options, CancellationToken::new())?;
        Ok(Self {
            shared,
            sockets,
            _task: AbortOnDropHandle::new(tokio::spawn(serving)),
        })
    }

    /// Where it listens.
    pub fn sockets(&self) -> Sockets {
        self.sockets.clone()
    }

    /// Makes something go wrong, or right again. An unknown card is an error that names it.
    pub fn fault(&self, fault: &Fault) -> Result<(), String> {
        self.shared.fault(fault)
    }

    /// Its own book.
    pub fn book(&self) -> Vec<Allocation> {
        self.shared
            .with(|state| state.book().allocations().cloned().collect())
    }
}

/// Makes the state and binds the sockets. The future serves until `shutdown`.
pub(crate) fn prepare(
    options: Options,
    shutdown: CancellationToken,
) -> Result<(Arc<Shared>, impl Future<Output = Result<(), SimError>>), SimError> {
    let remembered = match &options.state {
        Some(file) => store::read(file)?,
        None => None,
    };
    let (feature, replaced, allocations) = match remembered {
        Some(known) => (
            Feature::new(known.feature_on, known.feature_failure),
            known.replaced,
            known.allocations,
        ),
        None => (Feature::new(options.feature_on, None), None, Vec::new()),
    };
    let is_replaced = replaced.is_some();
    let profile = replaced.unwrap_or(options.profile);
    let inventory = profile.inventory().map_err(SimError::Profile)?;
    let mut state = State::new(
        profile,
        &inventory,
        feature,
        options.switch_takes,
        options.seed,
    );
    if is_replaced {
        state.already_replaced();
    }
    state.restore(allocations.into_iter().map(Allocation::from).collect());
    std::fs::create_dir_all(&options.folder).map_err(|why| SimError::Folder {
        folder: options.folder.clone(),
        why,
    })?;
    let listeners = Listeners::bind(&options.folder)?;
    let shared = Arc::new(Shared::new(
        state,
        options.state,
        options.edits,
        options.collection_interval,
    ));
    let serving = serve(shared.clone(), options.folder, listeners, shutdown);
    Ok((shared, serving))
}

struct Listeners {
    device_manager: UnixListener,
    config_daemon: UnixListener,
    files: [SocketFile; 2],
}

impl Listeners {
    fn bind(folder: &Path) -> Result<Self, SocketError> {
        let sockets = Sockets::in_folder(folder);
        let (device_manager, first) = socket::bind(&sockets.device_manager)?;
        let (config_daemon, second) = socket::bind(&sockets.config_daemon)?;
        Ok(Self {
            device_manager,
            config_daemon,
            files: [first, second],
        })
    }

    /// Both services until `broken`; then every connection is reset and the sockets are gone.
    async fn serve(self, shared: &Arc<Shared>, broken: CancellationToken) -> Result<(), SimError> {
        let services = Services(shared.clone());
        let incoming = |listener| {
            let broken = broken.clone();
            UnixListenerStream::new(listener)
                .map_ok(move |stream| Breakable::new(stream, broken.clone()))
        };
        let device_manager = Server::builder()
            .add_service(DeviceManagerServer::new(services.clone()))
            .serve_with_incoming(incoming(self.device_manager));
        let config_daemon = Server::builder()
            .add_service(ConfigDaemonServer::new(services))
            .serve_with_incoming(incoming(self.config_daemon));
        // Last, so that the files go first, however this ends.
        let _files = self.files;
        let ended = tokio::select! {
            ended = device_manager => ended,
            ended = config_daemon => ended,
            () = broken.cancelled() => return Ok(()),
        };
        Err(SimError::Server(match ended {
            Ok(()) => "no more connections".to_owned(),
            Err(error) => error.to_string(),
        }))
    }
}

async fn serve(
    shared: Arc<Shared>,
    folder: PathBuf,
    mut listeners: Listeners,
    shutdown: CancellationToken,
) -> Result<(), SimError> {
    let mut restarts = shared.restart.subscribe();
    restarts.mark_unchanged();
    loop {
        // A child, so that shutdown breaks the connections too; also when this future is dropped.
        let broken = shutdown.child_token();
        let breaking = broken.clone().drop_guard();
        tokio::select! {
            ended = listeners.serve(&shared, broken) => ended?,
            () = shared.end_switches() => {}
            _ = restarts.changed() => {}
        }
        drop(breaking);
        if shutdown.is_cancelled() {
            return Ok(());
        }
        let down = restarts.borrow_and_update().unwrap_or_default();
        shared.restarted();
        tracing::info!(?down, "the sockets are away");
        tokio::select! {
            () = sleep(down) => {}
            () = shutdown.cancelled() => return Ok(()),
        }
        listeners = Listeners::bind(&folder)?;
        tracing::info!("the sockets are there again");
    }
}
