//! Every rule that is shipped proves itself, with its texts in one piece and in two.

use std::fmt::Display;

use portcullis::scan::hold::Watch;
use portcullis::scan::lane::Lane;
use portcullis::scan::pack;
use portcullis::scan::rule::Rules;
use portcullis::scan::rule::proof;
use portcullis::scan::scanner::Scanner;

fn lines(faults: &[impl Display]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn shipped() -> (Scanner, Rules) {
    let detectors = pack::builtin().unwrap_or_else(|faults| panic!("{}", lines(&faults)));
    let scanner = Scanner::compile(detectors).unwrap_or_else(|faults| panic!("{}", lines(&faults)));
    let rules = Rules::compile(pack::builtin_rules(), scanner.detectors());
    (scanner, rules.unwrap_or_else(|faults| panic!("{}", lines(&faults))))
}

#[test]
fn every_shipped_rule_lives_up_to_its_scenarios() {
    let (scanner, rules) = shipped();
    let all = scanner.all();
    let watch = Watch::compile(scanner.detectors(), &all, &all);
    let replay = |scanner: &Scanner, text: &[u8]| {
        let (head, tail) = text.split_at(text.len() / 2);
        let mut lane = Lane::new();
        let mut found = lane.feed(scanner, &watch, head).expect("a scenario can be judged").findings;
        found.extend(lane.feed(scanner, &watch, tail).expect("a scenario can be judged").findings);
        found.extend(lane.finish(scanner, &watch).expect("a scenario can be judged").findings);
        found
    };
    let proven = proof::prove(&rules, &scanner, Some(&replay));
    assert!(proven.is_ok(), "{}", proven.err().map(|faults| lines(&faults)).unwrap_or_default());
}

#[test]
fn every_shipped_rule_names_techniques_and_sources() {
    let (_, rules) = shipped();
    assert!(rules.rules().len() >= 25, "{} rules", rules.rules().len());
    for rule in rules.rules() {
        let known = |id: &String| {
            let atlas = id.strip_prefix("AML.T").is_some_and(|rest| rest.len() >= 4);
            let owasp = id.strip_prefix("LLM").is_some_and(|rest| rest.ends_with(":2025") && rest.len() == 7);
            atlas || owasp
        };
        assert!(!rule.techniques.is_empty() && rule.techniques.iter().all(known), "{}", rule.id);
        assert!(rule.techniques.iter().any(|id| id.starts_with("LLM")), "{}", rule.id);
        assert!(!rule.references.is_empty() && rule.why.ends_with('.'), "{}", rule.id);
    }
}
