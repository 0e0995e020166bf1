use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

use super::*;
use crate::clock::ManualClock;
use crate::govern::audit::index::tests::filled;
use crate::govern::audit::open::AuditConfig;
use crate::govern::audit::open::AuditLog;
use crate::govern::audit::open::Opened;
use crate::govern::audit::open::open_with;
use crate::govern::audit::query::Query;
use crate::govern::audit::recorder::Queued;
use crate::govern::audit::sample;
use crate::govern::audit::segment;
use crate::store::Store;
use crate::telemetry::metrics::Metrics;

/// Changes a byte of the first entry of a segment; changed again, it is as it was.
fn spoil(directory: &Path, sequence: u64) {
    let path = segment::path(directory, sequence);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[segment::HEADER_BYTES as usize + segment::FRAME_HEAD_BYTES + 50] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

fn all() -> Query {
    Query { limit: 1000, ..Query::default() }
}

/// Returns the ids of all entries of a journal, and the segments they lie in.
fn places(index: &Index) -> Vec<(u64, Ulid)> {
    let (mut reader, mut found) = (index.log.reader(index.log.start()), Vec::new());
    while let Some((at, payload)) = reader.next().unwrap() {
        found.push((at.segment, stored::outline(payload).unwrap().id));
    }
    found
}

#[test]
fn damage_to_what_was_taken_in_before_is_found_in_pieces_of_any_size_and_costs_nothing_else() {
    for piece_bytes in [1, 5000, PIECE_BYTES] {
        let folder = tempfile::tempdir().unwrap();
        let (journal, store, index) = filled(folder.path(), 300);
        index.catch_up().unwrap();
        let places = places(&index);
        let newest = journal.log().committed().segment;
        assert!(newest > 5, "{newest} segments");
        spoil(folder.path(), 2);
        std::fs::remove_file(segment::path(folder.path(), 4)).unwrap();
        drop(index);

        let index = Index::open(store, journal.log()).unwrap();
        assert_eq!(index.damaged_bytes(), 0, "a start does not read what was taken in");
        let mut pieces = 1;
        while index.patrol_piece(piece_bytes) {
            pieces += 1;
        }
        assert_eq!(pieces > 1, piece_bytes < PIECE_BYTES, "{pieces} pieces");
        let segments: Vec<u64> = index.gaps.lock().begins().iter().map(|begin| begin.segment).collect();
        assert_eq!(segments, [2, 4]);

        let spoilt = places.iter().find(|(segment, _)| *segment == 2).unwrap().1;
        for segment in [1, 2, 3, 4, 5] {
            let id = places.iter().rfind(|(of, _)| *of == segment).unwrap().1;
            let may_miss = index.gaps.lock().may_hold(&(id..Ulid(id.0 + 1)));
            assert_eq!(may_miss, segment == 4, "the last entry of segment {segment}");
        }
        assert!(index.gaps.lock().may_hold(&(spoilt..Ulid(spoilt.0 + 1))));
        let left = places.iter().filter(|(segment, id)| *segment != 4 && *id != spoilt);
        let page = index.query(&all()).unwrap();
        let found: BTreeSet<Ulid> = page.entries.iter().map(|entry| entry.id).collect();
        assert_eq!(found, left.map(|(_, id)| *id).collect());
        assert!(!page.is_complete);
        assert!(!index.patrol_piece(piece_bytes), "it looks once");
    }
}

#[test]
fn damage_that_nobody_asks_about_makes_the_log_damaged_after_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let (store, clock) = (Store::in_memory(), Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH)));
    let started = || {
        let config = AuditConfig {
            segment_bytes_max: 4000,
            retention_age: None,
            reserve_bytes: 1 << 16,
            low_water_bytes: 0,
            ..AuditConfig::at(folder.path().to_owned())
        };
        let metrics = Arc::new(Metrics::new("0", "0"));
        let opened = open_with(config, sample::keyring(), store.clone(), clock.clone(), metrics.clone());
        (opened.unwrap(), metrics)
    };
    let (Opened { mut writer, log, keyring, .. }, _) = started();
    for number in 0..40 {
        let body = stored::body(&sample::event(number), &keyring);
        writer.hand.turn(vec![Queued { body, done: None }]);
    }
    log.maintain().unwrap();
    assert!(!log.is_damaged());
    drop((writer, log));
    spoil(folder.path(), 2);

    let page = |log: &AuditLog| {
        let page = log.index.query(&all()).unwrap();
        (page.total, page.is_complete)
    };
    let (Opened { writer, log, .. }, metrics) = started();
    assert!(!log.is_damaged());
    log.maintain().unwrap();
    assert!(log.is_damaged());
    let told = metrics.render();
    let figure = told.lines().find_map(|line| line.strip_prefix("portcullis_audit_damaged_bytes "));
    assert!(figure.is_some_and(|bytes| bytes.parse::<u64>().unwrap() > 100), "{figure:?}");
    let (_, is_complete) = page(&log);
    assert!(!is_complete);
    drop((writer, log));

    spoil(folder.path(), 2);
    let (Opened { log, .. }, _) = started();
    log.maintain().unwrap();
    assert!(!log.is_damaged());
    assert_eq!(page(&log), (40, true));
}
