//! Which of several replicas decides: the one that holds a Lease.
//!
//! Two extenders that both decide could promise one card twice, since each knows only its own
//! promises until the API server shows them. So one leads; the others stay ready, follow the same
//! watches, and pass every call on to it.
//!
//! - The record is judged as client-go does: it counts for `leaseDurationSeconds` (10 s) from when
//!   *this* replica last saw it change, by this replica's clock. Clocks are never compared. Unlike
//!   there it counts for no less than 10 s and no more than 2 minutes, whatever somebody wrote
//!   there, and also where somebody deleted it.
//! - The leader renews every 2 s and decides for 7 s after its last successful renewal began. So
//!   it has ended at least 3 s before any other may begin, however long its calls hang.
//! - Each write names the version that was read: of two that take the lease at once one wins.
//! - A new leader lists the pods anew, from the API server's latest version, and decides nothing
//!   before that listing is complete: its predecessor's last bind is in it, though the watch may
//!   not have shown it. One whose reign ran out and who takes the lease again does the same.
//! - A bind's call of the API server ends with the leader's own deadline at the latest.
//! - At its end the leader takes no more binds, waits for those under way and empties the
//!   record: the next one takes over within half a second. Where a bind's outcome is not known
//!   the lease is left to run out instead.
//!
//! What remains: an API server that carries out a write more than 3 s after its client hung up
//! could bind a pod whose card the next leader has promised by then. The device plugin's ledger is
//! its own, and refuses the second of the two pods on the node. The same goes for somebody who
//! empties the record under a leader, or deletes the lease just before a new replica starts: for
//! up to 2 s, until the leader's next renewal meets it, two decide.

mod decide;
mod identity;
mod keeper;
mod leadership;
mod store;

#[cfg(test)]
mod keeper_tests;
#[cfg(test)]
mod testing;

use std::net::{IpAddr, SocketAddr};

use kit::{Chassis, Failure};

pub(crate) use leadership::{Leadership, Pass, Turn};

use crate::{metrics::LeaseMetrics, object_name::ObjectName, shared::Shared};
use decide::Timing;
use keeper::Keeper;
use store::Store;

/// Whether there are other replicas.
#[derive(Debug, Clone, clap::Args)]
pub struct LeaseArgs {
    /// Several replicas: the one that holds this Lease decides, the others pass calls on to it.
    /// Without it this must be the only one
    #[arg(long, value_name = "NAMESPACE/NAME", requires = "advertise")]
    pub lease: Option<ObjectName>,

    /// Address at which the other replicas reach this one's --listen port
    #[arg(long, value_name = "IP", env = "POD_IP")]
    pub advertise: Option<IpAddr>,

    /// Name of this replica in the Lease, for people
    #[arg(
        long,
        value_name = "NAME",
        env = "POD_NAME",
        default_value = "lj-runtimekit-scheduler"
    )]
    pub pod_name: String,
}

/// Starts keeping the lease; where this replica stands.
pub(crate) fn start(
    args: &LeaseArgs,
    port: u16,
    client: &kube::Client,
    shared: &Shared,
    chassis: &Chassis,
) -> Result<Leadership, Failure> {
    let (Some(lease), Some(advertise)) = (args.lease.clone(), args.advertise) else {
        return Ok(Leadership::alone());
    };
    let me = identity::new(&args.pod_name, SocketAddr::new(advertise, port));
    tracing::info!(%lease, identity = me, "one of several replicas");
    let timing = Timing::DEFAULT;
    let leadership = Leadership::follower();
    let keeper = Keeper::new(
        me.clone(),
        timing,
        Store::new(client.clone(), lease, me, timing.duration),
        leadership.clone(),
        shared.clone(),
        LeaseMetrics::new(&chassis.metrics)?,
    );
    let tasks = &chassis.tasks;
    tasks.critical("lease", keeper.run(tasks.clone()));
    Ok(leadership)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::Args;

    fn parse(flags: &[&str]) -> Result<Args, String> {
        Args::try_parse_from([&["scheduler"], flags].concat()).map_err(|e| e.to_string())
    }

    #[test]
    fn several_replicas_need_an_address() {
        assert_eq!(parse(&[]).unwrap().lease.lease, None);
        let args = parse(&["--lease=kube-system/one", "--advertise=fd00::7"]).unwrap();
        assert_eq!(args.lease.lease.unwrap().to_string(), "kube-system/one");
        assert_eq!(args.lease.pod_name, "lj-runtimekit-scheduler");
        for (flags, named) in [
            (&["--lease=kube-system/one"][..], "--advertise"),
            (&["--lease=one", "--advertise=10.0.0.7"], "NAMESPACE/NAME"),
            (&["--lease=a/b", "--advertise=here"], "--advertise"),
        ] {
            let error = parse(flags).unwrap_err();
            assert!(error.contains(named), "{flags:?}: {error}");
        }
    }
}
