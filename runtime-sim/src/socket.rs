//! Unix sockets that can be taken away: files that go when their listener does, and connections
//! that break on command.

use std::{
    fs, io,
    os::unix::{
        fs::{FileTypeExt, MetadataExt},
        net::UnixStream as StdUnixStream,
    },
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{UnixListener, UnixStream},
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

/// Why a socket can't be had.
#[derive(Debug, thiserror::Error)]
#[error("socket {socket}: {why}")]
pub struct SocketError {
    /// Its path.
    pub socket: PathBuf,
    /// From the system.
    pub why: io::Error,
}

/// The file of a socket: removed when dropped, unless somebody else has put another there. Drop it
/// before its listener: the number by which it is known is not given to another file until then.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            // Nobody is left to tell; a stale file is replaced at the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens there. A socket file that nobody listens on is replaced.
pub fn bind(path: &Path) -> Result<(UnixListener, SocketFile), SocketError> {
    let failed = |why| SocketError {
        socket: path.to_owned(),
        why,
    };
    if let Ok(metadata) = fs::symlink_metadata(path) {
        if !metadata.file_type().is_socket() {
            return Err(failed(io::Error::other(
                "there is a file that is no socket",
            )));
        }
        if StdUnixStream::connect(path).is_ok() {
            return Err(failed(io::Error::other("somebody listens there already")));
        }
        fs::remove_file(path).map_err(failed)?;
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    let file = SocketFile {
        path: path.to_owned(),
        identity: identity(path),
    };
    Ok((listener, file))
}

/// A connection that breaks when its token is cancelled, as when the process behind it dies.
#[derive(Debug)]
pub struct Breakable {
    stream: UnixStream,
    broken: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Breakable {
    /// `stream` until `broken` is cancelled.
    pub fn new(stream: UnixStream, broken: CancellationToken) -> Self {
        Self {
            stream,
            broken: Box::pin(broken.cancelled_owned()),
        }
    }

    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.broken.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionReset.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Breakable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Breakable {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Connected for Breakable {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_live_one_or_another_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let (listener, file) = bind(&path).unwrap();
        assert!(bind(&path).unwrap_err().to_string().contains("listens"));
        drop((listener, file));
        assert!(!path.exists());
        fs::write(&path, "").unwrap();
        assert!(bind(&path).unwrap_err().to_string().contains("no socket"));
    }

    #[tokio::test]
    async fn a_successor_s_socket_outlives_its_predecessor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let (listener, file) = bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let _successor = bind(&path).unwrap();
        drop(file);
        drop(listener);
        assert!(path.exists());
    }
}
