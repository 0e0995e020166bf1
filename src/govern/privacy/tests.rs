use std::sync::Arc;
use std::sync::Barrier;
use std::thread;

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;

use super::*;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::govern::audit;
use crate::govern::audit::AuditConfig;
use crate::govern::audit::AuditLog;
use crate::govern::audit::Opened;
use crate::govern::keyring::Keyring;
use crate::store::Record;
use crate::store::Store;
use crate::store::open_sled;
use crate::telemetry::metrics::Metrics;

/// Forgets slowly enough that others come in between.
struct Slow;

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

fn opened(
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

fn hold_on(entity: &str) -> NewHold {
    NewHold {
        entity_id: entity.to_owned(),
        entity_type: "user".to_owned(),
        reason: "a case".to_owned(),
        issued_by: "counsel".to_owned(),
    }
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
    assert!(privacy.release(first.id).unwrap().unwrap().1 && !privacy.release(first.id).unwrap().unwrap().1);
    assert!(matches!(privacy.erase("alice"), Err(EraseError::Held)), "the second one is in force");
    drop((privacy, keyring, store));
    let store = open();
    let (privacy, _) = opened(folder.path(), &store, Box::new(Slow));
    assert!(privacy.is_held("alice"));
    assert!(privacy.release(second.id).unwrap().unwrap().1);
    privacy.erase("alice").unwrap();
    let told: Vec<NewHold> = privacy.holds().unwrap().into_iter().map(|hold| hold.told).collect();
    let erased = NewHold { entity_id: "[erased]".into(), reason: "[erased]".into(), ..hold_on("") };
    assert_eq!(told, [erased.clone(), erased]);
    assert_eq!(privacy.hold(hold_on("bob"), privacy.arrival()).unwrap().id.to_string(), "hold_3");
    assert_eq!(privacy.hold_of(HoldId(4)).unwrap(), None);
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
    let finished = privacy.resume().unwrap();
    assert_eq!((finished.len(), keyring.name_of(&token)), (1, None));
    assert!(finished[0].event().message.contains("restart"));
    privacy.settle(&finished[0]).unwrap();
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
    other.release(hold.id).unwrap();
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
    assert_eq!((privacy.resume().unwrap().len(), keyring.name_of(&bob)), (1, None));
}
