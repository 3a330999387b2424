//! The controllers of the stand-in API server.

use crate::api_server::Api;

/// Starts them.
pub fn start(api: &Api, tasks: &kit::Tasks) {
    let _ = (api, tasks);
}
