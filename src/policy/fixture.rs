//! A few detectors to compile policies against.

use crate::document::Document;
use crate::document::Fault;
use crate::document::toml;
use crate::policy::build::read_rules;
use crate::policy::revision::Authors;
use crate::policy::ruleset::RulesFile;
use crate::scan::detector::Detector;
use crate::scan::pack;
use crate::scan::pack::PluginFiles;

/// Returns the detectors `key` (secrets), `card` and `email` (pii) and `override` (injection), and
/// whichever more are named.
pub(crate) fn detectors(more: &[&str]) -> Vec<Detector> {
    let row = |name: &str, category: &str, severity: &str, pattern: &str, checks: &str, find: &str| {
        format!(
            "[[detector]]\ntype = \"{name}\"\ncategory = \"{category}\"\nseverity = \"{severity}\"\n\
             confidence = \"high\"\npattern = '{pattern}'\nchecks = [{checks}]\nwhy = \"x\"\n\
             finds = [\"{find}\"]\nignores = [\"nothing\"]\n"
        )
    };
    let mut text = "[pack]\nname = \"fixture\"\nversion = \"1.0.0\"\n".to_owned();
    text += &row("key", "secrets", "critical", "key_[a-z]{8}", "", "key_abcdefgh");
    text += &row("card", "pii", "low", "[0-9]{16}", "\"luhn\"", "{valid}");
    text += &row("email", "pii", "medium", "[a-z]{1,9}@[a-z]{1,9}", "\"not_placeholder\"", "{valid}");
    text += &row("override", "injection", "high", "ignore all", "", "ignore all");
    for name in more {
        text += &row(name, "custom", "low", name, "", name);
    }
    pack::parse_all(&PluginFiles::from([("detectors/fixture.toml".to_owned(), text.into())]))
        .expect("the fixture is sound")
}

/// Returns the shipped configuration: `conf/gateway.toml` and the shipped policies.
pub(crate) fn shipped() -> Document {
    let mut document = toml::parse(include_str!("../../conf/gateway.toml"), "gateway.toml").expect("is TOML");
    let policies = [
        ("default", include_str!("../../conf/policies/default.toml")),
        ("strict", include_str!("../../conf/policies/strict.toml")),
        ("monitor", include_str!("../../conf/policies/monitor.toml")),
    ];
    for (name, text) in policies {
        document.overlay(toml::parse(text, name).expect("is TOML").nested(&["policies", name]));
    }
    document
}

/// Stores names from their end to their beginning, which is enough to tell what is sealed.
pub(crate) fn authors() -> Authors {
    let turn = |name: &str| name.chars().rev().collect::<String>();
    Authors { seal: Box::new(move |name| Ok(turn(name))), open: Box::new(turn) }
}

/// Returns the rules of a document.
pub(crate) fn rules(document: &Document) -> Result<RulesFile, Vec<Fault>> {
    read_rules(document)
}
