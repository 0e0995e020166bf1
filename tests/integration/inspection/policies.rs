//! What a policy says, in both directions, whole and streamed.

use portcullis::policy::decision::Action;
use portcullis::policy::decision::CallerId;
use portcullis::policy::decision::Direction;
use serde_json::json;

use super::Bench;
use super::Case;
use super::carrier::CARRIERS;
use super::github_token;
use super::policy_of_all;
use super::valid;

fn whole(bench: &Bench, policy: &str, direction: Direction, text: &str) -> (Action, Option<Action>) {
    let body = json!({ "messages": [{ "role": "user", "content": text }] }).to_string();
    let case = Case { policy, direction, dialect: "openai" };
    let result = bench.whole(case, &mut bench.vault(), body.as_bytes());
    (result.action, result.shadow.action)
}

fn streamed(bench: &Bench, policy: &str, text: &str) -> (Action, Option<Action>) {
    let stream = CARRIERS[0].stream(&[text]);
    let case = Case::response(policy, "openai");
    let result = bench.stream(case, CARRIERS[0].format, &mut bench.vault(), [stream.as_bytes()]);
    (result.action, result.shadow.action)
}

#[test]
fn a_stream_is_judged_as_the_same_text_in_one_body() {
    let bench = Bench::new("");
    let values = [
        "github_token",
        "payment_card",
        "iban",
        "email_address",
        "ignore_previous_instructions",
        "markdown_image_query",
    ];
    for policy in ["default", "strict", "monitor"] {
        for detector in values {
            let id = bench.rules.scanner.find(detector).expect("a detector");
            let known = bench.rules.scanner.detector(id).expect("known");
            let value = valid_or_empty(&bench, detector);
            let text = format!("So: {} it is.", known.finds[0].replace("{valid}", &value));
            let one = whole(&bench, policy, Direction::Response, &text).0;
            assert_eq!(streamed(&bench, policy, &text).0, one, "{policy}: {detector}");
            for carrier in &CARRIERS {
                let stream = carrier.stream(&[&text]);
                let case = Case::response(policy, carrier.dialect);
                let result = bench.stream(case, carrier.format, &mut bench.vault(), [stream.as_bytes()]);
                assert_eq!(result.action, one, "{policy}: {detector} in {}", carrier.name);
            }
        }
    }
}

fn valid_or_empty(bench: &Bench, detector: &str) -> String {
    let id = bench.rules.scanner.find(detector).expect("a detector");
    let needs = bench.rules.scanner.detector(id).expect("known").finds[0].contains("{valid}");
    if needs { valid(bench, detector, 1) } else { String::new() }
}

#[test]
fn directions_and_thresholds_are_obeyed() {
    let low = policy_of_all("low", "block", "");
    let bench = Bench::new(&format!(
        "{low}{}",
        low.replace("low", "high").replace("threshold = \"low\"", "threshold = \"high\"")
    ));
    let token = format!("x {} y", github_token(&bench));
    let email = format!("x {} y", valid(&bench, "email_address", 1));
    let table = [
        ("default", Direction::Request, &token, Action::Block),
        ("default", Direction::Response, &token, Action::Redact),
        ("default", Direction::Request, &email, Action::Monitor),
        ("low", Direction::Request, &token, Action::Block),
        ("low", Direction::Request, &email, Action::Block),
        ("high", Direction::Request, &token, Action::Block),
        ("monitor", Direction::Request, &token, Action::Monitor),
    ];
    for (policy, direction, text, action) in table {
        assert_eq!(whole(&bench, policy, direction, text).0, action, "{policy} {direction:?}");
        if direction == Direction::Response {
            assert_eq!(streamed(&bench, policy, text).0, action, "{policy} streamed");
        }
    }
}

#[test]
fn allow_lists_let_through_what_they_name_until_they_expire() {
    let probe = Bench::new("");
    let (token, other) = (github_token(&probe), valid(&probe, "github_token", 9));
    let allow = |name: &str, line: &str| {
        format!("{}[[policies.{name}.allow]]\n{line}\nreason = \"test\"\n", policy_of_all(name, "block", ""))
    };
    let policies = [
        allow("value", &format!("value = \"{token}\"")),
        allow("regex", &format!("regex = '{}.*'", &token[..20])),
        allow("other_type", &format!("value = \"{token}\"\ndetectors = [\"email_address\"]")),
        allow("caller", "caller = \"alice\""),
        allow("today", &format!("value = \"{token}\"\nexpires = \"2026-11-21\"")),
        allow("over", &format!("value = \"{token}\"\nexpires = \"2026-11-20\"")),
    ];
    let mut bench = Bench::new(&policies.concat());
    let judge = |bench: &Bench, policy: &str, value: &str| {
        let text = format!("x {value} y");
        let one = whole(bench, policy, Direction::Response, &text).0;
        assert_eq!(streamed(bench, policy, &text).0, one, "{policy} streamed");
        one
    };
    let table = [
        ("value", Action::Allow, Action::Block),
        ("regex", Action::Allow, Action::Block),
        ("other_type", Action::Block, Action::Block),
        ("caller", Action::Block, Action::Block),
        ("today", Action::Allow, Action::Block),
        ("over", Action::Block, Action::Block),
    ];
    for (policy, named, unnamed) in table {
        assert_eq!(judge(&bench, policy, &token), named, "{policy}");
        assert_eq!(judge(&bench, policy, &other), unnamed, "{policy}: another value");
    }
    bench.caller = Some(CallerId::new("alice"));
    assert_eq!(judge(&bench, "caller", &token), Action::Allow);
    bench.caller = Some(CallerId::new("bob"));
    assert_eq!(judge(&bench, "caller", &token), Action::Block);
}

#[test]
fn a_shadow_is_recorded_and_changes_nothing() {
    let quiet = policy_of_all("quiet", "monitor", "shadow = \"strict\"");
    let off = policy_of_all("off", "off", "shadow = \"strict\"");
    let bench = Bench::new(&format!("{quiet}{off}"));
    let token = format!("x {} y", github_token(&bench));
    for (policy, action) in [("quiet", Action::Monitor), ("off", Action::Allow)] {
        let expected = (action, Some(Action::Block));
        assert_eq!(whole(&bench, policy, Direction::Response, &token), expected, "{policy}");
        assert_eq!(streamed(&bench, policy, &token), expected, "{policy} streamed");
        assert_eq!(whole(&bench, policy, Direction::Request, "nothing here").1, Some(Action::Allow));
    }
    assert_eq!(whole(&bench, "default", Direction::Request, &token).1, None);
}
