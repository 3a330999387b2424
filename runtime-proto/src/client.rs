//! One client for both sockets: connects when first used, reconnects by itself.
//!
//! Nothing here decides when to try a call again, except at once after a stale connection; only
//! the two streams reconnect for ever.

mod allocation;
mod connection;
mod error;
mod feed;
mod metric;
mod node;
mod watch;

use std::{sync::Arc, time::Duration};

use futures_util::Stream;
use tonic::transport::Channel;

use self::connection::{Connection, MOST_MESSAGE_BYTES};
pub use self::{
    allocation::{Allocation, Consumer, ContainerEdits, DeviceNode, Mount},
    connection::{Sockets, Timing},
    error::Error,
    metric::{
        CardSample, ContainerSample, Metric, MetricConfig, MetricEvent, MetricType, Snapshot,
    },
    node::{CardEvent, Cards, OperationStatus, Phase, Supported},
};
use crate::{
    convert,
    wire::{
        self, config_daemon_client::ConfigDaemonClient, device_manager_client::DeviceManagerClient,
    },
};

/// A handle on the Runtime of this node. Cheap to clone; all clones share one connection a socket.
///
/// Each call ends within 10 s, or within what the caller says, with an answer or an [`Error`];
/// where no Runtime listens it fails at once. All calls are idempotent: after a failure the
/// caller may make the same call again.
#[derive(Debug, Clone)]
pub struct Client {
    device_manager: Arc<Connection>,
    config_daemon: Arc<Connection>,
    timing: Timing,
}

impl Client {
    /// Connects when first used.
    pub fn new(sockets: Sockets) -> Self {
        Self::with_timing(sockets, Timing::standard())
    }

    /// With other waiting times, for tests.
    #[doc(hidden)]
    pub fn with_timing(sockets: Sockets, timing: Timing) -> Self {
        let connection = |socket| Arc::new(Connection::new(socket, timing.clone()));
        Self {
            device_manager: connection(sockets.device_manager),
            config_daemon: connection(sockets.config_daemon),
            timing,
        }
    }

    /// The Runtime's kinds and versions.
    pub async fn supported(&self) -> Result<Supported, Error> {
        let call = "ListSupportedXPUType";
        let answer = self
            .device_manager
            .call(call, self.timing.call, |channel| async {
                device_manager(channel)
                    .list_supported_xpu_type(wire::ListSupportedXpuTypeRequest {})
                    .await
            })
            .await?;
        convert::supported(&answer).map_err(|why| Error::BadAnswer { call, why })
    }

    /// The card lists: the first at once, then each change. On any break of the connection it
    /// says so, then reconnects with backoff (1 s, times 2, at most 30 s, jitter, reset after
    /// 60 s of health) for ever. Never ends; dropped, it stops.
    pub fn watch_cards(&self) -> impl Stream<Item = CardEvent> + Send + Unpin + use<> {
        let feed = feed::CardFeed::new(self.device_manager.clone(), self.timing.first_message);
        watch::watch(feed, self.timing.clone())
    }

    /// Grants cards to one container; idempotent.
    pub async fn allocate(
        &self,
        allocation: &Allocation,
        within: Duration,
    ) -> Result<ContainerEdits, Error> {
        let call = "Allocate";
        let request = convert::allocate_request(allocation)
            .map_err(|message| Error::Refused { call, message })?;
        let answer = self
            .device_manager
            .call(call, within, |channel| {
                let request = request.clone();
                async move { device_manager(channel).allocate(request).await }
            })
            .await?;
        convert::container_edits(answer).map_err(|why| Error::BadAnswer { call, why })
    }

    /// Ends allocations; idempotent. Those that existed.
    pub async fn release(&self, ids: &[String]) -> Result<Vec<String>, Error> {
        let answer = self
            .device_manager
            .call("Release", self.timing.call, |channel| {
                let request = wire::ReleaseRequest {
                    allocation_ids: ids.to_vec(),
                };
                async move { device_manager(channel).release(request).await }
            })
            .await?;
        let mut released = answer.released;
        released.retain(|id| ids.contains(id));
        Ok(released)
    }

    /// The cards and the Runtime's own book. Allocations that make no sense are left out, and
    /// named in [`Cards::malformed`].
    pub async fn book(&self) -> Result<(Cards, Vec<Allocation>), Error> {
        let answer = self
            .device_manager
            .call("ListGpuInfo", self.timing.call, |channel| async {
                device_manager(channel)
                    .list_gpu_info(wire::ListGpuInfoRequest {})
                    .await
            })
            .await?;
        Ok(convert::book(answer))
    }

    /// Which metrics it measures.
    pub async fn metric_config(&self) -> Result<MetricConfig, Error> {
        metric_config(&self.device_manager, self.timing.call).await
    }

    /// One collection.
    pub async fn metrics(&self) -> Result<Snapshot, Error> {
        let answer = self
            .device_manager
            .call("ExporterGetDataList", self.timing.call, |channel| async {
                device_manager(channel)
                    .exporter_get_data_list(wire::ExporterGetDataListRequest {})
                    .await
            })
            .await?;
        Ok(convert::snapshot(answer))
    }

    /// Collections at an interval (zero: the Runtime's own); reconnects like
    /// [`Client::watch_cards`]. A Runtime without the stream gives [`Error::Unimplemented`] at
    /// each try: poll [`Client::metrics`] then.
    pub fn watch_metrics(
        &self,
        interval: Duration,
    ) -> impl Stream<Item = MetricEvent> + Send + Unpin + use<> {
        let feed = feed::MetricFeed::new(
            self.device_manager.clone(),
            interval,
            self.timing.first_message,
            self.timing.call,
        );
        watch::watch(feed, self.timing.clone())
    }

    /// Starts switching the feature on.
    pub async fn enable(&self, request_id: &str) -> Result<OperationStatus, Error> {
        self.switch("Enable", |channel| {
            let request = wire::EnableRequest {
                request_id: request_id.to_owned(),
            };
            async move { config_daemon(channel).enable(request).await }
        })
        .await
    }

    /// Starts switching it off.
    pub async fn disable(&self, request_id: &str) -> Result<OperationStatus, Error> {
        self.switch("Disable", |channel| {
            let request = wire::DisableRequest {
                request_id: request_id.to_owned(),
            };
            async move { config_daemon(channel).disable(request).await }
        })
        .await
    }

    /// Where it stands.
    pub async fn feature_status(&self) -> Result<OperationStatus, Error> {
        self.switch("QueryStatus", |channel| async {
            config_daemon(channel)
                .query_status(wire::QueryStatusRequest {})
                .await
        })
        .await
    }

    async fn switch<A, F>(&self, call: &'static str, ask: A) -> Result<OperationStatus, Error>
    where
        A: Fn(Channel) -> F,
        F: Future<Output = Result<tonic::Response<wire::OperationStatus>, tonic::Status>>,
    {
        let answer = self.config_daemon.call(call, self.timing.call, ask).await?;
        Ok(convert::operation_status(&answer))
    }
}

async fn metric_config(connection: &Connection, within: Duration) -> Result<MetricConfig, Error> {
    let answer = connection
        .call("ExporterGetConfig", within, |channel| async {
            device_manager(channel)
                .exporter_get_config(wire::ExporterGetConfigRequest {})
                .await
        })
        .await?;
    Ok(convert::metric_config(answer))
}

fn device_manager(channel: Channel) -> DeviceManagerClient<Channel> {
    DeviceManagerClient::new(channel).max_decoding_message_size(MOST_MESSAGE_BYTES)
}

fn config_daemon(channel: Channel) -> ConfigDaemonClient<Channel> {
    ConfigDaemonClient::new(channel).max_decoding_message_size(MOST_MESSAGE_BYTES)
}
