//! A table that its owner keeps in memory, and that other nodes write to, too.
//!
//! The owner tells how a change is taken over; this tells what changed. What the owner decides by what it holds is
//! written only if nobody else was faster, and decided anew otherwise ([`Followed::change`]). One change is made,
//! or taken over, at a time, so that memory never goes back to what was; what changed together is shown together,
//! to be taken over under one lock, so that nobody sees a table that is read anew while it is half there.

use parking_lot::Mutex;

use super::Batch;
use super::Key;
use super::Record;
use super::StoreError;
use super::Table;

/// How often a change is decided anew before it is given up.
const TRIES_MAX: usize = 50;

/// Something that became of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Fresh<K, V> {
    /// What was known does not count: all there is follows.
    Anew,
    /// A record is there, or another one in its place.
    Put {
        /// Its key.
        key: K,
        /// The record.
        record: V,
        /// Whether this process wrote it just now.
        is_own: bool,
    },
    /// There is no such record any more.
    Gone {
        /// Its key.
        key: K,
    },
}

/// A table, and up to where its owner knows it.
pub struct Followed<K, V> {
    table: Table<K, V>,
    /// The version that memory is at; `None`: nothing was read yet.
    at: Mutex<Option<u64>>,
}

impl<K: Key, V: Record> Followed<K, V> {
    /// Returns a table of which nothing is known yet.
    pub fn new(table: Table<K, V>) -> Self {
        Self { table, at: Mutex::new(None) }
    }

    /// Returns the table itself.
    pub fn table(&self) -> &Table<K, V> {
        &self.table
    }

    /// Shows everything that is not known yet. Blocks.
    ///
    /// # Errors
    /// When it cannot be read; what was shown until then stays known.
    pub fn catch_up(&self, mut apply: impl FnMut(Vec<Fresh<K, V>>)) -> Result<(), StoreError> {
        self.read(&mut self.at.lock(), &mut apply)
    }

    /// Does something while nothing is made of the table, and nothing taken over.
    pub fn between<T>(&self, act: impl FnOnce() -> T) -> T {
        let _at = self.at.lock();
        act()
    }

    /// Does what [`Followed::change`] does, but for the wait until it would survive a power cut.
    ///
    /// # Errors
    /// As [`Followed::change`].
    pub fn note<T, E: From<StoreError>>(
        &self,
        apply: impl FnMut(Vec<Fresh<K, V>>),
        decide: impl FnMut(&mut Batch) -> Result<T, E>,
    ) -> Result<T, E> {
        self.write(apply, decide)
    }

    /// Writes durably what `decide` puts into a batch, once all that others wrote was shown to `apply`; decides anew
    /// where others were faster. What was written is shown, too. An empty batch is not written. Blocks.
    ///
    /// # Errors
    /// What `decide` says, and when the store fails; then nothing was written.
    pub fn change<T, E: From<StoreError>>(
        &self,
        apply: impl FnMut(Vec<Fresh<K, V>>),
        decide: impl FnMut(&mut Batch) -> Result<T, E>,
    ) -> Result<T, E> {
        let changed = self.write(apply, decide)?;
        self.table.store().durable()?;
        Ok(changed)
    }

    fn write<T, E: From<StoreError>>(
        &self,
        mut apply: impl FnMut(Vec<Fresh<K, V>>),
        mut decide: impl FnMut(&mut Batch) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut at = self.at.lock();
        for _ in 0..TRIES_MAX {
            self.read(&mut at, &mut apply)?;
            let mut batch = Batch::default();
            let decided = decide(&mut batch)?;
            if batch.is_empty() {
                return Ok(decided);
            }
            batch.expect(self.table.name(), at.unwrap_or_default());
            match self.table.store().commit(&batch) {
                Ok(()) => {
                    self.show_own(&batch, &mut at, &mut apply)?;
                    return Ok(decided);
                }
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(StoreError::Conflict.into())
    }

    /// Shows everything that is not known yet, and lets a batch of another table be written only as long as nobody
    /// writes to this one. Blocks.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn expect_in(
        &self,
        batch: &mut Batch,
        mut apply: impl FnMut(Vec<Fresh<K, V>>),
    ) -> Result<(), StoreError> {
        let mut at = self.at.lock();
        self.read(&mut at, &mut apply)?;
        batch.expect(self.table.name(), at.unwrap_or_default());
        Ok(())
    }

    fn read(&self, at: &mut Option<u64>, apply: &mut impl FnMut(Vec<Fresh<K, V>>)) -> Result<(), StoreError> {
        if at.is_some() && !self.table.store().is_shared() {
            return Ok(());
        }
        let changes = self.table.changes(at.unwrap_or(0))?;
        let begin = changes.is_whole.then_some(Fresh::Anew);
        let entries = changes.entries.into_iter().map(|(key, record)| fresh(key, record, false));
        let shown: Vec<_> = begin.into_iter().chain(entries).collect();
        if !shown.is_empty() {
            apply(shown);
        }
        *at = Some(changes.version);
        Ok(())
    }

    fn show_own(
        &self,
        batch: &Batch,
        at: &mut Option<u64>,
        apply: &mut impl FnMut(Vec<Fresh<K, V>>),
    ) -> Result<(), StoreError> {
        let own = batch.changes().iter().filter(|change| change.table == self.table.name());
        let read = own.map(|change| self.table.read(&change.key, change.value.as_deref()));
        let shown = read.map(|entry| entry.map(|(key, record)| fresh(key, record, true)));
        let shown = shown.collect::<Result<Vec<_>, StoreError>>()?;
        if !shown.is_empty() {
            *at = at.map(|version| version + 1);
            apply(shown);
        }
        Ok(())
    }
}

fn fresh<K, V>(key: K, record: Option<V>, is_own: bool) -> Fresh<K, V> {
    match record {
        Some(record) => Fresh::Put { key, record, is_own },
        None => Fresh::Gone { key },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde::Serialize;

    use super::*;
    use crate::store::Store;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Count(u64);

    impl Record for Count {
        const VERSION: u32 = 1;
    }

    /// A node: what it holds follows what it was shown.
    struct Node {
        followed: Followed<String, Count>,
        held: Mutex<BTreeMap<String, u64>>,
    }

    impl Node {
        fn of(store: &Store) -> Self {
            Self { followed: Followed::new(store.table("t")), held: Mutex::default() }
        }

        fn apply(&self, fresh: Vec<Fresh<String, Count>>) {
            let mut held = self.held.lock();
            for one in fresh {
                match one {
                    Fresh::Anew => held.clear(),
                    Fresh::Put { key, record, .. } => {
                        held.insert(key, record.0);
                    }
                    Fresh::Gone { key } => {
                        held.remove(&key);
                    }
                }
            }
        }

        fn add(&self) {
            let changed: Result<(), StoreError> = self.followed.change(
                |fresh| self.apply(fresh),
                |batch| {
                    let next = self.held.lock().get("k").copied().unwrap_or(0) + 1;
                    self.followed.table().put_in(batch, &"k".to_owned(), &Count(next))
                },
            );
            changed.unwrap();
        }
    }

    #[test]
    fn nodes_decide_by_what_all_of_them_wrote() {
        let store = Store::in_memory();
        let nodes: Vec<Node> = (0..3).map(|_| Node::of(&store)).collect();
        std::thread::scope(|scope| {
            for node in &nodes {
                scope.spawn(|| (0..20).for_each(|_| node.add()));
            }
        });
        nodes.iter().for_each(|node| node.followed.catch_up(|fresh| node.apply(fresh)).unwrap());
        assert!(nodes.iter().all(|node| node.held.lock()["k"] == 60));
    }

    #[test]
    fn a_table_of_one_owner_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = crate::store::open_sled(folder.path()).unwrap();
        let node = Node::of(&store);
        node.add();
        node.add();
        assert_eq!(node.held.lock()["k"], 2);
        let again = Node::of(&store);
        again.followed.catch_up(|fresh| again.apply(fresh)).unwrap();
        assert_eq!(again.held.lock()["k"], 2);
    }

    #[test]
    fn a_table_that_is_read_anew_is_shown_in_one_piece() {
        let store = Store::in_memory();
        let [one, other] = [Node::of(&store), Node::of(&store)];
        one.add();
        other.followed.catch_up(|fresh| other.apply(fresh)).unwrap();
        // More deletions than a backend remembers.
        let table = one.followed.table();
        for number in 0..5000 {
            let key = number.to_string();
            table.put(&key, &Count(1)).unwrap();
            table.delete(&key).unwrap();
        }
        let mut shown = Vec::new();
        other.followed.catch_up(|fresh| shown.push(fresh)).unwrap();
        let put = Fresh::Put { key: "k".to_owned(), record: Count(1), is_own: false };
        assert_eq!(shown, [vec![Fresh::Anew, put]]);
        other.followed.catch_up(|_| panic!("nothing is new")).unwrap();
    }

    #[test]
    fn what_is_deleted_goes_everywhere() {
        let store = Store::in_memory();
        let [one, other] = [Node::of(&store), Node::of(&store)];
        one.add();
        other.followed.catch_up(|fresh| other.apply(fresh)).unwrap();
        let gone: Result<(), StoreError> = one.followed.change(
            |fresh| one.apply(fresh),
            |batch| {
                one.followed.table().delete_in(batch, &"k".to_owned());
                Ok(())
            },
        );
        gone.unwrap();
        other.followed.catch_up(|fresh| other.apply(fresh)).unwrap();
        assert!(one.held.lock().is_empty() && other.held.lock().is_empty());
    }
}
