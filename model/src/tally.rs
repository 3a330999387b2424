//! What several pods hold together on one card, and what that leaves.

use crate::{
    card::{Card, PartitionProfile},
    hold::CardHold,
    ledger::{CardMode, Conflict},
    name::ProfileName,
    quantity::{CorePercent, MemoryBytes},
};

/// The sum of holds on one card. Sums are wide enough never to overflow: the truth of running
/// pods is not bounded by the card.
#[derive(Debug, Default)]
pub(crate) struct Tally<'a> {
    core: u64,
    memory: u128,
    whole: u32,
    shared: u32,
    partitioned: u32,
    pods: u32,
    partitions: Vec<(&'a ProfileName, u64)>,
    mixed: bool,
}

impl<'a> Tally<'a> {
    /// One pod's hold more.
    pub(crate) fn add(&mut self, hold: &'a CardHold) {
        self.core += u64::from(hold.core.percent());
        self.memory += u128::from(hold.memory.bytes());
        self.whole += u32::from(hold.whole);
        self.shared += u32::from(hold.shares());
        self.partitioned += u32::from(hold.partitioned());
        self.pods += 1;
        self.mixed |= hold.is_mixed();
        for (profile, count) in &hold.partitions {
            let count = u64::from(*count);
            match self
                .partitions
                .iter_mut()
                .find(|(known, _)| *known == profile)
            {
                Some((_, sum)) => *sum += count,
                None => self.partitions.push((profile, count)),
            }
        }
    }

    /// How many pods hold some of the card.
    pub(crate) fn pods(&self) -> u32 {
        self.pods
    }

    /// The mode; where the truth is in two, the one that leaves least.
    pub(crate) fn mode(&self) -> CardMode {
        if self.whole > 0 {
            CardMode::Whole
        } else if self.partitioned > 0 {
            CardMode::Partitioned
        } else if self.shared > 0 {
            CardMode::Shared
        } else {
            CardMode::Free
        }
    }

    /// Whether more is held than the card has, or in two modes.
    pub(crate) fn is_beyond(&self, card: &Card) -> bool {
        let modes = [self.whole, self.shared, self.partitioned];
        self.mixed
            || modes.iter().filter(|pods| **pods > 0).count() > 1
            || self.whole > 1
            || self.core > CorePercent::CARD.percent().into()
            || self.memory > u128::from(card.memory.bytes())
            || (self.partitioned > 0 && self.cuts(card).is_none())
    }

    /// Core not promised.
    pub(crate) fn free_core(&self, card: &Card) -> CorePercent {
        if self.whole > 0 || self.is_beyond(card) {
            return CorePercent::ZERO;
        }
        if self.partitioned > 0 {
            return self
                .cuts(card)
                .map_or(CorePercent::ZERO, |cuts| cuts.free_core());
        }
        let core = u32::try_from(self.core).unwrap_or(u32::MAX);
        CorePercent::CARD.saturating_sub(CorePercent::new(core))
    }

    /// Memory not promised.
    pub(crate) fn free_memory(&self, card: &Card) -> MemoryBytes {
        if self.whole > 0 || self.is_beyond(card) {
            return MemoryBytes::ZERO;
        }
        if self.partitioned > 0 {
            return self
                .cuts(card)
                .map_or(MemoryBytes::ZERO, |cuts| cuts.memory);
        }
        let memory = u64::try_from(self.memory).unwrap_or(u64::MAX);
        card.memory.saturating_sub(MemoryBytes::new(memory))
    }

    /// Whether this hold, itself of one mode, finds room beside the sum.
    pub(crate) fn check(&self, card: &Card, asked: &CardHold) -> Result<(), Conflict> {
        let mode = |mode| Conflict::Mode {
            card: card.id.clone(),
            mode,
        };
        if asked.is_nothing() {
            return Ok(());
        }
        if self.whole > 0 {
            return Err(mode("given whole"));
        }
        if self.shared > 0 && !asked.shares() {
            return Err(mode("shared"));
        }
        if self.partitioned > 0 && !asked.partitioned() {
            return Err(mode("partitioned"));
        }
        if self.pods > 0 && self.is_beyond(card) {
            return Err(mode("promised beyond its size"));
        }
        let free_core = self.free_core(card);
        if asked.core > free_core {
            return Err(Conflict::Core {
                card: card.id.clone(),
                free: free_core,
                asked: asked.core,
            });
        }
        let free = self.free_memory(card);
        if asked.memory > free {
            return Err(Conflict::Memory {
                card: card.id.clone(),
                free,
                asked: asked.memory,
            });
        }
        self.check_partitions(card, asked)
    }

    /// How many more of each of the card's profiles find room, each alone.
    pub(crate) fn rooms_for(&self, card: &Card) -> Box<[u32]> {
        if card.profiles.is_empty() || self.whole > 0 || self.shared > 0 {
            return Box::default();
        }
        let Some(cuts) = self.cuts(card) else {
            return Box::default();
        };
        let rooms = (0..card.profiles.len()).map(|at| cuts.room(at));
        rooms
            .map(|room| u32::try_from(room).unwrap_or(u32::MAX))
            .collect()
    }

    /// Whether these partitions find room beside the sum: positions of profiles, and counts.
    pub(crate) fn have_room(
        &self,
        card: &Card,
        asked: impl IntoIterator<Item = (usize, u32)>,
    ) -> bool {
        let mut left = self.cuts(card);
        asked.into_iter().all(|(at, count)| {
            let cuts = left.as_mut();
            cuts.is_some_and(|cuts| cuts.take(at, count.into()).is_ok())
        })
    }

    fn check_partitions(&self, card: &Card, asked: &CardHold) -> Result<(), Conflict> {
        if asked.partitions.is_empty() {
            return Ok(());
        }
        let mut cuts = Cuts::new(card);
        for (profile, count) in &self.partitions {
            // Already known to fit, or the card is beyond its size.
            let _ = cuts.take_of(profile, *count);
        }
        for (profile, count) in &asked.partitions {
            cuts.take_of(profile, u64::from(*count))
                .map_err(|free| Conflict::Partition {
                    card: card.id.clone(),
                    profile: profile.clone(),
                    free: u32::try_from(free).unwrap_or(u32::MAX),
                    asked: *count,
                })?;
        }
        Ok(())
    }

    /// What the partitions leave, unless they are more than the card has.
    fn cuts<'c>(&self, card: &'c Card) -> Option<Cuts<'c>> {
        let mut cuts = Cuts::new(card);
        for (profile, count) in &self.partitions {
            cuts.take_of(profile, *count).ok()?;
        }
        Some(cuts)
    }
}

/// What partitions leave of a card.
///
/// Any mix of profiles fits that stays within the slices, within the
/// memory, and within each profile's own `max_count`; where exactly the hardware puts them is
/// the Runtime's to decide.
struct Cuts<'c> {
    profiles: &'c [PartitionProfile],
    /// How many of each profile are taken.
    taken: Vec<u64>,
    all_slices: u64,
    slices: u64,
    memory: MemoryBytes,
}

impl<'c> Cuts<'c> {
    fn new(card: &'c Card) -> Self {
        let all_slices = card.slices();
        Self {
            profiles: &card.profiles,
            taken: vec![0; card.profiles.len()],
            all_slices,
            slices: all_slices,
            memory: card.memory,
        }
    }

    /// Takes `count` more of a profile, or says how many more would fit.
    fn take_of(&mut self, profile: &ProfileName, count: u64) -> Result<(), u64> {
        if count == 0 {
            return Ok(());
        }
        let at = self.profiles.iter().position(|p| p.name == *profile);
        self.take(at.ok_or(0_u64)?, count)
    }

    /// The same, by the profile's position.
    fn take(&mut self, at: usize, count: u64) -> Result<(), u64> {
        let room = self.room(at);
        let (Some(profile), Some(taken)) = (self.profiles.get(at), self.taken.get_mut(at)) else {
            return Err(0);
        };
        if count > room {
            return Err(room);
        }
        *taken += count;
        self.slices -= count * u64::from(profile.slices);
        self.memory = MemoryBytes::new(self.memory.bytes() - count * profile.memory.bytes());
        Ok(())
    }

    /// How many more of a profile fit.
    fn room(&self, at: usize) -> u64 {
        let (Some(profile), Some(taken)) = (self.profiles.get(at), self.taken.get(at)) else {
            return 0;
        };
        let fit = |left: u64, each: u64| left.checked_div(each).unwrap_or(u64::MAX);
        u64::from(profile.max_count)
            .saturating_sub(*taken)
            .min(fit(self.slices, profile.slices.into()))
            .min(fit(self.memory.bytes(), profile.memory.bytes()))
    }

    /// Slices left, in percent of the card, rounded down.
    fn free_core(&self) -> CorePercent {
        let percent = u128::from(self.slices) * 100 / u128::from(self.all_slices.max(1));
        CorePercent::new(u32::try_from(percent).unwrap_or(0))
    }
}
