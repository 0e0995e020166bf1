//! Changes in their turn: one at a time here, and each behind everything that other nodes have brought.
//!
//! Where another node was faster, a change is made anew on what that left, as if it had come later. Only who says what
//! they believe to be in force (`If-Match`) hears that it is not.

use serde_json::Value;

use super::Author;
use super::Change;
use super::ChangeError;
use super::Draft;
use super::Reloader;
use super::Run;
use super::ensure_fresh;
use crate::document::Document;
use crate::policy::build::restored;
use crate::policy::build::rules_of;
use crate::policy::profile;
use crate::policy::revision::RevisionSource;

/// How often a change is made anew because another node was faster.
const RETRIES_MAX: usize = 4;

impl Reloader {
    /// Applies the JSON merge patch that `patch` makes of the document in force: see [`Reloader::patch`].
    ///
    /// # Errors
    ///
    /// As there, and as `patch`.
    pub fn patch_by(
        &self,
        patch: impl Fn(&Document) -> Result<Value, ChangeError>,
        author: &Author,
        if_match: Option<&str>,
        run: Run,
    ) -> Result<Change, ChangeError> {
        self.in_turn(|| {
            let patch = patch(&self.current().document)?;
            self.patch_as(patch, author, RevisionSource::Api, if_match, run)
        })
    }

    /// Applies a profile by its name.
    ///
    /// # Errors
    ///
    /// As every change, and for a name that no profile has.
    pub fn apply_profile(
        &self,
        id: &str,
        author: &Author,
        if_match: Option<&str>,
        run: Run,
    ) -> Result<Change, ChangeError> {
        let patch = Value::Object(profile::find(id).ok_or(ChangeError::UnknownProfile)?.patch);
        self.in_turn(|| self.patch_as(patch.clone(), author, RevisionSource::Profile, if_match, run))
    }

    /// Puts the rules of an earlier revision in force again, as a new revision.
    ///
    /// # Errors
    ///
    /// As every change, for a revision that is not kept, and for one that is out of the author's reach.
    pub fn rollback(
        &self,
        number: u64,
        author: &Author,
        if_match: Option<&str>,
        run: Run,
    ) -> Result<Change, ChangeError> {
        self.in_turn(|| {
            ensure_fresh(&self.current(), if_match)?;
            self.go_back(number, author, run)
        })
    }

    fn go_back(&self, number: u64, author: &Author, run: Run) -> Result<Change, ChangeError> {
        let earlier = self.revisions.get(number)?.ok_or(ChangeError::UnknownRevision)?;
        let current = self.current();
        let wanted = restored(&current.document, &self.loading.defaults, earlier.rules);
        author.ensure_reaches(&current.document, &wanted)?;
        let draft = Draft {
            rules: rules_of(&wanted),
            places: Document::default(),
            file_etag: current.revision.file_etag.clone(),
            own_etag: current.revision.own_etag.clone(),
            author: author.name.clone(),
            source: RevisionSource::Rollback,
            needs_restart: Vec::new(),
        };
        self.change(draft, run, false).map(|change| change.expect("a rollback is never skipped"))
    }

    /// Makes a change when its turn comes, and anew where another node was faster.
    pub(super) fn in_turn<T>(&self, change: impl Fn() -> Result<T, ChangeError>) -> Result<T, ChangeError> {
        let mut retries = 0..RETRIES_MAX;
        loop {
            let _one_at_a_time = self.begin()?;
            match change() {
                Err(ChangeError::Overtaken) if retries.next().is_some() => {}
                made => return made,
            }
        }
    }
}
