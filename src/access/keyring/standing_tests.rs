use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::access::secret::NodeSecret;
use crate::clock::ManualClock;

const DAY: Duration = Duration::from_secs(86_400);

fn caller(number: usize) -> String {
    format!("caller_{number:024x}")
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp::from_second(20_000 * SECONDS_PER_DAY).unwrap()))
}

fn opened(folder: &Path, clock: &Arc<ManualClock>) -> Keyring {
    Keyring::open(&folder.join("keys")).unwrap().by(Arc::clone(clock) as Arc<dyn Clock>)
}

/// Returns how many of some callers are listed.
fn listed(keyring: &Keyring, numbers: std::ops::Range<usize>, standing: Standing) -> usize {
    numbers.filter(|number| keyring.listed_as(&caller(*number), standing).is_some()).count()
}

fn names(keyring: &Keyring) -> [usize; 4] {
    keyring.count().map(|count| count.names)
}

#[test]
fn whoever_makes_up_callers_takes_the_place_of_nobody_else() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), clock());
    let keyring = opened(folder.path(), &clock);
    keyring.fill_at(Standing::Stranger, 80);
    assert_eq!(listed(&keyring, 0..1000, Standing::Stranger), 10, "an eighth of what is left, each day");
    assert_eq!(keyring.seal(&caller(999)).as_ref(), UNLISTED_TOKEN);
    assert_eq!(keyring.count().map(|count| count.unlisted), [991, 0, 0, 0]);
    assert_eq!(keyring.count().map(|count| count.unlisted), [0, 0, 0, 0], "each is counted once");
    // Those who are known better have places of their own, and who has a name keeps it.
    assert_eq!(listed(&keyring, 1000..1100, Standing::Caller), 100);
    for known in ["key_1", "user_2", "planner", "oidc:ada"] {
        assert_eq!(keyring.shown(&keyring.seal(known)), known);
    }
    assert_eq!(keyring.shown(&keyring.seal(&caller(3))), caller(3));
    // Whoever comes later gets one of those that are left, however long the flood goes on.
    for day in 1..40 {
        clock.advance(DAY);
        let comes = 10_000 * day;
        let is_listed = keyring.listed_as(&caller(comes), Standing::Stranger).is_some();
        assert_eq!(is_listed, day < 23, "day {day}");
        listed(&keyring, comes..comes + 200, Standing::Stranger);
    }
    assert_eq!(names(&keyring), [80, 100, 4, 0]);
}

#[test]
fn a_stranger_whose_credential_was_taken_makes_room_for_another() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), clock());
    let keyring = opened(folder.path(), &clock);
    keyring.fill_at(Standing::Stranger, 1);
    let token = keyring.seal(&caller(1));
    assert_eq!(keyring.seal(&caller(2)).as_ref(), UNLISTED_TOKEN);
    assert_eq!(keyring.seal_as(&caller(1), Standing::Caller), token);
    assert_eq!(keyring.seal(&caller(1)), token, "it stays known");
    assert_eq!(names(&keyring), [0, 1, 0, 0]);
    clock.advance(DAY);
    assert!(keyring.listed_as(&caller(2), Standing::Stranger).is_some());
    // Under a hold it never ages out.
    assert_eq!(keyring.keep(&caller(1)), token);
    keyring.flush().unwrap();
    drop(keyring);
    assert_eq!(names(&opened(folder.path(), &clock)), [1, 0, 0, 1]);
}

fn ages(keyring: &Keyring, clock: &Arc<ManualClock>, reopen: impl FnOnce(&Keyring)) {
    let [gone, held, seen, taken] = [1, 2, 3, 4].map(caller);
    let tokens = [&gone, &held, &seen].map(|name| keyring.seal(name));
    let accepted = keyring.seal_as(&taken, Standing::Caller);
    let known = keyring.keep("key_1");
    let session = keyring.seal("session_1");
    keyring.flush().unwrap();
    let since = clock.now();
    clock.advance(5 * DAY);
    let _ = keyring.seal(&seen);
    keyring.flush().unwrap();
    // It may not have been told everywhere yet that they were seen.
    assert_eq!(keyring.age_out(since + DAY, [held.as_str()]).unwrap(), 0);
    assert_eq!(keyring.age_out(since + 7 * DAY, [held.as_str()]).unwrap(), 0);
    assert_eq!(keyring.age_out(since + 8 * DAY, [held.as_str()]).unwrap(), 3);
    let shown = tokens.each_ref().map(|token| keyring.shown(token));
    assert_eq!(shown, [ERASED.to_owned(), held.clone(), seen.clone()]);
    let shown = [&accepted, &session, &known].map(|token| keyring.shown(token));
    assert_eq!(shown, [ERASED, ERASED, "key_1"]);
    assert_eq!((keyring.take_aged_out(), keyring.take_aged_out()), (3, 0));
    reopen(keyring);
    clock.advance(5 * DAY);
    // Whoever comes back is somebody else.
    assert_ne!(keyring.seal(&gone), tokens[0]);
    assert!(!keyring.destroy(&taken).unwrap() && keyring.destroy(&held).unwrap());
    assert_eq!(keyring.age_out(since + 13 * DAY, []).unwrap(), 1);
    assert_eq!(keyring.shown(&tokens[2]), ERASED);
}

#[test]
fn callers_whom_nothing_names_any_more_age_out_of_the_file() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), clock());
    let keyring = opened(folder.path(), &clock);
    let keys = || std::fs::read(folder.path().join("keys")).unwrap();
    ages(&keyring, &clock, |_| {
        let taken = keys()[64..].chunks(64).filter(|slot| slot.iter().any(|byte| *byte != 0)).count();
        assert_eq!(taken, 3, "the keys of three are overwritten");
    });
    keyring.flush().unwrap();
    drop(keyring);
    let reopened = opened(folder.path(), &clock);
    assert_eq!((names(&reopened), reopened.known(&caller(1)).is_some()), ([1, 0, 0, 1], true));
    // The day on which it was seen is still known.
    assert_eq!(reopened.age_out(clock.now() + 7 * DAY, []).unwrap(), 0);
    assert_eq!(reopened.age_out(clock.now() + 8 * DAY, []).unwrap(), 1);
}

#[test]
fn callers_whom_nothing_names_any_more_age_out_on_all_nodes() {
    let (store, secret, clock) = (Store::in_memory(), NodeSecret::random(), clock());
    let [one, other] = [(); 2].map(|()| {
        let keyring = Keyring::shared(&store, secret.clone()).unwrap();
        keyring.by(Arc::clone(&clock) as Arc<dyn Clock>)
    });
    ages(&one, &clock, |_| {
        other.follow().unwrap();
        assert_eq!((names(&other), other.known(&caller(1))), ([2, 0, 0, 1], None));
    });
    // Seen by one node, it does not age out at the other.
    let since = clock.now();
    clock.advance(20 * DAY);
    let token = other.seal(&caller(1));
    other.age_out(since, []).unwrap();
    assert_eq!(one.age_out(since + 12 * DAY, []).unwrap(), 0);
    assert_eq!(one.shown(&token), caller(1));
}

/// More than go at a time, and in their midst some who were seen elsewhere.
#[test]
fn of_many_who_age_out_everywhere_those_who_were_seen_elsewhere_stay() {
    let (store, secret, clock) = (Store::in_memory(), NodeSecret::random(), clock());
    let [one, other] = [(); 2].map(|()| {
        let keyring = Keyring::shared(&store, secret.clone()).unwrap();
        keyring.by(Arc::clone(&clock) as Arc<dyn Clock>)
    });
    let since = clock.now();
    assert_eq!(listed(&one, 0..2300, Standing::Caller), 2300);
    clock.advance(20 * DAY);
    other.follow().unwrap();
    (1100..1150).for_each(|number| drop(other.seal(&caller(number))));
    // It tells that, while nobody is old enough yet.
    assert_eq!(other.age_out(since, []).unwrap(), 0);
    assert_eq!(one.age_out(since + 12 * DAY, []).unwrap(), 2250);
    other.follow().unwrap();
    for keyring in [&one, &other] {
        assert_eq!(names(keyring), [0, 50, 0, 0]);
        assert!((1100..1150).all(|number| keyring.known(&caller(number)).is_some()));
    }
}

#[test]
fn keys_from_before_there_were_standings_never_age_out() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), clock());
    let keyring = opened(folder.path(), &clock);
    let token = keyring.seal(&caller(1));
    keyring.flush().unwrap();
    drop(keyring);
    let mut bytes = std::fs::read(folder.path().join("keys")).unwrap();
    // The slot as it was written then.
    let slot = &mut bytes[64..];
    slot[5] = 0;
    slot[24..28].fill(0);
    let sum = crc32fast::hash(&slot[4..]).to_le_bytes();
    slot[..4].copy_from_slice(&sum);
    std::fs::write(folder.path().join("keys"), &bytes).unwrap();
    let keyring = opened(folder.path(), &clock);
    assert_eq!(keyring.age_out(clock.now() + 1000 * DAY, []).unwrap(), 0);
    assert_eq!((keyring.shown(&token), names(&keyring)), (caller(1), [0, 0, 0, 1]));
}
