use std::collections::BTreeSet;

use model::{
    name::{ContainerName, PodUid, ResourceName},
    request::Role,
    settings::{Gives, ResourceSetting, Settings},
};
use proptest::prelude::*;

use super::*;
use crate::fixture::{Spec, container, pod, pod_ref, request, resource, shown, uid};

const C: &str = "example.com/c";
const M: &str = "example.com/m";

/// Answers so far, and refused pods.
#[derive(Default)]
struct Own {
    answered: BTreeSet<(PodUid, ContainerName, ResourceName)>,
    refused: BTreeSet<PodUid>,
}

impl Own {
    fn answer(&mut self, consumer: &Consumer, name: &ResourceName) {
        self.answered.insert((
            consumer.uid.clone(),
            consumer.container.clone(),
            name.clone(),
        ));
    }
}

impl Answered for Own {
    fn answered(&self, uid: &PodUid, container: &ContainerName, resource: &ResourceName) -> bool {
        let key = (uid.clone(), container.clone(), resource.clone());
        self.answered.contains(&key)
    }
    fn refused(&self, uid: &PodUid) -> bool {
        self.refused.contains(uid)
    }
}

fn settings() -> Settings {
    let one = |name: &str, gives| ResourceSetting {
        name: resource(name),
        gives,
        unit: None,
        profile: None,
        kinds: Vec::new(),
        models: Vec::new(),
    };
    Settings {
        resources: vec![one(C, Gives::CorePercent), one(M, Gives::Memory)],
        ..Settings::default()
    }
}

fn view(name: &str, created: i64, containers: &[Spec<'_>]) -> PodView {
    pod(name, created, request(containers, &settings()))
}

fn device_names(prefix: &str, count: u64) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}{n}")).collect()
}

fn find(
    name: &str,
    count: u64,
    listed: Option<&[PodDevices]>,
    pods: &[PodView],
    own: &Own,
) -> Result<(String, String), Unknown> {
    let resource = resource(name);
    let call = Call {
        resource: &resource,
        count,
    };
    consumer(&call, listed, pods, own).map(|c| (c.pod.name.to_string(), c.container.to_string()))
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "compared with what identity answers"
)]
fn is(pod: &str, container: &str) -> Result<(String, String), Unknown> {
    Ok((pod.to_owned(), container.to_owned()))
}

/// One row of the trace.
struct Row {
    preference: bool,
    resource: &'static str,
    count: u64,
    /// Pod and how many devices PodResources listed of it.
    listed: Vec<(String, u64)>,
    pods: Vec<String>,
    refused: bool,
}

fn rows() -> Vec<Row> {
    include_str!("kubelet_trace.txt")
        .lines()
        .map(|line| {
            let mut words = line.split_whitespace();
            let preference = words.next() == Some("P");
            let resource = if words.next() == Some("c") { C } else { M };
            let count = words.next().unwrap().parse().unwrap();
            assert_eq!(words.next(), Some("PodResources"));
            let mut listed = Vec::new();
            let mut pods = Vec::new();
            let mut refused = false;
            for word in words {
                match word.split_once(':') {
                    Some((pod, n)) if word != "->" && !refused => {
                        if let Ok(n) = n.parse() {
                            listed.push((pod.to_owned(), n));
                        } else {
                            refused = true;
                        }
                    }
                    _ if word == "/pods" => {}
                    _ if word == "->" || refused => refused = true,
                    _ => pods.push(word.to_owned()),
                }
            }
            Row {
                preference,
                resource,
                count,
                listed,
                pods,
                refused,
            }
        })
        .collect()
}

/// What PodResources showed in that row: 2 devices are of c, 3 of m, 5 are all.
fn listed_of(row: &Row) -> Vec<PodDevices> {
    row.listed
        .iter()
        .map(|(pod, n)| {
            let (c, m) = match n {
                0 => (0, 0),
                2 => (2, 0),
                3 => (0, 3),
                5 => (2, 3),
                other => panic!("{other} devices"),
            };
            let mut devices = Vec::new();
            if c > 0 {
                devices.push((C, device_names("c", c)));
            }
            if m > 0 {
                devices.push((M, device_names("m", m)));
            }
            shown(pod, &[("main", &devices)])
        })
        .collect()
}

fn pods_of(row: &Row) -> Vec<PodView> {
    row.pods
        .iter()
        .map(|name| view(name, 0, &[("main", Role::App, &[(C, 2), (M, 3)])]))
        .collect()
}

#[test]
fn kubelet_trace_every_call_has_its_consumer() {
    let rows = rows();
    assert_eq!(rows.len(), 24);
    assert_eq!(rows.iter().filter(|r| r.refused).count(), 1);
    // With what the plugin answered itself, and after a restart without that.
    for remembers in [true, false] {
        let mut own = Own::default();
        for row in &rows {
            let (expected, _) = row.listed.last().unwrap();
            let listed = listed_of(row);
            let found = find(row.resource, row.count, Some(&listed), &pods_of(row), &own);
            assert_eq!(found, is(expected, "main"));
            if remembers && !row.preference && !row.refused {
                own.answered
                    .insert((uid(expected), container("main"), resource(row.resource)));
            }
        }
    }
}

#[test]
fn kubelet_trace_without_pod_resources_goes_by_its_own_answers_and_the_refusal() {
    let mut own = Own::default();
    for row in &rows() {
        let (expected, _) = row.listed.last().unwrap();
        let found = find(row.resource, row.count, None, &pods_of(row), &own);
        assert_eq!(found, is(expected, "main"));
        if row.refused {
            own.refused.insert(uid(expected));
        } else if !row.preference {
            own.answered
                .insert((uid(expected), container("main"), resource(row.resource)));
        }
    }
}

#[test]
fn init_containers_come_first_though_pod_resources_leaves_them_out() {
    let pods = [view(
        "a",
        0,
        &[
            ("first", Role::Init, &[(C, 2), (M, 3)]),
            ("main", Role::App, &[(C, 2), (M, 3)]),
        ],
    )];
    let mut own = Own::default();
    let nothing = [shown("a", &[("main", &[])])];
    for (name, count, expected) in [
        (M, 3, "first"),
        (C, 2, "first"),
        (C, 2, "main"),
        (M, 3, "main"),
    ] {
        let found = find(name, count, Some(&nothing), &pods, &own);
        assert_eq!(found, is("a", expected));
        own.answered
            .insert((uid("a"), container(expected), resource(name)));
    }
    let after_all = find(C, 2, Some(&nothing), &pods, &own);
    assert!(matches!(after_all, Err(Unknown::NobodyLacks { .. })));
}

#[test]
fn after_a_restart_a_given_app_container_says_that_the_init_containers_were_given() {
    let pods = [view(
        "a",
        0,
        &[
            ("first", Role::Init, &[(C, 2)]),
            ("main", Role::App, &[(C, 2), (M, 3)]),
        ],
    )];
    let listed = [shown("a", &[("main", &[(M, device_names("m", 3))])])];
    let found = find(C, 2, Some(&listed), &pods, &Own::default());
    assert_eq!(found, is("a", "main"));
}

#[test]
fn a_pod_that_started_without_devices_does_not_hide_the_one_in_admission() {
    let both: &[Spec<'_>] = &[("main", Role::App, &[(C, 2), (M, 3)])];
    let mut blank = view("blank", 0, both);
    blank.started = true;
    let mut half = view("half", 1, both);
    half.started = true;
    let new = view("new", 2, both);
    let listed = [
        shown("blank", &[("main", &[])]),
        shown("half", &[("main", &[(C, device_names("c", 2))])]),
        shown("new", &[("main", &[])]),
    ];
    let pods = [blank, half, new];
    let own = Own::default();
    assert_eq!(find(M, 3, Some(&listed), &pods, &own), is("new", "main"));
    assert_eq!(find(C, 2, Some(&listed), &pods, &own), is("new", "main"));
}

#[test]
fn a_pod_that_the_list_of_pods_lacks_is_named_and_worth_another_look() {
    let listed = [shown("late", &[("main", &[])])];
    let error = find(C, 2, Some(&listed), &[], &Own::default()).unwrap_err();
    assert_eq!(error, Unknown::NotInPods(pod_ref("late")));
    assert!(error.may_pass());
}

#[test]
fn another_amount_is_an_error_that_says_who_lacks_what() {
    let pods = [view("a", 0, &[("main", Role::App, &[(C, 2), (M, 3)])])];
    let listed = [shown("a", &[("main", &[])])];
    let error = find(C, 7, Some(&listed), &pods, &Own::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no pod here lacks 7 of example.com/c next; seen: default/a container main lacks 2 of \
         example.com/c and 3 of example.com/m"
    );
}

#[test]
fn a_request_without_meaning_is_named() {
    let mut bad = view("bad", 0, &[]);
    bad.request = PodRequest::read(
        [model::request::ContainerSpec {
            name: "main",
            role: Role::App,
            limits: vec![(C, "150")],
        }],
        &settings(),
    );
    assert!(bad.request.is_err());
    let listed = [shown("bad", &[("main", &[])])];
    let error = find(C, 150, Some(&listed), &[bad.clone()], &Own::default()).unwrap_err();
    assert!(matches!(&error, Unknown::BadRequest { pod, .. } if *pod == pod_ref("bad")));
    assert!(error.to_string().contains("150"), "{error}");
    // It does not stand in the way of others.
    let good = view("good", 1, &[("main", Role::App, &[(C, 2)])]);
    let listed = [listed[0].clone(), shown("good", &[("main", &[])])];
    let found = find(C, 2, Some(&listed), &[bad, good], &Own::default());
    assert_eq!(found, is("good", "main"));
}

#[test]
fn without_pod_resources_two_that_differ_are_an_error_and_two_alike_go_by_age() {
    let own = Own::default();
    let one = view("one", 2, &[("main", Role::App, &[(C, 2), (M, 3)])]);
    let alike = view("alike", 1, &[("main", Role::App, &[(C, 2), (M, 3)])]);
    let other = view("other", 3, &[("main", Role::App, &[(C, 2), (M, 4)])]);
    assert_eq!(
        find(C, 2, None, &[one.clone(), alike.clone()], &own),
        is("alike", "main")
    );
    let error = find(
        C,
        2,
        None,
        &[one.clone(), alike.clone(), other.clone()],
        &own,
    );
    assert!(matches!(error, Err(Unknown::Ambiguous { .. })));
    // The amount of another resource tells them apart.
    assert_eq!(
        find(M, 4, None, &[one.clone(), alike.clone(), other], &own),
        is("other", "main")
    );
    // Another plan is a difference too.
    let planned = PodView {
        assigned: Some("{}".to_owned()),
        ..one
    };
    let error = find(C, 2, None, &[planned, alike], &own);
    assert!(matches!(error, Err(Unknown::Ambiguous { .. })));
}

#[test]
fn ended_and_terminating_pods_are_not_in_admission() {
    let own = Own::default();
    let mut ended = view("a", 0, &[("main", Role::App, &[(C, 2)])]);
    ended.life = Life::Ended;
    let mut terminating = view("b", 0, &[("main", Role::App, &[(C, 2)])]);
    terminating.life = Life::Terminating;
    let new = view("c", 9, &[("main", Role::App, &[(C, 2)])]);
    let found = find(C, 2, None, &[ended, terminating, new], &own);
    assert_eq!(found, is("c", "main"));
}

#[test]
fn a_successor_of_the_same_name_is_told_from_the_pod_being_deleted() {
    let mut old = view("web-0", 1, &[("main", Role::App, &[(C, 2)])]);
    old.life = Life::Terminating;
    let mut new = view("web-0", 2, &[("main", Role::App, &[(C, 2)])]);
    new.uid = uid("second");
    let mut own = Own::default();
    own.answered
        .insert((old.uid.clone(), container("main"), resource(C)));
    let listed = [
        shown("web-0", &[("main", &[(C, device_names("c", 2))])]),
        shown("web-0", &[("main", &[])]),
    ];
    let name = resource(C);
    let call = Call {
        resource: &name,
        count: 2,
    };
    let found = consumer(&call, Some(&listed), &[old, new], &own).unwrap();
    assert_eq!(found.uid, uid("second"));
}

/// A pod of the batch: containers with init first, and what each asks.
fn batch() -> impl Strategy<Value = Vec<Vec<(Role, u64, u64)>>> {
    let role = prop_oneof![Just(Role::Init), Just(Role::Sidecar), Just(Role::App)];
    let container = (role, 0..4u64, 0..4u64);
    let pod = proptest::collection::vec(container, 1..4).prop_map(|mut containers| {
        containers.sort_by_key(|(role, ..)| *role == Role::App);
        containers
    });
    proptest::collection::vec(pod, 1..7)
}

proptest! {
    /// Kubelet admits a batch; resources of a container in any order, some calls refused, the
    /// plugin restarted between pods. Every call's consumer is the one that kubelet means.
    #[test]
    fn every_call_of_any_batch_has_its_consumer(
        batch in batch(),
        order in proptest::collection::vec(any::<bool>(), 64),
        refusals in proptest::collection::vec(0..20u8, 64),
        restarts in proptest::collection::vec(any::<bool>(), 8),
    ) {
        let mut own = Own::default();
        let mut listed: Vec<PodDevices> = Vec::new();
        let mut pods: Vec<PodView> = Vec::new();
        let mut order = order.into_iter().cycle();
        let mut refusals = refusals.into_iter().cycle();
        for (number, containers) in batch.iter().enumerate() {
            if restarts[number % restarts.len()] {
                own = Own::default();
            }
            let name = format!("pod-{number}");
            let names: Vec<String> = (0..containers.len()).map(|i| format!("c{i}")).collect();
            let amounts: Vec<Vec<(&str, u64)>> = containers
                .iter()
                .map(|(_, c, m)| {
                    [(C, *c), (M, *m)].into_iter().filter(|(_, n)| *n > 0).collect()
                })
                .collect();
            let specs: Vec<Spec<'_>> = containers
                .iter()
                .zip(&names)
                .zip(&amounts)
                .map(|(((role, ..), name), amounts)| (name.as_str(), *role, amounts.as_slice()))
                .collect();
            for earlier in &mut pods {
                earlier.started = true;
            }
            pods.push(view(&name, 0, &specs));
            listed.push(shown(&name, &[]));
            'pod: for (index, (role, ..)) in containers.iter().enumerate() {
                let mut calls = amounts[index].clone();
                if order.next() == Some(true) {
                    calls.reverse();
                }
                for (asked, count) in calls {
                    let name_of = resource(asked);
                    let call = Call { resource: &name_of, count };
                    let found = consumer(&call, Some(&listed), &pods, &own);
                    let found = found.map_err(|e| TestCaseError::fail(e.to_string()))?;
                    prop_assert_eq!(&found.pod, &pod_ref(&name));
                    prop_assert_eq!(found.container.as_str(), &names[index]);
                    if refusals.next() == Some(0) {
                        listed.pop();
                        own.refused.insert(uid(&name));
                        break 'pod;
                    }
                    own.answer(&found, &name_of);
                    if *role != Role::Init {
                        let shown = listed.last_mut().unwrap();
                        if !shown.containers.iter().any(|c| c.name == names[index]) {
                            shown.containers.push(kubernetes::convert::ContainerDevices {
                                name: names[index].clone(),
                                devices: std::collections::BTreeMap::new(),
                            });
                        }
                        let there = shown.containers.iter_mut().find(|c| c.name == names[index]);
                        there.unwrap().devices.insert(asked.to_owned(), device_names("d", count));
                    }
                }
            }
        }
    }
}
