//! Whether values may begin as their detector says: what no value begins with marks nothing.

use regex_automata::Anchored;
use regex_automata::hybrid::dfa::DFA;
use regex_automata::nfa::thompson;
use regex_automata::util::start;

use crate::scan::confirm::AUTOMATON_BYTES_MAX;
use crate::scan::detector::Detector;

use super::value_form;

/// Returns the first of a detector's beginnings that no value of its form has, by its place.
pub(super) fn unfit(detector: &Detector) -> Option<usize> {
    if detector.heads.is_empty() {
        return None;
    }
    let begins = beginning(detector);
    detector.heads.iter().position(|head| !begins.as_ref().is_some_and(|dfa| may_begin(dfa, head.as_bytes())))
}

fn beginning(detector: &Detector) -> Option<DFA> {
    let pattern = detector.pattern.hir();
    let config = thompson::Config::new().utf8(false).nfa_size_limit(Some(AUTOMATON_BYTES_MAX));
    let nfa = thompson::Compiler::new().configure(config).build_from_hir(value_form(&pattern)).ok()?;
    DFA::builder().configure(DFA::config().skip_cache_capacity_check(true)).build_from_nfa(nfa).ok()
}

fn may_begin(dfa: &DFA, head: &[u8]) -> bool {
    let mut cache = dfa.create_cache();
    let start = dfa.start_state(&mut cache, &start::Config::new().anchored(Anchored::Yes)).ok();
    let mut step = |state, byte: u8| {
        let next = dfa.next_state(&mut cache, state, byte).ok()?;
        (!next.is_dead() && !next.is_quit()).then_some(next)
    };
    let Some(behind) = start.and_then(|start| head.iter().try_fold(start, |at, byte| step(at, *byte))) else {
        return false;
    };
    // Matches are reported one byte late: what is left may be only the report of one that ended before the last byte.
    let goes_on = (0..=u8::MAX).any(|byte| step(behind, byte).is_some());
    goes_on || dfa.next_eoi_state(&mut cache, behind).is_ok_and(|end| end.is_match())
}
