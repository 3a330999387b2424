//! What a pod asks of a node in all, as kube-scheduler computes it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    api_server::field,
    quantity::{self, Milli},
};

/// Resource name to amount.
pub(super) type Amounts = BTreeMap<String, Milli>;

/// The larger of what the pod's init containers ever need at once, sidecars that started before
/// them included, and what its containers and sidecars need from then on; plus its overhead.
pub(super) fn of_pod(pod: &Value) -> Amounts {
    let mut steady = Amounts::new();
    let mut peak = Amounts::new();
    let mut sidecars = Amounts::new();
    for container in field::list(pod, "/spec/initContainers") {
        let asked = requests(container);
        if container.get("restartPolicy") == Some(&json!("Always")) {
            add(&mut sidecars, &asked);
            raise(&mut peak, &sidecars);
        } else {
            let mut together = sidecars.clone();
            add(&mut together, &asked);
            raise(&mut peak, &together);
        }
    }
    for container in field::list(pod, "/spec/containers") {
        add(&mut steady, &requests(container));
    }
    add(&mut steady, &sidecars);
    raise(&mut steady, &peak);
    add(&mut steady, &amounts(pod.pointer("/spec/overhead")));
    steady.retain(|_, amount| amount.0 > 0);
    steady
}

/// Whether any container asks for one of these resources; where none are named, any will do.
pub(super) fn names_any(pod: &Value, resources: &[String]) -> bool {
    if resources.is_empty() {
        return true;
    }
    ["/spec/initContainers", "/spec/containers"]
        .iter()
        .flat_map(|kind| field::list(pod, kind))
        .any(|container| {
            ["/resources/requests", "/resources/limits"]
                .iter()
                .any(|which| {
                    let asked = container.pointer(which).and_then(Value::as_object);
                    asked.is_some_and(|a| a.keys().any(|name| resources.contains(name)))
                })
        })
}

/// The amounts of a resource list; what is no quantity counts as none.
pub(super) fn amounts(list: Option<&Value>) -> Amounts {
    let list = list.and_then(Value::as_object).into_iter().flatten();
    list.filter_map(|(name, value)| Some((name.clone(), quantity::parse(value)?)))
        .collect()
}

/// Adds amounts.
pub(super) fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = to.entry(name.clone()).or_default();
        *sum = sum.plus(*amount);
    }
}

fn requests(container: &Value) -> Amounts {
    let mut asked = amounts(container.pointer("/resources/limits"));
    asked.extend(amounts(container.pointer("/resources/requests")));
    asked
}

fn raise(to: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let most = to.entry(name.clone()).or_default();
        *most = (*most).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(amount: u32) -> Value {
        json!({"resources": {"requests": {"a.io/m": amount.to_string()}}})
    }

    fn sidecar(amount: u32) -> Value {
        let mut sidecar = container(amount);
        sidecar["restartPolicy"] = json!("Always");
        sidecar
    }

    fn demand(init: &[Value], containers: &[Value]) -> i128 {
        let pod = json!({"spec": {"initContainers": init, "containers": containers}});
        of_pod(&pod)["a.io/m"].0 / 1000
    }

    #[test]
    fn a_sidecar_counts_from_where_it_starts() {
        assert_eq!(demand(&[sidecar(2), container(4)], &[container(2)]), 6);
        assert_eq!(demand(&[container(4), sidecar(2)], &[container(2)]), 4);
        assert_eq!(
            demand(&[container(1), container(3)], &[container(1), container(1)]),
            3
        );
    }

    #[test]
    fn limits_stand_in_for_requests() {
        let pod = json!({"spec": {"containers": [{"resources": {"limits": {"a.io/m": "2"}}}]}});
        assert_eq!(of_pod(&pod)["a.io/m"], Milli::whole(2));
        assert!(names_any(&pod, &["a.io/m".into()]));
        assert!(!names_any(&pod, &["a.io/n".into()]));
    }
}
