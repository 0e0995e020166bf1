//! How the index takes in what the journal has: in pieces, between which others have their turn.

use parking_lot::MutexGuard;

use super::Cursor;
use super::Growing;
use super::Head;
use super::Index;
use super::QueryError;
use super::State;
use super::cursor_key;
use crate::govern::audit::journal::Damage;
use crate::govern::audit::log::Position;
use crate::govern::audit::log::ReadError;
use crate::govern::audit::log::Reader;
use crate::govern::audit::segment;
use crate::govern::audit::stored;
use crate::govern::audit::stored::Outline;
use crate::id::Ulid;
use crate::store::Batch;

/// How much is taken in at a time.
pub(super) struct Pace {
    /// About so many bytes of the journal, before others have their turn.
    pub(super) piece_bytes: u64,
    /// Who asks waits for no more bytes than these, but is told that something is missing.
    pub(super) waited_bytes_max: u64,
    /// So many pieces, before it is looked whether the process ends.
    pub(super) pieces_max: usize,
}

impl Pace {
    /// A piece takes some hundredths of a second, what is waited for some tenths: it is more than the group that grows, which
    /// is read off the journal again when the process begins.
    pub(super) const USUAL: Self = Self { piece_bytes: 1 << 20, waited_bytes_max: 32 << 20, pieces_max: 32 };
}

impl Index {
    /// Takes in all that is committed by now.
    pub(in crate::govern::audit) fn catch_up(&self) -> Result<(), QueryError> {
        while !self.catch_up_some()? {}
        Ok(())
    }

    /// Takes in some of what is committed by now; tells whether that is all of it.
    pub(in crate::govern::audit) fn catch_up_some(&self) -> Result<bool, QueryError> {
        let until = self.log.committed();
        for _ in 0..self.pace.pieces_max {
            let mut state = self.state.lock();
            if self.take_piece(&mut state)? || state.next >= until {
                return Ok(true);
            }
            MutexGuard::unlock_fair(state);
        }
        Ok(false)
    }

    /// Returns the state with what is committed by now, unless that is too much to wait for, or the store takes nothing, on
    /// a full disk say; tells whether it is all there. Nobody changes the index as long as it is held.
    pub(super) fn current(&self) -> Result<(MutexGuard<'_, State>, bool), QueryError> {
        let until = self.log.committed();
        loop {
            let mut state = self.state.lock();
            let taken = match self.take_piece(&mut state) {
                // What was taken in before is as it was.
                Err(QueryError::Store(error)) => {
                    tracing::warn!(%error, "the audit index takes nothing in for now");
                    let is_all = state.next >= until;
                    return Ok((state, is_all));
                }
                taken => taken?,
            };
            let is_all = taken || state.next >= until;
            if is_all || self.log.bytes_between(state.next, until) > self.pace.waited_bytes_max {
                return Ok((state, is_all));
            }
            MutexGuard::unlock_fair(state);
        }
    }

    /// Comes back once everything is taken in that is committed by now.
    ///
    /// # Errors
    /// That would take too long.
    pub(in crate::govern::audit) fn ensure_current(&self) -> Result<(), QueryError> {
        let (_, is_all) = self.current()?;
        is_all.then_some(()).ok_or(QueryError::Behind)
    }

    /// Takes in the next piece of the journal; tells whether nothing is left.
    fn take_piece(&self, state: &mut State) -> Result<bool, QueryError> {
        let mut reader = self.log.reader(state.next);
        let mut left = self.pace.piece_bytes;
        while left > 0 {
            match reader.next() {
                Ok(Some((at, payload))) => {
                    let end = segment::frame_end(at.offset, payload);
                    left = left.saturating_sub(end - at.offset);
                    match stored::outline(payload) {
                        Ok(entry) => self.take_in(state, &entry, at, end)?,
                        Err(_) => self.leave_out(state, at, end)?,
                    }
                }
                Ok(None) => {
                    let next = reader.position();
                    let growing = state.growing.as_ref();
                    if growing.is_some_and(|growing| growing.is_over(next, self.entries_max)) {
                        self.write(state)?;
                    }
                    return Ok(true);
                }
                Err(ReadError::Damaged { .. }) => {
                    let at = reader.position();
                    reader.skip_damage()?;
                    let end = reader.position().offset;
                    left = left.saturating_sub(end - at.offset);
                    self.leave_out(state, at, end)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// Adds the next entry, which ends at `end`, to the group that grows, or begins another one with it.
    fn take_in(
        &self,
        state: &mut State,
        entry: &Outline<'_>,
        at: Position,
        end: u64,
    ) -> Result<(), QueryError> {
        let number = state.kinds.number(entry);
        let takes = state.growing.as_ref().is_none_or(|growing| growing.takes(at, self.entries_max));
        if number.is_none() || !takes {
            self.write(state)?;
        }
        let number = match number {
            Some(number) => number,
            None => {
                state.kinds.begin_next();
                state.kinds.number(entry).unwrap_or_default()
            }
        };
        let edition = state.kinds.edition();
        let growing = state.growing.get_or_insert_with(|| Growing::begin(entry.id, at, edition));
        growing.push(entry, number, &self.log.keyring, (at.offset, end));
        (state.next, state.last) = (growing.head.end(), entry.id);
        state.skews.note(entry);
        if std::mem::take(&mut state.is_behind_gap) {
            self.gaps.lock().end_before(entry.id);
        }
        Ok(())
    }

    /// Goes on behind what cannot be read, which ends at `end`. No group reaches over it.
    fn leave_out(&self, state: &mut State, at: Position, end: u64) -> Result<(), QueryError> {
        self.write(state)?;
        state.next = Position { offset: end, ..at };
        state.is_behind_gap = true;
        self.note_gap(at, end, (state.last, Ulid(u128::MAX)));
        Ok(())
    }

    /// Takes note of what the journal found damaged when it was opened: what was taken in before is not read again.
    pub(in crate::govern::audit) fn note_damage(&self, damage: &[Damage]) {
        damage.iter().for_each(|damage| self.note_gap(damage.at, damage.end, damage.ids));
    }

    /// Takes note of what cannot be read, and says so the first time.
    pub(super) fn note_gap(&self, at: Position, end: u64, ids: (Ulid, Ulid)) {
        if end > at.offset && self.gaps.lock().note(at, end, ids) {
            tracing::error!(
                segment = at.segment,
                from = at.offset,
                to = end,
                "the audit journal is damaged: what was there is in no answer until the segment is restored"
            );
        }
    }

    /// Lets a reader that found damage in a group go on behind it; tells whether that is the next entry for certain.
    pub(super) fn pass_over(&self, reader: &mut Reader<'_>, group: &Head) -> Result<bool, ReadError> {
        let at = reader.position();
        let is_next = reader.skip_damage()?;
        self.note_gap(at, reader.position().offset, group.around());
        Ok(is_next)
    }

    /// Takes note of an entry of a group that is whole, and says nothing that is known here.
    pub(super) fn note_unreadable(&self, at: Position, payload: &[u8], group: &Head) {
        self.note_gap(at, segment::frame_end(at.offset, payload), group.around());
    }

    /// Returns how many bytes of the journal are known to be damaged.
    pub(in crate::govern::audit) fn damaged_bytes(&self) -> u64 {
        self.gaps.lock().bytes()
    }

    /// Writes the group that grows, with the kinds it tells of and the cursor behind it.
    fn write(&self, state: &mut State) -> Result<(), QueryError> {
        let Some(growing) = &state.growing else { return Ok(()) };
        let mut batch = Batch::default();
        growing.put_in(&mut batch);
        state.kinds.put_in(&mut batch);
        let at = growing.head.end();
        let (edition, gaps) = (state.kinds.edition(), self.gaps.lock().records());
        let skews = Some(state.skews.records());
        let cursor = Cursor { segment: at.segment, offset: at.offset, edition, gaps, skews };
        self.cursors.put_in(&mut batch, &cursor_key(), &cursor)?;
        self.store.commit(&batch)?;
        state.kinds.note_saved();
        (state.at, state.growing) = (at, None);
        Ok(())
    }
}
