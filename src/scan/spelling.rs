//! Other ways to spell a text: ciphers, codes, letters apart, letters turned round.
//!
//! In: a whole text. Out: readings of it, each with the way back to the bytes it was made from. A reading is only
//! made where its mark occurs: a word of an order in cipher, a run of Base32, a row of numbers; prose costs one pass
//! over the text. Streams are not read this way: what is spelt can only be told when it is complete.

use std::ops::Range;
use std::sync::LazyLock;

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
use crate::scan::view::View;

mod code;
mod letters;

/// Longer texts are not read in other spellings, in bytes.
const TEXT_BYTES_MAX: usize = 1 << 18;

/// How many readings a text has at most.
const READINGS_MAX: usize = 24;

/// The words by which an order in cipher is known.
const WORDS: [&str; 7] =
    ["ignore", "previous", "instructions", "disregard", "password", "prompt", "unrestricted"];

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

/// Three letters of which each stands alone.
const APART: &str = r"\b(?:[A-Za-z0-9][ .*_|/~+,-]{1,3}){3}[A-Za-z0-9]\b";

/// A reading of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Spelt {
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
    /// All of it comes from one stretch.
    Run(Range<usize>),
}

/// What a mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Letters moved by so many places.
    Caesar(u8),
    Reversed,
    Leet,
    Spaced,
}

/// The shapes of all marks and what each says.
static MARKS: LazyLock<Option<(Engine, Vec<Mark>)>> = LazyLock::new(|| {
    let (mut shapes, mut marks) = (Vec::new(), Vec::new());
    for word in WORDS {
        for places in 1..26 {
            shapes.push(Shape::caseless(&letters::moved(word.as_bytes(), places)));
            marks.push(Mark::Caesar(26 - places));
        }
        shapes.push(Shape::caseless(&word.bytes().rev().collect::<Vec<u8>>()));
        marks.push(Mark::Reversed);
    }
    for written in LEET_WORDS {
        let expression = format!("(?i:{written})");
        shapes.push(Shape { expression, start: Start::Known { back: 1 }, lead: None });
        marks.push(Mark::Leet);
    }
    shapes.push(Shape { expression: APART.to_owned(), start: Start::Known { back: 1 }, lead: None });
    marks.push(Mark::Spaced);
    Engine::compile(&shapes).ok().map(|engine| (engine, marks))
});

impl Scanner {
    /// Finds what the `wanted` detectors see in a whole text, in every reading of it and in other spellings.
    ///
    /// # Errors
    /// The text could not be judged; see [`ScanFault`].
    pub fn scan_spelt(&self, text: &[u8], wanted: &DetectorSet) -> Result<Vec<Finding>, ScanFault> {
        let mut found = self.scan(text, wanted)?;
        let readings = readings(text);
        if readings.is_empty() {
            return Ok(found);
        }
        let orders = self.of_orders(wanted);
        for spelt in &readings {
            let looked_for = if spelt.spelling.is_exact() { wanted } else { &orders };
            let inner = self.scan(spelt.view.bytes(), looked_for)?;
            found.extend(inner.into_iter().map(|finding| spelt.outer(finding, text.len())));
        }
        Ok(merged(found))
    }

    /// Leaves the detectors of orders and of leaks.
    fn of_orders(&self, wanted: &DetectorSet) -> DetectorSet {
        let is_order = |id: &DetectorId| {
            let category = self.detector(*id).map(|detector| detector.category);
            matches!(category, Some(Category::Injection | Category::Exfiltration))
        };
        wanted.iter().filter(is_order).collect()
    }
}

impl Spelt {
    /// Returns a finding of the reading as one of the text it was made from.
    fn outer(&self, finding: Finding, length: usize) -> Finding {
        let place = |range: &Range<usize>| match &self.origin {
            Origin::View => self.view.source_range(range.clone()),
            Origin::Reversed => length.saturating_sub(range.end)..length.saturating_sub(range.start),
            Origin::Run(run) => run.clone(),
        };
        let mut decoded_from = finding.decoded_from.clone();
        decoded_from.0.insert(0, Encoding::Spelt(self.spelling));
        Finding { span: place(&finding.span), value: place(&finding.value), decoded_from, ..finding }
    }
}

/// Tells whether some part of a text may have a reading in another spelling.
pub fn may_be_spelt(text: &[u8]) -> bool {
    !all_readings(text).is_empty()
}

/// Returns the readings of a text in other spellings, unless it is too long.
fn readings(text: &[u8]) -> Vec<Spelt> {
    if text.len() > TEXT_BYTES_MAX { Vec::new() } else { all_readings(text) }
}

fn all_readings(text: &[u8]) -> Vec<Spelt> {
    let mut found = code::readings(text);
    for mark in marks(text) {
        match mark {
            Mark::Caesar(places) => found.push(same(Spelling::Caesar, letters::moved(text, places))),
            Mark::Reversed => found.extend(
                letters::reversed(text)
                    .map(|bytes| Spelt { origin: Origin::Reversed, ..same(Spelling::Reversed, bytes) }),
            ),
            Mark::Spaced => found.extend(letters::spaced(text).map(|view| viewed(Spelling::Spaced, view))),
            Mark::Leet => {
                found.extend([b'i', b'l'].map(|one| same(Spelling::Leet, letters::unleeted(text, one))))
            }
        }
    }
    found.truncate(READINGS_MAX);
    found
}

/// Returns the different marks of a text.
fn marks(text: &[u8]) -> Vec<Mark> {
    let Some((engine, known)) = &*MARKS else { return Vec::new() };
    let scanned = engine.scan(
        text,
        |_| true,
        |runs| {
            let mut found: Vec<Mark> = Vec::new();
            for Run { group, last, .. } in runs {
                let marks = engine.shapes(*group).iter().filter_map(|shape| known.get(*shape as usize));
                let is_new = |mark: &&Mark| {
                    !found.contains(mark) && (**mark != Mark::Leet || letters::has_leet(text, *last))
                };
                let new: Vec<Mark> = marks.filter(is_new).copied().collect();
                found.extend(new);
            }
            found
        },
    );
    scanned.unwrap_or_default()
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
