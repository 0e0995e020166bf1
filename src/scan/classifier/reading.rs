//! What of a text a model gets to read: its canonical view, and what is encoded in it.

use std::ops::Range;

use super::Classifier;
use super::Origin;
use super::Signals;
use super::Verdict;
use crate::scan::decode;
use crate::scan::decode::Lines;
use crate::scan::spelling;
use crate::scan::threat::Decoded;
use crate::scan::threat::Encoding;
use crate::scan::threat::Spelling;
use crate::scan::view;

/// How many layers of encoding are undone.
const DEPTH_MAX: usize = 2;
/// The shortest text that is judged, in bytes.
pub const TEXT_BYTES_MIN: usize = 12;
/// The most decoded bytes of one text that are judged, for each byte of it.
const DECODED_PER_BYTE: usize = 2;

/// A verdict, and what had to be undone for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The verdict; its window lies in the text as it stands.
    pub verdict: Verdict,
    /// The steps that were undone, outermost first.
    pub decoded_from: Decoded,
}

/// Judges a text in all its readings and returns the worst verdict.
pub fn judge(model: &dyn Classifier, text: &[u8], origin: Origin, signals: &Signals) -> Option<Told> {
    let mut budget = text.len().saturating_mul(DECODED_PER_BYTE);
    read(model, text, origin, signals, DEPTH_MAX, &mut budget)
}

fn read(
    model: &dyn Classifier,
    text: &[u8],
    origin: Origin,
    signals: &Signals,
    depth: usize,
    budget: &mut usize,
) -> Option<Told> {
    if text.len() < TEXT_BYTES_MIN {
        return None;
    }
    let canonical = view::canonical(text);
    let read = canonical.as_ref().map_or(text, |view| view.bytes());
    let mut verdict = model.judge(read, origin, signals);
    let mut decoded_from = Decoded::default();
    if let Some(view) = &canonical {
        verdict.window = view.source_range(verdict.window);
        decoded_from.0.push(Encoding::Canonical);
    }
    let mut told = Told { verdict, decoded_from };
    if let Some(together) = read_together(model, text, origin, signals).filter(|it| is_worse(it, &told)) {
        told = together;
    }
    match read_within(model, text, origin, signals, depth, budget) {
        Some(inner) if is_worse(&inner, &told) => Some(inner),
        _ => Some(told),
    }
}

/// Judges a text with its letters together that stand one by one; those of ASCII the model joins itself.
fn read_together(model: &dyn Classifier, text: &[u8], origin: Origin, signals: &Signals) -> Option<Told> {
    let view = spelling::together(text)?;
    let canonical = view::canonical(view.bytes());
    let mut verdict = model.judge(canonical.as_ref().map_or(view.bytes(), |it| it.bytes()), origin, signals);
    if let Some(canonical) = &canonical {
        verdict.window = canonical.source_range(verdict.window);
    }
    verdict.window = view.source_range(verdict.window);
    let decoded_from = Decoded([Encoding::Spelt(Spelling::Spaced)].into_iter().collect());
    Some(Told { verdict, decoded_from })
}

/// Tells whether a reading is worse than another: first by what is made of it, then by how loud it is. What is loud
/// and only told must not hide what is stopped.
fn is_worse(one: &Told, other: &Told) -> bool {
    let rank = |told: &Told| (told.verdict.confidence, told.verdict.odds);
    rank(one) > rank(other)
}

/// Judges what is encoded in a text and returns the worst verdict.
fn read_within(
    model: &dyn Classifier,
    text: &[u8],
    origin: Origin,
    signals: &Signals,
    depth: usize,
    budget: &mut usize,
) -> Option<Told> {
    if depth == 0 {
        return None;
    }
    let mut worst: Option<Told> = None;
    for run in decode::runs(text, 0, Lines::Joined) {
        let Some(rest) = budget.checked_sub(run.view.bytes().len()) else { break };
        *budget = rest;
        let inner = read_run(model, &run, origin, signals, depth, budget);
        worst = match (worst, inner) {
            (Some(worst), Some(inner)) if !is_worse(&inner, &worst) => Some(worst),
            (worst, inner) => inner.or(worst),
        };
    }
    worst
}

fn read_run(
    model: &dyn Classifier,
    run: &decode::Run,
    origin: Origin,
    signals: &Signals,
    depth: usize,
    budget: &mut usize,
) -> Option<Told> {
    // What people write has spaces; identifiers and images do not, but may be encoded once more.
    let bytes = run.view.bytes();
    let is_written = bytes.contains(&b' ') || !bytes.is_ascii();
    let read = if is_written { read } else { read_within };
    let mut told = read(model, bytes, origin, signals, depth - 1, budget)?;
    told.verdict.window = covered(run, told.verdict.window);
    told.decoded_from.0.retain(|step| *step != Encoding::Canonical);
    told.decoded_from.0.insert(0, run.encoding);
    Some(told)
}

/// Returns the encoded bytes of a window of what was decoded.
fn covered(run: &decode::Run, window: Range<usize>) -> Range<usize> {
    run.view.source_range(window)
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;
    use crate::scan::classifier::Head;
    use crate::scan::threat::Confidence;

    /// Stops what it reads, but for what is loud, which it only tells.
    #[derive(Debug)]
    struct Shy;

    impl Classifier for Shy {
        fn judge(&self, text: &[u8], _: Origin, _: &Signals) -> Verdict {
            let is_loud = memchr::memmem::find(text, b"loud").is_some();
            let (odds, confidence) =
                if is_loud { (9.0, Confidence::MEDIUM) } else { (5.0, Confidence::HIGH) };
            Verdict { odds, head: Head::Override, window: 0..text.len(), confidence: Some(confidence) }
        }
    }

    #[test]
    fn what_is_loud_and_told_does_not_hide_what_is_stopped() {
        let loud = STANDARD.encode("something that is loud and told");
        let calm = STANDARD.encode("something calm that is stopped");
        for text in [format!("This is sure. {loud}"), format!("This is loud. {loud} {calm}")] {
            let told = judge(&Shy, text.as_bytes(), Origin::User, &Signals::default()).expect("told");
            assert_eq!(told.verdict.confidence, Some(Confidence::HIGH), "{text}");
        }
    }
}
