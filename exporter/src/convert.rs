//! Between Kubernetes objects and `model` types.

use kubernetes::{
    convert::{BadPod, Life, life},
    object::Pod,
};
use model::name::{Namespace, PodName, PodRef, PodUid};

use crate::pods::PodLife;

/// Reads what the exporter wants of a pod: its requests are of no matter here, so a pod whose
/// request makes no sense is read all the same.
fn pod_life(object: &Pod) -> Result<PodLife, BadPod> {
    let meta = &object.metadata;
    let present = |text: &Option<String>, field| match text.as_deref() {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err(BadPod::Missing(field)),
    };
    let terminated = object
        .status
        .init_container_statuses
        .iter()
        .filter(|status| status.state.contains_key("terminated"));
    Ok(PodLife {
        pod: PodRef {
            namespace: Namespace::new(&present(&meta.namespace, "metadata.namespace")?)?,
            name: PodName::new(&present(&meta.name, "metadata.name")?)?,
        },
        uid: PodUid::new(&present(&meta.uid, "metadata.uid")?)?,
        ended: life(object) == Life::Ended,
        ended_init_containers: terminated.map(|status| status.name.clone()).collect(),
    })
}

/// Reads a list. The second part is what could not be read, one line each.
pub(crate) fn pod_lives(objects: &[Pod]) -> (Vec<PodLife>, Vec<String>) {
    let mut lives = Vec::with_capacity(objects.len());
    let mut faults = Vec::new();
    for object in objects {
        match pod_life(object) {
            Ok(life) => lives.push(life),
            Err(why) => {
                let meta = &object.metadata;
                let part = |text: &Option<String>| text.clone().unwrap_or_else(|| "?".to_owned());
                let (namespace, name) = (part(&meta.namespace), part(&meta.name));
                faults.push(format!("pod {namespace}/{name}: {why}"));
            }
        }
    }
    (lives, faults)
}
