use super::*;
use crate::decide::Last;

const GRACE: Duration = KUBELET_GRACE;

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn name() -> NodeName {
    NodeName::new("n1").unwrap()
}

fn shown(name: &str, capacity: &str, allocatable: &str) -> Shown {
    let quantity = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Shown {
        name: ResourceName::new(name).unwrap(),
        capacity: quantity(capacity),
        allocatable: quantity(allocatable),
    }
}

fn node(inventory: bool, owned: Owned) -> NodeState {
    NodeState {
        name: name(),
        uid: "u1".into(),
        labelled: false,
        deleting: false,
        last: Last::Nothing,
        left: Left { inventory, owned },
    }
}

fn with(names: &[Shown]) -> NodeState {
    node(false, Owned::Names(names.to_vec()))
}

fn labelled() -> NodeState {
    NodeState {
        labelled: true,
        left: Left::default(),
        ..with(&[])
    }
}

/// Looks at the one node, and writes what it is told to.
struct Scene(Leftovers);

impl Scene {
    fn new() -> Self {
        Self(Leftovers::new(GRACE))
    }

    fn look(&mut self, node: &NodeState, second: u64) -> Step {
        let step = self.0.look(&name(), Some(node), false, at(second));
        self.0.wrote(&name(), &step, at(second), 0);
        step
    }
}

#[test]
fn names_go_while_nothing_of_them_is_allocatable() {
    let mut scene = Scene::new();
    let (idle, served) = (shown("x.y/a", "8", "0"), shown("x.y/b", "8", "8"));
    assert_eq!(
        scene.look(&with(&[idle.clone(), served.clone()]), 0),
        Step::Names(vec![idle.clone()])
    );
    assert_eq!(scene.look(&with(&[served]), 100), Step::Rest);
    assert_eq!(scene.0.next_wake(), None, "it waits for a change");
    // As kubelet leaves it at last, and as a half-done removal would.
    for name in [
        shown("x.y/a", "0", "0"),
        shown("x.y/a", "8", ""),
        shown("x.y/a", "", "0"),
    ] {
        assert_eq!(
            Scene::new().look(&with(std::slice::from_ref(&name)), 0),
            Step::Names(vec![name])
        );
    }
}

#[test]
fn a_kubelet_that_writes_back_is_answered_less_and_less_often() {
    let mut scene = Scene::new();
    let back = with(&[shown("x.y/a", "8", "0")]);
    let mut writes = Vec::new();
    for second in 0..300 {
        match scene.look(&back, second) {
            Step::Names(_) => writes.push(second),
            step => assert_eq!(step, Step::Rest),
        }
        scene.look(&with(&[]), second);
    }
    assert_eq!(writes, [0, 5, 15, 35, 75, 135, 195, 255]);
    assert_eq!(scene.look(&back, 300), Step::Rest);
    assert_eq!(scene.0.next_wake(), Some(at(315)));
}

#[test]
fn the_list_goes_once_no_name_has_shown_for_longer_than_kubelet_s_grace() {
    let mut scene = Scene::new();
    let clean = with(&[]);
    assert_eq!(scene.look(&clean, 10), Step::Rest);
    assert_eq!(scene.0.next_wake(), Some(at(10) + GRACE));
    // One that is served counts as much: its plugin may leave later.
    assert_eq!(
        scene.look(&with(&[shown("x.y/a", "8", "8")]), 20),
        Step::Rest
    );
    assert_eq!(scene.look(&clean, 30), Step::Rest);
    assert!(scene.0.take_due(at(10) + GRACE).is_empty());
    assert_eq!(scene.0.take_due(at(30) + GRACE), [name()]);
    assert_eq!(scene.look(&clean, 30 + GRACE.as_secs() - 1), Step::Rest);
    assert_eq!(scene.look(&clean, 30 + GRACE.as_secs()), Step::Owned);
    assert_eq!(scene.look(&node(false, Owned::Nothing), 500), Step::Rest);
    assert_eq!(scene.0.next_wake(), None);
}

#[test]
fn the_inventory_goes_at_once_but_not_while_a_job_is_at_work() {
    let mut all = Leftovers::new(GRACE);
    let there = node(true, Owned::Names(vec![shown("x.y/a", "8", "0")]));
    let names = all.look(&name(), Some(&there), true, at(0));
    assert!(matches!(names, Step::Names(_)), "they wait for nobody");
    all.wrote(&name(), &names, at(0), 0);
    assert_eq!(
        all.look(&name(), Some(&there), false, at(1)),
        Step::Inventory
    );
    let without_list = node(true, Owned::Unreadable("?".into()));
    assert_eq!(
        all.look(&name(), Some(&without_list), false, at(2)),
        Step::Inventory
    );
}

#[test]
fn a_plugin_that_runs_without_the_label_is_not_fought_for_ever() {
    let mut scene = Scene::new();
    let there = node(true, Owned::Nothing);
    let mut writes = 0;
    for second in (0..7200).step_by(30) {
        writes += usize::from(scene.look(&there, second) == Step::Inventory);
        scene.look(&node(false, Owned::Nothing), second + 1);
    }
    assert!((13..=20).contains(&writes), "{writes}");
}

#[test]
fn with_the_label_nothing_is_removed_and_without_it_again_the_clock_is_new() {
    let mut scene = Scene::new();
    scene.look(&with(&[]), 0);
    assert_eq!(scene.look(&labelled(), 100), Step::Rest);
    assert_eq!(scene.0.next_wake(), None);
    assert_eq!(scene.look(&with(&[]), GRACE.as_secs()), Step::Rest);
    assert_eq!(scene.0.next_wake(), Some(GRACE + GRACE));
}

#[test]
fn a_node_made_anew_starts_the_clock_anew_and_one_that_is_gone_is_forgotten() {
    let mut scene = Scene::new();
    scene.look(&with(&[]), 0);
    let other = NodeState {
        uid: "u2".into(),
        ..with(&[])
    };
    assert_eq!(scene.look(&other, GRACE.as_secs()), Step::Rest);
    assert_eq!(scene.0.next_wake(), Some(GRACE + GRACE));
    scene.0.look(&name(), None, false, at(0));
    assert_eq!(scene.0.next_wake(), None);
    let deleting = NodeState {
        deleting: true,
        ..node(true, Owned::Nothing)
    };
    assert_eq!(scene.look(&deleting, 0), Step::Rest);
}

#[test]
fn a_node_that_was_never_ours_is_not_kept() {
    let mut scene = Scene::new();
    assert_eq!(scene.look(&node(false, Owned::Nothing), 0), Step::Rest);
    assert!(scene.0.nodes.is_empty());
    let broken = node(false, Owned::Unreadable("no list".into()));
    assert_eq!(scene.look(&broken, GRACE.as_secs()), Step::Rest);
    assert_eq!(scene.0.next_wake(), None, "it is left to people");
}

#[test]
fn the_patch_tests_what_it_removes() {
    let names = [shown("x.y/a", "8", "0"), shown("x.y/b", "0", "")];
    assert_eq!(
        patch("u1", &names),
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "u1"},
            {"op": "test", "path": "/status/capacity/x.y~1a", "value": "8"},
            {"op": "remove", "path": "/status/capacity/x.y~1a"},
            {"op": "test", "path": "/status/allocatable/x.y~1a", "value": "0"},
            {"op": "remove", "path": "/status/allocatable/x.y~1a"},
            {"op": "test", "path": "/status/capacity/x.y~1b", "value": "0"},
            {"op": "remove", "path": "/status/capacity/x.y~1b"},
        ])
    );
}
