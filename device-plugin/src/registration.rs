//! When a resource's socket is served and registered with kubelet.
//!
//! Kubelet deletes every socket of the folder when it starts, dials back while it registers a
//! plugin, and keeps that one stream for as long as it lives. So a resource is registered while
//! the socket of the kubelet that took it is the one that is there, its own socket is there,
//! and its stream is open.

use std::time::Duration;

use model::backoff::Backoff;

/// Tells a file from another one of the same path. The change time is in it because a new file
/// often gets the inode of the one just deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Change time, in seconds and nanoseconds.
    pub changed: (i64, i64),
}

/// What is to be seen now.
#[derive(Debug, Clone, Copy)]
pub struct Sight {
    /// Time since any fixed moment.
    pub now: Duration,
    /// Kubelet's registration socket.
    pub kubelet: Option<FileId>,
    /// Whether the resource's socket is there, and is the one that is served.
    pub served: bool,
    /// Open ListAndWatch streams.
    pub streams: usize,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Do {
    /// Nothing now.
    Nothing,
    /// Serve the socket (again), then look again.
    Serve,
    /// Register with this kubelet.
    Register(FileId),
}

/// How long kubelet may take from the registration to its ListAndWatch, or between two: it
/// opens it within milliseconds.
const STREAM_GRACE: Duration = Duration::from_secs(3);

/// The wait after the first failure: kubelet's socket file is there a moment before kubelet
/// listens on it.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

impl State {
    const AT_ONCE: Self = Self::Out {
        not_before: Duration::ZERO,
        tried: None,
    };
}

/// One resource's registration.
#[derive(Debug)]
pub struct Registration {
    state: State,
    backoff: Backoff,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Not registered; not to be tried before that moment, unless another kubelet comes than the
    /// one that did not take it.
    Out {
        not_before: Duration,
        tried: Option<FileId>,
    },
    /// Register is under way.
    Asking(FileId),
    /// Registered with that kubelet.
    In {
        kubelet: FileId,
        without_stream: Option<Duration>,
    },
}

impl Registration {
    /// Not registered yet.
    pub fn new() -> Self {
        Self {
            state: State::AT_ONCE,
            backoff: Backoff::new(FIRST_WAIT, LONGEST_WAIT),
        }
    }

    /// Whether kubelet has it.
    pub const fn is_registered(&self) -> bool {
        matches!(self.state, State::In { .. })
    }

    /// What to do about what is seen. `random` picks the jitter of a wait.
    pub fn step(&mut self, sight: &Sight, random: u64) -> Do {
        match &mut self.state {
            State::Asking(_) => return Do::Nothing,
            State::Out { not_before, tried } => {
                let another = tried.is_some() && sight.kubelet.is_some() && *tried != sight.kubelet;
                if sight.now < *not_before && !another {
                    return Do::Nothing;
                }
            }
            State::In {
                kubelet,
                without_stream,
            } => {
                let same = sight.kubelet.is_none_or(|k| k == *kubelet);
                if sight.served && same {
                    if sight.streams > 0 {
                        *without_stream = None;
                        self.backoff.reset();
                        return Do::Nothing;
                    }
                    let since = *without_stream.get_or_insert(sight.now);
                    // A kubelet that is down has no stream: it registers anew by its socket.
                    if sight.kubelet.is_none() || sight.now < since + STREAM_GRACE {
                        return Do::Nothing;
                    }
                    self.fail(sight.now, random);
                    return Do::Nothing;
                }
                self.state = State::AT_ONCE;
            }
        }
        if !sight.served {
            return Do::Serve;
        }
        match sight.kubelet {
            Some(kubelet) => {
                self.state = State::Asking(kubelet);
                Do::Register(kubelet)
            }
            None => Do::Nothing,
        }
    }

    /// That kubelet has taken it.
    pub const fn registered(&mut self, kubelet: FileId) {
        self.state = State::In {
            kubelet,
            without_stream: None,
        };
    }

    /// Serving or registering failed. The next try comes after the answer.
    pub fn fail(&mut self, now: Duration, random: u64) -> Duration {
        let wait = self.backoff.next(random);
        let tried = match self.state {
            State::Asking(kubelet) | State::In { kubelet, .. } => Some(kubelet),
            State::Out { tried, .. } => tried,
        };
        self.state = State::Out {
            not_before: now + wait,
            tried,
        };
        wait
    }

    /// When to look again, if time alone can change what is to be done.
    pub const fn due(&self) -> Option<Duration> {
        match self.state {
            State::Out { not_before, .. } => Some(not_before),
            State::In {
                without_stream: Some(since),
                ..
            } => Some(since.saturating_add(STREAM_GRACE)),
            State::Asking(_) | State::In { .. } => None,
        }
    }
}

impl Default for Registration {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn file(inode: u64) -> FileId {
        FileId {
            device: 1,
            inode,
            changed: (0, 0),
        }
    }

    fn sight(seconds: u64, kubelet: Option<u64>, served: bool, streams: usize) -> Sight {
        Sight {
            now: Duration::from_secs(seconds),
            kubelet: kubelet.map(file),
            served,
            streams,
        }
    }

    #[test]
    fn serves_before_it_registers_and_waits_for_kubelet() {
        let mut one = Registration::new();
        assert_eq!(one.step(&sight(0, None, false, 0), 0), Do::Serve);
        assert_eq!(one.step(&sight(0, None, true, 0), 0), Do::Nothing);
        assert_eq!(
            one.step(&sight(1, Some(1), true, 0), 0),
            Do::Register(file(1))
        );
        assert_eq!(one.step(&sight(2, Some(1), true, 0), 0), Do::Nothing);
        one.registered(file(1));
        assert!(one.is_registered());
        assert_eq!(one.step(&sight(3, Some(1), true, 1), 0), Do::Nothing);
    }

    #[test]
    fn a_new_kubelet_and_a_deleted_socket_are_registered_at_once() {
        let mut one = Registration::new();
        one.registered(file(1));
        assert_eq!(one.step(&sight(0, None, true, 0), 0), Do::Nothing);
        assert!(one.is_registered());
        assert_eq!(one.step(&sight(9, Some(2), false, 0), 0), Do::Serve);
        assert_eq!(
            one.step(&sight(9, Some(2), true, 0), 0),
            Do::Register(file(2))
        );
        one.registered(file(2));
        assert_eq!(one.step(&sight(10, Some(2), false, 1), 0), Do::Serve);
        assert!(!one.is_registered());
    }

    #[test]
    fn a_stream_that_stays_away_is_a_failed_registration() {
        let mut one = Registration::new();
        one.registered(file(1));
        assert_eq!(one.step(&sight(0, Some(1), true, 0), 0), Do::Nothing);
        assert_eq!(one.step(&sight(2, Some(1), true, 0), 0), Do::Nothing);
        assert!(one.is_registered());
        assert_eq!(one.step(&sight(3, Some(1), true, 0), 0), Do::Nothing);
        assert!(!one.is_registered());
        assert_eq!(one.step(&sight(3, Some(1), true, 0), 0), Do::Nothing);
        assert_eq!(
            one.step(&sight(4, Some(1), true, 0), 0),
            Do::Register(file(1))
        );
    }

    #[test]
    fn failures_wait_longer_each_time_and_a_stream_ends_that() {
        let mut one = Registration::new();
        let first = one.fail(Duration::ZERO, 0);
        let second = one.fail(Duration::ZERO, 0);
        assert!(second > first);
        assert_eq!(one.step(&sight(0, Some(1), true, 0), 0), Do::Nothing);
        one.registered(file(1));
        one.step(&sight(9, Some(1), true, 1), 0);
        assert_eq!(one.fail(Duration::ZERO, 0), first);
    }

    #[test]
    fn a_kubelet_that_died_makes_the_next_one_wait_for_nothing() {
        let mut one = Registration::new();
        // Its socket is left behind by the dead one.
        for _ in 0..9 {
            assert_eq!(
                one.step(&sight(1000, Some(1), true, 0), 0),
                Do::Register(file(1))
            );
            one.fail(Duration::ZERO, 0);
        }
        let wait = one.fail(Duration::from_secs(1000), 0);
        assert!(wait > Duration::from_secs(10), "{wait:?}");
        assert_eq!(one.due(), Some(Duration::from_secs(1000) + wait));
        assert_eq!(one.step(&sight(1001, Some(1), true, 0), 0), Do::Nothing);
        assert_eq!(one.step(&sight(1001, None, true, 0), 0), Do::Nothing);
        assert_eq!(
            one.step(&sight(1001, Some(2), true, 0), 0),
            Do::Register(file(2))
        );
        assert_eq!(one.due(), None);
    }
}
