//! Every pack that is shipped proves itself: what it says it finds is found, what it says it ignores is not.

use std::fmt::Display;

use portcullis::scan::pack;
use portcullis::scan::proof;
use portcullis::scan::scanner::Scanner;

fn lines(faults: &[impl Display]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_shipped_detector_lives_up_to_its_examples() {
    let detectors = pack::builtin().unwrap_or_else(|faults| panic!("{}", lines(&faults)));
    let scanner = Scanner::compile(detectors).unwrap_or_else(|faults| panic!("{}", lines(&faults)));
    let proven = proof::prove(&scanner, None);
    assert!(proven.is_ok(), "{}", proven.err().map(|faults| lines(&faults)).unwrap_or_default());
}

#[test]
fn every_shipped_detector_says_where_its_facts_come_from() {
    let detectors = pack::builtin().unwrap_or_else(|faults| panic!("{}", lines(&faults)));
    let silent: Vec<&str> =
        detectors.iter().filter(|it| it.references.is_empty()).map(|it| it.name.as_str()).collect();
    assert!(silent.is_empty(), "no references: {silent:?}");
}
