//! What every backend must do, run against each.

use std::ops::ControlFlow;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::Batch;
use super::KeyRange;
use super::Order;
use super::Store;
use super::StoreError;
use super::archive::ArchiveFilter;
use super::archive::ArchivePage;
use super::archive::ArchiveRow;
use super::archive::Counted;
use super::config::PostgresConfig;
use super::fixture::Postgres;
use super::open_postgres;
use super::open_sled;
use crate::document::secret::SecretPlace;
use crate::id::Ulid;

/// Everything that a backend must do; each gets an empty store.
const CASES: [fn(&Store); 8] = [
    values_come_back_and_go,
    tables_do_not_see_each_other,
    a_batch_past_a_limit_leaves_nothing,
    long_scans_show_each_entry_once,
    large_values_come_back,
    writers_do_not_lose_each_others_words,
    what_others_wrote_is_told,
    what_was_decided_by_old_facts_is_not_written,
];

#[test]
fn memory_does_what_every_backend_must() {
    CASES.into_iter().for_each(|case| case(&Store::in_memory()));
    ranges(Store::in_memory);
}

#[test]
fn sled_does_what_every_backend_must() {
    let folders = std::cell::RefCell::new(Vec::new());
    let fresh = || {
        let folder = tempfile::tempdir().unwrap();
        let store = open_sled(folder.path()).unwrap();
        folders.borrow_mut().push(folder);
        store
    };
    CASES.into_iter().for_each(|case| case(&fresh()));
    ranges(fresh);
}

#[test]
fn postgresql_does_what_every_backend_must() {
    let server = Postgres::start();
    let fresh = || {
        let store = open(&server.url());
        server.sql("TRUNCATE portcullis_entries, portcullis_tables");
        store
    };
    CASES.into_iter().for_each(|case| case(&fresh()));
    ranges(fresh);
    assert_eq!(open(&server.url()).backend_name(), "postgresql");
    old_deletions_are_forgotten(&server, &fresh());
    many_may_open_an_empty_database_at_once(&server);
}

/// Functions that stand before PostgreSQL's own, and say what a database says that has none.
fn without_locks(code: &str) -> String {
    let refusing = ["pg_advisory_xact_lock", "pg_try_advisory_xact_lock"].map(|name| {
        format!(
            "CREATE FUNCTION other.{name}(bigint) RETURNS void LANGUAGE plpgsql AS $$ BEGIN \
             RAISE EXCEPTION 'not here' USING ERRCODE = '{code}'; END $$;"
        )
    });
    format!("DROP SCHEMA IF EXISTS other CASCADE; CREATE SCHEMA other; {}", refusing.concat())
}

#[test]
fn a_database_without_advisory_locks_does_as_well() {
    let server = Postgres::start();
    let url = format!("{}?options=-c%20search_path%3Dother,pg_catalog,public", server.url());
    // CockroachDB knows no such function; YugabyteDB knows it, and refuses it.
    for code in ["42883", "0A000"] {
        server.sql(&without_locks(code));
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| put(&open(&url), "t", &["k"]));
            }
        });
        assert_eq!(server.sql("SELECT version FROM other.portcullis_tables"), "6");
        let archive = open(&url).archive().unwrap();
        let until = std::time::Instant::now() + 4 * TIMEOUT;
        while !archive.has_facet_indices() {
            assert!(std::time::Instant::now() < until, "the indices are made without the lock");
            std::thread::yield_now();
        }
    }
}

/// Lets the first tries of writing to a table end as transactions do that lose against another one.
fn losing(table: &str, tries: usize) -> String {
    format!(
        "DROP SEQUENCE IF EXISTS tried CASCADE; CREATE SEQUENCE tried; \
         CREATE OR REPLACE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         IF nextval('tried') <= {tries} THEN RAISE EXCEPTION 'restart transaction' USING ERRCODE = '40001'; \
         END IF; RETURN NULL; END $$; \
         CREATE OR REPLACE TRIGGER lose AFTER INSERT OR UPDATE OR DELETE ON {table} \
         FOR EACH STATEMENT EXECUTE FUNCTION lose()"
    )
}

/// Lets the first searches of a connection end in the same way. They write nothing, and what counts them are locks of the
/// connection, which outlive its transactions.
fn lost_searches(tries: usize) -> String {
    format!(
        "CREATE OR REPLACE FUNCTION lose_search() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$ \
         DECLARE lost integer; BEGIN \
         SELECT count(*) INTO lost FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid(); \
         IF lost < {tries} THEN PERFORM pg_advisory_lock(40001, lost); \
         RAISE EXCEPTION 'restart transaction' USING ERRCODE = '40001'; END IF; RETURN true; END $$; \
         ALTER TABLE portcullis_audit RENAME TO audit_rows; \
         CREATE VIEW portcullis_audit AS SELECT * FROM audit_rows WHERE lose_search()"
    )
}

#[test]
fn what_loses_against_another_transaction_is_tried_again() {
    let server = Postgres::start();
    let store = open(&server.url());
    server.sql(&losing("portcullis_entries", 4));
    let begun = std::time::Instant::now();
    put(&store, "t", &["k"]);
    let least = Duration::from_millis(5 + 10 + 20 + 40);
    assert!(begun.elapsed() >= least, "whoever tries at once loses again: {:?}", begun.elapsed());
    assert_eq!(store.get("t", b"k").unwrap(), Some(b"v".to_vec()));
    server.sql(&losing("portcullis_entries", 99));
    let mut batch = Batch::default();
    batch.put("t", b"k".to_vec(), b"other".to_vec());
    assert!(store.commit(&batch).is_err(), "not for ever");
    assert_eq!(store.get("t", b"k").unwrap(), Some(b"v".to_vec()));

    let archive = store.archive().unwrap();
    let before = archive.head("node").unwrap();
    let row = ArchiveRow {
        sequence: 1,
        id: Ulid(1),
        recorded_ms: None,
        category: None,
        severity: None,
        event_type: "exchange".to_owned(),
        entity: None,
        actor: None,
        request_id: None,
        facets: None,
        payload: Vec::new(),
    };
    server.sql(&losing("portcullis_audit", 4));
    let head = archive.append(&before, vec![row.clone()], [1; 32]).unwrap();
    server.sql(&lost_searches(4));
    let page = ArchivePage { order: Order::Ascending, beyond: None, limit: 9 };
    let (found, total) = archive.search(&ArchiveFilter::default(), &page, Counted::All).unwrap();
    assert_eq!((found.len(), total), (1, 1), "so is a search");
    server.sql("DROP VIEW portcullis_audit; ALTER TABLE audit_rows RENAME TO portcullis_audit");
    server.sql(&lost_searches(99));
    assert!(archive.search(&ArchiveFilter::default(), &page, Counted::All).is_err(), "not for ever");
    server.sql("DROP VIEW portcullis_audit; ALTER TABLE audit_rows RENAME TO portcullis_audit");
    server.sql(&losing("portcullis_audit", 4));
    archive.drop_first(&head, vec![row], [2; 32], std::collections::BTreeMap::new()).unwrap();
    assert_eq!(archive.head("node").unwrap().floor, 1);
}

#[test]
fn a_database_that_is_away_is_told_in_time_and_found_again() {
    let mut server = Postgres::start();
    let store = open(&server.url());
    put(&store, "t", &["before"]);
    server.kill();
    let begun = std::time::Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| assert!(store.get("t", b"before").is_err()));
        }
    });
    assert!(begun.elapsed() < 3 * TIMEOUT, "callers pile up: {:?}", begun.elapsed());
    server.restart();
    let until = std::time::Instant::now() + 4 * TIMEOUT;
    while store.get("t", b"before").is_err() && std::time::Instant::now() < until {
        std::thread::yield_now();
    }
    assert_eq!(store.get("t", b"before").unwrap(), Some(b"v".to_vec()), "what was acknowledged is there");
}

const TIMEOUT: Duration = Duration::from_secs(5);

fn open(url: &str) -> Store {
    open_postgres(url, &settings()).unwrap()
}

/// Returns how a test's own server is reached.
pub(crate) fn settings() -> PostgresConfig {
    PostgresConfig {
        url: SecretPlace::Environment("UNUSED".to_owned()),
        secret: SecretPlace::Environment("UNUSED".to_owned()),
        together: true,
        tls: true,
        ca_file: None,
        connections: 4,
        waiting_max: 64,
        timeout: TIMEOUT,
    }
}

fn many_may_open_an_empty_database_at_once(server: &Postgres) {
    server.sql("DROP TABLE portcullis_entries, portcullis_tables, portcullis_steps");
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| put(&open(&server.url()), "t", &["k"]));
        }
    });
    assert_eq!(server.sql("SELECT version FROM portcullis_tables"), "6");
}

fn old_deletions_are_forgotten(server: &Postgres, store: &Store) {
    put(store, "t", &["a", "b"]);
    let seen = store.changes("t", 0).unwrap().version;
    let mut batch = Batch::default();
    batch.delete("t", b"a".to_vec());
    store.commit(&batch).unwrap();
    server.sql("UPDATE portcullis_entries SET changed_at = now() - interval '2 days'");
    store.forget_deletions().unwrap();
    assert_eq!(server.sql("SELECT count(*) FROM portcullis_entries"), "1");
    let changes = store.changes("t", seen).unwrap();
    assert!(changes.is_whole, "who was away that long reads everything");
    assert_eq!(changes.entries, [(b"b".to_vec(), Some(b"v".to_vec()))]);
}

fn put(store: &Store, table: &str, keys: &[&str]) {
    let mut batch = Batch::default();
    keys.iter().for_each(|key| batch.put(table, key.as_bytes().to_vec(), b"v".to_vec()));
    store.commit(&batch).unwrap();
}

fn keys(store: &Store, table: &str, range: &KeyRange, order: Order, limit: usize) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut visit = |key: &[u8], _: &[u8]| {
        found.push(key.to_vec());
        if found.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    store.scan(table, range, order, &mut visit).unwrap();
    found
}

fn values_come_back_and_go(store: &Store) {
    let mut batch = Batch::default();
    batch.put("t", b"k".to_vec(), b"one".to_vec());
    batch.put("t", b"k".to_vec(), b"two".to_vec());
    batch.put("t", b"".to_vec(), b"".to_vec());
    batch.delete("t", b"never there".to_vec());
    store.commit_durable(&batch).unwrap();
    assert_eq!(store.get("t", b"k").unwrap(), Some(b"two".to_vec()));
    assert_eq!(store.get("t", b"").unwrap(), Some(b"".to_vec()));
    let mut removal = Batch::default();
    removal.delete("t", b"k".to_vec());
    store.commit(&removal).unwrap();
    assert_eq!(store.get("t", b"k").unwrap(), None);
    assert!(!store.backend_name().is_empty());
}

fn tables_do_not_see_each_other(store: &Store) {
    put(store, "a", &["1"]);
    put(store, "ab", &["2", "3"]);
    assert_eq!(keys(store, "a", &KeyRange::all(), Order::Ascending, 9), [b"1"]);
    assert_eq!(keys(store, "ab", &KeyRange::all(), Order::Descending, 9), [b"3", b"2"]);
    assert!(keys(store, "b", &KeyRange::all(), Order::Ascending, 9).is_empty());
}

fn a_batch_past_a_limit_leaves_nothing(store: &Store) {
    let mut batch = Batch::default();
    batch.put("t", b"fits".to_vec(), b"v".to_vec());
    batch.put("t", b"large".to_vec(), vec![0; super::VALUE_BYTES_MAX + 1]);
    assert!(store.commit(&batch).is_err());
    assert_eq!(store.get("t", b"fits").unwrap(), None);
}

fn long_scans_show_each_entry_once(store: &Store) {
    let names: Vec<String> = (0..1000).map(|number| format!("{number:04}")).collect();
    put(store, "t", &names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut expected: Vec<Vec<u8>> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
    assert_eq!(keys(store, "t", &KeyRange::all(), Order::Ascending, 2000), expected);
    expected.reverse();
    assert_eq!(keys(store, "t", &KeyRange::all(), Order::Descending, 2000), expected);
}

fn large_values_come_back(store: &Store) {
    let mut batch = Batch::default();
    batch.put("t", vec![255; super::KEY_BYTES_MAX], vec![7; super::VALUE_BYTES_MAX]);
    store.commit(&batch).unwrap();
    let found = store.get("t", &vec![255; super::KEY_BYTES_MAX]).unwrap();
    assert_eq!(found.map(|value| value.len()), Some(super::VALUE_BYTES_MAX));
    assert!(store.size_bytes().unwrap() > 0);
}

fn writers_do_not_lose_each_others_words(store: &Store) {
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || {
                for number in 0..25 {
                    let name = format!("{writer}-{number}");
                    put(store, if number % 2 == 0 { "a" } else { "b" }, &[&name]);
                    let mut both = Batch::default();
                    // Two tables, named either way round.
                    let (one, other) = if writer % 2 == 0 { ("a", "b") } else { ("b", "a") };
                    [one, other].iter().for_each(|table| both.put(table, name.clone().into_bytes(), vec![1]));
                    store.commit(&both).unwrap();
                }
            });
        }
    });
    let found = |table| keys(store, table, &KeyRange::all(), Order::Ascending, 1000).len();
    assert_eq!((found("a"), found("b")), (100, 100));
}

fn what_others_wrote_is_told(store: &Store) {
    put(store, "t", &["a", "b"]);
    let first = store.changes("t", 0).unwrap();
    assert!(first.is_whole && first.entries.len() == 2);
    assert!(store.changes("never", 0).unwrap().entries.is_empty());
    let mut batch = Batch::default();
    batch.put("t", b"a".to_vec(), b"2".to_vec());
    batch.delete("t", b"b".to_vec());
    store.commit(&batch).unwrap();
    put(store, "other", &["x"]);
    if !store.is_shared() {
        assert!(store.versions().unwrap().is_empty() && store.told().is_none());
        return;
    }
    let mut next = store.changes("t", first.version).unwrap();
    next.entries.sort();
    assert!(!next.is_whole && next.version == first.version + 1);
    assert_eq!(next.entries, [(b"a".to_vec(), Some(b"2".to_vec())), (b"b".to_vec(), None)]);
    assert!(store.changes("t", next.version).unwrap().entries.is_empty());
    let versions = store.versions().unwrap();
    assert_eq!((versions["t"], versions["other"]), (next.version, 1));
}

fn what_was_decided_by_old_facts_is_not_written(store: &Store) {
    if !store.is_shared() {
        return;
    }
    let written = |expected| {
        let mut batch = Batch::default();
        batch.put("t", b"k".to_vec(), b"v".to_vec());
        batch.expect("t", expected);
        batch.expect("looked at", 0);
        store.commit(&batch)
    };
    assert!(written(0).is_ok());
    assert!(matches!(written(0), Err(StoreError::Conflict)));
    let wins = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                if written(1).is_ok() {
                    wins.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(wins.into_inner(), 1);
}

fn ranges(fresh: impl Fn() -> Store) {
    let texts = (
        proptest::collection::btree_set("[a-c]{1,3}", 0..20),
        "[a-c]{0,3}",
        proptest::option::of("[a-c]{0,3}"),
        1usize..10,
    );
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() });
    let outcome = runner.run(&texts, |(names, start, end, limit)| {
        let store = fresh();
        put(&store, "t", &names.iter().map(String::as_str).collect::<Vec<_>>());
        let range = KeyRange { start: start.clone().into_bytes(), end: end.clone().map(String::into_bytes) };
        let inside = |name: &&String| **name >= start && end.as_ref().is_none_or(|end| *name < end);
        let mut expected: Vec<&[u8]> = names.iter().filter(inside).map(|name| name.as_bytes()).collect();
        let up = keys(&store, "t", &range, Order::Ascending, limit);
        prop_assert_eq!(up, &expected[..limit.min(expected.len())]);
        expected.reverse();
        let down = keys(&store, "t", &range, Order::Descending, limit);
        prop_assert_eq!(down, &expected[..limit.min(expected.len())]);
        Ok(())
    });
    outcome.unwrap();
}
