//! What a compiled database is known by, so that it is compiled once and read ever after.
//!
//! Compiling all packs takes Hyperscan more than a second of CPU, reading what came of it a few milliseconds.

use hyperscan::BlockDatabase;
use hyperscan::Builder;
use hyperscan::Pattern;
use hyperscan::Patterns;
use hyperscan::Serialized;
use sha2::Digest;
use sha2::Sha256;

/// The fewest patterns of a database that is worth a file.
const CACHED_PATTERNS_MIN: usize = 200;

/// What a database was compiled from: its patterns, the library and the instructions of the processor, hashed.
pub type DatabaseKey = [u8; 32];

/// Keeps compiled databases.
///
/// Hyperscan believes what a database says, down to offsets in memory: an implementation returns only what it was
/// given, whole, and nobody else could have written. What it cannot keep is compiled again next time.
pub trait DatabaseCache: Sync {
    /// Returns the database of a key.
    fn get(&self, key: &DatabaseKey) -> Option<Vec<u8>>;

    /// Keeps the database of a key.
    fn put(&self, key: &DatabaseKey, database: &[u8]);
}

/// Keeps nothing.
pub struct NoCache;

impl DatabaseCache for NoCache {
    fn get(&self, _: &DatabaseKey) -> Option<Vec<u8>> {
        None
    }

    fn put(&self, _: &DatabaseKey, _: &[u8]) {}
}

/// Returns the database of some patterns from the cache, or compiles and keeps it.
///
/// # Errors
/// The patterns do not compile.
pub(super) fn cached(
    patterns: &Patterns,
    cache: &dyn DatabaseCache,
) -> Result<BlockDatabase, hyperscan::Error> {
    if patterns.len() < CACHED_PATTERNS_MIN {
        return patterns.build();
    }
    let key = key_of(patterns)?;
    if let Some(database) = cache.get(&key).and_then(|kept| kept.deserialize().ok()) {
        return Ok(database);
    }
    let database: BlockDatabase = patterns.build()?;
    if let Ok(bytes) = database.serialize() {
        cache.put(&key, &bytes);
    }
    Ok(database)
}

fn key_of(patterns: &Patterns) -> Result<DatabaseKey, hyperscan::Error> {
    // What any database says of itself: the library's version, and the instructions it was compiled for.
    let smallest: BlockDatabase = Pattern::new("a")?.build()?;
    let mut hash = Sha256::new();
    hash.update(smallest.info()?);
    for Pattern { expression, id, flags, .. } in patterns.iter() {
        let id = id.map_or(u64::MAX, |id| id as u64);
        for part in [id, u64::from(flags.bits()), expression.len() as u64] {
            hash.update(part.to_le_bytes());
        }
        hash.update(expression);
    }
    Ok(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use parking_lot::Mutex;

    use super::*;
    use crate::scan::engine::Engine;
    use crate::scan::engine::Run;
    use crate::scan::shape::Shape;
    use crate::scan::shape::Start;

    /// Keeps in memory, and counts what was asked in vain.
    #[derive(Default)]
    struct Memory {
        kept: Mutex<BTreeMap<DatabaseKey, Vec<u8>>>,
        missed: Mutex<usize>,
    }

    impl DatabaseCache for Memory {
        fn get(&self, key: &DatabaseKey) -> Option<Vec<u8>> {
            let found = self.kept.lock().get(key).cloned();
            *self.missed.lock() += usize::from(found.is_none());
            found
        }

        fn put(&self, key: &DatabaseKey, database: &[u8]) {
            self.kept.lock().insert(*key, database.to_vec());
        }
    }

    fn shapes(word: &str) -> Vec<Shape> {
        let expression = |at: usize| format!("{word}{at:03}");
        let known = |expression: String| {
            let back = expression.len();
            Shape { expression, start: Start::Known { back }, lead: None }
        };
        (0..CACHED_PATTERNS_MIN).map(expression).map(known).collect()
    }

    fn found(engine: &Engine, text: &str) -> Vec<Run> {
        engine.scan(text.as_bytes(), 0..text.len(), |_| true, <[Run]>::to_vec).unwrap()
    }

    #[test]
    fn what_was_compiled_once_is_read_and_finds_the_same() {
        let cache = Memory::default();
        let compiled = Engine::compile_cached(&shapes("key"), &cache).unwrap();
        let read = Engine::compile_cached(&shapes("key"), &cache).unwrap();
        assert_eq!((*cache.missed.lock(), cache.kept.lock().len()), (1, 1));
        let text = "key007 and key199 but not key200";
        assert_eq!(found(&compiled, text).len(), 2);
        assert_eq!(found(&compiled, text), found(&read, text));
    }

    #[test]
    fn other_patterns_are_another_database() {
        let cache = Memory::default();
        for word in ["key", "sey"] {
            let engine = Engine::compile_cached(&shapes(word), &cache).unwrap();
            assert_eq!(found(&engine, &format!("{word}007")).len(), 1);
        }
        assert_eq!((*cache.missed.lock(), cache.kept.lock().len()), (2, 2));
    }

    #[test]
    fn what_is_no_database_is_compiled_anew() {
        let cache = Memory::default();
        let whole = RefCell::new(Vec::new());
        Engine::compile_cached(&shapes("key"), &cache).unwrap();
        cache.kept.lock().values().for_each(|kept| *whole.borrow_mut() = kept.clone());
        for cut in [0, 1, 100, whole.borrow().len() - 1] {
            cache.kept.lock().values_mut().for_each(|kept| kept.truncate(cut));
            let engine = Engine::compile_cached(&shapes("key"), &cache).unwrap();
            assert_eq!(found(&engine, "key007").len(), 1);
            assert!(cache.kept.lock().values().all(|kept| *kept == *whole.borrow()), "kept again");
        }
    }

    #[test]
    fn few_patterns_are_not_kept() {
        let cache = Memory::default();
        Engine::compile_cached(&shapes("key")[..20], &cache).unwrap();
        assert_eq!((*cache.missed.lock(), cache.kept.lock().len()), (0, 0));
    }
}
