//! Following the Runtime's cards: what is offered to kubelet, what the node's inventory says.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::StreamExt;
use kit::{Failure, Ready, Tasks};
use model::card::Inventory;
use runtime_proto::client::{CardEvent, Cards};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{admission::Admission, node::Wish, offers::offers, registrar::Offers};

/// Where the cards' news goes.
pub struct CardWatch {
    /// The state, and the Runtime.
    pub admission: Arc<Admission>,
    /// How long the Runtime may be away before its cards count as unhealthy.
    pub grace: Duration,
    /// To the registrar.
    pub offers: watch::Sender<Offers>,
    /// To the node's writer.
    pub wish: watch::Sender<Option<Wish>>,
    /// Counts the Runtime's arrivals.
    pub arrived: watch::Sender<u64>,
    /// Met while the Runtime is there.
    pub runtime_ready: Ready,
    /// Met while every resource's list is one that kubelet takes.
    pub sizes_ready: Ready,
}

/// Where the Runtime stands.
enum Link {
    Never,
    Up,
    /// Away; its cards count as healthy until then, or do so no more.
    Lost(Option<Instant>),
}

impl CardWatch {
    /// Runs until shutdown.
    pub async fn run(self, tasks: Tasks) -> Result<(), Failure> {
        let mut events = self.admission.runtime.watch_cards();
        let mut link = Link::Never;
        let mut cards = Inventory::default();
        let mut malformed = BTreeSet::new();
        let mut oversized = BTreeSet::new();
        loop {
            let grace_ends = match link {
                Link::Lost(Some(at)) => at,
                _ => Instant::now(),
            };
            tokio::select! {
                () = tasks.shutdown() => return Ok(()),
                event = events.next() => match event {
                    None => return Ok(()),
                    Some(CardEvent::Cards(list)) => {
                        self.say_malformed(&mut malformed, &list);
                        say_health(&cards, &list.inventory);
                        cards = list.inventory;
                        self.admission.core().set_cards(cards.clone());
                        self.admission.metrics.runtime_up.set(1);
                        self.runtime_ready.met();
                        let arrived = !matches!(link, Link::Up);
                        link = Link::Up;
                        self.publish(&cards, false, &mut oversized);
                        if arrived {
                            tracing::info!(cards = cards.cards().len(), "the Runtime is there");
                            self.arrived.send_modify(|n| *n += 1);
                        }
                    }
                    Some(CardEvent::Lost { error, .. }) => {
                        self.admission.metrics.runtime_up.set(0);
                        self.runtime_ready.unmet(error.to_string());
                        match link {
                            Link::Up => {
                                tracing::warn!(%error, grace = ?self.grace, "the Runtime is away");
                                link = Link::Lost(Some(Instant::now() + self.grace));
                            }
                            Link::Never => {
                                tracing::warn!(%error, "waiting for the Runtime");
                                link = Link::Lost(None);
                            }
                            Link::Lost(_) => {}
                        }
                    }
                },
                () = sleep_until(grace_ends), if matches!(link, Link::Lost(Some(_))) => {
                    tracing::warn!("the Runtime stays away: its cards are unhealthy");
                    link = Link::Lost(None);
                    self.publish(&cards, true, &mut oversized);
                }
            }
        }
    }

    fn publish(&self, cards: &Inventory, runtime_lost: bool, oversized: &mut BTreeSet<String>) {
        let settings = self.admission.core().settings().clone();
        let (offered, too_large) = offers(cards, &settings, runtime_lost);
        let now: BTreeSet<String> = too_large.iter().map(ToString::to_string).collect();
        for why in now.difference(oversized) {
            tracing::error!("{why}");
        }
        self.admission
            .metrics
            .not_offered
            .set(i64::try_from(now.len()).unwrap_or(i64::MAX));
        if now.is_empty() {
            self.sizes_ready.met();
        } else {
            let all: Vec<&str> = now.iter().map(String::as_str).collect();
            self.sizes_ready.unmet(all.join("; "));
        }
        *oversized = now;
        self.wish.send_replace(Some(Wish {
            cards: cards.clone(),
            offered: offered.iter().map(|o| o.resource.clone()).collect(),
        }));
        let offered = offered.into_iter().map(Arc::new).collect();
        self.offers.send_replace(Some(offered));
    }

    fn say_malformed(&self, said: &mut BTreeSet<String>, list: &Cards) {
        let now: BTreeSet<String> = list.malformed.iter().cloned().collect();
        for line in now.difference(said) {
            tracing::warn!("the Runtime's card list: {line}");
            self.admission
                .metrics
                .malformed
                .with_label_values(&["card"])
                .inc();
        }
        *said = now;
    }
}

/// One line for each card that came, went, or changed its health.
fn say_health(before: &Inventory, after: &Inventory) {
    use model::card::Health;
    for card in after.cards() {
        let was = before.get(&card.id).map(|c| &c.health);
        match (&card.health, was) {
            (Health::Unhealthy(why), was) if was != Some(&card.health) => {
                tracing::warn!(card = %card.id, why, "card unhealthy");
            }
            (Health::Healthy, Some(Health::Unhealthy(_))) => {
                tracing::info!(card = %card.id, "card healthy again");
            }
            _ => {}
        }
    }
    for card in before.cards() {
        if after.get(&card.id).is_none() {
            tracing::warn!(card = %card.id, "card is gone from the Runtime's list");
        }
    }
}
