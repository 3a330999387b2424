//! What kubelet's plugin watcher asks of a socket that it finds in `plugins_registry`.
//!
//! It asks until the socket is registered, then no more until the file is another one or kubelet
//! is: a resource whose list has ended meanwhile needs a new file.

use kubernetes::plugin_registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
    registration_server::Registration,
};
use tokio::sync::watch;
use tonic::{Request, Response, Status};

/// The service of one resource's socket, which serves its devices too.
pub struct Watched {
    resource: String,
    refusal: watch::Sender<Option<String>>,
}

impl Watched {
    /// `refusal` is told why kubelet does not take the resource.
    pub const fn new(resource: String, refusal: watch::Sender<Option<String>>) -> Self {
        Self { resource, refusal }
    }
}

#[tonic::async_trait]
impl Registration for Watched {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo {
            r#type: "DevicePlugin".to_owned(),
            name: self.resource.clone(),
            endpoint: String::new(),
            supported_versions: vec!["v1beta1".to_owned()],
        }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let status = request.into_inner();
        let refusal = (!status.plugin_registered).then_some(status.error);
        self.refusal.send_replace(refusal);
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
