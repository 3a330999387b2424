//! Counts as Kubernetes writes them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::quantity::{CountError, parse_count};

/// A refusal's kind: the texts differ by what they cite.
fn kind(read: Result<u64, CountError>) -> Result<u64, std::mem::Discriminant<CountError>> {
    read.map_err(|error| std::mem::discriminant(&error))
}

fuzz_target!(|text: &str| {
    let read = fuzz::within(text.len(), 16, || parse_count(text));
    let digits = text.trim_start_matches(['+', '-']);
    let sign_bytes = text.len() - digits.len();
    if sign_bytes <= 1 && digits.starts_with(|c: char| c.is_ascii_digit()) {
        let (sign, rest) = text.split_at(sign_bytes);
        let led = format!("{sign}00{rest}");
        assert_eq!(kind(parse_count(&led)), kind(read.clone()), "zeros before");
    }
    match &read {
        Ok(count) => {
            assert!(*count <= i64::MAX as u64);
            assert_eq!(parse_count(&count.to_string()), Ok(*count));
        }
        Err(error) => assert!(error.to_string().len() < 1024, "{error}"),
    }
    // With nothing behind the number, a suffix is a factor.
    if text.ends_with(|c: char| c.is_ascii_digit()) && !text.contains(['e', 'E']) {
        let zeros = if text.contains('.') { "e+3" } else { "000" };
        let thousands = kind(parse_count(&format!("{text}{zeros}")));
        assert_eq!(kind(parse_count(&format!("{text}k"))), thousands);
        if let Ok(count) = read {
            for (suffix, factor) in [("Ki", 1 << 10), ("Gi", 1 << 30), ("M", 1_000_000)] {
                let product = count.checked_mul(factor).filter(|p| *p <= i64::MAX as u64);
                let read = parse_count(&format!("{text}{suffix}"));
                assert_eq!(read.ok(), product, "{text}{suffix}");
            }
        }
    }
});
