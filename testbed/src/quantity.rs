//! Kubernetes quantities, as the API server and the scheduler count them.

use serde_json::Value;

/// A quantity in thousandths, rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Milli(pub i128);

impl Milli {
    /// So many whole ones.
    pub const fn whole(count: i128) -> Self {
        Self(count.saturating_mul(1000))
    }

    /// Whether it has no fraction.
    pub const fn is_whole(self) -> bool {
        self.0 % 1000 == 0
    }

    /// The sum, or the largest there is.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Reads `500m`, `16Gi`, `1e3`, or a JSON number; `None` for what is no quantity, or one past
/// 10^24.
pub fn parse(value: &Value) -> Option<Milli> {
    match value {
        Value::String(text) => parse_text(text),
        Value::Number(number) => parse_text(&number.to_string()),
        _ => None,
    }
}

fn parse_text(text: &str) -> Option<Milli> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = digits
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(digits.len());
    let (number, suffix) = digits.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') || number.len() > 30 {
        return None;
    }
    // numerator / denominator of the value in thousandths
    let (mut numerator, mut denominator) = scale(suffix)?;
    numerator = numerator.checked_mul(1000)?;
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    denominator =
        denominator.checked_mul(10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?)?;
    let scaled = digits.checked_mul(numerator)?;
    let milli = (scaled / denominator).checked_add(i128::from(scaled % denominator != 0))?;
    (milli <= 10_i128.pow(27)).then_some(Milli(if negative { -milli } else { milli }))
}

fn scale(suffix: &str) -> Option<(i128, i128)> {
    Some(match suffix {
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1000),
        "" => (1, 1),
        "k" => (1000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        other => {
            let exponent: i32 = other.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
            if exponent < 0 { (1, power) } else { (power, 1) }
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_mean_what_kubernetes_says() {
        for (text, milli) in [
            ("1", 1000),
            ("500m", 500),
            ("0.5", 500),
            ("1.5Gi", 1_610_612_736_000),
            ("10G", 10_000_000_000_000),
            ("1e3", 1_000_000),
            ("1E-3", 1),
            ("1n", 1),
            ("-2", -2000),
            (".5", 500),
        ] {
            assert_eq!(parse(&json!(text)), Some(Milli(milli)), "{text}");
        }
        assert_eq!(parse(&json!(3)), Some(Milli::whole(3)));
    }

    #[test]
    fn what_is_no_quantity_is_none() {
        for text in [
            "",
            "abc",
            "1.2.3",
            "1 Gi",
            "1X",
            "Gi",
            "1e99",
            "-",
            "9".repeat(31).as_str(),
        ] {
            assert_eq!(parse(&json!(text)), None, "{text}");
        }
        assert_eq!(parse(&json!(null)), None);
    }
}
