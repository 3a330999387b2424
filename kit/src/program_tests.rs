use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use super::*;

/// Signals come from the test; none come once the sender is dropped.
fn no_signals() -> mpsc::Receiver<&'static str> {
    mpsc::channel(2).1
}

fn text(result: Result<(), Failure>) -> String {
    result
        .expect_err("the program should have failed")
        .to_string()
}

#[tokio::test(start_paused = true)]
async fn without_critical_tasks_the_end_of_run_ends_the_program() {
    let tasks = Tasks::default();
    let background = tasks.clone();
    tasks.background("admin", async move {
        background.shutdown().await;
        Ok(())
    });
    supervise(async { Ok(()) }, &tasks, no_signals())
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_error_of_run_ends_the_program() {
    let run = async { Err(Failure::Usage("--node-name is empty".into())) };
    let result = supervise(run, &Tasks::default(), no_signals()).await;
    assert!(matches!(&result, Err(Failure::Usage(_))));
    assert_eq!(text(result), "--node-name is empty");
}

#[tokio::test(start_paused = true)]
async fn a_critical_task_that_fails_ends_the_program_and_is_named() {
    let tasks = Tasks::default();
    tasks.critical("watch", async { Err(Failure::fatal("the API is gone")) });
    let result = supervise(
        async {
            tasks.shutdown().await;
            Ok(())
        },
        &tasks,
        no_signals(),
    )
    .await;
    assert_eq!(text(result), "watch: the API is gone");
}

#[tokio::test(start_paused = true)]
async fn a_critical_task_that_panics_ends_the_program_and_is_named() {
    let tasks = Tasks::default();
    tasks.critical("book", async { panic!("page {} is torn", 7) });
    let result = supervise(async { Ok(()) }, &tasks, no_signals()).await;
    assert_eq!(text(result), "book: panicked: page 7 is torn");
}

#[tokio::test(start_paused = true)]
async fn a_critical_task_that_ends_early_ends_the_program() {
    let tasks = Tasks::default();
    tasks.critical("http", async { Ok(()) });
    let result = supervise(async { Ok(()) }, &tasks, no_signals()).await;
    assert_eq!(text(result), "http: ended before the program did");
}

#[tokio::test(start_paused = true)]
async fn the_first_failure_wins() {
    let tasks = Tasks::default();
    let shutdown = tasks.clone();
    tasks.critical("second", async move {
        shutdown.shutdown().await;
        Err(Failure::fatal("came of it"))
    });
    tasks.critical("first", async {
        sleep(Duration::from_secs(1)).await;
        Err(Failure::fatal("the cause"))
    });
    let result = supervise(async { Ok(()) }, &tasks, no_signals()).await;
    assert_eq!(text(result), "first: the cause");
}

#[tokio::test(start_paused = true)]
async fn a_detached_task_may_panic_and_the_program_goes_on() {
    let tasks = Tasks::default();
    tasks.detached("clean-up", async { panic!("no matter") });
    let run = async {
        sleep(Duration::from_secs(1)).await;
        Ok(())
    };
    supervise(run, &tasks, no_signals()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_signal_drains_and_the_program_ends_well() {
    let tasks = Tasks::default();
    let finished = Arc::new(AtomicBool::new(false));
    let (worker, done) = (tasks.clone(), Arc::clone(&finished));
    tasks.critical("worker", async move {
        worker.shutdown().await;
        sleep(Duration::from_secs(20)).await;
        done.store(true, Ordering::SeqCst);
        Ok(())
    });
    let (signals, receiver) = mpsc::channel(2);
    signals.send("SIGTERM").await.unwrap();
    let started = Instant::now();
    supervise(async { Ok(()) }, &tasks, receiver).await.unwrap();
    assert!(finished.load(Ordering::SeqCst));
    assert_eq!(started.elapsed().as_secs(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_ends_at_once() {
    let tasks = Tasks::default();
    tasks.critical("stuck", std::future::pending());
    let (signals, receiver) = mpsc::channel(2);
    signals.send("SIGTERM").await.unwrap();
    signals.send("SIGINT").await.unwrap();
    let started = Instant::now();
    let result = supervise(async { Ok(()) }, &tasks, receiver).await;
    assert_eq!(
        text(result),
        "ended at once by SIGINT; still at work: stuck"
    );
    assert_eq!(started.elapsed().as_secs(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_in_25_seconds_is_named_and_left() {
    let tasks = Tasks::default();
    tasks.detached("stuck", std::future::pending());
    let started = Instant::now();
    let result = supervise(async { Ok(()) }, &tasks, no_signals()).await;
    assert_eq!(
        text(result),
        "not ended 25s after being told to; still at work: stuck"
    );
    assert_eq!(started.elapsed(), GRACE);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_lasts_is_told_to_end_and_waited_for() {
    let tasks = Tasks::default();
    let (told, mut heard) = oneshot::channel();
    let run = async {
        tasks.shutdown().await;
        told.send(()).unwrap();
        Ok(())
    };
    let (signals, receiver) = mpsc::channel(2);
    signals.send("SIGINT").await.unwrap();
    supervise(run, &tasks, receiver).await.unwrap();
    heard.try_recv().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failure_while_ending_is_not_hidden() {
    let tasks = Tasks::default();
    let worker = tasks.clone();
    tasks.critical("release", async move {
        worker.shutdown().await;
        Err(Failure::fatal("not released"))
    });
    let (signals, receiver) = mpsc::channel(2);
    signals.send("SIGTERM").await.unwrap();
    let result = supervise(async { Ok(()) }, &tasks, receiver).await;
    assert_eq!(text(result), "release: not released");
}

#[tokio::test]
async fn a_task_knows_its_name() {
    let tasks = Tasks::default();
    let (sender, name) = oneshot::channel();
    tasks.detached("named", async move {
        sender.send(tasks::current()).unwrap();
    });
    assert_eq!(name.await.unwrap(), Some("named"));
    assert_eq!(tasks::current(), None);
}
