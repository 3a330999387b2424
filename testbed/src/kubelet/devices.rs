//! Kubelet's device manager as plain state: which devices there are, who has which, and which
//! ones a container is given next. The same steps as kubelet 1.36 takes
//! (`pkg/kubelet/cm/devicemanager`), without NUMA alignment.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Device ids.
pub(super) type Ids = BTreeSet<String>;

/// What one container was given of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Given {
    /// Which devices.
    pub(super) ids: Ids,
    /// The plugin's answer, as it came over the wire.
    pub(super) answer: Vec<u8>,
}

/// Container to resource to what it was given.
pub(super) type PodGiven = BTreeMap<String, BTreeMap<String, Given>>;

#[derive(Debug, Default)]
struct Resource {
    healthy: Ids,
    unhealthy: Ids,
    /// Second at which its plugin went away; none while it is there.
    gone_since: Option<u64>,
    /// Registered since this kubelet started.
    registered: bool,
}

/// The device manager.
#[derive(Debug, Default)]
pub(super) struct Devices {
    resources: BTreeMap<String, Resource>,
    pods: BTreeMap<String, PodGiven>,
    reusable: BTreeMap<String, BTreeMap<String, Ids>>,
}

/// What a container still has to be given of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing: it has it already, from before a restart.
    HasIt,
    /// Handed on from an init container of its pod: there is no choice.
    Reused(Ids),
    /// These, of which `fixed` are handed on, are to choose from; the plugin may say which.
    Choose {
        /// In any case.
        fixed: Ids,
        /// All that can be given, without `fixed`.
        available: Ids,
        /// How many in all.
        size: usize,
    },
}

impl Devices {
    /// A plugin has registered the resource.
    pub(super) fn register(&mut self, resource: &str) {
        let entry = self.resources.entry(resource.to_owned()).or_default();
        entry.registered = true;
        entry.gone_since = None;
    }

    /// The plugin's full list: id and whether it is healthy.
    pub(super) fn list(
        &mut self,
        resource: &str,
        devices: impl IntoIterator<Item = (String, bool)>,
    ) {
        let entry = self.resources.entry(resource.to_owned()).or_default();
        entry.healthy.clear();
        entry.unhealthy.clear();
        for (id, healthy) in devices {
            if healthy {
                entry.healthy.insert(id)
            } else {
                entry.unhealthy.insert(id)
            };
        }
    }

    /// The plugin's stream has ended: its devices are unhealthy from `second` on.
    pub(super) fn gone(&mut self, resource: &str, second: u64) {
        if let Some(entry) = self.resources.get_mut(resource) {
            let healthy = std::mem::take(&mut entry.healthy);
            entry.unhealthy.extend(healthy);
            entry.gone_since.get_or_insert(second);
        }
    }

    /// Resource to (capacity, allocatable), and the resources that are given up now: kubelet
    /// writes 0 for these once, and never again.
    pub(super) fn capacity(
        &mut self,
        second: u64,
        grace: u64,
    ) -> (BTreeMap<String, (usize, usize)>, Vec<String>) {
        let expired = |r: &Resource| {
            r.gone_since
                .is_some_and(|since| second >= since.saturating_add(grace))
        };
        let given_up: Vec<String> = self
            .resources
            .iter()
            .filter(|(_, r)| expired(r))
            .map(|(name, _)| name.clone())
            .collect();
        self.resources.retain(|_, r| !expired(r));
        let now = self.resources.iter().filter(|(_, r)| r.registered);
        let now = now.map(|(name, r)| {
            (
                name.clone(),
                (r.healthy.len() + r.unhealthy.len(), r.healthy.len()),
            )
        });
        (now.collect(), given_up)
    }

    /// Whether a plugin has ever registered that resource here.
    pub(super) fn knows(&self, resource: &str) -> bool {
        self.resources.contains_key(resource)
    }

    /// What that container has to be given. The error is kubelet's own text.
    pub(super) fn next(
        &self,
        uid: &str,
        container: &str,
        resource: &str,
        size: usize,
    ) -> Result<Next, String> {
        let has = self
            .pods
            .get(uid)
            .and_then(|p| p.get(container))
            .and_then(|c| c.get(resource));
        if let Some(has) = has {
            return if has.ids.len() == size {
                Ok(Next::HasIt)
            } else {
                Err(format!(
                    "pod {uid:?} container {container:?} changed request for resource {resource:?} from {} to {size}",
                    has.ids.len()
                ))
            };
        }
        let Some(entry) = self.resources.get(resource).filter(|r| r.registered) else {
            return Err(format!("cannot allocate unregistered device {resource}"));
        };
        if entry.healthy.is_empty() {
            return Err(format!(
                "no healthy devices present; cannot allocate unhealthy devices {resource}"
            ));
        }
        let reusable = self.reusable.get(uid).and_then(|r| r.get(resource));
        let fixed: Ids = reusable.into_iter().flatten().take(size).cloned().collect();
        if fixed.len() == size {
            return Ok(Next::Reused(fixed));
        }
        let in_use = self.in_use(resource);
        let available: Ids = entry
            .healthy
            .iter()
            .filter(|id| !in_use.contains(*id))
            .cloned()
            .collect();
        let needed = size - fixed.len();
        if available.len() < needed {
            return Err(format!(
                "requested number of devices unavailable for {resource}. Requested: {needed}, Available: {}",
                available.len()
            ));
        }
        Ok(Next::Choose {
            fixed,
            available,
            size,
        })
    }

    /// Completes a choice: what the plugin prefers first, then whatever is there.
    pub(super) fn choose(fixed: &Ids, available: &Ids, size: usize, preferred: &[String]) -> Ids {
        let mut chosen = fixed.clone();
        let wanted = preferred.iter().filter(|id| available.contains(*id));
        for id in wanted.chain(available.iter()) {
            if chosen.len() >= size {
                break;
            }
            chosen.insert(id.clone());
        }
        chosen
    }

    /// The plugin has answered: the container has these devices.
    pub(super) fn give(&mut self, uid: &str, container: &str, resource: &str, given: Given) {
        let pod = self.pods.entry(uid.to_owned()).or_default();
        pod.entry(container.to_owned())
            .or_default()
            .insert(resource.to_owned(), given);
    }

    /// All resources of a container have been given. The devices of an init container are handed
    /// on to later containers; a sidecar or app container keeps its own.
    pub(super) fn container_done(&mut self, uid: &str, container: &str, hands_on: bool) {
        let Some(given) = self.pods.get(uid).and_then(|p| p.get(container)) else {
            return;
        };
        let reusable = self.reusable.entry(uid.to_owned()).or_default();
        for (resource, given) in given {
            let pool = reusable.entry(resource.clone()).or_default();
            if hands_on {
                pool.extend(given.ids.iter().cloned());
            } else {
                pool.retain(|id| !given.ids.contains(id));
            }
        }
    }

    /// What all other pods had is free.
    pub(super) fn keep_only(&mut self, live: impl Fn(&str) -> bool) {
        self.pods.retain(|uid, _| live(uid));
        self.reusable.retain(|uid, _| live(uid));
    }

    /// What that pod has.
    pub(super) fn of(&self, uid: &str) -> Option<&PodGiven> {
        self.pods.get(uid)
    }

    /// Everything given, for the checkpoint.
    pub(super) fn all(&self) -> &BTreeMap<String, PodGiven> {
        &self.pods
    }

    /// What the checkpoint said.
    pub(super) fn restore(&mut self, pods: BTreeMap<String, PodGiven>) {
        self.pods = pods;
    }

    fn in_use(&self, resource: &str) -> Ids {
        let given = self
            .pods
            .values()
            .flat_map(BTreeMap::values)
            .filter_map(|c| c.get(resource));
        given.flat_map(|g| g.ids.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const R: &str = "example.com/m";

    fn ids(n: std::ops::Range<usize>) -> Vec<(String, bool)> {
        n.map(|i| (format!("d{i}"), true)).collect()
    }

    fn with(devices: usize) -> Devices {
        let mut all = Devices::default();
        all.register(R);
        all.list(R, ids(0..devices));
        all
    }

    fn take(devices: &mut Devices, container: &str, size: usize, hands_on: bool) -> Ids {
        let got = match devices.next("u", container, R, size).unwrap() {
            Next::Reused(ids) => ids,
            Next::Choose {
                fixed,
                available,
                size,
            } => Devices::choose(&fixed, &available, size, &[]),
            Next::HasIt => panic!("it has it"),
        };
        devices.give(
            "u",
            container,
            R,
            Given {
                ids: got.clone(),
                answer: Vec::new(),
            },
        );
        devices.container_done("u", container, hands_on);
        got
    }

    fn held(devices: &Devices) -> usize {
        devices.in_use(R).len()
    }

    #[test]
    fn case_8_devices_of_an_init_container_are_handed_on() {
        let mut sidecar_first = with(10);
        take(&mut sidecar_first, "sidecar", 2, false);
        let init = take(&mut sidecar_first, "init", 4, true);
        let app = take(&mut sidecar_first, "app", 2, false);
        assert!(app.is_subset(&init));
        assert_eq!(held(&sidecar_first), 6);

        let mut init_first = with(10);
        take(&mut init_first, "init", 4, true);
        take(&mut init_first, "sidecar", 2, false);
        take(&mut init_first, "app", 2, false);
        assert_eq!(held(&init_first), 4);
    }

    #[test]
    fn the_plugin_s_preference_comes_first_and_is_completed() {
        let all: Ids = ids(0..6).into_iter().map(|d| d.0).collect();
        let got = Devices::choose(&Ids::new(), &all, 3, &["d5".into(), "nonsense".into()]);
        assert_eq!(got.len(), 3);
        assert!(got.contains("d5"));
    }

    #[test]
    fn a_plugin_that_goes_leaves_its_capacity_for_the_grace_then_zero_once() {
        let mut devices = with(4);
        devices.gone(R, 100);
        let (now, given_up) = devices.capacity(101, 300);
        assert_eq!((now[R], given_up.len()), ((4, 0), 0));
        let (now, given_up) = devices.capacity(400, 300);
        assert_eq!((now.len(), given_up), (0, vec![R.to_owned()]));
        assert_eq!(devices.capacity(401, 300), (BTreeMap::new(), Vec::new()));
    }

    #[test]
    fn what_is_not_there_is_refused_in_kubelet_s_words() {
        let mut devices = with(2);
        assert!(
            devices
                .next("u", "c", "example.com/other", 1)
                .unwrap_err()
                .contains("unregistered")
        );
        assert_eq!(
            devices.next("u", "c", R, 3).unwrap_err(),
            "requested number of devices unavailable for example.com/m. Requested: 3, Available: 2"
        );
        devices.gone(R, 0);
        assert!(
            devices
                .next("u", "c", R, 1)
                .unwrap_err()
                .contains("no healthy devices")
        );
    }

    #[test]
    fn a_pod_from_the_checkpoint_needs_no_call() {
        let mut devices = with(4);
        take(&mut devices, "c", 2, false);
        let saved = devices.all().clone();
        let mut after = with(4);
        after.restore(saved);
        assert_eq!(after.next("u", "c", R, 2), Ok(Next::HasIt));
        after.keep_only(|uid| uid != "u");
        assert_eq!(held(&after), 0);
    }
}
