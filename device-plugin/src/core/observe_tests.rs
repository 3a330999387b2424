use model::annotation::write_plan;
use runtime_proto::client::Allocation;

use crate::{
    core::Core,
    fixture::{CORE, core, ids, look, shown, simple, uid},
    fixture_kubelet::Kubelet,
    view::PodView,
};

/// A pod that runs and says what it was given; the plugin has it in its book.
fn running(plugin: &mut Core) -> (PodView, Vec<Allocation>) {
    let mut kubelet = Kubelet::default();
    let view = simple("a", 0, &[(CORE, 30)]);
    kubelet.admit(plugin, view, || false).unwrap();
    let mut view = kubelet.pods.pop().unwrap();
    view.allocated = Some(write_plan(&plugin.book()[&view.uid].truth()));
    (view, kubelet.runtime.into_values().collect())
}

#[test]
fn what_is_written_on_a_pod_that_has_ended_does_not_bring_it_back() {
    let mut plugin = core(1, 16);
    let (view, _) = running(&mut plugin);
    // Its containers are gone, and kubelet has not said so yet.
    for _ in 0..2 {
        let now = look(plugin.ticket(), Some(Vec::new()), vec![view.clone()]);
        plugin.observe(&now, None);
    }
    assert!(plugin.book().is_empty());
    // PodResources has had too many calls.
    let now = look(plugin.ticket(), None, vec![view.clone()]);
    plugin.observe(&now, None);
    assert!(plugin.book().is_empty());
    // Devices that kubelet shows do: both looks were wrong.
    let listed = shown("a", &[("main", &[(CORE, ids("ppu-0", "core", 0..30))])]);
    let now = look(plugin.ticket(), Some(vec![listed]), vec![view]);
    plugin.observe(&now, None);
    assert!(plugin.book().contains_key(&uid("a")));
}

#[test]
fn what_was_read_before_a_pod_ended_does_not_bring_it_back() {
    let mut plugin = core(1, 16);
    let (view, granted) = running(&mut plugin);
    let listed = shown("a", &[("main", &[(CORE, ids("ppu-0", "core", 0..30))])]);
    let before = look(plugin.ticket(), Some(vec![listed]), vec![view.clone()]);
    let read = plugin.ticket();
    plugin.end(&view.uid);
    let ended: Vec<String> = plugin.releases().into_iter().map(|(id, _)| id).collect();
    plugin.released(&ended);
    plugin.observe(&before, None);
    assert!(plugin.book().is_empty());
    plugin.compare(&granted, read);
    assert!(plugin.book().is_empty());
}
