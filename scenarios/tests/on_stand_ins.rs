//! The scenarios on the stand-ins: the five real programs as processes.

use model::settings::Settings;
use scenarios::{Ground, StandIns, Victim};
use testbed::stage::{Options, Signal};

/// Runs `scenario` on a fresh node of 8 PPU cards; at the end every part must still be alive.
macro_rules! on_ready_node {
    ($($name:ident => |$ground:ident| $scenario:expr;)*) => {$(
        #[tokio::test]
        async fn $name() -> anyhow::Result<()> {
            let ground = StandIns::ready().await?;
            let $ground = &ground;
            ground.seen($scenario.await)?;
            ground.end().await
        }
    )*};
}

on_ready_node! {
    case_2_two_containers_each_get_theirs => |g| scenarios::case_2_two_containers(g);
    case_7_of_two_parallel_filters_one_wins_at_bind => |g| scenarios::case_7_one_of_two_wins(g);
    case_8_init_4_sidecar_2_app_2_holds_6_or_4 => |g| scenarios::case_8_init_and_sidecar(g);
    case_9_requests_without_meaning_are_refused => |g| scenarios::case_9_requests_without_meaning(g);
    case_10_restarts_lose_nothing => |g| scenarios::case_10_restarts_lose_nothing(g);
    case_11_four_pods_on_one_card_are_all_named => |g| scenarios::case_11_four_pods_on_one_card(g);
    case_13_an_idle_node_reports_all_cards => |g| scenarios::case_13_idle_node(g);
    a_batch_of_six_with_a_refusal_reaches_the_right_pods => |g| scenarios::batch_of_six_with_a_refusal(g);
    no_card_is_whole_and_shared_at_once => |g| scenarios::whole_and_shared_cards_never_meet(g);
    partitions_fill_a_card_and_others_keep_off_it => |g| scenarios::partitions(g);
    a_storm_of_pods_and_kills_over_promises_nothing => |g| scenarios::storm(g, 60, 1);
    pods_meet_a_runtime_that_is_away => |g| scenarios::pods_meet_a_runtime_that_is_away(g);
    short_pods_survive_the_restart_of_each_program => |g| scenarios::short_pods_survive_restarts(g, &Victim::PROGRAMS);
    each_part_killed_in_turn_changes_no_card => |g| scenarios::each_part_in_turn(g, &StandIns::victims(), Signal::Kill);
    each_part_ended_in_turn_changes_no_card => |g| scenarios::each_part_in_turn(g, &StandIns::victims(), Signal::Term);
}

#[tokio::test]
async fn the_label_switches_the_node_on_and_off() -> anyhow::Result<()> {
    let ground = StandIns::with(Options::default(), Settings::default()).await?;
    scenarios::label_switches_the_node(&ground).await?;
    scenarios::removed_label_takes_everything_away(&ground).await?;
    scenarios::label_switches_the_node(&ground).await?;
    ground.end().await
}

#[tokio::test]
async fn a_removed_label_leaves_no_names_even_without_the_plugin() -> anyhow::Result<()> {
    let ground = StandIns::with_short_grace().await?;
    ground
        .seen(scenarios::a_removed_label_leaves_no_names_even_without_the_plugin(&ground).await)?;
    ground.end().await
}

#[tokio::test]
async fn case_5_names_come_and_go_with_the_cards() -> anyhow::Result<()> {
    let ground = StandIns::with_short_grace().await?;
    ground.seen(scenarios::case_5_names_come_and_go_with_the_cards(&ground).await)?;
    ground.end().await
}

#[tokio::test]
async fn case_1_two_pods_at_once_are_never_swapped() -> anyhow::Result<()> {
    let ground = StandIns::in_mib().await?;
    scenarios::case_1_two_pods_at_once(&ground).await?;
    ground.end().await
}

#[tokio::test]
async fn a_killed_leader_is_followed_and_no_card_is_promised_twice() -> anyhow::Result<()> {
    let ground = StandIns::with_two_extenders().await?;
    ground.seen(scenarios::the_leading_extender_goes(&ground, Signal::Kill).await)?;
    ground.end().await
}

#[tokio::test]
async fn a_leader_that_ends_hands_over_at_once() -> anyhow::Result<()> {
    let ground = StandIns::with_two_extenders().await?;
    ground.seen(scenarios::the_leading_extender_goes(&ground, Signal::Term).await)?;
    ground.end().await
}

#[tokio::test]
async fn a_runtime_that_forgets_its_book_is_told_again() -> anyhow::Result<()> {
    let ground = StandIns::forgetful().await?;
    scenarios::each_part_in_turn(&ground, &StandIns::victims(), Signal::Kill).await?;
    ground.books_are_empty().await?;
    ground.end().await
}
