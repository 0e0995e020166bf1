//! The history of what was in force: every accepted change is a numbered revision.
//!
//! Who brought a change is stored as [`Authors`] seal it, so that whoever is erased is gone from the history as well.

use std::ops::ControlFlow;

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Map;
use serde_json::Value;

use crate::scan::threat::UnknownName;
use crate::store::Batch;
use crate::store::Key;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;

/// The most revisions that are kept; the oldest go first.
pub const REVISIONS_MAX: usize = 1000;
const TABLE: &str = "policy.revisions";
/// How many revisions are read at a time, where all of them are: each may be large.
const READ_AT_ONCE: usize = 16;

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
    /// The digest of the rules in the files at that time, over the defaults of the release.
    pub file_etag: String,
    /// The digest of what the files and the environment said themselves, which tells a later start whether they changed;
    /// `None` where a release kept it that did not note that.
    pub own_etag: Option<String>,
    /// The reloadable part of the effective document.
    pub rules: Map<String, Value>,
}

/// Returns what stands for an author's name.
pub type SealAuthor = dyn Fn(&str) -> Result<String, StoreError> + Send + Sync;

/// How the names of authors are stored.
pub struct Authors {
    /// Returns what stands for a name, once the name would be read from it after a power cut. Blocks.
    pub seal: Box<SealAuthor>,
    /// Returns the name that a text stands for, or what is shown in its place.
    pub open: Box<dyn Fn(&str) -> String + Send + Sync>,
}

/// The stored history.
pub struct Revisions {
    store: Store,
    table: Table<u64, RevisionRecord>,
    authors: Authors,
    /// Up to which number revisions may have been there that are lost; 0: none are.
    lost_up_to: u64,
}

#[derive(Serialize, Deserialize)]
struct RevisionRecord {
    author: String,
    source: String,
    created_at: String,
    etag: String,
    file_etag: String,
    /// Beside the other, so that an earlier release reads the record, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    own_etag: Option<String>,
    rules: Map<String, Value>,
    #[serde(skip)]
    is_plain: bool,
}

impl Revisions {
    /// Opens the history in a store, and seals the authors of the first version's revisions. Blocks.
    ///
    /// # Errors
    ///
    /// When the store fails, or an author cannot be sealed.
    pub fn open(store: &Store, authors: Authors) -> Result<Self, StoreError> {
        let revisions = Self { store: store.clone(), table: store.table(TABLE), authors, lost_up_to: 0 };
        loop {
            match revisions.seal_old() {
                // Another node seals them, too.
                Err(StoreError::Conflict) => {}
                sealed => return sealed.map(|()| revisions),
            }
        }
    }

    /// Goes on where revisions up to a number may be lost, of which none is used again: the newest that is left, if one is,
    /// is kept once more behind them. Blocks.
    ///
    /// # Errors
    ///
    /// When the store cannot be read, or cannot promise to keep it.
    pub fn behind(mut self, lost_up_to: Option<u64>) -> Result<Self, StoreError> {
        let Some(lost_up_to) = lost_up_to else { return Ok(self) };
        self.lost_up_to = lost_up_to;
        if let Some(left) = self.newest(1)?.pop()
            && left.number <= lost_up_to
        {
            self.keep(&Revision { number: lost_up_to.saturating_add(1), ..left })?;
        }
        Ok(self)
    }

    /// Returns up to which number revisions may have been there that are lost; 0: none are.
    pub fn lost_up_to(&self) -> u64 {
        self.lost_up_to
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
            let version = self.version()?;
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

    /// Notes on a kept revision what the files and the environment say themselves, where an earlier release did not. One
    /// whose author is not sealed yet is left as it is.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] when another node was faster; and when the store cannot promise to keep it.
    pub fn note_own(&self, number: u64, own_etag: &str) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        if self.is_shared() {
            batch.expect(self.table.name(), self.version()?);
        }
        let record = self.table.get(&number)?.filter(|record| !record.is_plain && record.own_etag.is_none());
        let Some(record) = record else { return Ok(()) };
        let noted = RevisionRecord { own_etag: Some(own_etag.to_owned()), ..record };
        self.table.put_in(&mut batch, &number, &noted)?;
        self.store.commit_durable(&batch)
    }

    fn batch_of(&self, revision: &Revision) -> Result<Batch, StoreError> {
        let mut batch = Batch::default();
        self.table.put_in(&mut batch, &revision.number, &self.record(revision)?)?;
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
        Ok(record.and_then(|record| self.revision(number, record)))
    }

    /// Returns the newest revisions, newest first, `limit` at most.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn newest(&self, limit: usize) -> Result<Vec<Revision>, StoreError> {
        let records = self.table.list(&KeyRange::all(), Order::Descending, limit)?;
        Ok(records.into_iter().filter_map(|(number, record)| self.revision(number, record)).collect())
    }

    /// Returns how many revisions are kept. Where nodes share them none is missing between the oldest and the newest. Blocks.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn count(&self) -> Result<usize, StoreError> {
        if !self.is_shared() {
            let mut count = 0;
            self.store.scan(TABLE, &KeyRange::all(), Order::Ascending, &mut |_, _| {
                count += 1;
                ControlFlow::Continue(())
            })?;
            return Ok(count);
        }
        let first = |order| -> Result<Option<u64>, StoreError> {
            Ok(self.table.list(&KeyRange::all(), order, 1)?.first().map(|(number, _)| *number))
        };
        let (oldest, newest) = (first(Order::Ascending)?, first(Order::Descending)?);
        Ok(oldest.zip(newest).map_or(0, |(oldest, newest)| (newest - oldest) as usize + 1))
    }

    /// Returns how many of the revisions that are kept were brought by somebody of these names. Blocks.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn count_by(&self, names: &[String]) -> Result<u64, StoreError> {
        let (mut range, mut count) = (KeyRange::all(), 0);
        loop {
            let records = self.table.list(&range, Order::Ascending, READ_AT_ONCE)?;
            let Some((last, _)) = records.last() else { return Ok(count) };
            range.start = (last + 1).to_bytes();
            let authors = records.iter().map(|(_, record)| self.author(record));
            count += authors.filter(|author| names.contains(author)).count() as u64;
        }
    }

    fn author(&self, record: &RevisionRecord) -> String {
        if record.is_plain { record.author.clone() } else { (self.authors.open)(&record.author) }
    }

    fn version(&self) -> Result<u64, StoreError> {
        Ok(self.store.versions()?.get(TABLE).copied().unwrap_or_default())
    }

    /// Seals what the first version left plain, some at a time: a revision may be large. An author whose name could not
    /// be read again, because there is no key for it, stays plain until a later start.
    fn seal_old(&self) -> Result<(), StoreError> {
        let mut range = KeyRange::all();
        loop {
            let mut batch = Batch::default();
            if self.is_shared() {
                batch.expect(TABLE, self.version()?);
            }
            let records = self.table.list(&range, Order::Ascending, READ_AT_ONCE)?;
            let Some((last, _)) = records.last() else { return self.store.durable() };
            range.start = (last + 1).to_bytes();
            for (number, record) in records.into_iter().filter(|(_, record)| record.is_plain) {
                let author = (self.authors.seal)(&record.author)?;
                if (self.authors.open)(&author) == record.author {
                    self.table.put_in(&mut batch, &number, &RevisionRecord { author, ..record })?;
                }
            }
            if !batch.is_empty() {
                self.store.commit(&batch)?;
            }
        }
    }

    fn record(&self, revision: &Revision) -> Result<RevisionRecord, StoreError> {
        Ok(RevisionRecord {
            author: (self.authors.seal)(&revision.author)?,
            source: revision.source.as_str().to_owned(),
            created_at: revision.created_at.to_string(),
            etag: revision.etag.clone(),
            file_etag: revision.file_etag.clone(),
            own_etag: revision.own_etag.clone(),
            rules: revision.rules.clone(),
            is_plain: false,
        })
    }

    /// `None` for a record whose source or time makes no sense.
    fn revision(&self, number: u64, record: RevisionRecord) -> Option<Revision> {
        Some(Revision {
            number,
            author: self.author(&record),
            source: record.source.parse().ok()?,
            created_at: record.created_at.parse().ok()?,
            etag: record.etag,
            file_etag: record.file_etag,
            own_etag: record.own_etag,
            rules: record.rules,
        })
    }
}

impl Record for RevisionRecord {
    /// Version 1 held the author as it was given.
    const VERSION: u32 = 2;

    fn upgrade(version: u32, old: Value) -> Option<Self> {
        let record: Self = (version == 1).then(|| serde_json::from_value(old).ok()).flatten()?;
        Some(Self { is_plain: true, ..record })
    }
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
    use crate::policy::fixture;
    use crate::store::open_sled;

    fn revision(number: u64) -> Revision {
        Revision {
            number,
            author: "a".to_owned(),
            source: RevisionSource::Api,
            created_at: "2026-05-01T12:00:00.5Z".parse().unwrap(),
            etag: "\"e\"".to_owned(),
            file_etag: "\"f\"".to_owned(),
            own_etag: Some("\"o\"".to_owned()),
            rules: Map::from_iter([("limits".to_owned(), Value::from(number))]),
        }
    }

    /// Turns names round, as if that sealed them.
    fn open(store: &Store) -> Revisions {
        Revisions::open(store, fixture::authors()).unwrap()
    }

    #[test]
    fn what_is_kept_comes_back_newest_first_and_the_oldest_go() {
        let revisions = open(&Store::in_memory());
        let last = REVISIONS_MAX as u64 + 2;
        (1..=last).for_each(|number| revisions.keep(&revision(number)).unwrap());
        assert_eq!(revisions.get(last).unwrap(), Some(revision(last)));
        assert_eq!(revisions.get(2).unwrap(), None);
        let numbers: Vec<u64> = revisions.newest(3).unwrap().iter().map(|kept| kept.number).collect();
        assert_eq!(numbers, [last, last - 1, last - 2]);
        assert_eq!(revisions.newest(usize::MAX).unwrap().len(), REVISIONS_MAX);
        assert_eq!(revisions.count().unwrap(), REVISIONS_MAX);
    }

    #[test]
    fn no_number_is_used_again_where_revisions_are_lost() {
        let folder = tempfile::tempdir().unwrap();
        let store = open_sled(folder.path()).unwrap();
        assert_eq!(open(&store).behind(Some(40)).unwrap().lost_up_to(), 40);
        assert_eq!(open(&store).newest(1).unwrap(), [], "there is none to go on with");
        (1..=3).for_each(|number| open(&store).keep(&revision(number)).unwrap());
        // A start that was cut off is made once more.
        for _ in 0..2 {
            let revisions = open(&store).behind(Some(40)).unwrap();
            let left = Revision { number: 41, ..revision(3) };
            assert_eq!(revisions.newest(2).unwrap(), [left, revision(3)]);
            assert_eq!(revisions.count().unwrap(), 4);
        }
        assert_eq!(open(&store).behind(None).unwrap().lost_up_to(), 0);
    }

    #[test]
    fn version_1_is_read_for_ever_and_its_authors_are_sealed() {
        let store = Store::in_memory();
        let mut batch = Batch::default();
        for number in 1..=READ_AT_ONCE as u64 * 2 + 1 {
            let stored = r#"{"v":1,"record":{"author":"alice","source":"file","created_at":"2026-01-02T03:04:05Z","etag":"\"a\"","file_etag":"\"b\"","rules":{"routes":[]}}}"#;
            batch.put(TABLE, number.to_be_bytes().to_vec(), stored.as_bytes().to_vec());
        }
        store.commit(&batch).unwrap();
        for _ in 0..2 {
            let all = open(&store).newest(usize::MAX).unwrap();
            assert_eq!(all.len(), READ_AT_ONCE * 2 + 1);
            for kept in all {
                assert_eq!((kept.author.as_str(), kept.source), ("alice", RevisionSource::File));
                let stored = store.get(TABLE, &kept.number.to_be_bytes()).unwrap().unwrap();
                let stored = String::from_utf8(stored).unwrap();
                assert!(stored.starts_with(r#"{"v":2,"record":{"author":"ecila","#), "{stored}");
            }
        }
    }

    #[test]
    fn an_author_without_a_key_is_not_lost_to_sealing() {
        let store = Store::in_memory();
        let stored = r#"{"v":1,"record":{"author":"alice","source":"file","created_at":"2026-01-02T03:04:05Z","etag":"","file_etag":"","rules":{}}}"#;
        let mut batch = Batch::default();
        batch.put(TABLE, 1u64.to_be_bytes().to_vec(), stored.as_bytes().to_vec());
        store.commit(&batch).unwrap();
        let author = |revisions: Revisions| revisions.get(1).unwrap().unwrap().author;
        let keyless =
            Authors { seal: Box::new(|_| Ok("~".to_owned())), open: Box::new(|_| "[unlisted]".to_owned()) };
        assert_eq!(author(Revisions::open(&store, keyless).unwrap()), "alice");
        let is_plain = || store.get(TABLE, &1u64.to_be_bytes()).unwrap().unwrap() == stored.as_bytes();
        assert!(is_plain());
        assert_eq!(author(open(&store)), "alice");
        assert!(!is_plain(), "there is room by now");
    }

    #[test]
    fn a_change_whose_author_cannot_be_sealed_is_not_kept() {
        let store = Store::in_memory();
        let seal = |_: &str| Err(StoreError::Conflict);
        let authors = Authors { seal: Box::new(seal), open: Box::new(str::to_owned) };
        let revisions = Revisions::open(&store, authors).unwrap();
        assert!(revisions.keep(&revision(1)).is_err());
        assert_eq!(revisions.newest(1).unwrap(), []);
    }
}
