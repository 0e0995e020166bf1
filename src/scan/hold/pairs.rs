//! What two bytes begin: the positions of the second one, by both.
//!
//! In: positions that a match may begin with, and what may follow each. Out: whether a byte begins anything, and the
//! positions that two bytes in a row lead to. Most bytes of a text begin something, and few are followed by what would
//! go on with it.

use super::Track;
use super::automaton::ByteSet;
use super::automaton::Position;
use super::automaton::bytes;

/// Says that a byte begins nothing.
const NO_ROW: u16 = u16::MAX;

/// What a byte begins, by track.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Begun {
    matches: [bool; 2],
    values: [bool; 2],
}

/// Positions by the byte before theirs and their own.
#[derive(Debug, Default)]
pub(super) struct PairTable {
    /// By first byte: its place in the next two.
    rows: Vec<u16>,
    begun: Vec<Begun>,
    /// Of each row 257 offsets into `to`.
    offsets: Vec<u32>,
    /// A position, and whether its value began with the byte before.
    to: Vec<(u32, bool)>,
    /// While positions are added: of each row, those of each second byte.
    added: Vec<Vec<Vec<(u32, bool)>>>,
}

impl Begun {
    /// Tells whether a match of a track may have begun.
    pub(super) fn matches(self, track: Track) -> bool {
        self.matches[track.index()]
    }

    /// Tells whether a value of a track may have begun.
    pub(super) fn values(self, track: Track) -> bool {
        self.values[track.index()]
    }

    /// Returns what either begins.
    pub(super) fn with(self, other: Self) -> Self {
        let either = |one: [bool; 2], two: [bool; 2]| [one[0] | two[0], one[1] | two[1]];
        Self { matches: either(self.matches, other.matches), values: either(self.values, other.values) }
    }
}

impl PairTable {
    /// Adds a position that a match may begin with on the bytes of a class, and what may follow it.
    pub(super) fn add(
        &mut self,
        start: Position,
        class: ByteSet,
        edges: impl Iterator<Item = (u32, ByteSet)> + Clone,
    ) {
        self.rows.resize(1 << u8::BITS, NO_ROW);
        for first in bytes(class) {
            let row = match self.rows[usize::from(first)] {
                NO_ROW => {
                    self.rows[usize::from(first)] = self.begun.len() as u16;
                    self.begun.push(Begun::default());
                    self.added.push(vec![Vec::new(); 1 << u8::BITS]);
                    self.begun.len() - 1
                }
                row => usize::from(row),
            };
            self.begun[row].matches[start.track.index()] = true;
            self.begun[row].values[start.track.index()] |= start.in_value;
            for (to, class) in edges.clone() {
                for second in bytes(class) {
                    self.added[row][usize::from(second)].push((to, start.in_value));
                }
            }
        }
    }

    /// Makes the tables; what two ways lead to is there once, with the earlier value.
    pub(super) fn finished(mut self) -> Self {
        // A row has one offset more than bytes, and nothing behind the last.
        let rows = std::mem::take(&mut self.added).into_iter();
        for mut to in rows.flat_map(|row| row.into_iter().chain([Vec::new()])) {
            to.sort_unstable_by_key(|(to, in_value)| (*to, !in_value));
            to.dedup_by_key(|(to, _)| *to);
            self.offsets.push(self.to.len() as u32);
            self.to.extend(to);
        }
        self
    }

    /// Returns what a byte begins.
    pub(super) fn begun(&self, byte: u8) -> Option<Begun> {
        self.begun.get(self.row(byte)?).copied()
    }

    /// Returns the positions of the second of two bytes, and of each whether its value began with the first.
    pub(super) fn of(&self, first: u8, second: u8) -> &[(u32, bool)] {
        let Some(row) = self.row(first) else { return &[] };
        let at = row * ((1 << u8::BITS) + 1) + usize::from(second);
        &self.to[self.offsets[at] as usize..self.offsets[at + 1] as usize]
    }

    fn row(&self, byte: u8) -> Option<usize> {
        self.rows.get(usize::from(byte)).filter(|row| **row != NO_ROW).map(|row| usize::from(*row))
    }
}
