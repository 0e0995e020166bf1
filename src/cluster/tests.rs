use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use super::*;
use crate::clock::Clock;
use crate::clock::ManualClock;
use crate::clock::SystemClock;
use crate::store::Batch;
use crate::store::Store;
use crate::store::StoreError;

fn manual() -> Arc<ManualClock> {
    Arc::new(ManualClock::new("2026-11-21T12:00:00Z".parse().unwrap()))
}

fn member(store: &Store, id: &str, sharing: Sharing, clock: &Arc<ManualClock>) -> Members {
    let clock: Arc<dyn Clock> = Arc::clone(clock) as Arc<dyn Clock>;
    Members::new(store, id.to_owned(), sharing, clock)
}

fn there(members: &Members) -> Vec<String> {
    members.nodes().into_iter().filter(|node| node.is_there).map(|node| node.id).collect()
}

#[test]
fn a_node_is_there_as_long_as_it_is_heard() {
    let (store, clock) = (Store::in_memory(), manual());
    let [one, two] = ["one", "two"].map(|id| member(&store, id, Sharing::Together, &clock));
    assert!(!one.is_in_touch());
    two.beat(NodeFacts { revision: 7, ..NodeFacts::default() }).unwrap();
    one.beat(NodeFacts::default()).unwrap();
    assert_eq!(there(&one), ["one", "two"]);
    assert_eq!(one.nodes()[1].facts.revision, 7);
    for _ in 0..AWAY_AFTER.as_secs() {
        clock.advance(BEAT_EVERY);
        one.beat(NodeFacts::default()).unwrap();
    }
    assert_eq!(there(&one), ["one"]);
    assert_eq!(one.nodes()[1].silent_ms, 5000);
    [&one, &two].iter().for_each(|node| node.followed(node.moment()));
    assert!(one.is_in_touch() && !two.is_in_touch());
    two.beat(NodeFacts::default()).unwrap();
    one.beat(NodeFacts::default()).unwrap();
    assert_eq!(there(&one), ["one", "two"], "it is back");
}

#[test]
fn a_node_that_cannot_follow_is_out_of_touch_until_it_can() {
    let (store, clock) = (Store::in_memory(), manual());
    let members = Arc::new(member(&store, "one", Sharing::Together, &clock));
    members.claim().unwrap();
    let is_readable = Arc::new(AtomicBool::new(true));
    let mut follower = Follower::new(store.clone(), Arc::clone(&members));
    let readable = Arc::clone(&is_readable);
    follower.watch("keys", &["keys"], move || match readable.load(Ordering::Relaxed) {
        true => Ok(()),
        false => Err(StoreError::UnreadableRecord { table: "keys", version: 9 }),
    });
    let wait = || {
        for _ in 0..AWAY_AFTER.as_secs() {
            clock.advance(BEAT_EVERY);
            members.beat(NodeFacts::default()).unwrap();
            follower.look().unwrap();
        }
    };
    wait();
    assert!(members.is_in_touch(), "nothing was written, and it looked");
    is_readable.store(false, Ordering::Relaxed);
    let mut newer = Batch::default();
    newer.put("keys", b"k".to_vec(), b"{}".to_vec());
    store.commit(&newer).unwrap();
    follower.look().unwrap();
    assert!(members.is_in_touch(), "as long as a lost database would be waited for");
    wait();
    assert!(!members.is_in_touch() && !members.keeps_up(), "it beats, and knows old keys");
    assert!(members.has_lost_track());
    is_readable.store(true, Ordering::Relaxed);
    follower.look().unwrap();
    assert!(members.is_in_touch() && members.keeps_up() && !members.has_lost_track());
    for _ in 0..AWAY_AFTER.as_secs() {
        clock.advance(BEAT_EVERY);
        members.beat(NodeFacts::default()).unwrap();
    }
    assert!(!members.is_in_touch(), "nobody looks any more");
}

#[test]
fn a_node_that_was_cut_off_has_not_lost_track_when_it_is_back() {
    let (store, clock) = (Store::in_memory(), manual());
    let members = member(&store, "one", Sharing::Together, &clock);
    members.claim().unwrap();
    clock.advance(AWAY_AFTER * 2);
    assert!(!members.is_in_touch() && !members.has_lost_track(), "nobody is heard, and nobody heard it");
    members.beat(NodeFacts::default()).unwrap();
    assert!(!members.has_lost_track(), "it has had no time to look");
    members.followed(members.moment());
    assert!(members.is_in_touch() && !members.has_lost_track());
}

#[test]
fn who_wants_to_be_alone_is_not_let_in_beside_others() {
    let (store, clock) = (Store::in_memory(), manual());
    let first = member(&store, "first", Sharing::Alone, &clock);
    first.claim().unwrap();
    first.beat(NodeFacts::default()).unwrap();
    assert!(first.claim().is_ok(), "the same node again");
    let time: Arc<dyn Clock> = Arc::new(SystemClock);
    let second = Members::new(&store, "second".to_owned(), Sharing::Together, time);
    std::thread::scope(|scope| {
        let beats = scope.spawn(|| {
            for _ in 0..40 {
                std::thread::sleep(std::time::Duration::from_millis(50));
                first.beat(NodeFacts::default()).unwrap();
            }
        });
        assert!(matches!(second.claim(), Err(ClaimError::Taken { id }) if id == "first"));
        beats.join().unwrap();
    });
}

#[test]
fn two_processes_of_one_name_find_each_other_out() {
    let (store, clock) = (Store::in_memory(), manual());
    let [one, copy] = [(), ()].map(|()| member(&store, "one", Sharing::Together, &clock));
    let beat = |members: &Members| members.beat(NodeFacts::default()).unwrap();
    beat(&one);
    for _ in 0..3 {
        clock.advance(BEAT_EVERY);
        beat(&copy);
    }
    assert!(!copy.has_twin(), "the other has ended without a word");
    beat(&one);
    clock.advance(BEAT_EVERY);
    beat(&copy);
    assert!(!copy.has_twin() && !one.has_twin(), "what one wrote that has ended may come late");
    for _ in 0..2 {
        clock.advance(BEAT_EVERY);
        beat(&one);
        beat(&copy);
    }
    assert!(copy.has_twin() && one.has_twin());
    for _ in 0..AWAY_AFTER.as_secs() {
        clock.advance(BEAT_EVERY);
        beat(&copy);
    }
    assert!(!copy.has_twin(), "it is alone again");
}

#[test]
fn a_copy_of_a_node_that_lives_does_not_start() {
    let (store, time) = (Store::in_memory(), Arc::new(SystemClock) as Arc<dyn Clock>);
    let [one, copy] =
        [(), ()].map(|()| Members::new(&store, "one".to_owned(), Sharing::Together, Arc::clone(&time)));
    one.beat(NodeFacts::default()).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                std::thread::sleep(std::time::Duration::from_millis(50));
                one.beat(NodeFacts::default()).unwrap();
            }
        });
        let refused = copy.claim();
        is_over.store(true, Ordering::Relaxed);
        assert!(matches!(refused, Err(ClaimError::Twin { id }) if id == "one"));
    });
    copy.claim().expect("the other is silent");
}
