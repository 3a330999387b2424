//! The scenarios on a real cluster: `make e2e` brings it up and runs these, one after the other.

use scenarios::{Lab, Victim};
use testbed::stage::Signal;

/// Runs `scenario` with the first node switched on and empty.
macro_rules! on_a_cluster {
    ($($name:ident => |$lab:ident| $scenario:expr;)*) => {$(
        #[tokio::test]
        #[ignore = "needs the cluster of `make e2e`"]
        async fn $name() -> anyhow::Result<()> {
            let lab = Lab::ready().await?;
            let $lab = &lab;
            $scenario.await
        }
    )*};
}

on_a_cluster! {
    case_2_two_containers_each_get_theirs => |g| scenarios::case_2_two_containers(g);
    case_7_of_two_parallel_filters_one_wins_at_bind => |g| scenarios::case_7_one_of_two_wins(g);
    case_8_init_4_sidecar_2_app_2_holds_6_or_4 => |g| scenarios::case_8_init_and_sidecar(g);
    case_9_requests_without_meaning_are_refused => |g| scenarios::case_9_requests_without_meaning(g);
    case_10_restarts_lose_nothing => |g| scenarios::case_10_restarts_lose_nothing(g);
    case_11_four_pods_on_one_card_are_all_named => |g| scenarios::case_11_four_pods_on_one_card(g);
    case_13_an_idle_node_reports_all_cards => |g| scenarios::case_13_idle_node(g);
    a_batch_of_six_with_a_refusal_reaches_the_right_pods => |g| scenarios::batch_of_six_with_a_refusal(g);
    no_card_is_whole_and_shared_at_once => |g| scenarios::whole_and_shared_cards_never_meet(g);
    pods_meet_a_runtime_that_is_away => |g| scenarios::pods_meet_a_runtime_that_is_away(g);
    short_pods_survive_the_restart_of_each_program => |g| scenarios::short_pods_survive_restarts(g, &[
        Victim::DevicePlugin, Victim::Extender, Victim::KubeScheduler, Victim::Controller, Victim::Exporter,
    ]);
    each_part_killed_in_turn_changes_no_card => |g| scenarios::each_part_in_turn(g, Signal::Kill);
    each_part_ended_in_turn_changes_no_card => |g| scenarios::each_part_in_turn(g, Signal::Term);
}
