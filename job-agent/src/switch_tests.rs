use super::*;

fn status(phase: Phase) -> OperationStatus {
    OperationStatus {
        phase,
        message: String::new(),
        progress_percent: 0,
    }
}

fn said(phase: Phase, message: &str) -> OperationStatus {
    OperationStatus {
        message: message.into(),
        ..status(phase)
    }
}

fn gone() -> Error {
    Error::Unavailable {
        socket: "/run/config-daemon.sock".into(),
        why: "connection refused".into(),
    }
}

fn late() -> Error {
    Error::Deadline {
        call: "Enable",
        within: Duration::from_secs(10),
    }
}

fn refused() -> Error {
    Error::Refused {
        call: "Enable",
        message: "no licence".into(),
    }
}

fn looked(switch: &mut Switch, phase: Phase) -> Next {
    switch.step(Answer::Looked(Ok(status(phase))), 0).next
}

fn asked(switch: &mut Switch, phase: Phase) -> Next {
    switch.step(Answer::Asked(Ok(status(phase))), 0).next
}

const AT_ONCE: Duration = Duration::ZERO;

#[test]
fn what_is_so_already_is_done_without_asking() {
    let mut on = Switch::new(Wanted::Enabled);
    assert_eq!(looked(&mut on, Phase::Enabled), Next::Done);
    let mut off = Switch::new(Wanted::Disabled);
    assert_eq!(looked(&mut off, Phase::Disabled), Next::Done);
}

#[test]
fn the_plain_way_is_look_ask_look_done() {
    for (wanted, rest, under_way, end) in [
        (
            Wanted::Enabled,
            Phase::Disabled,
            Phase::Enabling,
            Phase::Enabled,
        ),
        (
            Wanted::Disabled,
            Phase::Enabled,
            Phase::Disabling,
            Phase::Disabled,
        ),
    ] {
        let mut switch = Switch::new(wanted);
        assert_eq!(looked(&mut switch, rest), Next::Ask(AT_ONCE));
        assert_eq!(asked(&mut switch, under_way), Next::Look(FIRST_LOOK));
        assert_eq!(looked(&mut switch, under_way), Next::Look(FIRST_LOOK * 2));
        assert_eq!(looked(&mut switch, end), Next::Done);
    }
}

#[test]
fn looks_come_at_most_two_seconds_apart() {
    let mut switch = Switch::new(Wanted::Enabled);
    let mut last = Next::Done;
    for _ in 0..20 {
        last = looked(&mut switch, Phase::Enabling);
    }
    assert_eq!(last, Next::Look(LAST_LOOK));
}

#[test]
fn an_older_failure_is_asked_away_and_a_new_one_is_final() {
    let mut switch = Switch::new(Wanted::Enabled);
    assert_eq!(looked(&mut switch, Phase::Failed), Next::Ask(AT_ONCE));
    asked(&mut switch, Phase::Enabling);
    let step = switch.step(Answer::Looked(Ok(said(Phase::Failed, "no driver"))), 0);
    assert_eq!(
        step.next,
        Next::Failed("the switch failed: no driver".into())
    );
}

#[test]
fn a_switch_the_other_way_is_waited_for_then_asked() {
    let mut switch = Switch::new(Wanted::Enabled);
    assert_eq!(
        looked(&mut switch, Phase::Disabling),
        Next::Look(FIRST_LOOK)
    );
    assert_eq!(looked(&mut switch, Phase::Disabled), Next::Ask(AT_ONCE));
}

#[test]
fn a_request_taken_but_not_begun_is_given_time() {
    let mut switch = Switch::new(Wanted::Enabled);
    looked(&mut switch, Phase::Disabled);
    assert_eq!(asked(&mut switch, Phase::Disabled), Next::Look(FIRST_LOOK));
}

#[test]
fn a_missing_runtime_is_waited_for_with_backoff_and_one_line() {
    let mut switch = Switch::new(Wanted::Enabled);
    let waits = [1, 2, 4, 8, 16, 30, 30];
    for (number, seconds) in waits.into_iter().enumerate() {
        let step = switch.step(Answer::Looked(Err(gone())), 0);
        assert_eq!(step.next, Next::Look(Duration::from_secs(seconds)));
        assert_eq!(step.note.is_some(), number == 0);
    }
    let step = switch.step(Answer::Looked(Ok(status(Phase::Disabled))), 0);
    assert_eq!(step.next, Next::Ask(AT_ONCE));
    assert_eq!(step.note.as_deref(), Some("the Runtime is back: disabled"));
    let again = switch.step(Answer::Asked(Err(gone())), 0);
    assert_eq!(again.next, Next::Look(Duration::from_secs(1)));
}

#[test]
fn a_runtime_that_restarts_half_way_is_asked_again() {
    let mut switch = Switch::new(Wanted::Enabled);
    looked(&mut switch, Phase::Disabled);
    asked(&mut switch, Phase::Enabling);
    switch.step(Answer::Looked(Err(gone())), 0);
    assert_eq!(looked(&mut switch, Phase::Disabled), Next::Ask(AT_ONCE));
    asked(&mut switch, Phase::Enabling);
    switch.step(Answer::Looked(Err(gone())), 0);
    assert_eq!(looked(&mut switch, Phase::Failed), Next::Ask(AT_ONCE));
}

#[test]
fn a_restart_between_two_looks_is_asked_again_after_a_wait() {
    let mut switch = Switch::new(Wanted::Enabled);
    looked(&mut switch, Phase::Disabled);
    asked(&mut switch, Phase::Enabling);
    let next = looked(&mut switch, Phase::Disabled);
    assert!(
        matches!(next, Next::Ask(wait) if wait > AT_ONCE),
        "{next:?}"
    );
}

#[test]
fn an_answer_that_came_too_late_is_looked_after() {
    let mut switch = Switch::new(Wanted::Enabled);
    looked(&mut switch, Phase::Disabled);
    let step = switch.step(Answer::Asked(Err(late())), 0);
    assert!(matches!(step.next, Next::Look(_)), "{step:?}");
    assert_eq!(looked(&mut switch, Phase::Enabled), Next::Done);
}

#[test]
fn a_refusal_stands_unless_another_switch_was_under_way() {
    let mut switch = Switch::new(Wanted::Enabled);
    looked(&mut switch, Phase::Disabled);
    let step = switch.step(Answer::Asked(Err(refused())), 0);
    assert_eq!(step.next, Next::Look(AT_ONCE));
    let mut other = switch.clone();
    assert_eq!(
        looked(&mut switch, Phase::Disabled),
        Next::Failed("the Runtime refused Enable: no licence".into())
    );
    assert!(matches!(
        looked(&mut other, Phase::Disabling),
        Next::Look(_)
    ));
    assert_eq!(looked(&mut other, Phase::Disabled), Next::Ask(AT_ONCE));
}

#[test]
fn a_runtime_without_enable_fails_at_once() {
    let mut switch = Switch::new(Wanted::Enabled);
    looked(&mut switch, Phase::Disabled);
    let step = switch.step(Answer::Asked(Err(Error::Unimplemented("Enable"))), 0);
    let Next::Failed(why) = step.next else {
        panic!("{step:?}");
    };
    assert!(why.contains("has no Enable"), "{why}");
}

#[test]
fn a_runtime_without_query_status_is_asked_until_it_is_done() {
    let mut switch = Switch::new(Wanted::Enabled);
    let step = switch.step(Answer::Looked(Err(Error::Unimplemented("QueryStatus"))), 0);
    assert_eq!(step.next, Next::Ask(AT_ONCE));
    assert_eq!(asked(&mut switch, Phase::Enabling), Next::Ask(FIRST_LOOK));
    let step = switch.step(Answer::Asked(Err(gone())), 0);
    assert_eq!(step.next, Next::Ask(Duration::from_secs(1)));
    assert_eq!(asked(&mut switch, Phase::Enabled), Next::Done);
}

#[test]
fn a_phase_of_a_newer_version_is_waited_out() {
    let mut switch = Switch::new(Wanted::Enabled);
    assert_eq!(
        looked(&mut switch, Phase::Unknown(9)),
        Next::Look(FIRST_LOOK)
    );
    assert_eq!(looked(&mut switch, Phase::Enabled), Next::Done);
}

#[test]
fn a_line_is_written_for_each_change_and_for_nothing_else() {
    let mut switch = Switch::new(Wanted::Enabled);
    let mut notes = Vec::new();
    let half = OperationStatus {
        progress_percent: 50,
        ..said(Phase::Enabling, "starting")
    };
    for answer in [
        Answer::Looked(Ok(status(Phase::Disabled))),
        Answer::Asked(Ok(half.clone())),
        Answer::Looked(Ok(half.clone())),
        Answer::Looked(Ok(half)),
        Answer::Looked(Ok(status(Phase::Enabled))),
    ] {
        notes.extend(switch.step(answer, 0).note);
    }
    assert_eq!(notes, ["disabled", "enabling (starting), 50 %", "enabled"]);
}

#[test]
fn running_out_of_time_says_what_was_last_seen() {
    let timeout = Duration::from_mins(5);
    let mut switch = Switch::new(Wanted::Enabled);
    assert_eq!(
        switch.timed_out(timeout),
        "the feature is not enabled within 300 s: no answer from the Runtime"
    );
    switch.step(Answer::Looked(Ok(said(Phase::Disabling, "2 pods left"))), 0);
    assert_eq!(
        switch.timed_out(timeout),
        "the feature is not enabled within 300 s: disabling (2 pods left)"
    );
    switch.step(Answer::Looked(Err(gone())), 0);
    assert_eq!(
        switch.timed_out(timeout),
        "the feature is not enabled within 300 s: no Runtime at /run/config-daemon.sock: connection refused"
    );
}
