//! Keepers against an API server in small. Time is held still where nobody works, so that seconds
//! pass in no time.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::{sync::Barrier, task::JoinHandle, time::sleep};

use super::{
    Leadership, Turn,
    decide::Timing,
    identity,
    keeper::Keeper,
    store::Store,
    testing::{Api, Link, held},
};
use crate::{
    metrics::{LeaseMetrics, Metrics},
    shared::Shared,
    testing::{self, GPU, node, node_name, pending, uid},
};

const TIMING: Timing = Timing::DEFAULT;
const TICK: Duration = Duration::from_millis(10);

/// One replica: its keeper runs.
struct Replica {
    identity: String,
    leadership: Leadership,
    shared: Shared,
    metrics: LeaseMetrics,
    link: Arc<Mutex<Link>>,
    tasks: kit::Tasks,
    keeper: JoinHandle<Result<(), kit::Failure>>,
}

impl Replica {
    fn start(api: &Api, name: &str) -> Self {
        Self::with(api, name, Link::Good, None)
    }

    fn with(api: &Api, name: &str, link: Link, together: Option<Arc<Barrier>>) -> Self {
        let identity = identity::new(name, format!("10.0.0.{}:9503", name.len()).parse().unwrap());
        let registry = prometheus::Registry::new();
        let shared = Shared::new(
            testing::index([node("n1", 1, 144)]),
            Metrics::new(&registry).unwrap(),
        );
        let metrics = LeaseMetrics::new(&registry).unwrap();
        let leadership = Leadership::follower();
        let link = Arc::new(Mutex::new(link));
        let client = api.client(&link, together);
        let lease = "kube-system/lease".parse().unwrap();
        let keeper = Keeper::new(
            identity.clone(),
            TIMING,
            Store::new(client, lease, identity.clone(), TIMING.duration),
            leadership.clone(),
            shared.clone(),
            metrics.clone(),
        );
        let tasks = kit::Tasks::default();
        let keeper = tokio::spawn(keeper.run(tasks.clone()));
        Self {
            identity,
            leadership,
            shared,
            metrics,
            link,
            tasks,
            keeper,
        }
    }

    fn turn(&self) -> Turn {
        self.leadership.turn(now())
    }

    fn leads(&self) -> bool {
        matches!(self.turn(), Turn::Mine | Turn::MineSoon)
    }

    fn reign(&self) -> u64 {
        *self.leadership.reigns().borrow()
    }

    fn becomes(&self, link: Link) {
        *self.link.lock().unwrap() = link;
    }

    fn failures(&self, call: &str) -> u64 {
        self.metrics.failures.with_label_values(&[call]).get()
    }

    /// Until it leads; how long that took.
    async fn leads_within(&self, most: Duration) -> Duration {
        let since = now();
        while !self.leads() {
            assert!(now() - since <= most, "{:?} after {most:?}", self.turn());
            sleep(TICK).await;
        }
        now() - since
    }

    /// Tells it to end, and waits until it has.
    async fn ends(self) {
        self.tasks.shutdown_token().cancel();
        self.keeper.await.unwrap().unwrap();
    }
}

/// The clock that stands still with the tests.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

const ONE_LOOK: Duration = Duration::from_millis(550);

#[tokio::test(start_paused = true)]
async fn a_free_lease_is_taken_and_what_others_put_there_stays() {
    let api = Api::default();
    let replica = Replica::start(&api, "a");
    replica.leads_within(TICK).await;
    let spec = api.spec();
    assert_eq!(spec["holderIdentity"], replica.identity.as_str());
    assert_eq!(
        (&spec["leaseDurationSeconds"], &spec["leaseTransitions"]),
        (&json!(10), &json!(0))
    );
    assert_eq!(spec["acquireTime"], spec["renewTime"]);
    assert_eq!(replica.metrics.leader.get(), 1);

    let api = Api::default();
    let mut lease = json!({"metadata": {"name": "lease"}, "spec": held("", 1)});
    lease["metadata"]["annotations"] = json!({"somebody": "else's"});
    api.with(|objects| objects.put(lease));
    let replica = Replica::start(&api, "a");
    replica.leads_within(TICK).await;
    let lease = api.with(|o| o.lease.clone()).unwrap();
    assert_eq!(lease["metadata"]["annotations"]["somebody"], "else's");
    assert_eq!(lease["spec"]["leaseTransitions"], 4);
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 10);
}

#[tokio::test(start_paused = true)]
async fn of_two_that_take_it_at_once_one_leads_and_the_other_knows_where() {
    for there in [Value::Null, held("", 1), held("gone", 10)] {
        let api = Api::default();
        if !there.is_null() {
            api.put(&there);
        }
        // Both have read the same before either writes.
        let together = Arc::new(Barrier::new(2));
        let [a, b] = ["a", "bb"]
            .map(|name| Replica::with(&api, name, Link::Good, Some(Arc::clone(&together))));
        sleep(TIMING.duration + ONE_LOOK).await;
        let refused = |(_, code): &(Method, StatusCode)| *code == StatusCode::CONFLICT;
        let refused = api.writes().iter().filter(|write| refused(write)).count();
        assert_eq!(refused, 1, "{there}: both have tried");
        let (leader, other) = if a.leads() { (&a, &b) } else { (&b, &a) };
        assert!(leader.leads() && !other.leads(), "{there}");
        assert_eq!(api.holder(), leader.identity);
        let address = identity::address(&leader.identity).unwrap();
        assert_eq!(other.turn(), Turn::Of(address));
        assert_eq!((other.reign(), other.failures("write")), (0, 0), "{there}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_leader_renews_and_the_other_stays_away() {
    let api = Api::default();
    let leader = Replica::start(&api, "a");
    leader.leads_within(TICK).await;
    let other = Replica::start(&api, "bb");
    api.writes();
    let mut times = std::collections::BTreeSet::new();
    let until = now() + Duration::from_mins(1);
    while now() < until {
        assert!(leader.leads() && !other.leads());
        times.insert(api.with(|objects| objects.version));
        sleep(TICK).await;
    }
    assert!((29..=31).contains(&times.len()), "{times:?}");
    let all_well = api.writes().into_iter();
    assert!(all_well.map(|(_, code)| code).all(|c| c == StatusCode::OK));
    assert_eq!((leader.reign(), other.reign()), (1, 0));
    assert_eq!(leader.metrics.transitions.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_has_ended_before_the_other_begins() {
    for broken in [Link::Fails, Link::Hangs, Link::LosesAnswers] {
        let api = Api::default();
        let leader = Replica::start(&api, "a");
        leader.leads_within(TICK).await;
        let other = Replica::start(&api, "bb");
        sleep(Duration::from_secs(3)).await;
        leader.becomes(broken);
        let since = now();
        let mut ended = None;
        while !other.leads() {
            match ended {
                None if !leader.leads() => ended = Some(now()),
                Some(_) => assert!(!leader.leads(), "{broken:?}"),
                None => {}
            }
            let waited = now() - since;
            assert!(waited < Duration::from_secs(40), "{broken:?}: {waited:?}");
            if broken == Link::LosesAnswers && waited > Duration::from_secs(20) {
                break;
            }
            sleep(TICK).await;
        }
        assert!(!leader.leads(), "{broken:?}");
        let gap = now() - ended.unwrap();
        if broken == Link::LosesAnswers {
            // What it writes is there: nobody may take it for gone, and it can't decide.
            assert!(!other.leads());
        } else {
            assert!(gap >= Duration::from_secs(3), "{broken:?}: {gap:?}");
            assert!(now() - since <= TIMING.duration + ONE_LOOK, "{broken:?}");
        }
        assert_eq!(leader.metrics.leader.get(), 0, "{broken:?}");

        leader.becomes(Link::Good);
        sleep(2 * TIMING.renew + TIMING.retry).await;
        assert!(leader.leads() != other.leads(), "{broken:?}");
        if other.leads() {
            let address = identity::address(&other.identity).unwrap();
            assert_eq!(leader.turn(), Turn::Of(address));
        } else {
            assert_eq!(leader.reign(), 2, "one that has ended lists anew");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_ends_hands_over_at_once() {
    let api = Api::default();
    let leader = Replica::start(&api, "a");
    leader.leads_within(TICK).await;
    let other = Replica::start(&api, "bb");
    sleep(Duration::from_secs(3)).await;
    let metrics = leader.metrics.clone();
    leader.ends().await;
    assert_eq!(api.holder(), "");
    assert_eq!(metrics.leader.get(), 0);
    other.leads_within(ONE_LOOK).await;
    assert_eq!(api.spec()["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_ends_leaves_the_lease_alone() {
    let api = Api::default();
    let leader = Replica::start(&api, "a");
    leader.leads_within(TICK).await;
    let other = Replica::start(&api, "bb");
    sleep(Duration::from_secs(3)).await;
    other.ends().await;
    assert_eq!(api.holder(), leader.identity);
    sleep(TIMING.duration).await;
    assert!(leader.leads());
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_given_back_once_no_bind_is_under_way() {
    let api = Api::default();
    let leader = Replica::start(&api, "a");
    leader.leads_within(TICK).await;
    let other = Replica::start(&api, "bb");
    leader.leadership.has_listed(leader.reign());
    let pass = leader.leadership.pass().await.unwrap();
    leader.tasks.shutdown_token().cancel();
    sleep(2 * ONE_LOOK).await;
    assert_eq!(leader.turn(), Turn::Ended);
    assert!(!other.leads(), "a bind of the old leader is under way");
    drop(pass);
    other.leads_within(ONE_LOOK).await;
}

#[tokio::test(start_paused = true)]
async fn with_a_bind_in_doubt_the_lease_is_left_to_run_out() {
    let api = Api::default();
    let leader = Replica::start(&api, "a");
    leader.leads_within(TICK).await;
    let other = Replica::start(&api, "bb");
    sleep(ONE_LOOK).await;
    {
        let mut index = leader.shared.write();
        index.apply_pod(pending("p", &[(GPU, "1")]));
        index.begin_bind(&uid("p"), &node_name("n1")).unwrap();
    }
    let identity = leader.identity.clone();
    leader.ends().await;
    assert_eq!(api.holder(), identity);
    let waited = other.leads_within(TIMING.duration + ONE_LOOK).await;
    assert!(waited > TIMING.deadline, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn one_that_somebody_overtook_leads_no_more() {
    let api = Api::default();
    let leader = Replica::start(&api, "a");
    leader.leads_within(TICK).await;
    // A label: the lease is still its own.
    api.with(|objects| {
        let mut lease = objects.lease.clone().unwrap();
        lease["metadata"]["labels"] = json!({"somebody": "else's"});
        objects.put(lease);
    });
    api.writes();
    sleep(TIMING.renew + TICK).await;
    let codes = || -> Vec<_> { api.writes().into_iter().map(|(_, code)| code).collect() };
    assert_eq!(codes(), [StatusCode::CONFLICT, StatusCode::OK]);
    assert!(leader.leads());
    assert_eq!(leader.reign(), 1);

    api.put(&held("other_10.0.0.9:9503_1", 10));
    sleep(TIMING.renew + TICK).await;
    assert_eq!(codes(), [StatusCode::CONFLICT]);
    assert_eq!(leader.turn(), Turn::Of("10.0.0.9:9503".parse().unwrap()));
    assert_eq!(leader.metrics.transitions.get(), 2);
    assert_eq!(leader.failures("write"), 0, "no call has failed");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_is_made_again_by_its_holder() {
    let api = Api::default();
    let leader = Replica::start(&api, "a");
    leader.leads_within(TICK).await;
    let other = Replica::start(&api, "bb");
    sleep(ONE_LOOK).await;
    api.with(|objects| objects.lease = None);
    let until = now() + TIMING.duration;
    while now() < until {
        assert!(!other.leads());
        sleep(TICK).await;
    }
    assert!(leader.leads());
    assert_eq!(api.holder(), leader.identity);
    assert_eq!(leader.reign(), 2, "it asked before it went on");
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_was_lost_is_found_to_be_ours() {
    let api = Api::default();
    let replica = Replica::with(&api, "a", Link::LosesAnswers, None);
    sleep(TICK).await;
    assert_eq!(api.holder(), replica.identity);
    assert!(!replica.leads(), "nothing was answered");
    assert_eq!(replica.failures("write"), 1);
    replica.becomes(Link::Good);
    replica.leads_within(TIMING.retry + TICK).await;
    assert_eq!(api.spec()["leaseTransitions"], 0, "it was ours already");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_makes_no_sense_is_waited_for_and_no_longer_than_minutes() {
    let most = Duration::from_mins(2);
    for (spec, counts) in [
        (Value::Null, Duration::ZERO),
        (json!({}), Duration::ZERO),
        (json!({"leaseDurationSeconds": 3600}), Duration::ZERO),
        (json!({"holderIdentity": "somebody"}), TIMING.duration),
        (held("somebody", 0), TIMING.duration),
        (held("somebody", -5), TIMING.duration),
        (held("somebody", i32::MIN), TIMING.duration),
        (held("a_b_c_d", 15), Duration::from_secs(15)),
        (held("somebody", i32::MAX), most),
    ] {
        let api = Api::default();
        api.put(&spec);
        let replica = Replica::start(&api, "a");
        let waited = replica.leads_within(counts + ONE_LOOK).await;
        assert!(waited + TICK >= counts, "{spec}: {waited:?}");
        assert_eq!(api.holder(), replica.identity);
        assert_eq!(api.spec()["leaseDurationSeconds"], 10);
    }
}

/// Takes what is logged on this thread while it lives.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn times(&self, words: &str) -> usize {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.matches(words).count()
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_fails_is_told_once_and_so_is_its_return() {
    let log = Log::default();
    let writer = log.clone();
    let logger = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .finish();
    let _logging = tracing::subscriber::set_default(logger);
    let api = Api::default();
    let replica = Replica::with(&api, "a", Link::Fails, None);
    let cant = "Lease kube-system/lease can't be read: on purpose";
    let well = "Lease kube-system/lease answers again";
    for round in 1..=2 {
        sleep(Duration::from_mins(1)).await;
        assert_eq!((log.times(cant), log.times(well)), (round, round - 1));
        replica.becomes(Link::Good);
        replica.leads_within(TIMING.retry + ONE_LOOK).await;
        sleep(Duration::from_mins(1)).await;
        assert_eq!((log.times(cant), log.times(well)), (round, round));
        assert!(replica.failures("read") >= 50);
        // The next round's failures are a leader's at first: its renewals.
        replica.becomes(Link::Fails);
    }
    assert_eq!(log.times("can't be written"), 1);
}
