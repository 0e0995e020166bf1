//! Looks once, after each start, at what was taken in by processes before.
//!
//! What the index has taken in it does not read again, so that a start is as quick with a large journal as with a small
//! one. Damage done since would come to light only where an answer meets it, which may be years later, when no backup has
//! the segment any more. So the journal is looked through beside all else, a piece at a time, its oldest entry first, up to
//! where this process reads it anyway: that the sum of each frame holds, and that it has the form of an entry. What is
//! damaged becomes a gap as any other (see [`super::gaps`]), which is logged, counted and told; what can be read behind
//! it stays in all answers.
//!
//! It does not check that the chain's hashes hold, as `portcullis audit verify` does: who changes an entry and its sum
//! is found there alone. It does not look a second time in the life of a process.

use super::Index;
use crate::govern::audit::log::Position;
use crate::govern::audit::log::ReadError;
use crate::govern::audit::stored;
use crate::id::Ulid;

/// How much is looked at each time, which is once a second: what answers and records is not to feel it.
const PIECE_BYTES: u64 = 2 << 20;

/// How far what was taken in before has been looked through.
pub(super) struct Patrol {
    next: Position,
    until: Position,
    /// The last entry that could be read.
    last: Ulid,
    /// What could not be read behind it, up to where each ends.
    damage: Vec<(Position, u64)>,
}

impl Patrol {
    /// Returns one that has all before a position before it.
    pub(super) fn up_to(until: Position) -> Self {
        Self { until, ..Self::default() }
    }

    fn is_over(&self) -> bool {
        self.next >= self.until
    }
}

impl Default for Patrol {
    /// Returns one that has nothing to look at.
    fn default() -> Self {
        let nowhere = Position { segment: 0, offset: 0 };
        Self { next: nowhere, until: nowhere, last: Ulid(0), damage: Vec::new() }
    }
}

impl Index {
    /// Looks at the next piece of what was taken in by processes before, as long as there is some. Blocks.
    pub(in crate::govern::audit) fn patrol_some(&self) {
        self.patrol_piece(PIECE_BYTES);
    }

    /// Looks at the next frames that have about so many bytes; tells whether there is more.
    fn patrol_piece(&self, piece_bytes: u64) -> bool {
        let mut patrol = self.patrol.lock();
        if patrol.is_over() {
            return false;
        }
        if let Err(error) = self.look_at(&mut patrol, piece_bytes) {
            // A disk that fails once fails again: whoever asks for what lies there is told.
            let Position { segment, offset } = patrol.next;
            tracing::error!(segment, offset, %error, "the audit journal is not looked through any further");
            patrol.next = patrol.until;
        }
        if patrol.is_over() {
            self.note_found(&mut patrol, Ulid(u128::MAX));
        }
        !patrol.is_over()
    }

    fn look_at(&self, patrol: &mut Patrol, piece_bytes: u64) -> Result<(), ReadError> {
        let mut reader = self.log.reader(patrol.next);
        let mut left = piece_bytes;
        while left > 0 && !patrol.is_over() {
            let (at, id) = match reader.next() {
                Ok(Some((at, payload))) => (at, stored::outline(payload).ok().map(|entry| entry.id)),
                // What was to be looked at has been dropped.
                Ok(None) => {
                    patrol.next = patrol.until;
                    return Ok(());
                }
                Err(ReadError::Damaged { .. }) => {
                    let at = reader.position();
                    reader.skip_damage()?;
                    (at, None)
                }
                Err(error) => return Err(error),
            };
            patrol.next = reader.position();
            left = left.saturating_sub(patrol.next.offset.saturating_sub(at.offset));
            match id {
                Some(id) => {
                    self.note_found(patrol, id);
                    patrol.last = id;
                }
                None => patrol.damage.push((at, patrol.next.offset)),
            }
        }
        Ok(())
    }

    /// Takes note of the damage that was found between the last entry and one of an id, but for what has been dropped
    /// since.
    fn note_found(&self, patrol: &mut Patrol, before: Ulid) {
        let start = self.log.start();
        for (at, end) in patrol.damage.drain(..).filter(|(at, _)| *at >= start) {
            self.note_gap(at, end, (patrol.last, before));
        }
    }
}

#[cfg(test)]
mod tests;
