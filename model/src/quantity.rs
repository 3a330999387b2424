//! Quantities with their units. No bare number crosses a module.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Compute time of cards, in percent of one card: 100 is one whole card.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct CorePercent(u32);

impl CorePercent {
    /// No compute reserved: best effort.
    pub const ZERO: Self = Self(0);
    /// One whole card.
    pub const CARD: Self = Self(100);

    /// `percent` of one card.
    pub const fn new(percent: u32) -> Self {
        Self(percent)
    }

    /// The number of percent.
    pub const fn percent(self) -> u32 {
        self.0
    }

    /// The sum, or the largest value there is.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, or zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for CorePercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

/// Card memory in bytes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct MemoryBytes(u64);

impl MemoryBytes {
    /// No memory.
    pub const ZERO: Self = Self(0);

    /// `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// `gib` times 2^30 bytes, or the largest value there is.
    pub const fn from_gib(gib: u64) -> Self {
        Self(gib.saturating_mul(1 << 30))
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The sum, or the largest value there is.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, or zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `core` percent of this memory (100 is all of it), rounded down to a whole `unit`.
    #[must_use]
    pub fn percent_of(self, core: CorePercent, unit: MemoryUnit) -> Self {
        // Real cards never need the wide arithmetic, which is many times slower.
        let bytes = match self.0.checked_mul(u64::from(core.0)) {
            Some(product) => product / 100,
            None => {
                u64::try_from(u128::from(self.0) * u128::from(core.0) / 100).unwrap_or(u64::MAX)
            }
        };
        Self(bytes - bytes % unit.bytes())
    }
}

impl fmt::Display for MemoryBytes {
    /// The largest binary unit that shows it exactly: `24GiB`, `600MiB`, `1000B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, suffix) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
            if self.0 != 0 && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{suffix}", self.0 >> shift);
            }
        }
        write!(f, "{}B", self.0)
    }
}

/// How much memory one unit of the memory resource stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MemoryUnit {
    /// 2^20 bytes.
    #[serde(rename = "MiB")]
    Mib,
    /// 2^30 bytes.
    #[serde(rename = "GiB")]
    Gib,
}

impl MemoryUnit {
    /// Bytes in one unit; never zero.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Mib => 1 << 20,
            Self::Gib => 1 << 30,
        }
    }

    /// `count` units, unless that is past 2^64 bytes.
    pub fn times(self, count: u64) -> Option<MemoryBytes> {
        count.checked_mul(self.bytes()).map(MemoryBytes)
    }

    /// How many whole units `memory` has.
    pub const fn count_in(self, memory: MemoryBytes) -> u64 {
        memory.0 / self.bytes()
    }
}

/// The most that Kubernetes itself takes for a quantity: 2^63-1.
const MOST: u128 = i64::MAX as u128;

/// A number that Kubernetes writes as a quantity string, where a plain count is meant.
///
/// Extended resources are whole numbers. Kubernetes' own canonical form of such a number may
/// carry a suffix: `5k` is 5000, `1Gi` is 2^30. The grammar is that of apimachinery's
/// `resource.Quantity`; the value is exact whatever the length of the text, in one pass.
pub fn parse_count(text: &str) -> Result<u64, CountError> {
    let cut = || -> String { text.chars().take(80).collect() };
    let not_a_quantity = || CountError::NotAQuantity(cut());
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..)),
        Some(b'+') => (false, text.get(1..)),
        _ => (false, Some(text)),
    };
    let unsigned = unsigned.unwrap_or_default();
    let end = unsigned
        .bytes()
        .position(|b| !b.is_ascii_digit() && b != b'.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at_checked(end).ok_or_else(not_a_quantity)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return Err(not_a_quantity());
    }
    let scale = Scale::of_suffix(suffix).ok_or_else(not_a_quantity)?;
    match exact(whole, fraction, scale) {
        Ok(0) => Ok(0),
        _ if negative => Err(CountError::Negative(cut())),
        Ok(count) => Ok(count),
        Err(Inexact::Fraction) => Err(CountError::NotWhole(cut())),
        Err(Inexact::TooLarge) => Err(CountError::TooLarge(cut())),
    }
}

/// What a suffix multiplies by.
#[derive(Clone, Copy)]
enum Scale {
    /// 10 to this power.
    Ten(i64),
    /// 2 to this power, at most 60.
    Two(u32),
}

impl Scale {
    fn of_suffix(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "n" => Self::Ten(-9),
            "u" => Self::Ten(-6),
            "m" => Self::Ten(-3),
            "" => Self::Ten(0),
            "k" => Self::Ten(3),
            "M" => Self::Ten(6),
            "G" => Self::Ten(9),
            "T" => Self::Ten(12),
            "P" => Self::Ten(15),
            "E" => Self::Ten(18),
            "Ki" => Self::Two(10),
            "Mi" => Self::Two(20),
            "Gi" => Self::Two(30),
            "Ti" => Self::Two(40),
            "Pi" => Self::Two(50),
            "Ei" => Self::Two(60),
            exponent => Self::Ten(power(exponent.strip_prefix(['e', 'E'])?)?),
        })
    }
}

/// The digits after `e`, with a sign or without. Past 2^60 the size no longer matters: no text
/// has that many digits to make up for it.
fn power(text: &str) -> Option<i64> {
    const FAR: i64 = 1 << 60;
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() {
        return None;
    }
    let mut power = 0_i64;
    for b in digits.bytes() {
        if !b.is_ascii_digit() {
            return None;
        }
        power = power
            .saturating_mul(10)
            .saturating_add(i64::from(b - b'0'))
            .min(FAR);
    }
    Some(if text.starts_with('-') { -power } else { power })
}

/// Why a number above zero is not a count.
enum Inexact {
    Fraction,
    TooLarge,
}

/// `whole.fraction` times the scale.
fn exact(whole: &str, fraction: &str, scale: Scale) -> Result<u64, Inexact> {
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    let value = match scale {
        Scale::Ten(power) => times_ten(whole, fraction, power)?,
        Scale::Two(power) => times_two(whole, fraction, power)?,
    };
    if value > MOST {
        return Err(Inexact::TooLarge);
    }
    u64::try_from(value).map_err(|_| Inexact::TooLarge)
}

fn times_ten(whole: &str, fraction: &str, power: i64) -> Result<u128, Inexact> {
    let length = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX);
    // The value is the digits times 10^shift, the digits neither starting nor ending with 0.
    let (head, tail) = if fraction.is_empty() {
        (whole.trim_end_matches('0'), "")
    } else {
        (whole, fraction)
    };
    let tail = if head.is_empty() {
        tail.trim_start_matches('0')
    } else {
        tail
    };
    let shift = if fraction.is_empty() {
        power.saturating_add(length(whole) - length(head))
    } else {
        power.saturating_sub(length(fraction))
    };
    let digits = length(head).saturating_add(length(tail));
    if digits == 0 {
        return Ok(0);
    }
    if shift < 0 {
        return Err(Inexact::Fraction);
    }
    if digits.saturating_add(shift) > 19 {
        return Err(Inexact::TooLarge);
    }
    let value = head.bytes().chain(tail.bytes()).fold(0_u128, push_digit);
    Ok((0..shift).fold(value, |value, _| value * 10))
}

fn times_two(whole: &str, fraction: &str, power: u32) -> Result<u128, Inexact> {
    if whole.len() > 19 {
        return Err(Inexact::TooLarge);
    }
    // Each doubling takes one factor of 2 from the fraction's denominator, so that a longer
    // fraction than this never becomes whole.
    let places = usize::try_from(power).unwrap_or(usize::MAX);
    if fraction.len() > places {
        return Err(Inexact::Fraction);
    }
    let mut value = whole.bytes().fold(0_u128, push_digit);
    let mut rest: Vec<u8> = fraction.bytes().map(|b| b - b'0').collect();
    for _ in 0..power {
        let mut carry = 0;
        for digit in rest.iter_mut().rev() {
            let doubled = *digit * 2 + carry;
            *digit = doubled % 10;
            carry = doubled / 10;
        }
        value = value * 2 + u128::from(carry);
    }
    if rest.iter().any(|digit| *digit != 0) {
        return Err(Inexact::Fraction);
    }
    Ok(value)
}

fn push_digit(value: u128, digit: u8) -> u128 {
    value * 10 + u128::from(digit - b'0')
}

/// Why a quantity is not a count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// Not a Kubernetes quantity at all.
    #[error("{0:?} is not a quantity")]
    NotAQuantity(String),
    /// A fraction such as `100m` or `1.5`.
    #[error("{0:?} is not a whole number")]
    NotWhole(String),
    /// Below zero.
    #[error("{0:?} is below zero")]
    Negative(String),
    /// Past 2^63-1, the most that Kubernetes itself takes.
    #[error("{0:?} is more than 2^63-1")]
    TooLarge(String),
}

#[cfg(test)]
#[path = "quantity_tests.rs"]
mod tests;
