//! Sets of positions, and what each byte makes of them.
//!
//! All that began at one place of a text moves on together: as one set, with one step for each byte. Texts repeat
//! themselves, so a [`Table`] remembers what a byte made of a set; the automaton is only asked what it was not asked
//! before. What a table remembers is nobody's state: it may be forgotten at any time, and there is one for whoever
//! reads at the same time.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::automaton::Automaton;
use super::automaton::NARROW;
use super::automaton::Position;

/// How many positions the sets of a table have together before it forgets all: two megabytes of them.
const POSITIONS_MAX: usize = 1 << 19;

/// How many steps of sets a table remembers before it forgets all.
const STEPS_MAX: usize = 1 << 17;

/// The number of the set that has nothing in it.
pub(super) const EMPTY: u32 = 0;

/// Says that no match may have ended.
const NO_ENDS: u32 = 0;

/// Tells tables apart, and what a table knew from what it knows since it forgot.
static NEXT_NAME: AtomicU64 = AtomicU64::new(0);

/// Positions that one place of a text has led to.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Set {
    /// Each once, in ascending order.
    pub positions: Box<[u32]>,
    /// Whether the values have begun.
    pub has_value: bool,
    /// Whether there are positions of a track.
    pub tracks: [bool; 2],
    /// The least reach of a position.
    pub reach: u32,
    /// The wide patterns of the positions, each once.
    pub wide: SmallVec<[u32; 2]>,
}

/// What a byte makes of a set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// What is under way without a value, by its number.
    pub before: u32,
    /// What is under way whose value has begun, by its number.
    pub value: u32,
    ends: u32,
}

/// Which matches may have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Ends {
    /// By track, those without a value and those with one.
    pub tracks: [[bool; 2]; 2],
    /// The wide patterns among them.
    pub wide: SmallVec<[u32; 2]>,
}

/// Sets by number, and the steps between them.
#[derive(Debug)]
pub(super) struct Table {
    name: u64,
    sets: Vec<Arc<Set>>,
    numbers: HashMap<Arc<Set>, u32>,
    /// How many positions the sets have together.
    positions: usize,
    positions_max: usize,
    ends: Vec<Ends>,
    numbers_of_ends: HashMap<Ends, u32>,
    /// The steps of sets, by number and byte.
    steps: Memory<Step>,
    /// What two bytes in a row begin: what has its value since the first of them, and the rest.
    pairs: Memory<[Step; 2]>,
    /// What a byte begins at once.
    starts: Memory<Step>,
}

/// What was found out, by key.
type Memory<T> = HashMap<u32, T, BuildHasherDefault<Spread>>;

/// Hashes keys that are numbers: by the golden ratio (Knuth, The Art of Computer Programming, volume 3, section 6.4).
#[derive(Debug, Default)]
struct Spread(u64);

impl Set {
    /// Makes the set of some positions, each of which is there once, in ascending order.
    pub(super) fn new(automaton: &Automaton, positions: Vec<u32>, has_value: bool) -> Self {
        let (mut tracks, mut reach, mut wide) = ([false; 2], u32::MAX, SmallVec::new());
        for position in positions.iter().map(|at| automaton.position(*at)) {
            tracks[position.track.index()] = true;
            reach = reach.min(position.reach);
            if position.wide != NARROW && !wide.contains(&position.wide) {
                wide.push(position.wide);
            }
        }
        Self { positions: positions.into(), has_value, tracks, reach, wide }
    }
}

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, key: u32) {
        self.0 = (self.0 ^ u64::from(key)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        // Tables go by the lowest bits and by the highest.
        self.0 ^ self.0 >> 32
    }
}

impl Table {
    pub(super) fn new() -> Self {
        Self::with_room(POSITIONS_MAX)
    }

    /// Makes a table that forgets all when its sets have more than so many positions.
    pub(super) fn with_room(positions_max: usize) -> Self {
        let mut table = Self {
            name: 0,
            sets: Vec::new(),
            numbers: HashMap::new(),
            positions: 0,
            positions_max,
            ends: Vec::new(),
            numbers_of_ends: HashMap::new(),
            steps: Memory::default(),
            pairs: Memory::default(),
            starts: Memory::default(),
        };
        table.forget();
        table
    }

    /// Forgets all sets and steps; numbers of sets say nothing from then on.
    pub(super) fn forget(&mut self) {
        self.name = NEXT_NAME.fetch_add(1, Ordering::Relaxed);
        self.numbers.clear();
        self.sets.clear();
        self.sets.push(Arc::new(Set {
            positions: Box::default(),
            has_value: false,
            tracks: [false; 2],
            reach: u32::MAX,
            wide: SmallVec::new(),
        }));
        self.positions = 0;
        self.ends.clear();
        self.numbers_of_ends.clear();
        self.number_of_ends(Ends::default());
        self.steps.clear();
        self.pairs.clear();
        self.starts.clear();
    }

    /// Returns what tells this table's numbers from those of others, and from those it forgot.
    pub(super) fn name(&self) -> u64 {
        self.name
    }

    /// Tells whether it is time to forget.
    pub(super) fn is_full(&self) -> bool {
        self.positions > self.positions_max || self.steps.len() > STEPS_MAX
    }

    /// Returns how many numbers of sets there are.
    pub(super) fn len(&self) -> usize {
        self.sets.len()
    }

    /// Returns the set of a number.
    pub(super) fn set(&self, number: u32) -> &Arc<Set> {
        &self.sets[number as usize]
    }

    /// Returns the number of a set.
    pub(super) fn number(&mut self, set: Arc<Set>) -> u32 {
        if set.positions.is_empty() {
            return EMPTY;
        }
        if let Some(number) = self.numbers.get(&set) {
            return *number;
        }
        let number = self.sets.len() as u32;
        self.positions += set.positions.len();
        self.sets.push(Arc::clone(&set));
        self.numbers.insert(set, number);
        number
    }

    /// Returns which matches may have ended with a step, if any.
    pub(super) fn ends(&self, step: Step) -> Option<&Ends> {
        (step.ends != NO_ENDS).then(|| &self.ends[step.ends as usize])
    }

    /// Returns what a byte makes of the set of a number.
    pub(super) fn step(&mut self, automaton: &Automaton, number: u32, byte: u8) -> Step {
        let key = number << u8::BITS | u32::from(byte);
        if let Some(step) = self.steps.get(&key) {
            return *step;
        }
        let set = Arc::clone(self.set(number));
        let next = set.positions.iter().flat_map(|from| automaton.follow(*from, byte)).collect();
        let step = self.landed(automaton, next, set.has_value);
        self.steps.insert(key, step);
        step
    }

    /// Returns what the second of two bytes begins, where the first stood, or not, at the boundary of a word: what has
    /// its value since the first, and the rest.
    pub(super) fn pairs(&mut self, automaton: &Automaton, first: (u8, bool), byte: u8) -> [Step; 2] {
        let key = u32::from(first.1) << 16 | u32::from(first.0) << u8::BITS | u32::from(byte);
        if let Some(steps) = self.pairs.get(&key) {
            return *steps;
        }
        let (valued, rest): (Vec<_>, Vec<_>) =
            automaton.pairs(first, byte).partition(|(_, has_value)| *has_value);
        let steps = [(valued, true), (rest, false)].map(|(pairs, has_value)| {
            let positions = pairs.into_iter().map(|(to, _)| to).collect();
            self.landed(automaton, positions, has_value)
        });
        self.pairs.insert(key, steps);
        steps
    }

    /// Returns what a byte begins at once that stands, or not, at the boundary of a word.
    pub(super) fn starts(&mut self, automaton: &Automaton, byte: u8, boundary: bool) -> Step {
        let key = u32::from(boundary) << u8::BITS | u32::from(byte);
        if let Some(step) = self.starts.get(&key) {
            return *step;
        }
        let step = self.landed(automaton, automaton.starts(byte, boundary).collect(), false);
        self.starts.insert(key, step);
        step
    }

    /// Takes note of the positions that a byte led to: those that cannot go on are over, if a match or not.
    fn landed(&mut self, automaton: &Automaton, mut positions: Vec<u32>, has_value: bool) -> Step {
        positions.sort_unstable();
        positions.dedup();
        let mut ends = Ends::default();
        let mut parts: [Vec<u32>; 2] = Default::default();
        for at in positions {
            let Position { track, wide, accepts, last, in_value, .. } = automaton.position(at);
            let valued = usize::from(has_value || in_value);
            if accepts {
                ends.tracks[track.index()][valued] = true;
                if wide != NARROW && !ends.wide.contains(&wide) {
                    ends.wide.push(wide);
                }
            }
            if !(accepts && last) {
                parts[valued].push(at);
            }
        }
        let [before, value] = parts;
        let before = self.number(Arc::new(Set::new(automaton, before, false)));
        let value = self.number(Arc::new(Set::new(automaton, value, true)));
        Step { before, value, ends: self.number_of_ends(ends) }
    }

    fn number_of_ends(&mut self, ends: Ends) -> u32 {
        *self.numbers_of_ends.entry(ends).or_insert_with_key(|ends| {
            self.ends.push(ends.clone());
            self.ends.len() as u32 - 1
        })
    }
}
