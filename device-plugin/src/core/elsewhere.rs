//! Other cards than planned, where kubelet gives nothing of the planned one.
//!
//! After its start kubelet takes the first pods in before it knows who has ended, and counts their
//! devices as taken. On such a card it gives nothing, and would reject for good what the node has
//! room for. Its own record tells which devices these are; what is known of them only steers, and
//! refuses nothing.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    device_id::DeviceId,
    name::{CardId, ResourceName},
    plan::Grant,
    request::ContainerRequest,
    settings::Gives,
};

use super::{Core, admit::not_offered};
use crate::{
    checkpoint::Checkpoint, grants, identity::Consumer, prefer::NotOffered, refusal::Refusal,
};

/// Device ids by resource.
pub(super) type Stale = BTreeMap<String, BTreeSet<String>>;

impl Core {
    /// Kubelet's record as it stood at its start: who is not known here has ended. Without one
    /// kubelet knows that too by now.
    pub fn set_stale(&mut self, record: Option<&Checkpoint>) {
        self.stale.clear();
        let pods = record.iter().flat_map(|r| &r.pods);
        let ended = pods.filter(|(uid, _)| !self.book.contains_key(*uid));
        for (resource, ids) in ended.flat_map(|(_, containers)| containers.values().flatten()) {
            let stale = self.stale.entry(resource.clone()).or_default();
            stale.extend(ids.iter().cloned());
        }
    }

    /// Kubelet gives what its record had as taken: it knows who has ended.
    pub(super) fn forget_stale_if_offered(&mut self, resource: &ResourceName, offered: &[String]) {
        let stale = self.stale.get(resource.as_str());
        if stale.is_some_and(|s| offered.iter().any(|id| s.contains(id))) {
            self.stale.clear();
        }
    }

    /// Whether kubelet, by its record, can give what these grants need of the container's other
    /// resources; `resource` is the one that it tells of itself.
    pub(super) fn others_are_offered(
        &self,
        asked: &ContainerRequest,
        resource: &ResourceName,
        grants: &[Grant],
    ) -> Result<(), NotOffered> {
        for amount in asked.amounts.iter().filter(|a| a.resource != *resource) {
            let name = amount.resource.as_str();
            let (Some(stale), Some(setting)) = (self.stale.get(name), self.settings.resource(name))
            else {
                continue;
            };
            for (card, wanted) in
                grants::wanted(grants, setting, amount.count, self.ledger.inventory())
            {
                let on_card = |id: &&String| id.parse::<DeviceId>().is_ok_and(|d| d.card == card);
                let given = self.book.values().flat_map(|e| e.containers.values());
                let given = given.filter_map(|g| g.devices.get(name)).flatten();
                let taken: BTreeSet<&String> = stale.iter().chain(given).filter(on_card).collect();
                let all = self.devices_of(&card, setting.gives, amount.resource.as_str());
                let offered = all.saturating_sub(taken.len());
                let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
                if offered < wanted {
                    return Err(NotOffered {
                        card,
                        offered,
                        wanted,
                    });
                }
            }
        }
        Ok(())
    }

    /// How many devices of a resource a card has.
    fn devices_of(&self, card: &CardId, gives: Gives, resource: &str) -> usize {
        let count = match gives {
            Gives::WholeCard => 1,
            Gives::CorePercent => 100,
            Gives::Memory => {
                let setting = self.settings.resource(resource);
                let card = self.ledger.inventory().get(card);
                setting
                    .zip(card)
                    .map_or(0, |(s, c)| s.memory_unit().count_in(c.memory))
            }
        };
        usize::try_from(count).unwrap_or(usize::MAX)
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
    use crate::core::Planned;
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
        let chosen = core.prefer(
            &planned("a"),
            &resource(CORE),
            &offered,
            &[],
            Planned::Stands,
        );
        let mut chosen = chosen.expect("another card");
        chosen.sort_unstable();
        assert_eq!(chosen, ids("ppu-1", "core", 0..50));
        core.allocate(&planned("a"), &resource(CORE), &ids("ppu-1", "core", 0..50))
            .expect("what was preferred");
        let given = &core.book()[&uid("a")].containers[&container("main")];
        assert_eq!(given.grants, [share("ppu-1", 50, 8)]);
        // Its other resource follows, and is not moved again.
        let memory = ids("ppu-0", "mem", 0..16);
        let refused = core.prefer(
            &planned("a"),
            &resource(MEMORY),
            &memory,
            &[],
            Planned::Stands,
        );
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
            Planned::Stands,
        );
        assert!(
            matches!(refused, Err(Refusal::NotOffered { why, .. }) if why.card == card_id("ppu-0") && why.offered == 40)
        );
        // Nor from under an init container, whose devices kubelet hands on.
        let mut handed = self::core(2, 16);
        let must = ids("ppu-0", "core", 60..61);
        let refused = handed.prefer(
            &planned("a"),
            &resource(CORE),
            &offered,
            &must,
            Planned::Stands,
        );
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
        let chosen = core.prefer(&asks(), &resource(MEMORY), &offered, &[], Planned::Stands);
        assert!(
            chosen
                .expect("a card")
                .iter()
                .all(|id| id.starts_with("ppu-1."))
        );

        // Where nothing else has room the plan stands: the record only steers.
        core.set_cards(cards(1, 16));
        let chosen = core.prefer(
            &asks(),
            &resource(MEMORY),
            &ids("ppu-0", "mem", 0..16),
            &[],
            Planned::Stands,
        );
        assert!(
            chosen
                .expect("a card")
                .iter()
                .all(|id| id.starts_with("ppu-0."))
        );
        core.set_cards(cards(2, 16));
        core.set_stale(None);
        let chosen = core.prefer(&asks(), &resource(MEMORY), &offered, &[], Planned::Stands);
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
