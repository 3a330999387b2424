//! Other cards than planned, where kubelet gives nothing of the planned one.
//!
//! After its start kubelet takes the first pods in before it knows who has ended, and counts their
//! devices as taken. On such a card it gives nothing, and would reject for good what the node has
//! room for. Its own record tells which devices these are; what is known of them only steers, and
//! refuses nothing.

use model::{
    ledger::{Hold, Ledger},
    name::PodUid,
    plan::Grant,
    request::ContainerRequest,
};

use super::{Core, admit::not_offered};
use crate::{
    book, checkpoint::Checkpoint, grants, identity::Consumer, prefer::NotOffered, refusal::Refusal,
};

impl Core {
    /// Kubelet's record as it stood at its start: who is not known here has ended. Without one
    /// kubelet knows that too by now.
    pub fn set_stale(&mut self, record: Option<&Checkpoint>) {
        self.stale.clear();
        let Some(record) = record else { return };
        let ended = record
            .pods
            .iter()
            .filter(|(uid, _)| !self.book.contains_key(*uid));
        let stale: Vec<(PodUid, Hold)> = ended
            .filter_map(|(uid, containers)| {
                let ids = containers.values().flat_map(|c| c.values()).flatten();
                let ids: Vec<_> = ids.filter_map(|id| id.parse().ok()).collect();
                let grants = grants::of_ids(&ids, &self.settings, self.ledger.inventory());
                Some((uid.clone(), book::hold_alone(grants)?))
            })
            .collect();
        self.stale = stale;
    }

    /// The planned grants, or others where kubelet's record says that it will not give these.
    pub(super) fn past_stale(
        &self,
        consumer: &Consumer,
        asked: &ContainerRequest,
        planned: Vec<Grant>,
    ) -> Vec<Grant> {
        let mut ledger: Option<Ledger> = None;
        for (uid, hold) in self.stale.iter().filter(|(uid, _)| *uid != consumer.uid) {
            let ledger = ledger.get_or_insert_with(|| self.ledger.clone());
            ledger.hold_truth(uid, hold.clone());
        }
        let Some(ledger) = ledger else { return planned };
        if self.fits(consumer, &planned, &ledger).is_ok() {
            return planned;
        }
        self.place_alone(consumer, asked, &ledger)
            .unwrap_or(planned)
    }

    /// Whether nothing of the container is given yet, and nothing has to be handed on to it.
    pub(super) fn is_free_to_move(&self, consumer: &Consumer, must_include: &[String]) -> bool {
        let given = self.book.get(&consumer.uid);
        must_include.is_empty()
            && given.is_none_or(|e| !e.containers.contains_key(&consumer.container))
    }

    /// The container on other cards than planned.
    pub(super) fn elsewhere(
        &self,
        consumer: &Consumer,
        asked: &ContainerRequest,
        first: NotOffered,
        choose: impl Fn(&[Grant]) -> Result<Vec<String>, NotOffered>,
    ) -> Result<Vec<String>, Refusal> {
        let mut ledger = self.ledger.clone();
        let mut taken = first.card.clone();
        loop {
            ledger.set_inventory(ledger.inventory().without(&taken));
            let Ok(grants) = self.place_alone(consumer, asked, &ledger) else {
                // The planned card is what its owner should read of.
                return Err(not_offered(consumer, first));
            };
            match choose(&grants) {
                Ok(ids) => {
                    tracing::info!(
                        pod = %consumer.pod,
                        container = %consumer.container,
                        why = %first,
                        "placed on another card"
                    );
                    return Ok(ids);
                }
                Err(why) if why.card == taken => return Err(not_offered(consumer, first)),
                Err(why) => taken = why.card,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{
        annotation::write_plan,
        plan::{ContainerGrants, GrantMode, Plan},
        quantity::{CorePercent, MemoryBytes},
    };

    use super::*;
    use crate::fixture::{
        CORE, MEMORY, card_id, cards, container, ids, resource, settings, simple, uid,
    };

    fn core(count: u32, gib: u64) -> Core {
        let mut core = Core::new(settings());
        core.set_cards(cards(count, gib));
        core
    }

    fn share(card: &str, core: u32, gib: u64) -> Grant {
        Grant {
            card: card_id(card),
            mode: GrantMode::Share {
                core: CorePercent::new(core),
                memory: MemoryBytes::from_gib(gib),
            },
        }
    }

    #[test]
    fn a_card_that_kubelet_gives_nothing_of_is_passed_by_where_another_has_room() {
        let planned = |name: &str| Consumer {
            assigned: Some(planned_on("ppu-0")),
            ..consumer_of(name)
        };
        // Devices of a pod that is gone: kubelet has just started and does not know that yet.
        let mut offered = ids("ppu-0", "core", 60..100);
        offered.extend(ids("ppu-1", "core", 0..100));

        let mut core = core(2, 16);
        let chosen = core.prefer(&planned("a"), &resource(CORE), &offered, &[]);
        let mut chosen = chosen.expect("another card");
        chosen.sort_unstable();
        assert_eq!(chosen, ids("ppu-1", "core", 0..50));
        core.allocate(&planned("a"), &resource(CORE), &ids("ppu-1", "core", 0..50))
            .expect("what was preferred");
        let given = &core.book()[&uid("a")].containers[&container("main")];
        assert_eq!(given.grants, [share("ppu-1", 50, 8)]);
        // Its other resource follows, and is not moved again.
        let memory = ids("ppu-0", "mem", 0..16);
        let refused = core.prefer(&planned("a"), &resource(MEMORY), &memory, &[]);
        assert!(
            matches!(refused, Err(Refusal::NotOffered { why, .. }) if why.card == card_id("ppu-1"))
        );

        // Where no other card has room the planned one is named.
        let mut full = self::core(1, 16);
        let refused = full.prefer(
            &planned("a"),
            &resource(CORE),
            &ids("ppu-0", "core", 60..100),
            &[],
        );
        assert!(
            matches!(refused, Err(Refusal::NotOffered { why, .. }) if why.card == card_id("ppu-0") && why.offered == 40)
        );
        // Nor from under an init container, whose devices kubelet hands on.
        let mut handed = self::core(2, 16);
        let must = ids("ppu-0", "core", 60..61);
        let refused = handed.prefer(&planned("a"), &resource(CORE), &offered, &must);
        assert!(matches!(refused, Err(Refusal::NotOffered { .. })));
    }

    #[test]
    fn what_kubelet_s_record_holds_back_steers_the_first_call_already() {
        // Memory is asked first, and there is enough of it: only the record knows of the core.
        let mut core = core(2, 16);
        let record = r#"{"Data":{"PodDeviceEntries":[
            {"PodUID":"gone","ContainerName":"c","ResourceName":"aliyun.com/gpu-core",
             "DeviceIDs":{"-1":[IDS]}}]}}"#;
        let held: Vec<String> = ids("ppu-0", "core", 0..60);
        let held: Vec<String> = held.iter().map(|id| format!("{id:?}")).collect();
        let record = record.replace("IDS", &held.join(","));
        let (record, _) = crate::checkpoint::parse(&record).expect("a record");
        core.set_stale(Some(&record));
        let mut offered = ids("ppu-0", "mem", 0..16);
        offered.extend(ids("ppu-1", "mem", 0..16));
        let asks = || Consumer {
            assigned: Some(planned_on("ppu-0")),
            ..consumer_of("a")
        };
        let chosen = core.prefer(&asks(), &resource(MEMORY), &offered, &[]);
        assert!(
            chosen
                .expect("a card")
                .iter()
                .all(|id| id.starts_with("ppu-1."))
        );

        // Where nothing else has room the plan stands: the record only steers.
        core.set_cards(cards(1, 16));
        let chosen = core.prefer(&asks(), &resource(MEMORY), &ids("ppu-0", "mem", 0..16), &[]);
        assert!(
            chosen
                .expect("a card")
                .iter()
                .all(|id| id.starts_with("ppu-0."))
        );
        core.set_cards(cards(2, 16));
        core.set_stale(None);
        let chosen = core.prefer(&asks(), &resource(MEMORY), &offered, &[]);
        assert!(
            chosen
                .expect("a card")
                .iter()
                .all(|id| id.starts_with("ppu-0."))
        );
    }

    fn planned_on(card: &str) -> String {
        write_plan(&Plan {
            containers: vec![ContainerGrants {
                container: container("main"),
                grants: vec![share(card, 50, 8)],
            }],
        })
    }

    fn consumer_of(name: &str) -> Consumer {
        let pod = simple(name, 1, &[(CORE, 50), (MEMORY, 8)]);
        Consumer {
            pod: pod.pod,
            uid: pod.uid,
            container: container("main"),
            request: pod.request.expect("a request"),
            assigned: None,
        }
    }
}
