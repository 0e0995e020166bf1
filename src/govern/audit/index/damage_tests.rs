use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::super::group::STRIDE;
use super::*;

const COUNT: usize = 300;

fn segment_path(journal: &Journal, segment: u64) -> PathBuf {
    segment::path(&journal.log().directory, segment)
}

/// Returns where each entry's frame begins.
fn places(journal: &Journal) -> Vec<Position> {
    let log = journal.log();
    let (mut reader, mut found) = (log.reader(log.start()), Vec::new());
    while let Some((at, _)) = reader.next().unwrap() {
        found.push(at);
    }
    found
}

/// Changes some bytes of a segment, from so far behind a position on; changed again, they are as they were.
fn spoil(journal: &Journal, place: Position, by: u64, count: usize) {
    let file = File::options().read(true).write(true).open(segment_path(journal, place.segment)).unwrap();
    let mut bytes = vec![0; count];
    file.read_exact_at(&mut bytes, place.offset + by).unwrap();
    bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
    file.write_all_at(&bytes, place.offset + by).unwrap();
}

/// Compares all pages of an answer with plain numbers, and each with what it says of itself.
fn check_left(index: &Index, query: Query, holds: impl Fn(usize) -> bool, is_complete: bool) {
    let expected: Vec<usize> = (0..COUNT).rev().filter(|number| holds(*number)).collect();
    let (mut found, mut next) = (Vec::new(), Query { limit: 40, ..query.clone() });
    loop {
        let page = index.query(&next).unwrap();
        assert_eq!((page.total, page.is_complete), (expected.len() as u64, is_complete), "{next:?}");
        found.extend(numbers(&page));
        let Some(cursor) = page.cursor else { break };
        next.cursor = Some(cursor);
    }
    assert_eq!(found, expected, "{query:?}");
}

/// Asks in ways that read the journal at different places, after damage that was there before the index.
fn check_all_left(index: &Index, lost: std::ops::RangeInclusive<usize>) {
    let is_left = |n: usize| !lost.contains(&n);
    check_left(index, Query::default(), is_left, false);
    let pii = Query { category: Some(Category::Pii), ..Query::default() };
    check_left(index, pii, |n| is_left(n) && n % 5 == 1, false);
    let one = Query { entity: Some("user-3".into()), ..Query::default() };
    check_left(index, one, |n| is_left(n) && n % 10 == 3, false);
    let (first, last) = (*lost.start() as i64, *lost.end() as i64);
    let is_within = |n: usize, from: i64, to: i64| (from..=to).contains(&(n as i64));
    let before = Query { to: minute(first - 2), ..Query::default() };
    check_left(index, before, |n| is_within(n, 0, first - 2), true);
    let behind = Query { from: minute(last + 2), ..Query::default() };
    check_left(index, behind, |n| is_within(n, last + 2, 300), true);
    let around = Query { from: minute(first - 2), to: minute(last + 2), ..Query::default() };
    check_left(index, around, |n| is_left(n) && is_within(n, first - 2, last + 2), false);
}

#[test]
fn what_can_be_read_behind_damage_is_found_and_the_answers_say_what_may_be_missing() {
    // The payload, its sum, its length, a length that reaches beyond the segment; and many frames at once.
    for (by, count, lost) in
        [(100, 1, 77..=77), (5, 1, 77..=77), (0, 1, 77..=77), (2, 1, 77..=77), (30, 3000, 77..=82)]
    {
        let folder = tempfile::tempdir().unwrap();
        let (journal, store, index) = filled(folder.path(), COUNT);
        let places = places(&journal);
        spoil(&journal, places[77], by, count);
        let lost = match lost.end() {
            77 => lost,
            _ => {
                let end = places[77].offset + by + count as u64;
                77..=places
                    .iter()
                    .rposition(|at| at.segment == places[77].segment && at.offset < end)
                    .unwrap()
            }
        };
        check_all_left(&index, lost.clone());
        assert!(index.damaged_bytes() > 100);
        // What is known of it outlasts the process.
        let again = Index::open(store.clone(), journal.log()).unwrap();
        check_all_left(&again, lost.clone());
        assert_eq!(again.damaged_bytes(), index.damaged_bytes());
        assert_eq!(again.position_after(Ulid(0)).unwrap(), journal.log().start());
        // Once it is mended, so is the index.
        spoil(&journal, places[77], by, count);
        let mended = Index::open(store, journal.log()).unwrap();
        check(&mended, Query::default(), |_| true, COUNT);
        assert_eq!(mended.damaged_bytes(), 0);
    }
}

#[test]
fn a_segment_that_is_short_or_gone_takes_its_own_entries_alone() {
    for is_gone in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (journal, _, index) = filled(folder.path(), COUNT);
        let places = places(&journal);
        let of_segment: Vec<usize> =
            (0..COUNT).filter(|number| places[*number].segment == places[77].segment).collect();
        let [first, .., last] = of_segment[..] else { panic!("a segment has more entries than one") };
        let path = segment_path(&journal, places[77].segment);
        let lost = match is_gone {
            true => {
                std::fs::remove_file(path).unwrap();
                first..=last
            }
            false => {
                File::options()
                    .write(true)
                    .open(path)
                    .unwrap()
                    .set_len(places[last - 3].offset + 20)
                    .unwrap();
                last - 3..=last
            }
        };
        check_all_left(&index, lost);
    }
}

#[test]
fn damage_to_what_was_indexed_before_is_told_by_the_answers_that_meet_it() {
    for (by, lost_max) in [(100, 1), (0, STRIDE)] {
        let folder = tempfile::tempdir().unwrap();
        let (journal, _, index) = filled(folder.path(), COUNT);
        let places = places(&journal);
        index.catch_up().unwrap();
        spoil(&journal, places[77], by, 1);
        let all = Query { limit: 1000, ..Query::default() };
        for _ in 0..2 {
            let page = index.query(&all).unwrap();
            let found = numbers(&page);
            assert!(!page.is_complete && !found.contains(&77), "{by}");
            assert!(found.len() >= COUNT - lost_max, "{by}: {} left", found.len());
        }
        assert!(index.damaged_bytes() > 100);
        for (from, to) in [(70, 90), (77, 77), (78, 78), (60, 77)] {
            let page = index.query(&Query { from: minute(from), to: minute(to), ..all.clone() }).unwrap();
            assert!(!page.is_complete && !numbers(&page).contains(&77), "{by}: {from} to {to}");
        }
        let elsewhere = Query { from: minute(200), ..all };
        check_left(&index, elsewhere, |n| n >= 200, true);
        let before = numbers(&index.query(&Query { to: minute(76), limit: 1, ..Query::default() }).unwrap());
        assert_eq!(before, [76]);
    }
}

#[test]
fn damage_in_the_newest_segment_is_no_torn_end_and_is_known_before_anybody_asks() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, store, index) = filled(folder.path(), COUNT);
    index.catch_up().unwrap();
    let places = places(&journal);
    let newest = journal.log().committed().segment;
    let lost = places.iter().position(|at| at.segment == newest).unwrap();
    assert!(lost + 1 < COUNT, "a whole entry has to follow");
    spoil(&journal, places[lost], 100, 1);
    drop((journal, index));
    let (journal, repair) = Journal::open(folder.path(), sample::keyring(), 20_000, 0).unwrap();
    let index = Index::open(store, journal.log()).unwrap();
    index.note_damage(journal.damage());
    assert!(repair.is_none() && index.damaged_bytes() > 100);
    let page = index.query(&Query { limit: 1000, ..Query::default() }).unwrap();
    let found = numbers(&page);
    assert!(!page.is_complete && !found.contains(&lost));
    assert!(found.contains(&(COUNT - 1)) && found.len() >= COUNT - STRIDE, "{} are left", found.len());
}

#[test]
fn nothing_that_may_be_about_one_who_is_held_is_dropped_unread() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _, index) = filled(folder.path(), COUNT);
    let place = places(&journal)[77];
    spoil(&journal, place, 100, 1);
    index.catch_up().unwrap();
    let nobody = ["nobody".to_owned()];
    assert!(!index.tells_of(place.segment - 1, &nobody).unwrap());
    assert!(
        index.tells_of(place.segment, &nobody).unwrap()
            && index.tells_of(place.segment + 1, &nobody).unwrap()
    );
    assert!(!index.tells_of(place.segment, &[]).unwrap());
    index.forget(place.segment).unwrap();
    assert_eq!(index.damaged_bytes(), 0);
    assert!(!index.tells_of(place.segment + 1, &nobody).unwrap());
}
