use super::*;

const LONG: Duration = Duration::from_secs(100);

fn leading(until: Duration) -> (Leadership, Instant) {
    let now = Instant::now();
    let leadership = Leadership::follower();
    assert!(leadership.lead(now + until, now));
    (leadership, now)
}

#[tokio::test]
async fn the_only_replica_always_decides() {
    let leadership = Leadership::alone();
    let now = Instant::now();
    assert_eq!(leadership.turn(now), Turn::Mine);
    let pass = leadership.pass().await.unwrap();
    assert_eq!(leadership.left(&pass, LONG, now), Some(LONG));
}

#[tokio::test]
async fn a_leader_decides_once_a_listing_of_its_own_reign_is_complete() {
    let (leadership, now) = leading(LONG);
    let reign = *leadership.reigns().borrow();
    assert_eq!(leadership.turn(now), Turn::MineSoon);
    assert!(leadership.pass().await.is_none());
    // A listing that began before the reign.
    leadership.has_listed(reign - 1);
    assert_eq!(leadership.turn(now), Turn::MineSoon);
    leadership.has_listed(reign);
    assert_eq!(leadership.turn(now), Turn::Mine);
    // Renewed, it is the same reign.
    assert!(!leadership.lead(now + 2 * LONG, now));
    assert_eq!(leadership.turn(now), Turn::Mine);
}

#[tokio::test]
async fn a_reign_ends_by_itself_and_the_next_lists_anew() {
    let (leadership, now) = leading(LONG);
    leadership.has_listed(*leadership.reigns().borrow());
    let pass = leadership.pass().await.unwrap();
    assert_eq!(leadership.left(&pass, 2 * LONG, now), Some(LONG));
    assert_eq!(leadership.left(&pass, LONG / 2, now), Some(LONG / 2));
    let over = now + LONG;
    assert_eq!(leadership.turn(over), Turn::Nobodys);
    assert_eq!(leadership.left(&pass, LONG, over), None);
    // Nobody has said `follow`, yet taking it up again is a reign of its own.
    assert!(leadership.lead(over + LONG, over));
    assert_eq!(leadership.turn(over), Turn::MineSoon);
    leadership.has_listed(*leadership.reigns().borrow());
    assert_eq!(leadership.turn(over), Turn::Mine);
    assert_eq!(
        leadership.left(&pass, LONG, over),
        None,
        "what the old reign let through is not of the new one"
    );
}

#[test]
fn a_follower_names_the_leader() {
    let leadership = Leadership::follower();
    let now = Instant::now();
    assert_eq!(leadership.turn(now), Turn::Nobodys);
    assert!(!leadership.follow("pod_10.0.0.1:9503_5f"));
    let address = "10.0.0.1:9503".parse().unwrap();
    assert_eq!(leadership.turn(now), Turn::Of(address));
    leadership.follow("somebody else's");
    assert_eq!(leadership.turn(now), Turn::Nobodys);
}

#[tokio::test]
async fn the_end_waits_for_binds_under_way_and_lets_no_more_through() {
    let (leadership, now) = leading(LONG);
    leadership.has_listed(*leadership.reigns().borrow());
    let pass = leadership.pass().await.unwrap();
    let mut end = std::pin::pin!(leadership.end());
    assert!(futures_util::poll!(end.as_mut()).is_pending());
    assert_eq!(leadership.turn(now), Turn::Ended);
    let other = leadership.pass();
    drop(pass);
    end.await;
    assert!(other.await.is_none());
}
