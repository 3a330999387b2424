//! The Lease at the API server: read, and written on the version that was read.

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{Api, Client, api::PostParams};
use kubernetes::api::one_line;

use super::decide::{Claim, Record};
use crate::object_name::ObjectName;

/// The longest that one call may take: two fit between a renewal and its deadline.
const WITHIN: Duration = Duration::from_secs(2);

/// Where the lease is kept, and its latest version.
pub(super) struct Store {
    api: Api<Lease>,
    name: ObjectName,
    me: String,
    duration: Duration,
    last: Option<Lease>,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    /// Somebody else wrote it after it was read.
    #[error("it was changed meanwhile")]
    Overtaken,
    /// There is no such object, or no namespace for it.
    #[error("it is not there")]
    Missing,
    /// No good answer.
    #[error("{0}")]
    Call(String),
}

impl Store {
    /// For the replica `me`, whose record counts for `duration`.
    pub(super) fn new(client: Client, name: ObjectName, me: String, duration: Duration) -> Self {
        Self {
            api: Api::namespaced(client, &name.namespace),
            name,
            me,
            duration,
            last: None,
        }
    }

    /// For people.
    pub(super) fn name(&self) -> String {
        format!("Lease {}", self.name)
    }

    /// What the lease says now; `None` where there is none.
    pub(super) async fn read(&mut self) -> Result<Option<Record>, StoreError> {
        self.last = within(self.api.get_opt(&self.name.name)).await?;
        Ok(self.last.as_ref().map(record))
    }

    /// Writes the claim, if what was read or written last still is the latest.
    pub(super) async fn write(&mut self, claim: Claim) -> Result<(), StoreError> {
        let lease = self.claimed(claim, Timestamp::now());
        let params = PostParams::default();
        let written = if self.last.is_some() {
            within(self.api.replace(&self.name.name, &params, &lease)).await
        } else {
            within(self.api.create(&params, &lease)).await
        };
        self.last = Some(match written {
            // Deleted since.
            Err(StoreError::Missing) if self.last.is_some() => return Err(StoreError::Overtaken),
            written => written?,
        });
        Ok(())
    }

    /// The latest version with the claim in it. What others put there stays.
    fn claimed(&self, claim: Claim, now: Timestamp) -> Lease {
        let mut lease = self.last.clone().unwrap_or_default();
        lease.metadata.name = Some(self.name.name.clone());
        let seconds = i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX);
        let spec = lease.spec.get_or_insert_default();
        spec.renew_time = Some(MicroTime(now));
        spec.holder_identity = Some(self.me.clone());
        spec.lease_duration_seconds = Some(seconds);
        match claim {
            Claim::Take => {
                spec.acquire_time = Some(MicroTime(now));
                let before = spec.lease_transitions.map_or(0, |n| n.saturating_add(1));
                spec.lease_transitions = Some(before);
            }
            Claim::Renew => {}
            Claim::Release => {
                spec.holder_identity = Some(String::new());
                // As client-go leaves it.
                spec.lease_duration_seconds = Some(1);
            }
        }
        lease
    }
}

async fn within<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, StoreError> {
    match tokio::time::timeout(WITHIN, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => Err(StoreError::Overtaken),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Err(StoreError::Missing),
        Ok(Err(kube::Error::Api(status))) => Err(StoreError::Call(status.message)),
        Ok(Err(error)) => Err(StoreError::Call(one_line(&error))),
        Err(_elapsed) => Err(StoreError::Call(format!("no answer within {WITHIN:?}"))),
    }
}

fn record(lease: &Lease) -> Record {
    let LeaseSpec {
        holder_identity,
        lease_duration_seconds,
        renew_time,
        ..
    } = lease.spec.clone().unwrap_or_default();
    let seconds = lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Record {
        holder: holder_identity.unwrap_or_default(),
        duration: Duration::from_secs(seconds.unwrap_or_default()),
        renewed: renew_time.map(|at| at.0.to_string()).unwrap_or_default(),
    }
}
