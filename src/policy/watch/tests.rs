//! What is noticed of files, and what the log says of those that are read.

use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::sync::watch;

use super::*;
use crate::clock::SystemClock;
use crate::document::toml;
use crate::policy::build::Loading;
use crate::policy::build::Written;
use crate::policy::fixture::authors;
use crate::policy::fixture::detectors;
use crate::policy::fixture::shipped;
use crate::policy::reload::Announcement;
use crate::policy::revision::Revisions;
use crate::scan::classifier::shelf::ModelFiles;
use crate::scan::engine::NoCache;
use crate::scan::pack::PluginFiles;
use crate::store::Store;

const PATIENCE: Duration = Duration::from_secs(20);

fn loading(file: PathBuf) -> Loading {
    Loading {
        document: Box::new(move || {
            let mut document = shipped();
            let layer = toml::parse(&fs::read_to_string(&file).unwrap(), "gateway.toml")?;
            let own_etag = layer.etag();
            document.overlay(layer);
            Ok(Written { document, own_etag })
        }),
        defaults: shipped(),
        sample_provider: None,
        detectors: Box::new(|| Ok(Arc::new(detectors(&[])))),
        layer2: Box::new(|| Ok(PluginFiles::new())),
        layer3: Box::new(|| Ok(ModelFiles::new())),
        dialects: Box::new(|| Ok(Vec::new())),
        prove: Box::new(|_| Vec::new()),
        prove_rules: Box::new(|_, _| Vec::new()),
        cache: Box::new(NoCache),
        built: Box::new(|| ()),
        sinks: Box::new(|_| Vec::new()),
        texts: Box::new(|| None),
        located: Box::new(|fault| fault),
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::Write::write(&mut *self.0.lock(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn files_that_are_good_again_are_told_of_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.toml");
    fs::write(&file, "").unwrap();
    let revisions = Revisions::open(&Store::in_memory(), authors()).unwrap();
    let (reloader, _) = Reloader::start(loading(file.clone()), revisions, Arc::new(SystemClock)).unwrap();
    let log = Log::default();
    let written = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || written.clone()).finish();
    tracing::subscriber::with_default(subscriber, || {
        for text in ["", "[limits]\nscan_ms = 0\n", "", ""] {
            fs::write(&file, text).unwrap();
            reload(&reloader);
        }
    });
    let log = String::from_utf8(log.0.lock().clone()).unwrap();
    assert_eq!(log.matches("faulty file, rules unchanged").count(), 1, "{log}");
    let told: Vec<&str> = log.lines().filter(|line| line.contains("the files are good again")).collect();
    assert!(matches!(told.as_slice(), [line] if line.contains("INFO")), "{log}");
}

/// Editors lay such a link beside what they edit: files that change while it lies there are read, and refused for it.
#[test]
fn a_link_to_nothing_is_seen_to_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = ([folder.path().to_owned()], folder.path().join(".#default.toml"));
    fs::write(folder.path().join("default.toml"), "").unwrap();
    let without = fingerprint(&path);
    std::os::unix::fs::symlink("somebody@somewhere.1", &link).unwrap();
    assert_ne!(fingerprint(&path), without);
    fs::remove_file(&link).unwrap();
    assert_eq!(fingerprint(&path), without);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_saved_file_is_obeyed_and_a_faulty_one_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.toml");
    fs::write(&file, "").unwrap();
    let revisions = Revisions::open(&Store::in_memory(), authors()).unwrap();
    let (reloader, _) = Reloader::start(loading(file.clone()), revisions, Arc::new(SystemClock)).unwrap();
    let reloader = Arc::new(reloader);
    let (heard, mut hearing) = mpsc::unbounded_channel();
    reloader.subscribe(move |announcement| {
        let _ = heard.send(matches!(announcement, Announcement::Published(_)));
    });
    let (stop, stopped) = watch::channel(false);
    let reloads = Arc::clone(&reloader);
    let watching = FileWatch::new(vec![file.clone()], move || reload(&reloads));
    // What is saved before it begins is noticed as well.
    fs::write(&file, "[limits]\nscan_ms = 7\n").unwrap();
    let watching = tokio::spawn(watching.run(stopped));
    let published = tokio::time::timeout(PATIENCE, hearing.recv()).await.unwrap();
    assert_eq!(published, Some(true));
    assert_eq!(reloader.handle().load().limits.scan_ms, 7);
    fs::write(&file, "[limits]\nscan_ms = 0\n").unwrap();
    let refused = tokio::time::timeout(PATIENCE, hearing.recv()).await.unwrap();
    assert_eq!(refused, Some(false));
    assert_eq!(reloader.handle().load().limits.scan_ms, 7);
    stop.send(true).unwrap();
    tokio::time::timeout(PATIENCE, watching).await.unwrap().unwrap();
}
