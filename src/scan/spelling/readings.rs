//! The readings of a text in other spellings, of its pieces and of what a reader takes it for.

use std::ops::Range;

use super::Marks;
use super::Spelt;
use super::pieces;
use super::readings;
use crate::scan::unwrapped::Unwrapped;
use crate::scan::view::View;

/// The readings of a text in other spellings, for all who look into them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readings {
    /// Those of each piece of the text that has any.
    pub(super) pieces: Vec<(Range<usize>, Vec<Spelt>)>,
    /// Those of its canonical view, if it has one and is read in one piece: each of several has a view of its own.
    pub(super) canonical: Option<Box<Self>>,
    /// What else the text is read as, if that is known.
    pub(super) unwrapped: Option<Unwrapped>,
}

impl Readings {
    /// Returns the readings of a text that may give orders.
    pub(in crate::scan) fn of_orders(text: &[u8]) -> Self {
        let mut made = Self::default();
        for piece in pieces(text.len()) {
            let part = text.get(piece.clone()).unwrap_or_default();
            // A text with too much to unpack has been refused by the patterns.
            let readings = Marks::of_orders().and_then(|marks| readings(part, marks));
            made.push(piece, readings.unwrap_or_default());
        }
        made
    }

    /// Returns those of the readings of a view of a text that do not say what one of the text says at the same place.
    pub(in crate::scan) fn beside(mut self, of_text: &Self, view: &View) -> Self {
        let is_known = |at: &Range<usize>, spelt: &Spelt| {
            let place = spelt.place(&(0..spelt.bytes().len()), at.len());
            let place = view.source_range(place.start + at.start..place.end + at.start);
            of_text.pieces().any(|(at, known)| {
                known.iter().any(|known| {
                    let of_known = known.place(&(0..known.bytes().len()), at.len());
                    known.says(spelt) && (of_known.start + at.start..of_known.end + at.start) == place
                })
            })
        };
        for (at, spelt) in &mut self.pieces {
            spelt.retain(|spelt| !is_known(at, spelt));
        }
        self
    }

    /// Returns those of the text's canonical view, if they were made with the others.
    pub(in crate::scan) fn canonical(&self) -> Option<&Self> {
        self.canonical.as_deref()
    }

    /// Returns what else the text is read as, if it was unwrapped for them.
    pub(in crate::scan) fn unwrapped(&self) -> Option<&Unwrapped> {
        self.unwrapped.as_ref()
    }

    pub(super) fn push(&mut self, piece: Range<usize>, readings: Vec<Spelt>) {
        if !readings.is_empty() {
            self.pieces.push((piece, readings));
        }
    }

    /// Returns where each piece of the text is that has readings, and these.
    pub(in crate::scan) fn pieces(&self) -> impl Iterator<Item = (Range<usize>, &[Spelt])> {
        self.pieces.iter().map(|(piece, readings)| (piece.clone(), &**readings))
    }
}
