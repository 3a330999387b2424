//! The file name of a resource's socket: short, since a socket's whole path has at most 107
//! bytes, ours by its prefix, and different for different resources.

use model::name::ResourceName;

/// What every socket of ours begins with.
pub const PREFIX: &str = "lj-";
/// What it ends with.
pub const SUFFIX: &str = ".sock";

/// Kubelet's own registration socket.
pub const KUBELET: &str = "kubelet.sock";

/// `lj-gpu-core-9ae16a3b.sock`
pub fn socket_name(resource: &ResourceName) -> String {
    let text = resource.as_str();
    let last = text.rsplit_once('/').map_or(text, |(_, name)| name);
    let plain: String = last
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .take(20)
        .collect();
    format!(
        "{PREFIX}{plain}-{:08x}{SUFFIX}",
        fold(fnv1a(text.as_bytes()))
    )
}

/// Whether a file of the device-plugins folder is a socket of ours, of whatever run.
pub fn is_ours(file_name: &str) -> bool {
    file_name.starts_with(PREFIX) && file_name.ends_with(SUFFIX)
}

/// The same in every build and on every machine, unlike the standard library's hasher.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

const fn fold(hash: u64) -> u64 {
    (hash >> 32) ^ (hash & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> String {
        socket_name(&ResourceName::new(name).expect("a resource name"))
    }

    #[test]
    fn names_are_short_ours_and_differ() {
        let names = [
            of("aliyun.com/gpu"),
            of("nvidia.com/gpu"),
            of("aliyun.com/gpu-core"),
            of("aliyun.com/gpu.core"),
            of(&format!("x.y/{}", "a".repeat(63))),
        ];
        for (i, name) in names.iter().enumerate() {
            assert!(name.len() <= 40, "{name}");
            assert!(is_ours(name));
            assert!(!names[..i].contains(name), "{name} is there twice");
        }
        assert!(names[0].starts_with("lj-gpu-"));
        assert!(!is_ours(KUBELET) && !is_ours("kubelet_internal_checkpoint"));
    }
}
