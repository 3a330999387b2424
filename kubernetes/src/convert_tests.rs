use serde_json::json;

use super::*;

fn object(value: serde_json::Value) -> Pod {
    serde_json::from_value(value).unwrap()
}

fn meta() -> serde_json::Value {
    json!({"name": "p", "namespace": "ns", "uid": "u-1", "creationTimestamp": "2026-12-01T00:00:07Z"})
}

#[test]
fn init_containers_come_first_and_sidecars_are_told_apart() {
    let pod = object(json!({"metadata": meta(), "spec": {
        "containers": [{"name": "app"}],
        "initContainers": [{"name": "first"}, {"name": "side", "restartPolicy": "Always"}],
    }}));
    let read: Vec<_> = containers(&pod).map(|c| (c.name, c.role)).collect();
    assert_eq!(
        read,
        [
            ("first", Role::Init),
            ("side", Role::Sidecar),
            ("app", Role::App)
        ]
    );
}

#[test]
fn requests_stand_in_only_for_limits_that_are_not_given() {
    let pod = object(
        json!({"metadata": meta(), "spec": {"containers": [{"name": "app", "resources": {
            "limits": {"aliyun.com/gpu-core": "20"},
            "requests": {"aliyun.com/gpu-core": "10", "aliyun.com/gpu-memory": 4},
        }}]}}),
    );
    let read: Vec<_> = containers(&pod).flat_map(|c| c.limits).collect();
    assert_eq!(
        read,
        [
            ("aliyun.com/gpu-core", "20"),
            ("aliyun.com/gpu-memory", "4")
        ]
    );
}

#[test]
fn a_pod_holds_its_cards_until_it_has_ended() {
    let of = |deleted: bool, phase: &str| {
        let mut meta = meta();
        if deleted {
            meta["deletionTimestamp"] = json!("2026-12-01T00:01:00Z");
        }
        life(&object(
            json!({"metadata": meta, "status": {"phase": phase}}),
        ))
    };
    assert_eq!(of(false, "Pending"), Life::Holds);
    assert_eq!(of(false, "Running"), Life::Holds);
    assert_eq!(of(false, "Unknown"), Life::Holds);
    assert_eq!(of(true, "Running"), Life::Terminating);
    assert_eq!(of(false, "Failed"), Life::Ended);
    assert_eq!(of(true, "Succeeded"), Life::Ended);
}

#[test]
fn a_pod_is_read_with_its_names_and_the_second_of_its_creation() {
    let pod = object(json!({"metadata": meta(), "spec": {"nodeName": "node-1", "containers": []}}));
    let info = super::pod(&pod, &Settings::default()).unwrap();
    assert_eq!(info.pod.to_string(), "ns/p");
    assert_eq!(info.uid.as_str(), "u-1");
    assert_eq!(info.node.unwrap().as_str(), "node-1");
    assert_eq!(info.created, 1_796_083_207);
    assert_eq!(info.life, Life::Holds);
}

#[test]
fn a_pod_without_a_field_that_every_pod_has_names_that_field() {
    for (field, path) in [
        ("name", "metadata.name"),
        ("namespace", "metadata.namespace"),
        ("uid", "metadata.uid"),
        ("creationTimestamp", "metadata.creationTimestamp"),
    ] {
        let mut meta = meta();
        meta.as_object_mut().unwrap().remove(field);
        let pod = object(json!({"metadata": meta}));
        assert_eq!(
            super::pod(&pod, &Settings::default()).unwrap_err(),
            BadPod::Missing(path)
        );
    }
    let mut meta = meta();
    meta["name"] = json!("Not A Name");
    let bad = super::pod(&object(json!({"metadata": meta})), &Settings::default());
    assert!(matches!(bad, Err(BadPod::Name(_))));
}

#[test]
fn one_entry_an_id_is_merged_by_resource_and_sorted() {
    let entry = |resource: &str, ids: &[&str]| wire::ContainerDevices {
        resource_name: resource.to_owned(),
        device_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        topology: None,
    };
    let message = wire::PodResources {
        name: "p".to_owned(),
        namespace: "ns".to_owned(),
        containers: vec![wire::ContainerResources {
            name: "app".to_owned(),
            devices: vec![
                entry("e/m", &["b"]),
                entry("e/c", &["x"]),
                entry("e/m", &["a"]),
                entry("e/m", &["b"]),
            ],
            cpu_ids: vec![1],
        }],
    };
    let read = pod_devices(message).unwrap();
    assert_eq!(read.containers[0].devices["e/m"], ["a", "b"]);
    assert_eq!(read.containers[0].devices["e/c"], ["x"]);
}

#[test]
fn a_pod_of_pod_resources_with_an_impossible_name_is_refused() {
    assert!(pod_devices(wire::PodResources::default()).is_err());
}
