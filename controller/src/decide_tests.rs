use proptest::prelude::*;

use super::*;

fn node(labelled: bool, last: Last) -> NodeState {
    NodeState {
        name: NodeName::new("n1").unwrap(),
        uid: "u1".into(),
        labelled,
        deleting: false,
        last,
        left: Left::default(),
    }
}

fn recorded(action: Action, status: Status, job_uid: &str) -> Last {
    Last::Recorded(Record {
        v: 1,
        action,
        status,
        time: "2026-12-01T10:00:00Z".into(),
        job: format!("lj-agent-n1-{action}"),
        job_uid: job_uid.into(),
        node_uid: "u1".into(),
        message: String::new(),
    })
}

fn job(action: Action, status: Status) -> JobState {
    JobState {
        name: format!("lj-agent-n1-{action}"),
        uid: format!("{action}-1"),
        node_uid: "u1".into(),
        action,
        status,
        time: String::new(),
        message: String::new(),
        deleting: false,
    }
}

use Action::{Disable, Enable};
use Status::{Failed, Running, Succeeded};

fn next(node: &NodeState, jobs: &[JobState]) -> Decision {
    decide(Some(node), jobs)
}

#[test]
fn a_node_that_was_never_ours_is_left_alone() {
    assert_eq!(next(&node(false, Last::Nothing), &[]), Decision::Rest);
}

#[test]
fn a_labelled_node_is_switched_on() {
    assert_eq!(
        next(&node(true, Last::Nothing), &[]),
        Decision::Create(Enable)
    );
}

#[test]
fn a_job_at_work_is_waited_for() {
    let last = recorded(Enable, Running, "");
    let jobs = [job(Enable, Running)];
    assert_eq!(next(&node(true, last), &jobs), Decision::Rest);
}

#[test]
fn success_is_told_then_the_job_is_deleted_then_nothing() {
    let jobs = [job(Enable, Succeeded)];
    let running = node(true, recorded(Enable, Running, ""));
    assert_eq!(next(&running, &jobs), Decision::Tell(jobs[0].clone()));
    let told = node(true, recorded(Enable, Succeeded, "enable-1"));
    assert_eq!(next(&told, &jobs), Decision::Delete(jobs[0].clone()));
    let deleting = JobState {
        deleting: true,
        ..jobs[0].clone()
    };
    assert_eq!(next(&told, &[deleting]), Decision::Rest);
    assert_eq!(next(&told, &[]), Decision::Rest);
}

#[test]
fn failure_is_told_once_and_the_job_stays() {
    let jobs = [job(Enable, Failed)];
    let running = node(true, recorded(Enable, Running, ""));
    assert_eq!(next(&running, &jobs), Decision::Tell(jobs[0].clone()));
    let told = node(true, recorded(Enable, Failed, "enable-1"));
    assert_eq!(next(&told, &jobs), Decision::Rest);
}

#[test]
fn a_failed_job_deleted_by_hand_is_tried_again() {
    let told = node(true, recorded(Enable, Failed, "enable-1"));
    assert_eq!(next(&told, &[]), Decision::Create(Enable));
    let told = node(false, recorded(Disable, Failed, "disable-1"));
    assert_eq!(next(&told, &[]), Decision::Create(Disable));
}

#[test]
fn a_node_that_loses_its_label_is_switched_off_whatever_came_of_switching_on() {
    for status in [Running, Succeeded, Failed] {
        let unlabelled = node(false, recorded(Enable, status, "enable-1"));
        assert_eq!(next(&unlabelled, &[]), Decision::Create(Disable));
    }
}

#[test]
fn a_failed_job_makes_room_for_the_other_action() {
    let jobs = [job(Enable, Failed)];
    let unlabelled = node(false, recorded(Enable, Failed, "enable-1"));
    assert_eq!(next(&unlabelled, &jobs), Decision::Delete(jobs[0].clone()));
}

#[test]
fn a_label_that_comes_back_after_a_failed_disable_switches_on_again() {
    let jobs = [job(Disable, Failed)];
    let labelled = node(true, recorded(Disable, Failed, "disable-1"));
    assert_eq!(next(&labelled, &jobs), Decision::Delete(jobs[0].clone()));
    assert_eq!(next(&labelled, &[]), Decision::Create(Enable));
}

#[test]
fn a_label_that_flips_while_a_job_runs_waits_for_its_end() {
    let unlabelled = node(false, recorded(Enable, Running, ""));
    assert_eq!(next(&unlabelled, &[job(Enable, Running)]), Decision::Rest);
    let ended = [job(Enable, Succeeded)];
    assert_eq!(next(&unlabelled, &ended), Decision::Tell(ended[0].clone()));
    let told = node(false, recorded(Enable, Succeeded, "enable-1"));
    assert_eq!(next(&told, &ended), Decision::Delete(ended[0].clone()));
    assert_eq!(next(&told, &[]), Decision::Create(Disable));
}

#[test]
fn a_job_being_deleted_is_waited_for_before_another_is_made() {
    let deleting = JobState {
        deleting: true,
        ..job(Enable, Running)
    };
    let unlabelled = node(false, recorded(Enable, Running, ""));
    assert_eq!(next(&unlabelled, &[deleting]), Decision::Rest);
}

#[test]
fn a_job_deleted_while_it_ran_is_made_again() {
    let labelled = node(true, recorded(Enable, Running, ""));
    assert_eq!(next(&labelled, &[]), Decision::Create(Enable));
    let unlabelled = node(false, recorded(Disable, Running, ""));
    assert_eq!(next(&unlabelled, &[]), Decision::Create(Disable));
}

#[test]
fn a_node_switched_off_rests() {
    let off = node(false, recorded(Disable, Succeeded, "disable-1"));
    assert_eq!(next(&off, &[]), Decision::Rest);
}

#[test]
fn the_jobs_of_a_node_that_is_gone_are_deleted() {
    let jobs = [job(Enable, Running)];
    assert_eq!(decide(None, &jobs), Decision::Delete(jobs[0].clone()));
    assert_eq!(decide(None, &[]), Decision::Rest);
    let leaving = NodeState {
        deleting: true,
        ..node(true, Last::Nothing)
    };
    assert_eq!(next(&leaving, &jobs), Decision::Delete(jobs[0].clone()));
    assert_eq!(next(&leaving, &[]), Decision::Rest);
}

#[test]
fn a_job_of_an_earlier_node_of_that_name_counts_for_nothing() {
    for status in [Running, Succeeded, Failed] {
        let old = JobState {
            node_uid: "u0".into(),
            ..job(Enable, status)
        };
        let labelled = node(true, Last::Nothing);
        assert_eq!(
            next(&labelled, std::slice::from_ref(&old)),
            Decision::Delete(old)
        );
    }
}

#[test]
fn a_record_carried_over_from_another_node_object_is_no_proof_of_being_on() {
    let mut labelled = node(true, recorded(Enable, Succeeded, "enable-1"));
    labelled.uid = "u2".into();
    assert_eq!(next(&labelled, &[]), Decision::Create(Enable));
    let mut unlabelled = node(false, recorded(Disable, Succeeded, "disable-1"));
    unlabelled.uid = "u2".into();
    assert_eq!(next(&unlabelled, &[]), Decision::Rest);
}

#[test]
fn a_record_that_cannot_be_read_only_lets_a_label_act() {
    let last = Last::Unreadable("version 2".into());
    assert_eq!(next(&node(false, last.clone()), &[]), Decision::Rest);
    assert_eq!(next(&node(true, last), &[]), Decision::Create(Enable));
}

#[test]
fn of_two_ended_jobs_the_older_goes_first() {
    let older = JobState {
        time: "2026-12-01T10:00:00Z".into(),
        ..job(Enable, Failed)
    };
    let newer = JobState {
        time: "2026-12-01T11:00:00Z".into(),
        ..job(Disable, Failed)
    };
    let labelled = node(true, Last::Nothing);
    assert_eq!(
        next(&labelled, &[newer, older.clone()]),
        Decision::Delete(older)
    );
}

/// A cluster in small: applies decisions, and lets Jobs end and people meddle.
struct World {
    node: Option<NodeState>,
    jobs: Vec<JobState>,
    made: u32,
    on: bool,
}

#[derive(Debug, Clone)]
enum Happening {
    Label(bool),
    JobEnds(bool),
    JobDeletedByHand,
    NodeReplaced,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        any::<bool>().prop_map(Happening::Label),
        any::<bool>().prop_map(Happening::JobEnds),
        Just(Happening::JobDeletedByHand),
        Just(Happening::NodeReplaced),
    ]
}

impl World {
    fn happen(&mut self, happening: &Happening) {
        match happening {
            Happening::Label(labelled) => {
                if let Some(node) = &mut self.node {
                    node.labelled = *labelled;
                }
            }
            Happening::JobEnds(well) => {
                for job in self.jobs.iter_mut().filter(|job| job.status == Running) {
                    job.status = if *well { Succeeded } else { Failed };
                    if *well {
                        self.on = job.action == Enable;
                    }
                }
            }
            Happening::JobDeletedByHand => self.jobs.clear(),
            Happening::NodeReplaced => {
                if let Some(node) = &mut self.node {
                    node.uid.push('x');
                    node.last = Last::Nothing;
                    self.on = false;
                }
            }
        }
    }

    /// Runs decisions until there is nothing to do; at most a few steps may be needed.
    fn settle(&mut self) {
        for _ in 0..10 {
            match decide(self.node.as_ref(), &self.jobs) {
                Decision::Rest => return,
                Decision::Create(action) => {
                    assert!(self.jobs.is_empty(), "a second Job beside {:?}", self.jobs);
                    let node = self.node.as_mut().expect("a Job for a node that is there");
                    node.last = recorded(action, Running, "");
                    self.made += 1;
                    self.jobs.push(JobState {
                        uid: format!("job-{}", self.made),
                        node_uid: node.uid.clone(),
                        ..job(action, Running)
                    });
                }
                Decision::Tell(job) => {
                    let node = self
                        .node
                        .as_mut()
                        .expect("a record for a node that is there");
                    let Last::Recorded(mut record) = recorded(job.action, job.status, &job.uid)
                    else {
                        unreachable!();
                    };
                    record.node_uid.clone_from(&node.uid);
                    node.last = Last::Recorded(record);
                }
                Decision::Delete(gone) => self.jobs.retain(|job| job.uid != gone.uid),
            }
        }
        panic!("still not settled: {:?} {:?}", self.node, self.jobs);
    }
}

proptest! {
    #[test]
    fn whatever_happens_it_settles_with_one_job_and_the_label_decides_in_the_end(
        happenings in proptest::collection::vec(happening(), 0..30),
        labelled in any::<bool>(),
    ) {
        let mut world = World {
            node: Some(node(false, Last::Nothing)),
            jobs: Vec::new(),
            made: 0,
            on: false,
        };
        world.settle();
        for happening in &happenings {
            world.happen(happening);
            world.settle();
            prop_assert!(world.jobs.len() <= 1);
        }
        // From here on nothing fails: the label alone decides.
        world.happen(&Happening::Label(labelled));
        world.happen(&Happening::JobDeletedByHand);
        world.settle();
        for _ in 0..4 {
            world.happen(&Happening::JobEnds(true));
            world.settle();
        }
        prop_assert_eq!(world.on, labelled);
        prop_assert!(world.jobs.is_empty());
    }
}
