//! A text as its reader takes it, with the way back to the bytes it was made from.
//!
//! The canonical view has invisible characters and the colours of terminals removed, look-alikes and compatibility
//! forms folded, and `%XX`, HTML entities and backslash escapes undone, each once and in one pass. It only exists for
//! matching: what leaves the gateway is always the source. A view is made by [`canonical`] from a whole text and by
//! [`Canonicaliser`] from a text in pieces; both run the same code, and neither depends on where the pieces end.
//!
//! A single text cannot show everything: two hidden characters in a row (tags, variation selectors) are read as the
//! message they smuggle, a lone one is removed. [`hidden()`] reads such messages apart from what stands around them.

use std::ops::Range;

use smallvec::SmallVec;

mod confusable;
mod escape;
pub(in crate::scan) mod fold;
mod hidden;

use crate::scan::decode;
use crate::scan::decode::Lines;
use escape::Input;
use escape::Unit;
pub use hidden::hidden;

/// A text derived from another one, and where each of its bytes came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    bytes: Vec<u8>,
    segments: Vec<Segment>,
}

/// A stretch of a view in which every `out` bytes come from `taken` source bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    view: usize,
    source: usize,
    taken: u8,
    out: u8,
}

/// Tells where the bytes of a view come from, one after another.
pub struct Following<'v> {
    view: &'v View,
    segment: usize,
}

/// Makes the canonical view of a text that comes in pieces.
#[derive(Clone, Debug, Default)]
pub struct Canonicaliser {
    /// The beginning of a unit that is not complete yet.
    carry: SmallVec<[u8; 16]>,
    /// Where in the source `carry` begins.
    at: usize,
    after_hidden: bool,
}

/// A piece of a canonical view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The bytes; may be empty for what nobody sees.
    pub bytes: &'a [u8],
    /// Where in the source they begin.
    pub source: usize,
    /// How many source bytes they stand for.
    pub taken: usize,
    /// Whether the bytes are other than the source's.
    pub changed: bool,
}

/// Returns the canonical view of `text`, or `None` if it would be the text itself.
///
/// Bytes that are not UTF-8 stay as they are. ASCII without `%`, `&`, `\` and ESC costs one look at each byte.
pub fn canonical(text: &[u8]) -> Option<View> {
    let first = escape::next_trigger(text)?;
    let mut view = View::default();
    let mut changed = false;
    let plain = text.get(..first).unwrap_or_default();
    let mut reader = Canonicaliser::starting_at(first);
    let mut add = |piece: Piece<'_>| {
        changed |= piece.changed;
        view.add(piece);
    };
    if !plain.is_empty() {
        add(Piece { bytes: plain, source: 0, taken: first, changed: false });
    }
    reader.push(text.get(first..).unwrap_or_default(), &mut add);
    reader.finish(&mut add);
    changed.then_some(view)
}

/// Tells whether a text has to be read otherwise than as it stands: escapes, look-alikes, encoded runs.
pub fn needs_views(text: &[u8]) -> bool {
    escape::next_trigger(text).is_some() || !decode::runs(text, 0, Lines::Apart).is_empty()
}

impl View {
    /// Returns the text of the view.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the smallest source range that covers a range of the view.
    ///
    /// Whole units are covered: the escape of the first byte and that of the last one. A range that is empty or
    /// past the end gives an empty range.
    pub fn source_range(&self, view: Range<usize>) -> Range<usize> {
        let start = self.unit(view.start).start;
        if view.is_empty() {
            return start..start;
        }
        start..self.unit(view.end - 1).end.max(start)
    }

    /// Returns what tells where one byte after another comes from, without a search for each.
    pub fn following(&self) -> Following<'_> {
        Following { view: self, segment: 0 }
    }

    /// Returns where the view differs from its source, as ascending ranges of the view; empty where bytes vanished.
    ///
    /// Both ends are listed: nobody knows what vanished before and behind them.
    pub fn changes(&self) -> Vec<Range<usize>> {
        let before_all = 0..0;
        let mut changes = vec![before_all];
        let mut segments = self.segments.iter().peekable();
        while let Some(segment) = segments.next() {
            let end = segments.peek().map_or(self.bytes.len(), |next| next.view);
            let source_end =
                segment.source + (end - segment.view) / usize::from(segment.out) * usize::from(segment.taken);
            if (segment.taken, segment.out) != (1, 1) {
                changes.push(segment.view..end);
            } else if segments.peek().is_some_and(|next| next.source != source_end) {
                changes.push(end..end);
            }
        }
        changes.push(self.bytes.len()..self.bytes.len());
        changes
    }

    /// Appends bytes of which every `out` stand for `taken` source bytes, from `source` on.
    pub(super) fn append(&mut self, bytes: &[u8], source: usize, taken: u8, out: u8) {
        let view = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        let joins = self.segments.last().is_some_and(|last| {
            let units = (view - last.view) / usize::from(last.out);
            last.taken == taken && last.out == out && last.source + units * usize::from(taken) == source
        });
        if !joins && !bytes.is_empty() {
            self.segments.push(Segment { view, source, taken, out });
        }
    }

    /// Returns the view with each byte of it written as another one.
    pub(super) fn rewritten(&self, rewrite: impl FnOnce(&[u8]) -> Vec<u8>) -> Self {
        let bytes = rewrite(&self.bytes);
        debug_assert_eq!(bytes.len(), self.bytes.len());
        Self { bytes, segments: self.segments.clone() }
    }

    /// Appends another view of the same source on a line of its own, which `source` stands before.
    pub(super) fn append_line(&mut self, other: &Self, source: usize) {
        self.append(b"\n", source, 1, 1);
        let base = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        let shifted = other.segments.iter().map(|segment| Segment { view: segment.view + base, ..*segment });
        self.segments.extend(shifted);
    }

    fn add(&mut self, piece: Piece<'_>) {
        match piece.changed {
            true => self.append(piece.bytes, piece.source, piece.taken as u8, piece.bytes.len() as u8),
            false => self.append(piece.bytes, piece.source, 1, 1),
        }
    }

    /// Returns the source range of the unit that made a byte of the view.
    fn unit(&self, at: usize) -> Range<usize> {
        let after = self.segments.partition_point(|segment| segment.view <= at);
        after.checked_sub(1).map_or(0..0, |segment| self.unit_in(segment, at))
    }

    /// Returns the same where it is known in which segment the byte stands.
    fn unit_in(&self, segment: usize, at: usize) -> Range<usize> {
        let Some(segment) = self.segments.get(segment) else { return 0..0 };
        let unit = (at.min(self.bytes.len()) - segment.view) / usize::from(segment.out);
        let start = segment.source + unit * usize::from(segment.taken);
        match at < self.bytes.len() {
            true => start..start + usize::from(segment.taken),
            false => start..start,
        }
    }
}

impl Following<'_> {
    /// Returns where the unit begins in the source that made a byte of the view, which stands before none asked for
    /// earlier.
    pub fn start(&mut self, at: usize) -> usize {
        let behind = self.view.segments.get(self.segment + 1..).unwrap_or_default();
        self.segment += behind.iter().take_while(|segment| segment.view <= at).count();
        self.view.unit_in(self.segment, at).start
    }
}

impl Canonicaliser {
    /// Begins a text whose first byte is at `source`.
    pub fn starting_at(source: usize) -> Self {
        Self { at: source, ..Self::default() }
    }

    /// Takes the next bytes and hands out what they complete, in order.
    pub fn push(&mut self, text: &[u8], emit: &mut impl FnMut(Piece<'_>)) {
        let mut rest = text;
        while let (false, Some((first, behind))) = (self.carry.is_empty(), rest.split_first()) {
            self.carry.push(*first);
            rest = behind;
            self.drain(false, emit);
        }
        let taken = self.read(rest, false, emit);
        self.carry.extend_from_slice(rest.get(taken..).unwrap_or_default());
    }

    /// Ends the text: what is incomplete means itself.
    pub fn finish(&mut self, emit: &mut impl FnMut(Piece<'_>)) {
        self.drain(true, emit);
    }

    /// Returns where the unit begins that is not complete yet.
    pub fn pending_from(&self) -> Option<usize> {
        (!self.carry.is_empty()).then_some(self.at)
    }

    /// Tells whether the text could be cut here without changing what follows.
    pub fn between_units(&self) -> bool {
        self.carry.is_empty() && !self.after_hidden
    }

    fn drain(&mut self, complete: bool, emit: &mut impl FnMut(Piece<'_>)) {
        let carry = std::mem::take(&mut self.carry);
        let taken = self.read(&carry, complete, emit);
        self.carry.extend_from_slice(carry.get(taken..).unwrap_or_default());
    }

    /// Reads units as far as they are complete and returns how many bytes they took.
    fn read(&mut self, text: &[u8], complete: bool, emit: &mut impl FnMut(Piece<'_>)) -> usize {
        let mut done = 0;
        let mut plain = 0;
        while let Some(rest) = text.get(done..).filter(|rest| !rest.is_empty()) {
            let next = escape::next_trigger(rest).unwrap_or(rest.len());
            if next > 0 {
                done += next;
                self.after_hidden = false;
                continue;
            }
            match escape::unit(Input { bytes: rest, complete, after_hidden: self.after_hidden }) {
                Unit::Pending => break,
                Unit::Plain(taken) => {
                    done += taken;
                    self.after_hidden = false;
                }
                Unit::Changed { taken, text: meaning, hidden } => {
                    self.emit_plain(text.get(plain..done).unwrap_or_default(), emit);
                    emit(Piece { bytes: meaning.as_bytes(), source: self.at, taken, changed: true });
                    self.at += taken;
                    self.after_hidden = hidden;
                    done += taken;
                    plain = done;
                }
            }
        }
        self.emit_plain(text.get(plain..done).unwrap_or_default(), emit);
        done
    }

    fn emit_plain(&mut self, bytes: &[u8], emit: &mut impl FnMut(Piece<'_>)) {
        if !bytes.is_empty() {
            emit(Piece { bytes, source: self.at, taken: bytes.len(), changed: false });
            self.at += bytes.len();
        }
    }
}

#[cfg(test)]
mod tests;
