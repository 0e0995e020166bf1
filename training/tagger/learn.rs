//! Learns the weights: a conditional random field, by gradients, in an order that is always the same.
//!
//! Of each sample, what its tokens may be is made likelier than what they may not. Words of lists are now and then taken
//! for words of none, so that names are known by where they stand, too.

use portcullis::scan::tagger::Tagger;
use portcullis::scan::tagger::Words;
use portcullis::scan::tagger::chain::Row;
use portcullis::scan::tagger::chain::START;
use portcullis::scan::tagger::chain::STATES;
use portcullis::scan::tagger::chain::Steps;
use portcullis::scan::tagger::chain::factors;
use portcullis::scan::tagger::chain::may_follow;
use portcullis::scan::tagger::chain::scaled;
use portcullis::scan::tagger::feature::BEFORE;
use portcullis::scan::tagger::feature::BEHIND;
use portcullis::scan::tagger::feature::FEATURES;
use portcullis::scan::tagger::feature::Look;
use portcullis::scan::tagger::feature::Past;
use portcullis::scan::tagger::feature::Vocabulary;
use portcullis::scan::tagger::feature::features;
use portcullis::scan::tagger::feature::list;

use crate::chance::Chance;
use crate::lists::tokens;
use crate::sample::Sample;

/// The logarithm of how many buckets there are.
const BITS: u32 = 18;
/// How often every sample is learnt.
const ROUNDS: usize = 5;
/// How far one step goes.
const RATE: f32 = 0.12;
/// Of how many words in lists one is taken for none.
const FORGET_ONE_OF: u32 = 4;
/// What is too little to learn from.
const GRADIENT_MIN: f32 = 1e-3;
/// The largest weight.
const WEIGHT_MAX: f32 = 5.0;
/// How likely a token must be a part of something, by tag: person, address, location, organization.
pub const LEAST: [f32; 4] = [0.5, 0.5, 0.5, 0.5];

/// A vocabulary that has forgotten some of its names.
struct Forgetful<'w> {
    words: &'w Words,
    seed: u32,
}

impl Vocabulary for Forgetful<'_> {
    fn lists(&self, hash: u32) -> u8 {
        let lists = self.words.lists(hash);
        let names = list::GIVEN | list::FAMILY | list::TOWN | list::LAND;
        let dice = (hash ^ self.seed).wrapping_mul(0x9e37_79b1) >> 16;
        if lists & names != 0 && dice.is_multiple_of(FORGET_ONE_OF) { lists & !names } else { lists }
    }
}

/// The numbers that are learnt.
struct Numbers {
    weights: Vec<Row>,
    squares: Vec<Row>,
    odds: [Row; STATES],
    odds_squares: [Row; STATES],
}

/// Learns from samples.
pub fn learn(samples: &[Sample], words: Words, mut tell: impl FnMut(usize, f64)) -> Tagger {
    let mut numbers = Numbers {
        weights: vec![[0.0; STATES]; 1 << BITS],
        squares: vec![[1e-3; STATES]; 1 << BITS],
        odds: [[0.0; STATES]; STATES],
        odds_squares: [[1e-3; STATES]; STATES],
    };
    let mut mean = (vec![[0.0f32; STATES]; 1 << BITS], [[0.0f32; STATES]; STATES]);
    let mut order: Vec<usize> = (0..samples.len()).collect();
    for round in 0..ROUNDS {
        Chance::new(round as u64 + 1).shuffle(&mut order);
        let mut loss = 0.0;
        for at in &order {
            let vocabulary = Forgetful { words: &words, seed: (*at * 31 + round * 7919) as u32 };
            loss += numbers.take(&samples[*at], &vocabulary);
        }
        tell(round, loss / samples.len() as f64);
        if round > 0 {
            let share = 1.0 / (ROUNDS - 1) as f32;
            for (mean, row) in
                mean.0.iter_mut().zip(&numbers.weights).chain(mean.1.iter_mut().zip(&numbers.odds))
            {
                mean.iter_mut().zip(row).for_each(|(mean, value)| *mean += value * share);
            }
        }
    }
    let scale = WEIGHT_MAX / 127.0;
    let whole = |value: f32| (value / scale).round().clamp(-127.0, 127.0) as i8;
    let table =
        mean.0.iter().map(|row| std::array::from_fn(|state| row.get(state).copied().map_or(0, whole)));
    Tagger {
        bits: BITS,
        table: table.collect(),
        scale,
        odds: mean.1,
        least: LEAST,
        words,
        steps: Steps::of(&mean.1),
    }
}

impl Numbers {
    /// Learns from one sample; returns how unlikely it was.
    fn take(&mut self, sample: &Sample, vocabulary: &impl Vocabulary) -> f64 {
        let looks: Vec<Look> = tokens(&sample.text).iter().map(|token| Look::of(token, vocabulary)).collect();
        if looks.is_empty() {
            return 0.0;
        }
        let mut past = Past::default();
        let mut own = Vec::with_capacity(looks.len());
        let mut seen: Vec<Option<[u32; FEATURES]>> = Vec::with_capacity(looks.len());
        for at in 0..looks.len() {
            let near: [Look; BEFORE + 1 + BEHIND] = std::array::from_fn(|offset| {
                (at + offset)
                    .checked_sub(BEFORE)
                    .and_then(|place| looks.get(place))
                    .copied()
                    .unwrap_or_default()
            });
            if Look::is_surely_outside(&near) {
                past.pass(&looks[at]);
                own.push(START);
                seen.push(None);
                continue;
            }
            let (mut list, mut count, mut odds) = ([0; FEATURES], 0, [0.0; STATES]);
            features(&near, &past, vocabulary, |feature| {
                let bucket = feature >> (32 - BITS);
                list[count] = bucket;
                count += 1;
                let weights = &self.weights[bucket as usize];
                odds.iter_mut().zip(weights).for_each(|(odds, weight)| *odds += weight);
            });
            past.pass(&looks[at]);
            own.push(factors(&odds));
            seen.push(Some(list));
        }
        let steps = Steps::of(&self.odds);
        let free = Flow::of(&own, &steps);
        let bound: Vec<Row> =
            own.iter().zip(&sample.allowed).map(|(row, allowed)| masked(row, *allowed)).collect();
        let bound = Flow::of(&bound, &steps);
        for (at, list) in seen.iter().enumerate() {
            let Some(list) = list else { continue };
            let gradient: Row =
                std::array::from_fn(|state| free.chances[at][state] - bound.chances[at][state]);
            if gradient.iter().all(|part| part.abs() < GRADIENT_MIN) {
                continue;
            }
            for bucket in list {
                step(&mut self.weights[*bucket as usize], &mut self.squares[*bucket as usize], &gradient);
            }
        }
        for before in 0..STATES {
            let gradient: Row =
                std::array::from_fn(|state| free.steps[before][state] - bound.steps[before][state]);
            step(&mut self.odds[before], &mut self.odds_squares[before], &gradient);
        }
        free.log - bound.log
    }
}

fn step(weights: &mut Row, squares: &mut Row, gradient: &Row) {
    for ((weight, square), part) in weights.iter_mut().zip(squares).zip(gradient) {
        *square += part * part;
        *weight = (*weight - RATE * part / square.sqrt()).clamp(-WEIGHT_MAX, WEIGHT_MAX);
    }
}

fn masked(row: &Row, allowed: u16) -> Row {
    std::array::from_fn(|state| if allowed >> state & 1 == 1 { row[state].max(1e-9) } else { 0.0 })
}

/// What is known of a whole text.
struct Flow {
    chances: Vec<Row>,
    /// How often each state follows each other.
    steps: [Row; STATES],
    /// The logarithm of what speaks for it at all.
    log: f64,
}

impl Flow {
    fn of(own: &[Row], steps: &Steps) -> Self {
        let mut log = 0.0f64;
        let mut before = START;
        let mut forward: Vec<Row> = Vec::with_capacity(own.len());
        for row in own {
            let mut sums = [0.0f32; STATES];
            for (known, factors) in before.iter().zip(&steps.factors) {
                sums.iter_mut().zip(factors).for_each(|(sum, factor)| *sum += known * factor);
            }
            sums.iter_mut().zip(row).for_each(|(sum, own)| *sum *= own);
            log += f64::from(sums.iter().sum::<f32>().max(1e-30)).ln();
            before = scaled(sums);
            forward.push(before);
        }
        let mut behind: Row = [1.0; STATES];
        let mut chances = vec![[0.0; STATES]; own.len()];
        let mut counts = [[0.0f32; STATES]; STATES];
        for at in (0..own.len()).rev() {
            let mut joint = forward[at];
            joint.iter_mut().zip(behind).for_each(|(chance, behind)| *chance *= behind);
            chances[at] = scaled(joint);
            let known = if at == 0 { START } else { forward[at - 1] };
            let mut all = [[0.0f32; STATES]; STATES];
            let mut sum = 0.0;
            for before in 0..STATES {
                for state in 0..STATES {
                    let value = known[before] * steps.factors[before][state] * own[at][state] * behind[state];
                    all[before][state] = value;
                    sum += value;
                }
            }
            if sum > 0.0 {
                for before in 0..STATES {
                    for state in 0..STATES {
                        counts[before][state] += all[before][state] / sum;
                    }
                }
            }
            behind = steps.backward(&own[at], &behind);
        }
        debug_assert!((0..STATES).all(|state| may_follow(0, state) || counts[0][state] == 0.0));
        Self { chances, steps: counts, log }
    }
}
