//! What tokens are taken for, one after another: a chain whose links know what stood before and a little of what comes.
//!
//! In: for each token how much speaks for each [`State`]. Out: the probability of each state, once [`LAG`] more tokens
//! are known. What is said of a token depends on the tokens up to there alone, never on how the text came.

/// How many tokens behind one are looked at before it is judged.
pub const LAG: usize = 2;

/// How many states there are.
pub const STATES: usize = 9;

/// Numbers for each state.
pub type Row = [f32; STATES];

/// What a token can be a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tag {
    /// The name of a person.
    Person,
    /// A postal address, or its street line.
    Address,
    /// A town, a region or a country.
    Location,
    /// A firm, an authority, a club.
    Organization,
}

/// One of: outside, and for each tag its first token and any other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State(u8);

impl Tag {
    /// Every tag, in the order of models' tables.
    pub const ALL: [Self; 4] = [Self::Person, Self::Address, Self::Location, Self::Organization];

    /// Returns the name used in cards.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Address => "address",
            Self::Location => "location",
            Self::Organization => "organization",
        }
    }

    /// Returns its place in [`Tag::ALL`].
    pub fn index(self) -> usize {
        match self {
            Self::Person => 0,
            Self::Address => 1,
            Self::Location => 2,
            Self::Organization => 3,
        }
    }
}

impl State {
    /// Part of nothing.
    pub const OUTSIDE: Self = Self(0);

    /// Returns the state of a first token.
    pub fn first(tag: Tag) -> Self {
        Self(1 + 2 * tag.index() as u8)
    }

    /// Returns the state of any other token.
    pub fn further(tag: Tag) -> Self {
        Self(2 + 2 * tag.index() as u8)
    }

    /// Returns its place in a [`Row`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Tells whether one state may follow another.
pub fn may_follow(before: usize, state: usize) -> bool {
    state == 0 || state % 2 == 1 || before == state || before + 1 == state
}

/// How likely one state follows another, as factors.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    /// By the state before, then by the state.
    pub factors: [Row; STATES],
}

impl Steps {
    /// Returns the factors of log odds; what may not follow never does.
    pub fn of(odds: &[Row; STATES]) -> Self {
        let mut factors = [[0.0; STATES]; STATES];
        for (before, row) in factors.iter_mut().enumerate() {
            for (state, factor) in row.iter_mut().enumerate() {
                *factor = if may_follow(before, state) { odds[before][state].exp() } else { 0.0 };
            }
        }
        Self { factors }
    }

    /// Returns what is known of a token from what was known of the one before it.
    #[inline]
    pub fn forward(&self, before: &Row, own: &Row) -> Row {
        let mut sums = [0.0; STATES];
        for (factors, known) in self.factors.iter().zip(before) {
            sums.iter_mut().zip(factors).for_each(|(sum, factor)| *sum += known * factor);
        }
        sums.iter_mut().zip(own).for_each(|(sum, own)| *sum *= own);
        scaled(sums)
    }

    /// Returns what a token says of the one before it; `behind` is what is known of it from those behind it.
    #[inline]
    pub fn backward(&self, own: &Row, behind: &Row) -> Row {
        let mut told = [0.0; STATES];
        for (told, factors) in told.iter_mut().zip(&self.factors) {
            *told = factors
                .iter()
                .zip(own)
                .zip(behind)
                .map(|((factor, own), behind)| factor * own * behind)
                .sum();
        }
        scaled(told)
    }
}

/// Returns what speaks for each state as factors, the strongest of them one.
#[inline]
pub fn factors(odds: &Row) -> Row {
    let most = odds.iter().copied().fold(f32::MIN, f32::max);
    odds.map(|value| (value - most).exp())
}

/// Returns numbers that add up to one.
#[inline]
pub fn scaled(row: Row) -> Row {
    let sum: f32 = row.iter().sum();
    if sum > 0.0 { row.map(|value| value / sum) } else { START }
}

/// What is known before a text: nothing is under way.
pub const START: Row = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
