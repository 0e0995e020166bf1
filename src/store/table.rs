//! Typed records under typed keys, each with the version it was written in.

use std::marker::PhantomData;
use std::ops::ControlFlow;

use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::Batch;
use super::Changes;
use super::Key;
use super::KeyRange;
use super::Order;
use super::Store;
use super::StoreError;

/// A stored form. It is written as `{"v": VERSION, "record": …}`.
pub trait Record: Serialize + DeserializeOwned {
    /// The version this program writes.
    const VERSION: u32;

    /// Returns an older record in today's form, or `None` when it cannot be read any more.
    fn upgrade(_version: u32, _old: serde_json::Value) -> Option<Self> {
        None
    }
}

/// One table of a [`Store`].
pub struct Table<K, V> {
    store: Store,
    name: &'static str,
    types: PhantomData<fn() -> (K, V)>,
}

/// What became of a table since one of its versions.
#[derive(Debug)]
pub struct TableChanges<K, V> {
    /// Keys and their records; `None`: they were deleted.
    pub entries: Vec<(K, Option<V>)>,
    /// The version that the table is at with them.
    pub version: u64,
    /// The stamp of that version.
    pub stamp: i64,
    /// Whether the entries are the whole table.
    pub is_whole: bool,
}

#[derive(Serialize)]
struct Written<'a, V> {
    v: u32,
    record: &'a V,
}

#[derive(Deserialize)]
struct Read<'a> {
    v: u32,
    #[serde(borrow)]
    record: &'a RawValue,
}

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), name: self.name, types: PhantomData }
    }
}

impl<K: Key, V: Record> Table<K, V> {
    pub(super) fn new(store: Store, name: &'static str) -> Self {
        Self { store, name, types: PhantomData }
    }

    /// Returns the store the table is in.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the record under a key.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn get(&self, key: &K) -> Result<Option<V>, StoreError> {
        let bytes = self.store.get(self.name, &key.to_bytes())?;
        bytes.map(|bytes| self.decode(&bytes)).transpose()
    }

    /// Puts a record under a key.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&self, key: &K, record: &V) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        self.put_in(&mut batch, key, record)?;
        self.store.commit(&batch)
    }

    /// Puts a record under a key and comes back once it would survive a power cut.
    ///
    /// # Errors
    /// When that cannot be promised.
    pub fn put_durable(&self, key: &K, record: &V) -> Result<(), StoreError> {
        self.put(key, record)?;
        self.store.durable()
    }

    /// Removes the record under a key, if there is one.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn delete(&self, key: &K) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        self.delete_in(&mut batch, key);
        self.store.commit(&batch)
    }

    /// Adds a record to a batch that may span tables.
    ///
    /// # Errors
    /// When the record has no stored form.
    pub fn put_in(&self, batch: &mut Batch, key: &K, record: &V) -> Result<(), StoreError> {
        let written = Written { v: V::VERSION, record };
        let bytes = serde_json::to_vec(&written)
            .map_err(|source| StoreError::UnwritableRecord { table: self.name, source })?;
        batch.put(self.name, key.to_bytes(), bytes);
        Ok(())
    }

    /// Adds a removal to a batch that may span tables.
    pub fn delete_in(&self, batch: &mut Batch, key: &K) {
        batch.delete(self.name, key.to_bytes());
    }

    /// Returns the table's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns what became of the table since one of its versions; 0 asks for all of it.
    ///
    /// # Errors
    /// When a record cannot be read.
    pub fn changes(&self, after: u64) -> Result<TableChanges<K, V>, StoreError> {
        let changes = self.store.changes(self.name, after)?;
        let entries = changes.entries.iter().map(|(key, value)| self.read(key, value.as_deref()));
        let entries = entries.collect::<Result<_, _>>()?;
        let Changes { version, stamp, is_whole, .. } = changes;
        Ok(TableChanges { entries, version, stamp, is_whole })
    }

    /// Returns an entry as it was stored, read.
    pub(super) fn read(&self, key: &[u8], value: Option<&[u8]>) -> Result<(K, Option<V>), StoreError> {
        let unreadable = StoreError::UnreadableRecord { table: self.name, version: 0 };
        let key = K::from_bytes(key).ok_or(unreadable)?;
        Ok((key, value.map(|value| self.decode(value)).transpose()?))
    }

    /// Returns up to `limit` records of a range, in order.
    ///
    /// # Errors
    /// When a record cannot be read.
    pub fn list(&self, range: &KeyRange, order: Order, limit: usize) -> Result<Vec<(K, V)>, StoreError> {
        let mut found = Vec::new();
        let mut fault = None;
        self.store.scan(self.name, range, order, &mut |key, bytes| {
            if found.len() >= limit {
                return ControlFlow::Break(());
            }
            let entry = K::from_bytes(key)
                .ok_or(StoreError::UnreadableRecord { table: self.name, version: 0 })
                .and_then(|key| Ok((key, self.decode(bytes)?)));
            match entry {
                Ok(entry) => found.push(entry),
                Err(error) => fault = Some(error),
            }
            if fault.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        fault.map_or(Ok(found), Err)
    }

    fn decode(&self, bytes: &[u8]) -> Result<V, StoreError> {
        let unreadable = |version| StoreError::UnreadableRecord { table: self.name, version };
        let read: Read<'_> = serde_json::from_slice(bytes).map_err(|_| unreadable(0))?;
        if read.v == V::VERSION {
            return serde_json::from_str(read.record.get()).map_err(|_| unreadable(read.v));
        }
        let old = serde_json::from_str(read.record.get()).map_err(|_| unreadable(read.v))?;
        V::upgrade(read.v, old).ok_or(unreadable(read.v))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Sample {
        name: String,
        count: u64,
    }

    impl Record for Sample {
        const VERSION: u32 = 2;

        fn upgrade(version: u32, old: Value) -> Option<Self> {
            let name = old.get("title")?.as_str()?.to_owned();
            (version == 1).then_some(Self { name, count: 0 })
        }
    }

    fn table() -> (Store, Table<String, Sample>) {
        let store = Store::in_memory();
        (store.clone(), store.table("sample"))
    }

    #[test]
    fn old_records_are_read_and_new_ones_refused() {
        let (store, table) = table();
        let mut batch = Batch::default();
        batch.put("sample", b"one".to_vec(), br#"{"v":1,"record":{"title":"old"}}"#.to_vec());
        batch.put("sample", b"two".to_vec(), br#"{"v":2,"record":{"name":"new","count":3}}"#.to_vec());
        batch.put("sample", b"three".to_vec(), br#"{"v":3,"record":{"name":"newer"}}"#.to_vec());
        batch.put("sample", b"four".to_vec(), b"\xff".to_vec());
        store.commit(&batch).unwrap();
        let read = |key: &str| table.get(&key.to_owned());
        assert_eq!(read("one").unwrap(), Some(Sample { name: "old".into(), count: 0 }));
        assert_eq!(read("two").unwrap(), Some(Sample { name: "new".into(), count: 3 }));
        assert!(matches!(read("three"), Err(StoreError::UnreadableRecord { version: 3, .. })));
        assert!(matches!(read("four"), Err(StoreError::UnreadableRecord { version: 0, .. })));
        assert!(table.list(&KeyRange::all(), Order::Ascending, 9).is_err());
    }
}
