//! Registered by kubelet's plugin watcher.

use super::*;

const WATCHED: [&str; 2] = ["--registration", "plugins-registry"];

#[tokio::test]
async fn the_plugin_watcher_finds_everything_and_again_after_its_restart() {
    let stage = Stage::new().await;
    let _sim = stage.runtime();
    let kubelet = stage.world.start_kubelet();
    let plugin = stage.plugin_with(&WATCHED).await;
    stage.ready(&plugin).await;
    let all_healthy = || ALL.map(|r| stage.healthy(r)) == [8, 8, 800, 1152];
    until("all lists are there", all_healthy).await;
    assert!(sockets(&stage.world.plugins()).is_empty());
    assert_eq!(sockets(&stage.world.registry()).len(), 4);
    let runs = pod("runs", &[(GPU, 1)], None);
    stage.world.admit(runs).await.unwrap();

    drop(kubelet);
    let _kubelet = stage.world.start_kubelet();
    until("lists are back", all_healthy).await;
    stage.ready(&plugin).await;
    let next = pod("next", &[(GPU, 7)], None);
    stage.world.admit(next).await.unwrap();
    stage.end(plugin).await;
}

#[tokio::test]
async fn a_list_that_ended_is_offered_on_a_new_socket() {
    let stage = Stage::new().await;
    let _sim = stage.runtime();
    let _kubelet = stage.world.start_kubelet();
    let plugin = stage.plugin_with(&WATCHED).await;
    stage.ready(&plugin).await;
    let before = sockets(&stage.world.registry());
    stage.world.end_streams();
    until("all are registered twice", || {
        let registrations = stage.world.lock().registrations.clone();
        ALL.iter().all(|r| registrations[*r] >= 2)
    })
    .await;
    let now = sockets(&stage.world.registry());
    assert!(now.iter().all(|socket| !before.contains(socket)), "{now:?}");
    stage.ready(&plugin).await;
    stage.end(plugin).await;
}

#[tokio::test]
async fn what_the_plugin_watcher_refuses_is_offered_again() {
    let stage = Stage::new().await;
    let _sim = stage.runtime();
    stage.world.lock().refusal = Some("not this one".to_owned());
    let _kubelet = stage.world.start_kubelet();
    let plugin = stage.plugin_with(&WATCHED).await;
    until("readiness says what is missing", || {
        let unmet = plugin.readiness.unmet();
        let missing = |(_, why): &(_, String)| why.contains("not registered with kubelet");
        unmet.iter().any(missing)
    })
    .await;
    assert!(stage.world.lock().registrations.is_empty());
    stage.world.lock().refusal = None;
    stage.ready(&plugin).await;
    stage.end(plugin).await;
}
