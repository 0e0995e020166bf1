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
    for bytes in [6_000, 60_000] {
        let Some(disk) = SmallDisk::mount() else { return };
        let store = open_sled(&disk.0.path().join("store")).unwrap();
        for number in 0..16u64 {
            store.commit_durable(&one(&number.to_be_bytes(), vec![7])).unwrap();
        }
        disk.fill();
        let _ = store.commit(&one(&16u64.to_be_bytes(), vec![7; bytes]));
        let _ = store.durable();
        for number in 0..16u64 {
            assert_eq!(store.get("t", &number.to_be_bytes()).unwrap(), Some(vec![7]), "{number} {bytes}");
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
