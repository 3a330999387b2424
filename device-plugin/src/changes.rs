//! Tells at once when a file of kubelet's folders comes or goes.
//!
//! A kubelet that starts admits the pods that wait for it less than a second after it has made
//! its socket, and rejects for good those whose resource is not registered by then: looking
//! once a second is too slow.

use std::{os::fd::OwnedFd, path::PathBuf};

use rustix::{
    fs::inotify::{self, CreateFlags, WatchFlags},
    io,
};
use tokio::io::{Interest, unix::AsyncFd};

/// Changes of some folders.
pub struct Changes {
    folders: Vec<PathBuf>,
    /// None where the system gives no more of them: the caller's own looks have to do.
    watch: Option<AsyncFd<OwnedFd>>,
}

impl Changes {
    /// Of these folders, from the next [`Self::renew`] on.
    pub fn of(folders: Vec<PathBuf>) -> Self {
        let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
            .map_err(std::io::Error::from)
            .and_then(registered);
        let watch = watch.inspect_err(|error| {
            tracing::warn!(
                %error,
                ?folders,
                "can't be watched, are looked at every second: pods that wait while kubelet starts may be rejected \
                 (fs.inotify.max_user_instances may be too small)"
            );
        });
        Self {
            folders,
            watch: watch.ok(),
        }
    }

    /// Whether changes are told; where not, the caller has to look.
    pub const fn are_told(&self) -> bool {
        self.watch.is_some()
    }

    /// Watches the folders that are there now: one may have been made anew since the last time.
    pub fn renew(&self) {
        if let Some(watch) = &self.watch {
            let what = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVED_TO;
            for folder in &self.folders {
                // One that is not there yet is there at a later look.
                let _ = inotify::add_watch(watch, folder, what | WatchFlags::ONLYDIR);
            }
        }
    }

    /// Returns when something has changed since the last call; never where there is no watch.
    pub async fn next(&self) {
        /// A burst of changes in one read; what is left wakes the next call.
        const EVENTS: usize = 4096;
        if let Some(watch) = &self.watch {
            let mut events = [0_u8; EVENTS];
            let read = watch.async_io(Interest::READABLE, |fd| {
                io::read(fd, &mut events).map_err(std::io::Error::from)
            });
            match read.await {
                Ok(_) => return,
                Err(error) => tracing::warn!(%error, "the watch of kubelet's folders has ended"),
            }
        }
        std::future::pending::<()>().await;
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe for types that may close their descriptor; an OwnedFd keeps it open"
)]
fn registered(fd: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, Interest::READABLE)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn what_comes_and_goes_is_told_even_of_a_folder_made_anew() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("device-plugins");
        let file = folder.join("kubelet.sock");
        let changes = Changes::of(vec![folder.clone()]);
        changes.renew();
        for _ in 0..2 {
            std::fs::create_dir(&folder).unwrap();
            changes.renew();
            std::fs::write(&file, "").unwrap();
            timeout(SOON, changes.next()).await.unwrap();
            std::fs::remove_file(&file).unwrap();
            timeout(SOON, changes.next()).await.unwrap();
            std::fs::remove_dir(&folder).unwrap();
            // The end of the watch may be told, or not.
            let _ = timeout(Duration::from_millis(20), changes.next()).await;
        }
    }

    #[tokio::test]
    async fn a_folder_in_which_nothing_happens_tells_nothing() {
        let root = tempfile::tempdir().unwrap();
        let changes = Changes::of(vec![root.path().to_owned()]);
        changes.renew();
        let short = Duration::from_millis(50);
        assert!(timeout(short, changes.next()).await.is_err());
    }
}
