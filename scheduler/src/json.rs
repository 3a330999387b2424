//! Writing JSON straight to bytes: answers are as long as the questions, and come once a pod.

/// A JSON string. Names of Kubernetes need no escapes: those are copied as they are.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    if text.bytes().all(|b| b >= b' ' && b != b'"' && b != b'\\') {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else if let Ok(escaped) = serde_json::to_vec(text) {
        out.extend_from_slice(&escaped);
    }
}

/// An element of a list or an object, after a comma where it is not the first.
pub(crate) fn element(out: &mut Vec<u8>, is_first: bool, write: impl FnOnce(&mut Vec<u8>)) {
    if !is_first {
        out.push(b',');
    }
    write(out);
}
