use super::*;

const TIMING: Timing = Timing::DEFAULT;

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn held(by: &str, renewed: &str) -> Event {
    Event::Read(Some(Record {
        holder: by.into(),
        duration: TIMING.duration,
        renewed: renewed.into(),
    }))
}

fn state() -> (State, Instant) {
    (State::new("me".into(), TIMING), Instant::now())
}

/// One that has taken a lease that nobody held.
fn leader() -> (State, Instant) {
    let (mut state, start) = state();
    assert_eq!(state.step(Event::Due, start), Action::Read);
    assert_eq!(state.step(held("", ""), start), Action::Write(Claim::Take));
    let renew = Action::Wait(start + TIMING.renew);
    assert_eq!(state.step(Event::Wrote(start), start), renew);
    (state, start)
}

#[test]
fn a_lease_that_is_not_there_or_nobodys_is_taken() {
    let (mut state, start) = state();
    assert_eq!(state.leads(start), None);
    assert_eq!(
        state.step(Event::Read(None), start),
        Action::Write(Claim::Take)
    );
    assert_eq!(state.leads(start), None, "asked for is not had");
    let (state, start) = leader();
    assert_eq!(state.leads(start), Some(start + TIMING.deadline));
}

#[test]
fn anothers_lease_is_taken_once_it_did_not_change_for_its_duration_here() {
    let (mut state, start) = state();
    let mut now = start;
    // Changes are what counts, whatever the times in the record say.
    for renewed in ["2001", "1999", "2038"] {
        assert_eq!(
            state.step(held("other", renewed), now),
            Action::Wait(now + TIMING.look)
        );
        now += seconds(9);
    }
    // Last seen to change 9 s ago.
    let runs_out = now + seconds(1);
    let almost = now + Duration::from_millis(999);
    assert_eq!(
        state.step(held("other", "2038"), almost),
        Action::Wait(runs_out)
    );
    assert_eq!(state.holder(), "other");
    assert_eq!(
        state.step(held("other", "2038"), runs_out),
        Action::Write(Claim::Take)
    );
}

#[test]
fn a_leader_has_ended_before_anybody_else_may_begin() {
    let (mut leader, start) = leader();
    let (mut other, _) = state();
    other.me = "other".into();
    // The other sees the record at the moment in which it is written, which is the earliest.
    other.step(held("me", "1"), start);
    let mut now = start;
    let mut gap = Duration::ZERO;
    while other.step(held("me", "1"), now) != Action::Write(Claim::Take) {
        now += Duration::from_millis(100);
        leader.step(Event::Failed, now);
        gap = if leader.leads(now).is_some() {
            Duration::ZERO
        } else {
            gap + Duration::from_millis(100)
        };
    }
    assert!(gap >= seconds(3), "{gap:?}");
}

#[test]
fn a_renewal_counts_from_its_beginning() {
    let (mut state, start) = leader();
    let began = start + seconds(2);
    assert_eq!(state.step(Event::Due, began), Action::Write(Claim::Renew));
    let slow = began + seconds(5);
    // Its successor is due already.
    assert_eq!(
        state.step(Event::Wrote(began), slow),
        Action::Wait(began + TIMING.renew)
    );
    assert_eq!(state.leads(slow), Some(began + TIMING.deadline));
    // One whose answer came after its own deadline gives nothing.
    let late = began + TIMING.deadline;
    state.step(Event::Wrote(began), late);
    assert_eq!(state.leads(late), None);
}

#[test]
fn a_leader_tries_on_until_its_deadline_and_then_asks_who_leads() {
    let (mut state, start) = leader();
    let mut now = start + TIMING.renew;
    while now < start + TIMING.deadline {
        assert_eq!(state.step(Event::Due, now), Action::Write(Claim::Renew));
        now += TIMING.retry;
        assert!(matches!(state.step(Event::Failed, now), Action::Wait(_)));
    }
    assert_eq!(state.leads(now), None);
    assert_eq!(state.step(Event::Due, now), Action::Read);
    assert_eq!(
        state.step(held("other", "1"), now),
        Action::Wait(now + TIMING.look)
    );
    assert_eq!(state.leads(now), None);
}

#[test]
fn one_that_was_overtaken_reads_and_gives_way() {
    let (mut state, start) = leader();
    assert_eq!(state.step(Event::Overtaken, start), Action::Read);
    // It was somebody who wrote a label: still ours.
    assert_eq!(
        state.step(held("me", "1"), start),
        Action::Write(Claim::Renew)
    );
    assert_eq!(state.step(Event::Overtaken, start), Action::Read);
    state.step(held("other", "2"), start);
    assert_eq!(state.leads(start), None);
    assert!(state.is_me("me") && !state.is_me(""));
}

#[test]
fn a_claim_whose_answer_was_lost_is_found_in_the_record() {
    let (mut state, start) = state();
    state.step(held("", ""), start);
    let wait = Action::Wait(start + TIMING.retry);
    assert_eq!(state.step(Event::Failed, start), wait);
    let later = start + TIMING.retry;
    assert_eq!(state.step(Event::Due, later), Action::Read);
    assert_eq!(
        state.step(held("me", "1"), later),
        Action::Write(Claim::Renew)
    );
    assert_eq!(state.leads(later), None, "nothing was answered so far");
}

#[test]
fn a_released_lease_is_taken_at_the_next_look() {
    let (mut state, start) = state();
    state.step(held("other", "1"), start);
    let next = start + TIMING.look;
    assert_eq!(state.step(Event::Due, next), Action::Read);
    assert_eq!(state.step(held("", "2"), next), Action::Write(Claim::Take));
}

#[test]
fn what_a_record_says_counts_within_bounds() {
    let longest = Duration::from_mins(2);
    for (written, counts) in [
        // Edited, or in no duration at all: its holder may be one that decides.
        (Duration::ZERO, TIMING.duration),
        (seconds(1), TIMING.duration),
        (seconds(15), seconds(15)),
        (seconds(u64::from(i32::MAX.unsigned_abs())), longest),
        (Duration::MAX, longest),
    ] {
        let (mut state, start) = state();
        let read = || {
            Event::Read(Some(Record {
                holder: "other".into(),
                duration: written,
                renewed: String::new(),
            }))
        };
        let almost = counts.saturating_sub(Duration::from_millis(1));
        for now in [start, start + almost] {
            let action = state.step(read(), now);
            assert!(matches!(action, Action::Wait(_)), "{written:?}");
        }
        let taken = state.step(read(), start + counts);
        assert_eq!(taken, Action::Write(Claim::Take), "{written:?}");
    }
}

#[test]
fn a_lease_that_is_deleted_under_another_is_not_taken_before_that_one_has_ended() {
    let (mut state, start) = state();
    state.step(held("other", "1"), start);
    let next = start + TIMING.look;
    assert_eq!(
        state.step(Event::Read(None), next),
        Action::Wait(next + TIMING.look)
    );
    let runs_out = start + TIMING.duration;
    assert_eq!(
        state.step(Event::Read(None), runs_out),
        Action::Write(Claim::Take)
    );
    // Its holder makes it again at once, and asks before it goes on.
    let (mut state, start) = leader();
    assert_eq!(state.step(Event::Overtaken, start), Action::Read);
    assert_eq!(
        state.step(Event::Read(None), start),
        Action::Write(Claim::Take)
    );
    assert_eq!(state.leads(start), None);
}
