//! Whose devices kubelet asks for.
//!
//! Kubelet names neither pod nor container, yet it admits pods one at a time, shows the pod in
//! admission in PodResources and in its own pod list, and none behind it. Within a pod it
//! finishes one container before the next, init containers first. So the consumer is the pod
//! whose devices are not complete, and its first container with a resource still missing.
//!
//! PodResources does not list plain init containers, so the plugin's own answers count as given
//! too; and once anything of a container is given, all containers before it are complete.

use std::fmt::Write as _;

use kubernetes::convert::{Life, PodDevices};
use model::{
    name::{ContainerName, PodRef, PodUid, ResourceName},
    request::{Amount, PodRequest},
};

use crate::view::PodView;

/// What kubelet asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call<'a> {
    /// Of which resource.
    pub resource: &'a ResourceName,
    /// How many devices.
    pub count: u64,
}

/// The plugin's own answers so far.
pub trait Answered {
    /// Whether that container has been given that resource.
    fn answered(&self, uid: &PodUid, container: &ContainerName, resource: &ResourceName) -> bool;
    /// Whether the pod was refused something, so that kubelet has rejected it.
    fn refused(&self, uid: &PodUid) -> bool;
}

/// Who the devices are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumer {
    /// The pod's unique id.
    pub uid: PodUid,
    /// The pod.
    pub pod: PodRef,
    /// Which of its containers.
    pub container: ContainerName,
    /// What all of the pod asks.
    pub request: PodRequest,
    /// The scheduler's plan, as written on the pod.
    pub assigned: Option<String>,
}

/// Why the consumer is not known. The text says what was seen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// Every pod has all that it asks.
    #[error("no pod here lacks {count} of {resource}: every pod seen has its devices")]
    NobodyLacks {
        /// What kubelet asked for.
        resource: ResourceName,
        /// How many.
        count: u64,
    },
    /// Pods lack devices, but none lacks these next.
    #[error("no pod here lacks {count} of {resource} next; seen: {seen}")]
    Differs {
        /// What kubelet asked for.
        resource: ResourceName,
        /// How many.
        count: u64,
        /// Who lacks what.
        seen: String,
    },
    /// Two or more pods may be meant, and it matters which.
    #[error("{count} of {resource} may be for any of several pods: {seen}")]
    Ambiguous {
        /// What kubelet asked for.
        resource: ResourceName,
        /// How many.
        count: u64,
        /// Who lacks what.
        seen: String,
    },
    /// Kubelet lists a pod that the list of pods does not have yet.
    #[error("kubelet lists {0}, which the node's pods do not show yet")]
    NotInPods(PodRef),
    /// The pod that may be meant asks for something without meaning.
    #[error("pod {pod}: {why}")]
    BadRequest {
        /// Which pod.
        pod: PodRef,
        /// What is wrong with its request.
        why: model::request::RequestError,
    },
}

impl Unknown {
    /// Whether another look may tell more: the lists were out of step.
    pub const fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::NobodyLacks { .. } | Self::NotInPods(_) | Self::Differs { .. }
        )
    }

    /// Short, for a metric's label.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NobodyLacks { .. } => "nobody_lacks",
            Self::Differs { .. } => "differs",
            Self::Ambiguous { .. } => "ambiguous",
            Self::NotInPods(_) => "not_in_pods",
            Self::BadRequest { .. } => "bad_request",
        }
    }
}

/// A pod that lacks something, and what it lacks next.
#[derive(Clone)]
struct Lacking<'a> {
    view: &'a PodView,
    request: &'a PodRequest,
    container: &'a ContainerName,
    missing: Vec<&'a Amount>,
    partly: bool,
}

impl Lacking<'_> {
    fn lacks(&self, call: &Call<'_>) -> bool {
        self.missing
            .iter()
            .any(|a| a.resource == *call.resource && a.count == call.count)
    }

    /// A pod in admission has no status of its containers yet; one with a part of its devices
    /// is further along than one with none. Pods that started without devices (bound before
    /// the resource was registered) come last: kubelet asks for those only after a restart.
    const fn rank(&self) -> u8 {
        match (self.view.started, self.partly) {
            (false, true) => 0,
            (false, false) => 1,
            (true, true) => 2,
            (true, false) => 3,
        }
    }

    /// Whether it makes no difference which of the two pods is meant.
    fn is_like(&self, other: &Self) -> bool {
        self.request == other.request
            && self.missing == other.missing
            && self.view.assigned == other.view.assigned
    }
}

/// Finds the consumer. `listed` is PodResources' answer; without it the oldest pod that lacks
/// exactly this next is meant, where no other that differs may be.
pub fn consumer(
    call: &Call<'_>,
    listed: Option<&[PodDevices]>,
    pods: &[PodView],
    own: &impl Answered,
) -> Result<Consumer, Unknown> {
    let mut lacking = Vec::new();
    let mut senseless = None;
    let mut unseen = None;
    let mut consider = |view: &'_ PodView, devices: Option<&PodDevices>| match &view.request {
        Ok(_) => true,
        Err(why) => {
            let shown = devices.is_some_and(|d| d.containers.iter().any(|c| !c.devices.is_empty()));
            if !view.started && !shown && !own.refused(&view.uid) {
                senseless = Some((view.pod.clone(), why.clone()));
            }
            false
        }
    };
    if let Some(listed) = listed {
        for devices in listed {
            match view_of(devices, pods, own) {
                Some(view) if consider(view, Some(devices)) => {
                    lacking.extend(lack(view, Some(devices), own));
                }
                Some(_) => {}
                None if pods.iter().any(|p| p.pod == devices.pod) => {}
                None => unseen = Some(devices.pod.clone()),
            }
        }
    } else {
        let mut oldest_first: Vec<&PodView> = pods
            .iter()
            .filter(|p| p.life == Life::Holds && !own.refused(&p.uid))
            .collect();
        oldest_first.sort_by(|a, b| (a.created, &a.pod).cmp(&(b.created, &b.pod)));
        for view in oldest_first {
            if consider(view, None) {
                lacking.extend(lack(view, None, own));
            }
        }
    }

    let meant: Vec<&Lacking<'_>> = lacking.iter().filter(|l| l.lacks(call)).collect();
    let Some(best) = meant.iter().map(|l| l.rank()).min() else {
        return Err(nobody(call, &lacking, unseen, senseless));
    };
    let mut first_rank = meant.into_iter().filter(|l| l.rank() == best);
    let Some(first) = first_rank.next() else {
        return Err(nobody(call, &lacking, unseen, senseless));
    };
    let others: Vec<&Lacking<'_>> = first_rank.collect();
    // With PodResources only one pod is in admission: two are a riddle even where they are
    // alike, unless both are waiting and the older one comes first, as kubelet sorts them.
    let clear = others.iter().all(|o| first.is_like(o)) && (listed.is_none() || best <= 1);
    if !others.is_empty() && !clear {
        let mut all = vec![first];
        all.extend(others);
        return Err(Unknown::Ambiguous {
            resource: call.resource.clone(),
            count: call.count,
            seen: describe(all.into_iter()),
        });
    }
    let first = others
        .into_iter()
        .chain([first])
        .min_by(|a, b| (a.view.created, &a.view.pod).cmp(&(b.view.created, &b.view.pod)))
        .unwrap_or(first);
    Ok(Consumer {
        uid: first.view.uid.clone(),
        pod: first.view.pod.clone(),
        container: first.container.clone(),
        request: first.request.clone(),
        assigned: first.view.assigned.clone(),
    })
}

fn nobody(
    call: &Call<'_>,
    lacking: &[Lacking<'_>],
    unseen: Option<PodRef>,
    senseless: Option<(PodRef, model::request::RequestError)>,
) -> Unknown {
    if let Some(pod) = unseen {
        return Unknown::NotInPods(pod);
    }
    if let Some((pod, why)) = senseless {
        return Unknown::BadRequest { pod, why };
    }
    let (resource, count) = (call.resource.clone(), call.count);
    if lacking.is_empty() {
        Unknown::NobodyLacks { resource, count }
    } else {
        Unknown::Differs {
            resource,
            count,
            seen: describe(lacking.iter()),
        }
    }
}

/// The live pod that an entry of PodResources is about. Two of one name (one being deleted, its
/// successor arriving) are told apart by the devices that the plugin gave; else it is the newer.
pub fn view_of<'a>(
    devices: &PodDevices,
    pods: &'a [PodView],
    own: &impl Answered,
) -> Option<&'a PodView> {
    let mut same = pods
        .iter()
        .filter(|p| p.pod == devices.pod && p.is_live())
        .collect::<Vec<_>>();
    if same.len() < 2 {
        return same.pop();
    }
    same.sort_by_key(|p| p.created);
    let answered = |view: &PodView| {
        devices.containers.iter().any(|c| {
            let Ok(container) = ContainerName::new(&c.name) else {
                return false;
            };
            c.devices.keys().any(|r| {
                ResourceName::new(r).is_ok_and(|r| own.answered(&view.uid, &container, &r))
            })
        })
    };
    let known = same.iter().position(|p| answered(p));
    match known {
        Some(index) => same.get(index).copied(),
        None => same.pop(),
    }
}

/// What the pod lacks next; nothing when it has all.
fn lack<'a>(
    view: &'a PodView,
    devices: Option<&PodDevices>,
    own: &impl Answered,
) -> Option<Lacking<'a>> {
    let request = view.request.as_ref().ok()?;
    let given = |container: &ContainerName, amount: &Amount| {
        own.answered(&view.uid, container, &amount.resource)
            || devices.is_some_and(|d| shows(d, container, amount))
    };
    let last_given = request
        .containers
        .iter()
        .rposition(|c| c.amounts.iter().any(|a| given(&c.name, a)));
    let next = request
        .containers
        .iter()
        .skip(last_given.unwrap_or(0))
        .find_map(|c| {
            let missing: Vec<&Amount> = c.amounts.iter().filter(|a| !given(&c.name, a)).collect();
            (!missing.is_empty()).then_some((&c.name, missing))
        });
    next.map(|(container, missing)| Lacking {
        view,
        request,
        container,
        missing,
        partly: last_given.is_some(),
    })
}

/// Whether PodResources shows that container with that many devices of the resource.
pub fn shows(devices: &PodDevices, container: &ContainerName, amount: &Amount) -> bool {
    devices
        .containers
        .iter()
        .filter(|c| c.name == container.as_str())
        .filter_map(|c| c.devices.get(amount.resource.as_str()))
        .any(|ids| u64::try_from(ids.len()).is_ok_and(|n| n >= amount.count))
}

/// At most five pods, so that an error stays one readable line.
fn describe<'a, 'b: 'a>(lacking: impl Iterator<Item = &'a Lacking<'b>>) -> String {
    let mut text = String::new();
    let mut more = 0usize;
    for (index, one) in lacking.enumerate() {
        if index >= 5 {
            more += 1;
            continue;
        }
        if index > 0 {
            text.push_str("; ");
        }
        let missing: Vec<String> = one
            .missing
            .iter()
            .map(|a| format!("{} of {}", a.count, a.resource))
            .collect();
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "{} container {} lacks {}",
            one.view.pod,
            one.container,
            missing.join(" and ")
        );
    }
    if more > 0 {
        let _ = write!(text, "; and {more} more");
    }
    text
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
