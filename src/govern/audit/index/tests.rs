use std::path::Path;

use jiff::Timestamp;

use super::super::event::AuditEvent;
use super::super::event::Entry;
use super::super::journal::Journal;
use super::super::query::Page;
use super::super::query::Query;
use super::super::sample;
use super::super::tally::HOUR_MS;
use super::*;
use crate::scan::threat::Category;
use crate::scan::threat::Severity;

const MINUTE_MS: i64 = 60_000;

/// Returns a journal with an event a minute, and its index.
fn filled(directory: &Path, count: usize) -> (Journal, Store, Index) {
    let (mut journal, _) = Journal::open(directory, sample::keyring(), 20_000, 0).unwrap();
    fill(&mut journal, 0..count, MINUTE_MS);
    let store = Store::in_memory();
    let index = Index::open(store.clone(), journal.log()).unwrap();
    (journal, store, index)
}

fn fill(journal: &mut Journal, numbers: std::ops::Range<usize>, gap_ms: i64) {
    for number in numbers {
        let body = stored::body(&sample::event(number), &journal.log().keyring);
        journal.append([body.as_slice()].into_iter(), number as i64 * gap_ms).unwrap();
    }
}

fn numbers(page: &Page) -> Vec<usize> {
    let number = |entry: &Entry| entry.event.message.strip_prefix("event ")?.parse().ok();
    page.entries.iter().map(|entry| number(entry).unwrap()).collect()
}

/// Pages through an answer and compares it with the same filter over plain numbers.
fn check(index: &Index, query: Query, holds: impl Fn(usize) -> bool, count: usize) {
    let expected: Vec<usize> = (0..count).rev().filter(|number| holds(*number)).collect();
    let (mut found, mut next) = (Vec::new(), query.clone());
    loop {
        let page = index.query(&next).unwrap();
        assert_eq!(page.total, expected.len() as u64, "{query:?}");
        assert!(page.entries.len() <= query.limit);
        found.extend(numbers(&page));
        let Some(cursor) = page.cursor else { break };
        next.cursor = Some(cursor);
    }
    assert_eq!(found, expected, "{query:?}");
}

fn minute(number: i64) -> Option<Timestamp> {
    Some(Timestamp::from_millisecond(number * MINUTE_MS).unwrap())
}

#[test]
fn every_filter_and_every_page_agree_with_a_plain_search() {
    let folder = tempfile::tempdir().unwrap();
    let (_journal, _, index) = filled(folder.path(), 300);
    let all = Query { limit: 7, ..Query::default() };
    check(&index, all.clone(), |_| true, 300);
    check(&index, Query { category: Some(Category::Pii), ..all.clone() }, |n| n % 5 == 1, 300);
    check(&index, Query { severity: Some(Severity::Low), ..all.clone() }, |n| n / 5 % 4 == 0, 300);
    check(&index, Query { event_type: Some("key_created".into()), ..all.clone() }, |n| n % 7 == 6, 300);
    check(&index, Query { event_type: Some("exchange".into()), ..all.clone() }, |n| n % 7 != 6, 300);
    check(&index, Query { entity: Some("user-3".into()), ..all.clone() }, |n| n % 10 == 3, 300);
    check(&index, Query { entity: Some("user-".into()), ..all.clone() }, |_| false, 300);
    check(&index, Query { request_id: Some("r-77".into()), ..all.clone() }, |n| n == 77, 300);
    let both = Query { request_id: Some("r-77".into()), entity: Some("user-1".into()), ..all.clone() };
    check(&index, both, |_| false, 300);
    let mixed = Query { category: Some(Category::Pii), severity: Some(Severity::Low), ..all.clone() };
    check(&index, mixed, |n| n % 5 == 1 && n / 5 % 4 == 0, 300);
    for (from, to) in [(0, 299), (1, 3), (59, 61), (60, 179), (30, 200), (120, 120), (250, 400), (9, 5)] {
        let span = Query { from: minute(from), to: minute(to), ..all.clone() };
        let within = |n: usize| (from..=to).contains(&(n as i64));
        check(&index, span.clone(), within, 300);
        check(&index, Query { category: Some(Category::Secrets), ..span }, |n| within(n) && n % 5 == 0, 300);
    }
}

#[test]
fn blocks_and_what_is_not_yet_in_one_read_alike() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open(folder.path(), sample::keyring(), 1 << 20, 0).unwrap();
    let store = Store::in_memory();
    let index = Index::open(store.clone(), journal.log()).unwrap();
    let mut filled = 0;
    // Six seconds apart: an hour holds more than two blocks, and begins in the midst of others.
    for count in [1, 255, 256, 257, 600, 601, 1000] {
        fill(&mut journal, filled..count, 6000);
        filled = count;
        let newest = Query { limit: 300, ..Query::default() };
        check(&index, newest.clone(), |_| true, count);
        check(&index, Query { entity: Some("user-3".into()), ..newest.clone() }, |n| n % 10 == 3, count);
        check(&index, Query { subject: Some("user-3".into()), ..newest.clone() }, |n| n % 10 == 3, count);
        check(&index, Query { subject: Some("key-1".into()), ..newest.clone() }, |_| true, count);
        check(&index, Query { entity: Some("key-1".into()), ..newest.clone() }, |_| false, count);
        check(&index, Query { request_id: Some("r-300".into()), ..newest.clone() }, |n| n == 300, count);
        let span = Query { from: minute(13), to: minute(77), ..newest };
        let within = |n: usize| (130..=770).contains(&n);
        check(&index, span.clone(), within, count);
        let both = Query { entity: Some("user-6".into()), category: Some(Category::Pii), ..span };
        check(&index, both, |n| within(n) && n % 10 == 6 && n % 5 == 1, count);
        let reopened = Index::open(store.clone(), journal.log()).unwrap();
        assert_eq!(*reopened.indexed.lock(), *index.indexed.lock());
    }
    let whole = index.blocks.list(&KeyRange::all(), Order::Ascending, 100).unwrap();
    assert_eq!(whole.len(), 4, "two of 256, one cut at the hour, one of 256");
    for number in [0, 255, 256, 599, 600, 855, 856, 998] {
        let page =
            index.query(&Query { request_id: Some(format!("r-{number}")), ..Query::default() }).unwrap();
        let after = index.position_after(page.entries[0].id).unwrap();
        let next =
            stored::entry(&journal.log().frame_at(after).unwrap().unwrap(), &journal.log().keyring).unwrap();
        assert_eq!(next.event.message, format!("event {}", number + 1));
    }
}

#[test]
fn names_of_any_length_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open(folder.path(), sample::keyring(), 1 << 20, 0).unwrap();
    let names: Vec<String> = [251, 252, 253, 255, 256, 257, 300].map(|length| "é".repeat(length / 2)).into();
    for name in names.iter().cycle().take(700) {
        let event = AuditEvent { entity: Some(name.clone()), ..sample::event(1) };
        let body = stored::body(&event, &journal.log().keyring);
        journal.append([body.as_slice()].into_iter(), 0).unwrap();
    }
    let index = Index::open(Store::in_memory(), journal.log()).unwrap();
    for name in &names {
        let same = names.iter().filter(|other| *other == name).count() as u64;
        let page = index.query(&Query { entity: Some(name.clone()), ..Query::default() }).unwrap();
        assert_eq!((page.total, page.entries[0].event.entity.as_ref()), (100 * same, Some(name)));
    }
}

#[test]
fn requests_are_found_in_groups_of_blocks_and_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open(folder.path(), sample::keyring(), 8000, 0).unwrap();
    let store = Store::in_memory();
    let index = Index::open(store.clone(), journal.log()).unwrap();
    let mut filled = 0;
    // An hour apart: every entry is a block. Two groups come to be, while others are young.
    for count in [127, 129, 260, 300] {
        fill(&mut journal, filled..count, HOUR_MS);
        filled = count;
        for number in (0..count).step_by(9) {
            let query = Query { request_id: Some(format!("r-{number}")), ..Query::default() };
            check(&index, query.clone(), |n| n == number, count);
            check(
                &index,
                Query { entity: Some("user-3".into()), ..query },
                |n| n == number && n % 10 == 3,
                count,
            );
        }
    }
    let groups = || {
        let mut sizes = Vec::new();
        for table in REQUEST_TABLES {
            let mut keys = 0;
            let mut visit = |_: &[u8], _: &[u8]| {
                keys += 1;
                ControlFlow::Continue(())
            };
            store.scan(table, &KeyRange::all(), Order::Ascending, &mut visit).unwrap();
            sizes.push(keys);
        }
        <[usize; 3]>::try_from(sizes).unwrap()
    };
    let [young, whole, sorted] = groups();
    assert_eq!((young, whole), (299 - 256, 2), "the newest entry is in no block yet");
    assert!(sorted > 200);
    let reopened = Index::open(store.clone(), journal.log()).unwrap();
    let query = Query { request_id: Some("r-5".into()), ..Query::default() };
    check(&reopened, query.clone(), |n| n == 5, 300);
    // A group goes with its last block.
    let closed: Vec<u64> = journal.log().closed.read().keys().copied().collect();
    let oldest = |index: &Index| index.oldest(&Query::default()).unwrap().unwrap().id;
    for segment in closed {
        index.forget(segment).unwrap();
        let first = oldest(&index);
        let left = (block::hour(first) < 128, block::hour(first) < 256);
        assert_eq!(groups()[1], usize::from(left.0) + usize::from(left.1), "{first:?}");
    }
    assert!(index.query(&query).unwrap().entries.is_empty());
    let [young, whole, sorted] = groups();
    assert!(young > 0 && (whole, sorted) == (0, 0));
}

#[test]
fn what_one_does_and_what_is_done_to_one_are_told_apart_by_keys_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open(folder.path(), sample::keyring(), 1 << 20, 0).unwrap();
    for number in 0..600 {
        let name = |nth: usize| Some(format!("user-{}", nth % 3));
        let event = AuditEvent { entity: name(number), actor: name(number / 3), ..sample::event(number) };
        let body = stored::body(&event, &journal.log().keyring);
        journal.append([body.as_slice()].into_iter(), number as i64 * 20_000).unwrap();
    }
    let index = Index::open(Store::in_memory(), journal.log()).unwrap();
    let all = Query { limit: 50, ..Query::default() };
    let (one, two) = (Some("user-1".to_owned()), Some("user-2".to_owned()));
    let is = |n: usize, who: usize| n % 3 == who;
    let by = |n: usize, who: usize| n / 3 % 3 == who;
    check(&index, Query { entity: one.clone(), ..all.clone() }, |n| is(n, 1), 600);
    check(&index, Query { subject: one.clone(), ..all.clone() }, |n| is(n, 1) || by(n, 1), 600);
    let both = Query { entity: one.clone(), subject: one.clone(), ..all.clone() };
    check(&index, both, |n| is(n, 1), 600);
    let each = Query { entity: one, subject: two, ..all };
    check(&index, each.clone(), |n| is(n, 1) && by(n, 2), 600);
    let rare = Query { category: Some(Category::Pii), from: minute(17), to: minute(170), ..each };
    let within = |n: usize| (17 * 3..=170 * 3).contains(&n);
    check(&index, rare, |n| is(n, 1) && by(n, 2) && n % 5 == 1 && within(n), 600);
}

#[test]
fn limits_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (_journal, _, index) = filled(folder.path(), 3);
    for limit in [0, 1001] {
        assert!(matches!(index.query(&Query { limit, ..Query::default() }), Err(QueryError::Limit)));
    }
    assert_eq!(index.query(&Query { limit: 1000, ..Query::default() }).unwrap().entries.len(), 3);
}

#[test]
fn a_lost_or_foreign_index_is_built_anew() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (journal, store, index) = filled(one.path(), 50);
    let indexed = index.catch_up().unwrap();
    drop(index);
    let reopened = Index::open(store.clone(), journal.log()).unwrap();
    assert_eq!(*reopened.indexed.lock(), indexed);
    let (other, _, _) = filled(two.path(), 60);
    let foreign = Index::open(store, other.log()).unwrap();
    check(&foreign, Query::default(), |_| true, 60);
    let fresh = Index::open(Store::in_memory(), journal.log()).unwrap();
    check(&fresh, Query::default(), |_| true, 50);
}

#[test]
fn forgotten_segments_leave_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, store, index) = filled(folder.path(), 200);
    let first_left = journal.log().closed.read().keys().nth(1).map(|segment| segment + 1).unwrap();
    index.forget(first_left - 1).unwrap();
    let log = journal.log();
    let from = Position { segment: first_left, offset: segment::HEADER_BYTES };
    let entry = stored::entry(&log.frame_at(from).unwrap().unwrap(), &log.keyring).unwrap();
    let oldest: usize = entry.event.message.strip_prefix("event ").unwrap().parse().unwrap();
    assert!(oldest > 10);
    check(&index, Query::default(), |number| number >= oldest, 200);
    let mut left = 0;
    for table in BLOCK_TABLES.into_iter().chain([REQUEST_TABLES[0]]) {
        let mut visit = |key: &[u8], _: &[u8]| {
            assert!(block::first_of(key).unwrap() >= entry.id, "{table}");
            left += 1;
            ControlFlow::Continue(())
        };
        store.scan(table, &KeyRange::all(), Order::Ascending, &mut visit).unwrap();
    }
    assert!(left > 20);
}

#[test]
fn a_tail_begins_after_the_last_id_seen() {
    let folder = tempfile::tempdir().unwrap();
    let (_journal, _, index) = filled(folder.path(), 400);
    assert_eq!(index.position_after(Ulid(0)).unwrap(), index.log.start());
    assert_eq!(index.position_after(Ulid(u128::MAX)).unwrap(), index.log.committed());
}
