//! The request ids that somebody fed something back for, of each test: kept on the disk, and where nodes share a
//! store by all of them together, so that none counts again after a restart or at another node.

use serde::Deserialize;
use serde::Serialize;
use sha2::Digest;
use sha2::Sha256;

use crate::store::Batch;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;

/// How many ids of a test are kept by each node; whatever comes past that is known by the ids of the last requests
/// alone, and not compared.
pub const REPORTED_MAX: u64 = 1_000_000;
/// How much of a hash tells ids apart, in bytes.
const PRINT_BYTES: usize = 16;
/// How many ids are forgotten with one batch.
const BATCH_KEYS: usize = 2000;

/// All ids.
pub(super) struct ReportedIds(Table<String, Kept>);

/// That something was fed back.
#[derive(Serialize, Deserialize)]
struct Kept {}

impl Record for Kept {
    const VERSION: u32 = 1;
}

impl ReportedIds {
    pub(super) fn new(store: &Store) -> Self {
        Self(store.table("abtest_reported"))
    }

    /// Tells whether something was fed back for a request before. Blocks.
    pub(super) fn has(&self, test: &str, request_id: &str) -> Result<bool, StoreError> {
        Ok(self.0.get(&key(test, request_id))?.is_some())
    }

    /// Notes that something was fed back for a request; it is on the disk when this returns.
    pub(super) fn note(&self, test: &str, request_id: &str) -> Result<(), StoreError> {
        self.0.put_durable(&key(test, request_id), &Kept {})
    }

    /// Forgets all ids of a test.
    pub(super) fn forget(&self, test: &str) -> Result<(), StoreError> {
        let range = KeyRange::prefix(prefix(test).as_bytes());
        loop {
            let mut batch = Batch::default();
            for (key, _) in self.0.list(&range, Order::Ascending, BATCH_KEYS)? {
                self.0.delete_in(&mut batch, &key);
            }
            if batch.is_empty() {
                return Ok(());
            }
            self.0.store().commit(&batch)?;
        }
    }
}

fn prefix(test: &str) -> String {
    format!("{test}/")
}

/// Returns the key of a request: its id is hashed, since callers may have chosen it.
fn key(test: &str, request_id: &str) -> String {
    let hash = Sha256::digest(request_id.as_bytes());
    let print = hash.iter().take(PRINT_BYTES).map(|byte| format!("{byte:02x}"));
    prefix(test) + &print.collect::<String>()
}
