//! Lets rows be found by action, route, policy, detector and every category that an older release has shipped: from what
//! they hold, the newest ones first. Until that is done, a query that asks for one of these says that it is incomplete.

use super::Shipping;
use crate::govern::audit::index::QueryError;
use crate::govern::audit::log::ReadError;
use crate::govern::audit::stored;

/// How many rows are sorted in at a time.
const ROWS_AT_ONCE: usize = 500;

impl Shipping {
    /// Sorts rows in, once the indices are there that they are found by; tells whether there may be more. Blocks.
    pub(in crate::govern::audit) fn sort_in(&self) -> Result<bool, QueryError> {
        if !self.archive.has_facet_indices() {
            return Ok(false);
        }
        let found = self.archive.unsorted(ROWS_AT_ONCE)?;
        let count = found.len();
        let (mut rows, mut damaged) = (Vec::with_capacity(count), None);
        for row in found {
            match stored::row(row.found.sequence, &row.found.payload) {
                Ok(Some(says)) => rows.push((row, says)),
                // It keeps back nothing but itself, as long as not all that are read at a time are such.
                Ok(None) | Err(_) => {
                    let (node, sequence) = (row.found.node, row.found.sequence);
                    damaged.get_or_insert(ReadError::DamagedRow { node, sequence });
                }
            }
        }
        let is_there_more = count == ROWS_AT_ONCE && !rows.is_empty();
        self.archive.sort_in(rows)?;
        match damaged {
            Some(row) => Err(row.into()),
            None => Ok(is_there_more),
        }
    }
}
