//! Files of operators and analysts: any text is read or refused with faults that can be shown.

use std::fmt::Display;
use std::sync::OnceLock;

use portcullis::access::a2a::map::CapabilityMap;
use portcullis::config::Config;
use portcullis::config::Sources;
use portcullis::document::Document;
use portcullis::document::toml;
use portcullis::document::yaml;
use portcullis::scan::pack;
use portcullis::scan::pack::PluginFiles;
use serde_json::Value;

/// Reads a pack.
pub fn pack(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let files = PluginFiles::from([("detectors/custom/fuzz.toml".to_owned(), text.to_owned().into())]);
    match pack::parse_all(&files) {
        Ok(detectors) => assert!(detectors.iter().all(|detector| !detector.name.is_empty())),
        Err(faults) => say(&faults),
    }
}

/// Reads a configuration file over the built-in one.
pub fn gateway(bytes: &[u8]) {
    laid_over_the_defaults(bytes, &[]);
}

/// Reads the file of one policy.
pub fn policy(bytes: &[u8]) {
    laid_over_the_defaults(bytes, &["policies", "fuzz"]);
}

/// Reads YAML, as the capability map of agents is written in.
pub fn yaml(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match yaml::parse(text, "fuzz.yaml") {
        Ok(document) => {
            let again = Document::from_json(Value::Object(document.root().clone()), None).expect("a mapping");
            assert_eq!(again.etag(), document.etag(), "it says something else as JSON");
        }
        Err(faults) => say(&faults),
    }
    if let Err(faults) = CapabilityMap::parse(text, "fuzz.yaml") {
        say(&faults);
    }
}

fn laid_over_the_defaults(bytes: &[u8], keys: &[&str]) {
    static DEFAULTS: OnceLock<Document> = OnceLock::new();
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let defaults =
        DEFAULTS.get_or_init(|| Sources::default().written().expect("the defaults are sound").document);
    let layer = match toml::parse(text, "fuzz.toml") {
        Ok(layer) => layer.nested(keys),
        Err(faults) => return say(&faults),
    };
    let mut document = defaults.clone();
    document.overlay(layer);
    match Config::read(document.clone()) {
        Ok(config) => assert_eq!(config.document.etag(), document.etag()),
        Err(faults) => say(&faults),
    }
}

/// Faults are told, each in words.
pub(super) fn say(faults: &[impl Display]) {
    assert!(!faults.is_empty(), "refused without a reason");
    assert!(faults.iter().all(|fault| !fault.to_string().is_empty()));
}
