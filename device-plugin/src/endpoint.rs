//! One resource's socket in a folder of kubelet's, served.

use std::{
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use kubernetes::{
    device_plugin::device_plugin_server::DevicePluginServer,
    plugin_registration::registration_server::RegistrationServer,
};
use tokio::{net::UnixListener, sync::watch, time::timeout};
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
    watched::Watched,
};

/// GetPreferredAllocation carries all free ids of a resource, some twice.
const MOST_REQUEST_BYTES: usize = 16 << 20;

/// How long kubelet may take to read the empty list of a withdrawn resource.
const LAST_LIST_WITHIN: Duration = Duration::from_secs(2);

/// Kubelet's plugin watcher looks every second, and registers within milliseconds.
const FOUND_WITHIN: Duration = Duration::from_secs(5);

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
    streams: watch::Sender<usize>,
    refusal: watch::Sender<Option<String>>,
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
        let streams = watch::Sender::new(0);
        let refusal = watch::Sender::new(None);
        let watched = Watched::new(calls.resource.to_string(), refusal.clone());
        let service = DevicePluginServer::new(Service::new(calls, lists, streams.clone()))
            .max_decoding_message_size(MOST_REQUEST_BYTES);
        let connections = UnixListenerStream::new(listener).map(|c| c.map(PathAuthority::new));
        let serving = Server::builder()
            .add_service(service)
            .add_service(RegistrationServer::new(watched))
            .serve_with_incoming(connections);
        Ok(Self {
            path,
            file,
            list,
            streams,
            refusal,
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
        *self.streams.borrow()
    }

    /// The list is now this.
    pub fn send(&self, offer: Arc<Offer>) {
        self.list.send_replace(List::Now(offer));
    }

    /// Sends an empty list, ends the streams, then the socket.
    pub async fn withdraw(self) {
        self.list.send_replace(List::Withdrawn);
        let mut streams = self.streams.subscribe();
        let _ = timeout(LAST_LIST_WITHIN, streams.wait_for(|n| *n == 0)).await;
    }

    /// Waits until kubelet's plugin watcher has found the socket and its list is followed.
    pub fn found(&self) -> impl Future<Output = Result<(), String>> + use<> {
        let mut streams = self.streams.subscribe();
        let mut refusal = self.refusal.subscribe();
        async move {
            let found = async {
                tokio::select! {
                    Ok(_) = streams.wait_for(|n| *n > 0) => Ok(()),
                    Ok(why) = refusal.wait_for(Option::is_some) => Err(why.clone().unwrap_or_default()),
                    else => Err("the resource is withdrawn".to_owned()),
                }
            };
            timeout(FOUND_WITHIN, found)
                .await
                .unwrap_or_else(|_| Err(format!("not found by kubelet within {FOUND_WITHIN:?}")))
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
