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
        let bytes = u128::from(self.0) * u128::from(core.0) / 100;
        let unit = u128::from(unit.bytes());
        Self(u64::try_from(bytes / unit * unit).unwrap_or(u64::MAX))
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

/// A number that Kubernetes writes as a quantity string, where a plain count is meant.
///
/// Extended resources are whole numbers. Kubernetes' own canonical form of such a number may
/// carry a suffix: `5k` is 5000, `1Gi` is 2^30.
pub fn parse_count(text: &str) -> Result<u64, CountError> {
    let _ = text;
    todo!(
        "helper: exact integer meaning of a Kubernetes quantity; 1.5, 100m, 1e3 etc.; past 2^63-1 refused"
    )
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
