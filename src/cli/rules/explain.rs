//! All about one detector, kind of a model or rule, on one sheet.

use std::fmt;

use serde_json::Value;
use serde_json::json;

use super::described;
use crate::scan::classifier::card::Learned;
use crate::scan::detector::Detector;
use crate::scan::kind::Kind;
use crate::scan::rule::Rule;
use crate::scan::threat::Layer;

/// One detector, kind of a model or rule, for a reader: a title, a sentence, and named facts.
pub struct Sheet {
    described: Value,
    why: String,
    facts: Vec<(&'static str, Vec<String>)>,
}

/// Writes a detector's sheet.
pub fn detector(detector: &Detector) -> Sheet {
    let kind = Kind::from(detector);
    let anchor = detector.anchor.as_ref().map(|anchor| anchor.source().to_owned());
    let behind = detector.edges.behind.as_ref().map(|behind| behind.source().to_owned());
    let context = detector.context.as_ref().map(|context| -> Vec<String> {
        let listed = |words: Vec<&[u8]>| String::from_utf8_lossy(&words.join(&b", "[..])).into_owned();
        let need =
            if context.required() { "one of these must stand before" } else { "these raise the confidence" };
        let words = format!("{need}: {}", listed(context.words().collect()));
        let against =
            format!("names that end so speak against it: {}", listed(context.words_against().collect()));
        let is_said = [context.can_raise(), context.words_against().next().is_some()];
        [words, against]
            .into_iter()
            .zip(is_said)
            .filter(|(_, is_said)| *is_said)
            .map(|(said, _)| said)
            .collect()
    });
    let facts = vec![
        ("pattern", vec![detector.pattern.source().to_owned()]),
        ("anchor", anchor.into_iter().collect()),
        ("behind", behind.into_iter().collect()),
        ("heads", detector.heads.clone()),
        ("checks", detector.checks.iter().map(ToString::to_string).collect()),
        ("context", context.unwrap_or_default()),
        ("mask", vec![detector.mask.to_string()]),
        ("techniques", detector.techniques.clone()),
        ("references", detector.references.clone()),
        ("finds", detector.finds.clone()),
        ("ignores", detector.ignores.clone()),
        ("policy", switched(&kind)),
        ("file", vec![format!("{}:{}", detector.file, detector.line)]),
    ];
    Sheet { described: described(&kind, Layer::L1Regex, &detector.file), why: detector.why.clone(), facts }
}

/// Writes the sheet of what a model finds.
pub fn learned(learned: &Learned) -> Sheet {
    let kind = Kind::from(learned);
    let Learned { model, version, part, .. } = learned;
    let looked_for = if learned.is_named_only() {
        "only where a policy names it"
    } else {
        "in every policy that does not switch it off"
    };
    let file = learned.file();
    let facts = vec![
        ("model", vec![format!("{model} {version}, its part `{}`", part.as_str())]),
        ("looked_for", vec![looked_for.to_owned()]),
        ("techniques", learned.techniques.clone()),
        ("references", learned.references.clone()),
        ("policy", switched(&kind)),
        ("file", vec![file.clone()]),
    ];
    Sheet { described: described(&kind, Layer::L3Ml, &file), why: learned.why.clone(), facts }
}

/// Writes a rule's sheet.
pub fn rule(rule: &Rule) -> Sheet {
    let kind = Kind::from(rule);
    let needs = rule.needs.to_string();
    let facts = vec![
        ("name", vec![rule.name.clone()]),
        ("needs", if needs.is_empty() { Vec::new() } else { vec![needs] }),
        ("when", rule.when.source().trim().lines().map(str::to_owned).collect()),
        ("techniques", rule.techniques.clone()),
        ("references", rule.references.clone()),
        ("finds", rule.finds.iter().map(ToString::to_string).collect()),
        ("ignores", rule.ignores.iter().map(ToString::to_string).collect()),
        ("policy", switched(&kind)),
        ("file", vec![format!("{}:{}", rule.file, rule.line)]),
    ];
    Sheet { described: described(&kind, Layer::L2Rules, &rule.file), why: rule.why.clone(), facts }
}

/// Returns what in a policy says what is done about it, and from which confidence on.
fn switched(kind: &Kind<'_>) -> Vec<String> {
    let table = format!("[policies.NAME.detectors.{}]", kind.name);
    let mode = r#"mode = "off" | "monitor" | "redact" | "block""#;
    let threshold = r#"threshold = "low" | "medium" | "high""#;
    vec![table, mode.to_owned(), threshold.to_owned()]
}

impl Sheet {
    /// Returns the sheet as one JSON object; every fact is a list.
    pub fn json(&self) -> Value {
        let mut whole = self.described.clone();
        whole["why"] = json!(self.why);
        for (name, values) in self.facts.iter().filter(|(name, _)| *name != "file") {
            whole[*name] = json!(values);
        }
        whole
    }
}

/// Writes a title, the reason, and each fact beside its name.
impl fmt::Display for Sheet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |key: &str| self.described[key].as_str().unwrap_or_default();
        let title = ["id", "category", "severity", "layer"].map(text);
        let confidence = &self.described["confidence"];
        writeln!(f, "{}: {}, {}, confidence {confidence}, {}", title[0], title[1], title[2], title[3])?;
        write!(f, "{}\n\n{:<12}{} {}", self.why, "pack", text("pack"), text("version"))?;
        for (name, values) in &self.facts {
            for (at, value) in values.iter().enumerate() {
                let name = if at == 0 { name } else { "" };
                write!(f, "\n{name:<12}{}", value.replace('\n', "\\n"))?;
            }
        }
        Ok(())
    }
}
