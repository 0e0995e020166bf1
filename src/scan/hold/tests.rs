use proptest::prelude::*;

use super::follow::EXPIRY_INTERVAL;
use super::sets::Table;
use super::*;
use crate::scan::fixture;

const PATTERNS: [&str; 6] = [
    r"\bab{2,9}c\b",
    "(?:a|bc){1,3}d",
    r"\B-[a-c]{12}",
    "(?i)x(a?b?c?){1,4}y",
    r"a[\s\S]{0,40}?b",
    "é(?:[ab]{3}){2}",
];

/// Returns, after each byte, the earliest start that is held.
fn held(watch: &Watch, text: &[u8]) -> Vec<usize> {
    let mut state = HoldState::default();
    let mut scratch = watch.scratch();
    let step = |(at, byte): (usize, &u8)| {
        state.follow(watch, &mut scratch, &[*byte], |_| at);
        state.enforced_from(watch).unwrap_or(at + 1)
    };
    text.iter().enumerate().map(step).collect()
}

fn watch(pattern: &str) -> Watch {
    let all = [DetectorId(0)].into_iter().collect();
    Watch::compile(&[fixture::detector("probe", pattern)], &all, &all)
}

proptest! {
    #[test]
    fn a_match_is_held_from_its_start_to_its_end(text in "[abcdxy é-]{0,80}", which in 0..PATTERNS.len()) {
        let pattern = PATTERNS[which];
        let held = held(&watch(pattern), text.as_bytes());
        let config = regex_automata::util::syntax::Config::new().unicode(false).utf8(false);
        let regex = regex_automata::meta::Builder::new().syntax(config).build(pattern).unwrap();
        for found in (0..text.len()).filter_map(|from| regex.find(regex_automata::Input::new(&text).range(from..))) {
            let inner = &held[found.start()..found.end() - 1];
            prop_assert!(inner.iter().all(|from| *from <= found.start()), "{found:?} {held:?}");
        }
    }
}

/// Watches for all patterns, and for some with a value and a wide one; text waits for most of them.
fn watch_many() -> Watch {
    let with_values = ["a{1,20}(b[a-d]{1,9})c", "[ab ]{3,70}(x?y{1,9})", r"(?:x|ab)([\s\S]{0,600})d"];
    let patterns = PATTERNS.into_iter().chain(with_values);
    let detectors: Vec<Detector> = patterns.map(|pattern| fixture::detector("probe", pattern)).collect();
    let ids = |from: u16| (from..detectors.len() as u16).map(DetectorId).collect();
    Watch::compile(&detectors, &ids(2), &ids(0))
}

proptest! {
    #[test]
    fn what_was_found_out_before_changes_nothing(
        text in "[abcdxy é-]{0,300}",
        pieces in prop::collection::vec(1..90_usize, 1..40),
    ) {
        let watch = watch_many();
        let (mut kept, mut forgets) = (watch.scratch(), Scratch::of(Table::with_room(0)));
        let mut states = [HoldState::default(), HoldState::default()];
        let mut from = 0;
        for piece in pieces {
            let to = text.len().min(from + piece);
            let [one, other] = &mut states;
            one.follow(&watch, &mut kept, &text.as_bytes()[from..to], |at| from + at);
            for at in from..to {
                other.follow(&watch, &mut forgets, &text.as_bytes()[at..at + 1], |_| at);
            }
            let seen = states.each_mut().map(|state| {
                let marks = Track::ALL.map(|track| state.take_mark(track));
                let held = Track::ALL.map(|track| (state.held_from(&watch, track), state.value_from(track)));
                let mut wide = state.take_wide(&watch);
                wide.sort_unstable();
                (marks, held, wide)
            });
            prop_assert_eq!(&seen[0], &seen[1]);
            from = to;
        }
    }
}

#[test]
fn only_what_may_match_is_held() {
    let cases: [(&str, &str, &[usize]); 5] = [
        ("abc", "xxabc", &[1, 2, 2, 2, 5]),
        ("abc", "ababx", &[0, 0, 2, 2, 5]),
        (r"\babc", "xabc", &[1, 2, 3, 4]),
        (r"abc\b", "abc ", &[0, 0, 0, 4]),
        ("[ab]{2}", "abab", &[0, 1, 2, 3]),
    ];
    for (pattern, text, expected) in cases {
        assert_eq!(held(&watch(pattern), text.as_bytes()), expected, "{pattern} in {text}");
    }
}

#[test]
fn what_is_too_old_is_let_go() {
    let watch = watch(r"a\S{0,30}b");
    let held = held(&watch, &b"xa".repeat(500));
    let waits = held.iter().enumerate().map(|(at, from)| at + 1 - from).max();
    assert!(waits.is_some_and(|most| most <= 33 + 2 * EXPIRY_INTERVAL as usize), "{waits:?}");
}

#[test]
fn a_wide_match_is_over_at_its_end() {
    let watch = watch(r"<[\s\S]{1,1000}?>");
    let end = |text: &str| watch.settled_length(DetectorId(0), None, text.as_bytes());
    assert_eq!(end("<a> "), Some(3));
    assert_eq!(end("<a> b>"), Some(3));
    assert_eq!(end("<a"), None);
    assert_eq!(super::tests::watch(r"<[\s\S]{1,1000}>").settled_length(DetectorId(0), None, b"<a> b"), None);
}
