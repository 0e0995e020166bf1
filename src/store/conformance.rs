//! What every backend must do, run against each.

use std::ops::ControlFlow;

use proptest::prelude::*;

use super::Batch;
use super::KeyRange;
use super::Order;
use super::Store;
use super::open_sled;

/// Runs a check against every backend.
fn check(case: impl Fn(&Store)) {
    case(&Store::in_memory());
    let folder = tempfile::tempdir().unwrap();
    case(&open_sled(folder.path()).unwrap());
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

#[test]
fn values_come_back_and_go() {
    check(|store| {
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
    });
}

#[test]
fn tables_do_not_see_each_other() {
    check(|store| {
        put(store, "a", &["1"]);
        put(store, "ab", &["2", "3"]);
        assert_eq!(keys(store, "a", &KeyRange::all(), Order::Ascending, 9), [b"1"]);
        assert_eq!(keys(store, "ab", &KeyRange::all(), Order::Descending, 9), [b"3", b"2"]);
        assert!(keys(store, "b", &KeyRange::all(), Order::Ascending, 9).is_empty());
    });
}

#[test]
fn a_batch_past_a_limit_leaves_nothing() {
    check(|store| {
        let mut batch = Batch::default();
        batch.put("t", b"fits".to_vec(), b"v".to_vec());
        batch.put("t", b"large".to_vec(), vec![0; super::VALUE_BYTES_MAX + 1]);
        assert!(store.commit(&batch).is_err());
        assert_eq!(store.get("t", b"fits").unwrap(), None);
    });
}

#[test]
fn long_scans_show_each_entry_once() {
    check(|store| {
        let names: Vec<String> = (0..1000).map(|number| format!("{number:04}")).collect();
        put(store, "t", &names.iter().map(String::as_str).collect::<Vec<_>>());
        let mut expected: Vec<Vec<u8>> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
        assert_eq!(keys(store, "t", &KeyRange::all(), Order::Ascending, 2000), expected);
        expected.reverse();
        assert_eq!(keys(store, "t", &KeyRange::all(), Order::Descending, 2000), expected);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn ranges_hold_what_lies_within(
        names in proptest::collection::btree_set("[a-c]{1,3}", 0..20),
        start in "[a-c]{0,3}",
        end in proptest::option::of("[a-c]{0,3}"),
        limit in 1usize..10,
    ) {
        check(|store| {
            put(store, "t", &names.iter().map(String::as_str).collect::<Vec<_>>());
            let range = KeyRange {
                start: start.clone().into_bytes(),
                end: end.clone().map(String::into_bytes),
            };
            let inside = |name: &&String| **name >= start && end.as_ref().is_none_or(|end| *name < end);
            let mut expected: Vec<&[u8]> = names.iter().filter(inside).map(|name| name.as_bytes()).collect();
            let up = keys(store, "t", &range, Order::Ascending, limit);
            assert_eq!(up, &expected[..limit.min(expected.len())]);
            expected.reverse();
            let down = keys(store, "t", &range, Order::Descending, limit);
            assert_eq!(down, &expected[..limit.min(expected.len())]);
        });
    }
}
