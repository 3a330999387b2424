use super::*;
use crate::{
    fixture::{GPU, cards, settings, simple},
    fixture_kubelet::Kubelet,
};

#[test]
fn what_somebody_changes_on_a_pod_is_written_again() {
    let mut core = Core::new(settings());
    core.set_cards(cards(2, 16));
    let mut kubelet = Kubelet::default();
    kubelet
        .admit(&mut core, simple("a", 0, &[(GPU, 1)]), || false)
        .unwrap();
    let look = kubelet.look(&mut core);
    core.observe(&look, None);
    let truth = core.annotations(&look).remove(0);
    core.annotated(&truth);

    // Shown: then changed, then taken off.
    for value in [
        Some(truth.text.clone()),
        Some(r#"{"v":1,"containers":{}}"#.to_owned()),
        None,
    ] {
        kubelet.pods[0].allocated.clone_from(&value);
        let look = kubelet.look(&mut core);
        let again = core.annotations(&look);
        if value.as_ref() == Some(&truth.text) {
            assert!(again.is_empty());
        } else {
            assert_eq!(
                again.first().map(|a| &a.text),
                Some(&truth.text),
                "{value:?}"
            );
        }
    }
    // Written and not shown by the next looks: kubelet's list may be behind, but not for long.
    core.annotated(&truth);
    for _ in 0..2 {
        let look = kubelet.look(&mut core);
        assert!(core.annotations(&look).is_empty());
    }
    let look = kubelet.look(&mut core);
    assert_eq!(core.annotations(&look).len(), 1);
}
