//! All resources' endpoints: served, registered, kept registered, withdrawn.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, Hasher, RandomState},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use kit::{Failure, Ready, Tasks};
use model::name::ResourceName;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep_until, timeout},
};

use crate::{
    admission::{Admission, Calls},
    changes::Changes,
    endpoint::{Endpoint, file_id},
    handover, kubelet,
    offers::Offer,
    registration::{Do, FileId, Registration, Sight},
    socket_name::{self, socket_name},
};

/// A look at the folders, a few stat calls each: for what their watch does not tell.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The same where there is no watch.
const LOOK_OFTEN: Duration = Duration::from_secs(1);

/// The Runtime answers within 8 s, and a shutdown may take 25, of which the drain takes 12.
const LAST_CALL_WITHIN: Duration = Duration::from_secs(10);

/// What the cards offer; none before they are known.
pub type Offers = Option<Vec<Arc<Offer>>>;

/// Where kubelet is met.
pub struct Folders {
    /// Its own socket and its record of devices are there.
    pub device_plugins: PathBuf,
    /// Where its plugin watcher is to find the sockets; in place of registering them.
    pub plugins_registry: Option<PathBuf>,
}

impl Folders {
    fn sockets(&self) -> &Path {
        self.plugins_registry
            .as_ref()
            .unwrap_or(&self.device_plugins)
    }

    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.device_plugins]
            .into_iter()
            .chain(&self.plugins_registry)
    }

    fn kubelet(&self) -> PathBuf {
        self.device_plugins.join(socket_name::KUBELET)
    }
}

/// The registrar.
pub struct Registrar {
    folders: Folders,
    admission: Arc<Admission>,
    ready: Ready,
    slots: BTreeMap<ResourceName, Slot>,
    asking: JoinSet<Asked>,
    leaving: JoinSet<()>,
    started: Instant,
    /// The kubelet that is there, to notice a restart once for all resources.
    kubelet: Option<FileId>,
    /// Told when kubelet has been restarted.
    restarted: watch::Sender<u64>,
    handover: Handover,
}

/// Between this and the node's writer: when pods may be bound here.
pub struct Handover {
    /// Whether kubelet takes pods with cards.
    pub open: watch::Sender<bool>,
    /// Whether the scheduler was told, or could not be told, to bind nothing more.
    pub closed: watch::Receiver<bool>,
}

struct Slot {
    offer: Arc<Offer>,
    endpoint: Option<Endpoint>,
    registration: Registration,
    /// What was last logged to be wrong.
    failing: Option<String>,
}

struct Asked {
    resource: ResourceName,
    kubelet: FileId,
    answer: Result<(), String>,
}

impl Registrar {
    /// `restarted` counts kubelet's restarts.
    pub fn new(
        folders: Folders,
        admission: Arc<Admission>,
        ready: Ready,
        restarted: watch::Sender<u64>,
        handover: Handover,
    ) -> Self {
        Self {
            folders,
            admission,
            ready,
            slots: BTreeMap::new(),
            asking: JoinSet::new(),
            leaving: JoinSet::new(),
            started: Instant::now(),
            kubelet: None,
            restarted,
            handover,
        }
    }

    /// Runs until shutdown.
    pub async fn run(
        mut self,
        mut offers: watch::Receiver<Offers>,
        tasks: Tasks,
    ) -> Result<(), Failure> {
        self.remove_stale();
        let folder = Changes::of(self.folders.all().cloned().collect());
        let mut ticks = interval(if folder.are_told() {
            LOOK_EVERY
        } else {
            LOOK_OFTEN
        });
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = self.due();
            tokio::select! {
                () = tasks.shutdown() => break,
                changed = offers.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    let now = offers.borrow_and_update().clone();
                    if let Some(now) = now {
                        self.offer(now);
                    }
                }
                Some(asked) = self.asking.join_next(), if !self.asking.is_empty() => {
                    if let Ok(asked) = asked {
                        self.asked(asked);
                    }
                }
                Some(_) = self.leaving.join_next(), if !self.leaving.is_empty() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
                () = folder.next() => self.look_for_restart(),
                _ = ticks.tick() => {
                    folder.renew();
                    self.look_for_restart();
                }
            }
            self.step_all();
            self.say_ready(offers.borrow().is_some());
        }
        handover::drain(&self.admission, self.handover.closed.clone()).await;
        // Kubelet rejects a pod for good when it gets no answer: the call under way ends first.
        let admission = self.admission.clone();
        let _quiet = timeout(LAST_CALL_WITHIN, admission.quiet()).await;
        // Dropped, the endpoints take their sockets with them.
        drop(self);
        Ok(())
    }

    /// Sockets of an earlier run: kubelet has no stream to them any more.
    fn remove_stale(&self) {
        let entries = self.folders.all().flat_map(std::fs::read_dir);
        for entry in entries.flatten().flatten() {
            let name = entry.file_name();
            if name.to_str().is_some_and(socket_name::is_ours)
                && std::fs::remove_file(entry.path()).is_ok()
            {
                tracing::info!(socket = %entry.path().display(), "removed a socket of an earlier run");
            }
        }
    }

    fn offer(&mut self, offers: Vec<Arc<Offer>>) {
        let now: BTreeSet<&ResourceName> = offers.iter().map(|o| &o.resource).collect();
        let gone: Vec<ResourceName> = self
            .slots
            .keys()
            .filter(|r| !now.contains(r))
            .cloned()
            .collect();
        for resource in gone {
            if let Some(slot) = self.slots.remove(&resource) {
                tracing::info!(%resource, "withdrawn");
                if let Some(endpoint) = slot.endpoint {
                    self.leaving.spawn(endpoint.withdraw());
                }
            }
        }
        for offer in offers {
            match self.slots.get_mut(&offer.resource) {
                Some(slot) if slot.offer == offer => {}
                Some(slot) => {
                    if let Some(endpoint) = &slot.endpoint {
                        endpoint.send(offer.clone());
                    }
                    slot.offer = offer;
                }
                None => {
                    self.slots.insert(
                        offer.resource.clone(),
                        Slot {
                            offer,
                            endpoint: None,
                            registration: Registration::new(),
                            failing: None,
                        },
                    );
                }
            }
        }
    }

    fn look_for_restart(&mut self) {
        let now = file_id(&self.folders.kubelet());
        if now.is_some() && now != self.kubelet {
            self.admission.kubelet_started();
            if self.kubelet.is_some() {
                tracing::info!("kubelet was restarted");
                self.restarted.send_modify(|n| *n += 1);
            }
            self.kubelet = now;
        }
    }

    /// When the next failed registration is to be tried again.
    fn due(&self) -> Option<Instant> {
        let slots = self.slots.values();
        let due = slots.filter_map(|slot| slot.registration.due()).min()?;
        let due = self.started + due;
        // One that is past waits for kubelet, not for a moment.
        (due > Instant::now()).then_some(due)
    }

    fn step_all(&mut self) {
        let kubelet = file_id(&self.folders.kubelet());
        let now = self.started.elapsed();
        for (resource, slot) in &mut self.slots {
            // Serve, then register: at most two steps.
            for _ in 0..2 {
                let sight = Sight {
                    now,
                    kubelet,
                    served: slot.endpoint.as_ref().is_some_and(Endpoint::is_served),
                    streams: slot.endpoint.as_ref().map_or(0, Endpoint::streams),
                };
                let was_registered = slot.registration.is_registered();
                match slot.registration.step(&sight, random()) {
                    Do::Nothing => {
                        if was_registered && !slot.registration.is_registered() {
                            slot.lose(&self.folders);
                        }
                        break;
                    }
                    Do::Serve => {
                        // The old one first: it takes its socket with it.
                        slot.endpoint = None;
                        let calls = Calls {
                            admission: self.admission.clone(),
                            resource: resource.clone(),
                        };
                        match Endpoint::serve(self.folders.sockets(), calls, slot.offer.clone()) {
                            Ok(endpoint) => slot.endpoint = Some(endpoint),
                            Err(error) => {
                                slot.registration.fail(now, random());
                                let folder = self.folders.sockets().display();
                                let why = format!("socket in {folder}: {error}");
                                slot.fails(resource, why);
                                break;
                            }
                        }
                    }
                    Do::Register(kubelet) => {
                        let socket = self.folders.kubelet();
                        let resource = resource.clone();
                        let watched = self.folders.plugins_registry.as_ref();
                        let (endpoint, name) = (socket_name(&resource), resource.to_string());
                        let found = watched.and(slot.endpoint.as_ref()).map(Endpoint::found);
                        self.asking.spawn(async move {
                            let (answer, kubelet) = match found {
                                // The one that finds it may have started since.
                                Some(found) => (found.await, file_id(&socket).unwrap_or(kubelet)),
                                None => (kubelet::register(&socket, endpoint, name).await, kubelet),
                            };
                            Asked {
                                resource,
                                kubelet,
                                answer,
                            }
                        });
                        break;
                    }
                }
            }
        }
    }

    fn asked(&mut self, asked: Asked) {
        let outcome = if asked.answer.is_ok() { "ok" } else { "failed" };
        self.admission
            .metrics
            .registrations
            .with_label_values(&[outcome])
            .inc();
        let Some(slot) = self.slots.get_mut(&asked.resource) else {
            return;
        };
        match asked.answer {
            Ok(()) => {
                slot.registration.registered(asked.kubelet);
                slot.failing = None;
                tracing::info!(
                    resource = %asked.resource,
                    devices = slot.offer.devices.len(),
                    "registered"
                );
            }
            Err(why) => {
                slot.lose(&self.folders);
                slot.registration.fail(self.started.elapsed(), random());
                slot.fails(&asked.resource, why);
            }
        }
    }

    fn say_ready(&self, cards_known: bool) {
        let missing: Vec<&str> = self
            .slots
            .iter()
            .filter(|(_, slot)| !slot.registration.is_registered())
            .map(|(resource, _)| resource.as_str())
            .collect();
        let registered = self.slots.len() - missing.len();
        self.admission
            .metrics
            .registered
            .set(i64::try_from(registered).unwrap_or(i64::MAX));
        let open = registered > 0 && *self.admission.rebuilt.borrow();
        self.handover
            .open
            .send_if_modified(|was| std::mem::replace(was, open) != open);
        // While kubelet is being asked there is nothing new to say.
        if !cards_known || !self.asking.is_empty() {
            return;
        }
        if missing.is_empty() {
            self.ready.met();
        } else {
            self.ready.unmet(format!(
                "not registered with kubelet: {}",
                missing.join(", ")
            ));
        }
    }
}

impl Slot {
    /// Kubelet's plugin watcher may have done with a socket: it comes to a new one.
    fn lose(&mut self, folders: &Folders) {
        if folders.plugins_registry.is_some() {
            self.endpoint = None;
        }
    }

    fn fails(&mut self, resource: &ResourceName, why: String) {
        if self.failing.as_ref() != Some(&why) {
            tracing::warn!(%resource, why, "not registered, trying again");
            self.failing = Some(why);
        }
    }
}

/// Any value: it only spreads retries.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
