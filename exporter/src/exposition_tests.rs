use proptest::prelude::*;

use super::*;
use crate::exposition_reader::{Sample, read};

fn sets(all: &[&[(&str, &str)]]) -> LabelSets {
    let mut sets = LabelSets::default();
    for labels in all {
        sets.push(labels);
    }
    sets
}

fn float(value: f64) -> String {
    let mut out = Vec::new();
    push_float(&mut out, value);
    String::from_utf8(out).unwrap()
}

/// Bit by bit, but for the sign of zero, which has no meaning, and for what kind of NaN it is.
fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.abs() + b.abs() == 0.0 || a.is_nan() && b.is_nan()
}

#[test]
fn a_whole_text_is_as_the_golden_file_has_it() {
    let sets = sets(&[
        &[],
        &[("card", "ppu-0"), ("node", "n1")],
        &[("card", "a\\b\"c\nd"), ("node", "é")],
    ]);
    let labels: Vec<&str> = sets.iter().collect();
    let mut text = Exposition::new(b"what was here before".to_vec(), 100);
    text.family("up", "Whether it is up.", Kind::Gauge)
        .integer(labels[0], 1);
    text.family("never_seen", "No sample, no header.", Kind::Gauge);
    let mut family = text.family(
        "accel_errors_total",
        "A \\ and a\nline feed.",
        Kind::Counter,
    );
    family.float(labels[1], 12.0);
    family.float(labels[2], 0.25);
    let mut family = text.family("odd_values", "Odd.", Kind::Gauge);
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1.5e-7] {
        family.float(labels[1], value);
    }
    assert_eq!(text.series(), 8);
    let text = String::from_utf8(text.finish()).unwrap();
    assert_eq!(text, include_str!("golden/encoder.prom"));
}

#[test]
fn whole_numbers_have_neither_exponent_nor_fraction() {
    for (value, text) in [
        (0.0, "0"),
        (1.0, "1"),
        (-3.0, "-3"),
        (154_618_822_656.0, "154618822656"),
        (9_007_199_254_740_991.0, "9007199254740991"),
        (0.1, "0.1"),
        (-0.35, "-0.35"),
    ] {
        assert_eq!(float(value), text);
    }
}

#[test]
fn long_label_values_are_cut_by_characters_not_bytes() {
    let long = "é".repeat(MAX_LABEL_CHARACTERS + 10);
    let sets = sets(&[&[("model", &long)]]);
    let set = sets.iter().next().unwrap();
    assert_eq!(
        set,
        format!("{{model=\"{}\"}} ", "é".repeat(MAX_LABEL_CHARACTERS))
    );
}

#[test]
fn lines_past_the_limit_are_counted_not_written() {
    let mut text = Exposition::new(Vec::new(), 2);
    let mut family = text.family("a", "A.", Kind::Gauge);
    for value in 0..5 {
        family.integer(" ", value);
    }
    assert_eq!(text.dropped(), 3);
    let mut family = text.family("b", "B.", Kind::Gauge);
    family.integer(" ", 1);
    assert_eq!(text.dropped(), 4);
    let text = String::from_utf8(text.finish()).unwrap();
    assert_eq!(text, "# HELP a A.\n# TYPE a gauge\na 0\na 1\n");
}

proptest! {
    #[test]
    fn every_number_reads_back_as_itself(bits: u64) {
        let value = f64::from_bits(bits);
        let text = float(value);
        let back: f64 = text.parse().unwrap();
        prop_assert!(same(back, value), "{value:?} {text}");
    }

    #[test]
    fn what_is_written_reads_back(
        families in proptest::collection::vec(
            (
                "[a-z_:][a-z0-9_:]{0,20}",
                ".{0,40}",
                proptest::collection::vec((".{0,30}", "(?s).{0,30}", any::<f64>()), 0..5),
            ),
            0..6,
        )
    ) {
        let mut text = Exposition::new(Vec::new(), 1000);
        let mut expected = Vec::new();
        for (n, (name, help, samples)) in families.iter().enumerate() {
            let name = format!("{name}_{n}");
            let mut sets = LabelSets::default();
            for (a, b, _) in samples {
                sets.push(&[("a", a), ("b", b)]);
            }
            let mut family = text.family(&name, help, Kind::Gauge);
            for (labels, (a, b, value)) in sets.iter().zip(samples) {
                family.float(labels, *value);
                expected.push(Sample {
                    name: name.clone(),
                    labels: vec![("a".into(), a.clone()), ("b".into(), b.clone())],
                    value: *value,
                });
            }
        }
        let text = String::from_utf8(text.finish()).unwrap();
        let found = read(&text).unwrap().samples;
        prop_assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            prop_assert_eq!(&found.name, &expected.name);
            prop_assert_eq!(&found.labels, &expected.labels);
            prop_assert!(same(found.value, expected.value));
        }
    }
}
