//! Registering with kubelet.

use std::{path::Path, time::Duration};

use kubernetes::device_plugin::{RegisterRequest, registration_client::RegistrationClient};
use tokio::time::timeout;
use tonic::transport::Endpoint;

use crate::service::OPTIONS;

/// Kubelet dials back within it, which takes milliseconds.
const WITHIN: Duration = Duration::from_secs(5);

/// Registers the resource that is served on `endpoint`, a file name in kubelet's folder.
pub async fn register(socket: &Path, endpoint: String, resource: String) -> Result<(), String> {
    let call = async {
        let path = format!("unix://{}", socket.display());
        let channel = Endpoint::from_shared(path)
            .map_err(|e| e.to_string())?
            .connect()
            .await
            .map_err(|e| chain(&e))?;
        RegistrationClient::new(channel)
            .register(RegisterRequest {
                version: "v1beta1".to_owned(),
                endpoint,
                resource_name: resource,
                options: Some(OPTIONS),
            })
            .await
            .map_err(|status| status.message().chars().take(300).collect::<String>())?;
        Ok(())
    };
    timeout(WITHIN, call)
        .await
        .unwrap_or_else(|_| Err(format!("no answer within {WITHIN:?}")))
}

/// tonic's own errors say little without their sources.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text.chars().take(300).collect()
}
