//! Lets the index follow the journal, and drops what of it is past its age or its place.

use std::io;
use std::time::Duration;

use crate::access::keyring::NameCount;

use super::index::QueryError;
use super::log::ReadError;
use super::open::AuditLog;
use super::segment;
use super::shipping::UNSHIPPED_FACTOR;

/// How many steps at a time maintenance takes to remove what earlier releases left behind.
const SWEEPS: usize = 16;

/// How long entries are kept, and how many bytes of them; `None`: for ever, and any number.
#[derive(Clone, Copy)]
pub(super) struct Retention {
    pub(super) age: Option<Duration>,
    pub(super) bytes: Option<u64>,
}

impl AuditLog {
    /// Takes in what is new and drops whole segments that are past their age or their place, and looks through a piece of
    /// what is old; tells whether there is no more to do at once. Blocks.
    pub(super) fn maintain(&self) -> Result<bool, QueryError> {
        let maintained = self.follow_and_drop();
        if matches!(maintained, Ok(true)) {
            self.index.patrol_some();
        }
        self.metrics.audit_damaged(self.index.damaged_bytes());
        for NameCount { standing, names, unlisted } in self.log.keyring.count() {
            self.metrics.names(standing.as_str(), names, unlisted);
        }
        self.metrics.names_aged_out(self.log.keyring.take_aged_out());
        maintained
    }

    fn follow_and_drop(&self) -> Result<bool, QueryError> {
        if !self.index.catch_up_some()? {
            return Ok(false);
        }
        for _ in 0..SWEEPS {
            if !self.index.sweep()? {
                break;
            }
        }
        while let Some(segment) = self.oldest_past_retention() {
            // A chain has no holes: what comes after a segment that is kept is kept, too.
            if self.index.tells_of(segment, &self.kept.read())? {
                tracing::debug!(
                    segment,
                    "an audit segment past its retention is kept: it is, or may be, under a legal hold"
                );
                break;
            }
            if let Some(shipping) = self.shipping.as_ref().filter(|it| it.is_waiting_for(segment)) {
                let most = self.retention.bytes.map(|bytes| bytes.saturating_mul(UNSHIPPED_FACTOR));
                if most.is_none_or(|most| self.log.size_bytes() <= most) {
                    break;
                }
                shipping.lost(segment);
            }
            if let Err(error) = self.dropping.tell(&self.log, segment) {
                tracing::warn!(segment, %error, "what is dropped of the audit log cannot be told");
            }
            self.index.forget(segment)?;
            self.log.closed.write().remove(&segment);
            match std::fs::remove_file(segment::path(&self.log.directory, segment)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(ReadError::from(error).into());
                }
                // A segment that somebody took away is gone all the same.
                _ => {}
            }
            tracing::info!(segment, "an audit segment past its retention was dropped");
        }
        Ok(true)
    }

    fn oldest_past_retention(&self) -> Option<u64> {
        let size = self.log.size_bytes();
        let now = self.sure.now().as_millisecond().max(0) as u64;
        let closed = self.log.closed.read();
        let segment = closed.keys().next().copied()?;
        // One that was closed while the clock was ahead is no younger than the ones after it.
        let closed_unix_ms = closed.values().map(|it| it.closed_unix_ms).find(|closed| *closed <= now);
        let age = Duration::from_millis(now.saturating_sub(closed_unix_ms.unwrap_or(now)));
        let old = self.retention.age.is_some_and(|max| age > max);
        let large = self.retention.bytes.is_some_and(|max| size > max);
        (old || large).then_some(segment)
    }
}
