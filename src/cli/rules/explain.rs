//! All about one detector or rule, on one sheet.

use std::fmt;

use serde_json::Value;
use serde_json::json;

use super::described;
use crate::scan::detector::Detector;
use crate::scan::kind::Kind;
use crate::scan::rule::Rule;
use crate::scan::threat::Layer;

/// One detector or rule, for a reader: a title, a sentence, and named facts.
pub struct Sheet {
    described: Value,
    why: String,
    facts: Vec<(&'static str, Vec<String>)>,
}

/// Writes a detector's sheet.
pub fn detector(detector: &Detector) -> Sheet {
    let kind = Kind::from(detector);
    let anchor = detector.anchor.as_ref().map(|anchor| anchor.source().to_owned());
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
        ("heads", detector.heads.clone()),
        ("checks", detector.checks.iter().map(ToString::to_string).collect()),
        ("context", context.unwrap_or_default()),
        ("mask", vec![detector.mask.to_string()]),
        ("techniques", detector.techniques.clone()),
        ("references", detector.references.clone()),
        ("finds", detector.finds.clone()),
        ("ignores", detector.ignores.clone()),
        ("file", vec![format!("{}:{}", detector.file, detector.line)]),
    ];
    Sheet { described: described(&kind, Layer::L1Regex, &detector.file), why: detector.why.clone(), facts }
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
        ("file", vec![format!("{}:{}", rule.file, rule.line)]),
    ];
    Sheet { described: described(&kind, Layer::L2Rules, &rule.file), why: rule.why.clone(), facts }
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
