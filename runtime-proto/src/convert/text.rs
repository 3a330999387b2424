//! Checks on texts that a Runtime sends.

/// `text` in one line: control characters become spaces, and what is past `most` characters is
/// cut off.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let clean: String = text
        .chars()
        .take(most)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    clean.trim().to_owned()
}

/// The text, where it has at most `most` characters and none is a control character.
pub(crate) fn printable(field: &str, text: &str, most: usize) -> Result<String, String> {
    if text.chars().take(most + 1).count() > most {
        return Err(format!(
            "{field} {:?} is longer than {most} characters",
            one_line(text, 40)
        ));
    }
    if text.chars().any(char::is_control) {
        return Err(format!(
            "{field} {:?} has control characters",
            one_line(text, 40)
        ));
    }
    Ok(text.to_owned())
}

/// An absolute path without `..`.
pub(crate) fn absolute_path(field: &str, text: &str) -> Result<String, String> {
    let path = printable(field, text, 4095)?;
    if !path.starts_with('/') || path.split('/').any(|part| part == "..") {
        return Err(format!(
            "{field} {:?} is not an absolute path",
            one_line(text, 80)
        ));
    }
    Ok(path)
}

/// Whether `text` is a Prometheus metric name.
pub(crate) fn is_metric_name(text: &str) -> bool {
    let starts = |b: u8| b.is_ascii_alphabetic() || b == b'_' || b == b':';
    text.len() <= 128
        && text.bytes().next().is_some_and(starts)
        && text.bytes().all(|b| starts(b) || b.is_ascii_digit())
}

/// Whether `text` is a CDI name `vendor/class=device` (the CDI specification's grammar).
pub(crate) fn is_cdi_name(text: &str) -> bool {
    let part = |part: &str, letter_first: bool, inner: &str| {
        let bytes = part.as_bytes();
        let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
            return false;
        };
        (first.is_ascii_alphabetic() || (!letter_first && first.is_ascii_digit()))
            && last.is_ascii_alphanumeric()
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || inner.contains(c))
    };
    text.len() <= 512
        && text.split_once('/').is_some_and(|(vendor, rest)| {
            rest.split_once('=').is_some_and(|(class, device)| {
                part(vendor, true, "_-.") && part(class, true, "_-") && part(device, false, "_-.:")
            })
        })
}
