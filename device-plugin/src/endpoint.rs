//! One resource's socket in kubelet's device-plugins folder, served.

use std::{
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use kubernetes::device_plugin::device_plugin_server::DevicePluginServer;
use tokio::{net::UnixListener, sync::watch, time::Instant};
use tokio_stream::{StreamExt as _, wrappers::UnixListenerStream};
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::Server;

use crate::{
    admission::Calls,
    authority::PathAuthority,
    offers::Offer,
    registration::FileId,
    service::{List, Service},
    socket_name::socket_name,
};

/// GetPreferredAllocation carries all free ids of a resource, some twice.
const MOST_REQUEST_BYTES: usize = 16 << 20;

/// How long kubelet may take to read the empty list of a withdrawn resource.
const LAST_LIST_WITHIN: Duration = Duration::from_secs(2);

/// Which file is there, if any.
pub fn file_id(path: &Path) -> Option<FileId> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    Some(FileId {
        device: meta.dev(),
        inode: meta.ino(),
        changed: (meta.ctime(), meta.ctime_nsec()),
    })
}

/// A served socket. Dropped, it is served no more.
pub struct Endpoint {
    path: PathBuf,
    file: FileId,
    list: watch::Sender<List>,
    streams: Arc<AtomicUsize>,
    server: AbortOnDropHandle<Result<(), tonic::transport::Error>>,
}

impl Endpoint {
    /// Binds the socket, in place of one that an earlier run left, and serves it.
    pub fn serve(folder: &Path, calls: Calls, offer: Arc<Offer>) -> io::Result<Self> {
        let path = folder.join(socket_name(&calls.resource));
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        let file = file_id(&path).ok_or(io::ErrorKind::NotFound)?;
        let (list, lists) = watch::channel(List::Now(offer));
        let streams = Arc::new(AtomicUsize::new(0));
        let service = DevicePluginServer::new(Service::new(calls, lists, streams.clone()))
            .max_decoding_message_size(MOST_REQUEST_BYTES);
        let connections = UnixListenerStream::new(listener).map(|c| c.map(PathAuthority::new));
        let serving = Server::builder()
            .add_service(service)
            .serve_with_incoming(connections);
        Ok(Self {
            path,
            file,
            list,
            streams,
            // Kept by this handle, and ended with it.
            server: AbortOnDropHandle::new(tokio::spawn(serving)),
        })
    }

    /// Whether the socket is there and served.
    pub fn is_served(&self) -> bool {
        file_id(&self.path) == Some(self.file) && !self.server.is_finished()
    }

    /// Open ListAndWatch streams.
    pub fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }

    /// The list is now this.
    pub fn send(&self, offer: Arc<Offer>) {
        self.list.send_replace(List::Now(offer));
    }

    /// Sends an empty list, ends the streams, then the socket.
    pub async fn withdraw(self) {
        self.list.send_replace(List::Withdrawn);
        let deadline = Instant::now() + LAST_LIST_WITHIN;
        while self.streams() > 0 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // Another program's socket of that name is not ours to remove.
        if file_id(&self.path) == Some(self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
