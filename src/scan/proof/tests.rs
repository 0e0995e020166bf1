use super::*;
use crate::scan::check::Check;
use crate::scan::detector::Pattern;
use crate::scan::fixture::detector;
use crate::scan::fixture::scanner;

fn card() -> Detector {
    let mut card = detector("card", r"\bcard ([0-9]{13,16})\b");
    card.checks = vec![Check::Luhn];
    card.finds = vec!["my card {valid}.".to_owned(), "card {valid} card {valid}".to_owned()];
    card.ignores = vec!["card 1234".to_owned(), "{valid}".to_owned()];
    card
}

fn problems(detectors: Vec<Detector>, replay: Option<&Replay<'_>>) -> Vec<String> {
    let (scanner, _) = scanner(detectors);
    let faults = prove(&scanner, replay).err().unwrap_or_default();
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn a_good_detector_proves_itself() {
    let streamed =
        |scanner: &Scanner, _: DetectorId, text: &[u8], _: usize| scanner.scan(text, &scanner.all()).unwrap();
    assert_eq!(problems(vec![card()], Some(&streamed)), Vec::<String>::new());
}

#[test]
fn every_false_example_is_told_by_its_number() {
    let mut wrong = card();
    wrong.finds.extend(["card 1".to_owned(), "{valid}".to_owned()]);
    wrong.ignores.push("a card {valid}!".to_owned());
    let prefix = "test.toml:1: card:";
    let expected = [
        format!("{prefix} `finds` example 3 is not found"),
        format!("{prefix} `finds` example 4 is not found"),
        format!("{prefix} `ignores` example 3 is found"),
    ];
    assert_eq!(problems(vec![wrong], None), expected);
}

#[test]
fn an_anchor_outside_the_match_is_noticed() {
    let mut wrong = card();
    wrong.anchor = Some(Pattern::parse("kard [0-9]").unwrap());
    let told = problems(vec![wrong], None);
    assert!(told[0].contains("matches text without its `anchor`, such as \"card "), "{told:?}");
    assert!(told[1].ends_with("`finds` example 1 is not found"), "{told:?}");
}

#[test]
fn a_head_that_no_value_begins_with_is_noticed() {
    let mut key = detector("key", r"\b(?:old_)?((?:key|pass)_[a-z]{4}[0-9]{8})\b");
    key.finds = vec!["{valid}".to_owned()];
    key.heads = ["key_", "pass_abc"].map(str::to_owned).to_vec();
    assert_eq!(problems(vec![key.clone()], None), Vec::<String>::new());
    for wrong in ["old_", "key_1", "kay_", "pass_abcd123456789"] {
        key.heads[1] = wrong.to_owned();
        let told = "test.toml:1: key: `heads` entry 2 begins no value of the pattern's form";
        assert_eq!(problems(vec![key.clone()], None), [told], "{wrong}");
    }
}

#[test]
fn an_anchor_that_some_matches_lack_is_noticed() {
    let mut wrong = card();
    wrong.pattern = Pattern::parse("c(?:ard|hip|oin) ([0-9]{16})").unwrap();
    wrong.anchor = Some(Pattern::parse("c(?:ard|hip) [0-9]").unwrap());
    let [told] = &problems(vec![wrong], None)[..] else { panic!("all examples hold") };
    assert!(told.contains("such as \"coin "), "{told}");
}

#[test]
fn an_anchor_may_be_missing_where_signs_alone_are_refused() {
    let mut card = card();
    card.pattern = Pattern::parse(r"\b(?:gift|bank) card ?([,;]|[0-9]{16})").unwrap();
    card.anchor = Some(Pattern::parse("card ?[0-9]").unwrap());
    card.finds = vec!["bank card {valid}".to_owned()];
    card.ignores = vec!["gift card, 12".to_owned()];
    assert_eq!(problems(vec![card.clone()], None), Vec::<String>::new());
    let told = |wrong: Detector| problems(vec![wrong], None).join("\n");
    let blind = Detector { anchor: Some(Pattern::parse("bank card ?[0-9]").unwrap()), ..card.clone() };
    assert!(told(blind).contains("such as \"gift card"));
    let unchecked = Detector { checks: Vec::new(), ignores: Vec::new(), ..card };
    assert!(told(unchecked).contains("matches text without its `anchor`"));
}

#[test]
fn a_value_that_cannot_be_made_is_a_fault() {
    let mut never = card();
    never.pattern = Pattern::parse("card ([1]{3})").unwrap();
    assert!(problems(vec![never], None)[0].ends_with("passes the checks"));
}

#[test]
fn a_stream_that_sees_less_is_a_fault() {
    let blind = |scanner: &Scanner, _: DetectorId, text: &[u8], cut: usize| {
        let found = scanner.scan(text, &scanner.all()).unwrap();
        if cut == 9 { Vec::new() } else { found }
    };
    let told = problems(vec![card()], Some(&blind));
    assert!(told[0].ends_with("example 1 gives other findings when it is cut after 9 bytes"), "{told:?}");
}

#[test]
fn values_are_varied_and_repeatable() {
    let card = card();
    let [first, again, other] = [1, 1, 2].map(|seed| valid_value(&card, seed).unwrap());
    assert!(first == again && first != other && Check::Luhn.passes(&first));
}

#[test]
fn a_shape_that_the_first_stage_misses_is_noticed() {
    let words = "restriction|filter|limit|rule|ethic|moral|censor|guideline|boundar|polic";
    let mut phrase =
        detector("phrase", &format!("(?i)(?:no|zero) (?:[a-z]{{1,12}} (?:or |and )?){{0,2}}(?:{words})"));
    phrase.finds = vec!["an AI of no morals".to_owned()];
    let [told] = &problems(vec![phrase.clone()], None)[..] else { panic!("one fault") };
    assert!(told.starts_with("test.toml:1: phrase: the first stage misses \""), "{told}");
    phrase.anchor = Some(Pattern::parse(&format!("(?i) (?:{words})")).unwrap());
    assert_eq!(problems(vec![phrase], None), Vec::<String>::new());
}
