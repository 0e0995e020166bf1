use std::process::Command;
use std::time::Instant;

use super::*;

/// A file system in memory, small enough to be filled.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Mounts one; `None`: only root may.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"])
            .arg(folder.path())
            .output();
        mounted.is_ok_and(|output| output.status.success()).then(|| Self(folder))
    }

    fn fill(&self) {
        // What fits is written before the write fails.
        let _ = std::fs::write(self.0.path().join("filler"), vec![0; 32 << 20]);
    }

    fn empty(&self) {
        std::fs::remove_file(self.0.path().join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

fn one(key: &[u8], value: Vec<u8>) -> Batch {
    let mut batch = Batch::default();
    batch.put("t", key.to_vec(), value);
    batch
}

#[test]
fn a_second_opening_is_told_why_it_fails() {
    let folder = tempfile::tempdir().unwrap();
    let _first = open_sled(folder.path()).unwrap();
    let Err(second) = open_sled(folder.path()) else { panic!("both opened") };
    assert!(matches!(&second, StoreError::InUse { path } if path == folder.path()), "{second:?}");
}

#[test]
fn durable_writes_are_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let mut batch = Batch::default();
    batch.put("t", b"small".to_vec(), b"1".to_vec());
    batch.put("t", b"large".to_vec(), vec![7; 1 << 20]);
    {
        let store = open_sled(folder.path()).unwrap();
        store.commit_durable(&batch).unwrap();
        assert!(store.size_bytes().unwrap() > 0);
    }
    let store = open_sled(folder.path()).unwrap();
    assert_eq!(store.get("t", b"small").unwrap(), Some(b"1".to_vec()));
    assert_eq!(store.get("t", b"large").unwrap(), Some(vec![7; 1 << 20]));
}

#[test]
fn a_disk_that_was_full_loses_nothing_that_was_taken_and_is_written_to_again() {
    let Some(disk) = SmallDisk::mount() else { return };
    let folder = disk.0.path().join("store");
    let store = open_sled(&folder).unwrap();
    store.commit_durable(&one(b"before", b"1".to_vec())).unwrap();
    disk.fill();
    // Some are taken as yet, for which room was kept.
    let (deadline, mut taken) = (Instant::now() + Duration::from_secs(60), 0u64);
    while store.commit(&one(&taken.to_be_bytes(), vec![7; 6_000])).is_ok() {
        taken += 1;
        assert!(Instant::now() < deadline, "a full disk takes everything");
    }
    assert!(taken > 0 && !store.is_sound());
    assert_eq!(store.get("t", b"before").unwrap(), Some(b"1".to_vec()));
    assert!(store.commit(&one(b"while full", vec![7; 60_000])).is_err());
    assert!(store.shared.backend.tend().is_err(), "there is no room to open it anew");
    disk.empty();
    store.shared.backend.tend().unwrap();
    assert!(store.is_sound());
    store.commit_durable(&one(b"after", b"2".to_vec())).unwrap();
    let has_all = |store: &Store| {
        for number in 0..taken {
            assert!(store.get("t", &number.to_be_bytes()).unwrap().is_some(), "{number} of {taken}");
        }
        let kept = [b"before".as_slice(), b"after", b"while full"];
        kept.map(|key| store.get("t", key).unwrap().is_some())
    };
    assert_eq!(has_all(&store), [true, true, false]);
    drop(store);
    assert_eq!(has_all(&open_sled(&folder).unwrap()), [true, true, false]);
}

#[test]
fn a_directory_on_a_full_disk_is_left_as_it_is() {
    let Some(disk) = SmallDisk::mount() else { return };
    let folder = disk.0.path().join("store");
    open_sled(&folder).unwrap().commit_durable(&one(b"k", b"1".to_vec())).unwrap();
    let state = || {
        let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let read =
            files.filter(|path| path.is_file()).map(|path| (path.clone(), std::fs::read(path).unwrap()));
        read.collect::<BTreeMap<PathBuf, Vec<u8>>>()
    };
    let before = state();
    disk.fill();
    let Err(refused) = open_sled(&folder) else { panic!("it was opened") };
    assert!(matches!(&refused, StoreError::Full { path, .. } if *path == folder), "{refused:?}");
    assert!(state() == before, "something was written");
    disk.empty();
    assert_eq!(open_sled(&folder).unwrap().get("t", b"k").unwrap(), Some(b"1".to_vec()));
}

/// Earlier releases opened a directory on a full disk, and sled left a file behind that it stumbles over.
#[test]
fn what_an_opening_left_unfinished_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    open_sled(folder.path()).unwrap().commit_durable(&one(b"k", b"1".to_vec())).unwrap();
    let left = folder.path().join("snap.0000000000FFFFFF.generating");
    std::fs::write(&left, b"").unwrap();
    assert_eq!(open_sled(folder.path()).unwrap().get("t", b"k").unwrap(), Some(b"1".to_vec()));
    assert!(!left.exists());
}

/// Sled parts a leaf of more than sixteen keys when somebody looks at it, also who only reads, and fails him if it cannot.
#[test]
fn what_is_there_is_read_while_the_disk_is_full() {
    // Beside those keys there are some of the store's own: with one of these counts the leaf is full.
    let counts = 8..=24u64;
    for (bytes, count) in
        [6_000, 60_000].into_iter().flat_map(|bytes| counts.clone().map(move |it| (bytes, it)))
    {
        let Some(disk) = SmallDisk::mount() else { return };
        let store = open_sled(&disk.0.path().join("store")).unwrap();
        for number in 0..count {
            store.commit_durable(&one(&number.to_be_bytes(), vec![7])).unwrap();
        }
        disk.fill();
        let _ = store.commit(&one(&count.to_be_bytes(), vec![7; bytes]));
        let _ = store.durable();
        for number in 0..count {
            assert_eq!(
                store.get("t", &number.to_be_bytes()).unwrap(),
                Some(vec![7]),
                "{number} of {count}, {bytes}"
            );
        }
    }
}

#[test]
fn a_sync_that_fails_is_made_up_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_sled(folder.path()).unwrap();
    let [log, away] = ["db", "away"].map(|name| folder.path().join(name));
    std::fs::rename(&log, &away).unwrap();
    assert!(matches!(store.commit_durable(&one(b"k", b"1".to_vec())), Err(StoreError::NotDurable)));
    assert!(!store.is_sound());
    assert!(store.shared.backend.tend().is_err());
    std::fs::rename(&away, &log).unwrap();
    store.shared.backend.tend().unwrap();
    assert!(store.is_sound());
    assert_eq!(store.get("t", b"k").unwrap(), Some(b"1".to_vec()));
}

/// Opens the store in a folder that has its mark, too.
fn open_marked(folder: &Path) -> Result<(Store, Option<u64>), StoreError> {
    open_sled_marked(&folder.join("store"), CACHE_BYTES, &HighWater::of(folder))
}

/// Changes a byte in the last quarter of a store's log.
fn flip(folder: &Path) {
    let log = folder.join("store").join(LOG);
    let mut bytes = std::fs::read(&log).unwrap();
    let at = bytes.len() / 4 * 3;
    bytes[at] ^= 0x55;
    std::fs::write(log, bytes).unwrap();
}

#[test]
fn a_store_that_is_whole_is_opened_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..5u8 {
        let (store, lost) = open_marked(folder.path()).unwrap();
        assert_eq!(lost, None);
        let keys = (0..round).map(|key| store.get("t", &[key]).unwrap());
        assert!(keys.flatten().count() == usize::from(round), "{round}");
        store.commit_durable(&one(&[round], vec![1; 100])).unwrap();
        // Not synced, and so no part of what the mark tells.
        store.commit(&one(b"more", vec![round])).unwrap();
    }
}

#[test]
fn what_was_safe_and_is_lost_is_told_until_somebody_accepts_it() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = open_marked(folder.path()).unwrap();
    (0..20u8).for_each(|key| store.commit_durable(&one(&[key], vec![1; 100])).unwrap());
    drop(store);
    let high_water = HighWater::of(folder.path());
    let noted = high_water.number().unwrap().unwrap();
    assert!(noted >= 20, "{noted}");
    flip(folder.path());
    for _ in 0..2 {
        let Err(lost) = open_marked(folder.path()) else { panic!("it was opened") };
        let StoreError::Lost { missing: Some(missing), acceptance, .. } = &lost else { panic!("{lost:?}") };
        assert!((1..20).contains(missing) && *acceptance == high_water.acceptance(), "{lost:?}");
        assert_eq!(high_water.finding(), Some(lost.to_string()));
    }
    std::fs::write(high_water.acceptance(), "").unwrap();
    let (store, lost_up_to) = open_marked(folder.path()).unwrap();
    assert_eq!((lost_up_to, high_water.finding()), (Some(noted), None));
    assert_eq!(store.get("t", &[0]).unwrap(), Some(vec![1; 100]), "what is left is left");
    assert_eq!(store.get("t", &[19]).unwrap(), None);
    drop(store);
    high_water.forget_acceptance().unwrap();
    assert_eq!(open_marked(folder.path()).unwrap().1, None);
}

#[test]
fn a_store_that_is_gone_is_no_new_one() {
    let folder = tempfile::tempdir().unwrap();
    drop(open_marked(folder.path()).unwrap());
    std::fs::remove_dir_all(folder.path().join("store")).unwrap();
    let lost = open_marked(folder.path()).err();
    assert!(matches!(lost, Some(StoreError::Lost { missing: Some(1..), .. })), "{lost:?}");
    // Nor where the mark is gone, too, and something else tells.
    std::fs::remove_file(folder.path().join("store.mark")).unwrap();
    let told = HighWater::of(folder.path()).with_history();
    let opened = || open_sled_marked(&folder.path().join("store"), CACHE_BYTES, &told);
    let lost = opened().err();
    assert!(matches!(lost, Some(StoreError::Lost { missing: None, .. })), "{lost:?}");
    std::fs::write(told.acceptance(), "").unwrap();
    assert_eq!(opened().unwrap().1, Some(NUMBER_OF_OLD));
}

#[test]
fn a_store_of_before_there_were_marks_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("store");
    std::fs::create_dir(&directory).unwrap();
    let opened = Opened::open(&directory, CACHE_BYTES).unwrap();
    opened.tree.insert(full_key("t", b"k"), b"1").unwrap();
    opened.database.flush().unwrap();
    drop(opened);
    let high_water = HighWater::of(folder.path()).with_history();
    let (store, lost) = open_sled_marked(&directory, CACHE_BYTES, &high_water).unwrap();
    assert_eq!((lost, store.get("t", b"k").unwrap()), (None, Some(b"1".to_vec())));
    assert_eq!(high_water.number().unwrap(), Some(NUMBER_OF_OLD + 1));
}
