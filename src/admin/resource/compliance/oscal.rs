//! A report as OSCAL assessment results (NIST, model version 1.2.1).
//!
//! Each check that was asked is an observation with the calls that show it again; each control that was assessed is a
//! finding, satisfied or not. Controls that were not assessed are not among the reviewed ones. Ids of controls that are
//! no OSCAL tokens are written as tokens, with the original as a property.

use serde_json::Value;
use serde_json::json;
use sha2::Digest;
use sha2::Sha256;

use super::OscalDocument;
use crate::clock::rfc3339;
use crate::govern::compliance::check::Evidence;
use crate::govern::compliance::report::Assessed;
use crate::govern::compliance::report::Report;
use crate::govern::compliance::report::Status;

/// The version of the model.
const OSCAL: &str = "1.2.1";
/// The namespace of our properties.
const NAMESPACE: &str = "https://portcullis.dev/ns/oscal";

/// Returns the document; `node` names the gateway that was assessed.
pub fn document(report: &Report, node: &str) -> OscalDocument {
    let at = rfc3339(report.at);
    let seed = format!("{node} {} {at}", report.framework);
    let assessed: Vec<&Assessed> =
        report.controls.iter().filter(|control| control.status != Status::NotAssessed).collect();
    let mut observations: Vec<Value> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for evidence in assessed.iter().flat_map(|control| &control.evidence) {
        if !seen.contains(&evidence.check) {
            seen.push(evidence.check);
            observations.push(observation(evidence, &seed, &at));
        }
    }
    let selection = match assessed.is_empty() {
        true => json!({ "description": "No control could be assessed." }),
        false => json!({
            "include-controls":
                assessed.iter().map(|control| json!({ "control-id": token(&control.id) })).collect::<Vec<_>>(),
        }),
    };
    let mut result = json!({
        "uuid": uuid(&format!("{seed} result")),
        "title": report.name,
        "description": format!(
            "What a Portcullis gateway sees of {} ({}): {:.1} % of the assessed controls pass, {:.1} % were assessed.",
            report.name, report.version, report.score, report.coverage
        ),
        "start": rfc3339(report.since),
        "end": at,
        "reviewed-controls": { "control-selections": [selection] },
    });
    // The model knows no empty lists.
    if !assessed.is_empty() {
        result["observations"] = Value::Array(observations);
        result["findings"] = assessed.iter().map(|control| finding(control, &seed)).collect();
    }
    let assessment_results = json!({
        "uuid": uuid(&seed),
        "metadata": {
            "title": format!("{}: live evidence", report.name),
            "last-modified": at,
            "version": at,
            "oscal-version": OSCAL,
        },
        "import-ap": { "href": "#assessment-plan", "remarks": "The checks built into the gateway." },
        "results": [result],
    });
    OscalDocument { assessment_results }
}

fn observation(evidence: &Evidence, seed: &str, at: &str) -> Value {
    let shown = |link: &String| json!({ "href": link, "description": "A call that shows it again." });
    json!({
        "uuid": uuid(&format!("{seed} check {}", evidence.check)),
        "title": evidence.asks,
        "description": evidence.seen,
        "props": [
            { "name": "check", "ns": NAMESPACE, "value": evidence.check },
            { "name": "result", "ns": NAMESPACE, "value": evidence.verdict.as_str() },
        ],
        "methods": ["TEST"],
        "types": ["control-objective"],
        "relevant-evidence": evidence.links.iter().map(shown).collect::<Vec<_>>(),
        "collected": at,
    })
}

fn finding(control: &Assessed, seed: &str) -> Value {
    let (state, reason) = match control.status {
        Status::Pass => ("satisfied", "pass"),
        Status::Fail => ("not-satisfied", "fail"),
        Status::Partial | Status::NotAssessed => ("not-satisfied", "other"),
    };
    let related: Vec<Value> = control
        .evidence
        .iter()
        .map(|evidence| json!({ "observation-uuid": uuid(&format!("{seed} check {}", evidence.check)) }))
        .collect();
    json!({
        "uuid": uuid(&format!("{seed} control {}", control.id)),
        "title": format!("{} {}", control.id, control.title),
        "description": format!("The control's status is {}.", control.status.as_str()),
        "props": [{ "name": "control", "ns": NAMESPACE, "value": control.id }],
        "target": {
            "type": "objective-id",
            "target-id": token(&control.id),
            "status": { "state": state, "reason": reason },
        },
        "related-observations": related,
    })
}

/// Returns an id as an OSCAL token: letters, digits, `.`, `-` and `_`, with a letter or `_` first.
fn token(id: &str) -> String {
    let mut token = String::with_capacity(id.len() + 1);
    for character in id.chars() {
        match character {
            c if c.is_ascii_alphanumeric() || c == '.' || c == '_' => token.push(c),
            _ if token.ends_with('-') => {}
            _ => token.push('-'),
        }
    }
    let token = token.trim_end_matches('-');
    if token.starts_with(|c: char| c.is_ascii_alphabetic()) { token.to_owned() } else { format!("_{token}") }
}

/// Returns the UUID (version 5 by form) that stands for a text.
fn uuid(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    let mut bytes: Vec<u8> = hash.iter().copied().take(16).collect();
    for (at, keep, set) in [(6, 0x0f, 0x50), (8, 0x3f, 0x80)] {
        if let Some(byte) = bytes.get_mut(at) {
            *byte = *byte & keep | set;
        }
    }
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0..8), part(8..12), part(12..16), part(16..20), part(20..32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_become_tokens() {
        let cases = [
            ("CC6.1", "CC6.1"),
            ("164.308(a)(1)(ii)(A)", "_164.308-a-1-ii-A"),
            ("Art. 15(1)", "Art.-15-1"),
            ("LLM01:2025", "LLM01-2025"),
            ("GOVERN 1.1", "GOVERN-1.1"),
        ];
        for (id, expected) in cases {
            assert_eq!(token(id), expected);
        }
        let id = uuid("x");
        assert_eq!(
            (id.len(), id.get(14..15), id.get(19..20).is_some_and(|it| "89ab".contains(it))),
            (36, Some("5"), true)
        );
        assert_ne!(id, uuid("y"));
    }
}
