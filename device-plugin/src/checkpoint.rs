//! Kubelet's own record of the devices it gave: `kubelet_internal_checkpoint` in its
//! device-plugins folder. It alone knows the devices of plain init containers.
//!
//! Not an interface that Kubernetes promises, so it is read tolerantly and only ever adds to
//! what other sources say.

use std::collections::BTreeMap;

use model::name::PodUid;
use serde::Deserialize;

/// Name of the file in the device-plugins folder.
pub const FILE_NAME: &str = "kubelet_internal_checkpoint";

/// Device ids by pod, container and resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Pod uid to container to resource to sorted ids.
    pub pods: BTreeMap<PodUid, BTreeMap<String, BTreeMap<String, Vec<String>>>>,
}

#[derive(Deserialize)]
struct File {
    #[serde(rename = "Data")]
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "PodDeviceEntries", default)]
    entries: Option<Vec<serde_json::Value>>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "PodUID")]
    pod_uid: String,
    #[serde(rename = "ContainerName")]
    container: String,
    #[serde(rename = "ResourceName")]
    resource: String,
    #[serde(rename = "DeviceIDs")]
    ids: Ids,
}

/// By NUMA node from kubelet 1.20 on, a plain list before.
#[derive(Deserialize)]
#[serde(untagged)]
enum Ids {
    ByNuma(BTreeMap<String, Vec<String>>),
    Plain(Vec<String>),
}

/// Reads the file's text; entries that can't be read are counted, not fatal.
pub fn parse(text: &str) -> Result<(Checkpoint, usize), serde_json::Error> {
    let file: File = serde_json::from_str(text)?;
    let mut checkpoint = Checkpoint::default();
    let mut unreadable = 0;
    for value in file.data.entries.unwrap_or_default() {
        let Ok(entry) = serde_json::from_value::<Entry>(value) else {
            unreadable += 1;
            continue;
        };
        let Ok(uid) = PodUid::new(&entry.pod_uid) else {
            unreadable += 1;
            continue;
        };
        let mut ids = match entry.ids {
            Ids::ByNuma(nodes) => nodes.into_values().flatten().collect(),
            Ids::Plain(ids) => ids,
        };
        ids.sort_unstable();
        ids.dedup();
        checkpoint
            .pods
            .entry(uid)
            .or_default()
            .entry(entry.container)
            .or_default()
            .insert(entry.resource, ids);
    }
    Ok((checkpoint, unreadable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_device_ids_are_read_and_odd_entries_are_counted() {
        let text = r#"{"Data":{"PodDeviceEntries":[
            {"PodUID":"u1","ContainerName":"init","ResourceName":"x/c","DeviceIDs":{"-1":["b","a"],"0":["a"]},"AllocResp":"eA=="},
            {"PodUID":"u1","ContainerName":"app","ResourceName":"x/c","DeviceIDs":["c"]},
            {"PodUID":"u1","ContainerName":"app"}, 7],
            "RegisteredDevices":{"x/c":["a"]}},"Checksum":12}"#;
        let (checkpoint, unreadable) = parse(text).expect("readable");
        assert_eq!(unreadable, 2);
        let pod = &checkpoint.pods[&PodUid::new("u1").expect("a uid")];
        assert_eq!(pod["init"]["x/c"], ["a", "b"]);
        assert_eq!(pod["app"]["x/c"], ["c"]);
    }

    #[test]
    fn no_entries_are_no_pods_and_another_file_is_an_error() {
        assert!(
            parse(r#"{"Data":{"PodDeviceEntries":null}}"#).is_ok_and(|(c, _)| c.pods.is_empty())
        );
        assert!(parse("{}").is_err());
        assert!(parse("").is_err());
    }
}
