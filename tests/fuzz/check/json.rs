//! The JSON gate: what it lets in, every decoder reads alike, and an edit touches nothing else.

use portcullis::llm::json;
use portcullis::llm::json::Document;
use portcullis::llm::json::JsonLimits;
use portcullis::redact::splice::Edit;
use portcullis::redact::splice::splice;
use serde_json::Value;

/// Reads a body, compares every string with what another decoder sees, and writes every string anew.
pub fn walk_and_splice(body: &[u8]) {
    let Ok(document) = json::walk(body, &JsonLimits::STRICT) else { return };
    let value: Value = serde_json::from_slice(body).expect("what passes the gate is JSON to all");
    let mut expected = Vec::new();
    collect(&value, &mut expected);
    expected.sort();
    assert_eq!(sorted(body, &document), expected, "another decoder sees other strings");

    let edits: Vec<Edit> = document
        .strings
        .iter()
        .map(|string| {
            let text = document.text(body, string).into_owned();
            let range = json::raw_range(body, string, 0..text.len());
            assert_eq!(range, string.raw, "the whole text is the whole string");
            check_ranges(body, &document, string);
            let mut replacement = Vec::new();
            json::escape_into(std::str::from_utf8(&text).expect("texts are UTF-8"), &mut replacement);
            Edit { range, replacement }
        })
        .collect();
    let spliced = splice(body, &edits).expect("strings are in order and apart");
    let again = json::walk(&spliced, &JsonLimits::STRICT).expect("rewritten strings are strings");
    assert_eq!(sorted(&spliced, &again), expected, "rewriting changed what is said");
}

/// Every cut of a text between two characters is a cut of its bytes, and the parts meet.
fn check_ranges(body: &[u8], document: &Document, string: &json::JsonString) {
    let text = document.text(body, string);
    let text = std::str::from_utf8(&text).expect("texts are UTF-8");
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).take(64).collect();
    for at in places {
        let (head, tail) =
            (json::raw_range(body, string, 0..at), json::raw_range(body, string, at..text.len()));
        assert_eq!((head.start, tail.end), (string.raw.start, string.raw.end));
        assert_eq!(head.end.max(head.start), tail.start, "a gap or an overlap at {at}");
    }
}

fn sorted(body: &[u8], document: &Document) -> Vec<String> {
    let text = |string| String::from_utf8(document.text(body, string).into_owned()).expect("texts are UTF-8");
    let mut texts: Vec<String> = document.strings.iter().map(text).collect();
    texts.sort();
    texts
}

fn collect(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| collect(value, into)),
        Value::Object(members) => {
            for (key, value) in members {
                into.push(key.clone());
                collect(value, into);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
