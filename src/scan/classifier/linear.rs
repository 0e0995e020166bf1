//! The model we train: hashed n-grams, three heads, windows and a small last step.

use super::Classifier;
use super::Head;
use super::Origin;
use super::Signals;
use super::Verdict;
use super::feature::BLOCK_BYTES;
use super::lexicon::Lexicon;
use super::normal::Normal;
use super::pool::OVERRIDE;
use super::pool::PERSONA;
use super::pool::Peak;
use super::pool::Pooled;
use super::pool::Pooling;
use super::pool::Weights;
use super::stack;
use super::stack::Stack;
use crate::scan::threat::Confidence;

/// From this length on, in bytes of the normal form, the loudest window is judged on its own, too.
const ALONE_BYTES_MIN: usize = 512;
/// What is taken off the log odds of a window on its own: a long text has many.
const ALONE_COST: f32 = 1.5;

/// A linear model, ready to judge.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// The weights of the n-grams.
    pub weights: Weights,
    /// The words with a meaning.
    pub lexicon: Lexicon,
    /// The last step.
    pub stack: Stack,
    /// From which log odds on a text is reported.
    pub levels: Levels,
}

/// From which log odds on a text is reported, by [`Origin`] in the order of [`Origin::ALL`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Levels {
    /// With medium confidence.
    pub watch: [f32; Origin::ALL.len()],
    /// With high confidence.
    pub sure: [f32; Origin::ALL.len()],
}

impl Levels {
    /// Returns how sure log odds make for a text of an origin, if they say anything.
    pub fn confidence(&self, odds: f32, origin: Origin) -> Option<Confidence> {
        let at = origin.index();
        match odds {
            odds if self.sure.get(at).is_some_and(|least| odds >= *least) => Some(Confidence::HIGH),
            odds if self.watch.get(at).is_some_and(|least| odds >= *least) => Some(Confidence::MEDIUM),
            _ => None,
        }
    }
}

impl Linear {
    /// Returns what a text in the canonical view is judged by, and its normal form.
    pub fn pooled(&self, text: &[u8]) -> (Pooled, Normal) {
        let normal = Normal::of(text);
        (Pooling::default().read(&normal, &self.lexicon, &self.weights), normal)
    }
}

impl Classifier for Linear {
    fn judge(&self, text: &[u8], origin: Origin, signals: &Signals) -> Verdict {
        let (pooled, normal) = self.pooled(text);
        let (head, peak) = foremost(&pooled);
        let window = normal.source_range(peak.from * BLOCK_BYTES..peak.until * BLOCK_BYTES);
        let bonus = self.stack.bonus(signals);
        let whole = self.stack.odds(&stack::inputs(&pooled, origin)) + bonus;
        let mut confidence = self.levels.confidence(whole, origin);
        let mut odds = whole;
        if peak.score > 0.0 && normal.len() > ALONE_BYTES_MIN {
            let alone = self.pooled(text.get(window.clone()).unwrap_or_default()).0;
            odds = whole.max(self.stack.odds(&stack::inputs(&alone, origin)) + bonus - ALONE_COST);
            // Out of its text a window says less: that is told, and not stopped.
            let told = self.levels.confidence(odds, origin).map(|it| it.min(Confidence::MEDIUM));
            confidence = confidence.max(told);
        }
        if pooled.cited && origin == Origin::User {
            // Who quotes an attack asks about it: that is told, and not stopped.
            confidence = confidence.map(|confidence| confidence.min(Confidence::MEDIUM));
        }
        Verdict {
            odds,
            head,
            window: window.start.min(text.len())..window.end.min(text.len()),
            confidence: confidence.filter(|_| !normal.is_empty()),
        }
    }
}

/// Returns the head that speaks loudest, and the window where it does.
fn foremost(pooled: &Pooled) -> (Head, Peak) {
    let loudest = |head: usize| {
        let [phrase, short, _] = pooled.peaks[head];
        if phrase.score > short.score { phrase } else { short }
    };
    let (orders, person) = (loudest(OVERRIDE), loudest(PERSONA));
    match orders.score >= person.score {
        true => (Head::Override, orders),
        false => (Head::Persona, person),
    }
}
