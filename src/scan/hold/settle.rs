//! Whether a match is over although its pattern could go on: for wide patterns only.
//!
//! `-----BEGIN…[\s\S]{0,100000}?-----END…` has its match at the first end, but a position inside the gap would wait for
//! a hundred thousand bytes more. A leftmost-first automaton of the relaxed pattern knows that it is over. It is large,
//! and few streams hold such a match, so the first one that may be complete has it built.

use std::sync::OnceLock;

use regex_automata::Anchored;
use regex_automata::MatchKind;
use regex_automata::dfa::Automaton;
use regex_automata::dfa::StartKind;
use regex_automata::dfa::dense;
use regex_automata::nfa::thompson;
use regex_automata::util::primitives::StateID;
use regex_automata::util::start;
use regex_syntax::hir::Capture;
use regex_syntax::hir::Hir;
use regex_syntax::hir::HirKind;
use regex_syntax::hir::Repetition;

use crate::scan::detector::Pattern;

/// From this width on, in bytes, a pattern is worth the question.
pub(super) const WIDE_BYTES: usize = 512;

/// Counts above this are relaxed.
const COUNT_MAX: u32 = 8;

/// The room for one automaton, in bytes; a pattern that needs more simply waits.
const AUTOMATON_BYTES_MAX: usize = 1 << 20;

/// Knows when a match of one pattern is over.
#[derive(Debug)]
pub(in crate::scan) struct Settler {
    pattern: Pattern,
    /// `None` if it would be too large.
    dfa: OnceLock<Option<dense::DFA<Vec<u32>>>>,
}

/// A match that may go on, as far as its text is known.
#[derive(Clone, Copy, Debug)]
pub(in crate::scan) struct Followed {
    state: StateID,
    /// How many of its bytes were taken.
    taken: usize,
    /// The length of the match, if it is one already.
    end: Option<usize>,
    /// Whether nothing that follows belongs to it.
    is_over: bool,
}

impl Settler {
    /// Keeps the pattern whose automaton may be asked for.
    pub(super) fn new(pattern: &Pattern) -> Self {
        Self { pattern: pattern.clone(), dfa: OnceLock::new() }
    }

    /// Tells whether it knows anything; builds the automaton at the first question.
    pub(super) fn is_able(&self) -> bool {
        self.dfa().is_some()
    }

    fn dfa(&self) -> Option<&dense::DFA<Vec<u32>>> {
        self.dfa.get_or_init(|| built(&relaxed(&self.pattern.hir()))).as_ref()
    }

    /// Begins to follow a match whose first byte comes next, behind `before`.
    pub(in crate::scan) fn begin(&self, before: Option<u8>) -> Option<Followed> {
        let config = start::Config::new().anchored(Anchored::Yes).look_behind(before);
        let state = self.dfa()?.start_state(&config).ok()?;
        Some(Followed { state, taken: 0, end: None, is_over: false })
    }

    /// Takes the next bytes of a match.
    pub(in crate::scan) fn follow(&self, followed: &mut Followed, bytes: &[u8]) {
        let Some(dfa) = self.dfa().filter(|_| !followed.is_over) else { return };
        for byte in bytes {
            followed.state = dfa.next_state(followed.state, *byte);
            if dfa.is_match_state(followed.state) {
                // Matches are reported one byte late.
                followed.end = Some(followed.taken);
            } else if dfa.is_dead_state(followed.state) {
                followed.is_over = true;
                return;
            }
            followed.taken += 1;
        }
    }

    /// Returns the length of a match if whatever follows cannot change it.
    pub(in crate::scan) fn length(&self, followed: &Followed) -> Option<usize> {
        let dfa = self.dfa()?;
        let is_last = || {
            dfa.is_match_state(followed.state)
                && (0..=u8::MAX).all(|byte| dfa.is_dead_state(dfa.next_state(followed.state, byte)))
        };
        followed.end.filter(|_| followed.is_over || is_last())
    }
}

fn built(relaxed: &Hir) -> Option<dense::DFA<Vec<u32>>> {
    let config = thompson::Config::new().utf8(false).nfa_size_limit(Some(AUTOMATON_BYTES_MAX));
    let nfa = thompson::Compiler::new().configure(config).build_from_hir(relaxed).ok()?;
    let config = dense::Config::new()
        .match_kind(MatchKind::LeftmostFirst)
        .start_kind(StartKind::Anchored)
        .dfa_size_limit(Some(AUTOMATON_BYTES_MAX))
        .determinize_size_limit(Some(AUTOMATON_BYTES_MAX));
    dense::Builder::new().configure(config).build_from_nfa(&nfa).ok()
}

/// Returns the pattern with long repetitions made endless.
fn relaxed(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Repetition(repetition) => Hir::repetition(Repetition {
            min: repetition.min.min(COUNT_MAX),
            max: repetition.max.filter(|max| *max <= COUNT_MAX),
            greedy: repetition.greedy,
            sub: Box::new(relaxed(&repetition.sub)),
        }),
        HirKind::Capture(group) => {
            Hir::capture(Capture { sub: Box::new(relaxed(&group.sub)), ..group.clone() })
        }
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(relaxed).collect()),
        HirKind::Alternation(parts) => Hir::alternation(parts.iter().map(relaxed).collect()),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => hir.clone(),
    }
}
