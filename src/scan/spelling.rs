//! Other ways to spell a text: ciphers, codes, letters apart, letters turned round, strings put together.
//!
//! In: a whole text. Out: readings of it, of its tables, and of what is encoded in it, each with the way back to the bytes
//! it was made from. A reading is only made where its mark occurs: letters as frequent as in no language, a word of an
//! order turned round, a run of Base32, a row of numbers; prose costs one pass over the text. Streams are not read this
//! way: what is spelt can only be told when it is complete.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::scan::classifier::Spellings;
use crate::scan::detector::Detector;
use crate::scan::scanner::ScanFault;
use crate::scan::scanner::Scanner;
use crate::scan::scanner::merged;
use crate::scan::threat::Category;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Encoding;
use crate::scan::threat::Finding;
use crate::scan::threat::Spelling;
use crate::scan::unwrapped::Unwrapped;
use crate::scan::view;
use crate::scan::view::View;

mod apart;
mod base85;
mod bidi;
mod braille;
mod code;
mod columns;
mod deflate;
mod excerpt;
mod framed;
mod group;
mod gzip;
mod inserts;
mod letters;
mod marks;
mod numbers;
mod phrase;
mod readings;
mod sign;
mod strings;
mod trust;
mod unescaped;
mod wide;

pub(super) use self::marks::Marks;
pub(super) use self::numbers::digits;
pub use self::readings::Readings;
use self::trust::Trust;

/// Longer texts are read piece by piece, in bytes.
const PIECE_BYTES: usize = 1 << 18;

/// How much of a piece the next one begins with, in bytes: what is spelt and looked for is shorter.
const OVERLAP_BYTES: usize = 1 << 14;

/// What was found in a whole text.
#[derive(Debug)]
pub struct Searched {
    /// The findings, in offsets of the text.
    pub findings: Vec<Finding>,
    /// The other spellings of it, for a model.
    pub spellings: Spellings,
}

/// A reading of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spelt {
    spelling: Spelling,
    view: View,
    origin: Origin,
    /// Whether it is read for keys: nothing but the beginning of one tells it, or the signs that keys have.
    is_of_key: bool,
    /// Whether it has too few letters for a text, and may say something by chance.
    is_bare: bool,
}

/// How a reading leads back to its text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    /// By the view itself.
    View,
    /// By the view, byte by byte: what runs from one part of an excerpt into the next ends with the former.
    Near,
    /// The same, from the other end of a view.
    Reversed(View),
    /// From stretches in any order, each with where it ends in the reading.
    Runs(Vec<(usize, Range<usize>)>),
}

/// Tells whether a text, or one of several with NUL between them, has a table whose cells may hold a value, or a phrase of a
/// wallet.
pub fn has_table(text: &[u8]) -> bool {
    tables(text).next().is_some()
}

/// Returns readings of the tables of a text, drawn or inserted, with each cell behind the name of its column, and of the
/// phrases of wallets in it, each behind what it is.
fn tables(text: &[u8]) -> impl Iterator<Item = View> {
    columns::read(text).chain(inserts::read(text)).chain(phrase::read(text))
}

impl Scanner {
    /// Tells whether some part of a text may have a reading in another spelling.
    ///
    /// # Errors
    /// The text could not be searched.
    pub fn may_be_spelt(&self, text: &[u8]) -> Result<bool, ScanFault> {
        if !self.spelling_marks()?.of(text)?.is_empty() {
            return Ok(true);
        }
        let is_otherwise = sign::unfilled(text).is_some()
            || bidi::is_in(text)
            || framed::are_in(text, self.spelling_marks()?);
        if is_otherwise || has_table(text) || strings::are_joined(text) {
            return Ok(true);
        }
        match code::readings(text) {
            // Too much for one look, if all texts of a body are one: each of them is looked at alone.
            Err(ScanFault::TooMuchDecoded) => Ok(true),
            readings => Ok(!readings?.is_empty()),
        }
    }

    /// Finds what the `wanted` detectors see in a whole text, in every reading of it and in other spellings.
    ///
    /// # Errors
    /// The text could not be judged; see [`ScanFault`].
    pub fn scan_spelt(&self, text: &[u8], wanted: &DetectorSet) -> Result<Searched, ScanFault> {
        self.scan_spelt_beyond(text, wanted, self.search_plain(text, wanted)?)
    }

    /// Finds the same in a text in which it is known what the `wanted` detectors see as it stands, without looking there
    /// again.
    ///
    /// # Errors
    /// The text could not be judged; see [`ScanFault`].
    pub fn scan_spelt_beyond(
        &self,
        text: &[u8],
        wanted: &DetectorSet,
        found: Vec<Finding>,
    ) -> Result<Searched, ScanFault> {
        let unwrapped = Unwrapped::of(text);
        let found = self.scan_beyond(&unwrapped, wanted, found)?;
        self.spelt_beside(found, text, unwrapped, wanted)
    }

    /// Finds what the `wanted` detectors see in a whole text and, behind the names of their columns, in the cells of its
    /// tables: all there is to read of an answer.
    ///
    /// # Errors
    /// The text could not be judged; see [`ScanFault`].
    pub fn scan_tabled(&self, text: &[u8], wanted: &DetectorSet) -> Result<Vec<Finding>, ScanFault> {
        self.tables_beside(self.scan(text, wanted)?, text, wanted)
    }

    /// Finds the same in a text in which it is known what the `wanted` detectors see as it stands, without looking there
    /// again.
    ///
    /// # Errors
    /// The text could not be judged; see [`ScanFault`].
    pub fn scan_tabled_beyond(
        &self,
        text: &[u8],
        wanted: &DetectorSet,
        found: Vec<Finding>,
    ) -> Result<Vec<Finding>, ScanFault> {
        let unwrapped = Unwrapped::of(text);
        self.tables_beside(self.scan_beyond(&unwrapped, wanted, found)?, text, wanted)
    }

    /// Adds what is found in the tables of a text to what was found in it.
    fn tables_beside(
        &self,
        mut found: Vec<Finding>,
        text: &[u8],
        wanted: &DetectorSet,
    ) -> Result<Vec<Finding>, ScanFault> {
        let plain = found.len();
        self.scan_columns(text, wanted, &mut found)?;
        Ok(if found.len() == plain { found } else { merged(found) })
    }

    /// Adds what is found in other spellings of a text to what was found in it.
    fn spelt_beside(
        &self,
        mut found: Vec<Finding>,
        text: &[u8],
        unwrapped: Unwrapped,
        wanted: &DetectorSet,
    ) -> Result<Searched, ScanFault> {
        let (plain, mut readings) = (found.len(), Readings::default());
        for piece in pieces(text.len()) {
            let part = text.get(piece.clone()).unwrap_or_default();
            if piece.len() == text.len() {
                readings = self.scan_piece((part, 0), &unwrapped, wanted, &mut found)?;
            } else {
                let of_piece =
                    self.scan_piece((part, piece.start), &Unwrapped::of(part), wanted, &mut found)?;
                of_piece.pieces.into_iter().for_each(|(_, spelt)| readings.push(piece.clone(), spelt));
            }
        }
        self.scan_columns(text, wanted, &mut found)?;
        self.scan_hidden(text, wanted, &mut found)?;
        if let Some(once) = &unwrapped.canonical {
            self.scan_unescaped(once, wanted, &mut found)?;
        }
        readings.unwrapped = Some(unwrapped);
        let findings = if found.len() == plain { found } else { merged(found) };
        Ok(Searched { findings, spellings: Spellings::Made(Arc::new(readings)) })
    }

    /// Adds the secrets and the personal data that are found in the tables of a text, where each cell stands behind its name.
    fn scan_columns(
        &self,
        text: &[u8],
        wanted: &DetectorSet,
        found: &mut Vec<Finding>,
    ) -> Result<(), ScanFault> {
        for view in tables(text) {
            let values = self.of(wanted, &[Category::Secrets, Category::Pii]);
            let inner = self.scan(view.bytes(), &values)?;
            found.extend(inner.into_iter().map(|it| placed(it, None, |range| view.source_range(range))));
        }
        Ok(())
    }

    /// Adds what is found in the hidden messages of a text, each of which stands alone.
    fn scan_hidden(
        &self,
        text: &[u8],
        wanted: &DetectorSet,
        found: &mut Vec<Finding>,
    ) -> Result<(), ScanFault> {
        let Some(view) = view::hidden(text) else { return Ok(()) };
        let inner = self.scan(view.bytes(), wanted)?.into_iter();
        let step = Some(Encoding::Canonical);
        found.extend(inner.map(|finding| placed(finding, step, |range| view.source_range(range))));
        Ok(())
    }

    /// Adds what is found in the other spellings of a piece of a text that begins at a base, and of what is encoded in it;
    /// returns those of the piece and of its canonical view.
    fn scan_piece(
        &self,
        (part, base): (&[u8], usize),
        unwrapped: &Unwrapped,
        wanted: &DetectorSet,
        found: &mut Vec<Finding>,
    ) -> Result<Readings, ScanFault> {
        let in_text = |range: Range<usize>| range.start + base..range.end + base;
        let mut readings = self.readings(part)?;
        self.scan_readings(part, &readings, wanted, |finding| found.push(placed(finding, None, in_text)))?;
        for (encoding, view) in encoded(unwrapped) {
            let in_text = |range: Range<usize>| in_text(view.source_range(range));
            let mut spelt = self.readings(view.bytes())?;
            if encoding == Encoding::Canonical {
                spelt = spelt.beside(&readings, &view);
            }
            self.scan_readings(view.bytes(), &spelt, wanted, |finding| {
                found.push(placed(finding, Some(encoding), in_text));
            })?;
            if encoding == Encoding::Canonical {
                readings.canonical = Some(Box::new(spelt));
            }
        }
        Ok(readings)
    }

    /// Returns the readings of a text that is one piece.
    fn readings(&self, text: &[u8]) -> Result<Readings, ScanFault> {
        let mut made = Readings::default();
        made.push(0..text.len(), readings(text, self.spelling_marks()?)?);
        Ok(made)
    }

    /// Hands out what is found in some readings of a text, in its offsets.
    fn scan_readings(
        &self,
        text: &[u8],
        readings: &Readings,
        wanted: &DetectorSet,
        mut note: impl FnMut(Finding),
    ) -> Result<(), ScanFault> {
        if readings.pieces.is_empty() {
            return Ok(());
        }
        let marks = self.spelling_marks()?;
        let orders = self.of(wanted, &[Category::Injection, Category::Exfiltration]);
        let keys = self.of(wanted, &[Category::Injection, Category::Exfiltration, Category::Secrets]);
        for spelt in readings.pieces().flat_map(|(_, spelt)| spelt) {
            let looked_for = match spelt.trust() {
                Trust::All | Trust::Proven => wanted,
                Trust::Keys => &keys,
                Trust::Orders => &orders,
            };
            let is_meant = |finding: &Finding| {
                let counts = |of: &Detector| spelt.counts(finding, of, marks, text);
                orders.contains(finding.detector) || self.detector(finding.detector).is_some_and(counts)
            };
            let inner = self.scan(spelt.view.bytes(), looked_for)?.into_iter().filter(is_meant);
            inner.for_each(|finding| note(spelt.outer(finding, text.len())));
        }
        Ok(())
    }

    /// Returns what tells other spellings: of orders, and of the values whose beginnings detectors name.
    fn spelling_marks(&self) -> Result<&Marks, ScanFault> {
        let heads = || self.detectors().iter().flat_map(|detector| &detector.heads).map(String::as_str);
        self.marks.get_or_init(|| Marks::compile(heads())).as_ref().ok_or(ScanFault::Spellings)
    }
}

impl Spelt {
    /// Returns what the text says in this spelling.
    pub(super) fn bytes(&self) -> &[u8] {
        self.view.bytes()
    }

    /// Tells whether another reading in the same spelling says the same to whoever looks for the same.
    fn says(&self, other: &Self) -> bool {
        let kind = |of: &Self| (of.spelling, of.is_of_key, of.is_bare);
        kind(self) == kind(other) && self.bytes() == other.bytes()
    }

    /// Tells whether it is worth looking for orders in it.
    pub(super) fn may_order(&self) -> bool {
        !self.is_of_key && !self.is_bare
    }

    /// Returns the step that was undone for it.
    pub(super) fn step(&self) -> Encoding {
        Encoding::Spelt(self.spelling)
    }

    /// Returns what was found.
    fn value(&self, finding: &Finding) -> &[u8] {
        self.bytes().get(finding.value.clone()).unwrap_or_default()
    }

    /// Returns a finding of the reading as one of the text of a length that it was made from.
    fn outer(&self, finding: Finding, length: usize) -> Finding {
        placed(finding, Some(self.step()), |range| self.place(&range, length))
    }

    /// Returns where a range of the reading comes from, in a text of so many bytes.
    pub(super) fn place(&self, range: &Range<usize>, length: usize) -> Range<usize> {
        match &self.origin {
            Origin::View => self.view.source_range(range.clone()),
            Origin::Near => {
                let source = self.view.source_range(range.clone());
                source.start..source.end.min(source.start + range.len())
            }
            Origin::Reversed(near) => {
                let from_end = |at: usize| near.bytes().len().saturating_sub(at);
                let source = near.source_range(from_end(range.end)..from_end(range.start));
                source.start.max(source.end.saturating_sub(range.len()))..source.end
            }
            Origin::Runs(runs) => {
                let run_of = |at: usize| runs.partition_point(|(end, _)| *end <= at);
                let touched = run_of(range.start)..=run_of(range.end.saturating_sub(1));
                // They need not stand in the order in which they are read.
                let touched = || runs.get(touched.clone()).unwrap_or_default().iter().map(|(_, run)| run);
                let start = touched().map(|run| run.start).min();
                start.unwrap_or(0)..touched().map(|run| run.end).max().unwrap_or(length)
            }
        }
    }
}

/// Returns a finding as one of the text that its own was made from, by a step that was undone for it.
fn placed(finding: Finding, step: Option<Encoding>, place: impl Fn(Range<usize>) -> Range<usize>) -> Finding {
    let mut decoded_from = finding.decoded_from.clone();
    if let Some(step) = step {
        decoded_from.0.insert(0, step);
    }
    Finding {
        span: place(finding.span.clone()),
        value: place(finding.value.clone()),
        decoded_from,
        ..finding
    }
}

/// Returns what may be spelt otherwise behind an encoding: what a reader takes a text for, and what its runs of base64 and
/// of hexadecimal say, each on a line.
fn encoded(unwrapped: &Unwrapped) -> Vec<(Encoding, Cow<'_, View>)> {
    let canonical = unwrapped.canonical.iter().map(|view| (Encoding::Canonical, Cow::Borrowed(view)));
    let mut texts: Vec<(Encoding, Cow<'_, View>)> = canonical.collect();
    for run in &unwrapped.runs {
        match texts.iter_mut().find(|(encoding, _)| *encoding == run.encoding) {
            Some((_, view)) => view.to_mut().append_line(&run.view, run.source.start),
            None => texts.push((run.encoding, Cow::Borrowed(&run.view))),
        }
    }
    texts
}

/// Returns a text with its letters together that stand one by one, whatever unseen stands between; nothing if all that do
/// are ASCII.
pub(super) fn together(text: &[u8]) -> Option<View> {
    let read = |text: &[u8]| {
        (!text.is_ascii() && apart::stand_apart(text)).then(|| apart::spaced_beyond(text)).flatten()
    };
    let Some(seen) = sign::seen(text) else { return read(text) };
    Some(through(&read(seen.bytes())?, &seen))
}

/// Returns the pieces in which a text of a length is read.
fn pieces(length: usize) -> impl Iterator<Item = Range<usize>> {
    let last = length.saturating_sub(OVERLAP_BYTES).max(1);
    (0..last).step_by(PIECE_BYTES - OVERLAP_BYTES).map(move |start| start..(start + PIECE_BYTES).min(length))
}

/// Returns the readings of a text in the other spellings that these marks tell.
///
/// # Errors
/// There is more to unpack than a text may have.
fn readings(text: &[u8], marks: &Marks) -> Result<Vec<Spelt>, ScanFault> {
    let mut found = code::readings(text)?;
    found.extend(unfilled(text));
    found.extend(bidi::read(text));
    found.extend(
        framed::read(text, marks).map(|view| Spelt { is_bare: true, ..viewed(Spelling::Fillers, view) }),
    );
    found.extend(strings::read(text)?);
    for marked in marks.of(text)? {
        found.extend(marked.readings(text));
    }
    Ok(found)
}

/// Returns what a text says with spaces for its fillers: as it stands then, and with its letters together.
fn unfilled(text: &[u8]) -> Vec<Spelt> {
    let Some(view) = sign::unfilled(text) else { return Vec::new() };
    let inner = apart::stand_apart(view.bytes()).then(|| apart::spaced(view.bytes())).flatten();
    let together = inner.map(|inner| viewed(Spelling::Spaced, through(&inner, &view)));
    together.into_iter().chain([viewed(Spelling::Fillers, view)]).collect()
}

/// Returns a view of a view as one of the text that this was made from.
fn through(inner: &View, outer: &View) -> View {
    let mut view = View::default();
    let (mut in_outer, mut in_text) = (inner.following(), outer.following());
    for (at, byte) in inner.bytes().iter().enumerate() {
        view.append(&[*byte], in_text.start(in_outer.start(at)), 1, 1);
    }
    view
}

/// Makes a reading of a text of the same length.
fn same(spelling: Spelling, bytes: Vec<u8>) -> Spelt {
    let mut view = View::default();
    view.append(&bytes, 0, 1, 1);
    viewed(spelling, view)
}

fn viewed(spelling: Spelling, view: View) -> Spelt {
    Spelt { spelling, view, origin: Origin::View, is_of_key: false, is_bare: false }
}

#[cfg(test)]
mod tests;
