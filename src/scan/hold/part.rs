//! A pattern as a row of parts with its counts relaxed, and from which part on it is worth following.
//!
//! Many patterns begin with something any word fits (the name before an `@`, sixteen letters before a marker): followed
//! from there, they are under way in every word. Where a value begins later, or nothing waits for it, such a lead need
//! not be followed: it is told by its greatest length, and what comes behind it is followed wherever it occurs.

use std::ops::RangeInclusive;

use regex_syntax::hir::Capture;
use regex_syntax::hir::Class;
use regex_syntax::hir::Hir;
use regex_syntax::hir::HirKind;
use regex_syntax::hir::Look;
use regex_syntax::hir::Repetition;

use super::Track;
use super::automaton::ByteSet;
use super::automaton::has;

/// How many copies of a repeated part are told apart before it loops.
const COPIES_MAX: usize = 8;
/// How many positions all copies of a repeated part may have.
const COPIED_POSITIONS_MAX: usize = 32;
/// The longest lead that is not followed, in bytes: so far back what has been judged may have to lag.
pub(super) const LEAD_BYTES_MAX: usize = 160;

/// How often bytes stand in prose and code, in thousandths: which beginnings are worth following is a guess by these.
const COMMON: [(&[u8], f64); 12] = [
    (b" ", 165.0),
    (b"e", 100.0),
    (b"t", 75.0),
    (b"aonisr", 58.0),
    (b"hldcu", 32.0),
    (b"mfpgwyb", 16.0),
    (b"v.,\n", 9.0),
    (b"k-'\":", 5.0),
    (b"0123456789_/()", 2.0),
    (b"xqjz", 2.0),
    (b"ABCDEFGHIJKLMNOPQRSTUVWXYZ=", 1.2),
    (b"[]{}<>;*#\\", 0.8),
];
const UNCOMMON: f64 = 0.2;
/// How often each byte stands, by its value.
const COMMONNESS: [f64; 256] = commonness();
/// How often a word begins, for each byte that could begin one.
const WORD_BEGINS: f64 = 0.22;
/// A value that text waits for weighs so much more than work.
const WAITING_WEIGHS: f64 = 200.0;
/// How much better a later beginning has to be.
const GAIN_MIN: f64 = 0.01;
/// Turns of a repetition that are looked at.
const TURNS_MAX: u32 = 40;

/// One part of a pattern, counts relaxed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub hir: Hir,
    /// The value has begun: the part is in the pattern's group or behind it.
    pub in_value: bool,
}

/// A pattern as it is followed.
#[derive(Debug)]
pub(super) struct Row {
    pub parts: Vec<Part>,
    /// How far before the first part a match may begin, in bytes.
    pub lead: usize,
    /// What the lead is made of.
    pub lead_bytes: ByteSet,
    /// Whether a word has to begin at the first part.
    pub at_boundary: bool,
    /// Whether a match looks at what comes behind it.
    pub looks_behind_end: bool,
}

impl Row {
    /// Returns a pattern as it is followed for a track.
    pub(super) fn of(pattern: &Hir, track: Track, may_lead: bool) -> Self {
        let (mut in_value, mut given) = (!always_has_group(pattern), Vec::new());
        flatten(pattern, &mut in_value, &mut given);
        let at_boundary = begins_at_word_boundary(pattern);
        let cut = if may_lead { cut(&given, track, at_boundary) } else { 0 };
        let (lead, rest) = given.split_at(cut);
        let width = |(hir, _): &(Hir, bool)| hir.properties().maximum_len().unwrap_or(LEAD_BYTES_MAX);
        let part = |(hir, in_value): &(Hir, bool)| Part { hir: relaxed(hir), in_value: *in_value };
        Self {
            parts: rest.iter().map(part).collect(),
            lead: lead.iter().map(width).sum(),
            lead_bytes: lead.iter().fold([0; 4], |all, (hir, _)| union(all, bytes_of(hir))),
            at_boundary: at_boundary && cut == 0,
            looks_behind_end: !pattern.properties().look_set_suffix_any().is_empty(),
        }
    }
}

/// Takes a pattern apart, literals byte by byte, and tells of each part whether the value has begun.
fn flatten(hir: &Hir, in_value: &mut bool, parts: &mut Vec<(Hir, bool)>) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => {
            parts.extend(literal.0.iter().map(|byte| (Hir::literal([*byte]), *in_value)));
        }
        HirKind::Capture(group) => {
            *in_value = true;
            flatten(&group.sub, in_value, parts);
        }
        HirKind::Concat(all) => all.iter().for_each(|part| flatten(part, in_value, parts)),
        HirKind::Class(_) | HirKind::Repetition(_) | HirKind::Alternation(_) => {
            parts.push((hir.clone(), *in_value));
            *in_value |= hir.properties().explicit_captures_len() > 0;
        }
    }
}

/// Returns how many parts of a pattern are a lead that is not followed.
fn cut(parts: &[(Hir, bool)], track: Track, at_boundary: bool) -> usize {
    // Text waits for enforced values; of what is only told, any part may be the first that is looked at.
    let value_at = parts.iter().position(|(_, in_value)| *in_value).unwrap_or(parts.len());
    let last = match track {
        Track::Enforced => value_at,
        Track::Reported => parts.len().saturating_sub(1),
    };
    let begins = if at_boundary { WORD_BEGINS } else { 1.0 };
    let flows: Vec<Flow> = parts.iter().map(|(hir, _)| Flow::of(hir)).collect();
    let (mut best, mut least) = (0, cost(&flows, value_at, track, begins));
    let mut lead = 0;
    for (at, (hir, _)) in parts.iter().enumerate().take(last.min(parts.len().saturating_sub(1))) {
        lead += hir.properties().maximum_len().unwrap_or(usize::MAX / 2);
        let is_word = || !(0..=u8::MAX).any(|byte| byte.is_ascii_whitespace() && has(&bytes_of(hir), byte));
        if lead > LEAD_BYTES_MAX || track == Track::Enforced && !is_word() {
            break;
        }
        let rest = cost(&flows[at + 1..], value_at.saturating_sub(at + 1), track, 1.0);
        if rest + GAIN_MIN < least {
            (best, least) = (at + 1, rest);
        }
    }
    best
}

/// Guesses what following parts costs in ordinary text: threads alive at a byte, and how often text waits.
fn cost(flows: &[Flow], value_at: usize, track: Track, begins: f64) -> f64 {
    let (mut alive, mut enters) = (0.0, begins);
    for (at, flow) in flows.iter().enumerate() {
        let waits = track == Track::Enforced && at >= value_at;
        alive += enters * flow.alive * if waits { WAITING_WEIGHS } else { 1.0 };
        enters *= flow.leaves;
    }
    alive
}

/// What becomes of a thread that enters a part: how many are alive in it over time, and how many leave it.
#[derive(Clone, Copy)]
struct Flow {
    alive: f64,
    leaves: f64,
}

impl Flow {
    const NONE: Self = Self { alive: 0.0, leaves: 1.0 };

    fn of(hir: &Hir) -> Self {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => Self::NONE,
            HirKind::Literal(literal) => {
                literal.0.iter().fold(Self::NONE, |before, byte| before.then(Self::byte(*byte..=*byte)))
            }
            HirKind::Class(Class::Bytes(class)) => {
                let shares = class.ranges().iter().map(|range| Self::byte(range.start()..=range.end()));
                let share = shares.map(|flow| flow.leaves).sum::<f64>().min(1.0);
                Self { alive: share, leaves: share }
            }
            HirKind::Class(Class::Unicode(_)) => Self { alive: 1.0, leaves: 1.0 },
            HirKind::Capture(group) => Self::of(&group.sub),
            HirKind::Concat(parts) => parts.iter().map(Self::of).fold(Self::NONE, Self::then),
            HirKind::Alternation(arms) => {
                arms.iter().map(Self::of).fold(Self { alive: 0.0, leaves: 0.0 }, |all, arm| Self {
                    alive: all.alive + arm.alive,
                    leaves: f64::min(all.leaves + arm.leaves, 1.0),
                })
            }
            HirKind::Repetition(repeat) => Self::of(&repeat.sub).repeated(repeat.min, repeat.max),
        }
    }

    fn byte(mut bytes: RangeInclusive<u8>) -> Self {
        let share = bytes.try_fold(0.0, |sum, byte| Some(sum + COMMONNESS.get(usize::from(byte))?));
        let share = share.unwrap_or_default();
        Self { alive: share, leaves: share }
    }

    fn then(self, next: Self) -> Self {
        Self { alive: self.alive + self.leaves * next.alive, leaves: self.leaves * next.leaves }
    }

    fn repeated(self, min: u32, max: Option<u32>) -> Self {
        let (mut whole, mut enters) = (Self { alive: 0.0, leaves: 0.0 }, 1.0);
        for turn in 0..=max.unwrap_or(TURNS_MAX).min(TURNS_MAX.max(min)) {
            if turn >= min {
                whole.leaves = f64::min(whole.leaves + enters, 1.0);
            }
            whole.alive += enters * self.alive;
            enters *= self.leaves;
        }
        whole
    }
}

/// Returns how often each byte stands in prose and code.
const fn commonness() -> [f64; 256] {
    let mut table = [UNCOMMON / 1000.0; 256];
    let mut at = 0;
    while at < COMMON.len() {
        let (bytes, thousandths) = COMMON[at];
        let mut byte = 0;
        while byte < bytes.len() {
            table[bytes[byte] as usize] = thousandths / 1000.0;
            byte += 1;
        }
        at += 1;
    }
    table
}

/// Returns every byte that a match of a pattern may have.
fn bytes_of(hir: &Hir) -> ByteSet {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => [0; 4],
        HirKind::Literal(literal) => literal.0.iter().fold([0; 4], |all, byte| with(all, *byte)),
        HirKind::Class(Class::Bytes(class)) => {
            class.ranges().iter().flat_map(|range| range.start()..=range.end()).fold([0; 4], with)
        }
        HirKind::Class(Class::Unicode(_)) => [u64::MAX; 4],
        HirKind::Capture(group) => bytes_of(&group.sub),
        HirKind::Repetition(repeat) => bytes_of(&repeat.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().fold([0; 4], |all, part| union(all, bytes_of(part)))
        }
    }
}

pub(super) fn union(one: ByteSet, other: ByteSet) -> ByteSet {
    std::array::from_fn(|at| one[at] | other[at])
}

fn with(mut set: ByteSet, byte: u8) -> ByteSet {
    set[usize::from(byte >> 6)] |= 1 << (byte & 63);
    set
}

/// Returns a part as it is followed: look-arounds dropped, a long repetition a few copies and then a loop.
fn relaxed(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Hir::empty(),
        HirKind::Literal(_) | HirKind::Class(_) => hir.clone(),
        HirKind::Capture(group) => {
            Hir::capture(Capture { sub: Box::new(relaxed(&group.sub)), ..group.clone() })
        }
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(relaxed).collect()),
        HirKind::Alternation(arms) => Hir::alternation(arms.iter().map(relaxed).collect()),
        HirKind::Repetition(repeat) if repeat.max == Some(0) => Hir::empty(),
        HirKind::Repetition(repeat) => {
            let sub = relaxed(&repeat.sub);
            let room = COPIED_POSITIONS_MAX / positions(&sub).max(1);
            let copies = (repeat.min as usize).min(COPIES_MAX).min(room).max(1) as u32;
            Hir::repetition(Repetition {
                min: repeat.min.min(copies),
                max: repeat.max.filter(|max| *max <= copies),
                greedy: true,
                sub: Box::new(sub),
            })
        }
    }
}

/// Returns how many positions a relaxed part has.
fn positions(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(_) => 1,
        HirKind::Capture(group) => positions(&group.sub),
        HirKind::Repetition(repeat) => positions(&repeat.sub) * repeat.min.max(1) as usize,
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().map(positions).sum(),
    }
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
