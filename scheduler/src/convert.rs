//! Between Kubernetes objects or the extender's JSON and the index's types.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use kubernetes::{
    convert::{BadPod, Life},
    object,
};
use model::{
    annotation,
    name::{NameError, NodeName, PodRef, PodUid},
    phase,
    plan::Plan,
    request::{ContainerSpec, PodRequest, Role},
    settings::Settings,
};

use crate::{
    inventories::Inventories,
    node::{NodeCards, NodeSeen},
    pod::{NotKnown, PodSeen, Refusal, Stand, Wanted},
    wire,
};

/// Reads a node.
pub fn node(
    object: &object::Node,
    settings: &Settings,
    inventories: &mut Inventories,
) -> Result<NodeSeen, NameError> {
    let meta = &object.metadata;
    let name = NodeName::new(meta.name.as_deref().unwrap_or_default())?;
    let written = annotation_of(meta.annotations.as_ref(), &settings.annotations.inventory);
    let cards = match written.map(|text| inventories.read(text)) {
        None => NodeCards::NotPublished,
        Some(Ok(published)) => NodeCards::Known(published),
        Some(Err(error)) => NodeCards::Unreadable(error),
    };
    Ok(NodeSeen { name, cards })
}

/// Reads a pod.
pub fn pod(object: &object::Pod, settings: &Settings) -> Result<PodSeen, BadPod> {
    let info = kubernetes::convert::pod(object, settings)?;
    let annotations = object.metadata.annotations.as_ref();
    let keys = &settings.annotations;
    let allocated = annotation_of(annotations, &keys.allocated);
    let stand = match (info.node, info.request) {
        (_, Ok(request)) if request.is_empty() => Stand::Nothing,
        _ if info.life == Life::Ended => Stand::Nothing,
        (None, request) => Stand::Pending(wanted(
            request.map_err(|error| error.to_string()),
            allocated.is_some(),
            annotation_of(annotations, &keys.placement),
            settings,
        )),
        (Some(node), Err(error)) => Stand::NotKnown {
            node,
            why: NotKnown::Unreadable(error.to_string()),
        },
        (Some(node), Ok(request)) => {
            let assigned = annotation_of(annotations, &keys.assigned);
            let given = read(allocated, &keys.allocated)
                .and_then(|real| Ok((real, read(assigned, &keys.assigned)?)))
                .and_then(|(real, planned)| plan(&request, &real, &planned));
            match given {
                Ok(plan) => Stand::Holds {
                    node,
                    hold: phase::peak(&request, &plan),
                    plan,
                },
                Err(why) => Stand::NotKnown { node, why },
            }
        }
    };
    Ok(PodSeen {
        pod: info.pod,
        uid: info.uid,
        stand,
    })
}

fn annotation_of<'a>(
    annotations: Option<&'a BTreeMap<String, String>>,
    key: &str,
) -> Option<&'a str> {
    annotations?.get(key).map(String::as_str)
}

fn read(written: Option<&str>, key: &str) -> Result<Plan, NotKnown> {
    written.map_or_else(
        || Ok(Plan::default()),
        |text| {
            annotation::read_plan(text)
                .map_err(|error| NotKnown::Unreadable(format!("annotation {key}: {error}")))
        },
    )
}

/// What was really given goes before what was planned, container by container.
fn plan(request: &PodRequest, real: &Plan, planned: &Plan) -> Result<Plan, NotKnown> {
    let asking = request.containers.iter().filter(|c| !c.amounts.is_empty());
    let containers = asking.map(|container| {
        let of = |plan: &Plan| {
            let grants = plan.containers.iter();
            let mut grants = grants.filter(|g| g.container == container.name);
            grants.next().filter(|g| !g.grants.is_empty()).cloned()
        };
        of(real).or_else(|| of(planned)).ok_or(NotKnown::NotWritten)
    });
    Ok(Plan {
        containers: containers.collect::<Result<_, _>>()?,
    })
}

/// `allocated` is kubelet's truth, which a pod that is not bound can't have: left in, it would
/// be believed once the pod is bound.
fn wanted(
    request: Result<PodRequest, String>,
    allocated: bool,
    placement: Option<&str>,
    settings: &Settings,
) -> Wanted {
    let mut request = request.map_err(Refusal)?;
    let keys = &settings.annotations;
    if allocated {
        let key = &keys.allocated;
        return Err(Refusal(format!(
            "annotation {key} is set before the pod is bound: remove it"
        )));
    }
    if let Some(wish) = placement {
        let placement = settings.placement.with(wish);
        request.placement = placement
            .map_err(|error| Refusal(format!("annotation {}: {error}", keys.placement)))?;
    }
    Ok(Arc::new(request))
}

/// The nodes of a request, as they came.
#[derive(Debug)]
pub enum Candidates<'a> {
    /// By name.
    Names(Vec<wire::Text<'a>>),
    /// In full: name, and the node's JSON.
    Full(Vec<(Cow<'a, str>, &'a str)>),
}

impl Candidates<'_> {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::Names(names) => names.len(),
            Self::Full(nodes) => nodes.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The body of filter and prioritize, read.
#[derive(Debug)]
pub struct Question<'a> {
    /// The pod's unique id.
    pub uid: Cow<'a, str>,
    /// What it wants.
    pub wanted: Wanted,
    /// Where it could go.
    pub candidates: Candidates<'a>,
}

/// Why a body can't be read.
#[derive(Debug, thiserror::Error)]
pub enum BadBody {
    /// Not the JSON that it should be.
    #[error("the request body can't be read: {0}")]
    Json(#[from] serde_json::Error),
    /// A part is missing.
    #[error("the request body has no {0}")]
    Missing(&'static str),
    /// A name is not one.
    #[error(transparent)]
    Name(#[from] NameError),
}

/// Reads the body of filter or prioritize.
pub fn question<'a>(body: &'a [u8], settings: &Settings) -> Result<Question<'a>, BadBody> {
    let args: wire::ExtenderArgs<'a> = serde_json::from_slice(body)?;
    let pod = args.pod.ok_or(BadBody::Missing("Pod"))?;
    let candidates = match (args.node_names, args.nodes) {
        (Some(names), _) => Candidates::Names(names),
        (None, Some(list)) => {
            let named = |raw: &'a serde_json::value::RawValue| {
                let node: wire::NamedOnly<'a> = serde_json::from_str(raw.get())?;
                Ok((node.metadata.name.0, raw.get()))
            };
            let items = list.items.unwrap_or_default().into_iter();
            Candidates::Full(items.map(named).collect::<Result<_, BadBody>>()?)
        }
        (None, None) => Candidates::Names(Vec::new()),
    };
    Ok(Question {
        wanted: wire_pod(&pod, settings),
        uid: pod.metadata.uid.0,
        candidates,
    })
}

fn wire_pod(pod: &wire::Pod<'_>, settings: &Settings) -> Wanted {
    let init = pod.spec.init_containers.iter().flatten().map(|container| {
        let always = |policy: &wire::Text<'_>| policy.0 == "Always";
        let sidecar = container.restart_policy.as_ref().is_some_and(always);
        spec(container, if sidecar { Role::Sidecar } else { Role::Init })
    });
    let app = pod.spec.containers.iter().flatten();
    let containers = init.chain(app.map(|container| spec(container, Role::App)));
    let keys = &settings.annotations;
    let annotation = |key: &str| {
        let mut all = pod.metadata.annotations.0.iter();
        all.find_map(|(name, text)| (name.0 == key).then_some(&*text.0))
    };
    wanted(
        PodRequest::read(containers, settings).map_err(|error| error.to_string()),
        annotation(&keys.allocated).is_some(),
        annotation(&keys.placement),
        settings,
    )
}

/// Requests stand in for limits that are not given, as in [`kubernetes::convert`].
fn spec<'a>(container: &'a wire::Container<'_>, role: Role) -> ContainerSpec<'a> {
    let wire::Resources { limits, requests } = &container.resources;
    let limited = |name: &wire::Text<'_>| limits.0.iter().any(|(limit, _)| limit == name);
    let only_requested = requests.0.iter().filter(|(name, _)| !limited(name));
    ContainerSpec {
        name: &container.name.0,
        role,
        limits: limits
            .0
            .iter()
            .chain(only_requested)
            .map(|(name, quantity)| (&*name.0, &*quantity.0))
            .collect(),
    }
}

/// Which pod to bind, and where to.
#[derive(Debug, Clone)]
pub struct BindCall {
    /// The pod's namespace and name.
    pub pod: PodRef,
    /// Its unique id.
    pub uid: PodUid,
    /// Where to.
    pub node: NodeName,
}

/// Reads the body of bind.
pub fn bind_call(body: &[u8]) -> Result<BindCall, BadBody> {
    let args: wire::ExtenderBindingArgs<'_> = serde_json::from_slice(body)?;
    Ok(BindCall {
        pod: PodRef {
            namespace: args.pod_namespace.0.parse()?,
            name: args.pod_name.0.parse()?,
        },
        uid: args.pod_uid.0.parse()?,
        node: args.node.0.parse()?,
    })
}

/// The body that binds a pod, with its plan where it has one.
pub fn binding(call: &BindCall, plan: Option<&Plan>, settings: &Settings) -> Vec<u8> {
    let assigned = plan.map(|plan| {
        (
            settings.annotations.assigned.as_str(),
            annotation::write_plan(plan),
        )
    });
    let binding = wire::Binding {
        api_version: "v1",
        kind: "Binding",
        metadata: wire::BindingMeta {
            name: call.pod.name.as_str(),
            namespace: call.pod.namespace.as_str(),
            uid: call.uid.as_str(),
            annotations: assigned.into_iter().collect(),
        },
        target: wire::BindingTarget {
            api_version: "v1",
            kind: "Node",
            name: call.node.as_str(),
        },
    };
    // Texts and maps of texts always have a JSON form.
    serde_json::to_vec(&binding).unwrap_or_default()
}

/// Victims of one node, as kube-scheduler chose them.
#[derive(Debug)]
pub struct Proposal<'a> {
    /// Which node.
    pub node: Cow<'a, str>,
    /// Who would have to go.
    pub victims: Vec<Cow<'a, str>>,
    /// How many disruption budgets that breaks.
    pub broken_budgets: i64,
}

/// The body of preempt, read.
#[derive(Debug)]
pub struct PreemptCall<'a> {
    /// What the pod wants.
    pub wanted: Wanted,
    /// Node by node.
    pub proposals: Vec<Proposal<'a>>,
}

/// Reads the body of preempt.
pub fn preempt_call<'a>(body: &'a [u8], settings: &Settings) -> Result<PreemptCall<'a>, BadBody> {
    let args: wire::ExtenderPreemptionArgs<'a> = serde_json::from_slice(body)?;
    let pod = args.pod.ok_or(BadBody::Missing("Pod"))?;
    let proposals = match (args.node_name_to_meta_victims, args.node_name_to_victims) {
        (Some(victims), _) if !victims.is_empty() => {
            proposals(victims, |pod: wire::MetaPod<'a>| pod.uid.0)
        }
        (_, Some(victims)) => proposals(victims, |pod: wire::Pod<'a>| pod.metadata.uid.0),
        (_, None) => Vec::new(),
    };
    Ok(PreemptCall {
        wanted: wire_pod(&pod, settings),
        proposals,
    })
}

fn proposals<'a, P>(
    by_node: BTreeMap<wire::Text<'a>, Option<wire::Victims<P>>>,
    uid: impl Fn(P) -> Cow<'a, str>,
) -> Vec<Proposal<'a>> {
    let one = |(node, victims): (wire::Text<'a>, Option<wire::Victims<P>>)| {
        let (pods, broken_budgets) = victims.map_or((None, 0), |v| (v.pods, v.num_pdb_violations));
        Proposal {
            node: node.0,
            victims: pods.into_iter().flatten().map(&uid).collect(),
            broken_budgets,
        }
    };
    by_node.into_iter().map(one).collect()
}

/// The answer to preempt: these proposals are kept.
pub fn preempt_answer(kept: &[Proposal<'_>]) -> Vec<u8> {
    let one = |proposal: &'_ Proposal<'_>| wire::Victims {
        pods: Some(
            proposal
                .victims
                .iter()
                .map(|uid| wire::MetaPod {
                    uid: wire::Text(Cow::Owned(uid.to_string())),
                })
                .collect(),
        ),
        num_pdb_violations: proposal.broken_budgets,
    };
    let answer = wire::ExtenderPreemptionResult {
        node_name_to_meta_victims: kept.iter().map(|p| (&*p.node, one(p))).collect(),
    };
    // Texts and numbers always have a JSON form.
    serde_json::to_vec(&answer).unwrap_or_default()
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
