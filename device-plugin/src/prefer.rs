//! Which device ids kubelet is told to prefer: those of the planned cards.

use std::collections::BTreeSet;

use model::{device_id::DeviceKind, name::CardId};

/// A device id taken apart without copying: preferred-allocation calls carry thousands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The card.
    pub card: &'a str,
    /// Which of the kind.
    pub n: u32,
}

/// The card and number of an id of that kind.
pub fn parts(id: &str, kind: DeviceKind) -> Option<Parts<'_>> {
    let (rest, n) = id.rsplit_once('.')?;
    let (card, word) = rest.rsplit_once('.')?;
    (word == kind.word()).then_some(())?;
    Some(Parts {
        card,
        n: n.parse().ok()?,
    })
}

/// A planned card does not have enough of the ids that kubelet can give.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("card {card} is planned, but kubelet can give only {offered} of the {wanted} needed on it")]
pub struct NotOffered {
    /// Which card.
    pub card: CardId,
    /// How many devices of it kubelet offers.
    pub offered: usize,
    /// How many are needed.
    pub wanted: usize,
}

/// Picks exactly the wanted number of ids on each card: first those that must be in the
/// answer, then available ones in the order of their number.
pub fn choose(
    wanted: &[(CardId, u64)],
    kind: DeviceKind,
    available: &[String],
    must_include: &[String],
) -> Result<Vec<String>, NotOffered> {
    let mut chosen: Vec<String> = Vec::new();
    let must: BTreeSet<&str> = must_include.iter().map(String::as_str).collect();
    for (card, count) in wanted {
        let count = usize::try_from(*count).unwrap_or(usize::MAX);
        let mut here: Vec<(bool, u32, &str)> = must
            .iter()
            .copied()
            .chain(
                available
                    .iter()
                    .map(String::as_str)
                    .filter(|id| !must.contains(id)),
            )
            .filter_map(|id| {
                let parts = parts(id, kind)?;
                (parts.card == card.as_str()).then(|| (!must.contains(id), parts.n, id))
            })
            .collect();
        here.sort_unstable();
        here.dedup();
        if here.len() < count {
            return Err(NotOffered {
                card: card.clone(),
                offered: here.len(),
                wanted: count,
            });
        }
        chosen.extend(here.into_iter().take(count).map(|(_, _, id)| id.to_owned()));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(name: &str) -> CardId {
        CardId::new(name).expect("a card id")
    }

    fn ids(card: &str, kind: &str, range: std::ops::Range<u32>) -> Vec<String> {
        range.map(|n| format!("{card}.{kind}.{n}")).collect()
    }

    #[test]
    fn ids_that_must_be_in_the_answer_come_first_and_the_rest_follow_by_number() {
        let mut available = ids("a", "core", 0..100);
        available.extend(ids("b", "core", 0..100));
        available.reverse();
        let must = vec!["b.core.77".to_owned()];
        let chosen = choose(&[(card("b"), 4)], DeviceKind::Core, &available, &must);
        assert_eq!(
            chosen.expect("enough"),
            ["b.core.77", "b.core.0", "b.core.1", "b.core.2"]
        );
    }

    #[test]
    fn a_card_with_too_few_ids_is_named() {
        let available = ids("a", "mem", 0..3);
        let error = choose(&[(card("a"), 4)], DeviceKind::Memory, &available, &[]);
        assert_eq!(
            error,
            Err(NotOffered {
                card: card("a"),
                offered: 3,
                wanted: 4
            })
        );
    }

    #[test]
    fn ids_of_other_forms_and_kinds_are_passed_over() {
        let available: Vec<String> = ["a.mem.0", "a.core.x", "core", "a.core.1", "aa.core.2"]
            .map(str::to_owned)
            .to_vec();
        let chosen = choose(&[(card("a"), 1)], DeviceKind::Core, &available, &[]);
        assert_eq!(chosen.expect("enough"), ["a.core.1"]);
    }
}
