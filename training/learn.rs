//! Learns the weights of the heads: logistic regression on the strongest windows of each text.
//!
//! A text is as bad as its worst window, so a text that is an attack teaches with its strongest window of each
//! length, and a harmless one with its strongest and with one by chance. What speaks for an attack has to be seen
//! in attacks of two sources. Everything is done in one order by one thread: the same rows give the same bytes.

use std::ops::Range;

use portcullis::scan::classifier::feature;
use portcullis::scan::classifier::feature::BLOCK_BYTES;
use portcullis::scan::classifier::feature::Sink;
use portcullis::scan::classifier::feature::Spelt;
use portcullis::scan::classifier::lexicon::Lexicon;
use portcullis::scan::classifier::lexicon::Meaning;
use portcullis::scan::classifier::normal::Normal;
use portcullis::scan::classifier::pool::HEADS;
use portcullis::scan::classifier::pool::WINDOWS;
use portcullis::scan::classifier::pool::Weights;
use portcullis::scan::classifier::pool::scale;
use portcullis::scan::classifier::pool::windows;

use crate::chance::Chance;
use crate::chance::hash;

/// The logarithm of the number of buckets.
pub const BITS: u32 = 17;
const EPOCHS: usize = 8;
/// How many times everything is learnt, each time in another order; the weights are the mean of them.
const ORDERS: u64 = 5;
const RATE: f32 = 0.25;
/// How much of each weight is forgotten after each epoch.
const DECAY: f32 = 0.2;
/// The weight of all attacks for that of all harmless texts.
const ATTACK_SHARE: f32 = 0.6;
/// Sources in which a feature must be seen in attacks before it speaks for one.
const SOURCES_MIN: u32 = 2;

/// A text as the heads see it.
pub struct Encoded {
    /// Its normal form, kept for pooling.
    pub normal: Normal,
    features: Vec<(u32, u8)>,
    ends: Vec<u32>,
}

/// A text and what it teaches.
pub struct Lesson<'a> {
    /// The text.
    pub text: &'a Encoded,
    /// What each head should say.
    pub heads: [Option<bool>; HEADS],
    /// Its source.
    pub source: &'a str,
    /// Whether it was written to be general.
    pub own: bool,
}

/// Weights while they are learnt.
struct Learner {
    weights: Vec<[f32; HEADS]>,
    squares: Vec<[f32; HEADS]>,
    biases: [f32; HEADS],
    /// For each bucket and head the sources of attacks it was seen in, as bits.
    sources: Vec<[u32; HEADS]>,
}

/// Notes every feature of a text one by one.
struct Notes<'l> {
    lexicon: &'l Lexicon,
    by_block: Vec<Vec<(u32, u8)>>,
}

impl Notes<'_> {
    fn note(&mut self, at: u32, hash: u64, worth: u32) {
        self.by_block[feature::block(at)].push((feature::bucket(hash, BITS) as u32, worth as u8));
    }
}

impl Sink for Notes<'_> {
    fn word(&mut self, word: &Spelt<'_>) -> Meaning {
        feature::of_word(word.bytes, word.hash, |hash| self.note(word.at, hash, 1));
        self.lexicon.meaning(word.bytes)
    }

    fn feature(&mut self, at: u32, hash: u64, worth: u32) {
        self.note(at, hash, worth);
    }
}

/// Reads a text into features.
pub fn encode(normal: Normal, lexicon: &Lexicon) -> Encoded {
    let blocks = feature::blocks(&normal);
    let mut notes = Notes { lexicon, by_block: vec![Vec::new(); blocks] };
    feature::read(&normal, lexicon, &mut Vec::new(), &mut notes);
    let mut ends = Vec::with_capacity(blocks);
    let mut features = Vec::new();
    for block in notes.by_block {
        features.extend(block);
        ends.push(features.len() as u32);
    }
    Encoded { normal, features, ends }
}

impl Encoded {
    fn features(&self, blocks: Range<usize>) -> &[(u32, u8)] {
        let at = |block: usize| if block == 0 { 0 } else { self.ends[block - 1] as usize };
        &self.features[at(blocks.start)..at(blocks.end)]
    }

    fn bytes(&self, blocks: &Range<usize>) -> usize {
        (blocks.end * BLOCK_BYTES).min(self.normal.len()) - blocks.start * BLOCK_BYTES
    }
}

/// Learns from lessons, in several orders, of which each is always the same.
///
/// One order alone makes the recall on sources that were left out go up and down by more than a point.
pub fn learn(lessons: &[Lesson<'_>]) -> Weights {
    let costs = costs(lessons);
    let mut mean = Learner::new();
    for seed in 0..ORDERS {
        mean.add(&Learner::taught(lessons, &costs, seed), 1.0 / ORDERS as f32);
    }
    mean.whole_numbers()
}

/// Returns whose rows are counted together: what we wrote of one kind, in whatever language.
pub fn kin(source: &str) -> &str {
    let is_own = source.starts_with("own/");
    source.rsplit_once('_').filter(|_| is_own).map_or(source, |(kind, _)| kind)
}

/// Returns what a mistake about each lesson costs, by head.
fn costs(lessons: &[Lesson<'_>]) -> Vec<[f32; HEADS]> {
    let mut counts = std::collections::BTreeMap::new();
    for lesson in lessons {
        for head in 0..HEADS {
            *counts.entry((kin(lesson.source), head, lesson.heads[head])).or_insert(0u32) += 1;
        }
    }
    let raw = |lesson: &Lesson<'_>, head: usize| {
        let count = counts[&(kin(lesson.source), head, lesson.heads[head])];
        1.0 / (count as f32).sqrt()
    };
    let mut sums = [[0f32; 2]; HEADS];
    for lesson in lessons {
        for (head, sum) in sums.iter_mut().enumerate() {
            if let Some(yes) = lesson.heads[head] {
                sum[usize::from(yes)] += raw(lesson, head);
            }
        }
    }
    let total = lessons.len() as f32;
    let cost = |lesson: &Lesson<'_>, head: usize| match lesson.heads[head] {
        None => 0.0,
        Some(false) => raw(lesson, head) / sums[head][0] * total,
        Some(true) => raw(lesson, head) / sums[head][1] * total * ATTACK_SHARE,
    };
    lessons.iter().map(|lesson| std::array::from_fn(|head| cost(lesson, head))).collect()
}

impl Learner {
    fn new() -> Self {
        let buckets = 1 << BITS;
        Self {
            weights: vec![[0.0; HEADS]; buckets],
            squares: vec![[0.0; HEADS]; buckets],
            biases: [0.0; HEADS],
            sources: vec![[0; HEADS]; buckets],
        }
    }

    /// Learns from lessons in the order that a seed gives.
    fn taught(lessons: &[Lesson<'_>], costs: &[[f32; HEADS]], seed: u64) -> Self {
        let mut learner = Self { biases: [-1.0; HEADS], ..Self::new() };
        learner.note_sources(lessons);
        let mut order: Vec<usize> = (0..lessons.len()).collect();
        let mut chance = Chance::new(11 + seed);
        for epoch in 0..EPOCHS {
            chance.shuffle(&mut order);
            let rate = RATE * (1.0 - epoch as f32 / EPOCHS as f32).max(0.15);
            for at in &order {
                learner.study(&lessons[*at], &costs[*at], rate, &mut chance);
            }
            learner.restrain();
        }
        learner
    }

    /// Adds a part of what another has learnt.
    fn add(&mut self, other: &Self, part: f32) {
        for head in 0..HEADS {
            self.biases[head] += part * other.biases[head];
            for (weights, others) in self.weights.iter_mut().zip(&other.weights) {
                weights[head] += part * others[head];
            }
        }
    }

    fn note_sources(&mut self, lessons: &[Lesson<'_>]) {
        for lesson in lessons {
            let bit = 1u32 << (hash(lesson.source.as_bytes()) % 31);
            let bits = if lesson.own { bit | 1 << 31 } else { bit };
            for head in 0..HEADS {
                if lesson.heads[head] == Some(true) {
                    lesson.text.features.iter().for_each(|(at, _)| self.sources[*at as usize][head] |= bits);
                }
            }
        }
    }

    fn study(&mut self, lesson: &Lesson<'_>, costs: &[f32; HEADS], rate: f32, chance: &mut Chance) {
        let text = lesson.text;
        let blocks = text.ends.len();
        if blocks == 0 {
            return;
        }
        let mut sums = vec![[0f32; HEADS]; blocks + 1];
        for block in 0..blocks {
            let mut sum = sums[block];
            for (at, worth) in text.features(block..block + 1) {
                let weights = self.weights[*at as usize];
                (0..HEADS).for_each(|head| sum[head] += f32::from(*worth) * weights[head]);
            }
            sums[block + 1] = sum;
        }
        for (length, step) in WINDOWS {
            let ranges: Vec<Range<usize>> = windows(blocks, length, step).collect();
            let score = |range: &Range<usize>, head: usize| {
                self.biases[head]
                    + (sums[range.end][head] - sums[range.start][head]) * scale(text.bytes(range))
            };
            let mut studied = Vec::new();
            for head in 0..HEADS {
                let Some(wanted) = lesson.heads[head] else { continue };
                let best = (0..ranges.len())
                    .max_by(|one, other| score(&ranges[*one], head).total_cmp(&score(&ranges[*other], head)))
                    .unwrap_or(0);
                studied.push((head, best, wanted));
                if !wanted && ranges.len() > 1 {
                    studied.push((head, chance.below(ranges.len()), false));
                }
            }
            let errors: Vec<(usize, usize, f32)> = studied
                .into_iter()
                .map(|(head, at, wanted)| {
                    let target = if wanted { 1.0 } else { 0.0 };
                    let guess = 1.0 / (1.0 + (-score(&ranges[at], head)).exp());
                    (head, at, (guess - target) * costs[head])
                })
                .collect();
            for (head, at, error) in errors {
                self.correct(text, &ranges[at], head, error, rate);
            }
            if blocks <= length {
                break;
            }
        }
    }

    fn correct(&mut self, text: &Encoded, range: &Range<usize>, head: usize, error: f32, rate: f32) {
        if error.abs() < 1e-3 {
            return;
        }
        let slope = error * scale(text.bytes(range));
        self.biases[head] -= rate * 0.02 * error;
        for (at, worth) in text.features(range.clone()) {
            let at = *at as usize;
            let slope = slope * f32::from(*worth);
            let square = &mut self.squares[at][head];
            *square += slope * slope;
            self.weights[at][head] -= rate * slope / (*square + 0.05).sqrt();
        }
    }

    /// Forgets a little, and what speaks for an attack only in one source.
    fn restrain(&mut self) {
        for (weights, sources) in self.weights.iter_mut().zip(&self.sources) {
            for head in 0..HEADS {
                weights[head] *= 1.0 - DECAY;
                if weights[head] > 0.0 && sources[head].count_ones() < SOURCES_MIN {
                    weights[head] = 0.0;
                }
            }
        }
    }

    /// Brings the weights into whole numbers of eight bits.
    fn whole_numbers(&self) -> Weights {
        let scales: [f32; HEADS] = std::array::from_fn(|head| {
            let mut sizes: Vec<f32> = self.weights.iter().map(|weights| weights[head].abs()).collect();
            sizes.sort_by(f32::total_cmp);
            let most = sizes[sizes.len() - 1 - sizes.len() / 20_000];
            (most / 127.0).max(f32::MIN_POSITIVE)
        });
        let whole = |weights: &[f32; HEADS]| {
            let mut row = [0i8; 4];
            for head in 0..HEADS {
                row[head] = (weights[head] / scales[head]).round().clamp(-127.0, 127.0) as i8;
            }
            row
        };
        Weights { bits: BITS, table: self.weights.iter().map(whole).collect(), scales, biases: self.biases }
    }
}
