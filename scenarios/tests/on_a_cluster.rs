//! The scenarios on a real cluster, one after the other: `make e2e` brings it up and runs these.
//! An argument runs only those whose name contains it; some run only so.

use std::{future::Future, pin::Pin, process::ExitCode, time::Instant};

use scenarios::{Lab, Victim, lab};
use testbed::stage::Signal;

type Outcome<'a> = Pin<Box<dyn Future<Output = anyhow::Result<()>> + 'a>>;
type Scenario = (&'static str, for<'a> fn(&'a Lab) -> Outcome<'a>);

/// Names and scenarios.
macro_rules! scenarios {
    ($($name:ident: |$lab:ident| $scenario:expr;)*) => {
        [$((stringify!($name), (|$lab| Box::pin($scenario)) as for<'a> fn(&'a Lab) -> Outcome<'a>)),*]
    };
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let only: Vec<String> = std::env::args().skip(1).filter(|a| !a.is_empty()).collect();
    let all: &[Scenario] = &scenarios! {
        // First, because kubelet takes 5 minutes to give up a name: what comes last looks again.
        a_rename_gives_new_names_and_running_pods_stay: |g| lab::rename(g);
        partitions_fill_a_card_and_others_keep_off_it: |g| scenarios::partitions(g);
        // Ends with the cards that the others expect.
        case_5_names_come_and_go_with_the_cards: |g| scenarios::case_5_names_come_and_go_with_the_cards(g);
        a_label_starts_the_programs_there_and_only_there: |g| lab::label_and_unlabel(g);
        case_2_two_containers_each_get_theirs: |g| scenarios::case_2_two_containers(g);
        case_7_of_two_parallel_filters_one_wins_at_bind: |g| scenarios::case_7_one_of_two_wins(g);
        case_8_init_4_sidecar_2_app_2_holds_6_or_4: |g| scenarios::case_8_init_and_sidecar(g);
        case_9_requests_without_meaning_are_refused: |g| scenarios::case_9_requests_without_meaning(g);
        case_10_restarts_lose_nothing: |g| scenarios::case_10_restarts_lose_nothing(g);
        case_11_four_pods_on_one_card_are_all_named: |g| scenarios::case_11_four_pods_on_one_card(g);
        case_13_an_idle_node_reports_all_cards: |g| scenarios::case_13_idle_node(g);
        a_batch_of_six_with_a_refusal_reaches_the_right_pods: |g| scenarios::batch_of_six_with_a_refusal(g);
        no_card_is_whole_and_shared_at_once: |g| scenarios::whole_and_shared_cards_never_meet(g);
        pods_meet_a_runtime_that_is_away: |g| scenarios::pods_meet_a_runtime_that_is_away(g);
        each_part_killed_in_turn_changes_no_card: |g| scenarios::each_part_in_turn(g, &Victim::ALL, Signal::Kill);
        short_pods_survive_the_restart_of_each_program: |g| scenarios::short_pods_survive_restarts(g, &Victim::PROGRAMS);
        either_of_the_two_extenders_may_go: |g| lab::either_extender_may_go(g);
        short_pods_survive_upgrade_and_rollback: |g| lab::upgrade_and_rollback(g);
        pods_need_not_name_scheduler_and_runtime_class: |g| lab::policy(g);
        annotations_reach_pods_of_the_runtime_class_only: |g| lab::annotations(g);
        an_unlabelled_node_has_no_names_left: |g| lab::nothing_is_left_of_an_unlabelled_node(g);
        whole_cards_over_all_nodes_and_one_pod_too_many: |g| lab::whole_cards_everywhere(g);
        case_16_nodes_of_long_names_have_valid_jobs: |g| lab::case_16_long_node_names(g);
        a_node_is_deleted_and_made_again: |g| lab::node_made_again(g);
        the_guide_s_commands_do_what_it_says: |g| lab::guide(g);
        every_right_is_used_and_no_other_is_asked: |g| lab::rights(g);
    };
    // Long, and different with each seed: run by those who look for what the others miss.
    let only_when_named: &[Scenario] = &scenarios! {
        a_storm_of_pods_and_kills_over_promises_nothing: |g| scenarios::storm(g, 200, 1);
    };
    let lab = match Lab::from_environment() {
        Ok(lab) => lab,
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::FAILURE;
        }
    };
    let (mut passed, mut failed) = (0, Vec::new());
    let named = |name: &str| only.iter().any(|part| name.contains(part.as_str()));
    let all = all
        .iter()
        .filter(|(name, _)| only.is_empty() || named(name));
    let all = all.chain(only_when_named.iter().filter(|(name, _)| named(name)));
    for (name, scenario) in all {
        let started = Instant::now();
        let outcome = match lab.clear().await {
            Ok(()) => scenario(&lab).await,
            Err(error) => Err(error.context("before it began")),
        };
        let seconds = started.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => {
                passed += 1;
                println!("scenario {name} ... ok ({seconds:.1} s)");
            }
            Err(error) => {
                println!("scenario {name} ... FAILED ({seconds:.1} s)\n{error:?}");
                failed.push(*name);
            }
        }
    }
    println!(
        "{passed} scenarios passed, {} failed {failed:?}",
        failed.len()
    );
    if failed.is_empty() && passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
