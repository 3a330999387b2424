//! Looks after the certificate: reads the Secret, makes what it needs, serves and publishes.

use std::{collections::BTreeSet, fmt::Display, sync::Arc, time::Duration};

use kit::{Failure, Ready, Tasks};
use model::backoff::Backoff;
use rustls::pki_types::{ServerName, UnixTime};

use super::{
    decide::{Life, Needs, is_for, needs},
    make::{bundle, make},
    read::{Found, read},
    serve::Current,
    store::{Store, StoreError, Version},
};
use crate::metrics::CertificateMetrics;

/// From one look to the next at what is ours.
const OURS_EVERY: Duration = Duration::from_hours(1);

/// From one look to the next where somebody else renews.
const OTHERS_EVERY: Duration = Duration::from_mins(1);

/// The longest wait after failures.
const MOST_BACKOFF: Duration = Duration::from_mins(1);

/// Keeps one server's certificate.
pub(super) struct Keeper {
    store: Store,
    names: Vec<ServerName<'static>>,
    current: Arc<Current>,
    /// Of what is served.
    life: Option<Life>,
    ready: Ready,
    metrics: CertificateMetrics,
    backoff: Backoff,
    /// What was said at the last look and need not be said again.
    said: BTreeSet<String>,
}

/// Something that people are told, once as long as it lasts.
struct Trouble {
    kind: &'static str,
    text: String,
}

/// What came of one look.
struct Look {
    troubles: Vec<Trouble>,
    /// When to look again; `None` after a failure that may be over soon.
    next: Option<Duration>,
}

impl Keeper {
    pub(super) fn new(
        store: Store,
        names: Vec<ServerName<'static>>,
        current: Arc<Current>,
        ready: Ready,
        metrics: CertificateMetrics,
    ) -> Self {
        Self {
            store,
            names,
            current,
            life: None,
            ready,
            metrics,
            backoff: Backoff::new(Duration::from_secs(1), MOST_BACKOFF),
            said: BTreeSet::new(),
        }
    }

    /// Until shutdown.
    pub(super) async fn run(mut self, tasks: Tasks) -> Result<(), Failure> {
        let keep = async {
            loop {
                let wait = self.look(UnixTime::now().as_secs()).await;
                tokio::time::sleep(wait).await;
            }
        };
        tokio::select! {
            () = keep => {}
            () = tasks.shutdown() => {}
        }
        Ok(())
    }

    /// One look at that time (Unix seconds); how long to wait for the next.
    pub(super) async fn look(&mut self, now: u64) -> Duration {
        let mut look = Look {
            troubles: Vec::new(),
            next: None,
        };
        if let Err(trouble) = self.keep(now, &mut look).await {
            look.troubles.push(trouble);
        }
        match self.life {
            Some(life) if !life.is_over(now) => self.ready.met(),
            Some(_) => self.ready.unmet("the certificate is past its end"),
            None => self.wait_for(look.troubles.first()),
        }
        self.tell(look.troubles);
        match look.next {
            Some(wait) => {
                self.backoff.reset();
                wait
            }
            // Replicas are few: no jitter.
            None => self.backoff.next(0),
        }
    }

    /// Nothing is served, and this is why.
    fn wait_for(&mut self, trouble: Option<&Trouble>) {
        let why = trouble.map_or_else(
            || format!("waiting for {}", self.store.secret()),
            |trouble| trouble.text.clone(),
        );
        self.ready.unmet(&why);
        // Which is one log line already.
        self.said.insert(why);
    }

    /// Says what is new and counts all.
    fn tell(&mut self, troubles: Vec<Trouble>) {
        let mut said = BTreeSet::new();
        for Trouble { kind, text } in troubles {
            self.metrics.failures.with_label_values(&[kind]).inc();
            if !self.said.contains(&text) {
                tracing::warn!("certificate: {text}");
            }
            said.insert(text);
        }
        if said.is_empty() && !self.said.is_empty() {
            tracing::info!("certificate: all is well again");
        }
        self.said = said;
    }

    async fn keep(&mut self, now: u64, look: &mut Look) -> Result<(), Trouble> {
        let version = self.store.read().await.map_err(|e| trouble("read", &e))?;
        let mut found = read(&version.content, now);
        let mut needed = needs(&found, &self.names, now);
        for fault in &found.faults {
            look.troubles
                .push(trouble("malformed", &self.of_secret(fault)));
        }
        if found.is_ours && needed.any() {
            match self.renew(&version, &found, needed, now).await {
                Ok(Some(made)) => {
                    found = made;
                    needed = Needs::NOTHING;
                }
                // What the other replica wrote is read next.
                Ok(None) => return Ok(()),
                Err(failed) => look.troubles.push(failed),
            }
        }
        // What is no good is better than nothing, and worse than what is served already.
        if !found.is_ours || !needed.serving || self.life.is_none() {
            self.serve(&found);
        }
        if !found.is_ours {
            look.troubles.extend(self.doubts(&found, now));
        }
        self.current.trust(&found.authorities);
        if !found.authorities.is_empty() {
            let published = self.store.publish(&bundle(&found.authorities)).await;
            published.map_err(|error| trouble("publish", &error))?;
        }
        look.next = if found.is_ours {
            (!needed.any()).then_some(OURS_EVERY)
        } else {
            Some(OTHERS_EVERY)
        };
        Ok(())
    }

    /// Makes and writes what is needed. `None` where somebody else was faster.
    async fn renew(
        &self,
        version: &Version,
        found: &Found,
        needed: Needs,
        now: u64,
    ) -> Result<Option<Found>, Trouble> {
        let content = make(&version.content, found, needed, &self.names, now)
            .map_err(|error| trouble("make", &self.of_secret(&error)))?;
        let made = read(&content, now);
        if needs(&made, &self.names, now).any() {
            let why = "what this CA signs is not accepted for the server's names";
            return Err(trouble("make", &self.of_secret(&why)));
        }
        match self.store.replace(version, &content).await {
            Ok(()) => {
                let Needs { authority, serving } = needed;
                let secret = self.store.secret();
                tracing::info!(secret, ca = authority, serving, "made certificates");
                Ok(Some(made))
            }
            Err(StoreError::Overtaken(_)) => Ok(None),
            Err(error) => Err(trouble("write", &error)),
        }
    }

    /// New connections get what was found.
    fn serve(&mut self, found: &Found) {
        let Some(serving) = &found.serving else {
            return;
        };
        self.life = Some(serving.life);
        let until = i64::try_from(serving.life.until).unwrap_or(i64::MAX);
        self.metrics.expiry.set(until);
        if self.current.set(Arc::clone(&serving.certified)) {
            tracing::info!(until, "serving with another certificate");
        }
    }

    /// What is to be said of a certificate that somebody else looks after.
    fn doubts(&self, found: &Found, now: u64) -> Vec<Trouble> {
        let Some(serving) = &found.serving else {
            return Vec::new();
        };
        let mut doubts = Vec::new();
        if serving.life.is_near_its_end(now) {
            let why = "tls.crt: near its end, and whoever renews it has not";
            doubts.push(trouble("ending", &self.of_secret(&why)));
        }
        if !is_for(serving, &self.names) {
            let why = "tls.crt: not for all of the names that --tls-name gives";
            doubts.push(trouble("names", &self.of_secret(&why)));
        }
        doubts
    }

    fn of_secret(&self, what: &impl Display) -> String {
        format!("{}: {what}", self.store.secret())
    }
}

fn trouble(kind: &'static str, text: &impl ToString) -> Trouble {
    Trouble {
        kind,
        text: text.to_string(),
    }
}
