//! Kubelet's device plugin calls of one resource.

use std::{pin::Pin, sync::Arc};

use futures_util::{Stream, stream};
use kubernetes::device_plugin::{
    AllocateRequest, AllocateResponse, ContainerPreferredAllocationResponse, DevicePluginOptions,
    Empty, ListAndWatchResponse, PreStartContainerRequest, PreStartContainerResponse,
    PreferredAllocationRequest, PreferredAllocationResponse, device_plugin_server::DevicePlugin,
};
use tokio::sync::watch;
use tonic::{Request, Response, Status};

use crate::{admission::Calls, convert, offers::Offer, refusal::Refusal};

/// What the streams of one resource send.
#[derive(Debug, Clone)]
pub enum List {
    /// This list; more may follow.
    Now(Arc<Offer>),
    /// An empty list, then the end: the resource is withdrawn.
    Withdrawn,
}

/// The service.
pub struct Service {
    calls: Calls,
    list: watch::Receiver<List>,
    streams: watch::Sender<usize>,
}

impl Service {
    /// `streams` counts the open ListAndWatch streams.
    pub const fn new(
        calls: Calls,
        list: watch::Receiver<List>,
        streams: watch::Sender<usize>,
    ) -> Self {
        Self {
            calls,
            list,
            streams,
        }
    }
}

/// Options, as told at registration and asked for again.
pub const OPTIONS: DevicePluginOptions = DevicePluginOptions {
    pre_start_required: false,
    get_preferred_allocation_available: true,
};

struct Open(watch::Sender<usize>);

impl Open {
    fn new(streams: watch::Sender<usize>) -> Self {
        streams.send_modify(|n| *n += 1);
        Self(streams)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n -= 1);
    }
}

fn refused(refusal: &Refusal) -> Status {
    match refusal {
        Refusal::NotReady(_) => Status::unavailable(refusal.to_string()),
        _ => Status::failed_precondition(refusal.to_string()),
    }
}

#[tonic::async_trait]
impl DevicePlugin for Service {
    type ListAndWatchStream =
        Pin<Box<dyn Stream<Item = Result<ListAndWatchResponse, Status>> + Send>>;

    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(OPTIONS))
    }

    async fn list_and_watch(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<Self::ListAndWatchStream>, Status> {
        let mut list = self.list.clone();
        list.mark_changed();
        let start = Some((list, Open::new(self.streams.clone())));
        let lists = stream::unfold(start, |state| async move {
            let (mut list, open) = state?;
            list.changed().await.ok()?;
            let now = list.borrow_and_update().clone();
            Some(match now {
                List::Now(offer) => (Ok(convert::device_list(&offer)), Some((list, open))),
                List::Withdrawn => (Ok(ListAndWatchResponse::default()), None),
            })
        });
        Ok(Response::new(Box::pin(lists)))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        let mut response = PreferredAllocationResponse::default();
        for container in request.into_inner().container_requests {
            let ids = self
                .calls
                .prefer(
                    &container.available_device_i_ds,
                    &container.must_include_device_i_ds,
                    container.allocation_size,
                )
                .await
                .map_err(|r| refused(&r))?;
            response
                .container_responses
                .push(ContainerPreferredAllocationResponse { device_i_ds: ids });
        }
        Ok(Response::new(response))
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let mut response = AllocateResponse::default();
        for container in request.into_inner().container_requests {
            let edits = self
                .calls
                .allocate(&container.devices_ids)
                .await
                .map_err(|r| refused(&r))?;
            response
                .container_responses
                .push(convert::container_response(edits));
        }
        Ok(Response::new(response))
    }

    async fn pre_start_container(
        &self,
        _: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        Ok(Response::new(PreStartContainerResponse {}))
    }
}
