//! From the weights of single features to what a whole text is judged by.
//!
//! In: a table of weights and a normal text. Out: [`Pooled`]: for each head the strongest window of about 200 and
//! of about 800 bytes, where it lies, and what the other heads say there. A word is looked up once, the features
//! around it as often as they occur; windows are differences of running sums, so the work is linear in the text,
//! whatever the windows.

use std::ops::Range;

use super::feature;
use super::feature::BLOCK_BYTES;
use super::feature::Sink;
use super::feature::Spelt;
use super::known::Known;
use super::known::Said;
use super::lexicon::Lexicon;
use super::lexicon::Meaning;
use super::lexicon::Sighting;
use super::normal::GAP_QUOTE;
use super::normal::Normal;

/// How many heads there are.
pub const HEADS: usize = 3;
/// The head that sees orders to drop, to show or to do something else.
pub const OVERRIDE: usize = 0;
/// The head that sees personas without rules.
pub const PERSONA: usize = 1;
/// The head that sees text about attacks, which quotes them.
pub const ABOUT: usize = 2;

/// The lengths of windows in blocks, and how many blocks further the next one begins.
pub const WINDOWS: [(usize, usize); 3] = [(3, 1), (7, 2), (24, 4)];
/// A window counts as at least this long, in bytes.
pub const WINDOW_BYTES_MIN: usize = 64;

/// The weights of one model, as whole numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// The logarithm of the number of buckets.
    pub bits: u32,
    /// For each bucket the weight of each head, and zero.
    pub table: Vec<[i8; 4]>,
    /// What one unit of a weight is worth.
    pub scales: [f32; HEADS],
    /// What a window without features is worth.
    pub biases: [f32; HEADS],
}

/// The strongest window of one head and length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Peak {
    /// Its score, as log odds.
    pub score: f32,
    /// The first block of it.
    pub from: usize,
    /// The first block behind it.
    pub until: usize,
}

/// What a text is judged by.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pooled {
    /// The strongest window, by head and length.
    pub peaks: [[Peak; WINDOWS.len()]; HEADS],
    /// What [`ABOUT`] says of the strongest windows of the other two heads, by head and length.
    pub about: [[f32; WINDOWS.len()]; 2],
    /// The score of the whole text as one window, by head.
    pub whole: [f32; HEADS],
    /// The share of windows above zero, by head.
    pub dense: [f32; HEADS],
    /// The concepts in the strongest short window of [`OVERRIDE`].
    pub concepts: usize,
    /// Words behind quotation marks for each word of that window.
    pub quoted: f32,
    /// Words of the text.
    pub words: usize,
    /// The share of words of the text that are one character without spaces.
    pub glued: f32,
    /// Bytes of the normal text for each word.
    pub spread: f32,
}

/// Running sums of a text's weights: `sums[n]` is what the first `n` blocks are worth.
#[derive(Clone, Debug, Default)]
pub struct Sums(Vec<[i32; HEADS]>);

/// Reads texts into pooled scores; it keeps its room between them, and what one model says of words.
#[derive(Clone, Debug, Default)]
pub struct Pooling {
    sightings: Vec<Sighting>,
    sums: Sums,
    known: Known,
    pending: Vec<Pending>,
}

/// Adds up what the features of a text weigh.
struct Adding<'p> {
    sums: &'p mut Sums,
    known: &'p mut Known,
    pending: &'p mut Vec<Pending>,
    lexicon: &'p Lexicon,
    weights: &'p Weights,
}

/// A feature whose weight is still to be looked up: many at a time, so that none waits for memory.
#[derive(Clone, Copy, Debug)]
struct Pending {
    bucket: u32,
    block: u32,
}

/// How many features are looked up at a time.
const PENDING_MAX: usize = 512;

impl Sink for Adding<'_> {
    #[inline]
    fn word(&mut self, word: &Spelt<'_>) -> Meaning {
        let (lexicon, weights) = (self.lexicon, self.weights);
        let learn = || weights.said(lexicon, word);
        let said = match word.key {
            Some(key) => self.known.of(key, word.hash, learn),
            None => learn(),
        };
        self.sums.add(feature::block(word.at), said.weight.map(i32::from));
        said.meaning
    }

    #[inline]
    fn feature(&mut self, at: u32, hash: u64, worth: u32) {
        let (bucket, block) = (feature::bucket(hash, self.weights.bits), feature::block(at));
        if worth != 1 {
            return self.add(block, bucket, worth);
        }
        self.pending.push(Pending { bucket: bucket as u32, block: block as u32 });
        if self.pending.len() == PENDING_MAX {
            self.settle();
        }
    }
}

impl Adding<'_> {
    /// Adds a feature that counts more than once: a concept, of which there are few.
    #[cold]
    fn add(&mut self, block: usize, bucket: usize, worth: u32) {
        let row = self.weights.row(bucket);
        self.sums.add(block, row.map(|weight| i32::from(weight) * worth.cast_signed()));
    }

    /// Adds what is pending, block by block.
    fn settle(&mut self) {
        for block in self.pending.chunk_by(|one, other| one.block == other.block) {
            // The fourth is zero in every row, and makes the four fit a register.
            let mut sum = [0i32; HEADS + 1];
            for Pending { bucket, .. } in block {
                let row = self.weights.table.get(*bucket as usize).copied().unwrap_or_default();
                sum.iter_mut().zip(row).for_each(|(sum, weight)| *sum += i32::from(weight));
            }
            let [one, two, three, _] = sum;
            self.sums.add(block.first().map_or(0, |first| first.block as usize), [one, two, three]);
        }
        self.pending.clear();
    }
}

impl Weights {
    /// Returns what the features of a bucket weigh, by head.
    fn row(&self, bucket: usize) -> [i8; HEADS] {
        let row = self.table.get(bucket).copied().unwrap_or_default();
        [row[0], row[1], row[2]]
    }

    /// Returns what a word weighs and means alone.
    fn said(&self, lexicon: &Lexicon, word: &Spelt<'_>) -> Said {
        let mut weight = [0; HEADS];
        // At most a feature for each of the few bytes that have some: that fits.
        feature::of_word(word.bytes, word.hash, |hash| {
            let row = self.row(feature::bucket(hash, self.bits));
            weight.iter_mut().zip(row).for_each(|(sum, weight)| *sum += i16::from(weight));
        });
        Said { weight, meaning: lexicon.meaning(word.bytes) }
    }
}

impl Sums {
    fn clear(&mut self, blocks: usize) {
        self.0.clear();
        self.0.resize(blocks + 1, [0; HEADS]);
    }

    fn add(&mut self, block: usize, weights: [i32; HEADS]) {
        if let Some(sum) = self.0.get_mut(block + 1) {
            sum.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += weight);
        }
    }

    fn run(&mut self) {
        let mut before = [0; HEADS];
        for sum in &mut self.0 {
            for head in 0..HEADS {
                sum[head] += before[head];
            }
            before = *sum;
        }
    }

    fn window(&self, range: Range<usize>) -> [i32; HEADS] {
        let at = |block: usize| self.0.get(block).copied().unwrap_or_default();
        let (from, until) = (at(range.start), at(range.end));
        std::array::from_fn(|head| until[head] - from[head])
    }
}

/// Returns what a sum over a window is multiplied with: longer windows hold more chance.
pub fn scale(bytes: usize) -> f32 {
    1.0 / (bytes.max(WINDOW_BYTES_MIN) as f32).sqrt()
}

/// Returns the windows of one length over so many blocks; the last one ends with the text.
pub fn windows(blocks: usize, length: usize, step: usize) -> impl Iterator<Item = Range<usize>> {
    let last = blocks.saturating_sub(length);
    let starts = (0..last).step_by(step).chain(std::iter::once(last));
    starts.map(move |start| start..(start + length).min(blocks))
}

impl Pooling {
    /// Judges a normal text with the model that it was first used with.
    pub fn read(&mut self, normal: &Normal, lexicon: &Lexicon, weights: &Weights) -> Pooled {
        let blocks = feature::blocks(normal);
        self.sums.clear(blocks);
        let Self { sightings, sums, known, pending } = self;
        let mut adding = Adding { sums, known, pending, lexicon, weights };
        feature::read(normal, lexicon, sightings, &mut adding);
        adding.settle();
        sums.run();
        let mut pooled = Pooled::default();
        if blocks == 0 {
            return pooled;
        }
        for (length, (window, step)) in WINDOWS.into_iter().enumerate() {
            self.peaks(&mut pooled, weights, normal.len(), blocks, (length, window, step));
        }
        pooled.whole = self.score(weights, normal.len(), 0..blocks);
        for head in [OVERRIDE, PERSONA] {
            for length in 0..WINDOWS.len() {
                let peak = pooled.peaks[head][length];
                pooled.about[head][length] = self.score(weights, normal.len(), peak.from..peak.until)[ABOUT];
            }
        }
        self.describe(&mut pooled, normal);
        pooled
    }

    /// Returns the loudest short windows of orders and personas in the text that was read last, the loudest first: `most` of
    /// them, each `apart` bytes from the others, and none that says nothing.
    pub fn loudest(&self, normal: &Normal, weights: &Weights, most: usize, apart: usize) -> Vec<Peak> {
        let blocks = feature::blocks(normal);
        let mut loud = Vec::new();
        for (length, step) in WINDOWS.into_iter().take(2) {
            for window in windows(blocks, length, step) {
                let scores = self.score(weights, normal.len(), window.clone());
                let score = scores[OVERRIDE].max(scores[PERSONA]);
                if score > 0.0 {
                    loud.push(Peak { score, from: window.start, until: window.end });
                }
            }
        }
        loud.sort_unstable_by(|one, other| other.score.total_cmp(&one.score));
        let apart = apart.div_ceil(BLOCK_BYTES);
        let mut chosen: Vec<Peak> = Vec::with_capacity(most);
        for peak in loud {
            let is_near = |other: &Peak| peak.from < other.until + apart && other.from < peak.until + apart;
            if chosen.len() == most {
                break;
            }
            if !chosen.iter().any(is_near) {
                chosen.push(peak);
            }
        }
        chosen
    }

    fn score(&self, weights: &Weights, bytes: usize, window: Range<usize>) -> [f32; HEADS] {
        let end = (window.end * BLOCK_BYTES).min(bytes);
        self.scaled(weights, scale(end.saturating_sub(window.start * BLOCK_BYTES)), window)
    }

    fn scaled(&self, weights: &Weights, scale: f32, window: Range<usize>) -> [f32; HEADS] {
        let sums = self.sums.window(window);
        std::array::from_fn(|head| weights.biases[head] + sums[head] as f32 * weights.scales[head] * scale)
    }

    fn peaks(
        &self,
        pooled: &mut Pooled,
        weights: &Weights,
        bytes: usize,
        blocks: usize,
        (length, window, step): (usize, usize, usize),
    ) {
        let mut count = 0usize;
        let mut above = [0usize; HEADS];
        let full = scale(window * BLOCK_BYTES);
        for range in windows(blocks, window, step) {
            let scores = match range.start + window < blocks {
                true => self.scaled(weights, full, range.clone()),
                false => self.score(weights, bytes, range.clone()),
            };
            for (head, score) in scores.into_iter().enumerate() {
                above[head] += usize::from(score > 0.0);
                let peak = &mut pooled.peaks[head][length];
                if count == 0 || score > peak.score {
                    *peak = Peak { score, from: range.start, until: range.end };
                }
            }
            count += 1;
        }
        if length == 1 {
            pooled.dense = above.map(|above| above as f32 / count.max(1) as f32);
        }
    }

    fn describe(&self, pooled: &mut Pooled, normal: &Normal) {
        let peak = pooled.peaks[OVERRIDE][1];
        let inside = |at: u32| (peak.from..peak.until).contains(&(at as usize / BLOCK_BYTES));
        pooled.concepts = self.sightings.iter().filter(|seen| inside(seen.at)).count();
        let words = normal.words();
        let first = words.partition_point(|word| (word.start as usize) < peak.from * BLOCK_BYTES);
        let last = words.partition_point(|word| (word.start as usize) < peak.until * BLOCK_BYTES);
        let near = words.get(first..last).unwrap_or_default();
        let quoted = near.iter().filter(|word| word.gap & GAP_QUOTE != 0).count();
        pooled.quoted = quoted as f32 / near.len().max(1) as f32;
        pooled.words = words.len();
        let glued = words.iter().filter(|word| word.glued).count();
        pooled.glued = glued as f32 / words.len().max(1) as f32;
        pooled.spread = normal.len() as f32 / words.len().max(1) as f32;
    }
}
