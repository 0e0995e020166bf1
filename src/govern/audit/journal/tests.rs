use super::super::chain::ChainCheck;
use super::super::event::Entry;
use super::super::sample;
use super::*;

const SEGMENT: u64 = 1 << 20;

fn open(directory: &Path, segment_bytes_max: u64) -> (Journal, Option<Repair>) {
    Journal::open(directory, sample::keyring(), segment_bytes_max, 1000).unwrap()
}

fn append(journal: &mut Journal, numbers: std::ops::Range<usize>) -> io::Result<Vec<Ulid>> {
    let keyring = journal.log().keyring.clone();
    let bodies: Vec<Vec<u8>> = numbers.map(|number| stored::body(&sample::event(number), &keyring)).collect();
    journal.append(bodies.iter().map(Vec::as_slice), 1000)
}

fn entries(journal: &Journal) -> Vec<Entry> {
    let log = journal.log();
    let mut reader = log.reader(log.start());
    let (mut found, mut check) = (Vec::new(), ChainCheck::default());
    while let Some((_, payload)) = reader.next().unwrap() {
        let (previous, hash, canonical) = stored::split(payload).unwrap();
        let entry = stored::entry(payload, &log.keyring).unwrap();
        check.push(entry.id, previous, hash, canonical).unwrap();
        found.push(entry);
    }
    found
}

fn messages(journal: &Journal) -> Vec<String> {
    entries(journal).into_iter().map(|entry| entry.event.message).collect()
}

fn expected(numbers: impl Iterator<Item = usize>) -> Vec<String> {
    numbers.map(|number| format!("event {number}")).collect()
}

#[test]
fn segments_hand_over_and_ids_rise_over_restarts() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let (mut journal, repair) = open(folder.path(), 2000);
        assert_eq!(repair, None);
        for number in 0..5 {
            let at = round * 5 + number;
            append(&mut journal, at..at + 1).unwrap();
        }
    }
    let (journal, _) = open(folder.path(), 2000);
    assert_eq!(messages(&journal), expected(0..20));
    assert!(segment::list(folder.path()).unwrap().len() > 3);
    assert!(journal.log().size_bytes() > 20 * 300);
}

#[test]
fn a_second_writer_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let _first = open(folder.path(), SEGMENT);
    assert!(matches!(
        Journal::open(folder.path(), sample::keyring(), SEGMENT, 0),
        Err(JournalError::InUse(_))
    ));
}

#[test]
fn a_cut_at_every_byte_of_the_last_frame_loses_that_frame_only() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(folder.path(), SEGMENT);
    append(&mut journal, 0..3).unwrap();
    let whole = journal.log().committed().offset;
    append(&mut journal, 3..4).unwrap();
    let end = journal.log().committed().offset;
    drop(journal);
    let path = segment::path(folder.path(), 1);
    let bytes = std::fs::read(&path).unwrap();
    for cut in whole..end {
        std::fs::write(&path, &bytes[..cut as usize]).unwrap();
        let (mut journal, repair) = open(folder.path(), SEGMENT);
        let torn = cut - whole;
        assert_eq!(repair, (torn > 0).then_some(Repair { segment: 1, bytes: torn }));
        append(&mut journal, 9..10).unwrap();
        assert_eq!(messages(&journal), expected((0..3).chain([9])), "cut at {cut}");
    }
    let kept = folder.path().join(format!("audit-{:016x}-{whole}.torn", 1));
    assert_eq!(std::fs::read(kept).unwrap(), bytes[whole as usize..end as usize - 1]);
}

#[test]
fn what_is_whole_behind_damage_stays_and_the_torn_end_alone_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(folder.path(), SEGMENT);
    append(&mut journal, 0..40).unwrap();
    let end = journal.log().committed().offset;
    drop(journal);
    let path = segment::path(folder.path(), 1);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[HEADER_BYTES as usize + 200] ^= 1;
    bytes.extend(b"torn");
    std::fs::write(&path, bytes).unwrap();
    let (mut journal, repair) = open(folder.path(), SEGMENT);
    assert_eq!(repair, Some(Repair { segment: 1, bytes: 4 }));
    let [damage] = journal.damage() else { panic!("one entry is damaged") };
    assert_eq!((damage.at, damage.ids.0), (journal.log().start(), Ulid(0)));
    append(&mut journal, 40..41).unwrap();
    let log = journal.log();
    let (mut reader, mut found) = (log.reader(log.start()), Vec::new());
    while let Some((_, payload)) = reader.next_readable().unwrap() {
        found.push(stored::entry(payload, &log.keyring).unwrap().event.message);
    }
    assert_eq!(found, expected(1..41));
    let kept = std::fs::metadata(folder.path().join(format!("audit-{:016x}-{end}.torn", 1))).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&kept.permissions()) & 0o777, 0o600);
}

#[test]
fn a_segment_without_its_header_is_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(folder.path(), SEGMENT);
    append(&mut journal, 0..2).unwrap();
    drop(journal);
    std::fs::write(segment::path(folder.path(), 2), b"PCAU").unwrap();
    let (mut journal, _) = open(folder.path(), SEGMENT);
    append(&mut journal, 2..3).unwrap();
    assert_eq!(messages(&journal), expected(0..3));
    drop(journal);
    let path = segment::path(folder.path(), 1);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[9] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert!(matches!(
        Journal::open(folder.path(), sample::keyring(), SEGMENT, 0),
        Err(JournalError::Damaged(_))
    ));
}

#[test]
fn a_failed_write_or_sync_abandons_the_segment() {
    let (eio, enospc) = (libc::EIO, libc::ENOSPC);
    let cases =
        [vec![Some(enospc)], vec![None, Some(eio)], vec![None, Some(eio), Some(enospc), Some(enospc)]];
    for faults in cases {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(folder.path(), SEGMENT);
        append(&mut journal, 0..3).unwrap();
        journal.faults.plan(faults.clone());
        let mut failures = 0;
        while append(&mut journal, 5..7).is_err() {
            failures += 1;
        }
        assert_eq!(failures, faults.iter().flatten().count(), "{faults:?}");
        append(&mut journal, 7..8).unwrap();
        let wanted = expected((0..3).chain(5..8));
        assert_eq!(messages(&journal), wanted, "{faults:?}");
        assert_eq!(journal.log().committed().segment, 2);
        drop(journal);
        assert_eq!(messages(&open(folder.path(), SEGMENT).0), wanted, "{faults:?}");
    }
}

#[test]
fn damage_in_the_middle_is_an_error_for_the_reader() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(folder.path(), SEGMENT);
    append(&mut journal, 0..3).unwrap();
    let path = segment::path(folder.path(), 1);
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(b"x", HEADER_BYTES + 200).unwrap();
    let log = journal.log();
    let mut reader = log.reader(log.start());
    let first = reader.next();
    assert!(matches!(first, Err(super::super::log::ReadError::Damaged { segment: 1, offset: HEADER_BYTES })));
}
