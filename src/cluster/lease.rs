//! What only one node does at a time.
//!
//! A row for each job says which node has it, and changes hands only: the node has it as long as the others hear of it
//! ([`super::AWAY_AFTER`]). A node that was not heard for so long is followed by whoever is first to write itself into
//! the row, by compare-and-swap; one that cannot write its own row stops before, for it counts that time from before its
//! last try. What a job changes for good it writes with the table's version ([`Leases::held_at`]), so that a node that
//! was held up in between changes nothing. No lock of the database is needed, so that those without do.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;

use super::member::Members;
use crate::clock::Clock;
use crate::store::Followed;
use crate::store::Fresh;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;

/// The table of leases.
pub const LEASES: &str = "cluster.leases";

/// Which node has a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The node.
    pub node: String,
    /// Since when, by its own clock.
    pub since: Timestamp,
}

impl Record for Lease {
    const VERSION: u32 = 1;
}

/// The jobs of a deployment, as one of its nodes sees them. All calls but [`Leases::held`] block.
pub struct Leases {
    table: Followed<String, Lease>,
    members: Arc<Members>,
    clock: Arc<dyn Clock>,
    jobs: Vec<&'static str>,
    known: Mutex<BTreeMap<String, Lease>>,
}

impl Leases {
    /// Returns the jobs of these names.
    pub fn new(store: &Store, members: Arc<Members>, clock: Arc<dyn Clock>, jobs: &[&'static str]) -> Self {
        let table = Followed::new(store.table(LEASES));
        Self { table, members, clock, jobs: jobs.to_vec(), known: Mutex::default() }
    }

    /// Returns which node has each job, as far as it is known here.
    pub fn held(&self) -> Vec<(&'static str, Option<Lease>)> {
        let known = self.known.lock();
        self.jobs.iter().map(|job| (*job, known.get(*job).cloned())).collect()
    }

    /// Tells whether this node has a job, and takes it where nobody has it who is there. While it has, what it writes
    /// has to expect the [table](LEASES) at the version that is returned.
    ///
    /// # Errors
    /// The store failed.
    pub fn held_at(&self, job: &str) -> Result<Option<u64>, StoreError> {
        // Before the first beat nobody is seen, and everybody would seem to be away.
        let has_seen = self.members.nodes().iter().any(|node| node.id == self.members.id());
        if !has_seen || !self.members.is_in_touch() {
            return Ok(None);
        }
        let version = || {
            let versions = self.table.table().store().versions()?;
            Ok::<_, StoreError>(versions.get(LEASES).copied().unwrap_or_default())
        };
        // First the version, then what the table has: it is at least as new.
        let before = version()?;
        self.table.catch_up(|fresh| self.take_over(fresh))?;
        let holder = self.known.lock().get(job).map(|lease| lease.node.clone());
        match holder {
            Some(node) if node == self.members.id() => Ok(Some(before)),
            Some(node) if self.members.nodes().iter().any(|it| it.id == node && it.is_there) => Ok(None),
            _ => {
                self.take(job)?;
                // The next look finds it, with its version.
                Ok(None)
            }
        }
    }

    fn take(&self, job: &str) -> Result<(), StoreError> {
        let lease = Lease { node: self.members.id().to_owned(), since: self.clock.now() };
        let there = self.members.nodes();
        let taken = self.table.note(
            |fresh| self.take_over(fresh),
            |batch| {
                let holder = self.known.lock().get(job).map(|lease| lease.node.clone());
                let is_there = |node: &String| there.iter().any(|it| it.id == *node && it.is_there);
                // Somebody else was faster.
                if holder.as_ref().is_some_and(is_there) {
                    return Ok(false);
                }
                self.table.table().put_in(batch, &job.to_owned(), &lease)?;
                Ok::<_, StoreError>(true)
            },
        )?;
        if taken {
            tracing::info!(job, "this node does what only one node does");
        }
        Ok(())
    }

    fn take_over(&self, all: Vec<Fresh<String, Lease>>) {
        let mut known = self.known.lock();
        for fresh in all {
            match fresh {
                Fresh::Anew => known.clear(),
                Fresh::Gone { key } => drop(known.remove(&key)),
                Fresh::Put { key, record, .. } => drop(known.insert(key, record)),
            }
        }
    }
}
