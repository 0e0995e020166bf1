//! The model we train: hashed n-grams, three heads, windows and a small last step.

use parking_lot::Mutex;

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

/// For how long a text, in bytes, room is kept when it was read.
const ROOM_BYTES: usize = 256 << 10;
/// How much room is kept: as many texts as are usually read at once.
const ROOMS_MAX: usize = 64;

/// A linear model.
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

/// A linear model at work, with room for as many texts at once as there are.
#[derive(Debug)]
pub struct Judge {
    model: Linear,
    idle: Mutex<Vec<Room>>,
}

/// What one text at a time is read in.
#[derive(Debug, Default)]
struct Room {
    normal: Normal,
    pooling: Pooling,
}

impl Room {
    fn pooled(&mut self, model: &Linear, text: &[u8]) -> Pooled {
        self.normal.read(text);
        self.pooling.read(&self.normal, &model.lexicon, &model.weights)
    }
}

impl Judge {
    /// Puts a model to work.
    pub fn new(model: Linear) -> Self {
        Self { model, idle: Mutex::default() }
    }

    fn judge_in(&self, room: &mut Room, text: &[u8], origin: Origin, signals: &Signals) -> Verdict {
        let Linear { stack, levels, .. } = &self.model;
        let pooled = room.pooled(&self.model, text);
        let (head, peak) = foremost(&pooled);
        let window = room.normal.source_range(peak.from * BLOCK_BYTES..peak.until * BLOCK_BYTES);
        let (bytes, bonus) = (room.normal.len(), stack.bonus(signals));
        let whole = stack.odds(&stack::inputs(&pooled, origin)) + bonus;
        let mut confidence = levels.confidence(whole, origin);
        let mut odds = whole;
        if peak.score > 0.0 && bytes > ALONE_BYTES_MIN {
            let alone = room.pooled(&self.model, text.get(window.clone()).unwrap_or_default());
            odds = whole.max(stack.odds(&stack::inputs(&alone, origin)) + bonus - ALONE_COST);
            // Out of its text a window says less: that is told, and not stopped.
            let told = levels.confidence(odds, origin).map(|it| it.min(Confidence::MEDIUM));
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
            confidence: confidence.filter(|_| bytes > 0),
        }
    }
}

impl Classifier for Judge {
    fn judge(&self, text: &[u8], origin: Origin, signals: &Signals) -> Verdict {
        let mut room = self.idle.lock().pop().unwrap_or_default();
        let verdict = self.judge_in(&mut room, text, origin, signals);
        let mut idle = self.idle.lock();
        if text.len() <= ROOM_BYTES && idle.len() < ROOMS_MAX {
            idle.push(room);
        }
        verdict
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
