//! The first stage for beginnings of words: what may stand at each of their first places.
//!
//! Among many other shapes these slow Hyperscan down to a fraction; a few tables do them all at once. A text is
//! walked along from each byte that one of them begins with, with one bit for each shape that still agrees. Which bytes
//! these may be is told of a whole window at once, in operations that compilers make vectors of.

use crate::scan::shape::ByteSet;
use crate::scan::shape::Lead;
use crate::scan::shape::RARE_BYTES;

/// How many bytes are looked at together for those that a shape may begin with.
const WINDOW_BYTES: usize = 64;

/// How many places of a beginning are looked at for a whole window at once.
const SEEN_PLACES: usize = 4;

/// How many bytes are read for a window: one before it, and what its last one may begin.
const SEEN_BYTES: usize = WINDOW_BYTES + 16;

/// How many pairs there are of a byte that a shape may begin with, and any other.
const PAIRS: usize = (*RARE_BYTES.end() as usize - *RARE_BYTES.start() as usize + 1) << 8;

/// How many kinds of bytes are told apart behind the first two: digits, capitals, small letters, and all others.
const KINDS: usize = 4;

/// All beginnings.
#[derive(Debug, Default)]
pub(super) struct Heads {
    /// Those that only begin at the edge of a word.
    at_edges: Tables,
    /// Those that may begin within a word.
    anywhere: Tables,
    /// What any of them begins with.
    all: Openings,
    /// What those begin with that may begin within a word.
    within: Openings,
}

/// What some shapes begin with; empty where there are none.
#[derive(Debug, Default)]
struct Openings {
    /// By place: of which [`class`] a byte may be, as bits.
    classes: [u8; SEEN_PLACES],
    /// By the first byte and the second, as bits: of which kinds the two bytes behind them may be.
    behind: Vec<u16>,
}

/// A window of a text.
struct Window {
    /// By byte: all bits, if it is one that shapes may begin with.
    rare: [u8; WINDOW_BYTES],
    /// The [`class`] of each byte, behind that of the byte before the window.
    classes: [u8; SEEN_BYTES],
}

/// Any number of beginnings.
#[derive(Debug, Default)]
struct Tables {
    tables: Vec<Table>,
}

/// As many beginnings as a word has bits, all of which begin with bytes of the same kinds.
#[derive(Debug, Default)]
struct Table {
    /// The bytes that one of them begins with.
    begins: ByteSet,
    /// By place and byte: the shapes that agree.
    rows: Vec<[u64; 256]>,
    /// By place: the shapes that end there.
    ends: Vec<u64>,
    /// By bit: the group of the shape.
    groups: Vec<u32>,
}

impl Heads {
    /// Adds a beginning under its group.
    pub(super) fn add(&mut self, group: u32, lead: &Lead) {
        self.all.add(lead);
        match lead.at_edge {
            true => self.at_edges.add(group, lead),
            false => {
                self.within.add(lead);
                self.anywhere.add(group, lead);
            }
        }
    }

    /// Reports the group and the end of every beginning in a text, until `report` returns false; false if it did.
    pub(super) fn scan(&self, text: &[u8], mut report: impl FnMut(u32, usize) -> bool) -> bool {
        if self.all.behind.is_empty() {
            return true;
        }
        for start in (0..text.len()).step_by(WINDOW_BYTES) {
            let window = Window::of(text, start);
            let mut marks = self.all.marks(&window, AT_EDGE);
            if !self.within.behind.is_empty() {
                let within = self.within.marks(&window, WITHIN);
                marks.iter_mut().zip(within).for_each(|(mark, within)| *mark |= within);
            }
            for (part, marks) in marks.chunks(size_of::<u64>()).enumerate() {
                let mut left = marks.try_into().map_or(0, u64::from_le_bytes);
                while left != 0 {
                    let offset = left.trailing_zeros() / 8;
                    let mark = (left >> (8 * offset)) as u8;
                    left &= !(0xff << (8 * offset));
                    let at = start + part * size_of::<u64>() + offset as usize;
                    let openings = if mark == WITHIN { &self.within } else { &self.all };
                    if openings.agree(text, at) && !self.begin(text, at, mark, &mut report) {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Follows all beginnings at an offset.
    fn begin(&self, text: &[u8], at: usize, mark: u8, report: &mut impl FnMut(u32, usize) -> bool) -> bool {
        let (Some(rest), Some(first)) = (text.get(at..), text.get(at)) else { return true };
        (mark == WITHIN || self.at_edges.walk(rest, at, *first, report))
            && self.anywhere.walk(rest, at, *first, report)
    }
}

impl Openings {
    fn add(&mut self, lead: &Lead) {
        self.behind.resize(PAIRS, 0);
        let any = ByteSet::of(0, u8::MAX);
        let places = [0, 1, 2, 3].map(|at| *lead.places.get(at).unwrap_or(&any));
        for (classes, set) in self.classes.iter_mut().zip(&places) {
            *classes = set.iter().fold(*classes, |classes, byte| classes | class(byte));
        }
        let [first, second, third, fourth] = places;
        let mut kinds = 0;
        for (one, next) in (0..KINDS).flat_map(|one| (0..KINDS).map(move |next| (one, next))) {
            let agrees = has_kind(&third, one) && has_kind(&fourth, next);
            kinds |= u16::from(agrees) << (one * KINDS + next);
        }
        for (one, next) in first.iter().flat_map(|one| second.iter().map(move |next| (one, next))) {
            if let Some(known) = self.behind.get_mut(pair(one, next)) {
                *known |= kinds;
            }
        }
    }

    /// Marks the bytes of a window, within words or at their edges, that one of the shapes may begin with, by their classes.
    fn marks(&self, window: &Window, mark: u8) -> [u8; WINDOW_BYTES] {
        let is_within = all_if(mark == WITHIN);
        let (before, classes) = (&window.classes, &window.classes[1..]);
        let mut marks = window.rare;
        for (known, (class, before)) in marks.iter_mut().zip(classes.iter().zip(before)) {
            let within = !all_if((class & WORD == 0) | (before & WORD == 0));
            *known &= !(within ^ is_within) & mark;
        }
        for (place, allowed) in self.classes.iter().enumerate() {
            for (known, class) in marks.iter_mut().zip(&classes[place..]) {
                *known &= !all_if(class & allowed == 0);
            }
        }
        marks
    }

    /// Tells whether one of the beginnings agrees with the first two bytes at an offset, and with the kinds of the next two.
    #[inline]
    fn agree(&self, text: &[u8], at: usize) -> bool {
        // At the end of the text any bytes will do: the walk looks again.
        let Some([first, second, third, fourth]) = text.get(at..at + 4) else { return true };
        let kinds = self.behind.get(pair(*first, *second));
        kinds.is_some_and(|kinds| kinds >> (kind_of(*third) * KINDS + kind_of(*fourth)) & 1 == 1)
    }
}

impl Window {
    /// Reads the window that begins at an offset of a text. What is behind its end may be anything, but begins nothing.
    fn of(text: &[u8], start: usize) -> Self {
        let bytes = around(text, start);
        let mut classes = bytes.map(class);
        let mut rare = [0; WINDOW_BYTES];
        for (rare, byte) in rare.iter_mut().zip(&bytes[1..]) {
            *rare = all_if(is_rare(*byte));
        }
        let left = text.len() - start;
        rare.iter_mut().skip(left).for_each(|rare| *rare = 0);
        classes.iter_mut().skip(1 + left).for_each(|classes| *classes = u8::MAX);
        Self { rare, classes }
    }
}

/// Returns the bytes of a text from right before an offset on, zeros for those that it does not have.
fn around(text: &[u8], start: usize) -> [u8; SEEN_BYTES] {
    let from = start.checked_sub(1);
    if let Some(whole) = from.and_then(|from| text.get(from..)).and_then(|rest| rest.first_chunk()) {
        return *whole;
    }
    let mut bytes = [0; SEEN_BYTES];
    let rest = text.get(from.unwrap_or(0)..).unwrap_or_default();
    let first = usize::from(from.is_none());
    bytes.iter_mut().skip(first).zip(rest).for_each(|(to, byte)| *to = *byte);
    bytes
}

impl Tables {
    fn add(&mut self, group: u32, lead: &Lead) {
        let kinds = lead.places.first().map(kinds_of);
        let is_room = |table: &&mut Table| {
            table.groups.len() < u64::BITS as usize && Some(kinds_of(&table.begins)) == kinds
        };
        match self.tables.iter_mut().find(is_room) {
            Some(table) => table.add(group, lead),
            None => {
                let mut table = Table::default();
                table.add(group, lead);
                self.tables.push(table);
            }
        }
    }

    fn walk(&self, text: &[u8], at: usize, first: u8, report: &mut impl FnMut(u32, usize) -> bool) -> bool {
        let mut tables = self.tables.iter().filter(|table| table.begins.contains(first));
        tables.all(|table| table.walk(text, at, report))
    }
}

impl Table {
    fn add(&mut self, group: u32, lead: &Lead) {
        self.begins = lead.places.first().map_or(self.begins, |set| self.begins.union(*set));
        let bit = 1 << self.groups.len();
        self.groups.push(group);
        let width = self.rows.len().max(lead.places.len());
        self.rows.resize(width, [0; 256]);
        self.ends.resize(width, 0);
        for (set, row) in lead.places.iter().zip(&mut self.rows) {
            set.iter().for_each(|byte| row[usize::from(byte)] |= bit);
        }
        if let Some(last) = lead.places.len().checked_sub(1).and_then(|last| self.ends.get_mut(last)) {
            *last |= bit;
        }
    }

    /// Follows a text from `at` on as long as a shape agrees.
    fn walk(&self, text: &[u8], at: usize, report: &mut impl FnMut(u32, usize) -> bool) -> bool {
        let mut alive = u64::MAX;
        for (place, (byte, (row, ends))) in text.iter().zip(self.rows.iter().zip(&self.ends)).enumerate() {
            alive &= row[usize::from(*byte)];
            if alive == 0 {
                return true;
            }
            let mut ended = alive & ends;
            while ended != 0 {
                let group = self.groups.get(ended.trailing_zeros() as usize);
                if !group.is_some_and(|group| report(*group, at + place + 1)) {
                    return false;
                }
                ended &= ended - 1;
            }
        }
        true
    }
}

/// Returns of which kinds the bytes of a set are: digits, letters, signs.
fn kinds_of(set: &ByteSet) -> [bool; 3] {
    let has = |is_of: fn(&u8) -> bool| set.iter().any(|byte| is_of(&byte));
    [has(u8::is_ascii_digit), has(u8::is_ascii_alphabetic), has(|byte| !byte.is_ascii_alphanumeric())]
}

/// Which of the [`KINDS`] each byte is of.
const KIND: [u8; 256] = {
    let (mut kinds, mut byte) = ([3; 256], 0_u8);
    while byte < 128 {
        kinds[byte as usize] = match byte {
            b'0'..=b'9' => 0,
            b'A'..=b'Z' => 1,
            b'a'..=b'z' => 2,
            _ => 3,
        };
        byte += 1;
    }
    kinds
};

/// Returns which of the [`KINDS`] a byte is of.
fn kind_of(byte: u8) -> usize {
    usize::from(KIND[usize::from(byte)])
}

/// Tells whether a set has a byte of a kind.
fn has_kind(set: &ByteSet, kind: usize) -> bool {
    set.iter().any(|byte| kind_of(byte) == kind)
}

/// Tells whether a byte is one that beginnings begin with.
fn is_rare(byte: u8) -> bool {
    byte.wrapping_sub(*RARE_BYTES.start()) <= RARE_BYTES.end() - RARE_BYTES.start()
}

/// Marks a byte that a shape may begin with, and that stands within a word.
const WITHIN: u8 = 1;
/// Marks such a byte where a word begins, or that is of none.
const AT_EDGE: u8 = 2;

/// The classes of the bytes of words.
const WORD: u8 = 0b1111;

/// Returns the class of a byte, one bit: digits, capitals, small letters, the underscore, and all others.
#[inline]
fn class(byte: u8) -> u8 {
    let digit = all_if(byte.wrapping_sub(b'0') < 10) & 1;
    let capital = all_if(byte.wrapping_sub(b'A') < 26) & 2;
    let small = all_if(byte.wrapping_sub(b'a') < 26) & 4;
    let underscore = all_if(byte == b'_') & 8;
    let of_word = digit | capital | small | underscore;
    of_word | (all_if(of_word == 0) & 16)
}

/// Returns all bits if something holds.
#[inline]
fn all_if(holds: bool) -> u8 {
    0_u8.wrapping_sub(u8::from(holds))
}

/// Returns the place of a pair of bytes, the first of which is a rare one.
#[inline]
fn pair(first: u8, second: u8) -> usize {
    usize::from(first.wrapping_sub(*RARE_BYTES.start())) << 8 | usize::from(second)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::scan::engine::Engine;
    use crate::scan::fixture;
    use crate::scan::shape::Shape;

    const PATTERNS: [&str; 9] = [
        r"\b[0-9]{9}\b",
        r"\b[0-9]{3}-?[0-9]{2}-?[0-9]{4}\b",
        r"\b[A-Z][0-9]{7}[A-Z]\b",
        r"\b[A-Z]{2}[0-9]{2}(?:[ -]?[A-Z0-9]{4}){2}",
        r"\b[0-9]{11,14}\b",
        r"\b[A-Z0-9]{5}[a-z]{0,3}",
        r"[A-Z][0-9]{2}[-a]",
        r"-[0-9]{2}",
        r"(?:-[0-9]|\b[A-Z])[0-9a-z]{2,30}",
    ];

    fn shape(pattern: &str) -> Shape {
        let detector = fixture::detector("probe", pattern);
        Shape::of(&detector, &detector.pattern.hir())
    }

    /// Returns the ends of shapes in a text by brute force.
    fn slow(leads: &[Lead], text: &[u8]) -> Vec<(u32, usize)> {
        let mut found = Vec::new();
        for (group, lead) in leads.iter().enumerate() {
            for (at, window) in text.windows(lead.places.len()).enumerate() {
                let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
                let within = at > 0 && is_word(text[at]) && is_word(text[at - 1]);
                let agrees = window.iter().zip(&lead.places).all(|(byte, set)| set.contains(*byte));
                if agrees && !(lead.at_edge && within) {
                    found.push((group as u32, at + lead.places.len()));
                }
            }
        }
        found
    }

    proptest! {
        #[test]
        fn what_agrees_at_every_place_is_reported(text in "(?:[0-9]{1,4}|[A-Z]{1,3}|[ a_é.-]|[0-9]{9}|X[0-9]{7}Y){0,24}") {
            let shapes = PATTERNS.map(shape);
            let leads = shapes.map(|shape| shape.lead.unwrap());
            let mut heads = Heads::default();
            // Twice over, so that there is more than one table.
            for turn in 0..8 {
                leads.iter().zip(turn * 9..).for_each(|(lead, group)| heads.add(group, lead));
            }
            let mut quick = Vec::new();
            heads.scan(text.as_bytes(), |group, end| {
                quick.push((group % 9, end));
                true
            });
            let mut slow = slow(&leads, text.as_bytes());
            quick.sort_unstable();
            quick.dedup();
            slow.sort_unstable();
            prop_assert_eq!(quick, slow);
        }

        #[test]
        fn no_match_is_without_its_beginning(text in "(?:[0-9]{1,4}|[A-Z]{1,3}|[ a_é.-]|[0-9]{9}|X[0-9]{7}Y){0,24}") {
            for pattern in PATTERNS {
                let shape = shape(pattern);
                let width = shape.lead.as_ref().unwrap().places.len();
                let engine = Engine::compile(&[shape]).unwrap();
                let ends = engine.scan(text.as_bytes(), 0..text.len(), |_| true, |runs| {
                    runs.iter().flat_map(|run| run.first..=run.last).collect::<Vec<usize>>()
                }).unwrap();
                for found in regex::Regex::new(pattern).unwrap().find_iter(&text) {
                    prop_assert!(ends.contains(&(found.start() + width)), "{}", pattern);
                }
            }
        }
    }
}
