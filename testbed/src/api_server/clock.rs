//! Times and random names, as Kubernetes writes them.

use std::hash::{BuildHasher, Hasher, RandomState};

use k8s_openapi::jiff::Timestamp;

/// `2026-12-01T05:00:00Z`: `metav1.Time` has whole seconds.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// So many seconds later.
pub(crate) fn later(time: Timestamp, seconds: i64) -> Timestamp {
    Timestamp::from_second(time.as_second().saturating_add(seconds)).unwrap_or(time)
}

/// Reads a time; `None` for what is not one.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// 64 bits that differ each time. The standard library's hash seeds are random enough for names
/// in a test cluster.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A new UID, in the shape of a version 4 UUID.
pub(crate) fn uid() -> String {
    let (high, low) = (random(), random());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        0x8000 | ((low >> 48) & 0x3fff),
        low & 0xffff_ffff_ffff
    )
}

/// Five letters, of those that make no words.
pub(crate) fn suffix() -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut bits = random();
    (0..5)
        .filter_map(|_| {
            let count = LETTERS.len() as u64;
            let index = usize::try_from(bits % count).ok()?;
            bits /= count;
            LETTERS.get(index).map(|b| char::from(*b))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        let text = "2026-12-01T05:00:07Z";
        assert_eq!(seconds(parse(text).unwrap()), text);
        assert_eq!(
            seconds(later(parse(text).unwrap(), 60)),
            "2026-12-01T05:01:07Z"
        );
    }

    #[test]
    fn uids_and_suffixes_differ_and_have_their_shape() {
        assert_ne!(uid(), uid());
        assert_eq!(uid().len(), 36);
        assert_eq!(suffix().len(), 5);
    }
}
