use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use super::*;
use crate::store::faulty::Faulty;

/// Returns a store that takes nothing as long as its disk is full.
fn store(is_full: &Arc<AtomicBool>) -> Store {
    let is_full = Arc::clone(is_full);
    let write = move |store: &Store, batch: &Batch| match is_full.load(Ordering::Relaxed) {
        true => Err(StoreError::NotDurable),
        false => store.commit(batch),
    };
    Store::new(Faulty { store: Store::in_memory(), read: || Ok(()), write, is_shared: false })
}

/// Live streams go on where they were.
fn check_streams(journal: &Journal, index: &Index, sound: &Index) {
    let whole = sound.query(&Query { limit: 300, ..Query::default() }).unwrap();
    for entry in &whole.entries {
        let next = |index: &Index| {
            let log = journal.log();
            let mut reader = log.reader(index.position_after(entry.id).unwrap());
            reader.next().unwrap().map(|(at, _)| at)
        };
        assert_eq!(next(index), next(sound), "{}", entry.event.message);
    }
}

#[test]
fn what_was_taken_in_is_answered_while_the_store_takes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _, sound) = filled(folder.path(), 300);
    let is_full = Arc::new(AtomicBool::new(true));
    let index = Index::open(store(&is_full), journal.log()).unwrap();
    let page = index.query(&Query::default()).unwrap();
    let found = numbers(&page);
    assert!(!page.is_complete && !found.is_empty() && found.len() < 300, "{found:?}");
    assert!(matches!(index.ensure_current(), Err(QueryError::Behind)));
    check_streams(&journal, &index, &sound);
    is_full.store(false, Ordering::Relaxed);
    check(&index, Query { limit: 300, ..Query::default() }, |_| true, 300);
    assert!(index.query(&Query::default()).unwrap().is_complete);
}

#[test]
fn an_answer_is_whole_where_all_was_taken_in_before_the_store_took_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _, _) = filled(folder.path(), 10);
    let index = opened(&store(&Arc::new(AtomicBool::new(true))), &journal, 10);
    let page = index.query(&Query::default()).unwrap();
    assert_eq!((page.total, page.is_complete), (10, true));
    index.ensure_current().unwrap();
}

/// A store that failed to write may fail to read, too.
#[test]
fn what_grows_is_answered_while_the_store_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _, sound) = filled(folder.path(), 300);
    let is_away = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_away);
    let read = move || match asked.load(Ordering::Relaxed) {
        true => Err(StoreError::Away { backend: "faulty" }),
        false => Ok(()),
    };
    let write = |store: &Store, batch: &Batch| store.commit(batch);
    let store = Store::new(Faulty { store: Store::in_memory(), read, write, is_shared: false });
    let index = Index::open(store, journal.log()).unwrap();
    check(&index, Query { limit: 300, ..Query::default() }, |_| true, 300);
    is_away.store(true, Ordering::Relaxed);
    let page = index.query(&Query { limit: 300, ..Query::default() }).unwrap();
    let found = numbers(&page);
    assert!(!page.is_complete && found.len() < 300 && found.first() == Some(&299), "{found:?}");
    check_streams(&journal, &index, &sound);
    is_away.store(false, Ordering::Relaxed);
    check(&index, Query { limit: 300, ..Query::default() }, |_| true, 300);
}
