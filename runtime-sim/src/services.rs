//! The two services of the contract over the one state.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::{Stream, stream};
use runtime_proto::wire::{
    self, config_daemon_server::ConfigDaemon, device_manager_server::DeviceManager,
};
use tokio::{sync::watch, time::sleep};
use tonic::{Request, Response, Status};

use crate::{
    book::Refusal,
    convert,
    edits::edits,
    metrics,
    shared::Shared,
    state::{Refused, State},
};

/// Serves both services.
#[derive(Debug, Clone)]
pub(crate) struct Services(pub(crate) Arc<Shared>);

type Answer<T> = Result<Response<T>, Status>;
type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What came with interface 1.1. An older Runtime has it not.
const NEWER_VERSION: &str = "1.1";
const OLDER_VERSION: &str = "1.0";

/// A shorter interval would only keep both sides busy.
const LEAST_INTERVAL: Duration = Duration::from_millis(10);

impl Services {
    /// The answer is ready; it is given when a slow Runtime would give it.
    async fn answer<T>(&self, answer: Result<T, Status>) -> Answer<T> {
        let slow = self.0.with(|state| state.behaviour().slow);
        if !slow.is_zero() {
            sleep(slow).await;
        }
        answer.map(Response::new)
    }

    fn needs_newer(&self, call: &str) -> Result<(), Status> {
        if self.0.with(|state| state.behaviour().is_older) {
            return Err(Status::unimplemented(format!(
                "interface {OLDER_VERSION} has no {call}"
            )));
        }
        Ok(())
    }
}

fn status(refused: &Refused) -> Status {
    let text = refused.to_string();
    match refused {
        Refused::Book(Refusal::Other(_)) => Status::already_exists(text),
        Refused::Book(Refusal::Invalid(_)) => Status::invalid_argument(text),
        Refused::Book(Refusal::Full(_)) => Status::resource_exhausted(text),
        Refused::Book(Refusal::Conflict(_)) | Refused::Off | Refused::Told => {
            Status::failed_precondition(text)
        }
    }
}

fn cards(state: &State) -> Vec<wire::Card> {
    state.cards().map(|c| convert::card(&c.card)).collect()
}

#[tonic::async_trait]
impl DeviceManager for Services {
    async fn list_supported_xpu_type(
        &self,
        _: Request<wire::ListSupportedXpuTypeRequest>,
    ) -> Answer<wire::ListSupportedXpuTypeResponse> {
        let answer = self.0.with(|state| wire::ListSupportedXpuTypeResponse {
            kinds: vec![convert::kind(state.profile().kind).into()],
            interface_version: if state.behaviour().is_older {
                OLDER_VERSION.to_owned()
            } else {
                NEWER_VERSION.to_owned()
            },
            runtime_version: concat!("sim-", env!("CARGO_PKG_VERSION")).to_owned(),
        });
        self.answer(Ok(answer)).await
    }

    type ListAndWatchStream = Messages<wire::CardList>;

    async fn list_and_watch(
        &self,
        _: Request<wire::ListAndWatchRequest>,
    ) -> Answer<Self::ListAndWatchStream> {
        let shared = self.0.clone();
        let mut list = shared.cards.subscribe();
        list.mark_changed();
        let ends = shared.ends.subscribe();
        let lists = stream::unfold(
            (shared, list, ends),
            |(shared, mut list, mut ends)| async move {
                tokio::select! {
                    biased;
                    _ = ends.changed() => return None,
                    changed = list.changed() => changed.ok()?,
                }
                list.mark_unchanged();
                let message = shared.with(|state| wire::CardList {
                    generation: state.generation(),
                    cards: cards(state),
                });
                Some((Ok(message), (shared, list, ends)))
            },
        );
        Ok(Response::new(Box::pin(lists)))
    }

    async fn allocate(
        &self,
        request: Request<wire::AllocateRequest>,
    ) -> Answer<wire::AllocateResponse> {
        let answer = convert::asked(request.into_inner())
            .map_err(Status::invalid_argument)
            .and_then(|asked| {
                let which = self.0.edits;
                let answer = self.0.with(|state| {
                    let is_new = state.allocate(&asked)?;
                    Ok((is_new, edits(state, &asked, which)))
                });
                match answer {
                    Ok((is_new, edits)) => {
                        if is_new {
                            tracing::info!(id = asked.id, pod = %asked.consumer.pod, "allocated");
                        }
                        Ok(convert::edits(edits))
                    }
                    Err(refused) => {
                        tracing::warn!(id = asked.id, pod = %asked.consumer.pod, "refused: {refused}");
                        Err(status(&refused))
                    }
                }
            });
        self.answer(answer).await
    }

    async fn release(
        &self,
        request: Request<wire::ReleaseRequest>,
    ) -> Answer<wire::ReleaseResponse> {
        let ids = request.into_inner().allocation_ids;
        let released = self.0.with(|state| state.release(ids));
        for id in &released {
            tracing::info!(id, "released");
        }
        self.answer(Ok(wire::ReleaseResponse { released })).await
    }

    async fn list_gpu_info(
        &self,
        _: Request<wire::ListGpuInfoRequest>,
    ) -> Answer<wire::ListGpuInfoResponse> {
        let answer = self.needs_newer("ListGpuInfo").map(|()| {
            self.0.with(|state| wire::ListGpuInfoResponse {
                generation: state.generation(),
                cards: cards(state),
                allocations: state
                    .book()
                    .allocations()
                    .map(convert::allocation)
                    .collect(),
            })
        });
        self.answer(answer).await
    }

    async fn exporter_get_config(
        &self,
        _: Request<wire::ExporterGetConfigRequest>,
    ) -> Answer<wire::ExporterGetConfigResponse> {
        let interval = self.0.collection_interval.as_millis();
        let interval = u32::try_from(interval).unwrap_or(u32::MAX);
        self.answer(Ok(metrics::config(interval))).await
    }

    async fn exporter_get_data_list(
        &self,
        _: Request<wire::ExporterGetDataListRequest>,
    ) -> Answer<wire::MetricSnapshot> {
        self.answer(Ok(self.0.collect(metrics::snapshot))).await
    }

    type ExporterDataStreamStream = Messages<wire::MetricSnapshot>;

    async fn exporter_data_stream(
        &self,
        request: Request<wire::ExporterDataStreamRequest>,
    ) -> Answer<Self::ExporterDataStreamStream> {
        self.needs_newer("ExporterDataStream")?;
        let interval = match request.into_inner().interval_milliseconds {
            0 => self.0.collection_interval,
            milliseconds => Duration::from_millis(milliseconds.into()),
        };
        let mut ticks = tokio::time::interval(interval.max(LEAST_INTERVAL));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let ends = self.0.ends.subscribe();
        let snapshots = stream::unfold(
            (self.0.clone(), ticks, ends),
            |(shared, mut ticks, mut ends): (_, _, watch::Receiver<u64>)| async move {
                tokio::select! {
                    biased;
                    _ = ends.changed() => return None,
                    _ = ticks.tick() => {}
                }
                let snapshot = Shared::collect(&shared, metrics::snapshot);
                Some((Ok(snapshot), (shared, ticks, ends)))
            },
        );
        Ok(Response::new(Box::pin(snapshots)))
    }

    async fn exporter_get_status(
        &self,
        _: Request<wire::ExporterGetStatusRequest>,
    ) -> Answer<wire::ExporterGetStatusResponse> {
        let answer = self.needs_newer("ExporterGetStatus").map(|()| {
            let collections = self.0.collections();
            wire::ExporterGetStatusResponse {
                collections: collections.count,
                failed_collections: 0,
                last_collection_timestamp_milliseconds: collections.last_milliseconds,
                last_error: String::new(),
            }
        });
        self.answer(answer).await
    }
}

#[tonic::async_trait]
impl ConfigDaemon for Services {
    async fn enable(&self, request: Request<wire::EnableRequest>) -> Answer<wire::OperationStatus> {
        let status = self.0.with(State::enable);
        let request = request.into_inner().request_id;
        tracing::info!(request, phase = ?status.phase, "told to enable");
        self.answer(Ok(convert::status(status))).await
    }

    async fn disable(
        &self,
        request: Request<wire::DisableRequest>,
    ) -> Answer<wire::OperationStatus> {
        let status = self.0.with(State::disable);
        let request = request.into_inner().request_id;
        tracing::info!(request, phase = ?status.phase, "told to disable");
        self.answer(Ok(convert::status(status))).await
    }

    async fn query_status(
        &self,
        _: Request<wire::QueryStatusRequest>,
    ) -> Answer<wire::OperationStatus> {
        let status = self.0.with(|state| state.status());
        self.answer(Ok(convert::status(status))).await
    }
}
