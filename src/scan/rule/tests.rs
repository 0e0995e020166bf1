use super::*;
use crate::scan::fixture::detector;
use crate::scan::fixture::scanner;
use crate::scan::rule::condition::ConditionFault;
use crate::scan::scanner::Scanner;

const RULE: &str = r#"[pack]
name = "test"
version = "2.0.0"

[[rule]]
id = "a_before_b"
name = "A, then B"
category = "custom"
severity = "high"
confidence = "medium"
needs = ["custom"]
when = "findings.filter(f, f.type == 'b' && findings.exists(g, g.type == 'a' && g.turn < f.turn))"
why = "It is a test."
finds = [{ parts = [{ channel = "user", text = "a" }, { channel = "assistant", text = "b" }] }]
ignores = [{ parts = [{ channel = "user", text = "b" }, { channel = "assistant", text = "a" }] }]
"#;

fn pair() -> Scanner {
    scanner(vec![detector("a", "a"), detector("b", "b")]).0
}

fn files(text: &str) -> PluginFiles {
    PluginFiles::from([("rules/test.toml".to_owned(), text.to_owned().into())])
}

fn faults(text: &str) -> Vec<String> {
    match Rules::compile(files(text), pair().detectors()) {
        Ok(rules) => {
            proof::prove(&rules, &pair(), None).unwrap_err().iter().map(ToString::to_string).collect()
        }
        Err(faults) => faults.iter().map(ToString::to_string).collect(),
    }
}

fn condition(source: &str) -> ConditionFault {
    Condition::compile(source).unwrap_err()
}

#[test]
fn a_rule_fires_once_where_it_is_about() {
    let scanner = pair();
    let rules = Rules::compile(files(RULE), scanner.detectors()).unwrap();
    proof::prove(&rules, &scanner, None).unwrap();
    let id = rules.find("a_before_b").unwrap();
    assert_eq!((id, rules.id(0)), (DetectorId(2), DetectorId(2)));
    assert!(rules.rule(DetectorId(1)).is_none() && rules.rule(DetectorId(3)).is_none());

    let mut facts = Facts::default();
    let told = |name: &str, turn: u32| Fact {
        detector: scanner.find(name).unwrap(),
        confidence: Confidence::MEDIUM,
        layer: Layer::L1Regex,
        decoded: Default::default(),
        channel: "user",
        place: Place { turn: Some(turn), ..Place::default() },
        span: 0..0,
        first: true,
    };
    let wanted: DetectorSet = rules.ids().collect();
    let judge = |facts: &Facts, wanted: &DetectorSet, before: &DetectorSet| {
        rules.judge(&Scene { direction: "request", dialect: "generic", facts, asked: &[] }, wanted, before)
    };
    facts.push(told("b", 0), 1);
    facts.push(told("a", 1), 2);
    assert_eq!(judge(&facts, &wanted, &DetectorSet::default()), []);
    facts.push(told("b", 2), 1);
    assert_eq!(judge(&facts, &wanted, &DetectorSet::default()), [Fired { id, facts: vec![2] }]);
    assert_eq!(judge(&facts, &wanted, &wanted), [], "it fired before");
    assert_eq!(judge(&facts, &DetectorSet::default(), &DetectorSet::default()), [], "it is off");
    assert!(!facts.list()[2].first, "an earlier b had the same value");
}

#[test]
fn only_what_looks_back_knows_what_was_asked() {
    let scanner = pair();
    let when = "findings.filter(f, f.type == 'b' && findings.exists(g, g.type == 'a' && g.turn < f.turn))";
    let fired = |text: &str| {
        let rules = Rules::compile(files(text), scanner.detectors()).unwrap();
        let fact = |name: &str| Fact {
            detector: scanner.find(name).unwrap(),
            confidence: Confidence::MEDIUM,
            layer: Layer::L1Regex,
            decoded: Default::default(),
            channel: if name == "a" { "tool_result" } else { "assistant" },
            place: Place { turn: Some(0), ..Place::default() },
            span: 0..0,
            first: true,
        };
        let mut facts = Facts::default();
        facts.push(fact("b"), 1);
        let scene = Scene { direction: "response", dialect: "generic", facts: &facts, asked: &[fact("a")] };
        let fired = rules.judge(&scene, &rules.ids().collect(), &DetectorSet::default());
        fired.into_iter().map(|fired| fired.facts).collect::<Vec<_>>()
    };
    let with = |condition: &str| {
        let needs = "needs = [\"custom\", \"tool_result\"]";
        RULE.replace(when, condition).replace("needs = [\"custom\"]", needs)
    };
    assert!(RULE.contains(when));
    let both = "findings.filter(f, f.type == 'b' && asked.exists(g, g.type == 'a'))";
    assert_eq!(fired(&with(both)), [vec![0]]);
    assert!(
        fired(&with("findings.exists(f, f.type == 'b')")).is_empty(),
        "its needs are of the answer alone"
    );
    assert!(fired(&with("findings.filter(f, f.type == 'a' || asked.size() == 0)")).is_empty());
    assert!(fired(&with("asked.filter(g, g.type == 'a')")).is_empty(), "it is about nothing in the answer");
}

#[test]
fn conditions_are_bounded_and_know_their_words() {
    assert!(matches!(condition("findings.exists(f,"), ConditionFault::Syntax { .. }));
    assert_eq!(condition("text == 'a'"), ConditionFault::Unknown { name: "text".to_owned() });
    assert_eq!(condition(&format!("'{}' == ''", "x".repeat(5000))), ConditionFault::TooLong);
    let deep = "findings.exists(a, findings.exists(b, findings.exists(c, c.turn == a.turn)))";
    assert_eq!(condition(deep), ConditionFault::TooDeep);
    let sum = |terms: usize| format!("risk{} > 5", " + 1".repeat(terms));
    assert_eq!(condition(&sum(1000)), ConditionFault::TooNested);
    assert!(Condition::compile(&sum(100)).is_ok());
    assert!(
        Condition::compile(&["risk > 5"; 300].join(" || ")).is_ok(),
        "alternatives stand beside one another"
    );
    assert!(
        Condition::compile("findings.exists(a, findings.exists(b, b.turn == a.turn)) && risk > 5").is_ok()
    );
}

#[test]
fn every_fault_of_a_rule_is_told_with_its_line() {
    let with = |from: &str, to: &str| faults(&RULE.replace(from, to));
    let told = |fault: &str| vec![format!("rules/test.toml:5: a_before_b: {fault}")];
    assert_eq!(
        with("g.turn < f.turn", "g.turn > f.turn"),
        [told("`finds` example 1 does not fire").remove(0), told("`ignores` example 1 fires").remove(0)]
    );
    assert_eq!(with("text = \"a\"", "text = \"c\""), told("`finds` example 1 does not fire")[..1].to_vec());
    assert_eq!(
        with("[\"custom\"]", "[\"pii\"]"),
        told("`finds` example 1 does not have what `needs` asks for")
    );
    assert_eq!(
        with("channel = \"user\", text = \"a\"", "channel = \"usr\", text = \"a\""),
        told("`finds` example 1: `usr` is no channel, direction or layer")
    );
    assert_eq!(
        with("f.type == 'b'", "f.kind == 'b'"),
        told("`when` cannot be evaluated: No such key (`finds` example 1)")
    );
    let here = |line: usize, fault: &str| vec![format!("rules/test.toml:{line}: a_before_b: {fault}")];
    assert_eq!(
        with("needs = [\"custom\"]", "needs = [\"a\"]")[0].split(": expected").next(),
        Some("rules/test.toml:11: a_before_b: `needs` is unknown")
    );
    assert_eq!(
        with("\"high\"", "\"dire\"")[0].split(": expected").next(),
        Some("rules/test.toml:9: a_before_b: `severity` is unknown")
    );
    assert_eq!(with("why = \"It is a test.\"", "why = \"\""), here(13, "`why` must not be empty"));
    assert_eq!(
        with("id = \"a_before_b\"", "id = \"a\""),
        ["rules/test.toml:5: a: `type` is already used in test.toml"]
    );
}

#[test]
fn only_so_many_facts_are_looked_at_and_all_are_counted() {
    let mut facts = Facts::default();
    for value in 0..1000 {
        let fact = Fact {
            detector: DetectorId(value as u16 % 10),
            confidence: Confidence::LOW,
            layer: Layer::L1Regex,
            decoded: Default::default(),
            channel: "user",
            place: Place::default(),
            span: 0..0,
            first: true,
        };
        facts.push(fact, value / 20);
    }
    assert_eq!(facts.list().len(), fact::FACTS_MAX);
    let mut late = facts.list()[0].clone();
    late.detector = DetectorId(77);
    assert!(facts.push(late, 0).is_some(), "a kind that comes late is looked at too");
    assert!(facts.counts().all(|(id, count)| count.all == if id == DetectorId(77) { 1 } else { 100 }));
    assert_eq!(
        facts.counts().map(|(_, count)| count.distinct).sum::<usize>(),
        50,
        "values that several find count once"
    );
}
