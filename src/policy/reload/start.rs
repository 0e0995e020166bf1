//! What a start begins with: the files or the stored revisions, whichever are newer.
//!
//! Files are newer where they, or the environment, say something else themselves than when the newest revision was kept.
//! That a release brings other defaults is no word of theirs: what somebody made over the network outlives it. Revisions of
//! releases that did not note what the files said themselves are kept in doubt.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use parking_lot::RwLock;

use super::ChangeError;
use super::Current;
use super::Files;
use super::Reloader;
use super::SYSTEM_AUTHOR;
use crate::clock::Clock;
use crate::document::Document;
use crate::document::Fault;
use crate::document::patch::changed_keys;
use crate::policy::build::Builder;
use crate::policy::build::Loading;
use crate::policy::build::all_rules_of;
use crate::policy::build::restored;
use crate::policy::build::rules_etag;
use crate::policy::build::rules_of;
use crate::policy::build::with_rules;
use crate::policy::handle::RulesetHandle;
use crate::policy::revision::Revision;
use crate::policy::revision::RevisionSource;
use crate::policy::revision::Revisions;
use crate::policy::ruleset::Ruleset;
use crate::store::StoreError;

/// How many revisions are tried at the most where the newest does not build on a node.
const TRIED_MAX: usize = 16;

/// How a start found its rules.
#[derive(Debug)]
pub enum Origin {
    /// Nothing was stored: the files.
    FirstStart,
    /// Everything that was stored is lost, as somebody knows who starts all the same: the files.
    RevisionsLost,
    /// The files changed while the gateway was down: the files.
    FilesChanged,
    /// The newest revision holds nothing but what was in the files, and they or the defaults are others now: the files,
    /// over the defaults of this release.
    DefaultsChanged,
    /// The files are as they were: the newest stored revision.
    StoredRevision,
    /// The newest stored revision, which somebody made. An earlier release kept it: it does not tell what the files said.
    StoredRevisionUnsure,
    /// The newest stored revision does not build any more, for these reasons: the files.
    StoredRevisionFaulty(Vec<Fault>),
    /// The newest revision of several nodes does not build on this one, for these reasons: one before it, until there is
    /// one that does. Nothing is kept, for the others go on with theirs.
    EarlierRevision(Vec<Fault>),
}

/// How a start found its rules, and what that changed.
#[derive(Debug)]
pub struct Beginning {
    /// Where they come from.
    pub origin: Origin,
    /// The top-level keys that are others than in the revision before; empty where none was made.
    pub changed: Vec<String>,
}

/// What a start came to.
struct Begun {
    ruleset: Ruleset,
    current: Current,
    beginning: Beginning,
    /// The revision that does not build here; 0: none.
    refused: u64,
}

/// What a start chooses from.
struct Start<'a> {
    loading: &'a Loading,
    revisions: &'a Revisions,
    clock: &'a dyn Clock,
    files: Document,
    file_etag: String,
    own_etag: String,
}

impl Reloader {
    /// Finds the rules to start with (the newer of the files and the stored revisions), builds
    /// them and returns the reloader with the story of where they came from.
    ///
    /// # Errors
    ///
    /// All faults of the files, or a store that cannot be used.
    pub fn start(
        loading: Loading,
        revisions: Revisions,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, Beginning), ChangeError> {
        loop {
            let begun = Start::of(&loading, &revisions, &*clock).and_then(|start| start.begin());
            match begun {
                // Another node that starts, too, was faster: its revision is the newest now.
                Err(ChangeError::Store(StoreError::Conflict)) => {}
                Err(error) => return Err(error),
                Ok(begun) => return Ok(Self::assemble(begun, loading, revisions, clock)),
            }
        }
    }

    fn assemble(
        begun: Begun,
        loading: Loading,
        revisions: Revisions,
        clock: Arc<dyn Clock>,
    ) -> (Self, Beginning) {
        let reloader = Self {
            handle: RulesetHandle::new(begun.ruleset),
            loading,
            revisions,
            clock,
            current: ArcSwap::from_pointee(begun.current),
            changing: Mutex::new(()),
            preparers: RwLock::default(),
            listeners: RwLock::new(Vec::new()),
            refused: AtomicU64::new(begun.refused),
            files: Files::default(),
        };
        (reloader, begun.beginning)
    }
}

impl<'a> Start<'a> {
    fn of(loading: &'a Loading, revisions: &'a Revisions, clock: &'a dyn Clock) -> Result<Self, ChangeError> {
        let written = (loading.document)().map_err(ChangeError::Faulty)?;
        let file_etag = rules_etag(&written.document);
        let files = with_rules(&written.document, all_rules_of(&written.document));
        Ok(Self { loading, revisions, clock, files, file_etag, own_etag: written.own_etag })
    }

    fn begin(&self) -> Result<Begun, ChangeError> {
        let Some(newest) = self.revisions.newest(1)?.pop() else {
            let is_first = self.revisions.lost_up_to() == 0;
            return self.of_files(None, if is_first { Origin::FirstStart } else { Origin::RevisionsLost });
        };
        match self.origin(&newest) {
            origin @ (Origin::StoredRevision | Origin::StoredRevisionUnsure) => self.stored(newest, origin),
            origin => self.of_files(Some(newest), origin),
        }
    }

    /// Tells whether the files or the newest revision count. Where several nodes share revisions, none puts its release's
    /// defaults over those of another.
    fn origin(&self, newest: &Revision) -> Origin {
        let is_same = match &newest.own_etag {
            Some(own_etag) => Some(*own_etag == self.own_etag),
            None => (newest.file_etag == self.file_etag).then_some(true),
        };
        let is_theirs = is_of_files(newest);
        match is_same {
            Some(false) => Origin::FilesChanged,
            Some(true)
                if is_theirs && !self.revisions.is_shared() && newest.rules != rules_of(&self.files) =>
            {
                Origin::DefaultsChanged
            }
            Some(true) => Origin::StoredRevision,
            None if is_theirs => Origin::DefaultsChanged,
            None => Origin::StoredRevisionUnsure,
        }
    }

    fn stored(&self, newest: Revision, origin: Origin) -> Result<Begun, ChangeError> {
        let (ruleset, current) = match self.build(&newest) {
            Ok(built) => built,
            Err(faults) if self.revisions.is_shared() => return self.earlier(&newest, faults),
            Err(faults) => return self.of_files(Some(newest), Origin::StoredRevisionFaulty(faults)),
        };
        if newest.own_etag.is_none() {
            self.revisions.note_own(newest.number, &self.own_etag)?;
        }
        let beginning = Beginning { origin, changed: Vec::new() };
        Ok(Begun { ruleset, current, beginning, refused: 0 })
    }

    fn build(&self, revision: &Revision) -> Result<(Ruleset, Current), Vec<Fault>> {
        let document = restored(&self.files, &self.loading.defaults, revision.rules.clone());
        let document = document.placed_like(&Document::default());
        let ruleset = self.builder().build(&document, revision.number)?;
        let revision = Revision {
            file_etag: self.file_etag.clone(),
            own_etag: Some(self.own_etag.clone()),
            rules: rules_of(&document),
            ..revision.clone()
        };
        Ok((ruleset, Current { document, revision }))
    }

    /// Begins with the latest revision that builds here; if there is none, with the files, as no revision at all.
    fn earlier(&self, newest: &Revision, faults: Vec<Fault>) -> Result<Begun, ChangeError> {
        let kept = self.revisions.newest(TRIED_MAX)?.into_iter();
        let mut before = kept.filter(|revision| revision.number < newest.number);
        let (ruleset, current) = match before.find_map(|revision| self.build(&revision).ok()) {
            Some(built) => built,
            None => self.build_files(0, RevisionSource::File)?,
        };
        let beginning = Beginning { origin: Origin::EarlierRevision(faults), changed: Vec::new() };
        Ok(Begun { ruleset, current, beginning, refused: newest.number })
    }

    /// Begins with the files, as a new revision.
    fn of_files(&self, newest: Option<Revision>, origin: Origin) -> Result<Begun, ChangeError> {
        let last = newest.as_ref().map_or(self.revisions.lost_up_to(), |newest| newest.number);
        let number = last + 1;
        let source = if newest.is_none() { RevisionSource::Start } else { RevisionSource::File };
        let (ruleset, current) = self.build_files(number, source)?;
        self.revisions.keep_next(&current.revision)?;
        let before = newest.map(|newest| newest.rules);
        let changed = before.map(|before| changed_keys(&before, &current.revision.rules)).unwrap_or_default();
        Ok(Begun { ruleset, current, beginning: Beginning { origin, changed }, refused: 0 })
    }

    fn build_files(&self, number: u64, source: RevisionSource) -> Result<(Ruleset, Current), ChangeError> {
        let document = self.files.clone();
        let ruleset = self.builder().build(&document, number).map_err(ChangeError::Faulty)?;
        let revision = Revision {
            number,
            author: SYSTEM_AUTHOR.to_owned(),
            source,
            created_at: self.clock.now(),
            etag: document.etag(),
            file_etag: self.file_etag.clone(),
            own_etag: Some(self.own_etag.clone()),
            rules: rules_of(&document),
        };
        Ok((ruleset, Current { document, revision }))
    }

    fn builder(&self) -> Builder<'_> {
        Builder { loading: self.loading, running: None }
    }
}

/// Tells whether a revision holds nothing but what was in the files when it was kept, whoever brought it.
fn is_of_files(revision: &Revision) -> bool {
    let rules = Document::from_json(revision.rules.clone().into(), None).unwrap_or_default();
    rules.etag() == revision.file_etag
}

#[cfg(test)]
mod tests;
