use super::*;
use crate::{
    action::{Action, Status},
    decide::Last,
    leftovers::Left,
};

fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

fn node(text: &str, labelled: bool, version: &str) -> NodeSeen {
    NodeSeen {
        state: NodeState {
            name: name(text),
            uid: format!("{text}-uid"),
            labelled,
            deleting: false,
            last: Last::Nothing,
            left: Left::default(),
        },
        version: version.into(),
    }
}

fn job(node: &str, uid: &str, version: &str) -> JobSeen {
    JobSeen {
        node: name(node),
        state: JobState {
            name: format!("lj-agent-{node}-enable"),
            uid: uid.into(),
            node_uid: format!("{node}-uid"),
            action: Action::Enable,
            status: Status::Running,
            time: String::new(),
            message: String::new(),
            deleting: false,
        },
        version: version.into(),
    }
}

fn dirty(book: &mut Book) -> Vec<String> {
    let names = book.take_dirty();
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn it_is_synced_once_both_lists_have_ended() {
    let mut book = Book::default();
    book.change_node(Change::Begin);
    book.change_node(Change::End);
    assert!(!book.is_synced());
    book.change_job(Change::Begin);
    book.change_job(Change::End);
    assert!(book.is_synced());
    book.change_node(Change::Begin);
    assert!(
        book.is_synced(),
        "a list that is read again is no step back"
    );
}

#[test]
fn only_what_matters_makes_a_node_dirty() {
    let mut book = Book::default();
    book.change_node(Change::Applied(node("a", false, "1")));
    assert_eq!(dirty(&mut book), ["a"]);
    book.change_node(Change::Applied(node("a", false, "2")));
    assert!(dirty(&mut book).is_empty(), "a heartbeat");
    book.change_node(Change::Applied(node("a", true, "3")));
    assert_eq!(dirty(&mut book), ["a"]);
    book.change_job(Change::Applied(job("a", "j", "4")));
    assert_eq!(dirty(&mut book), ["a"]);
    book.change_job(Change::Applied(job("a", "j", "5")));
    assert!(dirty(&mut book).is_empty());
}

#[test]
fn an_older_version_does_not_undo_a_newer_one() {
    let mut book = Book::default();
    book.change_node(Change::Applied(node("a", true, "10")));
    book.change_node(Change::Applied(node("a", false, "9")));
    assert!(book.node(&name("a")).unwrap().state.labelled);
    book.change_node(Change::Listed(node("a", false, "1")));
    assert!(
        !book.node(&name("a")).unwrap().state.labelled,
        "a list counts always: the server's storage may have been restored"
    );
}

#[test]
fn a_full_list_takes_away_what_is_not_in_it() {
    let mut book = Book::default();
    for text in ["a", "b"] {
        book.change_node(Change::Applied(node(text, true, "1")));
        book.change_job(Change::Applied(job(text, "j", "1")));
    }
    dirty(&mut book);
    book.change_node(Change::Begin);
    book.change_node(Change::Listed(node("b", true, "1")));
    book.change_node(Change::End);
    assert!(book.node(&name("a")).is_none());
    assert!(book.node(&name("b")).is_some());
    assert_eq!(dirty(&mut book), ["a"]);
    book.change_job(Change::Begin);
    book.change_job(Change::Listed(job("a", "j", "1")));
    book.change_job(Change::End);
    assert_eq!(book.jobs(&name("a")).len(), 1);
    assert!(book.jobs(&name("b")).is_empty());
    assert_eq!(book.job_count(), 1);
    assert_eq!(dirty(&mut book), ["b"]);
}

#[test]
fn jobs_of_nodes_that_went_before_the_start_are_looked_at() {
    let mut book = Book::default();
    book.change_job(Change::Listed(job("gone", "j", "1")));
    dirty(&mut book);
    book.change_node(Change::Begin);
    book.change_node(Change::End);
    assert_eq!(dirty(&mut book), ["gone"]);
}

#[test]
fn a_late_deletion_does_not_take_away_a_namesake() {
    let mut book = Book::default();
    book.change_job(Change::Applied(job("a", "second", "5")));
    book.change_job(Change::Deleted(job("a", "first", "4")));
    assert_eq!(book.job_count(), 1);
    book.change_job(Change::Deleted(job("a", "second", "6")));
    assert_eq!(book.job_count(), 0);
    let mut replaced = node("a", true, "7");
    replaced.state.uid = "new".into();
    book.change_node(Change::Applied(replaced));
    book.change_node(Change::Deleted(node("a", true, "6")));
    assert!(book.node(&name("a")).is_some());
}

#[test]
fn what_the_server_denies_is_forgotten() {
    let mut book = Book::default();
    book.change_node(Change::Applied(node("a", true, "1")));
    book.change_job(Change::Applied(job("a", "j", "1")));
    dirty(&mut book);
    book.mark_deleting("lj-agent-a-enable");
    assert!(book.jobs(&name("a"))[0].deleting);
    book.forget_job("lj-agent-a-enable");
    book.forget_node(&name("a"));
    assert_eq!(dirty(&mut book), ["a"]);
    assert!(book.node(&name("a")).is_none() && book.job_count() == 0);
}

#[test]
fn a_job_whose_node_is_rewritten_moves() {
    let mut book = Book::default();
    book.change_job(Change::Applied(job("a", "j", "1")));
    let mut moved = job("a", "j", "2");
    moved.node = name("b");
    dirty(&mut book);
    book.change_job(Change::Applied(moved));
    assert!(book.jobs(&name("a")).is_empty());
    assert_eq!(book.jobs(&name("b")).len(), 1);
    assert_eq!(dirty(&mut book), ["a", "b"]);
}
