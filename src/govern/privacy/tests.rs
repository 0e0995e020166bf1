use std::sync::Arc;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;

use super::*;
use crate::access::keyring::Keyring;
use crate::clock::Clock;
use crate::clock::ManualClock;
use crate::clock::SystemClock;
use crate::govern::audit;
use crate::govern::audit::AuditConfig;
use crate::govern::audit::AuditLog;
use crate::govern::audit::Opened;
use crate::store::Record;
use crate::store::Store;
use crate::store::open_sled;
use crate::telemetry::metrics::Metrics;

/// Forgets slowly enough that others come in between.
pub(super) struct Slow;

impl DataProvider for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn export(&self, _: &[String]) -> Result<Option<Facts>, ProviderError> {
        Ok(None)
    }

    fn erase(&self, _: &[String]) -> Result<u64, ProviderError> {
        thread::yield_now();
        Ok(1)
    }
}

/// Breaks off, as a process that is killed would.
struct Cut;

impl DataProvider for Cut {
    fn name(&self) -> &'static str {
        "cut"
    }

    fn export(&self, _: &[String]) -> Result<Option<Facts>, ProviderError> {
        Ok(None)
    }

    fn erase(&self, _: &[String]) -> Result<u64, ProviderError> {
        panic!("cut short")
    }
}

/// Knows one entity, by two names.
struct Named;

impl DataProvider for Named {
    fn name(&self) -> &'static str {
        "named"
    }

    fn aliases(&self, entity: &str) -> Aliases {
        let own = match entity {
            "ada" => vec!["user-1".to_owned()],
            "user-1" => vec!["ada".to_owned()],
            _ => Vec::new(),
        };
        Aliases { own, shared: Vec::new() }
    }

    fn export(&self, _: &[String]) -> Result<Option<Facts>, ProviderError> {
        Ok(None)
    }

    fn erase(&self, names: &[String]) -> Result<u64, ProviderError> {
        Ok(names.len() as u64)
    }
}

/// A hold as it was stored before entities had several names.
#[derive(Clone, Serialize, Deserialize)]
struct OneName {
    entity: String,
    entity_type: String,
    reason: String,
    issued_by: String,
    created_at: Timestamp,
    released_at: Option<Timestamp>,
}

/// The note of an erasure as it was stored then.
#[derive(Clone, Serialize, Deserialize)]
struct BareNote {
    begun_at: Timestamp,
}

impl Record for OneName {
    const VERSION: u32 = 1;
}

impl Record for BareNote {
    const VERSION: u32 = 1;
}

pub(super) fn opened(
    folder: &std::path::Path,
    store: &Store,
    provider: Box<dyn DataProvider>,
) -> (Privacy, Arc<Keyring>) {
    let (privacy, keyring, _) = opened_with_log(folder, store, provider);
    (privacy, keyring)
}

fn opened_with_log(
    folder: &std::path::Path,
    store: &Store,
    provider: Box<dyn DataProvider>,
) -> (Privacy, Arc<Keyring>, AuditLog) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let config = AuditConfig { reserve_bytes: 0, ..AuditConfig::at(folder.to_owned()) };
    let metrics = Arc::new(Metrics::new("0", "0"));
    let Opened { keyring, log, .. } = audit::open(config, store.clone(), clock.clone(), metrics).unwrap();
    let kept = log.clone();
    let privacy = Privacy::open((store, "node"), keyring.clone(), log, clock, vec![provider]).unwrap();
    (privacy, keyring, kept)
}

/// Cannot forget some, as long as it is not mended.
#[derive(Clone, Default)]
struct Stuck(Arc<Mutex<Vec<String>>>);

impl DataProvider for Stuck {
    fn name(&self) -> &'static str {
        "stuck"
    }

    fn export(&self, _: &[String]) -> Result<Option<Facts>, ProviderError> {
        Ok(None)
    }

    fn erase(&self, names: &[String]) -> Result<u64, ProviderError> {
        let stuck = self.0.lock();
        match names.iter().find(|name| stuck.contains(name)) {
            Some(name) if name == "root" => Err(ProviderError::Refused("it stays".to_owned())),
            Some(_) => Err(ProviderError::Unavailable("stuck")),
            None => Ok(1),
        }
    }
}

/// Names some callers.
struct Names(NamedCallers);

impl DataProvider for Names {
    fn name(&self) -> &'static str {
        "names"
    }

    fn callers(&self) -> Result<NamedCallers, ProviderError> {
        Ok(self.0.clone())
    }

    fn export(&self, _: &[String]) -> Result<Option<Facts>, ProviderError> {
        Ok(None)
    }

    fn erase(&self, _: &[String]) -> Result<u64, ProviderError> {
        Ok(0)
    }
}

/// Finishes what was cut short; all of it can be.
fn finished(privacy: &Privacy) -> Vec<Erased> {
    privacy.resume().unwrap().into_iter().map(Result::unwrap).collect()
}

/// Returns one more node of a deployment, with a memory of its own.
fn node(
    name: &str,
    store: &Store,
    keyring: &Arc<Keyring>,
    log: &AuditLog,
    clock: &Arc<ManualClock>,
) -> Privacy {
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    Privacy::open((store, name), keyring.clone(), log.clone(), clock, vec![Box::new(Slow)]).unwrap()
}

pub(super) fn hold_on(entity: &str) -> NewHold {
    NewHold {
        entity_id: entity.to_owned(),
        entity_type: "user".to_owned(),
        reason: "a case".to_owned(),
        issued_by: "counsel".to_owned(),
    }
}

#[test]
fn callers_whom_no_record_and_no_hold_names_are_forgotten() {
    let (folder, store) = (tempfile::tempdir().unwrap(), Store::in_memory());
    let caller = |number: u32| format!("caller_{number:024}");
    // As if today were long ago.
    let since = SystemClock.now() + Duration::from_secs(30 * 86_400);
    let named = NamedCallers { since: Some(since), also: [caller(2)].into() };
    let (privacy, keyring) = opened(folder.path(), &store, Box::new(Names(named)));
    let tokens = [1, 2, 3, 4].map(|number| keyring.seal(&caller(number)));
    let known = keyring.keep("key_1");
    for held in [3, 4] {
        privacy.hold(hold_on(&caller(held)), privacy.arrival()).unwrap();
    }
    // What a hold says, also a released one, is kept for ever.
    privacy.release("hold_2".parse().unwrap(), None).unwrap();
    assert_eq!([since; 2].map(|now| privacy.age_out(now).unwrap()), [1, 0]);
    let shown = tokens.each_ref().map(|token| keyring.shown(token));
    assert_eq!(shown, ["[erased]".to_owned(), caller(2), caller(3), caller(4)]);
    assert_eq!(keyring.shown(&known), "key_1");
    assert!(privacy.erase(&caller(4)).is_ok() && matches!(privacy.erase(&caller(3)), Err(EraseError::Held)));
}

#[test]
fn of_a_hold_and_an_erasure_that_meet_exactly_one_wins() {
    let (folder, store) = (tempfile::tempdir().unwrap(), Store::in_memory());
    let (privacy, keyring) = opened(folder.path(), &store, Box::new(Slow));
    let (mut held, mut erased) = (0, 0);
    for round in 0..1000 {
        let entity = format!("user-{round}");
        let token = keyring.seal(&entity);
        let (start, both) = (Barrier::new(2), (round % 2 == 0, &entity));
        let (hold, erasure) = thread::scope(|scope| {
            let hold = scope.spawn(|| {
                let arrival = privacy.arrival();
                start.wait();
                if both.0 {
                    thread::yield_now();
                }
                privacy.hold(hold_on(both.1), arrival)
            });
            let erasure = scope.spawn(|| {
                start.wait();
                privacy.erase(both.1)
            });
            (hold.join().unwrap(), erasure.join().unwrap())
        });
        match (&hold, &erasure) {
            (Ok(_), Err(EraseError::Held)) => held += 1,
            (Err(HoldError::Erased), Ok(_)) => erased += 1,
            other => panic!("round {round}: {other:?}"),
        }
        // What was answered is what is.
        assert_eq!(privacy.is_held(&entity), hold.is_ok(), "round {round}");
        assert_eq!(keyring.name_of(&token).is_some(), hold.is_ok(), "round {round}");
    }
    assert!(held > 0 && erased > 0, "{held} holds and {erased} erasures won: they never met");
    // Later, a hold on who was erased is a hold on somebody new.
    let entity = privacy.holds().unwrap().len();
    assert_eq!(entity, held);
    privacy.erase("late").unwrap();
    assert!(privacy.hold(hold_on("late"), privacy.arrival()).is_ok());
}

#[test]
fn holds_outlive_the_process_and_forget_who_was_released_and_erased() {
    let folder = tempfile::tempdir().unwrap();
    let open = || open_sled(&folder.path().join("store")).unwrap();
    let store = open();
    let (privacy, keyring) = opened(folder.path(), &store, Box::new(Slow));
    let first = privacy.hold(hold_on("alice"), privacy.arrival()).unwrap();
    let second = privacy.hold(hold_on("alice"), privacy.arrival()).unwrap();
    assert_eq!((first.id.to_string(), second.id.to_string()), ("hold_1".into(), "hold_2".into()));
    assert!(
        privacy.release(first.id, None).unwrap().unwrap().1
            && !privacy.release(first.id, None).unwrap().unwrap().1
    );
    assert!(matches!(privacy.erase("alice"), Err(EraseError::Held)), "the second one is in force");
    drop((privacy, keyring, store));
    let store = open();
    let (privacy, _) = opened(folder.path(), &store, Box::new(Slow));
    assert!(privacy.is_held("alice"));
    assert!(privacy.release(second.id, None).unwrap().unwrap().1);
    privacy.erase("alice").unwrap();
    let told: Vec<NewHold> = privacy.holds().unwrap().into_iter().map(|hold| hold.told).collect();
    let erased = NewHold { entity_id: "[erased]".into(), reason: "[erased]".into(), ..hold_on("") };
    assert_eq!(told, [erased.clone(), erased]);
    assert_eq!(privacy.hold(hold_on("bob"), privacy.arrival()).unwrap().id.to_string(), "hold_3");
    assert_eq!(privacy.hold_of(HoldId(4)).unwrap(), None);
}

#[test]
fn an_erasure_that_breaks_off_is_recorded_without_a_name_that_would_come_back() {
    let (folder, store) = (tempfile::tempdir().unwrap(), Store::in_memory());
    let stuck = Stuck(Arc::new(Mutex::new(vec!["alice".to_owned()])));
    let (privacy, keyring) = opened(folder.path(), &store, Box::new(stuck.clone()));
    let event = privacy.erase("alice").unwrap_err().event();
    assert_eq!((event.event_type.as_str(), event.action.as_str()), ("erasure_failed", "block"));
    assert_eq!((event.entity, event.actor), (None, None));
    assert!(!event.message.contains("alice"), "{}", event.message);
    stuck.0.lock().clear();
    // Whoever finishes it, and whenever the event is written: the name is gone.
    assert_eq!((finished(&privacy).len(), keyring.known("alice").is_none()), (1, true));
}

#[test]
fn an_erasure_that_was_cut_short_is_finished_by_the_next_process() {
    let (folder, store) = (tempfile::tempdir().unwrap(), Store::in_memory());
    let (privacy, keyring) = opened(folder.path(), &store, Box::new(Cut));
    let token = keyring.seal("alice");
    let cut = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| privacy.erase("alice")));
    assert!(cut.is_err() && keyring.name_of(&token).is_some());
    drop((privacy, keyring));
    let (privacy, keyring) = opened(folder.path(), &store, Box::new(Slow));
    let finished = finished(&privacy);
    assert_eq!((finished.len(), keyring.name_of(&token)), (1, None));
    assert!(privacy.resume().unwrap().is_empty(), "it is in hand until it is recorded");
    assert!(finished[0].event().message.contains("restart"));
    privacy.settle(&finished[0]).unwrap();
    drop(finished);
    assert!(privacy.resume().unwrap().is_empty());
}

#[test]
fn nodes_hold_and_erase_an_entity_by_all_its_names() {
    let (folder, store) = (tempfile::tempdir().unwrap(), Store::in_memory());
    let (one, keyring, log) = opened_with_log(folder.path(), &store, Box::new(Named));
    let providers: Vec<Box<dyn DataProvider>> = vec![Box::new(Named)];
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let other = Privacy::open((&store, "other"), keyring.clone(), log, clock, providers).unwrap();
    let early = one.arrival();
    let hold = one.hold(hold_on("ada"), early).unwrap();
    assert!(matches!(other.erase("user-1"), Err(EraseError::Held)));
    assert!(other.is_held("user-1") && other.is_held("ada"));
    other.release(hold.id, None).unwrap();
    one.follow().unwrap();
    assert!(!one.is_held("ada"));
    let tokens = ["ada", "user-1"].map(|name| keyring.seal(name));
    let erased = other.erase("user-1").unwrap();
    assert_eq!(erased.records_affected(), 2);
    assert!(tokens.iter().all(|token| keyring.name_of(token).is_none()), "every name is forgotten");
    assert!(matches!(one.hold(hold_on("ada"), early), Err(HoldError::Erased)));
    other.settle(&erased).unwrap();
    assert!(one.hold(hold_on("ada"), one.arrival()).is_ok());
}

#[test]
fn records_of_entities_with_one_name_are_still_read() {
    let (folder, store) = (tempfile::tempdir().unwrap(), Store::in_memory());
    let (privacy, keyring) = opened(folder.path(), &store, Box::new(Slow));
    let now = Timestamp::now();
    let hold = OneName {
        entity: keyring.seal("alice").to_string(),
        entity_type: "user".to_owned(),
        reason: keyring.wrap_text("alice", "a case"),
        issued_by: keyring.seal("counsel").to_string(),
        created_at: now,
        released_at: None,
    };
    store.table(hold::HOLDS).put_durable(&1_u64, &hold).unwrap();
    let bob = keyring.seal("bob");
    store.table(erasure::NOTES).put_durable(&bob.to_string(), &BareNote { begun_at: now }).unwrap();
    keyring.flush().unwrap();
    drop((privacy, keyring));
    let (privacy, keyring) = opened(folder.path(), &store, Box::new(Slow));
    assert!(privacy.is_held("alice"));
    assert_eq!(privacy.hold_of(HoldId(1)).unwrap().unwrap().told, hold_on("alice"));
    assert!(matches!(privacy.erase("bob"), Err(EraseError::UnderWay)));
    assert_eq!((finished(&privacy).len(), keyring.name_of(&bob)), (1, None));
}

#[test]
fn what_was_not_begun_is_not_said_to_be_finished_later() {
    let away = || EraseError::Store(crate::store::StoreError::NotDurable);
    assert!(away().event().message.starts_with("an erasure broke off, and is finished later: "));
    assert!(away().before_note().event().message.starts_with("an erasure was not begun, ask for it again: "));
    assert!(matches!(EraseError::Held.before_note(), EraseError::Held));
}

#[test]
fn one_erasure_that_cannot_be_finished_keeps_no_other_back() {
    let (folder, store) = (tempfile::tempdir().unwrap(), Store::in_memory());
    let names = ["alice", "bob", "carol", "dave", "erin", "root"];
    let (privacy, keyring) = opened(folder.path(), &store, Box::new(Cut));
    let tokens = names.map(|name| keyring.seal(name));
    for name in names {
        let cut = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| privacy.erase(name)));
        assert!(cut.is_err());
    }
    drop((privacy, keyring));
    let stuck = Stuck(Arc::new(Mutex::new(vec!["carol".to_owned(), "root".to_owned()])));
    let (privacy, keyring) = opened(folder.path(), &store, Box::new(stuck.clone()));
    let outcomes = privacy.resume().unwrap();
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 4, "{outcomes:?}");
    let kept: Vec<&str> = names
        .into_iter()
        .zip(&tokens)
        .filter(|(_, token)| keyring.name_of(token).is_some())
        .map(|(name, _)| name)
        .collect();
    assert_eq!(kept, ["carol", "root"]);
    outcomes.iter().flatten().for_each(|erased| privacy.settle(erased).unwrap());
    drop(outcomes);
    // What must not be forgotten is given up; what could not be is tried again, while the process runs.
    assert!(matches!(privacy.erase("carol"), Err(EraseError::UnderWay)));
    stuck.0.lock().clear();
    privacy.settle(&privacy.erase("root").unwrap()).unwrap();
    let again = finished(&privacy);
    assert_eq!((again.len(), keyring.name_of(&tokens[2])), (1, None));
    privacy.settle(&again[0]).unwrap();
    assert!(privacy.erase("carol").is_ok());
}

#[test]
fn nodes_that_were_away_hear_of_every_erasure_for_a_year() {
    let (folder, store) = (tempfile::tempdir().unwrap(), Store::in_memory());
    let clock = Arc::new(ManualClock::new("2026-11-21T12:00:00Z".parse().unwrap()));
    let (cut, keyring, log) = opened_with_log(folder.path(), &store, Box::new(Cut));
    let seen_at = clock.now();
    let gone = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cut.erase("alice")));
    assert!(gone.is_err());
    drop(cut);
    let one = node("node", &store, &keyring, &log, &clock);
    let resumed = finished(&one);
    resumed.iter().for_each(|erased| one.settle(erased).unwrap());
    let is_erased = |node: &Privacy, name: &str, since| node.is_among(&node.erased(), name, since);
    let early = node("other", &store, &keyring, &log, &clock);
    assert!(is_erased(&early, "alice", seen_at), "an erasure that was resumed is known elsewhere");
    // The others are there while it goes on; one comes back after months.
    clock.advance(std::time::Duration::from_secs(200 * 86_400));
    one.erase("bob").unwrap();
    one.forget_marks(clock.now()).unwrap();
    early.follow().unwrap();
    let late = node("late", &store, &keyring, &log, &clock);
    for node in [&early, &late] {
        assert!(is_erased(node, "alice", seen_at) && is_erased(node, "bob", seen_at));
        assert!(!is_erased(node, "carol", seen_at));
        assert!(!is_erased(node, "alice", clock.now()), "who came back since is somebody new");
    }
    clock.advance(MARKS_KEPT - std::time::Duration::from_secs(86_400));
    one.forget_marks(clock.now()).unwrap();
    late.follow().unwrap();
    assert!(!is_erased(&late, "alice", seen_at) && is_erased(&late, "bob", seen_at));
}

#[test]
fn a_hold_is_in_force_while_all_holds_are_read_anew() {
    let (folder, store) = (tempfile::tempdir().unwrap(), Store::in_memory());
    let (one, keyring, log) = opened_with_log(folder.path(), &store, Box::new(Slow));
    let clock = Arc::new(ManualClock::new("2026-11-21T12:00:00Z".parse().unwrap()));
    let other = node("other", &store, &keyring, &log, &clock);
    (0..50).for_each(|number| drop(one.hold(hold_on(&format!("user-{number}")), one.arrival()).unwrap()));
    other.follow().unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        let watching = scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                assert!(other.is_held("user-49"));
            }
        });
        for _ in 0..5 {
            let holds = store.table::<u64, BareNote>(hold::HOLDS);
            for number in 1000..5200_u64 {
                holds.put(&number, &BareNote { begun_at: Timestamp::now() }).unwrap();
                holds.delete(&number).unwrap();
            }
            other.follow().unwrap();
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        watching.join().unwrap();
    });
}
