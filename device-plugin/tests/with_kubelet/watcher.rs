//! Kubelet's plugin watcher: asks each socket of `plugins_registry` until it has registered it,
//! then no more until the file is another one.

use std::os::unix::fs::MetadataExt as _;

use kubernetes::plugin_registration::{
    InfoRequest, RegistrationStatus, registration_client::RegistrationClient,
};

use super::*;

pub(super) async fn watch(world: World) {
    let mut registered = BTreeMap::new();
    loop {
        for entry in std::fs::read_dir(world.registry()).unwrap().flatten() {
            let Ok(meta) = entry.metadata() else {
                continue;
            };
            let file = (meta.ino(), meta.ctime(), meta.ctime_nsec());
            let path = entry.path();
            if registered.get(&path) != Some(&file) && register(&world, &path).await.is_ok() {
                registered.insert(path, file);
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn register(world: &World, socket: &Path) -> anyhow::Result<()> {
    let channel = Endpoint::from_shared(format!("unix://{}", socket.display()))?
        .connect()
        .await?;
    let mut plugin = RegistrationClient::new(channel);
    let info = plugin.get_info(InfoRequest {}).await?.into_inner();
    assert_eq!(info.r#type, "DevicePlugin");
    assert_eq!(info.supported_versions, ["v1beta1"]);
    assert_eq!(info.endpoint, "");
    let refusal = world.lock().refusal.clone();
    if refusal.is_none() {
        world.connect(info.name, socket.to_owned()).await?;
    }
    let status = RegistrationStatus {
        plugin_registered: refusal.is_none(),
        error: refusal.clone().unwrap_or_default(),
    };
    plugin.notify_registration_status(status).await?;
    anyhow::ensure!(refusal.is_none());
    Ok(())
}
