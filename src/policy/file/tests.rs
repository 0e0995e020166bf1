//! What shipped and written policies say about detectors, and which names they may use.

use jiff::Timestamp;

use super::*;
use crate::document::Document;
use crate::document::section;
use crate::document::toml;
use crate::policy::decision::Action;
use crate::policy::decision::Direction;
use crate::policy::fixture::detectors;
use crate::policy::fixture::rules;
use crate::policy::fixture::shipped;
use crate::policy::profile;
use crate::scan::pack;

fn policy(text: &str) -> (PolicyFile, Document) {
    let document = toml::parse(text, "p.toml").unwrap().nested(&["policies", "p"]);
    let read = section::read(&document, |root| {
        let (_, mut inner) = root.named("policies").remove(0);
        PolicyFile::read("p".parse().unwrap(), &mut inner)
    });
    (read.unwrap(), document)
}

fn verdicts(policy: &PolicyFile, places: &Places) -> String {
    let detectors = detectors(&[]);
    let facts: Vec<DetectorFacts<'_>> = detectors.iter().map(DetectorFacts::from).collect();
    let decisions = policy.compile(&facts, &[], places).unwrap();
    let word = |direction, at, confidence| {
        let id = DetectorId(at as u16);
        decisions.judge(direction, id, confidence, b"v", None, Timestamp::UNIX_EPOCH).as_str()
    };
    let line = |(at, detector): (usize, &Detector)| {
        let [sure, unsure] = [Confidence::HIGH, Confidence::MEDIUM]
            .map(|confidence| Direction::ALL.map(|direction| word(direction, at, confidence)).join("/"));
        format!("{} {sure} {unsure}", detector.name)
    };
    detectors.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn shipped_policies_do_what_they_promise() {
    let document = shipped();
    let policies = rules(&document).unwrap().policies;
    let said = |name: &str| verdicts(&policies[name], document.places());
    assert_eq!(
        said("default"),
        "key block/redact block/redact\ncard redact/redact redact/redact\n\
         email monitor/monitor monitor/monitor\noverride block/monitor monitor/monitor"
    );
    assert_eq!(
        said("strict"),
        "key block/block block/block\ncard redact/redact redact/redact\n\
         email redact/redact redact/redact\noverride block/block block/block"
    );
    assert!(!said("monitor").contains(Action::Block.as_str()) && !said("monitor").contains("redact"));
}

/// What people write to be reached is recorded, and left as it is, until a policy asks for more.
#[test]
fn the_default_policy_leaves_contact_data_alone() {
    let document = shipped();
    let policies = rules(&document).unwrap().policies;
    let detectors = pack::builtin().unwrap();
    let facts: Vec<DetectorFacts<'_>> = detectors.iter().map(DetectorFacts::from).collect();
    let decisions = policies["default"].compile(&facts, &[], document.places()).unwrap();
    let mut asked = 0;
    for (at, detector) in detectors.iter().enumerate() {
        let contact = ["email", "phone", "ip_address", "mac_address", "date_of_birth"];
        if !contact.iter().any(|name| detector.name.starts_with(name)) {
            continue;
        }
        asked += 1;
        for direction in Direction::ALL {
            let id = DetectorId(at as u16);
            let action = decisions.judge(direction, id, Confidence::HIGH, b"v", None, Timestamp::UNIX_EPOCH);
            assert_eq!(action, Action::Monitor, "{}", detector.name);
        }
    }
    assert!(asked >= 8, "only {asked} detectors of contact data");
}

#[test]
fn a_detector_is_stronger_than_its_category() {
    let text = "[categories.pii]\nmode = \"redact\"\nonly = \"validated_or_high\"\n\
                [detectors.email]\nrequest = \"block\"\nthreshold = \"high\"\nmask = \"hash\"\n\
                [detectors.card]\nmode = \"off\"\n";
    let (policy, document) = policy(text);
    assert_eq!(
        verdicts(&policy, document.places()),
        "key monitor/monitor monitor/monitor\ncard allow/allow allow/allow\n\
         email block/monitor monitor/monitor\noverride monitor/monitor monitor/monitor"
    );
    let fixture = detectors(&[]);
    let facts: Vec<DetectorFacts<'_>> = fixture.iter().map(DetectorFacts::from).collect();
    let decisions = policy.compile(&facts, &["key".to_owned()], document.places()).unwrap();
    assert_eq!(decisions.mask(DetectorId(2)), Some(MaskKind::Hash));
    assert!(!decisions.wanted(Direction::Request).contains(DetectorId(0)), "disabled everywhere");
}

#[test]
fn unknown_detectors_are_faults_with_line_and_suggestion() {
    let text =
        "[detectors.emial]\nmode = \"off\"\n[[allow]]\nvalue = \"x\"\ndetectors = [\"key\", \"cart\"]\n";
    let (policy, document) = policy(text);
    let fixture = detectors(&[]);
    let facts: Vec<DetectorFacts<'_>> = fixture.iter().map(DetectorFacts::from).collect();
    let faults = policy.compile(&facts, &[], document.places()).unwrap_err();
    assert_eq!(
        faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "p.toml:1:12: policies.p.detectors.emial: there is no such detector; did you mean `email`?",
            "p.toml:5:1: policies.p.allow[0].detectors: there is no such detector; did you mean `card`?",
        ]
    );
}

#[test]
fn an_entry_behind_a_faulty_one_keeps_its_place() {
    let text = "[[allow]]\nregex = '('\n[[allow]]\nvalue = \"x\"\ndetectors = [\"cart\"]\n";
    let document = toml::parse(text, "p.toml").unwrap().nested(&["policies", "p"]);
    let (policy, faults) = section::tried(&document, |root| {
        let (_, mut inner) = root.named("policies").remove(0);
        PolicyFile::read("p".parse().unwrap(), &mut inner)
    });
    assert_eq!(faults.len(), 1, "{faults:?}");
    let fixture = detectors(&[]);
    let facts: Vec<DetectorFacts<'_>> = fixture.iter().map(DetectorFacts::from).collect();
    let faults = policy.compile(&facts, &[], document.places()).unwrap_err();
    assert_eq!(
        faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["p.toml:5:1: policies.p.allow[1].detectors: there is no such detector; did you mean `card`?"]
    );
}

#[test]
fn allow_lists_are_read_with_scope_and_expiry() {
    let text = "[[allow]]\nregex = 'a+'\ndetectors = [\"email\"]\nexpires = \"2026-05-01\"\nreason = \"why\"\n\
                [[allow]]\nsha256 = \"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"\n\
                [[allow]]\ncaller = \"ci\"\nexpires = 2026-05-01T10:00:00Z\n";
    let (policy, _) = policy(text);
    let ends: Vec<Option<String>> =
        policy.allow.values().map(|entry| entry.expires.map(|end| end.to_string())).collect();
    let end = |text: &str| Some(text.to_owned());
    assert_eq!(ends, [end("2026-05-02T00:00:00Z"), None, end("2026-05-01T10:00:00Z")]);
    assert_eq!(policy.allow[&1].subject, crate::policy::allow::Subject::value(b"abc"));
}

#[test]
fn profiles_are_whole_and_each_yields_a_configuration() {
    let base = shipped();
    let names = "quickstart small-team production high-security air-gapped community developer professional enterprise";
    assert_eq!(profile::valid_names().join(" "), names);
    let mut results = Vec::new();
    for profile in profile::all() {
        assert!(!profile.name.is_empty() && !profile.description.is_empty(), "{}", profile.id);
        let tiers = ["community", "developer", "professional", "enterprise"];
        assert!(tiers.contains(&profile.tier.as_str()), "{}", profile.id);
        let mut patch = profile.patch.clone();
        expand_modes(&mut patch);
        let mut after = base.clone();
        after.overlay(Document::from_json(Value::Object(patch.clone()), None).unwrap());
        let changed = rules(&after);
        assert!(changed.is_ok(), "{}: {:?}", profile.id, changed.as_ref().err());
        // What a profile leaves behind does not depend on the one before it.
        for other in profile::all() {
            let mut mixed = base.clone();
            for mut layer in [other.patch, patch.clone()] {
                expand_modes(&mut layer);
                mixed.overlay(Document::from_json(Value::Object(layer), None).unwrap());
            }
            let mixed = rules(&mixed).unwrap();
            let alone = rules(&after).unwrap();
            assert_eq!(mixed, alone, "{} after {}", profile.id, other.id);
        }
        results.push(changed.unwrap());
    }
    assert_ne!(results[0], results[3], "profiles differ in what they do");
    assert!(profile::find("nobody").is_none());
}
