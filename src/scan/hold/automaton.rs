//! The patterns as one position automaton, counts relaxed.
//!
//! Glushkov's construction: one position for each byte or class of a pattern, edges to what may follow. A long
//! repetition keeps a few copies and then loops, look-arounds are dropped (but for `\b` at the very start), so the
//! automaton accepts everything the patterns match and more. It decides how long text waits, never what is found.
//!
//! Hundreds of patterns begin alike (a word for a key, then a sign): what a track's patterns have in common at their
//! beginning is followed once. And most that a byte begins are over with the next one: a pattern that begins with one of
//! few bytes is only followed once two of its bytes are there ([`pairs`]).

use std::collections::HashMap;

use regex_syntax::hir::Class;
use regex_syntax::hir::Hir;
use regex_syntax::hir::HirKind;
use regex_syntax::hir::Repetition;

use super::Track;
use super::pairs::Begun;
use super::pairs::PairTable;
use super::part::Part;
use super::part::Row;

/// A set of bytes.
pub(super) type ByteSet = [u64; 4];

/// Patterns that begin with one of more bytes than these are followed from the first byte on.
const PAIR_BYTES_MAX: u32 = 8;

/// Says that a position belongs to no wide pattern.
pub(super) const NARROW: u32 = u32::MAX;

/// One byte or class of one or more patterns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    /// What is done about findings of its patterns.
    pub track: Track,
    /// The widest match of its patterns, and one byte for a look-around behind it.
    pub reach: u32,
    /// Its pattern by index in the watch, if that is a wide one; or [`NARROW`].
    pub wide: u32,
    /// A match may end here.
    pub accepts: bool,
    /// Nothing may follow, not even a look-around.
    pub last: bool,
    /// The value has begun: the position is in the pattern's group or behind it.
    pub in_value: bool,
}

/// What the automaton has to know of a pattern.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub track: Track,
    pub reach: u32,
    /// The pattern's index in the watch, if it is wide: it shares nothing then.
    pub wide: u32,
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
    anywhere: Starts,
    at_word_boundary: Starts,
}

/// The positions that a match may begin with.
#[derive(Debug, Default)]
struct Starts {
    /// Those that are followed at once.
    single: StartTable,
    /// The others, with what follows them.
    pairs: PairTable,
}

/// Positions by their byte.
#[derive(Debug, Default)]
struct StartTable {
    /// 257 offsets into `to`.
    offsets: Vec<u32>,
    to: Vec<u32>,
}

/// Collects patterns.
#[derive(Debug, Default)]
pub(super) struct Builder {
    /// What patterns begin with: first those that begin anywhere, then those that begin at a word's boundary.
    roots: [Vec<Node>; 2],
    positions: Vec<Position>,
    position_classes: Vec<u32>,
    classes: Vec<ByteSet>,
    /// Where the classes are that there are.
    known: HashMap<ByteSet, u32>,
    follow: Vec<Vec<u32>>,
    /// What the positions that are made now are told of.
    now: Option<Position>,
}

/// A part that some patterns have in common, and what follows it in each of them.
#[derive(Debug)]
struct Node {
    part: Part,
    facts: Facts,
    /// Whether a pattern ends here, and if so, whether one looks at what comes behind it.
    ends: Option<bool>,
    next: Vec<Node>,
}

/// What follows a part: where it may begin, and whether there may be nothing (and then, what [`Node::ends`] says).
#[derive(Debug)]
struct Tail {
    first: Vec<u32>,
    ends: Option<bool>,
}

/// A piece of a pattern: whether it may be empty, where it may begin and end.
#[derive(Clone, Debug)]
struct Piece {
    nullable: bool,
    first: Vec<u32>,
    last: Vec<u32>,
}

impl Automaton {
    pub(super) fn position(&self, at: u32) -> Position {
        self.positions[at as usize]
    }

    /// Returns the positions that may follow `from` on `byte`.
    pub(super) fn follow(&self, from: u32, byte: u8) -> impl Iterator<Item = u32> + '_ {
        let from = from as usize;
        let edges = &self.edges[self.edge_starts[from] as usize..self.edge_starts[from + 1] as usize];
        edges.iter().filter(move |edge| has(&self.classes[edge.class as usize], byte)).map(|edge| edge.to)
    }

    /// Returns the positions with which a match may begin on `byte`, but for those of pairs.
    pub(super) fn starts(&self, byte: u8, word_boundary: bool) -> impl Iterator<Item = u32> + '_ {
        let bounded = if word_boundary { self.at_word_boundary.single.of(byte) } else { &[] };
        self.anywhere.single.of(byte).iter().chain(bounded).copied()
    }

    /// Returns what a byte begins that goes on with [`Automaton::pairs`], if it begins anything.
    pub(super) fn begun(&self, byte: u8, word_boundary: bool) -> Option<Begun> {
        let anywhere = self.anywhere.pairs.begun(byte);
        let bounded = self.at_word_boundary.pairs.begun(byte).filter(|_| word_boundary);
        anywhere.into_iter().chain(bounded).reduce(Begun::with)
    }

    /// Returns the positions of a second byte behind a first one that stood, or not, at the boundary of a word; and of
    /// each, whether its value began with the first.
    pub(super) fn pairs(
        &self,
        (first, word_boundary): (u8, bool),
        byte: u8,
    ) -> impl Iterator<Item = (u32, bool)> + '_ {
        let bounded = if word_boundary { self.at_word_boundary.pairs.of(first, byte) } else { &[] };
        self.anywhere.pairs.of(first, byte).iter().chain(bounded).copied()
    }

    /// Parts the positions that matches begin with.
    fn starts_of(&self, first: &[u32], class_of: impl Fn(u32) -> ByteSet) -> Starts {
        let (pairs, single): (Vec<u32>, Vec<u32>) = first.iter().partition(|at| {
            let Position { accepts, wide, .. } = self.position(**at);
            !accepts && wide == NARROW && count(&class_of(**at)) <= PAIR_BYTES_MAX
        });
        let edges = |at: u32| {
            let edges = &self.edges
                [self.edge_starts[at as usize] as usize..self.edge_starts[at as usize + 1] as usize];
            edges.iter().map(|edge| (edge.to, self.classes[edge.class as usize]))
        };
        let mut table = PairTable::default();
        for at in pairs {
            table.add(self.position(at), class_of(at), edges(at));
        }
        Starts { single: StartTable::build(&single, class_of), pairs: table.finished() }
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
    /// Adds a pattern.
    pub(super) fn add(&mut self, row: Row, facts: Facts) {
        let mut level = &mut self.roots[usize::from(row.at_boundary)];
        let count = row.parts.len();
        for (at, part) in row.parts.into_iter().enumerate() {
            let alike = |node: &Node| {
                node.part == part && node.facts.track == facts.track && node.facts.wide == facts.wide
            };
            let known = level.iter().position(alike).unwrap_or_else(|| {
                level.push(Node { part, facts, ends: None, next: Vec::new() });
                level.len() - 1
            });
            let node = &mut level[known];
            node.facts.reach = node.facts.reach.max(facts.reach);
            if at + 1 == count {
                node.ends = Some(node.ends.unwrap_or(false) | row.looks_behind_end);
            }
            level = &mut node.next;
        }
    }

    /// Makes the tables.
    pub(super) fn finish(mut self) -> Automaton {
        let starts = std::mem::take(&mut self.roots).map(|nodes| self.any(nodes).first);
        for (position, follow) in self.positions.iter_mut().zip(&mut self.follow) {
            follow.sort_unstable();
            follow.dedup();
            position.last &= follow.is_empty();
        }
        let mut edge_starts = vec![0];
        let mut edges = Vec::new();
        for follow in &self.follow {
            let edge = |to: &u32| Edge { to: *to, class: self.position_classes[*to as usize] };
            edges.extend(follow.iter().map(edge));
            edge_starts.push(edges.len() as u32);
        }
        self.positions.shrink_to_fit();
        edges.shrink_to_fit();
        let mut automaton = Automaton {
            positions: self.positions,
            classes: self.classes,
            edge_starts,
            edges,
            ..Automaton::default()
        };
        let class_of = |at: u32| automaton.classes[self.position_classes[at as usize] as usize];
        let [anywhere, at_word_boundary] = starts.map(|starts| automaton.starts_of(&starts, class_of));
        (automaton.anywhere, automaton.at_word_boundary) = (anywhere, at_word_boundary);
        automaton
    }

    /// Makes positions for what may stand at one place.
    fn any(&mut self, nodes: Vec<Node>) -> Tail {
        let mut all = Tail { first: Vec::new(), ends: None };
        for node in nodes {
            all.join(self.node(node));
        }
        all
    }

    fn node(&mut self, node: Node) -> Tail {
        let Facts { track, reach, wide } = node.facts;
        let in_value = node.part.in_value;
        self.now = Some(Position { track, reach, wide, accepts: false, last: true, in_value });
        let piece = self.piece(&node.part.hir);
        let mut behind = self.any(node.next);
        behind.join(Tail { first: Vec::new(), ends: node.ends });
        self.link(&piece.last, &behind.first);
        if let Some(looks) = behind.ends {
            for at in &piece.last {
                let position = &mut self.positions[*at as usize];
                position.accepts = true;
                position.last &= !looks;
            }
        }
        let mut whole = Tail { first: piece.first, ends: None };
        if piece.nullable {
            whole.join(behind);
        }
        whole
    }

    fn piece(&mut self, hir: &Hir) -> Piece {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => Piece::EMPTY,
            HirKind::Literal(literal) => literal.0.iter().fold(Piece::EMPTY, |before, byte| {
                let next = self.byte(only(*byte));
                self.then(before, next)
            }),
            HirKind::Class(class) => self.class(class),
            HirKind::Repetition(repetition) => self.repeat(repetition),
            HirKind::Capture(group) => {
                self.now = self.now.map(|position| Position { in_value: true, ..position });
                self.piece(&group.sub)
            }
            HirKind::Concat(parts) => parts.iter().fold(Piece::EMPTY, |before, next| {
                let next = self.piece(next);
                self.then(before, next)
            }),
            HirKind::Alternation(parts) => {
                let mut all = Piece { nullable: false, first: Vec::new(), last: Vec::new() };
                for part in parts {
                    let part = self.piece(part);
                    all.nullable |= part.nullable;
                    all.first.extend(part.first);
                    all.last.extend(part.last);
                }
                all
            }
        }
    }

    fn byte(&mut self, set: ByteSet) -> Piece {
        let class = *self.known.entry(set).or_insert_with(|| {
            self.classes.push(set);
            self.classes.len() as u32 - 1
        });
        let at = self.positions.len() as u32;
        self.positions.extend(self.now);
        self.position_classes.push(class);
        self.follow.push(Vec::new());
        Piece { nullable: false, first: vec![at], last: vec![at] }
    }

    fn class(&mut self, class: &Class) -> Piece {
        let mut set = [0; 4];
        match class {
            Class::Bytes(class) => {
                for byte in class.ranges().iter().flat_map(|range| range.start()..=range.end()) {
                    set[usize::from(byte >> 6)] |= 1 << (byte & 63);
                }
                self.byte(set)
            }
            // A character of several bytes: any bytes will do.
            Class::Unicode(_) => {
                let any = self.byte([u64::MAX; 4]);
                self.link(&any.last, &any.first);
                any
            }
        }
    }

    /// Makes as many copies as the least count says, of which the last is a loop where there may be more.
    fn repeat(&mut self, repetition: &Repetition) -> Piece {
        let mut copy = self.piece(&repetition.sub);
        let mut all = copy.clone();
        for _ in 1..repetition.min {
            copy = self.piece(&repetition.sub);
            all = self.then(all, copy.clone());
        }
        if repetition.max.is_none_or(|max| max > repetition.min.max(1)) {
            self.link(&copy.last, &copy.first);
        }
        all.nullable |= repetition.min == 0;
        all
    }

    fn then(&mut self, before: Piece, next: Piece) -> Piece {
        self.link(&before.last, &next.first);
        let mut first = before.first;
        if before.nullable {
            first.extend(&next.first);
        }
        let mut last = next.last;
        if next.nullable {
            last.extend(&before.last);
        }
        Piece { nullable: before.nullable && next.nullable, first, last }
    }

    fn link(&mut self, from: &[u32], to: &[u32]) {
        for at in from {
            self.follow[*at as usize].extend(to);
        }
    }
}

impl Piece {
    const EMPTY: Self = Self { nullable: true, first: Vec::new(), last: Vec::new() };
}

impl Tail {
    /// Takes in another way to go on.
    fn join(&mut self, other: Self) {
        self.first.extend(other.first);
        self.ends = match (self.ends, other.ends) {
            (Some(mine), Some(theirs)) => Some(mine | theirs),
            (mine, theirs) => mine.or(theirs),
        };
    }
}

/// Tells whether a byte belongs to a word, as `\b` has it.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Tells whether a set has a byte.
pub(super) fn has(set: &ByteSet, byte: u8) -> bool {
    set[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
}

/// Returns the bytes of a set.
pub(super) fn bytes(set: ByteSet) -> impl Iterator<Item = u8> {
    (0..=u8::MAX).filter(move |byte| has(&set, *byte))
}

fn count(set: &ByteSet) -> u32 {
    set.iter().map(|word| word.count_ones()).sum()
}

fn only(byte: u8) -> ByteSet {
    let mut set = [0; 4];
    set[usize::from(byte >> 6)] = 1 << (byte & 63);
    set
}
