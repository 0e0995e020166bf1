//! A pattern as a row of parts, counts relaxed: what patterns have in common at their beginning is then easily seen.

use regex_syntax::hir::Capture;
use regex_syntax::hir::Hir;
use regex_syntax::hir::HirKind;
use regex_syntax::hir::Look;
use regex_syntax::hir::Repetition;

/// How many copies of a repeated part are told apart before it loops.
const COPIES_MAX: usize = 8;
/// How many positions all copies of a repeated part may have.
const COPIED_POSITIONS_MAX: usize = 32;

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
    /// Whether a word has to begin at the first part.
    pub at_boundary: bool,
    /// Whether a match looks at what comes behind it.
    pub looks_behind_end: bool,
}

impl Row {
    /// Returns a pattern as it is followed.
    pub(super) fn of(pattern: &Hir) -> Self {
        let (mut in_value, mut parts) = (!always_has_group(pattern), Vec::new());
        flatten(pattern, &mut in_value, &mut parts);
        Self {
            parts,
            at_boundary: begins_at_word_boundary(pattern),
            looks_behind_end: !pattern.properties().look_set_suffix_any().is_empty(),
        }
    }
}

/// Takes a pattern apart, literals byte by byte, and tells of each part whether the value has begun.
fn flatten(hir: &Hir, in_value: &mut bool, parts: &mut Vec<Part>) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => {
            let byte = |byte: &u8| Part { hir: Hir::literal([*byte]), in_value: *in_value };
            parts.extend(literal.0.iter().map(byte));
        }
        HirKind::Capture(group) => {
            *in_value = true;
            flatten(&group.sub, in_value, parts);
        }
        HirKind::Concat(all) => all.iter().for_each(|part| flatten(part, in_value, parts)),
        HirKind::Class(_) | HirKind::Repetition(_) | HirKind::Alternation(_) => {
            parts.push(Part { hir: relaxed(hir), in_value: *in_value });
            *in_value |= hir.properties().explicit_captures_len() > 0;
        }
    }
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
