//! What peers sent that could not be used: counted each time, logged once a cause.

use std::collections::BTreeSet;

/// Where an unusable part came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The Runtime's card list.
    Cards,
    /// The Runtime's metric descriptors and samples.
    Metrics,
    /// Kubelet's PodResources.
    Kubelet,
    /// The node's pods.
    Pods,
}

impl Source {
    /// Every source, in the order of [`Faults::counts`].
    pub const ALL: [Self; 4] = [Self::Cards, Self::Metrics, Self::Kubelet, Self::Pods];

    /// The label's value.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cards => "cards",
            Self::Metrics => "metrics",
            Self::Kubelet => "kubelet",
            Self::Pods => "pods",
        }
    }
}

/// Counts and known causes.
#[derive(Debug, Default)]
pub struct Faults {
    counts: [u64; Source::ALL.len()],
    known: BTreeSet<(Source, String)>,
    full: bool,
}

impl Faults {
    /// Causes that are remembered, 300 characters each: enough for every card and container of a
    /// node to be wrong in its own way, and 300 KiB at most.
    const MOST_CAUSES: usize = 1000;
    const MOST_CHARACTERS: usize = 300;

    /// Counts `causes`. Those not seen before come back as lines for the log.
    pub fn note<I>(&mut self, source: Source, causes: I) -> Vec<String>
    where
        I: IntoIterator<Item = String>,
    {
        let mut news = Vec::new();
        for mut cause in causes {
            if let Some(count) = self.counts.get_mut(source as usize) {
                *count = count.saturating_add(1);
            }
            if let Some((end, _)) = cause.char_indices().nth(Self::MOST_CHARACTERS) {
                cause.truncate(end);
            }
            let key = (source, cause);
            if self.known.contains(&key) || self.full {
                continue;
            }
            news.push(format!("{}: {}", source.name(), key.1));
            self.known.insert(key);
            if self.known.len() >= Self::MOST_CAUSES {
                self.full = true;
                news.push("so many causes that no more are logged, only counted".to_owned());
            }
        }
        news
    }

    /// How many there were, by source.
    pub fn counts(&self) -> impl Iterator<Item = (Source, u64)> {
        Source::ALL.into_iter().zip(self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_counted_each_time_and_told_once() {
        let mut faults = Faults::default();
        let cause = || ["card \"A B\" is no card id".to_owned()];
        assert_eq!(
            faults.note(Source::Cards, cause()),
            ["cards: card \"A B\" is no card id"]
        );
        assert!(faults.note(Source::Cards, cause()).is_empty());
        assert_eq!(faults.note(Source::Kubelet, cause()).len(), 1);
        let counts: Vec<u64> = faults.counts().map(|(_, count)| count).collect();
        assert_eq!(counts, [2, 0, 1, 0]);
    }

    #[test]
    fn endless_causes_take_bounded_memory() {
        let mut faults = Faults::default();
        let causes = (0..10_000).map(|n| format!("{n} {}", "é".repeat(1000)));
        let told = faults.note(Source::Metrics, causes);
        assert_eq!(told.len(), Faults::MOST_CAUSES + 1);
        assert!(told.iter().all(|line| line.chars().count() < 320));
        assert_eq!(faults.counts().nth(1), Some((Source::Metrics, 10_000)));
    }
}
