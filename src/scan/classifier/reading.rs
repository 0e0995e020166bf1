//! What of a text a model gets to read: its canonical view, and what is encoded in it.

use std::ops::Range;

use super::Classifier;
use super::Origin;
use super::Signals;
use super::Unjudged;
use super::Verdict;
use crate::scan::decode;
use crate::scan::decode::Lines;
use crate::scan::spelling;
use crate::scan::threat::Confidence;
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
///
/// # Errors
/// Some of it was not judged, and what was is not sure.
pub fn judge(
    model: &dyn Classifier,
    text: &[u8],
    origin: Origin,
    signals: &Signals,
    expired: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Told>, Unjudged> {
    let mut budget = text.len().saturating_mul(DECODED_PER_BYTE);
    Asked { model, origin, signals, expired }.read(text, DEPTH_MAX, &mut budget)
}

/// A model, and what it is told of every reading of a text.
struct Asked<'a> {
    model: &'a dyn Classifier,
    origin: Origin,
    signals: &'a Signals,
    expired: &'a (dyn Fn() -> bool + Sync),
}

impl Asked<'_> {
    fn read(&self, text: &[u8], depth: usize, budget: &mut usize) -> Result<Option<Told>, Unjudged> {
        if text.len() < TEXT_BYTES_MIN {
            return Ok(None);
        }
        let canonical = view::canonical(text);
        let mut verdict = self.judge(canonical.as_ref().map_or(text, |view| view.bytes()))?;
        let mut decoded_from = Decoded::default();
        if let Some(view) = &canonical {
            verdict.window = view.source_range(verdict.window);
            decoded_from.0.push(Encoding::Canonical);
        }
        let told = worst(Told { verdict, decoded_from }, self.read_together(text))?;
        worst(told, self.read_within(text, depth, budget)).map(Some)
    }

    fn judge(&self, text: &[u8]) -> Result<Verdict, Unjudged> {
        self.model.judge(text, self.origin, self.signals, self.expired)
    }

    /// Judges a text with its letters together that stand one by one; those of ASCII our own model joins itself.
    fn read_together(&self, text: &[u8]) -> Result<Option<Told>, Unjudged> {
        let Some(view) = spelling::together(text) else { return Ok(None) };
        let canonical = view::canonical(view.bytes());
        let mut verdict = self.judge(canonical.as_ref().map_or(view.bytes(), |it| it.bytes()))?;
        if let Some(canonical) = &canonical {
            verdict.window = canonical.source_range(verdict.window);
        }
        verdict.window = view.source_range(verdict.window);
        let decoded_from = Decoded([Encoding::Spelt(Spelling::Spaced)].into_iter().collect());
        Ok(Some(Told { verdict, decoded_from }))
    }

    /// Judges what is encoded in a text and returns the worst verdict.
    fn read_within(&self, text: &[u8], depth: usize, budget: &mut usize) -> Result<Option<Told>, Unjudged> {
        if depth == 0 {
            return Ok(None);
        }
        let mut told: Option<Told> = None;
        for run in decode::runs(text, 0, Lines::Joined) {
            let Some(rest) = budget.checked_sub(run.view.bytes().len()) else { break };
            *budget = rest;
            let inner = self.read_run(&run, depth, budget);
            told = match told {
                Some(told) => Some(worst(told, inner)?),
                None => inner?,
            };
        }
        Ok(told)
    }

    fn read_run(
        &self,
        run: &decode::Run,
        depth: usize,
        budget: &mut usize,
    ) -> Result<Option<Told>, Unjudged> {
        // What people write has spaces; identifiers and images do not, but may be encoded once more.
        let bytes = run.view.bytes();
        let is_written = bytes.contains(&b' ') || !bytes.is_ascii();
        let told = match is_written {
            true => self.read(bytes, depth - 1, budget)?,
            false => self.read_within(bytes, depth - 1, budget)?,
        };
        Ok(told.map(|mut told| {
            told.verdict.window = covered(run, told.verdict.window);
            told.decoded_from.0.retain(|step| *step != Encoding::Canonical);
            told.decoded_from.0.insert(0, run.encoding);
            told
        }))
    }
}

/// Returns the worse of two readings. What is sure stays so, whatever could not be read beside it.
fn worst(told: Told, other: Result<Option<Told>, Unjudged>) -> Result<Told, Unjudged> {
    match other {
        Ok(Some(other)) if is_worse(&other, &told) => Ok(other),
        Ok(_) => Ok(told),
        Err(_) if told.verdict.confidence.is_some_and(|it| it >= Confidence::HIGH) => Ok(told),
        Err(unjudged) => Err(unjudged),
    }
}

/// Tells whether a reading is worse than another: first by what is made of it, then by how loud it is. What is loud
/// and only told must not hide what is stopped.
fn is_worse(one: &Told, other: &Told) -> bool {
    let rank = |told: &Told| (told.verdict.confidence, told.verdict.odds);
    rank(one) > rank(other)
}

/// Returns the encoded bytes of a window of what was decoded.
fn covered(run: &decode::Run, window: Range<usize>) -> Range<usize> {
    run.view.source_range(window)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;
    use crate::scan::classifier::Head;

    /// Stops what it reads, but for what is loud, which it only tells.
    #[derive(Debug)]
    struct Shy;

    impl Classifier for Shy {
        fn judge(
            &self,
            text: &[u8],
            _: Origin,
            _: &Signals,
            expired: &(dyn Fn() -> bool + Sync),
        ) -> Result<Verdict, Unjudged> {
            if expired() {
                return Err(Unjudged::Late);
            }
            let is_loud = memchr::memmem::find(text, b"loud").is_some();
            let (odds, confidence) =
                if is_loud { (9.0, Confidence::MEDIUM) } else { (5.0, Confidence::HIGH) };
            Ok(Verdict { odds, head: Head::Override, window: 0..text.len(), confidence: Some(confidence) })
        }
    }

    #[test]
    fn what_is_loud_and_told_does_not_hide_what_is_stopped() {
        let loud = STANDARD.encode("something that is loud and told");
        let calm = STANDARD.encode("something calm that is stopped");
        for text in [format!("This is sure. {loud}"), format!("This is loud. {loud} {calm}")] {
            let told = judge(&Shy, text.as_bytes(), Origin::User, &Signals::default(), &|| false);
            let told = told.unwrap().expect("told");
            assert_eq!(told.verdict.confidence, Some(Confidence::HIGH), "{text}");
        }
    }

    #[test]
    fn what_is_sure_stays_so_when_the_time_ends_and_nothing_else_does() {
        let judged_in_time = |text: &str, readings: usize| {
            let asked = AtomicUsize::new(0);
            let expired = || asked.fetch_add(1, Ordering::Relaxed) >= readings;
            judge(&Shy, text.as_bytes(), Origin::User, &Signals::default(), &expired)
        };
        let calm = STANDARD.encode("something calm that is stopped");
        let told = judged_in_time(&format!("This is sure. {calm}"), 1).unwrap().expect("told");
        assert_eq!(told.verdict.confidence, Some(Confidence::HIGH));
        let loud = format!("This is loud and only told. {calm}");
        assert_eq!(judged_in_time(&loud, 1), Err(Unjudged::Late));
        assert!(judged_in_time(&loud, 2).is_ok());
        assert_eq!(judged_in_time("This is sure.", 0), Err(Unjudged::Late));
    }
}
