//! Whether an anchor occurs in whatever its pattern matches: a detector is blind to a match that lacks it.
//!
//! A pattern may also match what tells that nothing is meant there, such as a name of no key and the sign behind it. No
//! anchor has to occur in that, if its value is signs that the checks refuse.

use regex_automata::Anchored;
use regex_automata::Input;
use regex_automata::meta;

use crate::scan::confirm::AUTOMATON_BYTES_MAX;
use crate::scan::detector::Detector;
use crate::scan::detector::Pattern;

use super::Dice;
use super::shown;

/// How many matches are made of a pattern.
const MATCHES: usize = 512;

/// Returns a match of a detector's pattern in which its anchor does not occur, if one of many that are made is such.
///
/// What is returned is drawn from the pattern, and nobody's text; it is cut where it is long.
pub(super) fn match_without(detector: &Detector) -> Option<String> {
    let anchor = regex(detector.anchor.as_ref()?)?;
    let (pattern, form) = (regex(&detector.pattern)?, detector.pattern.hir());
    let mut dice = Dice::of(detector, 0);
    let made = std::iter::repeat_with(|| {
        let mut made = Vec::new();
        dice.write(&form, &mut made);
        made
    });
    let mut found = pattern.create_captures();
    let mut may_be_meant = |text: &Vec<u8>| {
        pattern.captures(Input::new(text).anchored(Anchored::Yes), &mut found);
        let value = found.get_group(1).or(found.get_match().map(|whole| whole.span()));
        let value = value.and_then(|value| text.get(value.range()));
        value.is_some_and(|value| value.iter().any(u8::is_ascii_alphanumeric) || detector.lets(value))
    };
    let blind = made.take(MATCHES).find(|text| may_be_meant(text) && !anchor.is_match(text.as_slice()))?;
    Some(shown(&blind))
}

fn regex(pattern: &Pattern) -> Option<meta::Regex> {
    let config = meta::Config::new().utf8_empty(false).nfa_size_limit(Some(AUTOMATON_BYTES_MAX));
    meta::Regex::builder().configure(config).build_from_hir(&pattern.hir()).ok()
}
