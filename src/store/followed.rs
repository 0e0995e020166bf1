//! A table that its owner keeps in memory, and that other nodes write to, too.
//!
//! The owner tells how a change is taken over; this tells what changed. What the owner decides by what it holds is
//! written only if nobody else was faster, and decided anew otherwise ([`Followed::change`]). One change is made,
//! or taken over, at a time, so that memory never goes back to what was; what changed together is shown together,
//! to be taken over under one lock, so that nobody sees a table that is read anew while it is half there.
//!
//! A database may lose what it had confirmed: by a failover to a standby that lagged behind, by a restored backup. Where a
//! table is at a mark that what is known cannot have led to, all of it is read anew.

use parking_lot::Mutex;

use super::Batch;
use super::Key;
use super::Mark;
use super::Record;
use super::StoreError;
use super::Table;
use super::TableChanges;

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
    /// Where memory is; `None`: nothing was read yet.
    at: Mutex<Option<At>>,
}

/// Where memory is.
#[derive(Clone, Copy)]
struct At {
    mark: Mark,
    /// How often the store had lost something by then.
    losses: u64,
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
            batch.expect(self.table.name(), version_of(*at));
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
        batch.expect(self.table.name(), version_of(*at));
        Ok(())
    }

    fn read(&self, at: &mut Option<At>, apply: &mut impl FnMut(Vec<Fresh<K, V>>)) -> Result<(), StoreError> {
        if at.is_some() && !self.table.store().is_shared() {
            return Ok(());
        }
        let losses = self.table.store().losses();
        let before = at.filter(|at| at.losses == losses);
        let mut changes = self.table.changes(version_of(before))?;
        let now = |changes: &TableChanges<K, V>| Mark { version: changes.version, stamp: changes.stamp };
        if !changes.is_whole && before.is_some_and(|at| at.mark.is_lost_at(now(&changes))) {
            changes = self.table.changes(0)?;
        }
        let mark = now(&changes);
        let begin = changes.is_whole.then_some(Fresh::Anew);
        let entries = changes.entries.into_iter().map(|(key, record)| fresh(key, record, false));
        let shown: Vec<_> = begin.into_iter().chain(entries).collect();
        if !shown.is_empty() {
            apply(shown);
        }
        *at = Some(At { mark, losses });
        Ok(())
    }

    fn show_own(
        &self,
        batch: &Batch,
        at: &mut Option<At>,
        apply: &mut impl FnMut(Vec<Fresh<K, V>>),
    ) -> Result<(), StoreError> {
        let own = batch.changes().iter().filter(|change| change.table == self.table.name());
        let read = own.map(|change| self.table.read(&change.key, change.value.as_deref()));
        let shown = read.map(|entry| entry.map(|(key, record)| fresh(key, record, true)));
        let shown = shown.collect::<Result<Vec<_>, StoreError>>()?;
        if !shown.is_empty() {
            let mark = |at: At| Mark { version: at.mark.version + 1, stamp: batch.stamp() };
            *at = at.map(|at| At { mark: mark(at), ..at });
            apply(shown);
        }
        Ok(())
    }
}

/// Returns the version that memory is at; 0: nothing was read yet.
fn version_of(at: Option<At>) -> u64 {
    at.map_or(0, |at| at.mark.version)
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
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering;

    use serde::Deserialize;
    use serde::Serialize;
    use tokio::sync::watch;

    use super::*;
    use crate::store::Backend;
    use crate::store::Changes;
    use crate::store::KeyRange;
    use crate::store::Order;
    use crate::store::Store;
    use crate::store::Visit;
    use crate::store::archive::Archive;

    /// Stores, each of which may be in the place of the other.
    struct Replaced {
        stores: [Store; 2],
        place: Arc<AtomicUsize>,
    }

    impl Replaced {
        fn now(&self) -> &Store {
            &self.stores[self.place.load(Ordering::SeqCst)]
        }
    }

    impl Backend for Replaced {
        fn name(&self) -> &'static str {
            "replaced"
        }

        fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            self.now().get(table, key)
        }

        fn apply(&self, batch: &Batch) -> Result<(), StoreError> {
            self.now().commit(batch)
        }

        fn scan(
            &self,
            table: &str,
            range: &KeyRange,
            order: Order,
            visit: &mut Visit<'_>,
        ) -> Result<(), StoreError> {
            self.now().scan(table, range, order, visit)
        }

        fn durable(&self) -> Result<(), StoreError> {
            self.now().durable()
        }

        fn size_bytes(&self) -> Result<u64, StoreError> {
            self.now().size_bytes()
        }

        fn is_shared(&self) -> bool {
            true
        }

        fn versions(&self) -> Result<BTreeMap<String, u64>, StoreError> {
            self.now().versions()
        }

        fn marks(&self) -> Result<BTreeMap<String, Mark>, StoreError> {
            self.now().marks()
        }

        fn changes(&self, table: &str, after: u64) -> Result<Changes, StoreError> {
            self.now().changes(table, after)
        }

        fn told(&self) -> Option<watch::Receiver<u64>> {
            None
        }

        fn archive(&self) -> Option<Archive> {
            None
        }

        fn forget_deletions(&self) -> Result<(), StoreError> {
            self.now().forget_deletions()
        }
    }

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

    /// Writes a value on one store as often as it says, and returns the store.
    fn with(counts: &[u64]) -> Store {
        let store = Store::in_memory();
        let table = store.table::<String, Count>("t");
        counts.iter().for_each(|count| table.put(&"k".to_owned(), &Count(*count)).unwrap());
        store
    }

    /// A store in whose place another one comes.
    fn replaced(stores: [Store; 2]) -> (Store, Arc<AtomicUsize>) {
        let place = Arc::new(AtomicUsize::new(0));
        (Store::new(Replaced { stores, place: Arc::clone(&place) }), place)
    }

    #[test]
    fn what_a_database_lost_is_known_no_more() {
        for (after, lasting) in [
            // The last commit is gone; another one is in its place; others are, too, and that was found by another table.
            (vec![1], 1),
            (vec![1, 7], 7),
            (vec![1, 7, 8], 8),
        ] {
            let (store, place) = replaced([with(&[1, 2]), with(&after)]);
            let node = Node::of(&store);
            node.followed.catch_up(|fresh| node.apply(fresh)).unwrap();
            assert_eq!(node.held.lock()["k"], 2);
            place.store(1, Ordering::SeqCst);
            if after.len() > 2 {
                store.note_loss();
            }
            let mut begins = Vec::new();
            let mut apply = |fresh: Vec<_>| {
                begins.push(fresh.first() == Some(&Fresh::Anew));
                node.apply(fresh);
            };
            node.followed.catch_up(&mut apply).unwrap();
            node.followed.catch_up(&mut apply).unwrap();
            assert_eq!((node.held.lock()["k"], begins), (lasting, vec![true]));
            // What is decided now is decided by what there is.
            node.add();
            assert_eq!(
                store.table::<String, Count>("t").get(&"k".to_owned()).unwrap(),
                Some(Count(lasting + 1))
            );
        }
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
