//! Kubelet's two calls for a pod in admission.

use std::borrow::Cow;

use model::{
    annotation,
    card::Health,
    device_id::DeviceKind,
    ledger::Ledger,
    name::{CardId, ContainerName, ResourceName},
    placement,
    plan::{ContainerGrants, Grant, Plan},
    request::{Ask, ContainerRequest, PodRequest, Role},
    settings::ResourceSetting,
};
use runtime_proto::client::ContainerEdits;

use super::{Assertion, Core, Preferred, REMEMBERED, reused::Reused};
use crate::{
    book::{self, Given, PodEntry, RuntimeState},
    grants::{self, BadDevices},
    identity::Consumer,
    prefer::{self, NotOffered},
    refusal::Refusal,
};

/// What an Allocate needs next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The Runtime has answered for this container already: the same answer again.
    Answer(ContainerEdits),
    /// The ledger has it; the Runtime is to grant it, then [`Core::granted`] or
    /// [`Core::refuse`] follows.
    Ask(Assertion),
}

/// How a plan that the ledger has no room for is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planned {
    /// What is in the way may end in a moment.
    Stands,
    /// It will not: other cards will do.
    MayMove,
}

impl Core {
    /// The device ids that kubelet should give to this consumer.
    pub fn prefer(
        &mut self,
        consumer: &Consumer,
        resource: &ResourceName,
        available: &[String],
        must_include: &[String],
        plan: Planned,
    ) -> Result<Vec<String>, Refusal> {
        let setting = self.setting(resource)?;
        let (asked, count) = asked(consumer, resource)?;
        self.forget_stale_if_offered(resource, available);
        let grants = self.wish(consumer, &asked, &setting, available, must_include, plan)?;
        let kind = DeviceKind::of(setting.gives);
        let choose = |grants: &[Grant]| {
            let wanted = grants::wanted(grants, &setting, count, self.ledger.inventory());
            prefer::choose(&wanted, kind, available, must_include)
        };
        let on_planned = || choose(&grants).map_err(|why| not_offered(consumer, why));
        let mut ids = if self.is_free_to_move(consumer, must_include) {
            let all_offered = |grants: &[Grant]| {
                self.others_are_offered(&asked, resource, grants)?;
                choose(grants)
            };
            match all_offered(&grants) {
                Ok(ids) => ids,
                Err(why) => self
                    .elsewhere(consumer, &asked, why, all_offered)
                    .or_else(|_| on_planned())?,
            }
        } else {
            on_planned()?
        };
        let answer = ids.clone();
        ids.sort_unstable();
        self.preferred = Some(Preferred {
            consumer: consumer.clone(),
            resource: resource.clone(),
            ids,
        });
        Ok(answer)
    }

    /// Checks the ids against the request and the ledger, and enters them.
    pub fn allocate(
        &mut self,
        consumer: &Consumer,
        resource: &ResourceName,
        ids: &[String],
    ) -> Result<Step, Refusal> {
        let bad = |why: BadDevices| Refusal::Devices {
            pod: consumer.pod.clone(),
            container: consumer.container.clone(),
            why,
        };
        let setting = self.setting(resource)?;
        let (asked, count) = asked(consumer, resource)?;
        let cards = grants::by_card(&grants::parse(&setting, ids).map_err(bad)?);
        let before = self
            .book
            .get(&consumer.uid)
            .and_then(|e| e.containers.get(&consumer.container))
            .cloned();
        let inventory = self.ledger.inventory();
        let mut given = if let Some(given) = before {
            given
        } else {
            let planned = self.plan_of(consumer)?;
            let planned = planned
                .as_ref()
                .and_then(|p| p.of(consumer.container.as_str()));
            let grants =
                grants::of_cards(&asked, &setting, &cards, planned, &self.settings, inventory)
                    .map_err(bad)?;
            self.usable(consumer, &asked, grants.iter().map(|g| &g.card))?;
            Given {
                grants,
                ..Given::default()
            }
        };
        grants::agree(&given.grants, &setting, count, &cards, inventory).map_err(bad)?;
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        given.devices.insert(resource.as_str().to_owned(), sorted);

        let since = self.ticket();
        let mut entry = self.book.get(&consumer.uid).cloned().unwrap_or_else(|| {
            PodEntry::new(consumer.pod.clone(), Some(consumer.request.clone()), since)
        });
        entry.since = since;
        entry.missed = 0;
        entry.request = Some(consumer.request.clone());
        let answer = given.edits.clone();
        let differs = given.runtime == RuntimeState::Differs;
        let allocation = book::allocation(
            &consumer.uid,
            &consumer.pod,
            &consumer.container,
            &given.grants,
        );
        entry.containers.insert(consumer.container.clone(), given);
        self.ledger
            .hold(&consumer.uid, entry.hold())
            .map_err(|why| Refusal::Conflict {
                pod: consumer.pod.clone(),
                container: consumer.container.clone(),
                why,
            })?;
        self.book.insert(consumer.uid.clone(), entry);
        self.refused.retain(|u| *u != consumer.uid);
        self.ended.retain(|(u, _)| *u != consumer.uid);
        if let (Some(edits), false) = (answer, differs) {
            return Ok(Step::Answer(edits));
        }
        self.releases.remove(&allocation.id);
        self.in_flight = Some((consumer.uid.clone(), consumer.container.clone()));
        Ok(Step::Ask(Assertion {
            allocation,
            release_first: differs,
        }))
    }

    fn setting(&self, resource: &ResourceName) -> Result<ResourceSetting, Refusal> {
        self.settings
            .resource(resource.as_str())
            .map(Cow::into_owned)
            .ok_or_else(|| Refusal::NotOurs(resource.clone()))
    }

    /// The cards must be there, healthy, and of a kind that the name covers.
    fn usable<'a>(
        &self,
        consumer: &Consumer,
        asked: &ContainerRequest,
        cards: impl Iterator<Item = &'a CardId>,
    ) -> Result<(), Refusal> {
        for id in cards {
            let why = match self.ledger.inventory().get(id) {
                None => "is not on this node".to_owned(),
                Some(card) => match &card.health {
                    Health::Unhealthy(why) => format!("is unhealthy: {why}"),
                    Health::Healthy => {
                        let uncovered = asked.amounts.iter().find(|a| {
                            self.settings
                                .resource(a.resource.as_str())
                                .is_some_and(|r| !r.covers(card))
                        });
                        match uncovered {
                            Some(amount) => format!("does not serve {}", amount.resource),
                            None => continue,
                        }
                    }
                },
            };
            return Err(Refusal::Card {
                pod: consumer.pod.clone(),
                container: consumer.container.clone(),
                card: id.clone(),
                why,
            });
        }
        Ok(())
    }

    /// The scheduler's plan, or the one made here at an earlier call of this pod.
    fn plan_of(&self, consumer: &Consumer) -> Result<Option<Plan>, Refusal> {
        if let Some(text) = &consumer.assigned {
            return annotation::read_plan(text)
                .map(Some)
                .map_err(|why| Refusal::BadPlan {
                    pod: consumer.pod.clone(),
                    key: self.settings.annotations.assigned.clone(),
                    why,
                });
        }
        Ok(self
            .planned
            .iter()
            .find(|(uid, _)| *uid == consumer.uid)
            .map(|(_, plan)| plan.clone()))
    }

    /// The grants that the container should get.
    fn wish(
        &mut self,
        consumer: &Consumer,
        asked: &ContainerRequest,
        setting: &ResourceSetting,
        available: &[String],
        must_include: &[String],
        plan: Planned,
    ) -> Result<Vec<Grant>, Refusal> {
        // What one of its calls was answered holds for the others.
        if let Some(given) = self
            .book
            .get(&consumer.uid)
            .and_then(|e| e.containers.get(&consumer.container))
        {
            return Ok(given.grants.clone());
        }
        let all = match self.plan_of(consumer)? {
            Some(plan) => plan,
            None => self.place(consumer)?,
        };
        let planned = all.of(consumer.container.as_str()).unwrap_or_default();
        let asked_cards = match asked.ask {
            Ask::Nothing => 0,
            Ask::Share { .. } | Ask::Partition { .. } => 1,
            Ask::Whole { count, .. } => usize::try_from(count).unwrap_or(usize::MAX),
        };
        if planned.len() != asked_cards {
            return Err(Refusal::PlanDiffers {
                pod: consumer.pod.clone(),
                key: self.settings.annotations.assigned.clone(),
                container: consumer.container.clone(),
                planned: planned.len(),
                asked: asked_cards,
            });
        }
        let reused = Reused {
            setting,
            available,
            must_include,
        };
        let cards = self.with_reused(consumer, asked, planned, &reused);
        let grants = grants::of_cards(
            asked,
            setting,
            &cards,
            None,
            &self.settings,
            self.ledger.inventory(),
        )
        .map_err(|why| Refusal::Devices {
            pod: consumer.pod.clone(),
            container: consumer.container.clone(),
            why,
        })?;
        self.usable(consumer, asked, grants.iter().map(|g| &g.card))?;
        match self.fits(consumer, &grants) {
            Ok(()) => Ok(grants),
            // Its own plan no longer fits when kubelet gave an earlier container another card.
            Err(_) if consumer.assigned.is_none() && must_include.is_empty() => {
                self.place_alone(consumer, asked, &self.ledger)
            }
            // A pod before it was given another card than planned, this one's.
            Err(refusal) if plan == Planned::MayMove && must_include.is_empty() => self
                .place_alone(consumer, asked, &self.ledger)
                .map_err(|_| refusal),
            Err(refusal) => Err(refusal),
        }
    }

    fn fits(&self, consumer: &Consumer, grants: &[Grant]) -> Result<(), Refusal> {
        let mut entry = self.book.get(&consumer.uid).cloned().unwrap_or_else(|| {
            PodEntry::new(consumer.pod.clone(), Some(consumer.request.clone()), 0)
        });
        entry.request = Some(consumer.request.clone());
        entry.containers.insert(
            consumer.container.clone(),
            Given {
                grants: grants.to_vec(),
                ..Given::default()
            },
        );
        self.ledger
            .check(&consumer.uid, &entry.hold())
            .map_err(|why| Refusal::Conflict {
                pod: consumer.pod.clone(),
                container: consumer.container.clone(),
                why,
            })
    }

    /// A pod without a plan: the node's own policy, for all of its containers at once.
    fn place(&mut self, consumer: &Consumer) -> Result<Plan, Refusal> {
        let mut ledger = self.ledger.clone();
        ledger.remove(&consumer.uid);
        let plan = placement::place(&consumer.request, &ledger, &self.settings).map_err(|why| {
            Refusal::NoFit {
                pod: consumer.pod.clone(),
                why,
            }
        })?;
        self.planned.retain(|(uid, _)| *uid != consumer.uid);
        self.planned.push_back((consumer.uid.clone(), plan.clone()));
        if self.planned.len() > REMEMBERED {
            self.planned.pop_front();
        }
        Ok(plan)
    }

    /// One container beside what its pod has so far.
    pub(super) fn place_alone(
        &self,
        consumer: &Consumer,
        asked: &ContainerRequest,
        ledger: &Ledger,
    ) -> Result<Vec<Grant>, Refusal> {
        let alone = PodRequest {
            containers: vec![ContainerRequest {
                role: Role::App,
                ..asked.clone()
            }],
            placement: consumer.request.placement,
        };
        let plan =
            placement::place(&alone, ledger, &self.settings).map_err(|why| Refusal::NoFit {
                pod: consumer.pod.clone(),
                why,
            })?;
        Ok(plan
            .containers
            .into_iter()
            .find(|c: &ContainerGrants| c.container == asked.name)
            .map(|c| c.grants)
            .unwrap_or_default())
    }
}

pub(super) fn not_offered(consumer: &Consumer, why: NotOffered) -> Refusal {
    Refusal::NotOffered {
        pod: consumer.pod.clone(),
        container: consumer.container.clone(),
        why,
    }
}

/// What the consumer's container asks, and how much of this resource.
fn asked(consumer: &Consumer, resource: &ResourceName) -> Result<(ContainerRequest, u64), Refusal> {
    let of = |name: &ContainerName| consumer.request.containers.iter().find(|c| c.name == *name);
    of(&consumer.container)
        .and_then(|c| {
            let amount = c.amounts.iter().find(|a| a.resource == *resource)?;
            Some((c.clone(), amount.count))
        })
        .ok_or_else(|| Refusal::Devices {
            pod: consumer.pod.clone(),
            container: consumer.container.clone(),
            why: BadDevices::AsksNothing,
        })
}
