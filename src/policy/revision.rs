//! The history of what was in force: every accepted change is a numbered revision.

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;

use crate::scan::threat::UnknownName;
use crate::store::Batch;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;

/// The most revisions that are kept; the oldest go first.
pub const REVISIONS_MAX: usize = 1000;

/// Who or what brought a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisionSource {
    /// The first start.
    Start,
    /// A file that changed.
    File,
    /// A call of the management API.
    Api,
    /// A profile.
    Profile,
    /// A way back to an earlier revision.
    Rollback,
}

/// One accepted change.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// Its number; numbers rise by one and are never used again.
    pub number: u64,
    /// Who brought it: the name of a credential, or `portcullis` for files and starts.
    pub author: String,
    /// How it came.
    pub source: RevisionSource,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// The digest of the whole effective document, in quotes as an `ETag`.
    pub etag: String,
    /// The digest of the rules in the files at that time; tells a later start whether they changed.
    pub file_etag: String,
    /// The reloadable part of the effective document.
    pub rules: Map<String, Value>,
}

/// The stored history.
#[derive(Clone)]
pub struct Revisions {
    store: Store,
    table: Table<u64, RevisionRecord>,
}

#[derive(Serialize, Deserialize)]
struct RevisionRecord {
    author: String,
    source: String,
    created_at: String,
    etag: String,
    file_etag: String,
    rules: Map<String, Value>,
}

impl Revisions {
    /// Returns the history in a store.
    pub fn new(store: &Store) -> Self {
        Self { store: store.clone(), table: store.table("policy.revisions") }
    }

    /// Tells whether other nodes keep revisions, too.
    pub fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    /// Keeps a revision if none of its number, or a later one, is there yet.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] when there is one; and when the store cannot promise to keep it.
    pub fn keep_next(&self, revision: &Revision) -> Result<(), StoreError> {
        let mut batch = self.batch_of(revision)?;
        if self.is_shared() {
            let version = self.store.versions()?.get(self.table.name()).copied().unwrap_or_default();
            if self.newest(1)?.first().is_some_and(|newest| newest.number >= revision.number) {
                return Err(StoreError::Conflict);
            }
            batch.expect(self.table.name(), version);
        }
        self.store.commit_durable(&batch)
    }

    /// Keeps a revision for good, and lets the oldest go past [`REVISIONS_MAX`].
    ///
    /// # Errors
    ///
    /// When the store cannot promise to keep it.
    pub fn keep(&self, revision: &Revision) -> Result<(), StoreError> {
        self.store.commit_durable(&self.batch_of(revision)?)
    }

    fn batch_of(&self, revision: &Revision) -> Result<Batch, StoreError> {
        let mut batch = Batch::default();
        self.table.put_in(&mut batch, &revision.number, &RevisionRecord::of(revision))?;
        if let Some(old) = revision.number.checked_sub(REVISIONS_MAX as u64) {
            self.table.delete_in(&mut batch, &old);
        }
        Ok(batch)
    }

    /// Returns a revision by its number, if it is kept.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn get(&self, number: u64) -> Result<Option<Revision>, StoreError> {
        let record = self.table.get(&number)?;
        Ok(record.and_then(|record| record.revision(number)))
    }

    /// Returns the newest revisions, newest first, `limit` at most.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn newest(&self, limit: usize) -> Result<Vec<Revision>, StoreError> {
        let records = self.table.list(&KeyRange::all(), Order::Descending, limit)?;
        Ok(records.into_iter().filter_map(|(number, record)| record.revision(number)).collect())
    }
}

impl RevisionRecord {
    fn of(revision: &Revision) -> Self {
        Self {
            author: revision.author.clone(),
            source: revision.source.as_str().to_owned(),
            created_at: revision.created_at.to_string(),
            etag: revision.etag.clone(),
            file_etag: revision.file_etag.clone(),
            rules: revision.rules.clone(),
        }
    }

    /// `None` for a record whose source or time makes no sense.
    fn revision(self, number: u64) -> Option<Revision> {
        Some(Revision {
            number,
            author: self.author,
            source: self.source.parse().ok()?,
            created_at: self.created_at.parse().ok()?,
            etag: self.etag,
            file_etag: self.file_etag,
            rules: self.rules,
        })
    }
}

impl Record for RevisionRecord {
    const VERSION: u32 = 1;
}

impl RevisionSource {
    /// Every source.
    pub const ALL: [Self; 5] = [Self::Start, Self::File, Self::Api, Self::Profile, Self::Rollback];

    /// Returns the name used in records and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::File => "file",
            Self::Api => "api",
            Self::Profile => "profile",
            Self::Rollback => "rollback",
        }
    }
}

impl std::str::FromStr for RevisionSource {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let expected = "start, file, api, profile, rollback";
        Self::ALL.into_iter().find(|known| known.as_str() == text).ok_or(UnknownName { expected })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(number: u64) -> Revision {
        Revision {
            number,
            author: "a".to_owned(),
            source: RevisionSource::Api,
            created_at: "2026-05-01T12:00:00.5Z".parse().unwrap(),
            etag: "\"e\"".to_owned(),
            file_etag: "\"f\"".to_owned(),
            rules: Map::from_iter([("limits".to_owned(), Value::from(number))]),
        }
    }

    #[test]
    fn what_is_kept_comes_back_newest_first_and_the_oldest_go() {
        let revisions = Revisions::new(&Store::in_memory());
        let last = REVISIONS_MAX as u64 + 2;
        (1..=last).for_each(|number| revisions.keep(&revision(number)).unwrap());
        assert_eq!(revisions.get(last).unwrap(), Some(revision(last)));
        assert_eq!(revisions.get(2).unwrap(), None);
        let numbers: Vec<u64> = revisions.newest(3).unwrap().iter().map(|kept| kept.number).collect();
        assert_eq!(numbers, [last, last - 1, last - 2]);
        assert_eq!(revisions.newest(usize::MAX).unwrap().len(), REVISIONS_MAX);
    }

    #[test]
    fn version_1_is_read_for_ever() {
        let stored = r#"{"v":1,"record":{"author":"x","source":"file","created_at":"2026-01-02T03:04:05Z","etag":"\"a\"","file_etag":"\"b\"","rules":{"routes":[]}}}"#;
        let store = Store::in_memory();
        let mut batch = Batch::default();
        batch.put("policy.revisions", 7u64.to_be_bytes().to_vec(), stored.as_bytes().to_vec());
        store.commit(&batch).unwrap();
        let kept = Revisions::new(&store).get(7).unwrap().unwrap();
        assert_eq!((kept.author.as_str(), kept.source), ("x", RevisionSource::File));
    }
}
