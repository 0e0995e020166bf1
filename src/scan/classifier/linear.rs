//! The model we train: hashed n-grams, three heads, windows and a small last step.

use std::ops::Range;

use parking_lot::Mutex;

use super::Classifier;
use super::Head;
use super::Origin;
use super::Signals;
use super::Unjudged;
use super::Verdict;
use super::citation;
use super::feature::BLOCK_BYTES;
use super::lexicon::Lexicon;
use super::litany::Shortened;
use super::normal::Normal;
use super::pool::OVERRIDE;
use super::pool::PERSONA;
use super::pool::Peak;
use super::pool::Pooled;
use super::pool::Pooling;
use super::pool::Weights;
use super::sentence;
use super::stack;
use super::stack::Stack;
use crate::scan::threat::Confidence;

/// From this length on, in bytes of the normal form, the loudest window is judged on its own, too.
const ALONE_BYTES_MIN: usize = 512;
/// What is taken off the log odds of a window on its own: a long text has many.
const ALONE_COST: f32 = 1.5;

/// For how many bytes of what a tool gave back, in the normal form, the sentences of one more window are judged one by one,
/// and of how many at most: an order in a document stands among what is as loud by chance.
const OTHERS_EVERY_BYTES: usize = 2048;
const OTHERS_MAX: usize = 8;
/// From which length on it has sentences that are judged so.
const OTHERS_BYTES_MIN: usize = 160;
/// What is taken off the log odds of such a sentence before it stops anything: what is less sure is told.
const SENTENCE_COST: f32 = 0.5;
/// The shortest sentence that is judged on its own there.
const SENTENCE_BYTES_MIN: usize = 24;

/// How far the lines of a window may reach beyond it, in bytes, to be judged with it.
const LINE_BYTES_MAX: usize = 400;

/// Log odds beyond the threshold for high confidence from which on a model is as sure as it gets.
const CERTAIN_ODDS: f32 = 4.0;
/// How many percent of confidence there are between medium and high, and beyond high.
const MEDIUM_STEPS: u8 = 29;
const HIGH_STEPS: u8 = 9;

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
    /// Returns how sure log odds make for a text of an origin, if they say anything: the surer, the further they are
    /// beyond the threshold.
    pub fn confidence(&self, odds: f32, origin: Origin) -> Option<Confidence> {
        let at = origin.index();
        let (watch, sure) = (*self.watch.get(at)?, *self.sure.get(at)?);
        let graded = |from: Confidence, share: f32, steps: u8| {
            Confidence::from_percent(from.percent() + (share.clamp(0.0, 1.0) * f32::from(steps)) as u8)
        };
        match odds {
            odds if odds >= sure => Some(graded(Confidence::HIGH, (odds - sure) / CERTAIN_ODDS, HIGH_STEPS)),
            odds if odds >= watch => {
                Some(graded(Confidence::MEDIUM, (odds - watch) / (sure - watch), MEDIUM_STEPS))
            }
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
        let (mut head, peak) = foremost(&pooled);
        let mut window = source_of(&room.normal, &peak);
        let (bytes, bonus) = (room.normal.len(), stack.bonus(signals));
        let whole = stack.odds(&stack::inputs(&pooled, origin)) + bonus;
        let mut confidence = levels.confidence(whole, origin);
        let mut odds = whole;
        let loudest = loudest_lines(text, &room.normal, &pooled);
        let others = match confidence {
            Some(confidence) if confidence >= Confidence::HIGH => Vec::new(),
            Some(_) | None => self.other_lines(room, text, origin),
        };
        if let Some(lines) = loudest {
            let alone = room.pooled(&self.model, text.get(lines).unwrap_or_default());
            odds = whole.max(stack.odds(&stack::inputs(&alone, origin)) + bonus - ALONE_COST);
            // Out of its text a window says less: that is told, and not stopped.
            let told = levels.confidence(odds, origin).map(told_only);
            confidence = confidence.max(told);
        }
        let mut others = others.into_iter();
        while confidence.is_none_or(|it| it < Confidence::HIGH)
            && let Some(lines) = others.next()
        {
            let alone = room.pooled(&self.model, text.get(lines.clone()).unwrap_or_default());
            let said = stack.odds(&stack::inputs(&alone, origin)) + bonus;
            let is_high =
                |odds: f32| levels.confidence(odds, origin).is_some_and(|it| it >= Confidence::HIGH);
            if is_high(said) {
                let told = if is_high(said - SENTENCE_COST) { Confidence::HIGH } else { Confidence::MEDIUM };
                if confidence.is_none_or(|it| it < told) {
                    (odds, head, window) = (odds.max(said - ALONE_COST), foremost(&alone).0, lines);
                    confidence = Some(told);
                }
            }
        }
        let is_sure = confidence.is_some_and(|it| it >= Confidence::HIGH);
        if is_sure && origin == Origin::User && self.is_cited(room, text, &window, bonus) {
            // Who quotes an attack asks about it: that is told, and not stopped.
            confidence = confidence.map(told_only);
        }
        Verdict {
            odds,
            head,
            window: window.start.min(text.len())..window.end.min(text.len()),
            confidence: confidence.filter(|_| bytes > 0),
        }
    }
}

impl Judge {
    /// Returns what of a text of a tool is judged on its own besides, which a room has just read: the lines of its loudest
    /// windows, together and one by one, and their sentences.
    fn other_lines(&self, room: &Room, text: &[u8], origin: Origin) -> Vec<Range<usize>> {
        let bytes = room.normal.len();
        if origin != Origin::Tool || bytes < OTHERS_BYTES_MIN {
            return Vec::new();
        }
        let most = (bytes / OTHERS_EVERY_BYTES).clamp(1, OTHERS_MAX);
        let mut others = Vec::new();
        for peak in room.pooling.loudest(&room.normal, &self.model.weights, most, LINE_BYTES_MAX) {
            let lines = lines_of(text, &source_of(&room.normal, &peak));
            let within = text.get(lines.clone()).unwrap_or_default();
            let placed = |part: Range<usize>| part.start + lines.start..part.end + lines.start;
            let parts = sentence::lines(within).chain(sentence::sentences(within));
            let apart = parts.filter(|part| (SENTENCE_BYTES_MIN..within.len()).contains(&part.len()));
            let from = others.len();
            others.push(lines.clone());
            for part in apart.map(placed) {
                if !others[from..].contains(&part) {
                    others.push(part);
                }
            }
        }
        others
    }

    /// Tells whether a text a person wrote speaks loudly only because it quotes something loud at its window: one of the
    /// quotations there would be reported alone, and what stands around all quotations would not be stopped. What others
    /// found says nothing of the latter: it may lie within.
    fn is_cited(&self, room: &mut Room, text: &[u8], window: &Range<usize>, bonus: f32) -> bool {
        let quotations = citation::quotations(text);
        let mut near = quotations.iter().filter(|it| it.start < window.end && window.start < it.end);
        let is_loud = |it: &Range<usize>, room: &mut Room| {
            self.told_alone(room, text.get(it.clone()).unwrap_or_default(), bonus).is_some()
        };
        near.any(|it| is_loud(it, room))
            && self
                .told_alone(room, &citation::without(text, &quotations), bonus.min(0.0))
                .is_none_or(|around| around < Confidence::HIGH)
    }

    /// Returns how sure it is of a part of what a person wrote.
    fn told_alone(&self, room: &mut Room, part: &[u8], bonus: f32) -> Option<Confidence> {
        let Linear { stack, levels, .. } = &self.model;
        let odds = stack.odds(&stack::inputs(&room.pooled(&self.model, part), Origin::User)) + bonus;
        levels.confidence(odds, Origin::User)
    }
}

impl Classifier for Judge {
    fn judge(
        &self,
        text: &[u8],
        origin: Origin,
        signals: &Signals,
        _: &(dyn Fn() -> bool + Sync),
    ) -> Result<Verdict, Unjudged> {
        let mut room = self.idle.lock().pop().unwrap_or_default();
        let mut verdict = self.judge_in(&mut room, text, origin, signals);
        if let Some(short) = verdict.confidence.and_then(|_| Shortened::of(text)) {
            verdict = self.judge_in(&mut room, &short.text, origin, signals);
            verdict.window = short.source(&verdict.window);
        }
        let mut idle = self.idle.lock();
        if text.len() <= ROOM_BYTES && idle.len() < ROOMS_MAX {
            idle.push(room);
        }
        Ok(verdict)
    }
}

/// Returns a confidence that is told and not stopped.
pub fn told_only(confidence: Confidence) -> Confidence {
    confidence.min(Confidence::from_percent(Confidence::MEDIUM.percent() + MEDIUM_STEPS))
}

/// Returns the lines of the loudest window that are judged on their own, too, if there are any: those of a long text.
pub fn loudest_lines(text: &[u8], normal: &Normal, pooled: &Pooled) -> Option<Range<usize>> {
    let (_, peak) = foremost(pooled);
    let is_told = peak.score > 0.0 && normal.len() > ALONE_BYTES_MIN;
    is_told.then(|| lines_of(text, &source_of(normal, &peak)))
}

/// Returns where a window lies in the text.
fn source_of(normal: &Normal, peak: &Peak) -> Range<usize> {
    normal.source_range(peak.from * BLOCK_BYTES..peak.until * BLOCK_BYTES)
}

/// Returns the lines that a window lies in, or the window where they are long.
fn lines_of(text: &[u8], window: &Range<usize>) -> Range<usize> {
    let before = text.get(..window.start).unwrap_or_default();
    let behind = text.get(window.end..).unwrap_or_default();
    let start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
    let end = memchr::memchr(b'\n', behind).map_or(text.len(), |at| window.end + at);
    let near = |bytes: usize| bytes <= LINE_BYTES_MAX;
    let start = if near(window.start.saturating_sub(start)) { start } else { window.start };
    let end = if near(end.saturating_sub(window.end)) { end } else { window.end };
    start..end
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
