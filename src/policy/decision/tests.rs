//! The judgement table, thresholds and allow-lists.

use super::*;
use crate::policy::allow::Subject;

const LOW: Confidence = Confidence::LOW;
const MEDIUM: Confidence = Confidence::MEDIUM;
const HIGH: Confidence = Confidence::HIGH;

fn now() -> Timestamp {
    "2026-05-01T12:00:00Z".parse().unwrap()
}

fn rules(request: (Mode, Confidence), response: (Mode, Confidence)) -> DetectorRules {
    let rule = |(mode, threshold)| Rule { mode, threshold };
    let (request, response) = (rule(request), rule(response));
    DetectorRules { request, response, mask: None, confidence_max: HIGH }
}

#[test]
fn modes_thresholds_and_directions() {
    let decisions = Decisions::new(
        vec![
            rules((Mode::Block, MEDIUM), (Mode::Redact, MEDIUM)),
            rules((Mode::Block, HIGH), (Mode::Monitor, LOW)),
            rules((Mode::Off, LOW), (Mode::Redact, LOW)),
        ],
        Vec::new(),
    );
    let cases = [
        (Direction::Request, 0, LOW, Action::Monitor),
        (Direction::Request, 0, MEDIUM, Action::Block),
        (Direction::Response, 0, HIGH, Action::Redact),
        (Direction::Response, 0, Confidence::from_percent(59), Action::Monitor),
        (Direction::Request, 1, MEDIUM, Action::Monitor),
        (Direction::Request, 1, HIGH, Action::Block),
        (Direction::Response, 1, HIGH, Action::Monitor),
        (Direction::Request, 2, HIGH, Action::Allow),
        (Direction::Response, 2, LOW, Action::Redact),
        (Direction::Response, 9, HIGH, Action::Allow),
    ];
    for (direction, id, confidence, expected) in cases {
        let action = decisions.judge(direction, DetectorId(id), confidence, b"v", None, now());
        assert_eq!(action, expected, "{direction:?} {id} {confidence:?}");
    }
}

#[test]
fn sets_follow_from_the_rules() {
    let mut never_sure = rules((Mode::Block, HIGH), (Mode::Off, LOW));
    never_sure.confidence_max = MEDIUM;
    let decisions =
        Decisions::new(vec![rules((Mode::Monitor, LOW), (Mode::Redact, LOW)), never_sure], Vec::new());
    let ids = |set: &DetectorSet| set.iter().map(|id| id.0).collect::<Vec<_>>();
    assert_eq!(ids(decisions.wanted(Direction::Request)), [0, 1]);
    assert_eq!(ids(decisions.wanted(Direction::Response)), [0]);
    assert!(decisions.enforced(Direction::Request).is_empty(), "a threshold out of reach holds nothing");
    assert_eq!(ids(decisions.enforced(Direction::Response)), [0]);
}

#[test]
fn allow_lists_excuse_by_value_pattern_and_caller_until_they_expire() {
    let entry = |subject, detectors: Option<u16>, expires: Option<&str>| Allowance {
        subject,
        detectors: detectors.map(|id| [DetectorId(id)].into_iter().collect()),
        expires: expires.map(|text| text.parse().unwrap()),
        reason: String::new(),
    };
    let caller = CallerId::new("ci");
    let pattern = regex::bytes::Regex::new(r"\A(?:test-[0-9]{1,9})\z").unwrap();
    let decisions = Decisions::new(
        vec![rules((Mode::Block, LOW), (Mode::Block, LOW)); 2],
        vec![
            entry(Subject::value(b"known"), None, None),
            entry(Subject::Pattern(pattern), Some(1), None),
            entry(Subject::Caller(caller.clone()), Some(0), None),
            entry(Subject::value(b"late"), None, Some("2026-05-01T12:00:00Z")),
            entry(Subject::value(b"soon"), None, Some("2026-05-01T12:00:01Z")),
        ],
    );
    let other = CallerId::new("someone");
    let cases: [(u16, &[u8], Option<&CallerId>, Action); 9] = [
        (0, b"known", None, Action::Allow),
        (0, b"knowN", None, Action::Block),
        (0, b"test-12", None, Action::Block),
        (1, b"test-12", None, Action::Allow),
        (1, b"test-12 and more", None, Action::Block),
        (0, b"x", Some(&caller), Action::Allow),
        (1, b"x", Some(&other), Action::Block),
        (0, b"late", None, Action::Block),
        (0, b"soon", None, Action::Allow),
    ];
    for (id, value, caller, expected) in cases {
        let action = decisions.judge(Direction::Request, DetectorId(id), HIGH, value, caller, now());
        assert_eq!(action, expected, "{id} {}", String::from_utf8_lossy(value));
    }
    assert!(!format!("{decisions:?}").contains("test-"), "allow-lists stay out of Debug");
}

#[test]
fn the_strictest_wins_and_nothing_blocked_is_cleared() {
    assert_eq!(Action::strictest([]), Action::Allow);
    assert_eq!(Action::strictest([Action::Monitor, Action::Block, Action::Redact]), Action::Block);
    for action in Action::ALL {
        let cleared = Cleared::release(action, Bytes::from_static(b"x"));
        assert_eq!(cleared.is_none(), action == Action::Block, "{action:?}");
    }
}

#[test]
fn names_round_trip() {
    for mode in Mode::ALL {
        assert_eq!(mode.as_str().parse(), Ok(mode));
    }
    assert!("Block".parse::<Mode>().is_err());
    for (text, good) in [("default", true), ("a.b-c_9", true), ("", false), ("a b", false), ("ä", false)] {
        assert_eq!(text.parse::<PolicyId>().is_ok(), good, "{text}");
    }
    assert!("x".repeat(65).parse::<PolicyId>().is_err());
}
