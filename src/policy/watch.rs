//! Notices changed files: by the operating system's word, and by looking where it gives none.
//!
//! An event only says "look": what decides is a fingerprint of names, sizes and times. So a lost
//! event costs one poll interval, and a storm of events one look.

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;

use notify::RecursiveMode;
use notify::Watcher;
use tokio::sync::mpsc;
use tokio::sync::watch;

use crate::policy::reload::ChangeError;
use crate::policy::reload::Reloader;

/// How long files must rest before they are read: an editor writes in several steps.
pub const DEBOUNCE: Duration = Duration::from_millis(150);

/// How often files are looked at without being told to.
pub const POLL: Duration = Duration::from_secs(5);

/// The most files that are looked at.
pub const FILES_MAX: usize = 4096;

/// How many times files that do not rest are looked at before they are read all the same: one that is
/// replaced without end must not keep its changes from ever being seen.
const RESTLESS_LOOKS_MAX: usize = 4;

const FOLDER_DEPTH_MAX: usize = 5;

/// Calls back when one of some files or folders changes.
pub struct FileWatch {
    paths: Vec<PathBuf>,
    more: Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    changed: Arc<dyn Fn() + Send + Sync>,
    /// What was seen before the watch began: what changed until then is noticed, too.
    known: Vec<Stamp>,
}

/// What is known of a file without reading it.
type Stamp = (PathBuf, u64, Option<SystemTime>);

impl FileWatch {
    /// Looks at files and folders (with all they hold) and returns a watch over them; they need not exist yet. What is
    /// done when they change may block.
    pub fn new(paths: Vec<PathBuf>, changed: impl Fn() + Send + Sync + 'static) -> Self {
        let known = fingerprint(&paths);
        Self { paths, more: Arc::new(Vec::new), changed: Arc::new(changed), known }
    }

    /// Watches what `more` names too; it is asked at each look, so that what is watched may change.
    pub fn following(mut self, more: impl Fn() -> Vec<PathBuf> + Send + Sync + 'static) -> Self {
        self.known = fingerprint(&[self.paths.clone(), more()].concat());
        self.more = Arc::new(more);
        self
    }

    /// Watches until `shutdown` says true or is gone.
    pub async fn run(mut self, mut shutdown: watch::Receiver<bool>) {
        let (nudge, mut nudged) = mpsc::channel(1);
        let watched: Vec<PathBuf> = self.paths.iter().cloned().chain((self.more)()).collect();
        let _watcher = watch_folders(&watched, nudge);
        let (mut known, mut is_first) = (std::mem::take(&mut self.known), true);
        loop {
            if !std::mem::take(&mut is_first) {
                tokio::select! {
                    () = ended(&mut shutdown) => return,
                    Some(()) = nudged.recv() => tokio::time::sleep(DEBOUNCE).await,
                    () = tokio::time::sleep(POLL) => {}
                }
            }
            let mut found = self.look().await;
            if found == known {
                continue;
            }
            // Somebody is writing: wait until it rests, or long enough.
            for _ in 0..RESTLESS_LOOKS_MAX {
                tokio::time::sleep(DEBOUNCE).await;
                let again = self.look().await;
                if again == found {
                    break;
                }
                found = again;
            }
            known = found;
            let changed = Arc::clone(&self.changed);
            if tokio::task::spawn_blocking(move || changed()).await.is_err() {
                tracing::error!("reloading ended early, what was in force stays");
            }
        }
    }

    async fn look(&self) -> Vec<Stamp> {
        let (mut paths, more) = (self.paths.clone(), Arc::clone(&self.more));
        let look = move || {
            paths.extend(more());
            fingerprint(&paths)
        };
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }
}

/// Comes back when the process is asked to end.
async fn ended(shutdown: &mut watch::Receiver<bool>) {
    // An error says that nobody can ask any more, which is an end too.
    drop(shutdown.wait_for(|ended| *ended).await);
}

/// Reads files and packs anew and logs what came of it, every fault included. Blocks.
pub fn reload(reloader: &Reloader) {
    match reloader.reload_file() {
        Ok(Some(change)) => {
            tracing::info!(revision = change.revision, changed = ?change.changed, "rules reloaded");
        }
        Ok(None) => tracing::debug!("files touched, rules unchanged"),
        Err(ChangeError::Faulty(faults)) => {
            faults.iter().for_each(|fault| tracing::warn!(%fault, "faulty file, rules unchanged"));
        }
        Err(error) => tracing::error!(%error, "rules not reloaded"),
    }
}

/// Watches the folders around files, because editors replace files instead of writing into them.
fn watch_folders(paths: &[PathBuf], nudge: mpsc::Sender<()>) -> Option<notify::RecommendedWatcher> {
    // A full channel already holds a nudge.
    let told = move |_event: notify::Result<notify::Event>| {
        let _ = nudge.try_send(());
    };
    let mut watcher = match notify::recommended_watcher(told) {
        Ok(watcher) => watcher,
        Err(error) => {
            tracing::warn!(%error, poll_s = POLL.as_secs(), "cannot watch files, polling them");
            return None;
        }
    };
    for path in paths {
        let watched = if path.is_dir() {
            watcher.watch(path, RecursiveMode::Recursive)
        } else {
            watcher.watch(folder_of(path), RecursiveMode::NonRecursive)
        };
        if let Err(error) = watched {
            tracing::debug!(%error, "cannot watch a path, polling it");
        }
    }
    Some(watcher)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns names, sizes and times of files and of the files in folders.
fn fingerprint(paths: &[PathBuf]) -> Vec<Stamp> {
    let mut stamps = Vec::new();
    paths.iter().for_each(|path| stamp(path, FOLDER_DEPTH_MAX, &mut stamps));
    stamps.sort();
    stamps
}

fn stamp(path: &Path, depth: usize, stamps: &mut Vec<Stamp>) {
    if stamps.len() >= FILES_MAX {
        return;
    }
    // A link to nothing is looked at itself: reading may fail while it lies there, and its end is a change.
    let Ok(facts) = std::fs::metadata(path).or_else(|_| std::fs::symlink_metadata(path)) else { return };
    if !facts.is_dir() {
        stamps.push((path.to_owned(), facts.len(), facts.modified().ok()));
        return;
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    if depth > 0 {
        entries.for_each(|entry| stamp(&entry.path(), depth - 1, stamps));
    }
}

#[cfg(test)]
mod tests;
