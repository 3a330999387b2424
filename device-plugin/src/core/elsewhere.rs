//! Other cards than planned, where kubelet gives nothing of the planned one.
//!
//! After its start kubelet takes the first pods in before it knows who has ended, and counts their
//! devices as taken. On such a card it gives nothing, and would reject for good what the node has
//! room for. Its own record tells which devices these are; what is known of them only steers, and
//! refuses nothing.

use std::collections::{BTreeMap, BTreeSet};

use model::{device_id::DeviceId, name::ResourceName, plan::Grant, request::ContainerRequest};

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
            let inventory = self.ledger.inventory();
            for (card, wanted) in grants::wanted(grants, &setting, amount.count, inventory) {
                let on_card = |id: &&String| id.parse::<DeviceId>().is_ok_and(|d| d.card == card);
                let given = self.book.values().flat_map(|e| e.containers.values());
                let given = given.filter_map(|g| g.devices.get(name)).flatten();
                let taken: BTreeSet<&String> = stale.iter().chain(given).filter(on_card).collect();
                let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
                let all = count(grants::on_card(&setting, inventory, &card));
                let offered = all.saturating_sub(taken.len());
                let wanted = count(wanted);
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
                Ok(ids) => return Ok(ids),
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
        plan::{ContainerGrants, Plan},
    };

    use super::*;
    use crate::{
        core::Planned,
        fixture::{
            CORE, MEMORY, card_id, cards, container, core, ids, resource, share, simple, uid,
        },
    };

    #[test]
    fn a_card_that_kubelet_gives_nothing_of_is_passed_by_where_another_has_room() {
        let planned = |name: &str| Consumer {
            assigned: Some(planned_on("ppu-0")),
            ..consumer_of(name)
        };
        // Devices of a pod that is gone: kubelet has just started and does not know that yet.
        let mut offered = ids("ppu-0", "core", 60..100);
        offered.extend(ids("ppu-1", "core", 0..100));

        let mut plugin = core(2, 16);
        let chosen = plugin.prefer(
            &planned("a"),
            &resource(CORE),
            &offered,
            &[],
            Planned::Stands,
        );
        let mut chosen = chosen.expect("another card");
        chosen.sort_unstable();
        assert_eq!(chosen, ids("ppu-1", "core", 0..50));
        plugin
            .allocate(&planned("a"), &resource(CORE), &ids("ppu-1", "core", 0..50))
            .expect("what was preferred");
        let given = &plugin.book()[&uid("a")].containers[&container("main")];
        assert_eq!(given.grants, [share("ppu-1", 50, 8)]);
        // Its other resource follows, and is not moved again.
        let memory = ids("ppu-0", "mem", 0..16);
        let refused = plugin.prefer(
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
        let mut full = core(1, 16);
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
        let mut handed = core(2, 16);
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
        let mut plugin = core(2, 16);
        let record = r#"{"Data":{"PodDeviceEntries":[
            {"PodUID":"gone","ContainerName":"c","ResourceName":"aliyun.com/gpu-core",
             "DeviceIDs":{"-1":[IDS]}}]}}"#;
        let held: Vec<String> = ids("ppu-0", "core", 0..60);
        let held: Vec<String> = held.iter().map(|id| format!("{id:?}")).collect();
        let record = record.replace("IDS", &held.join(","));
        let (record, _) = crate::checkpoint::parse(&record).expect("a record");
        plugin.set_stale(Some(&record));
        let mut offered = ids("ppu-0", "mem", 0..16);
        offered.extend(ids("ppu-1", "mem", 0..16));
        let asks = || Consumer {
            assigned: Some(planned_on("ppu-0")),
            ..consumer_of("a")
        };
        let chosen = plugin.prefer(&asks(), &resource(MEMORY), &offered, &[], Planned::Stands);
        assert!(
            chosen
                .expect("a card")
                .iter()
                .all(|id| id.starts_with("ppu-1."))
        );

        // Where nothing else has room the plan stands: the record only steers.
        plugin.set_cards(cards(1, 16));
        let chosen = plugin.prefer(
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
        plugin.set_cards(cards(2, 16));
        plugin.set_stale(None);
        let chosen = plugin.prefer(&asks(), &resource(MEMORY), &offered, &[], Planned::Stands);
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
