//! What was found for a request on a node, kept until the node changes.
//!
//! Most pods that wait ask the same as the one before them, and each is asked about on all nodes,
//! first by filter, then by prioritize. Between two of these calls hardly a node changes. So the
//! answer is worked out once for each request and state of a node, and is one number to read after
//! that, however many cards and pods the node has.
//!
//! Nobody has to remember to forget: a [`Memoized`] value can only be changed by a call that
//! empties its memory.

use std::{
    ops::Deref,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use model::request::PodRequest;

use crate::reason::Rejection;

/// Requests that are remembered at once; 8 bytes a node each.
const SLOTS: usize = 8;
/// Different rejections of one request that are remembered. There are few: see [`Rejection`].
const REJECTIONS: usize = 64;

/// A value, and what was worked out from it.
#[derive(Debug, Default)]
pub(crate) struct Memoized<T> {
    value: T,
    slots: [AtomicU64; SLOTS],
}

impl<T> Memoized<T> {
    /// The value, to be changed: what was worked out from it is forgotten.
    pub(crate) fn change(&mut self) -> &mut T {
        self.slots = Default::default();
        &mut self.value
    }
}

impl<T> Deref for Memoized<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// The copy remembers nothing.
impl<T: Clone> Clone for Memoized<T> {
    fn clone(&self) -> Self {
        Self {
            value: self.value.clone(),
            slots: Default::default(),
        }
    }
}

/// The requests that are remembered.
#[derive(Debug, Default)]
pub(crate) struct Requests(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    requests: [Option<(Arc<Numbered>, u64)>; SLOTS],
    /// Grows with each call.
    now: u64,
    /// Requests so far.
    count: u64,
}

/// One request under its number, which no other ever gets.
#[derive(Debug)]
struct Numbered {
    request: PodRequest,
    number: u64,
    slot: usize,
    rejections: [OnceLock<Rejection>; REJECTIONS],
}

/// The copy remembers nothing.
impl Clone for Requests {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Requests {
    /// What is remembered of this request.
    pub(crate) fn of(&self, request: &PodRequest) -> Memory {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.now += 1;
        let now = known.now;
        for (numbered, used) in known.requests.iter_mut().flatten() {
            if numbered.request == *request {
                *used = now;
                return Memory(Arc::clone(numbered));
            }
        }
        // The place of the one that was asked about longest ago.
        known.count += 1;
        let number = known.count;
        let places = known.requests.iter_mut().enumerate();
        let oldest = places.min_by_key(|(_, place)| place.as_ref().map(|(_, used)| *used));
        let Some((slot, place)) = oldest else {
            unreachable!("there are {SLOTS} places");
        };
        let numbered = Arc::new(Numbered {
            request: request.clone(),
            number,
            slot,
            rejections: [const { OnceLock::new() }; REJECTIONS],
        });
        *place = Some((Arc::clone(&numbered), now));
        Memory(numbered)
    }
}

/// What is remembered of one request.
#[derive(Debug)]
pub(crate) struct Memory(Arc<Numbered>);

/// What was found for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding<'m> {
    /// It fits.
    Fits,
    /// It fits, and this well.
    Scored(u8),
    /// It does not.
    Rejected(&'m Rejection),
}

// A finding in 64 bits: the number of the request, 8 bits for the rejection (0: it fits), and 8
// for the score.
const NOT_SCORED: u64 = 0xff;
const NUMBER_SHIFT: u32 = 16;
const REJECTION_SHIFT: u32 = 8;

impl Memory {
    /// What was found on the value as it is now.
    pub(crate) fn recall<T>(&self, of: &Memoized<T>) -> Option<Finding<'_>> {
        // A finding is whole in itself, and who reads it has the lock under which values change:
        // nothing is ordered by it.
        let packed = of.slots.get(self.0.slot)?.load(Ordering::Relaxed);
        if packed >> NUMBER_SHIFT != self.0.number {
            return None;
        }
        match (packed >> REJECTION_SHIFT) & 0xff {
            0 if packed & 0xff == NOT_SCORED => Some(Finding::Fits),
            0 => Some(Finding::Scored(u8::try_from(packed & 0xff).ok()?)),
            one_more => {
                let at = usize::try_from(one_more - 1).ok()?;
                Some(Finding::Rejected(self.0.rejections.get(at)?.get()?))
            }
        }
    }

    /// Keeps that it fits the value as it is now, and how well where that is known.
    pub(crate) fn keep_fit<T>(&self, of: &Memoized<T>, score: Option<u8>) {
        self.store(of, score.map_or(NOT_SCORED, u64::from));
    }

    /// Keeps that it does not, and why.
    pub(crate) fn keep_rejection<T>(&self, of: &Memoized<T>, rejection: &Rejection) {
        let place = self.0.rejections.iter().position(|place| {
            // Another call may fill the place in between, with the same or another.
            place.get_or_init(|| rejection.clone()) == rejection
        });
        // With more of them than there are places the rest is worked out each time.
        if let Some(at) = place.and_then(|at| u64::try_from(at).ok()) {
            self.store(of, (at + 1) << REJECTION_SHIFT);
        }
    }

    fn store<T>(&self, of: &Memoized<T>, finding: u64) {
        if let Some(slot) = of.slots.get(self.0.slot) {
            slot.store(self.0.number << NUMBER_SHIFT | finding, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[path = "memo_tests.rs"]
mod tests;
