//! Changing the running ruleset: from files, by patch, by profile, back to an earlier revision.
//!
//! Whatever the way, the steps are the same: make the new document, read it, load and prove packs,
//! compile, keep the revision, publish one pointer, tell the subscribers. Any fault ends the walk
//! with *all* faults in hand and the running ruleset untouched. Changes are made one at a time.
//!
//! Every call here blocks for as long as compiling takes (some 0.3 s where packs changed): keep
//! it off the request threads.

mod author;
mod follow;
mod patch;
mod start;
mod turn;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use parking_lot::RwLock;
use serde_json::Map;
use serde_json::Value;

pub use self::author::Author;
pub use self::author::Reach;
use self::patch::patched;
use self::patch::read_patch;
use self::patch::refuse_new_secrets;
pub use self::start::Beginning;
pub use self::start::Origin;
use crate::clock::Clock;
use crate::document::Document;
use crate::document::Fault;
use crate::document::Place;
use crate::document::patch::changed_keys;
use crate::document::patch::changed_paths;
use crate::policy::build::Builder;
use crate::policy::build::Loading;
use crate::policy::build::Written;
use crate::policy::build::all_rules_of;
use crate::policy::build::read_rules;
use crate::policy::build::rules_etag;
use crate::policy::build::rules_of;
use crate::policy::build::with_rules;
use crate::policy::handle::RulesetHandle;
use crate::policy::revision::Revision;
use crate::policy::revision::RevisionSource;
use crate::policy::revision::Revisions;
use crate::policy::ruleset::RELOADABLE_KEYS;
use crate::policy::ruleset::Ruleset;
use crate::store::StoreError;

/// Who is named as the author of what files and starts change.
pub const SYSTEM_AUTHOR: &str = "portcullis";

/// Changes the running ruleset; there is one of it.
pub struct Reloader {
    handle: RulesetHandle,
    loading: Loading,
    revisions: Revisions,
    clock: Arc<dyn Clock>,
    current: ArcSwap<Current>,
    changing: Mutex<()>,
    preparers: RwLock<Vec<Preparer>>,
    listeners: RwLock<Vec<Listener>>,
    /// The revision of another node that did not build here.
    refused: AtomicU64,
    files: Files,
}

/// How the files were when they were read last, and who is told.
#[derive(Default)]
struct Files {
    are_faulty: AtomicBool,
    /// What they said when it was told last what of it waits for a restart.
    told: Mutex<Option<Document>>,
    followers: RwLock<Vec<Follower>>,
}

/// What is in force: the effective document and the revision that brought it.
#[derive(Clone, Debug)]
pub struct Current {
    /// The effective document, what needs a restart included.
    pub document: Document,
    /// The revision.
    pub revision: Revision,
}

/// What is told to subscribers.
#[derive(Clone, Debug)]
pub enum Announcement {
    /// A change is in force.
    Published(Change),
    /// A change was refused that was more than tried; what was in force stays.
    Refused {
        /// How it came.
        source: RevisionSource,
        /// How much is wrong with it.
        faults: usize,
    },
}

/// A change that was made, or would be.
#[derive(Clone, Debug)]
pub struct Change {
    /// The revision in force afterwards; for a dry run the one it would get.
    pub revision: u64,
    /// Who brought it.
    pub author: String,
    /// How it came.
    pub source: RevisionSource,
    /// The digest of the whole document afterwards.
    pub etag: String,
    /// The top-level keys that differ.
    pub changed: Vec<String>,
    /// Whether the packs or the dialects differ.
    pub packs_changed: bool,
    /// The paths of keys that differ in the files and wait for a restart.
    pub needs_restart: Vec<String>,
    /// The whole document afterwards.
    pub document: Document,
}

impl Change {
    /// Tells whether all is as it was.
    pub fn is_nothing(&self) -> bool {
        self.changed.is_empty() && !self.packs_changed
    }
}

/// Whether a change is made or only tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// It is made.
    Real,
    /// Everything is done but keeping and publishing it.
    Dry,
}

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// Something is wrong with it; here is all of it.
    #[error("{} faults", .0.len())]
    Faulty(Vec<Fault>),
    /// It would lead a provider's key elsewhere, bring back other keys or agents, or ask less of callers, and its author
    /// may not.
    #[error(
        "where a provider's key goes, who the agents are, what proof of who they are a server's callers need at least, \
         the last route to a server that asks for one, and what sinks get, is not for this author to change"
    )]
    OutOfReach,
    /// Somebody else changed the document first.
    #[error("the configuration has changed; it is now {etag}")]
    Stale {
        /// The digest of the document in force.
        etag: String,
    },
    /// Another node was faster, again and again; or this node cannot build what another has brought.
    #[error(
        "other nodes change the configuration at the same moment, or have brought one that this node cannot build"
    )]
    Overtaken,
    /// There is no such revision, or it is not kept any more.
    #[error("there is no such revision")]
    UnknownRevision,
    /// There is a policy of that id already.
    #[error("there is a policy of this id already")]
    PolicyTaken,
    /// There is no such profile.
    #[error("there is no such profile")]
    UnknownProfile,
    /// The revision could not be kept, and was not put in force.
    #[error("the revision could not be kept")]
    Store(#[from] StoreError),
}

type Follower = Box<dyn Fn(Option<u64>) + Send + Sync>;
type Listener = Box<dyn Fn(&Announcement) + Send + Sync>;
type Preparer = Box<dyn Fn(&Ruleset) + Send + Sync>;

/// A change on its way.
struct Draft {
    rules: Map<String, Value>,
    places: Document,
    file_etag: String,
    own_etag: Option<String>,
    author: String,
    source: RevisionSource,
    needs_restart: Vec<String>,
}

impl Reloader {
    /// Returns where the running ruleset is found.
    pub fn handle(&self) -> RulesetHandle {
        self.handle.clone()
    }

    /// Returns what is in force.
    pub fn current(&self) -> Arc<Current> {
        self.current.load_full()
    }

    /// Returns the history.
    pub fn revisions(&self) -> &Revisions {
        &self.revisions
    }

    /// Calls `listener` at every change and every refusal from now on; it must be quick.
    pub fn subscribe(&self, listener: impl Fn(&Announcement) + Send + Sync + 'static) {
        self.listeners.write().push(Box::new(listener));
    }

    /// Calls `follower` with the revision in force whenever there is a new one or good files are read, and with `None`
    /// when faulty ones are, and after every new revision for as long as they are faulty; it must be quick.
    pub fn follow_files(&self, follower: impl Fn(Option<u64>) + Send + Sync + 'static) {
        self.files.followers.write().push(Box::new(follower));
    }

    /// Calls `prepare` with every ruleset that is about to be in force, before an exchange can have it.
    pub fn prepare(&self, prepare: impl Fn(&Ruleset) + Send + Sync + 'static) {
        self.preparers.write().push(Box::new(prepare));
    }

    /// Reads files and packs anew. `None` if neither differs from what was read last.
    ///
    /// Rules that changed in the files replace those in force, changes of the API included; keys
    /// that need a restart stay as they are, and are logged, each difference once.
    ///
    /// # Errors
    ///
    /// As every change.
    pub fn reload_file(&self) -> Result<Option<Change>, ChangeError> {
        self.in_turn(|| {
            let read = self.read_files();
            match &read {
                Ok(_) => self.note_good_files(),
                Err(ChangeError::Faulty(_)) => self.note_faulty_files(),
                // What else keeps a change from being made is not the files' fault.
                Err(_) => {}
            }
            read
        })
    }

    fn read_files(&self) -> Result<Option<Change>, ChangeError> {
        let source = RevisionSource::File;
        let Written { document: files, own_etag } =
            self.heard(source, Run::Real, (self.loading.document)())?;
        let current = self.current();
        let (file_etag, own_etag) = (rules_etag(&files), Some(own_etag));
        let needs_restart = fixed_differences(&current.document, &files);
        let (read, waiting) = (files.clone(), needs_restart.clone());
        let same_files = own_etag == current.revision.own_etag;
        let rules = if same_files { current.revision.rules.clone() } else { all_rules_of(&files) };
        let places = if same_files { current.document.clone() } else { files };
        let author = SYSTEM_AUTHOR.to_owned();
        let draft = Draft { rules, places, file_etag, own_etag, author, source, needs_restart };
        let made = self.change(draft, Run::Real, same_files)?;
        self.files.tell_waiting(read, waiting);
        Ok(made)
    }

    /// Applies a JSON merge patch of the reloadable part. One that leaves all as it is makes no revision: what comes
    /// back names the one in force.
    ///
    /// `if_match` is the digest the caller believes to be in force; `None` does not care.
    ///
    /// # Errors
    ///
    /// As every change; keys that need a restart and would change are faults, each by its path; an author who may not lead a
    /// provider's key elsewhere would.
    pub fn patch(
        &self,
        patch: Value,
        author: &Author,
        if_match: Option<&str>,
        run: Run,
    ) -> Result<Change, ChangeError> {
        self.patch_by(|_| Ok(patch.clone()), author, if_match, run)
    }

    fn patch_as(
        &self,
        patch: Value,
        author: &Author,
        source: RevisionSource,
        if_match: Option<&str>,
        run: Run,
    ) -> Result<Change, ChangeError> {
        let current = self.current();
        ensure_fresh(&current, if_match)?;
        let place = Place { source: source.as_str().into(), line: None, column: None };
        let (layer, mut faults) = self.heard(source, run, read_patch(&current.document, patch, place))?;
        let document = patched(&current.document, layer, &self.loading.defaults, source);
        let refused = refuse_new_secrets(&current.document, &document).err().unwrap_or_default();
        let is_reached = refused.is_empty() && author.ensure_reaches(&current.document, &document).is_ok();
        faults.extend(refused);
        if !faults.is_empty() {
            faults.extend(self.rest(&document, is_reached));
            return self.heard(source, run, Err(faults));
        }
        author.ensure_reaches(&current.document, &document)?;
        let draft = Draft {
            rules: rules_of(&document),
            places: document,
            file_etag: current.revision.file_etag.clone(),
            own_etag: current.revision.own_etag.clone(),
            author: author.name.clone(),
            source,
            needs_restart: Vec::new(),
        };
        self.change(draft, run, false).map(|change| change.expect("a patch is never skipped"))
    }

    /// Returns what is wrong with a document that is refused already, so that all of it is told at once. One that is out
    /// of its author's reach is only read: what building it opens is no business of theirs.
    fn rest(&self, document: &Document, is_reached: bool) -> Vec<Fault> {
        if !is_reached {
            return read_rules(document).err().unwrap_or_default();
        }
        let running = self.handle.load();
        let builder = Builder { loading: &self.loading, running: Some(&running) };
        builder.build(document, 0).err().unwrap_or_default()
    }

    /// Builds, keeps and publishes a draft; called with `changing` held. `None` if `skippable` and
    /// the packs are as they were.
    fn change(&self, draft: Draft, run: Run, skippable: bool) -> Result<Option<Change>, ChangeError> {
        let current = self.current();
        let running = self.handle.load();
        let builder = Builder { loading: &self.loading, running: Some(&running) };
        let document = with_rules(&current.document, draft.rules).placed_like(&draft.places);
        let number = current.revision.number + 1;
        let ruleset = self.heard(draft.source, run, builder.build(&document, number))?;
        let packs_changed = !ruleset.is_of_the_packs_of(&running);
        if skippable && !packs_changed {
            return Ok(None);
        }
        let change = Change {
            revision: number,
            author: draft.author.clone(),
            source: draft.source,
            etag: document.etag(),
            changed: changed_keys(current.document.root(), document.root()),
            packs_changed,
            needs_restart: draft.needs_restart,
            document: document.clone(),
        };
        if run == Run::Dry {
            return Ok(Some(change));
        }
        if draft.source == RevisionSource::Api && change.is_nothing() {
            return Ok(Some(Change { revision: current.revision.number, ..change }));
        }
        let revision = Revision {
            number,
            author: draft.author,
            source: draft.source,
            created_at: self.clock.now(),
            etag: change.etag.clone(),
            file_etag: draft.file_etag,
            own_etag: draft.own_etag,
            rules: rules_of(&document),
        };
        self.revisions.keep_next(&revision).map_err(|error| match error {
            StoreError::Conflict => ChangeError::Overtaken,
            error => error.into(),
        })?;
        self.put_in_force(ruleset, document, revision, change.clone());
        Ok(Some(change))
    }

    /// Announces a refusal on its way to the caller, unless it is of what was only tried.
    fn heard<T>(
        &self,
        source: RevisionSource,
        run: Run,
        result: Result<T, Vec<Fault>>,
    ) -> Result<T, ChangeError> {
        result.map_err(|mut faults| {
            Fault::sort(&mut faults);
            if run == Run::Real {
                self.announce(&Announcement::Refused { source, faults: faults.len() });
            }
            ChangeError::Faulty(faults)
        })
    }

    fn note_good_files(&self) {
        let revision = self.current().revision.number;
        if self.files.are_faulty.swap(false, Ordering::Relaxed) {
            tracing::info!(revision, "the files are good again");
        }
        self.files.tell(Some(revision));
    }

    fn note_faulty_files(&self) {
        self.files.are_faulty.store(true, Ordering::Relaxed);
        self.files.tell(None);
    }

    fn announce(&self, announcement: &Announcement) {
        self.listeners.read().iter().for_each(|listener| listener(announcement));
    }
}

/// Returns the paths of all in which documents differ and which changes only with a restart.
fn fixed_differences(before: &Document, after: &Document) -> Vec<String> {
    let is_fixed = |path: &String| RELOADABLE_KEYS.iter().all(|key| path.split('.').next() != Some(*key));
    changed_paths(before.root(), after.root()).into_iter().filter(is_fixed).collect()
}

/// Refuses a change of what is not in force any more.
fn ensure_fresh(current: &Current, if_match: Option<&str>) -> Result<(), ChangeError> {
    let etag = &current.revision.etag;
    match if_match {
        Some(expected) if expected != etag && expected != "*" => {
            Err(ChangeError::Stale { etag: etag.clone() })
        }
        Some(_) | None => Ok(()),
    }
}

impl Files {
    fn tell(&self, accepted: Option<u64>) {
        self.followers.read().iter().for_each(|follower| follower(accepted));
    }

    /// Logs what waits for a restart, but for what did when the files were read last and is as it was.
    fn tell_waiting(&self, files: Document, mut waiting: Vec<String>) {
        let mut told = self.told.lock();
        if let Some(told) = &*told {
            let new = fixed_differences(told, &files);
            waiting.retain(|key| new.contains(key));
        }
        if !waiting.is_empty() {
            tracing::warn!(keys = ?waiting, "these keys change only with a restart");
        }
        *told = Some(files);
    }

    /// Tells of a new revision: whoever brought it, files that are faulty still are.
    fn tell_new(&self, revision: u64) {
        self.tell(Some(revision));
        if self.are_faulty.load(Ordering::Relaxed) {
            self.tell(None);
        }
    }
}

/// The top-level keys that change only with a restart.
pub const FIXED_KEYS: &[&str] = &[
    "proxy",
    "admin",
    "session",
    "sso",
    "store",
    "cluster",
    "plugins",
    "audit",
    "analytics",
    "license",
    "otlp",
    "signing",
    "auth",
    "telemetry",
    "trust",
];

#[cfg(test)]
mod tests;
