//! Switching the feature, and what outlasts a restart.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod scene;

use std::time::Duration;

use model::plan::GrantMode;
use runtime_proto::client::Phase;
use runtime_sim::{Fault, Options, Sim};
use scene::{
    WITHIN, allocation, client, folder, next_cards, next_cards_at_last, options, refusal, share,
    soon, until_on,
};

#[tokio::test]
async fn a_runtime_with_a_state_file_keeps_its_book_and_its_feature() {
    let folder = folder();
    let with_state = Options {
        state: Some(folder.path().join("state.json")),
        feature_on: false,
        ..options(folder.path(), "ppu-8x144")
    };
    let asked = allocation("a", vec![("ppu-0", share(20, 10))]);
    {
        let sim = Sim::start(with_state.clone()).unwrap();
        let client = client(&sim);
        client.enable("first").await.unwrap();
        until_on(&client, Phase::Enabled).await;
        client.allocate(&asked, WITHIN).await.unwrap();
        sim.fault(&Fault::Restart(Duration::ZERO)).unwrap();
        let mut events = client.watch_cards();
        assert_eq!(
            next_cards_at_last(&mut events)
                .await
                .inventory
                .cards()
                .len(),
            8
        );
        assert_eq!(sim.book(), std::slice::from_ref(&asked));
    }
    let sockets = runtime_proto::Sockets::in_folder(folder.path());
    soon(async {
        while sockets.device_manager.exists() || sockets.config_daemon.exists() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    let sim = Sim::start(with_state).unwrap();
    let client = client(&sim);
    assert_eq!(
        until_on(&client, Phase::Enabled).await,
        "the cards can be used"
    );
    assert_eq!(client.book().await.unwrap().1, std::slice::from_ref(&asked));
    let clash = allocation("b", vec![("ppu-0", GrantMode::Whole)]);
    assert!(refusal(client.allocate(&clash, WITHIN).await).contains("ppu-0"));
    client.allocate(&asked, WITHIN).await.unwrap();
}

#[tokio::test]
async fn switching_on_fills_the_card_list_and_off_empties_it() {
    let folder = folder();
    let off = Options {
        feature_on: false,
        ..options(folder.path(), "xpu-8")
    };
    let sim = Sim::start(off).unwrap();
    let client = client(&sim);
    let mut events = client.watch_cards();
    assert_eq!(next_cards(&mut events).await.inventory.cards(), []);
    assert_eq!(
        client.feature_status().await.unwrap().phase,
        Phase::Disabled
    );
    let asked = allocation("a", vec![("xpu-0", GrantMode::Whole)]);
    assert!(refusal(client.allocate(&asked, WITHIN).await).contains("feature is off"));
    assert_eq!(client.enable("1").await.unwrap().phase, Phase::Enabling);
    assert_eq!(next_cards(&mut events).await.inventory.cards().len(), 8);
    assert_eq!(client.enable("2").await.unwrap().phase, Phase::Enabled);
    client.allocate(&asked, WITHIN).await.unwrap();
    let refused = client.disable("3").await.unwrap();
    assert_eq!(refused.phase, Phase::Failed);
    assert!(
        refused.message.contains("1 containers"),
        "{}",
        refused.message
    );
    assert_eq!(client.book().await.unwrap().0.inventory.cards().len(), 8);
    client.release(&[asked.id]).await.unwrap();
    assert_eq!(client.disable("4").await.unwrap().phase, Phase::Disabling);
    assert_eq!(next_cards(&mut events).await.inventory.cards(), []);
    until_on(&client, Phase::Disabled).await;
}

#[tokio::test]
async fn a_switch_that_is_told_to_fail_says_so() {
    let folder = folder();
    let off = Options {
        feature_on: false,
        ..options(folder.path(), "gcu-8")
    };
    let sim = Sim::start(off).unwrap();
    let client = client(&sim);
    sim.fault(&Fault::FeatureFails(true)).unwrap();
    client.enable("1").await.unwrap();
    assert!(until_on(&client, Phase::Failed).await.contains("enable"));
    sim.fault(&Fault::FeatureFails(false)).unwrap();
    client.enable("2").await.unwrap();
    until_on(&client, Phase::Enabled).await;
}
