//! A replica's name in the lease: `<pod>_<address>_<start>`. It says where the leader is reached,
//! and no two processes have the same, so that a restarted one waits for its own old record too:
//! a bind of the old process may still be on its way.

use std::{
    net::SocketAddr,
    time::{SystemTime, UNIX_EPOCH},
};

/// Of a process that starts now.
pub(super) fn new(pod: &str, address: SocketAddr) -> String {
    let start = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = start.map_or(0, |since| since.as_micros());
    format!("{pod}_{address}_{micros:x}")
}

/// Where that replica is reached. Neither pod names nor addresses have a `_`.
pub(super) fn address(identity: &str) -> Option<SocketAddr> {
    identity.split('_').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_says_where_its_replica_is() {
        for text in ["10.0.0.7:9503", "[fd00::7]:9503"] {
            let socket: SocketAddr = text.parse().unwrap();
            let identity = new("lj-runtimekit-scheduler-5d9-x2", socket);
            assert_eq!(address(&identity), Some(socket), "{identity}");
        }
        for other in ["", "somebody", "a_b_c"] {
            assert_eq!(address(other), None);
        }
    }
}
