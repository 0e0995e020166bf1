//! Other ways to spell a text: ciphers, codes, letters apart, letters turned round.
//!
//! In: a whole text. Out: readings of it, and of what is encoded in it, each with the way back to the bytes it was made from. A reading is only
//! made where its mark occurs: letters as frequent as in no language, a word of an order turned round, a run of Base32, a
//! row of numbers; prose costs one pass over the text. Streams are not read this way: what is spelt can only be told when it is complete.

use std::ops::Range;
use std::sync::LazyLock;

use crate::scan::decode;
use crate::scan::decode::Lines;
use crate::scan::engine::Engine;
use crate::scan::engine::Run;
use crate::scan::scanner::ScanFault;
use crate::scan::scanner::Scanner;
use crate::scan::scanner::merged;
use crate::scan::shape::Shape;
use crate::scan::shape::Start;
use crate::scan::threat::Category;
use crate::scan::threat::DetectorId;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Encoding;
use crate::scan::threat::Finding;
use crate::scan::threat::Spelling;
use crate::scan::view;
use crate::scan::view::View;

mod apart;
mod base85;
mod braille;
mod code;
mod deflate;
mod group;
mod gzip;
mod letters;
mod sign;
mod unescaped;

use self::letters::Cipher;

/// Longer texts are read piece by piece, in bytes.
const PIECE_BYTES: usize = 1 << 18;

/// How much of a piece the next one begins with, in bytes: what is spelt and looked for is shorter.
const OVERLAP_BYTES: usize = 1 << 14;

/// The words by which an order is known that is turned round, or in the cipher of everyday.
const WORDS: [&str; 13] = [
    "ignore",
    "previous",
    "instructions",
    "disregard",
    "password",
    "prompt",
    "unrestricted",
    "forget",
    "reveal",
    "system",
    "pretend",
    "override",
    "secret",
];

/// The beginnings by which a key is known that is written so: those of most providers that are four signs or more.
const KEY_HEADS: [&str; 33] = [
    "AKIA",
    "ASIA",
    "AIza",
    "GOCSPX-",
    "ya29.",
    "ghp_",
    "ghu_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xapp-",
    "sk-ant-",
    "sk-proj-",
    "sk-svcacct-",
    "sk-or-v1-",
    "sk_live_",
    "rk_live_",
    "whsec_",
    "gsk_",
    "xai-",
    "pplx-",
    "npm_",
    "pypi-",
    "dop_v1_",
    "shpat_",
    "shpss_",
    "hvs.",
    "lin_api_",
    "eyJhbGciOi",
    "-----BEGIN ",
];

/// How far that cipher moves letters.
const ROT13: u8 = 13;

/// The same words with what stands for their letters.
const LEET_WORDS: [&str; 7] = [
    "[i1!|][g69]n[o0]r[e3]",
    "pr[e3]v[i1!][o0]u[s5$]",
    "[i1!]n[s5$][t7+]ruc[t7+][i1!][o0]n",
    "d[i1!][s5$]r[e3][g69][a4@]rd",
    "p[a4@][s5$][s5$]w[o0]rd",
    "pr[o0]mp[t7+]",
    "j[a4@][i1!]lbr[e3][a4@]k",
];

/// A reading of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spelt {
    spelling: Spelling,
    view: View,
    origin: Origin,
}

/// How a reading leads back to its text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    /// By the view itself.
    View,
    /// From the other end.
    Reversed,
    /// From stretches, each with where it ends in the reading.
    Runs(Vec<(usize, Range<usize>)>),
}

/// What a mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Letters written as others, and what undoes it.
    Cipher(Cipher),
    Reversed,
    Leet,
    Spaced,
}

/// The shapes of all marks and what each says.
static MARKS: LazyLock<Option<Marks>> = LazyLock::new(|| {
    let (mut shapes, mut marks) = (Vec::new(), Vec::new());
    for word in WORDS {
        shapes.push(Shape::caseless(&letters::moved(word.as_bytes(), ROT13)));
        marks.push(Mark::Cipher(Cipher::Moved(ROT13)));
        shapes.push(Shape::caseless(&word.bytes().rev().collect::<Vec<u8>>()));
        marks.push(Mark::Reversed);
    }
    for head in KEY_HEADS {
        shapes.push(Shape::literal(&letters::moved(head.as_bytes(), ROT13)));
        marks.push(Mark::Cipher(Cipher::Moved(ROT13)));
        shapes.push(Shape::literal(&head.bytes().rev().collect::<Vec<u8>>()));
        marks.push(Mark::Reversed);
    }
    for written in LEET_WORDS {
        let expression = format!("(?i:{written})");
        shapes.push(Shape { expression, start: Start::Known { back: 1 }, lead: None });
        marks.push(Mark::Leet);
    }
    Engine::compile(&shapes).ok().map(|engine| Marks { engine, marks })
});

/// What is looked for to tell other spellings, and what each says.
struct Marks {
    engine: Engine,
    marks: Vec<Mark>,
}

impl Scanner {
    /// Finds what the `wanted` detectors see in a whole text, in every reading of it and in other spellings.
    ///
    /// # Errors
    /// The text could not be judged; see [`ScanFault`].
    pub fn scan_spelt(&self, text: &[u8], wanted: &DetectorSet) -> Result<Vec<Finding>, ScanFault> {
        self.spelt_beside(self.scan(text, wanted)?, text, wanted)
    }

    /// Finds the same in a text that has nothing for the `wanted` detectors as it stands, without looking there again.
    ///
    /// # Errors
    /// The text could not be judged; see [`ScanFault`].
    pub fn scan_spelt_beyond(&self, text: &[u8], wanted: &DetectorSet) -> Result<Vec<Finding>, ScanFault> {
        self.spelt_beside(self.scan_beyond(text, wanted)?, text, wanted)
    }

    /// Adds what is found in other spellings of a text to what was found in it.
    fn spelt_beside(
        &self,
        mut found: Vec<Finding>,
        text: &[u8],
        wanted: &DetectorSet,
    ) -> Result<Vec<Finding>, ScanFault> {
        let plain = found.len();
        for piece in pieces(text.len()) {
            self.scan_piece(text, piece, wanted, &mut found)?;
        }
        self.scan_unescaped(text, wanted, &mut found)?;
        Ok(if found.len() == plain { found } else { merged(found) })
    }

    /// Adds what is found in the other spellings of a piece of a text, and of what is encoded in it.
    fn scan_piece(
        &self,
        text: &[u8],
        piece: Range<usize>,
        wanted: &DetectorSet,
        found: &mut Vec<Finding>,
    ) -> Result<(), ScanFault> {
        let part = text.get(piece.clone()).unwrap_or_default();
        let in_text = |range: Range<usize>| range.start + piece.start..range.end + piece.start;
        self.scan_readings(part, wanted, |finding| found.push(placed(finding, None, in_text)))?;
        for (encoding, view) in encoded(part) {
            let in_text = |range: Range<usize>| in_text(view.source_range(range));
            self.scan_readings(view.bytes(), wanted, |finding| {
                found.push(placed(finding, Some(encoding), in_text));
            })?;
        }
        Ok(())
    }

    /// Hands out what is found in the other spellings of a text, in its offsets.
    fn scan_readings(
        &self,
        text: &[u8],
        wanted: &DetectorSet,
        mut note: impl FnMut(Finding),
    ) -> Result<(), ScanFault> {
        let readings = readings(text)?;
        if readings.is_empty() {
            return Ok(());
        }
        let orders = self.of(wanted, &[Category::Injection, Category::Exfiltration]);
        let keys = self.of(wanted, &[Category::Injection, Category::Exfiltration, Category::Secrets]);
        for spelt in &readings {
            let looked_for = match spelt.spelling {
                Spelling::Caesar | Spelling::Reversed => &keys,
                spelling if spelling.is_exact() => wanted,
                _ => &orders,
            };
            let is_meant = |finding: &Finding| {
                spelt.spelling.is_exact() || orders.contains(finding.detector) || spelt.has_key_at(finding)
            };
            let inner = self.scan(spelt.view.bytes(), looked_for)?.into_iter().filter(is_meant);
            inner.for_each(|finding| note(spelt.outer(finding, text.len())));
        }
        Ok(())
    }

    /// Leaves the detectors of some categories.
    fn of(&self, wanted: &DetectorSet, categories: &[Category]) -> DetectorSet {
        let is_of = |id: &DetectorId| {
            self.detector(*id).is_some_and(|detector| categories.contains(&detector.category))
        };
        wanted.iter().filter(is_of).collect()
    }
}

impl Spelt {
    /// Returns what the text says in this spelling.
    pub(super) fn bytes(&self) -> &[u8] {
        self.view.bytes()
    }

    /// Returns the step that was undone for it.
    pub(super) fn step(&self) -> Encoding {
        Encoding::Spelt(self.spelling)
    }

    /// Tells whether what was found begins as keys do: turned letters look like drawn ones.
    fn has_key_at(&self, finding: &Finding) -> bool {
        let value = self.bytes().get(finding.value.clone()).unwrap_or_default();
        KEY_HEADS.iter().any(|head| value.starts_with(head.as_bytes()))
    }

    /// Returns a finding of the reading as one of the text of a length that it was made from.
    fn outer(&self, finding: Finding, length: usize) -> Finding {
        placed(finding, Some(self.step()), |range| self.place(&range, length))
    }

    /// Returns where a range of the reading comes from, in a text of so many bytes.
    pub(super) fn place(&self, range: &Range<usize>, length: usize) -> Range<usize> {
        match &self.origin {
            Origin::View => self.view.source_range(range.clone()),
            Origin::Reversed => length.saturating_sub(range.end)..length.saturating_sub(range.start),
            Origin::Runs(runs) => {
                let run_of = |at: usize| runs.get(runs.partition_point(|(end, _)| *end <= at));
                let (first, last) = (run_of(range.start), run_of(range.end.saturating_sub(1)));
                let start = first.map_or(0, |(_, run)| run.start);
                start..last.map_or(length, |(_, run)| run.end).max(start)
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
fn encoded(text: &[u8]) -> Vec<(Encoding, View)> {
    let mut texts: Vec<(Encoding, View)> =
        view::canonical(text).map(|view| (Encoding::Canonical, view)).into_iter().collect();
    for run in decode::runs(text, 0, Lines::Joined) {
        match texts.iter_mut().find(|(encoding, _)| *encoding == run.encoding) {
            Some((_, view)) => view.append_line(&run.view, run.source.start),
            None => texts.push((run.encoding, run.view)),
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

/// Tells whether some part of a text may have a reading in another spelling.
///
/// # Errors
/// The text could not be searched.
pub fn may_be_spelt(text: &[u8]) -> Result<bool, ScanFault> {
    if !marks(text)?.is_empty() {
        return Ok(true);
    }
    if sign::unfilled(text).is_some() {
        return Ok(true);
    }
    match code::readings(text) {
        // Too much for one look, if all texts of a body are one: each of them is looked at alone.
        Err(ScanFault::TooMuchDecoded) => Ok(true),
        readings => Ok(!readings?.is_empty()),
    }
}

/// Returns the pieces in which a text of a length is read.
pub(super) fn pieces(length: usize) -> impl Iterator<Item = Range<usize>> {
    let last = length.saturating_sub(OVERLAP_BYTES).max(1);
    (0..last).step_by(PIECE_BYTES - OVERLAP_BYTES).map(move |start| start..(start + PIECE_BYTES).min(length))
}

/// Returns the readings of a text in other spellings.
///
/// # Errors
/// There is more to unpack than a text may have.
pub(super) fn readings(text: &[u8]) -> Result<Vec<Spelt>, ScanFault> {
    let mut found = code::readings(text)?;
    found.extend(unfilled(text));
    for mark in marks(text)? {
        match mark {
            Mark::Cipher(Cipher::Moved(places)) => {
                found.push(same(Spelling::Caesar, letters::moved(text, places)));
            }
            Mark::Cipher(Cipher::Mirrored) => found.push(same(Spelling::Caesar, letters::mirrored(text))),
            Mark::Reversed => {
                let reversed = same(Spelling::Reversed, letters::reversed(text));
                found.push(Spelt { origin: Origin::Reversed, ..reversed });
                found.push(same(Spelling::Reversed, letters::words_reversed(text)));
            }
            Mark::Spaced => found.extend(apart::spaced(text).map(|view| viewed(Spelling::Spaced, view))),
            Mark::Leet => {
                found.extend([b'i', b'l'].map(|one| same(Spelling::Leet, letters::unleeted(text, one))))
            }
        }
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

/// Returns the different marks of a text.
fn marks(text: &[u8]) -> Result<Vec<Mark>, ScanFault> {
    let mut marks = MARKS.as_ref().ok_or(ScanFault::Spellings)?.find(text)?;
    for cipher in letters::ciphers(text).into_iter().map(Mark::Cipher) {
        if !marks.contains(&cipher) {
            marks.push(cipher);
        }
    }
    if apart::stand_apart(text) {
        marks.push(Mark::Spaced);
    }
    Ok(marks)
}

impl Marks {
    fn find(&self, text: &[u8]) -> Result<Vec<Mark>, ScanFault> {
        let scanned = self.engine.scan(
            text,
            0..text.len(),
            |_| true,
            |runs| {
                let mut found: Vec<Mark> = Vec::new();
                for Run { group, last, .. } in runs {
                    for shape in self.engine.shapes(*group) {
                        let Some(mark) = self.marks.get(*shape as usize) else { continue };
                        if !found.contains(mark) && (*mark != Mark::Leet || letters::has_leet(text, *last)) {
                            found.push(*mark);
                        }
                    }
                }
                found
            },
        );
        Ok(scanned?)
    }
}

/// Makes a reading of a text of the same length.
fn same(spelling: Spelling, bytes: Vec<u8>) -> Spelt {
    let mut view = View::default();
    view.append(&bytes, 0, 1, 1);
    viewed(spelling, view)
}

fn viewed(spelling: Spelling, view: View) -> Spelt {
    Spelt { spelling, view, origin: Origin::View }
}

#[cfg(test)]
mod tests;
