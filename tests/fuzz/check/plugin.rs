//! Files of plugins: any text is read or refused with faults that can be shown, and what is read can be worked with.

use std::sync::OnceLock;

use bytes::Bytes;
use portcullis::govern::compliance::framework;
use portcullis::llm::dialect::Detected;
use portcullis::llm::dialect::Dialects;
use portcullis::llm::json;
use portcullis::llm::json::Document;
use portcullis::llm::json::JsonLimits;
use portcullis::scan::classifier::card::Card;
use portcullis::scan::classifier::card::KINDS_MAX;
use portcullis::scan::classifier::onnx::settings::CLASSES_MAX;
use portcullis::scan::classifier::onnx::settings::OnnxFile;
use portcullis::scan::classifier::shelf::ModelFiles;
use portcullis::scan::classifier::shelf::Shelf;
use portcullis::scan::pack::PluginFiles;
use portcullis::scan::rule::Rules;
use portcullis::scan::rule::SCENARIOS_MAX;
use portcullis::scan::rule::proof;

use super::config::say;
use super::text;

/// Bodies and an event, as a dialect of any kind may know them.
const BODIES: [&str; 4] = [
    r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"stream":true}"#,
    r#"{"type":"delta","index":1,"delta":{"text":"hi"},"done":false,"usage":{"input":3,"output":4}}"#,
    r#"{"candidates":[{"content":{"parts":[{"text":"hi"}]}}],"Messages":{}}"#,
    r#"[{"jsonrpc":"2.0","method":"tools/call","params":{"name":"f","arguments":{"a":["b"]}}}]"#,
];

/// Reads a dialect beside the built-in ones.
pub fn dialect(bytes: &[u8]) {
    static BUILT_IN: OnceLock<usize> = OnceLock::new();
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let built_in = BUILT_IN
        .get_or_init(|| Dialects::embedded().expect("the built-in dialects are sound").names().count());
    match Dialects::overlaid(&[("fuzz.toml".to_owned(), text.to_owned())]) {
        Ok(dialects) => {
            assert_eq!(dialects.names().count(), built_in + 1);
            BODIES.iter().for_each(|body| speak(&dialects, body.as_bytes()));
        }
        Err(faults) => {
            say(&faults);
            assert!(faults.iter().all(|fault| fault.file == "fuzz.toml"), "a fault of another file");
            are_in(text, faults.iter().map(|fault| fault.line));
        }
    }
}

/// Reads a body as every dialect that there is.
fn speak(dialects: &Dialects, body: &[u8]) {
    let doc = json::walk(body, &JsonLimits::STRICT).expect("it is JSON");
    for path in ["/v1/fuzz", "/v1/chat/completions"] {
        let found = dialects.detect(path, Some((body, &doc)));
        assert!(dialects.names().any(|name| name == found.dialect.name()), "a dialect that is not there");
        for name in dialects.names() {
            let dialect = dialects.get(name).expect("it was named");
            hear(&dialects.of(dialect, path, Some((body, &doc))), body, &doc);
        }
    }
}

fn hear(spoken: &Detected, body: &[u8], doc: &Document) {
    let dialect = &spoken.dialect;
    for string in &doc.strings {
        dialect.channel(body, doc, string);
        dialect.is_sound(Some("delta"), body, doc, string);
        let lanes = [dialect.lane(None, body, doc, string), dialect.stray(None, body, doc, string)];
        assert!(!string.key || lanes == [None, None], "a key is a piece of a text");
        for lane in lanes.iter().flatten() {
            dialect.joined(lane);
            dialect.sequel(lane);
        }
    }
    let _ = dialect.check_keys(body, doc);
    dialect.called(None, body, doc);
    dialect.lane_ends(Some("delta"), body, doc);
    dialect.purpose(body, doc);
    let rows = dialect.rows(body, doc);
    let strings: usize = rows.iter().map(Vec::len).sum();
    assert!(strings <= rows.len() * doc.strings.len(), "a row has a string twice");
    dialect.apart(body, doc);
}

/// Reads rules, and acts out their scenarios.
pub fn rule(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let files = PluginFiles::from([("rules/fuzz.toml".to_owned(), text.to_owned().into())]);
    let scanner = text::scanner();
    let rules = match Rules::compile(files, scanner.detectors()) {
        Ok(rules) => rules,
        Err(faults) => {
            are_in(text, faults.iter().map(|fault| fault.line));
            return say(&faults);
        }
    };
    for rule in rules.rules() {
        assert!(scanner.find(&rule.id).is_none(), "a rule has the name of a detector");
        assert!([&rule.finds, &rule.ignores].iter().all(|list| (1..=SCENARIOS_MAX).contains(&list.len())));
        assert!(rules.find(&rule.id).is_some_and(|id| rules.rule(id).is_some()));
    }
    if let Err(faults) = proof::prove(&rules, scanner, None) {
        say(&faults);
    }
}

/// Reads a framework of controls.
pub fn framework(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let files = PluginFiles::from([("frameworks/fuzz.toml".to_owned(), text.to_owned().into())]);
    match framework::read(&files) {
        Ok(frameworks) => {
            assert_eq!(frameworks.len(), 1);
            for (id, framework) in &frameworks {
                assert_eq!(*id, framework.id);
                assert!(!framework.name.is_empty() && !framework.controls.is_empty());
                assert!(framework.controls.iter().all(|control| !control.id.is_empty()));
            }
        }
        Err(faults) => {
            are_in(text, faults.iter().map(|fault| fault.line()));
            say(&faults);
        }
    }
}

/// Reads the card of a model.
pub fn card(bytes: &[u8]) {
    let read = Card::read(bytes, "fuzz");
    match &read {
        Ok((card, kinds)) => {
            assert_eq!(kinds.len(), card.findings.len());
            assert!((1..=KINDS_MAX).contains(&kinds.len()));
            assert!(kinds.iter().all(|kind| !kind.name.is_empty() && kind.model == "fuzz"));
            card.onnx.iter().for_each(settings);
        }
        Err(fault) => say(std::slice::from_ref(fault)),
    }
    let files = ModelFiles::from([("models/fuzz/card.toml".to_owned(), Bytes::copy_from_slice(bytes))]);
    say(&Shelf::read(files, &[]).expect_err("a card without a model"));
}

/// What a graph is run with is within its bounds.
fn settings(written: &OnnxFile) {
    match written.settings() {
        Ok(settings) => {
            assert!((1..=settings.window).contains(&settings.stride));
            assert!((1..=CLASSES_MAX).contains(&settings.classes.len()));
            let mut levels = settings.levels.watch.iter().zip(&settings.levels.sure);
            assert!(levels.all(|(watch, sure)| watch.is_finite() && sure.is_finite() && watch <= sure));
        }
        Err(fault) => say(&[fault]),
    }
}

/// What is told of a file is told of one of its lines.
fn are_in(text: &str, lines: impl Iterator<Item = Option<usize>>) {
    let count = text.matches('\n').count() + 1;
    let wrong = lines.flatten().find(|line| !(1..=count).contains(line));
    assert_eq!(wrong, None, "a line that the file does not have");
}
