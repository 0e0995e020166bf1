//! What a token looks like, and what of it and of its neighbours the model weighs.
//!
//! A word counts as itself only if the model has it in its [`Vocabulary`]; every other word counts by its form, by how
//! it begins and ends and by the lists it stands in, so that a name that was never seen looks like one.

use super::token::Gap;
use super::token::Matter;
use super::token::Token;

/// How many features a token has.
pub const FEATURES: usize = 38;

/// How far a token looks back.
pub const BEFORE: usize = 2;
/// How far a token looks ahead.
pub const BEHIND: usize = 2;

/// The lists in which a word may stand, as bits.
pub mod list {
    /// Given names.
    pub const GIVEN: u8 = 1;
    /// Family names.
    pub const FAMILY: u8 = 2;
    /// Towns, and words of their names.
    pub const TOWN: u8 = 4;
    /// Countries and regions.
    pub const LAND: u8 = 8;
    /// Words that make a street.
    pub const STREET: u8 = 16;
    /// Words that make a firm.
    pub const FIRM: u8 = 32;
    /// Months, weekdays and languages.
    pub const CALENDAR: u8 = 64;
    /// Words that count as themselves.
    pub const KNOWN: u8 = 128;
}

/// What is known of words: in which lists they stand.
pub trait Vocabulary {
    /// Returns the lists of a hash.
    fn lists(&self, hash: u32) -> u8;
}

/// What counts of one token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The form and the gap before it.
    form: u8,
    /// The form alone; 0 where there is no token.
    shape: u8,
    lists: u8,
    /// What it counts as: itself, or what its form and lists say.
    id: u32,
    hash: u32,
    heads: [u32; 2],
    tails: [u32; 3],
    is_word: bool,
    /// Whether it begins a line.
    begins_line: bool,
    /// Whether it tells nothing of names: a word in small letters that is known and in no list.
    is_plain: bool,
}

impl Look {
    /// Looks at a token.
    pub fn of(token: &Token, vocabulary: &impl Vocabulary) -> Self {
        let shape = shape(token);
        let gap = token.gap as u8;
        let (hash, heads, tails) = letters(&token.bytes);
        let lists = vocabulary.lists(hash);
        let is_sign = token.matter == Matter::Sign;
        let counts = is_sign || token.matter == Matter::Mark || lists & list::KNOWN != 0;
        let id = if counts { hash | 1 } else { (u32::from(lists) << 8 | u32::from(shape)) << 1 };
        Self {
            form: shape | gap << 6,
            shape,
            lists: lists & !list::KNOWN,
            id,
            hash,
            heads,
            tails,
            is_word: token.matter != Matter::Mark,
            begins_line: token.gap >= Gap::Line,
            is_plain: lists == list::KNOWN && matches!(shape, 1..=3),
        }
    }

    /// Tells whether the middle one of five tokens is part of nothing, by a glance: it and its neighbours are plain.
    #[inline]
    pub fn is_surely_outside(looks: &[Self; BEFORE + 1 + BEHIND]) -> bool {
        let [_, back, this, next, _] = looks;
        back.is_plain && this.is_plain && next.is_plain
    }

    /// Returns the hash of the word in lower case.
    pub fn hash(&self) -> u32 {
        self.hash
    }
}

/// What of the text before a token still counts, beyond its neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// The last words, the later first, whatever marks stand between.
    words: [u32; 2],
    /// The first word of the line.
    line: u32,
}

impl Past {
    /// Goes on behind a token.
    pub fn pass(&mut self, look: &Look) {
        if look.begins_line {
            self.line = 0;
        }
        if look.is_word {
            if self.line == 0 {
                self.line = look.id | 1 << 31;
            }
            self.words = [look.id, self.words[0]];
        }
    }
}

/// Returns the hash of two words that follow each other, as lists of names of two words have it.
pub fn pair(first: u32, second: u32) -> u32 {
    mixed(u64::from(first) << 32 | u64::from(second ^ 0x5bd1_e995))
}

/// Calls `each` with every feature of the middle one of five tokens.
#[inline]
pub fn features(
    looks: &[Look; BEFORE + 1 + BEHIND],
    past: &Past,
    vocabulary: &impl Vocabulary,
    mut each: impl FnMut(u32),
) {
    let [_, back, this, next, _] = looks;
    let with_next = vocabulary.lists(pair(this.hash, next.hash)) & !list::KNOWN;
    let with_back = vocabulary.lists(pair(back.hash, this.hash)) & !list::KNOWN;
    let [form, next_form] = [this, next].map(|look| u64::from(look.form));
    let [shape_2, shape_1, shape_0, shape1, shape2] = looks.each_ref().map(|look| u64::from(look.shape));
    let [id_2, id_1, id0, id1, id2] = looks.each_ref().map(|look| u64::from(look.id));
    let [lists_1, lists0, lists1] = [back, this, next].map(|look| u64::from(look.lists));
    let [head2, head3] = this.heads.map(u64::from);
    let [tail2, tail3, tail4] = this.tails.map(u64::from);
    let [word_1, word_2] = past.words.map(u64::from);
    let line = if this.begins_line { 1 } else { u64::from(past.line) };
    let pairs = u64::from(with_back) << 8 | u64::from(with_next);
    let list: [u64; FEATURES] = [
        id0,
        form,
        lists0 << 8 | shape_0,
        form << 8 | next_form,
        shape_1 << 16 | form << 8 | next_form,
        head2 << 8 | shape_0,
        head3 << 8 | shape_0,
        tail2 << 8 | shape_0,
        tail3 << 8 | shape_0,
        tail4 << 8 | shape_0,
        id_1,
        id1,
        id_2,
        id2,
        id_1 << 8 | form,
        id1 << 8 | form,
        lists_1 << 24 | shape_1 << 16 | lists0 << 8 | shape_0,
        lists0 << 24 | shape_0 << 16 | lists1 << 8 | shape1,
        lists_1 << 24 | lists0 << 16 | lists1 << 8 | u64::from(this.begins_line),
        word_1,
        word_1 << 32 | word_2,
        word_1 << 8 | form,
        pairs << 8 | form,
        id_2 << 32 | id_1,
        id1 << 32 | id2,
        word_1 << 16 | shape_1 << 8 | shape_0,
        shape_2 << 16 | shape_1 << 8 | shape_0,
        shape_0 << 16 | shape1 << 8 | shape2,
        u64::from(back.tails[2]) << 8 | shape_0,
        u64::from(next.tails[2]) << 8 | shape_0,
        u64::from(next.tails[1]) << 8 | shape_0,
        line,
        line << 8 | form,
        id_1 << 32 | id0,
        id0 << 32 | id1,
        lists0 << 32 | id_1,
        lists0 << 32 | id1,
        word_2 << 8 | form,
    ];
    for (at, value) in list.into_iter().enumerate() {
        each(mixed(value.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(at as u64)));
    }
}

/// Returns a word's hash in lower case, those of its first two and three letters, and of its last two, three and four.
fn letters(bytes: &[u8]) -> (u32, [u32; 2], [u32; 3]) {
    let mut low: smallvec::SmallVec<[u32; 24]> = smallvec::SmallVec::new();
    match std::str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() => {
            low.extend(bytes.iter().map(|byte| folded(u32::from(byte.to_ascii_lowercase()))))
        }
        Ok(text) => {
            low.extend(text.chars().flat_map(char::to_lowercase).map(|letter| folded(u32::from(letter))))
        }
        Err(_) => low.extend(bytes.iter().map(|byte| u32::from(*byte))),
    }
    let hash = |part: &[u32], seed: u64| {
        let mixed_in = |hash: u64, letter: &u32| (hash ^ u64::from(*letter)).wrapping_mul(0x100_0000_01b3);
        mixed(part.iter().fold(0xcbf2_9ce4_8422_2325 ^ seed, mixed_in))
    };
    let head = |count: usize| hash(low.get(..count).unwrap_or(&low), 1);
    let tail = |count: usize| hash(low.get(low.len().saturating_sub(count)..).unwrap_or_default(), 2);
    (hash(&low, 0), [head(2), head(3)], [tail(2), tail(3), tail(4)])
}

/// Returns the hash of a word, as [`Look::hash`] has it.
pub fn hash_of(word: &str) -> u32 {
    letters(word.as_bytes()).0
}

/// Makes all digits alike.
fn folded(letter: u32) -> u32 {
    if (0x30..=0x39).contains(&letter) { 0x30 } else { letter }
}

fn mixed(value: u64) -> u32 {
    let value = (value ^ value >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (value ^ value >> 29) as u32 ^ (value >> 32) as u32
}

/// Returns the form of a token, in six bits.
fn shape(token: &Token) -> u8 {
    let Ok(text) = std::str::from_utf8(&token.bytes) else { return 1 };
    let Some(first) = text.chars().next() else { return 1 };
    match token.matter {
        Matter::Mark => mark(first),
        Matter::Sign if matches!(first, '\u{3041}'..='\u{309f}') => 9,
        Matter::Sign => 8,
        Matter::Word => word(text, first),
    }
}

fn word(text: &str, first: char) -> u8 {
    let length = text.chars().count();
    let digits = text.chars().filter(|letter| letter.is_numeric()).count();
    if digits == length {
        return 16 + length.min(6) as u8 - 1;
    }
    if digits > 0 {
        return if first.is_numeric() { 22 } else { 23 };
    }
    let upper = text.chars().filter(|letter| letter.is_uppercase()).count();
    let lower = text.chars().filter(|letter| letter.is_lowercase()).count();
    if upper + lower == 0 {
        return script(first);
    }
    match (first.is_uppercase(), upper, lower) {
        (_, 0, _) if length == 1 => 2,
        (_, 0, _) if length <= 3 => 3,
        (_, 0, _) => 1,
        (true, 1, 0) => 4,
        (true, _, 0) if length <= 3 => 5,
        (true, _, 0) => 6,
        (true, 1, _) => 7,
        (true, ..) => 24,
        (false, ..) => 25,
    }
}

fn script(letter: char) -> u8 {
    match letter {
        '\u{30a0}'..='\u{30ff}' => 10,
        '\u{ac00}'..='\u{d7af}' => 11,
        '\u{600}'..='\u{77f}' | '\u{8a0}'..='\u{8ff}' | '\u{fb50}'..='\u{fdff}' => 12,
        '\u{590}'..='\u{5ff}' => 13,
        '\u{900}'..='\u{dff}' => 14,
        _ => 15,
    }
}

fn mark(letter: char) -> u8 {
    match letter {
        '.' => 26,
        ',' | '\u{3001}' | '\u{ff0c}' | '\u{60c}' => 27,
        ':' | '\u{ff1a}' => 28,
        ';' => 29,
        '-' | '\u{2010}'..='\u{2015}' => 30,
        '/' => 31,
        '\'' | '\u{2018}' | '\u{2019}' | '`' | '\u{b4}' => 32,
        '"' | '\u{201c}'..='\u{201f}' | '\u{ab}' | '\u{bb}' | '\u{300c}'..='\u{300f}' => 33,
        '(' | '\u{ff08}' => 34,
        ')' | '\u{ff09}' => 35,
        '@' => 36,
        '_' => 37,
        '#' => 38,
        '&' => 39,
        '!' | '?' | '\u{ff01}' | '\u{ff1f}' | '\u{bf}' | '\u{a1}' => 40,
        '<' => 41,
        '>' => 42,
        '[' | '{' => 43,
        ']' | '}' => 44,
        '=' => 45,
        '*' => 46,
        '\\' => 47,
        '|' => 48,
        '+' | '~' | '^' | '%' | '$' => 49,
        '\u{3002}' => 50,
        _ => 51,
    }
}
