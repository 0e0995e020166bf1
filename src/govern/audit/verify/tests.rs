use std::path::PathBuf;
use std::sync::Arc;

use super::super::AuditConfig;
use super::super::Notary;
use super::super::Opened;
use super::super::Query;
use super::super::checkpoint::CHECKPOINTS_FILE;
use super::super::open;
use super::super::sample;
use super::*;
use crate::access::secret::NodeSecret;
use crate::access::signing::KeyRing;
use crate::access::signing::SigningConfig;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::store::Store;
use crate::telemetry::metrics::Metrics;

/// A journal of a few segments with a checkpoint in its midst and one at its end, and an export of it.
struct Copy {
    folder: tempfile::TempDir,
    export: PathBuf,
    key: String,
    /// A checkpoint of another history.
    other: Checkpoint,
}

fn copy() -> Copy {
    let folder = tempfile::tempdir().unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let directory = folder.path().join("audit");
    let config =
        AuditConfig { reserve_bytes: 0, segment_bytes_max: 3000, ..AuditConfig::at(directory.clone()) };
    let metrics = Arc::new(Metrics::new("0", "0"));
    let Opened { mut writer, log, keyring, .. } =
        open(config, Store::in_memory(), clock.clone(), metrics).unwrap();
    let keys =
        KeyRing::open(&Store::in_memory(), NodeSecret::random(), SigningConfig::default(), clock.now());
    let keys = Arc::new(keys.unwrap());
    let notary = Notary::new(log.clone(), keys, clock, "node".into(), &directory);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let export = folder.path().join("export.jsonl");
    let (key, other) = runtime.block_on(async {
        let mut kept = String::new();
        for number in 0..20 {
            let body = stored::body(&sample::event(number), &keyring);
            writer.hand.turn(vec![super::super::recorder::Queued { body, done: None }]);
            if number == 9 || number == 19 {
                kept += &format!("{}\n", notary.sign().await.unwrap().unwrap().to_line());
            }
        }
        std::fs::write(directory.join(CHECKPOINTS_FILE), kept).unwrap();
        let head = ExportHead {
            portcullis_audit_export: 1,
            origin: "node".into(),
            exported_at: "now".into(),
            filtered: false,
        };
        let mut text = serde_json::to_string(&head).unwrap() + "\n";
        let (mut exported, mut last) = (log.export(Query::default()).await.unwrap(), None);
        loop {
            let batch = exported.next_batch().await.unwrap();
            let Some(newest) = batch.last() else { break };
            last = Some((newest.entry.id, newest.entry.hash));
            batch.iter().for_each(|entry| text += &(entry.to_line().unwrap() + "\n"));
        }
        let (id, hash) = last.unwrap();
        let seal = notary.seal(id, hash, Some(Hash(Sha256::digest(text.as_bytes()).into())));
        text += &format!("{{\"checkpoint\":{}}}\n", seal.to_line());
        std::fs::write(&export, text).unwrap();
        (seal.public_key, notary.seal(id, Hash([9; 32]), None))
    });
    Copy { folder, export, key, other }
}

impl Copy {
    fn journal(&self) -> PathBuf {
        self.folder.path().join("audit")
    }

    fn verdict(&self, path: &Path) -> Result<Verified, Fault> {
        verify(path, &Trust { keys: vec![self.key.clone()], ..Trust::default() })
    }
}

#[test]
fn what_was_written_is_sound() {
    let copy = copy();
    let (journal, export) = (copy.verdict(&copy.journal()).unwrap(), copy.verdict(&copy.export).unwrap());
    assert_eq!((journal.entries, journal.checkpoints, journal.torn_bytes), (20, 2, 0));
    assert_eq!((export.entries, export.checkpoints, export.span), (20, 1, journal.span));
    assert_eq!(export.last_hash, journal.last_hash);
    // The state directory will do, too; another folder will not.
    assert_eq!(copy.verdict(copy.folder.path()).unwrap(), journal);
    assert!(matches!(copy.verdict(Path::new("src")), Err(Fault::Foreign)));
    assert!(matches!(copy.verdict(Path::new("Cargo.toml")), Err(Fault::Foreign)));
    let stranger = Trust { keys: vec!["x".into()], ..Trust::default() };
    assert!(matches!(verify(&copy.export, &stranger), Err(Fault::Unsigned(_))));
    assert!(matches!(verify(&copy.journal(), &stranger), Err(Fault::Unsigned(_))));
}

#[test]
fn every_change_of_every_byte_is_found() {
    let copy = copy();
    let mut files = vec![copy.export.clone(), copy.journal().join(CHECKPOINTS_FILE)];
    files.extend(segment::list(&copy.journal()).unwrap().iter().map(|s| segment::path(&copy.journal(), *s)));
    assert!(files.len() > 4);
    for file in &files {
        let whole = std::fs::read(file).unwrap();
        let path = if *file == copy.export { copy.export.clone() } else { copy.journal() };
        for at in (0..whole.len()).step_by(11) {
            let mut changed = whole.clone();
            changed[at] ^= 0x04;
            std::fs::write(file, &changed).unwrap();
            let verdict = copy.verdict(&path);
            // The length of a torn frame may reach past the end: then what it held is missed by a checkpoint.
            assert!(verdict.is_err(), "{} byte {at}: {verdict:?}", file.display());
        }
        for cut in (0..whole.len()).step_by(29) {
            std::fs::write(file, &whole[..cut]).unwrap();
            let verdict = copy.verdict(&path);
            let is_newest = file.ends_with(CHECKPOINTS_FILE);
            assert!(verdict.is_err() || is_newest, "{} cut at {cut}: {verdict:?}", file.display());
        }
        std::fs::write(file, &whole).unwrap();
    }
    assert!(copy.verdict(&copy.journal()).is_ok() && copy.verdict(&copy.export).is_ok());
}

#[test]
fn what_is_taken_out_moved_or_written_anew_is_found() {
    let copy = copy();
    let whole = std::fs::read_to_string(&copy.export).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let judge = |lines: Vec<&str>| {
        std::fs::write(&copy.export, lines.join("\n") + "\n").unwrap();
        copy.verdict(&copy.export)
    };
    let mut moved = lines.clone();
    moved.swap(4, 5);
    assert!(matches!(judge(moved), Err(Fault::Chain(ChainFault::Unlinked(_)))));
    let mut cut = lines.clone();
    cut.remove(5);
    assert!(matches!(judge(cut), Err(Fault::Chain(ChainFault::Unlinked(_)))));
    let mut shorter = lines.clone();
    shorter.remove(20);
    assert!(matches!(judge(shorter), Err(Fault::Line(_))));
    assert!(matches!(judge(lines[..21].to_vec()), Err(Fault::Truncated)));
    let mut longer = lines.clone();
    longer.push(lines[3]);
    assert!(matches!(judge(longer), Err(Fault::Line(_))));

    // Segments: one is gone from the midst, the last one is gone, another history.
    let segments = segment::list(&copy.journal()).unwrap();
    let path = |at: usize| segment::path(&copy.journal(), segments[at]);
    let away = copy.folder.path().join("away");
    for (at, expected) in [(1, "not followed by the next one"), (segments.len() - 1, "ends before")] {
        std::fs::rename(path(at), &away).unwrap();
        let fault = copy.verdict(&copy.journal()).unwrap_err().to_string();
        assert!(fault.contains(expected), "{fault}");
        std::fs::rename(&away, path(at)).unwrap();
    }
    // What retention drops is no fault.
    std::fs::remove_file(path(0)).unwrap();
    assert!(copy.verdict(&copy.journal()).unwrap().entries < 20);
    let other = self::copy();
    let kept = Checkpoint::read_all(&copy.journal().join(CHECKPOINTS_FILE)).unwrap();
    let elsewhere = Trust { checkpoints: kept, ..Trust::default() };
    assert!(matches!(verify(&other.journal(), &elsewhere), Err(Fault::BeginsAfter(_))));
    for path in [copy.journal(), copy.export.clone()] {
        std::fs::write(&copy.export, &whole).unwrap();
        let anew = Trust { checkpoints: vec![copy.other.clone()], ..Trust::default() };
        assert!(matches!(verify(&path, &anew), Err(Fault::Forked(_))));
    }
}
