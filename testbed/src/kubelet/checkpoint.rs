//! `kubelet_internal_checkpoint`: who has which device, in the form that kubelet writes.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};

use super::devices::{Devices, Given, PodGiven};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct File {
    data: Data,
    /// Kubelet's own checksum is of Go's memory layout; readers other than kubelet ignore it.
    checksum: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Data {
    pod_device_entries: Option<Vec<Entry>>,
    registered_devices: BTreeMap<String, Vec<String>>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    #[serde(rename = "PodUID")]
    pod_uid: String,
    #[serde(rename = "ContainerName")]
    container_name: String,
    #[serde(rename = "ResourceName")]
    resource_name: String,
    /// By NUMA node; -1 where the plugin names none.
    #[serde(rename = "DeviceIDs")]
    device_ids: BTreeMap<String, Vec<String>>,
    /// The plugin's answer in base64.
    #[serde(rename = "AllocResp")]
    alloc_resp: String,
}

/// Writes it, whole or not at all.
pub(super) fn write(file: &Path, devices: &Devices) -> anyhow::Result<()> {
    let mut entries = Vec::new();
    for (uid, pod) in devices.all() {
        for (container, resources) in pod {
            for (resource, given) in resources {
                entries.push(Entry {
                    pod_uid: uid.clone(),
                    container_name: container.clone(),
                    resource_name: resource.clone(),
                    device_ids: BTreeMap::from([(
                        "-1".into(),
                        given.ids.iter().cloned().collect(),
                    )]),
                    alloc_resp: base64(&given.answer),
                });
            }
        }
    }
    let data = Data {
        pod_device_entries: Some(entries),
        registered_devices: BTreeMap::new(),
    };
    let text = serde_json::to_vec(&File { data, checksum: 0 })?;
    let fresh = file.with_extension("fresh");
    std::fs::write(&fresh, text)?;
    std::fs::rename(&fresh, file)?;
    Ok(())
}

/// What an earlier kubelet wrote; nothing where there is none.
pub(super) fn read(file: &Path) -> anyhow::Result<BTreeMap<String, PodGiven>> {
    let Ok(text) = std::fs::read(file) else {
        return Ok(BTreeMap::new());
    };
    let file: File = serde_json::from_slice(&text)?;
    let mut pods: BTreeMap<String, PodGiven> = BTreeMap::new();
    for entry in file.data.pod_device_entries.unwrap_or_default() {
        let given = Given {
            ids: entry.device_ids.into_values().flatten().collect(),
            answer: from_base64(&entry.alloc_resp),
        };
        let pod = pods.entry(entry.pod_uid).or_default();
        pod.entry(entry.container_name)
            .or_default()
            .insert(entry.resource_name, given);
    }
    Ok(pods)
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let six = usize::try_from(bits >> (18 - 6 * place) & 63).unwrap_or(0);
            let letter = ALPHABET.get(six).copied().unwrap_or(b'A');
            text.push(if place > chunk.len() {
                '='
            } else {
                char::from(letter)
            });
        }
    }
    text
}

fn from_base64(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for letter in text.bytes() {
        let Some(six) = ALPHABET.iter().position(|a| *a == letter) else {
            break;
        };
        bits = bits << 6 | u32::try_from(six).unwrap_or(0);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.extend(u8::try_from(bits >> count & 255));
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kubelet_internal_checkpoint");
        assert!(read(&file).unwrap().is_empty());
        let mut devices = Devices::default();
        for (uid, answer) in [
            ("u1", vec![]),
            ("u2", vec![1]),
            ("u3", vec![0, 255]),
            ("u4", vec![7; 100]),
        ] {
            let ids = ["a".to_owned(), "b".to_owned()].into();
            devices.give(uid, "main", "example.com/m", Given { ids, answer });
        }
        write(&file, &devices).unwrap();
        assert_eq!(&read(&file).unwrap(), devices.all());
    }
}
