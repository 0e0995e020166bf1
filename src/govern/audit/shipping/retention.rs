//! Drops shipped entries that are past their age.
//!
//! A chain has no holes, here as in the journal: an entry about or by somebody under a legal hold keeps all that its node
//! wrote after it. Dropping is one transaction with the versions of the tables that were looked at before, so that no
//! hold is overtaken that any node has taken by then, and nobody drops who has lost the right to.

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;

use super::Shipping;
use crate::govern::audit::index::QueryError;
use crate::govern::audit::log::ReadError;
use crate::govern::audit::query::at_ms;
use crate::govern::audit::stored;
use crate::store::archive::ArchiveHead;
use crate::store::archive::ArchiveRow;

/// How many rows are dropped at a time.
const ROWS_AT_ONCE: usize = 1000;

impl Shipping {
    /// Drops what is older than an age by a moment and about nobody among `kept`, of all nodes; returns how many entries.
    /// What nodes told of such entries of the first release is forgotten, too.
    pub(in crate::govern::audit) fn drop_old(
        &self,
        (age, now): (Duration, Timestamp),
        kept: &[String],
        expected: &BTreeMap<String, u64>,
    ) -> Result<u64, QueryError> {
        let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        let now_ms = now.as_millisecond();
        let until_ms = now_ms.saturating_sub(age_ms);
        let known = kept.iter().filter_map(|name| self.log.keyring.known(name));
        let tokens: HashSet<String> = known.map(|token| token.as_ref().to_owned()).collect();
        let is_held = |row: &ArchiveRow| {
            [&row.entity, &row.actor].into_iter().flatten().any(|token| tokens.contains(token))
        };
        let recorded_ms = |row: &ArchiveRow| row.recorded_ms.unwrap_or(row.id.unix_ms());
        // What was recorded while the clock was ahead is no younger than what comes after it.
        let is_kept = |row: &ArchiveRow| is_held(row) || (until_ms..=now_ms).contains(&recorded_ms(row));
        let mut dropped = 0;
        let mut damaged = None;
        for mut head in self.archive.heads()? {
            loop {
                let mut rows = self.archive.rows(&head.node, head.floor, ROWS_AT_ONCE)?;
                let found = rows.len();
                rows.truncate(rows.iter().position(is_kept).unwrap_or(found));
                let is_old = |row: &ArchiveRow| recorded_ms(row) < until_ms;
                rows.truncate(rows.iter().rposition(is_old).map_or(0, |last| last + 1));
                let count = rows.len();
                let Some(last) = rows.last() else { break };
                let Ok((_, hash, _)) = stored::split(&last.payload) else {
                    // It keeps back what is behind it, but no other node's.
                    let (node, sequence) = (head.node.clone(), last.sequence);
                    damaged.get_or_insert(ReadError::DamagedRow { node, sequence });
                    break;
                };
                let floor = last.sequence;
                self.archive.drop_first(&head, rows, hash.0, expected.clone())?;
                dropped += count as u64;
                head = ArchiveHead { floor, floor_hash: hash.0, ..head };
                if count < found || found < ROWS_AT_ONCE {
                    break;
                }
            }
        }
        // Whose entries are under a hold keeps them past their age.
        if kept.is_empty() {
            self.plain.forget_before(at_ms(until_ms))?;
        }
        match damaged {
            Some(row) => Err(row.into()),
            None => Ok(dropped),
        }
    }
}
