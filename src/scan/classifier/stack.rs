//! The last step: from pooled scores and where the text comes from to one probability.

use super::Origin;
use super::Signals;
use super::pool::ABOUT;
use super::pool::OVERRIDE;
use super::pool::PERSONA;
use super::pool::Pooled;

/// How many numbers a text is judged by.
pub const INPUTS: usize = 32;

/// How many counts of other layers are listened to.
pub const SIGNALS: usize = 2;

/// More findings of other layers than these say no more.
const SIGNALS_MAX: usize = 2;
/// Log odds beyond these say no more.
const SCORE_MAX: f32 = 8.0;

/// A logistic regression over [`inputs`].
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// The weight of each input; the first input is always one.
    pub weights: [f32; INPUTS],
    /// What a finding of medium and one of high confidence adds to the log odds.
    pub signals: [f32; SIGNALS],
}

/// Returns the numbers a text is judged by.
pub fn inputs(pooled: &Pooled, origin: Origin) -> [f32; INPUTS] {
    let cut = |score: f32| score.clamp(-SCORE_MAX, SCORE_MAX) / SCORE_MAX;
    let over = |score: f32, from: f32| (score - from).clamp(0.0, SCORE_MAX) / SCORE_MAX;
    let [phrase, short, long] = pooled.peaks[OVERRIDE].map(|peak| peak.score);
    let [person_phrase, person_short, person_long] = pooled.peaks[PERSONA].map(|peak| peak.score);
    let [_, about_short, about_long] = pooled.peaks[ABOUT].map(|peak| peak.score);
    let untrusted = if origin.is_untrusted() { 1.0 } else { 0.0 };
    let best = phrase.max(short).max(person_short).max(person_long);
    let beside = if short >= person_short { pooled.about[OVERRIDE][1] } else { pooled.about[PERSONA][1] };
    [
        1.0,
        cut(phrase),
        cut(short),
        cut(long),
        over(phrase, 0.0),
        over(short, 0.0),
        over(long, 0.0),
        over(phrase, 2.0),
        cut(person_phrase),
        cut(person_short),
        cut(person_long),
        over(person_phrase, 0.0),
        over(person_short, 0.0),
        over(person_long, 0.0),
        over(person_long, 2.0),
        cut(pooled.whole[OVERRIDE]),
        cut(pooled.whole[PERSONA]),
        cut(pooled.whole[ABOUT]),
        cut(about_short),
        cut(about_long),
        cut(pooled.about[OVERRIDE][0]),
        cut(pooled.about[PERSONA][2]),
        over(best, 0.0).min(over(beside, 0.0)),
        over(best, 1.0),
        pooled.dense[OVERRIDE],
        pooled.dense[PERSONA],
        (pooled.concepts as f32 / 8.0).min(2.0),
        pooled.quoted.min(1.0),
        ((pooled.words as f32 + 1.0).log2() / 10.0).min(2.0),
        if pooled.words < 8 { 1.0 } else { 0.0 },
        untrusted,
        untrusted * over(beside, 0.0),
    ]
}

impl Stack {
    /// Returns what the findings of other layers and whoever asks add to the log odds.
    pub fn bonus(&self, signals: &Signals) -> f32 {
        let counts = [signals.medium, signals.high].map(|count| count.min(SIGNALS_MAX) as f32);
        self.signals.iter().zip(counts).map(|(worth, count)| worth * count).sum::<f32>() + signals.bias
    }

    /// Returns the log odds that a text is an attack.
    pub fn odds(&self, inputs: &[f32; INPUTS]) -> f32 {
        self.weights.iter().zip(inputs).map(|(weight, input)| weight * input).sum()
    }
}

/// Returns the log odds of a probability.
pub fn log_odds(probability: f32) -> f32 {
    (probability / (1.0 - probability)).ln()
}

/// Returns the probability of log odds.
pub fn probability(odds: f32) -> f32 {
    1.0 / (1.0 + (-odds).exp())
}
