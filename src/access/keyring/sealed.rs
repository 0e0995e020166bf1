//! Records that name somebody, as they are stored: what is sealed stands where the names were.
//!
//! A name is sealed under two keys, that of whom the record is about and its own: it is gone from every page the store
//! ever wrote once either of them was erased, also where nothing ties the two together any more.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Keyring;
use super::Unread;
use crate::store::Batch;
use crate::store::Followed;
use crate::store::Fresh;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Record;
use crate::store::StoreError;

/// What [`StoreError`]s call the keys of names.
const BACKEND: &str = "subject key";

/// A part of a record that is sealed.
pub enum Part<'r> {
    /// What somebody is called.
    Name(&'r mut String),
    /// What only whom the record is about is to be known by.
    Text(&'r mut String),
}

/// A record that names somebody.
pub trait Named: Clone + Serialize + DeserializeOwned {
    /// Returns whom it is about; `None`: it names nobody.
    fn entity(&self) -> Option<String>;

    /// Returns what is sealed of it.
    fn parts(&mut self) -> Vec<Part<'_>>;
}

/// A record as it is stored. Version 1 held names as they were.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sealed<R> {
    record: R,
    #[serde(skip)]
    is_plain: bool,
}

/// Opens the records of a table as they come, and keeps those that cannot be read yet.
pub struct Opener<R> {
    keyring: Arc<Keyring>,
    waiting: Mutex<BTreeMap<String, Sealed<R>>>,
}

impl<R: Named> Record for Sealed<R> {
    const VERSION: u32 = 2;

    fn upgrade(version: u32, old: serde_json::Value) -> Option<Self> {
        let record = (version == 1).then(|| serde_json::from_value(old).ok()).flatten()?;
        Some(Self { record, is_plain: true })
    }
}

impl<R: Named> Sealed<R> {
    /// Returns what is stored of a record, once the keys it needs would survive a power cut. Blocks.
    ///
    /// # Errors
    /// A name gets no key.
    pub fn seal(record: &R, keyring: &Keyring) -> Result<Self, StoreError> {
        let mut record = record.clone();
        if let Some(entity) = record.entity() {
            for part in record.parts() {
                let (sealed, text) = match part {
                    Part::Name(name) => (keyring.bind(&entity, name), name),
                    Part::Text(text) => (keyring.wrap(&entity, text), text),
                };
                *text = sealed.ok_or_else(|| unsealed(io::Error::other("a name gets no key")))?;
            }
            keyring.flush().map_err(unsealed)?;
        }
        Ok(Self { record, is_plain: false })
    }

    /// Returns the record; what was erased of it shows as [`ERASED`](super::ERASED).
    ///
    /// # Errors
    /// Whether something of it was erased, cannot be told at the moment.
    pub fn open(self, keyring: &Keyring) -> Result<R, Unread> {
        let Self { mut record, is_plain } = self;
        if !is_plain {
            for part in record.parts() {
                match part {
                    Part::Name(name) => *name = keyring.read_shown(&keyring.read_text(name)?)?,
                    Part::Text(text) => *text = keyring.read_text(text)?,
                }
            }
        }
        Ok(record)
    }
}

impl<R: Named> Opener<R> {
    /// Returns one to which nothing has come yet.
    pub fn new(keyring: Arc<Keyring>) -> Self {
        Self { keyring, waiting: Mutex::default() }
    }

    /// Opens what became of a table. What cannot be read now is not there until it can: better that than half known, or
    /// as it was before.
    pub fn opened(&self, fresh: Vec<Fresh<String, Sealed<R>>>) -> Vec<Fresh<String, R>> {
        fresh.into_iter().map(|one| self.open(one)).collect()
    }

    /// Returns what has waited and can be read by now.
    pub fn again(&self) -> Vec<Fresh<String, R>> {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let put = |(key, record)| self.open(Fresh::Put { key, record, is_own: false });
        waiting.into_iter().map(put).filter(|fresh| matches!(fresh, Fresh::Put { .. })).collect()
    }

    fn open(&self, fresh: Fresh<String, Sealed<R>>) -> Fresh<String, R> {
        match fresh {
            Fresh::Anew => {
                self.waiting.lock().clear();
                Fresh::Anew
            }
            Fresh::Gone { key } => {
                self.waiting.lock().remove(&key);
                Fresh::Gone { key }
            }
            Fresh::Put { key, record: sealed, is_own } => match sealed.clone().open(&self.keyring) {
                Ok(record) => {
                    self.waiting.lock().remove(&key);
                    Fresh::Put { key, record, is_own }
                }
                Err(Unread) => {
                    self.waiting.lock().insert(key.clone(), sealed);
                    Fresh::Gone { key }
                }
            },
        }
    }
}

/// Adds the records of a table whose names are plain to a batch, sealed.
///
/// # Errors
/// They cannot be read, or a name gets no key.
pub fn seal_old<R: Named>(
    table: &Followed<String, Sealed<R>>,
    keyring: &Keyring,
    batch: &mut Batch,
) -> Result<(), StoreError> {
    let all = table.table().list(&KeyRange::all(), Order::Ascending, usize::MAX)?;
    all.into_iter().filter(|(_, stored)| stored.is_plain).try_for_each(|(id, stored)| {
        table.table().put_in(batch, &id, &Sealed::seal(&stored.record, keyring)?)
    })
}

/// Returns the fault of a store whose records cannot be sealed.
pub fn unsealed(source: io::Error) -> StoreError {
    StoreError::Backend { backend: BACKEND, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::keyring::ERASED;
    use crate::access::keyring::UNREAD;
    use crate::access::secret::NodeSecret;
    use crate::store::Store;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Badge {
        id: String,
        name: String,
        desk: String,
    }

    impl Named for Badge {
        fn entity(&self) -> Option<String> {
            Some(self.id.clone())
        }

        fn parts(&mut self) -> Vec<Part<'_>> {
            vec![Part::Name(&mut self.name), Part::Text(&mut self.desk)]
        }
    }

    fn badge() -> Badge {
        Badge { id: "badge-1".to_owned(), name: "Ada L.".to_owned(), desk: "by the door".to_owned() }
    }

    fn world() -> (Store, Arc<Keyring>, Followed<String, Sealed<Badge>>) {
        let store = Store::in_memory();
        let keyring = Keyring::shared(&store, NodeSecret::random()).unwrap();
        (store.clone(), Arc::new(keyring), Followed::new(store.table("badges")))
    }

    fn written(store: &Store) -> String {
        String::from_utf8(store.get("badges", b"badge-1").unwrap().unwrap()).unwrap()
    }

    #[test]
    fn a_name_is_read_until_its_key_or_that_of_whom_the_record_is_about_is_gone() {
        for (erased, name, desk) in [
            ("nobody", "Ada L.", "by the door"),
            ("Ada L.", ERASED, "by the door"),
            ("badge-1", ERASED, ERASED),
        ] {
            let (store, keyring, badges) = world();
            let sealed = Sealed::seal(&badge(), &keyring).unwrap();
            badges.table().put(&"badge-1".to_owned(), &sealed).unwrap();
            let written = written(&store);
            assert!(
                written.contains("badge-1") && !written.contains("Ada L.") && !written.contains("the door")
            );
            keyring.destroy(erased).unwrap();
            let read = badges.table().get(&"badge-1".to_owned()).unwrap().unwrap().open(&keyring).unwrap();
            assert_eq!((read.name.as_str(), read.desk.as_str()), (name, desk), "{erased}");
        }
    }

    #[test]
    fn a_record_of_the_first_version_is_read_and_sealed() {
        let (store, keyring, badges) = world();
        let old = br#"{"v":1,"record":{"id":"badge-1","name":"Ada L.","desk":"by the door"}}"#;
        let mut batch = Batch::default();
        batch.put("badges", b"badge-1".to_vec(), old.to_vec());
        store.commit(&batch).unwrap();
        let mut shown = Vec::new();
        badges.change(|fresh| shown.extend(fresh), |batch| seal_old(&badges, &keyring, batch)).unwrap();
        // As it was, then as it is.
        assert_eq!(shown.len(), 3, "{shown:?}");
        let now = written(&store);
        assert!(now.starts_with(r#"{"v":2,"#) && !now.contains("Ada L."), "{now}");
        let read = badges.table().get(&"badge-1".to_owned()).unwrap().unwrap();
        assert_eq!(read.open(&keyring), Ok(badge()));
    }

    #[test]
    fn what_cannot_be_read_yet_is_not_taken_for_erased() {
        let (store, secret) = (Store::in_memory(), NodeSecret::random());
        let ring = || Arc::new(Keyring::shared(&store, secret.clone()).unwrap());
        let (writer, reader) = (ring(), ring());
        let opener = Opener::new(Arc::clone(&reader));
        let damage = |value: Option<&str>| {
            let mut batch = Batch::default();
            match value {
                Some(value) => batch.put("subject_keys", vec![7; 8], value.as_bytes().to_vec()),
                None => batch.delete("subject_keys", vec![7; 8]),
            }
            store.commit(&batch).unwrap();
        };
        let (sealed, token) = (Sealed::seal(&badge(), &writer).unwrap(), writer.seal("Ada L."));
        let put = || Fresh::Put { key: "badge-1".to_owned(), record: sealed.clone(), is_own: false };
        let gone = Fresh::Gone { key: "badge-1".to_owned() };
        // The keys cannot be asked for.
        damage(Some(r#"{"v":99,"record":{}}"#));
        assert_eq!(opener.opened(vec![put()]), std::slice::from_ref(&gone));
        assert_eq!((opener.again(), reader.shown(&token)), (vec![], UNREAD.to_owned()));
        damage(None);
        let known = Fresh::Put { key: "badge-1".to_owned(), record: badge(), is_own: false };
        assert_eq!((opener.again(), opener.again()), (vec![known], vec![]));
        assert_eq!(reader.shown(&token), "Ada L.");
        // What is gone by then does not come back.
        writer.seal("somebody new");
        let later = Sealed::seal(&Badge { name: "eve".to_owned(), ..badge() }, &writer).unwrap();
        damage(Some(r#"{"v":99,"record":{}}"#));
        let put = Fresh::Put { key: "badge-1".to_owned(), record: later, is_own: false };
        let leaves = Fresh::Gone { key: "badge-1".to_owned() };
        assert_eq!(opener.opened(vec![put, leaves]), [gone.clone(), gone]);
        damage(None);
        assert_eq!(opener.again(), []);
        writer.destroy("Ada L.").unwrap();
        reader.follow().unwrap();
        assert_eq!((reader.shown(&token), reader.read_name(&token)), (ERASED.to_owned(), Ok(None)));
    }
}
