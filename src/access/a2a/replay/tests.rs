//! What is known of signatures, over restarts and crashes.

use futures_util::FutureExt;

use super::*;
use crate::clock::ManualClock;
use crate::clock::sure::SureClock;

fn remember(replays: &Replays, agent: &str, mac: [u8; 32], now: i64, until: i64) -> Seen {
    let window_s = until.abs_diff(now);
    replays.remember(agent, mac, Moments { signed: now, now, window_s }, false)
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn a_signature_counts_once_while_it_is_remembered() {
    let replays = Replays::default();
    assert_eq!(remember(&replays, "a", [1; 32], 100, 130), Seen::First);
    assert_eq!(remember(&replays, "a", [1; 32], 130, 160), Seen::Before);
    assert_eq!(remember(&replays, "b", [1; 32], 130, 160), Seen::First);
    assert_eq!(remember(&replays, "a", [1; 32], 131, 160), Seen::First);
}

#[test]
fn memory_is_bounded_for_each_agent() {
    let replays = Replays::default();
    let mac = |at: usize| {
        let mut mac = [0; MAC_BYTES];
        mac[..8].copy_from_slice(&at.to_be_bytes());
        mac
    };
    for at in 0..REMEMBERED_MAX {
        assert_eq!(remember(&replays, "a", mac(at), 100, 130), Seen::First);
    }
    assert_eq!(remember(&replays, "a", mac(REMEMBERED_MAX), 130, 160), Seen::Full);
    assert_eq!(remember(&replays, "b", mac(0), 130, 160), Seen::First);
    assert_eq!(remember(&replays, "a", mac(REMEMBERED_MAX), 131, 160), Seen::First);
    assert_eq!(replays.memory.lock().agents["a"].len(), 1);
}

#[test]
fn the_next_process_knows_what_this_one_did() {
    let store = Store::in_memory();
    let first = Replays::open(&store, at(90));
    assert_eq!(remember(&first, "a", [1; 32], 95, 130), Seen::First);
    assert_eq!(remember(&first, "a", [2; 32], 100, 110), Seen::First);
    first.save(&store, at(120)).unwrap();
    let second = Replays::open(&store, at(121));
    assert_eq!(remember(&second, "a", [1; 32], 122, 150), Seen::Before);
    assert_eq!(remember(&second, "b", [1; 32], 122, 150), Seen::First);
    assert_eq!(remember(&second, "a", [2; 32], 122, 150), Seen::First, "it is not remembered any more");
    // What was inherited is handed on.
    second.save(&store, at(123)).unwrap();
    assert_eq!(remember(&Replays::open(&store, at(124)), "a", [1; 32], 125, 150), Seen::Before);
}

#[test]
fn after_a_crash_nothing_counts_that_was_signed_before() {
    let store = Store::in_memory();
    let first = Replays::open(&store, at(90));
    assert_eq!(remember(&first, "a", [1; 32], 100, 130), Seen::First);
    first.note(&store).unwrap();
    let second = Replays::open(&store, at(110));
    let signed_at = |signed| Moments { signed, now: 112, window_s: 30 };
    assert_eq!(second.remember("a", [1; 32], signed_at(100), false), Seen::Unknown);
    assert_eq!(second.remember("a", [3; 32], signed_at(110), false), Seen::Unknown);
    assert_eq!(second.remember("a", [4; 32], signed_at(111), false), Seen::First);
    // Nor does it for the process after that, however well this one ends.
    second.save(&store, at(113)).unwrap();
    let third = Replays::open(&store, at(114));
    assert_eq!(third.remember("a", [3; 32], signed_at(110), false), Seen::Unknown);
    assert_eq!(third.remember("a", [6; 32], signed_at(111), false), Seen::First);
    // Other nodes know what this one cannot.
    assert_eq!(second.remember("a", [5; 32], signed_at(110), true), Seen::First);
    assert!(!second.is_known("a", 110) && second.is_known("a", 111));
}

#[test]
fn after_a_crash_nothing_counts_that_was_signed_ahead_of_the_clock() {
    let store = Store::in_memory();
    let ahead = |signed| Moments { signed, now: 100, window_s: 60 };
    let first = Replays::open(&store, at(90));
    assert_eq!(first.remember("a", [1; 32], ahead(150), false), Seen::First);
    assert!(first.is_newer().now_or_never().is_some(), "it is to be written down");
    first.note(&store).unwrap();
    let within = 150 + NOTED_AHEAD_S;
    assert_eq!(first.remember("a", [2; 32], ahead(within), false), Seen::First);
    assert!(first.is_newer().now_or_never().is_none(), "that is written down already");
    let taken = |replays: &Replays, mac, signed| replays.remember("a", mac, ahead(signed), false);
    // A crash, and another one before anything came.
    for second in [Replays::open(&store, at(105)), Replays::open(&store, at(106))] {
        assert_eq!(taken(&second, [1; 32], 150), Seen::Unknown);
        assert_eq!(taken(&second, [2; 32], within), Seen::Unknown);
        assert_eq!(taken(&second, [3; 32], within + 1), Seen::First);
    }
    // One that ended well knows what it took; one that crashed after it does not.
    let well = Replays::open(&store, at(107));
    assert_eq!(taken(&well, [4; 32], 180), Seen::First);
    well.save(&store, at(108)).unwrap();
    assert_eq!(taken(&Replays::open(&store, at(109)), [4; 32], 180), Seen::Before);
    let after = Replays::open(&store, at(110));
    assert_eq!(taken(&after, [5; 32], 180), Seen::Unknown, "nobody can tell");
    assert_eq!(taken(&after, [5; 32], 181), Seen::First);
}

#[test]
fn what_an_earlier_release_left_says_how_late_it_was_signed() {
    let store = Store::in_memory();
    let mut batch = Batch::default();
    let put = |batch: &mut Batch, key: u64, record: String| {
        batch.put(TABLE, key.to_be_bytes().to_vec(), format!(r#"{{"v":1,"record":{record}}}"#).into_bytes());
    };
    put(&mut batch, WHOLE, r#"{"is_whole":true,"known_since":null,"signed":[]}"#.to_owned());
    let named = URL_SAFE_NO_PAD.encode(name("a", &[1; 32]));
    put(&mut batch, 1, format!(r#"{{"is_whole":false,"known_since":null,"signed":[["{named}",150]]}}"#));
    store.commit(&batch).unwrap();
    let heir = Replays::open(&store, at(100));
    assert_eq!(remember(&heir, "a", [1; 32], 101, 150), Seen::Before);
    assert_eq!(remember(&heir, "a", [2; 32], 60, 150), Seen::First, "everything is known");
    let after_a_crash = Replays::open(&store, at(102));
    assert_eq!(remember(&after_a_crash, "a", [1; 32], 150, 210), Seen::Unknown);
    assert_eq!(remember(&after_a_crash, "a", [1; 32], 151, 210), Seen::First);
}

#[test]
fn a_store_that_holds_nothing_may_have_held_something() {
    let replays = Replays::open(&Store::in_memory(), at(100));
    assert_eq!(remember(&replays, "a", [1; 32], 100, 130), Seen::Unknown, "in the second of the start");
    assert_eq!(remember(&replays, "a", [1; 32], 101, 130), Seen::First);
}

#[test]
fn what_is_forgotten_counts_again() {
    let replays = Replays::default();
    assert_eq!(remember(&replays, "a", [1; 32], 100, 130), Seen::First);
    replays.forget("b", &[1; 32]);
    assert_eq!(remember(&replays, "a", [1; 32], 101, 130), Seen::Before);
    replays.forget("a", &[1; 32]);
    assert_eq!(remember(&replays, "a", [1; 32], 102, 130), Seen::First);
}

#[test]
fn an_agent_whose_clock_runs_ahead_makes_no_other_wait_after_a_crash() {
    let store = Store::in_memory();
    let ahead = |signed, now| Moments { signed, now, window_s: 60 };
    let first = Replays::open(&store, at(90));
    assert_eq!(first.remember("fast", [1; 32], ahead(150, 100), false), Seen::First);
    assert_eq!(first.remember("right", [2; 32], ahead(100, 100), false), Seen::First);
    first.note(&store).unwrap();
    // A crash, and another one: neither counts as the process that took it.
    for now in [104, 106] {
        let second = Replays::open(&store, at(now));
        assert_eq!(second.remember("right", [2; 32], ahead(100, now), false), Seen::Unknown);
        assert_eq!(second.remember("right", [now as u8; 32], ahead(now + 1, now + 1), false), Seen::First);
        assert_eq!(second.remember("fast", [1; 32], ahead(150, now + 1), false), Seen::Unknown);
        assert!(!second.is_known("fast", 150 + NOTED_AHEAD_S));
        assert!(second.is_known("fast", 150 + NOTED_AHEAD_S + 1) && second.is_known("right", now + 1));
    }
    // One that ends well hands on of whom nobody can tell; once the clock is there, it holds for nobody any more.
    let third = Replays::open(&store, at(110));
    third.save(&store, at(112)).unwrap();
    let fourth = Replays::open(&store, at(113));
    assert!(!fourth.is_known("fast", 150) && fourth.is_known("right", 112));
    let late = Replays::open(&store, at(160));
    assert!(late.known.ahead.is_empty() && late.memory.lock().ahead.is_empty());
}

#[test]
fn agents_a_little_ahead_of_each_other_do_not_move_what_holds_for_all() {
    let store = Store::in_memory();
    let replays = Replays::open(&store, at(90));
    let take = |agent: &str, mac: u8, signed| {
        let moments = Moments { signed, now: 100, window_s: 100 };
        assert_eq!(replays.remember(agent, [mac; 32], moments, false), Seen::First);
        replays.note(&store).unwrap();
    };
    take("right", 1, 100);
    for (at, signed) in (101..120).enumerate() {
        take(&format!("ahead-{at}"), 2, signed);
    }
    assert!(Replays::open(&store, at(101)).is_known("right", 100 + NOTED_AHEAD_S + 1));
}

#[test]
fn of_more_agents_ahead_than_are_told_apart_the_rest_counts_for_all() {
    let store = Store::in_memory();
    let replays = Replays::open(&store, at(90));
    for agent in 0..=AHEAD_MAX {
        let moments = Moments { signed: 150 + i64::from(agent > 0), now: 100, window_s: 150 };
        assert_eq!(replays.remember(&agent.to_string(), [1; 32], moments, false), Seen::First);
    }
    replays.note(&store).unwrap();
    let heir = Replays::open(&store, at(101));
    assert!(!heir.is_known("0", 150 + NOTED_AHEAD_S) && !heir.is_known("other", 150 + NOTED_AHEAD_S));
    assert!(!heir.is_known("1", 151 + NOTED_AHEAD_S) && heir.is_known("other", 151 + NOTED_AHEAD_S));
}

/// Takes what an agent signed at a moment, where signatures are remembered for so long.
fn take(replays: &Replays, mac: u8, signed: i64, now: i64, window_s: u64) -> Seen {
    replays.remember("a", [mac; 32], Moments { signed, now, window_s }, false)
}

#[test]
fn who_widens_the_window_lets_nothing_be_taken_again() {
    let store = Store::in_memory();
    let replays = Replays::open(&store, at(90));
    assert_eq!(take(&replays, 1, 100, 100, 10), Seen::First);
    assert_eq!(take(&replays, 2, 110, 101, 10), Seen::First, "ahead of the clock");
    // The first is forgotten by now, the second not yet.
    assert_eq!(take(&replays, 1, 100, 111, 60), Seen::Unknown);
    assert_eq!(take(&replays, 3, 100, 111, 60), Seen::Unknown, "nobody can tell");
    assert_eq!(take(&replays, 4, 101, 111, 60), Seen::First, "it would be known");
    assert_eq!(take(&replays, 2, 110, 121, 60), Seen::Unknown);
    assert_eq!(take(&replays, 5, 121, 121, 60), Seen::First, "signed anew");
    // What is signed from then on has all of the window, and the narrower one matters no more once that has gone by.
    assert_eq!(take(&replays, 6, 122, 180, 60), Seen::First);
    assert_eq!(take(&replays, 5, 121, 181, 60), Seen::Unknown);
    assert_eq!(take(&replays, 6, 122, 182, 60), Seen::Before);
    let again = Moments { signed: 190, now: 190, window_s: 61 };
    assert_eq!(replays.remember("a", [7; 32], again, true), Seen::First);
    assert_eq!(replays.memory.lock().windows.narrower, [(250, 60)]);
}

#[test]
fn a_wider_window_of_the_next_process_is_noticed() {
    for is_shared in [false, true] {
        for is_well in [false, true] {
            let store = Store::in_memory();
            let first = Replays::open(&store, at(90));
            assert_eq!(take(&first, 1, 100, 100, 10), Seen::First);
            assert!(first.is_newer().now_or_never().is_some());
            if is_well { first.save(&store, at(111)) } else { first.note(&store) }.unwrap();
            let second = Replays::open(&store, at(112));
            let taken = |mac, signed, now| {
                second.remember("a", [mac; 32], Moments { signed, now, window_s: 60 }, is_shared)
            };
            assert_eq!(taken(1, 100, 113), Seen::Unknown, "shared {is_shared}, well {is_well}");
            assert_eq!(taken(2, 113, 113), Seen::First);
            // And by the one after that, whose own window is no wider.
            second.note(&store).unwrap();
            let third = Replays::open(&store, at(114));
            let late = Moments { signed: 103, now: 114, window_s: 60 };
            assert_eq!(third.remember("a", [3; 32], late, true), Seen::Unknown);
        }
    }
}

#[test]
fn where_nothing_was_remembered_what_was_signed_then_is_refused() {
    let store = Store::in_memory();
    let replays = Replays::open(&store, at(90));
    replays.pass(at(100));
    assert_eq!(take(&replays, 1, 100, 110, 60), Seen::Unknown);
    assert_eq!(take(&replays, 2, 110, 110, 60), Seen::Unknown, "in the second of the change");
    assert_eq!(take(&replays, 3, 111, 111, 60), Seen::First);
    // A node that is new does not know for how long the others remembered.
    let new = Replays::open(&Store::in_memory(), at(100));
    let shared = |mac, signed| new.remember("a", [mac; 32], Moments { signed, now: 101, window_s: 60 }, true);
    assert_eq!(shared(1, 100), Seen::Unknown);
    assert_eq!(shared(2, 101), Seen::First);
}

#[test]
fn a_window_that_goes_up_and_down_is_told_apart_within_bounds() {
    let replays = Replays::default();
    for step in 0..100 {
        let window_s = if step % 2 == 0 { 10 } else { 1000 };
        assert_eq!(take(&replays, step as u8, 500 + step, 500 + step, window_s), Seen::First);
        assert!(replays.memory.lock().windows.narrower.len() <= 16);
    }
    assert_eq!(take(&replays, 200, 588, 599, 1000), Seen::Unknown);
    assert_eq!(take(&replays, 201, 589, 599, 1000), Seen::First);
}

#[test]
fn what_was_restored_is_not_everything() {
    let store = Store::in_memory();
    let first = Replays::open(&store, at(90));
    assert_eq!(take(&first, 1, 100, 100, 60), Seen::First);
    first.save(&store, at(101)).unwrap();
    distrust(&store).unwrap();
    let restored = Replays::open(&store, at(110));
    assert_eq!(take(&restored, 1, 100, 111, 60), Seen::Unknown);
    assert_eq!(take(&restored, 2, 105, 111, 60), Seen::Unknown, "it may have been taken after the backup");
    assert_eq!(take(&restored, 3, 111, 111, 60), Seen::First);
    distrust(&Store::in_memory()).unwrap();
}

#[test]
fn a_clock_that_jumped_lets_no_request_count_twice() {
    let clock = Arc::new(ManualClock::new(at(100)));
    let sure = || Arc::new(SureClock::since(clock.clone(), None));
    let store = Store::in_memory();
    let replays = Replays::open(&store, at(90)).aged_by(sure());
    let taken = |replays: &Replays, agent: &str, mac: u8, signed: i64| {
        let at = Moments { signed, now: clock.now().as_second(), window_s: 30 };
        replays.remember(agent, [mac; 32], at, false)
    };
    assert_eq!(taken(&replays, "a", 1, 100), Seen::First);
    clock.set(at(10_000));
    assert_eq!(taken(&replays, "b", 2, 10_000), Seen::First);
    replays.save(&store, clock.now()).unwrap();
    clock.set(at(101));
    assert_eq!(taken(&replays, "a", 1, 100), Seen::Before);
    // Nor does the next process, which begins while it is wrong.
    clock.set(at(10_000));
    let next = Replays::open(&store, clock.now());
    clock.set(at(101));
    assert_eq!(taken(&next.aged_by(sure()), "a", 1, 100), Seen::Before);
}
