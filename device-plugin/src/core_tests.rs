use model::{
    annotation::write_plan,
    plan::{ContainerGrants, GrantMode},
    quantity::{CorePercent, MemoryBytes, MemoryUnit},
    request::Role,
    settings::Settings,
};

use super::*;
use crate::{
    fixture::{
        CORE, GPU, MEMORY, Spec, card_id, cards, container, core, ids, look, pod, pod_ref, request,
        resource, settings, share, simple, uid,
    },
    fixture_kubelet::Kubelet,
    refusal::Refusal,
};
use kubernetes::convert::Life;

fn never() -> bool {
    false
}

fn plan(containers: &[(&str, Vec<Grant>)]) -> String {
    write_plan(&Plan {
        containers: containers
            .iter()
            .map(|(name, grants)| ContainerGrants {
                container: container(name),
                grants: grants.clone(),
            })
            .collect(),
    })
}

fn grants(core: &Core, pod: &str, name: &str) -> Vec<Grant> {
    core.book()[&uid(pod)].containers[&container(name)]
        .grants
        .clone()
}

#[test]
fn case_1_two_pods_of_one_moment_get_the_cards_their_plans_name() {
    // MiB units, as in the case; the cards are small enough for kubelet's message.
    let mut settings = Settings::default();
    for one in settings
        .resources
        .iter_mut()
        .filter(|r| r.name.as_str() == MEMORY)
    {
        one.unit = Some(MemoryUnit::Mib);
    }
    for backwards in [false, true] {
        let mut core = Core::new(Arc::new(settings.clone()));
        core.set_cards(cards(2, 32));
        let mut kubelet = Kubelet::default();
        for (name, mib, card) in [("large", 24576, "ppu-1"), ("small", 600, "ppu-0")] {
            let one: [Spec<'_>; 1] = [("main", Role::App, &[(CORE, 10), (MEMORY, mib)])];
            let mut view = pod(name, 7, request(&one, &settings));
            let grant = Grant {
                card: card_id(card),
                mode: GrantMode::Share {
                    core: CorePercent::new(10),
                    memory: MemoryBytes::new(mib << 20),
                },
            };
            view.assigned = Some(plan(&[("main", vec![grant.clone()])]));
            kubelet.admit(&mut core, view, || backwards).unwrap();
            assert_eq!(grants(&core, name, "main"), std::slice::from_ref(&grant));
            let id = book::allocation_id(&uid(name), &container("main"));
            assert_eq!(kubelet.runtime[&id].grants, [grant]);
            assert_eq!(kubelet.runtime[&id].consumer.pod, pod_ref(name));
        }
    }
}

#[test]
fn case_2_two_containers_of_one_pod_get_theirs_in_any_order_of_calls() {
    for (first, second) in [(1, 2), (5, 5)] {
        for backwards in [false, true] {
            let mut core = core(2, 16);
            let mut kubelet = Kubelet::default();
            let both: [Spec<'_>; 2] = [
                ("a", Role::App, &[(CORE, 10), (MEMORY, first)]),
                ("b", Role::App, &[(CORE, 20), (MEMORY, second)]),
            ];
            let view = pod("two", 0, request(&both, &settings()));
            kubelet.admit(&mut core, view, || backwards).unwrap();
            let on = |name: &str| grants(&core, "two", name);
            assert_eq!(on("a"), [share(on("a")[0].card.as_str(), 10, first)]);
            assert_eq!(on("b"), [share(on("b")[0].card.as_str(), 20, second)]);
            let called: Vec<&str> = kubelet
                .consumers
                .iter()
                .map(|c| c.container.as_str())
                .collect();
            assert_eq!(called, ["a", "a", "b", "b"]);
            assert_eq!(kubelet.runtime.len(), 2);
        }
    }
}

#[test]
fn case_10_restarts_while_one_runs_one_starts_and_one_ends_leave_the_books_agreed() {
    let mut kubelet = Kubelet::default();
    let mut first = core(2, 16);
    let half: &[(&str, u64)] = &[(CORE, 50), (MEMORY, 8)];
    kubelet
        .admit(&mut first, simple("runs", 0, half), never)
        .unwrap();
    kubelet
        .admit(&mut first, simple("ends", 1, half), never)
        .unwrap();
    let before = grants(&first, "runs", "main");
    // The plugin is down while one pod ends and is deleted.
    drop(first);
    kubelet.delete(&uid("ends"));
    let mut second = core(2, 16);
    kubelet.rebuild(&mut second);
    assert_eq!(second.book().len(), 1);
    assert_eq!(kubelet.runtime.len(), 1);
    assert_eq!(grants(&second, "runs", "main"), before);
    kubelet
        .admit(&mut second, simple("starts", 2, half), never)
        .unwrap();
    // The Runtime comes back without its book.
    kubelet.runtime.clear();
    kubelet.rebuild(&mut second);
    assert_eq!(kubelet.runtime.len(), 2);
    // Both at once.
    kubelet.runtime.clear();
    let mut third = core(2, 16);
    kubelet.rebuild(&mut third);
    assert_eq!(third.book().len(), 2);
    assert_eq!(grants(&third, "runs", "main"), before);
    assert_eq!(
        third.ledger().of(&uid("starts")),
        second.ledger().of(&uid("starts"))
    );
    assert_eq!(kubelet.runtime.len(), 2);
}

#[test]
fn a_kubelet_that_has_just_started_and_lists_nothing_releases_nothing() {
    let mut core = core(1, 16);
    let mut kubelet = Kubelet::default();
    kubelet
        .admit(&mut core, simple("runs", 0, &[(CORE, 50)]), never)
        .unwrap();
    for _ in 0..3 {
        let ticket = core.ticket();
        let observed = core.observe(&look(ticket, Some(vec![]), vec![]), None);
        assert_eq!(observed.suspects, [uid("runs")]);
        assert!(observed.ended.is_empty());
    }
    assert!(core.releases().is_empty());
}

#[test]
fn what_only_the_api_server_and_kubelet_s_record_show_is_held_after_all_others_lost_it() {
    let mut kubelet = Kubelet::default();
    let mut first = core(1, 16);
    kubelet
        .admit(&mut first, simple("runs", 0, &[(CORE, 50)]), never)
        .unwrap();
    let given = &kubelet.given[&uid("runs")]["main"][CORE];
    let text = format!(
        r#"{{"Data":{{"PodDeviceEntries":[{{"PodUID":"uid-runs","ContainerName":"main",
        "ResourceName":"{CORE}","DeviceIDs":{{"-1":{}}}}}]}}}}"#,
        serde_json::to_string(given).unwrap()
    );
    let (checkpoint, _) = crate::checkpoint::parse(&text).unwrap();
    let now = kubelet.look(&mut first);
    let written = first.annotations(&now);
    // By kubelet's record, or by what was written on the pod.
    for record in [Some(&checkpoint), None] {
        let mut view = kubelet.pods[0].clone();
        view.allocated = record.is_none().then(|| written[0].text.clone());
        let mut second = core(1, 16);
        let mut now = look(second.ticket(), Some(vec![]), vec![view]);
        now.beyond.insert(uid("runs"));
        second.observe(&now, record);
        assert_eq!(
            second.ledger().of(&uid("runs")),
            first.ledger().of(&uid("runs"))
        );
        // Kubelet still lists nothing: that is no sign of its end.
        for _ in 0..3 {
            now.ticket = second.ticket();
            assert!(second.observe(&now, None).ended.is_empty());
        }
    }
}

#[test]
fn a_look_from_before_the_grant_says_nothing_about_it() {
    let mut core = core(1, 16);
    let early = core.ticket();
    let mut kubelet = Kubelet::default();
    kubelet
        .admit(&mut core, simple("new", 0, &[(CORE, 50)]), never)
        .unwrap();
    let observed = core.observe(&look(early, Some(vec![]), vec![]), None);
    assert_eq!(observed, Observed::default());
}

#[test]
fn a_pod_refused_half_way_gives_back_what_it_was_granted() {
    let mut core = core(2, 16);
    let mut kubelet = Kubelet::default();
    let containers: [Spec<'_>; 2] = [
        ("a", Role::App, &[(CORE, 50)]),
        ("b", Role::App, &[(CORE, 60)]),
    ];
    let mut view = pod("half", 0, request(&containers, &settings()));
    // Its plan for b names a card that is taken whole by then, and no other has room for b.
    kubelet
        .admit(&mut core, simple("whole", 0, &[(GPU, 1)]), never)
        .unwrap();
    let taken = grants(&core, "whole", "main")[0].card.clone();
    let free = if taken == card_id("ppu-0") {
        "ppu-1"
    } else {
        "ppu-0"
    };
    view.assigned = Some(plan(&[
        ("a", vec![share(free, 50, 8)]),
        ("b", vec![share(taken.as_str(), 60, 8)]),
    ]));
    let refusal = kubelet.admit(&mut core, view, never).unwrap_err();
    assert!(matches!(refusal, Refusal::Conflict { .. }), "{refusal}");
    assert!(refusal.to_string().contains("default/half container b"));
    assert_eq!(core.book().len(), 1);
    assert_eq!(kubelet.runtime.len(), 1);
    assert!(core.refused(&uid("half")));
}

#[test]
fn a_terminating_pod_holds_until_kubelet_lists_it_no_more() {
    let mut core = core(1, 16);
    let mut kubelet = Kubelet::default();
    kubelet
        .admit(&mut core, simple("old", 0, &[(GPU, 1)]), never)
        .unwrap();
    kubelet.set_life(&uid("old"), Life::Terminating);
    kubelet.reconcile(&mut core);
    kubelet.reconcile(&mut core);
    assert_eq!(core.book().len(), 1);
    // PodResources leaves it out while the pods still show it: one look could be a race.
    for expected in [1, 0] {
        let ticket = core.ticket();
        core.observe(&look(ticket, Some(vec![]), kubelet.pods.clone()), None);
        assert_eq!(core.book().len(), expected);
    }
    assert_eq!(core.releases().len(), 1);
}

#[test]
fn app_containers_that_reuse_an_init_container_s_devices_stay_on_its_card() {
    for backwards in [false, true] {
        let mut core = core(4, 16);
        let mut kubelet = Kubelet::default();
        let containers: [Spec<'_>; 3] = [
            ("first", Role::Init, &[(CORE, 40), (MEMORY, 4)]),
            ("side", Role::Sidecar, &[(CORE, 10), (MEMORY, 2)]),
            ("main", Role::App, &[(CORE, 50), (MEMORY, 6)]),
        ];
        let view = pod("p", 0, request(&containers, &settings()));
        kubelet.admit(&mut core, view, || backwards).unwrap();
        for name in ["first", "side", "main"] {
            assert_eq!(grants(&core, "p", name).len(), 1);
        }
        let hold = core.ledger().of(&uid("p")).unwrap();
        assert!(hold.iter().all(|(_, h)| h.core <= CorePercent::new(60)));
    }
}

#[test]
fn where_kubelet_ignores_the_preference_the_truth_wins_if_it_fits() {
    let mut core = core(2, 16);
    let mut kubelet = Kubelet {
        ignores_preference: true,
        ..Kubelet::default()
    };
    let mut view = simple("a", 0, &[(GPU, 1)]);
    let whole = |card: &str| Grant {
        card: card_id(card),
        mode: GrantMode::Whole,
    };
    view.assigned = Some(plan(&[("main", vec![whole("ppu-1")])]));
    kubelet.admit(&mut core, view, never).unwrap();
    assert_eq!(grants(&core, "a", "main"), [whole("ppu-0")]);
    let look = kubelet.look(&mut core);
    core.observe(&look, None);
    let annotate = core.annotations(&look);
    assert_eq!(annotate.len(), 1);
    assert_eq!(annotate[0].text, plan(&[("main", vec![whole("ppu-0")])]));
    core.annotated(&annotate[0]);
    assert!(core.annotations(&look).is_empty());
}

#[test]
fn an_unreadable_plan_is_refused_by_its_name() {
    let mut core = core(1, 16);
    let mut kubelet = Kubelet::default();
    let mut view = simple("a", 0, &[(CORE, 5)]);
    view.assigned = Some(r#"{"v":9}"#.to_owned());
    let refusal = kubelet.admit(&mut core, view, never).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "pod default/a: annotation lj-runtimekit/assigned: version 9 is newer than this program \
         understands (1)"
    );
}

#[test]
fn no_card_is_both_whole_and_shared_whatever_the_plans_say() {
    let mut core = core(1, 16);
    let mut kubelet = Kubelet::default();
    kubelet
        .admit(&mut core, simple("a", 0, &[(CORE, 5)]), never)
        .unwrap();
    let refusal = kubelet
        .admit(&mut core, simple("b", 0, &[(GPU, 1)]), never)
        .unwrap_err();
    assert!(matches!(refusal, Refusal::NoFit { .. }), "{refusal}");
    let mut planned = simple("c", 0, &[(GPU, 1)]);
    let whole = Grant {
        card: card_id("ppu-0"),
        mode: GrantMode::Whole,
    };
    planned.assigned = Some(plan(&[("main", vec![whole])]));
    let refusal = kubelet.admit(&mut core, planned, never).unwrap_err();
    assert!(matches!(refusal, Refusal::Conflict { .. }), "{refusal}");
}

#[test]
fn the_second_call_of_a_container_is_answered_the_same_and_must_name_the_same_card() {
    let mut core = core(2, 16);
    let view = simple("a", 0, &[(CORE, 50), (MEMORY, 4)]);
    let consumer = Consumer {
        uid: view.uid.clone(),
        pod: view.pod.clone(),
        container: container("main"),
        request: view.request.clone().unwrap(),
        assigned: None,
    };
    let (core_name, memory_name) = (resource(CORE), resource(MEMORY));
    let step = core.allocate(&consumer, &core_name, &ids("ppu-0", "core", 0..50));
    let Ok(Step::Ask(assertion)) = step else {
        panic!("{step:?}");
    };
    let edits = ContainerEdits {
        cdi_names: vec!["x.y/card=0".into()],
        ..ContainerEdits::default()
    };
    core.granted(&assertion.allocation, edits.clone());
    let other = core.allocate(&consumer, &memory_name, &ids("ppu-1", "mem", 0..4));
    assert!(matches!(other, Err(Refusal::Devices { .. })));
    let same = core.allocate(&consumer, &memory_name, &ids("ppu-0", "mem", 3..7));
    assert_eq!(same.unwrap(), Step::Answer(edits));
}

#[test]
fn after_a_restart_without_the_runtime_s_book_init_containers_come_from_what_was_written() {
    let containers: [Spec<'_>; 2] = [
        ("first", Role::Init, &[(CORE, 40)]),
        ("main", Role::App, &[(CORE, 10)]),
    ];
    let mut kubelet = Kubelet::default();
    let mut first = core(1, 16);
    kubelet
        .admit(
            &mut first,
            pod("p", 0, request(&containers, &settings())),
            never,
        )
        .unwrap();
    let look = kubelet.look(&mut first);
    let written = first.annotations(&look)[0].text.clone();
    kubelet.runtime.clear();
    kubelet.pods[0].allocated = Some(written);
    let mut second = core(1, 16);
    kubelet.rebuild(&mut second);
    assert_eq!(second.ledger().of(&uid("p")), first.ledger().of(&uid("p")));
    assert_eq!(kubelet.runtime.len(), 2);
}

#[test]
fn kubelet_s_record_tells_an_init_container_s_devices_after_a_restart_in_mid_admission() {
    let containers: [Spec<'_>; 2] = [
        ("first", Role::Init, &[(CORE, 40)]),
        ("main", Role::App, &[(CORE, 40)]),
    ];
    let view = pod("p", 0, request(&containers, &settings()));
    let text = format!(
        r#"{{"Data":{{"PodDeviceEntries":[{{"PodUID":"uid-p","ContainerName":"first",
        "ResourceName":"{CORE}","DeviceIDs":{{"-1":{}}}}}]}}}}"#,
        serde_json::to_string(&ids("ppu-0", "core", 0..40)).unwrap()
    );
    let (checkpoint, _) = crate::checkpoint::parse(&text).unwrap();
    let mut core = core(1, 16);
    let ticket = core.ticket();
    let listed = vec![crate::fixture::shown("p", &[("main", &[])])];
    let now = look(ticket, Some(listed), vec![view]);
    core.observe(&now, Some(&checkpoint));
    let name = resource(CORE);
    let call = crate::identity::Call {
        resource: &name,
        count: 40,
    };
    let found = crate::identity::consumer(&call, now.listed.as_deref(), &now.pods, &core).unwrap();
    assert_eq!(found.container, container("main"));
}

#[test]
fn an_unhealthy_card_is_not_given() {
    let mut core = core(1, 16);
    let mut all = cards(1, 16).cards().to_vec();
    all[0].health = model::card::Health::Unhealthy("ECC".into());
    core.set_cards(Inventory::new(all).unwrap());
    let mut view = simple("a", 0, &[(CORE, 5)]);
    view.assigned = Some(plan(&[("main", vec![share("ppu-0", 5, 0)])]));
    let refusal = Kubelet::default()
        .admit(&mut core, view, never)
        .unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "pod default/a container main: card ppu-0 is unhealthy: ECC"
    );
}

#[test]
fn a_pod_known_from_the_runtime_s_book_counts_by_its_phases_once_its_request_is_seen() {
    let containers: [Spec<'_>; 2] = [
        ("first", Role::Init, &[(CORE, 60), (MEMORY, 4)]),
        ("second", Role::Init, &[(CORE, 100)]),
    ];
    let mut kubelet = Kubelet::default();
    let mut first = core(1, 16);
    kubelet
        .admit(
            &mut first,
            pod("p", 0, request(&containers, &settings())),
            never,
        )
        .unwrap();
    let mut second = core(1, 16);
    kubelet.rebuild(&mut second);
    let held = second.ledger().of(&uid("p")).unwrap();
    assert_eq!(held.get(&card_id("ppu-0")).unwrap().core, CorePercent::CARD);
}

#[path = "core_property_tests.rs"]
mod properties;
