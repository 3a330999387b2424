use proptest::prelude::*;

use super::*;

fn not_whole(text: &str) -> bool {
    matches!(parse_count(text), Err(CountError::NotWhole(_)))
}

fn not_a_quantity(text: &str) -> bool {
    matches!(parse_count(text), Err(CountError::NotAQuantity(_)))
}

fn too_large(text: &str) -> bool {
    matches!(parse_count(text), Err(CountError::TooLarge(_)))
}

#[test]
fn whole_numbers_in_every_notation() {
    for (text, count) in [
        ("0", 0),
        ("7", 7),
        ("+7", 7),
        ("007", 7),
        ("7.", 7),
        ("7.000", 7),
        ("-0", 0),
        ("-0.0Ki", 0),
        ("0m", 0),
        ("5k", 5_000),
        ("1.5k", 1_500),
        (".5k", 500),
        ("2000m", 2),
        ("3000000u", 3),
        ("4000000000n", 4),
        ("1e3", 1_000),
        ("1E3", 1_000),
        ("1e+3", 1_000),
        ("1000e-3", 1),
        ("0.001e3", 1),
        ("0e999999999999999999999999", 0),
        ("10G", 10_000_000_000),
        ("9E", 9_000_000_000_000_000_000),
        ("16Gi", 17_179_869_184),
        ("1.5Ki", 1_536),
        ("0.0009765625Ki", 1),
        ("0.5Gi", 1 << 29),
        ("7Ei", 7 << 60),
        ("9223372036854775807", i64::MAX.unsigned_abs()),
        ("9223372036854775.807k", i64::MAX.unsigned_abs()),
    ] {
        assert_eq!(parse_count(text), Ok(count), "{text}");
    }
}

#[test]
fn fractions_are_refused() {
    for text in [
        "100m",
        "1.5",
        "0.5",
        "1e-1",
        "1n",
        "0.1Ki",
        "1.0001Ki",
        "1e-99999999999999999999",
    ] {
        assert!(not_whole(text), "{text}: {:?}", parse_count(text));
    }
}

#[test]
fn other_texts_are_refused() {
    for text in [
        "", "+", "-", ".", "+.", "Ki", "e3", "1e", "1e+", "1e1.5", "1e3k", "1K", "1ki", "1KiB",
        "1kk", " 1", "1 ", "1_000", "1,5", "1.1.1", "--1", "+-1", "0x10", "1i", "one", "１", "1µ",
        "NaN",
    ] {
        assert!(not_a_quantity(text), "{text}: {:?}", parse_count(text));
    }
}

#[test]
fn below_zero_is_refused() {
    for text in ["-1", "-0.5", "-1k", "-99999999999999999999999", "-1e-3"] {
        assert!(
            matches!(parse_count(text), Err(CountError::Negative(_))),
            "{text}"
        );
    }
}

#[test]
fn case_9_past_two_to_the_63_is_refused_and_nothing_wraps() {
    for text in [
        "9223372036854775808",
        "9223372036854775.808k",
        "18446744073709551616",
        "340282366920938463463374607431768211457",
        "8Ei",
        "16Ei",
        "9.3E",
        "1e19",
        "1e9223372036854775808",
        "1e99999999999999999999999999999",
    ] {
        assert!(too_large(text), "{text}: {:?}", parse_count(text));
    }
}

#[test]
fn a_megabyte_of_digits_is_answered_and_the_error_is_short() {
    let nines = "9".repeat(1 << 20);
    assert!(too_large(&nines));
    assert!(too_large(&format!("{nines}Ki")));
    assert!(not_whole(&format!("0.{nines}")));
    assert!(not_whole(&format!("0.{nines}Ei")));
    assert_eq!(parse_count(&format!("{}1", "0".repeat(1 << 20))), Ok(1));
    assert_eq!(parse_count(&format!("1.{}", "0".repeat(1 << 20))), Ok(1));
    let zeros = "0".repeat(1 << 20);
    assert_eq!(parse_count(&format!("1{zeros}e-{}", 1 << 20)), Ok(1));
    assert_eq!(parse_count(&format!("0.{zeros}1e{}", (1 << 20) + 1)), Ok(1));
    let Err(CountError::TooLarge(said)) = parse_count(&nines) else {
        panic!("accepted");
    };
    assert_eq!(said.len(), 80);
}

#[test]
fn a_percentage_of_memory_is_rounded_down_to_a_unit() {
    let card = MemoryBytes::from_gib(144);
    let half = card.percent_of(CorePercent::new(50), MemoryUnit::Gib);
    assert_eq!(half, MemoryBytes::from_gib(72));
    let one = card.percent_of(CorePercent::new(1), MemoryUnit::Gib);
    assert_eq!(one, MemoryBytes::from_gib(1));
    let most = MemoryBytes::new(u64::MAX).percent_of(CorePercent::new(u32::MAX), MemoryUnit::Mib);
    assert_eq!(most, MemoryBytes::new(u64::MAX - ((1 << 20) - 1)));
    let all = MemoryBytes::new(u64::MAX).percent_of(CorePercent::CARD, MemoryUnit::Gib);
    assert_eq!(all, MemoryBytes::new(u64::MAX - ((1 << 30) - 1)));
}

#[test]
fn memory_shows_in_the_largest_exact_unit() {
    assert_eq!(MemoryBytes::from_gib(24).to_string(), "24GiB");
    assert_eq!(MemoryBytes::new(600 << 20).to_string(), "600MiB");
    assert_eq!(MemoryBytes::new(1000).to_string(), "1000B");
    assert_eq!(MemoryBytes::ZERO.to_string(), "0B");
}

/// The same, slowly: a fraction of two big numbers as vectors of decimal digits.
mod reference {
    pub(super) enum Answer {
        Count(u64),
        NotWhole,
        TooLarge,
    }

    fn times(digits: &mut Vec<u8>, factor: u8) {
        let mut carry = 0;
        for digit in digits.iter_mut() {
            let product = *digit * factor + carry;
            *digit = product % 10;
            carry = product / 10;
        }
        if carry > 0 {
            digits.push(carry);
        }
    }

    /// `digits` (least first) times 10^ten times 2^two.
    pub(super) fn count(mut digits: Vec<u8>, ten: i32, two: u32) -> Answer {
        for _ in 0..two {
            times(&mut digits, 2);
        }
        for _ in 0..ten.max(0) {
            digits.insert(0, 0);
        }
        for _ in 0..(-ten).max(0) {
            if digits.is_empty() {
                break;
            }
            if digits.remove(0) != 0 {
                return Answer::NotWhole;
            }
        }
        while digits.last() == Some(&0) {
            digits.pop();
        }
        let text: String = digits.iter().rev().map(|d| char::from(b'0' + d)).collect();
        if text.is_empty() {
            return Answer::Count(0);
        }
        match text.parse::<i64>() {
            Ok(count) => Answer::Count(count.unsigned_abs()),
            Err(_) => Answer::TooLarge,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn equals_a_slow_exact_reference(
        whole in "0{0,3}[0-9]{1,24}0{0,8}",
        fraction in prop_oneof![Just(String::new()), "[0-9]{0,12}0{0,4}", "[05]{0,8}[0-9]{0,64}"],
        suffix in prop_oneof![
            prop::sample::select(vec![
                ("", 0, 0), ("n", -9, 0), ("u", -6, 0), ("m", -3, 0), ("k", 3, 0), ("M", 6, 0),
                ("G", 9, 0), ("T", 12, 0), ("P", 15, 0), ("E", 18, 0), ("Ki", 0, 10), ("Mi", 0, 20),
                ("Gi", 0, 30), ("Ti", 0, 40), ("Pi", 0, 50), ("Ei", 0, 60),
            ]).prop_map(|(s, ten, two)| (s.to_owned(), ten, two)),
            (-40_i32..40).prop_map(|e| (format!("e{e}"), e, 0)),
        ],
    ) {
        let (suffix, ten, two) = suffix;
        let text = format!("{whole}.{fraction}{suffix}");
        let places = i32::try_from(fraction.len()).unwrap();
        let digits = format!("{whole}{fraction}").bytes().rev().map(|b| b - b'0').collect();
        match (parse_count(&text), reference::count(digits, ten - places, two)) {
            (Ok(ours), reference::Answer::Count(right)) => prop_assert_eq!(ours, right),
            (Err(CountError::NotWhole(_)), reference::Answer::NotWhole)
            // Past 2^63 and a fraction besides: either reason is right.
            | (Err(CountError::TooLarge(_)), reference::Answer::TooLarge | reference::Answer::NotWhole) => {}
            (ours, _) => prop_assert!(false, "{text}: {ours:?}"),
        }
    }

    #[test]
    fn never_panics(text in ".{0,40}") {
        let _ = parse_count(&text);
    }

    #[test]
    fn every_count_reads_back(count in 0..=i64::MAX.unsigned_abs()) {
        prop_assert_eq!(parse_count(&count.to_string()), Ok(count));
    }
}
