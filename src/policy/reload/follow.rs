//! Putting in force what another node has published.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;

use super::Announcement;
use super::Change;
use super::ChangeError;
use super::Current;
use super::Reloader;
use super::Run;
use crate::document::Document;
use crate::document::patch::changed_keys;
use crate::policy::build::Builder;
use crate::policy::build::restored;
use crate::policy::build::rules_of;
use crate::policy::revision::Revision;
use crate::policy::ruleset::Ruleset;

impl Reloader {
    /// Puts the newest revision in force, if another node has brought one, or the store has lost the one that is. Where it
    /// does not build here, because this node's packs or files are others, what was in force stays, and it is tried again
    /// when there is a newer one.
    ///
    /// # Errors
    /// As every change.
    pub fn follow(&self) -> Result<(), ChangeError> {
        self.begin().map(drop)
    }

    /// Takes the turn for a change, behind everything that other nodes have brought.
    pub(super) fn begin(&self) -> Result<MutexGuard<'_, ()>, ChangeError> {
        let turn = self.changing.lock();
        if self.revisions.is_shared() {
            self.take_over_newest()?;
        }
        Ok(turn)
    }

    fn take_over_newest(&self) -> Result<(), ChangeError> {
        let Some(newest) = self.revisions.newest(1)?.pop() else { return Ok(()) };
        let current = self.current();
        // One of the same number, or of a lower one, is another where the store lost what it had confirmed.
        let of = |revision: &Revision| (revision.number, revision.created_at);
        if of(&newest) == of(&current.revision) || newest.number == self.refused.load(Ordering::Relaxed) {
            return Ok(());
        }
        let running = self.handle.load();
        let builder = Builder { loading: &self.loading, running: Some(&running) };
        let document = restored(&current.document, &self.loading.defaults, newest.rules.clone());
        let document = document.placed_like(&Document::default());
        let built = self.heard(newest.source, Run::Real, builder.build(&document, newest.number));
        let ruleset = built.inspect_err(|_| self.refused.store(newest.number, Ordering::Relaxed))?;
        let packs_changed = !ruleset.is_of_the_packs_of(&running);
        let change = Change {
            revision: newest.number,
            author: newest.author.clone(),
            source: newest.source,
            etag: document.etag(),
            changed: changed_keys(current.document.root(), document.root()),
            packs_changed,
            needs_restart: Vec::new(),
            document: document.clone(),
        };
        // A node of an earlier release does not tell of the files: here they are as they were.
        let own_etag = newest.own_etag.clone().or_else(|| current.revision.own_etag.clone());
        let revision = Revision { own_etag, rules: rules_of(&document), ..newest };
        self.put_in_force(ruleset, document, revision, change);
        Ok(())
    }

    /// Publishes a ruleset and tells the subscribers.
    pub(super) fn put_in_force(
        &self,
        ruleset: Ruleset,
        document: Document,
        revision: Revision,
        change: Change,
    ) {
        self.preparers.read().iter().for_each(|prepare| prepare(&ruleset));
        self.handle.publish(Arc::new(ruleset));
        self.current.store(Arc::new(Current { document, revision }));
        self.files.tell_new(change.revision);
        self.announce(&Announcement::Published(change));
    }
}
