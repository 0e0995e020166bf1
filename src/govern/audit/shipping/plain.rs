//! Which nodes have entries of the first release, that only they can answer with: each tells the others.

use serde::Deserialize;
use serde::Serialize;

use crate::govern::audit::query::Query;
use crate::id::Ulid;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;

const TABLE: &str = "audit_plain";

/// What is told of a node.
#[derive(Serialize, Deserialize)]
struct PlainRecord {
    /// The newest such entry.
    newest: String,
}

impl Record for PlainRecord {
    const VERSION: u32 = 1;
}

/// What all nodes told.
pub(super) struct Plain(Table<String, PlainRecord>);

impl Plain {
    pub(super) fn new(store: &Store) -> Self {
        Self(store.table(TABLE))
    }

    /// Tells the other nodes up to which entry this one has some; `None`: it has none.
    pub(super) fn tell(&self, node: &str, newest: Option<Ulid>) -> Result<(), StoreError> {
        let (node, newest) = (node.to_owned(), newest.map(|newest| newest.to_string()));
        let told = self.0.get(&node)?.map(|record| record.newest);
        match newest {
            newest if newest == told => Ok(()),
            Some(newest) => self.0.put(&node, &PlainRecord { newest }),
            None => self.0.delete(&node),
        }
    }

    /// Forgets what was told of entries that are older than an id: a node that never comes back cannot take it back.
    pub(super) fn forget_before(&self, id: Ulid) -> Result<(), StoreError> {
        let all = self.0.list(&KeyRange::all(), Order::Ascending, usize::MAX)?;
        let is_old = |record: &PlainRecord| record.newest.parse::<Ulid>().is_ok_and(|newest| newest < id);
        all.iter().filter(|(_, record)| is_old(record)).try_for_each(|(node, _)| self.0.delete(node))
    }

    /// Returns the other nodes that may have such entries which hold to a query.
    pub(super) fn of_others(&self, node: &str, query: &Query) -> Result<Vec<String>, StoreError> {
        let all = self.0.list(&KeyRange::all(), Order::Ascending, usize::MAX)?;
        let is_asked = |other: &String| query.node.as_ref().is_none_or(|asked| asked == other);
        let is_within = |record: &PlainRecord| {
            record.newest.parse::<Ulid>().is_ok_and(|newest| newest >= query.first_id())
        };
        let others =
            all.into_iter().filter(|(other, record)| other != node && is_asked(other) && is_within(record));
        Ok(others.map(|(other, _)| other).collect())
    }
}
