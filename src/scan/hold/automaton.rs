//! The patterns as one position automaton, counts relaxed.
//!
//! Glushkov's construction: one position for each byte or class of a pattern, edges to what may follow. A long
//! repetition keeps a few copies and then loops, look-arounds are dropped (but for `\b` at the very start), so the
//! automaton accepts everything the patterns match and more. It decides how long text waits, never what is found.

use regex_syntax::hir::Class;
use regex_syntax::hir::Hir;
use regex_syntax::hir::HirKind;
use regex_syntax::hir::Look;
use regex_syntax::hir::Repetition;

/// How many copies of a repeated part are told apart before it loops.
const COPIES_MAX: usize = 8;

/// How many positions all copies of a repeated part may have.
const COPIED_POSITIONS_MAX: usize = 32;

/// A set of bytes.
pub(super) type ByteSet = [u64; 4];

/// One byte or class of a pattern.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    /// The pattern, by its index in the watch.
    pub pattern: u32,
    /// A match may end here.
    pub accepts: bool,
    /// Nothing may follow, not even a look-around: a thread ends here.
    pub last: bool,
    /// The value has begun: the position is in the pattern's group or behind it.
    pub in_value: bool,
}

/// A position that may follow another one, on these bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub to: u32,
    class: u32,
}

/// All patterns together.
#[derive(Debug, Default)]
pub(super) struct Automaton {
    positions: Vec<Position>,
    classes: Vec<ByteSet>,
    /// Where the edges of each position begin; one more entry than positions.
    edge_starts: Vec<u32>,
    edges: Vec<Edge>,
    anywhere: StartTable,
    at_word_boundary: StartTable,
}

/// The positions that a match may begin with, by their byte.
#[derive(Debug, Default)]
struct StartTable {
    /// 257 offsets into `to`.
    offsets: Vec<u32>,
    to: Vec<u32>,
}

/// Collects patterns.
#[derive(Debug, Default)]
pub(super) struct Builder {
    positions: Vec<Position>,
    position_classes: Vec<u32>,
    classes: Vec<ByteSet>,
    follow: Vec<Vec<u32>>,
    anywhere: Vec<u32>,
    at_word_boundary: Vec<u32>,
    /// Whether the positions that are made now are in the value.
    in_value: bool,
}

/// A part of a pattern: whether it may be empty, where it may begin and end.
#[derive(Clone, Debug)]
struct Part {
    nullable: bool,
    first: Vec<u32>,
    last: Vec<u32>,
}

impl Automaton {
    pub(super) fn position(&self, at: u32) -> Position {
        self.positions[at as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    /// Returns the positions that may follow `from` on `byte`.
    pub(super) fn follow(&self, from: u32, byte: u8) -> impl Iterator<Item = u32> + '_ {
        let from = from as usize;
        let edges = &self.edges[self.edge_starts[from] as usize..self.edge_starts[from + 1] as usize];
        edges.iter().filter(move |edge| has(&self.classes[edge.class as usize], byte)).map(|edge| edge.to)
    }

    /// Returns the positions with which a match may begin on `byte`.
    pub(super) fn starts(&self, byte: u8, word_boundary: bool) -> impl Iterator<Item = u32> + '_ {
        let bounded = if word_boundary { self.at_word_boundary.of(byte) } else { &[] };
        self.anywhere.of(byte).iter().chain(bounded).copied()
    }
}

impl StartTable {
    fn build(positions: &[u32], class_of: impl Fn(u32) -> ByteSet) -> Self {
        let mut table = Self { offsets: vec![0], to: Vec::new() };
        for byte in 0..=u8::MAX {
            table.to.extend(positions.iter().filter(|at| has(&class_of(**at), byte)));
            table.offsets.push(table.to.len() as u32);
        }
        table
    }

    fn of(&self, byte: u8) -> &[u32] {
        let at = usize::from(byte);
        &self.to[self.offsets[at] as usize..self.offsets[at + 1] as usize]
    }
}

impl Builder {
    /// Adds a pattern under its index.
    pub(super) fn add(&mut self, pattern: u32, hir: &Hir) {
        let from = self.positions.len();
        self.in_value = !always_has_group(hir);
        let part = self.part(pattern, hir);
        let looks_behind_end = !hir.properties().look_set_suffix_any().is_empty();
        for at in &part.last {
            self.positions[*at as usize].accepts = true;
        }
        for at in from..self.positions.len() {
            self.follow[at].sort_unstable();
            self.follow[at].dedup();
            self.positions[at].last = self.follow[at].is_empty() && !looks_behind_end;
        }
        match begins_at_word_boundary(hir) {
            true => self.at_word_boundary.extend(part.first),
            false => self.anywhere.extend(part.first),
        }
    }

    /// Makes the tables.
    pub(super) fn finish(self) -> Automaton {
        let mut edge_starts = vec![0];
        let mut edges = Vec::new();
        for follow in &self.follow {
            let edge = |to: &u32| Edge { to: *to, class: self.position_classes[*to as usize] };
            edges.extend(follow.iter().map(edge));
            edge_starts.push(edges.len() as u32);
        }
        let class_of = |at: u32| self.classes[self.position_classes[at as usize] as usize];
        Automaton {
            anywhere: StartTable::build(&self.anywhere, class_of),
            at_word_boundary: StartTable::build(&self.at_word_boundary, class_of),
            positions: self.positions,
            classes: self.classes,
            edge_starts,
            edges,
        }
    }

    fn part(&mut self, pattern: u32, hir: &Hir) -> Part {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => Part::EMPTY,
            HirKind::Literal(literal) => {
                let bytes = literal.0.iter().map(|byte| only(*byte));
                bytes.fold(Part::EMPTY, |before, set| {
                    let next = self.byte(pattern, set);
                    self.then(before, next)
                })
            }
            HirKind::Class(class) => self.class(pattern, class),
            HirKind::Repetition(repetition) => self.repeat(pattern, repetition),
            HirKind::Capture(group) => {
                self.in_value = true;
                self.part(pattern, &group.sub)
            }
            HirKind::Concat(parts) => parts.iter().fold(Part::EMPTY, |before, next| {
                let next = self.part(pattern, next);
                self.then(before, next)
            }),
            HirKind::Alternation(parts) => {
                let mut all = Part { nullable: false, first: Vec::new(), last: Vec::new() };
                for part in parts {
                    let part = self.part(pattern, part);
                    all.nullable |= part.nullable;
                    all.first.extend(part.first);
                    all.last.extend(part.last);
                }
                all
            }
        }
    }

    fn byte(&mut self, pattern: u32, set: ByteSet) -> Part {
        let class = self.classes.iter().position(|known| *known == set).unwrap_or_else(|| {
            self.classes.push(set);
            self.classes.len() - 1
        });
        let at = self.positions.len() as u32;
        self.positions.push(Position { pattern, accepts: false, last: false, in_value: self.in_value });
        self.position_classes.push(class as u32);
        self.follow.push(Vec::new());
        Part { nullable: false, first: vec![at], last: vec![at] }
    }

    fn class(&mut self, pattern: u32, class: &Class) -> Part {
        let mut set = [0; 4];
        match class {
            Class::Bytes(class) => {
                for byte in class.ranges().iter().flat_map(|range| range.start()..=range.end()) {
                    set[usize::from(byte >> 6)] |= 1 << (byte & 63);
                }
                self.byte(pattern, set)
            }
            // A character of several bytes: any bytes will do.
            Class::Unicode(_) => {
                let any = self.byte(pattern, [u64::MAX; 4]);
                self.link(&any.last, &any.first);
                any
            }
        }
    }

    fn repeat(&mut self, pattern: u32, repetition: &Repetition) -> Part {
        if repetition.max == Some(0) {
            return Part::EMPTY;
        }
        let before = self.positions.len();
        let mut copy = self.part(pattern, &repetition.sub);
        let width = self.positions.len() - before;
        let least = repetition.min as usize;
        let copies = least.min(COPIES_MAX).min(COPIED_POSITIONS_MAX / width.max(1)).max(1);
        let mut all = copy.clone();
        for _ in 1..copies {
            copy = self.part(pattern, &repetition.sub);
            all = self.then(all, copy.clone());
        }
        if repetition.max.is_none_or(|max| max as usize > copies) {
            self.link(&copy.last, &copy.first);
        }
        all.nullable |= least == 0;
        all
    }

    fn then(&mut self, before: Part, next: Part) -> Part {
        self.link(&before.last, &next.first);
        let mut first = before.first;
        if before.nullable {
            first.extend(&next.first);
        }
        let mut last = next.last;
        if next.nullable {
            last.extend(&before.last);
        }
        Part { nullable: before.nullable && next.nullable, first, last }
    }

    fn link(&mut self, from: &[u32], to: &[u32]) {
        for at in from {
            self.follow[*at as usize].extend(to);
        }
    }
}

impl Part {
    const EMPTY: Self = Self { nullable: true, first: Vec::new(), last: Vec::new() };
}

/// Tells whether a byte belongs to a word, as `\b` has it.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn begins_at_word_boundary(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Look(look) => *look == Look::WordAscii,
        HirKind::Capture(group) => begins_at_word_boundary(&group.sub),
        HirKind::Concat(parts) => parts.first().is_some_and(begins_at_word_boundary),
        HirKind::Alternation(parts) => parts.iter().all(begins_at_word_boundary),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Repetition(_) => false,
    }
}

/// Tells whether every match has a group that is its value, and so nothing before it is.
fn always_has_group(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Capture(group) => group.sub.properties().minimum_len().is_some_and(|least| least > 0),
        HirKind::Concat(parts) => parts.iter().any(always_has_group),
        // A group that is repeated or one of several ways need not take part, or takes part more than once.
        HirKind::Alternation(_)
        | HirKind::Repetition(_)
        | HirKind::Empty
        | HirKind::Literal(_)
        | HirKind::Class(_)
        | HirKind::Look(_) => false,
    }
}

fn has(set: &ByteSet, byte: u8) -> bool {
    set[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
}

fn only(byte: u8) -> ByteSet {
    let mut set = [0; 4];
    set[usize::from(byte >> 6)] = 1 << (byte & 63);
    set
}
