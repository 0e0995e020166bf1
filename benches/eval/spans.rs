//! Secrets and personal data: what is found of what is there, and what is found beside it.

use std::collections::BTreeMap;
use std::ops::Range;

use portcullis::scan::threat::Category;
use portcullis::scan::threat::Confidence;
use serde_json::Value;
use serde_json::json;

use crate::layers::Layers;
use crate::measure::Share;
use crate::report::Report;
use crate::rows::Personal;
use crate::rows::Secret;
use crate::rows::Span;

/// Types that only a reader of sentences can find.
const FREE_TEXT: [&str; 14] = [
    "PERSON",
    "NAME",
    "STREET_ADDRESS",
    "ADDRESS",
    "GPE",
    "LOCATION",
    "ORG",
    "ORGANIZATION",
    "NRP",
    "TITLE",
    "AGE",
    "DATE_TIME",
    "DATE",
    "ZIP_CODE",
];

/// The set on which others publish how much of everything they find.
const SYNTH: &str = "presidio-research/synth_v2";

/// What is found of one kind.
#[derive(Default)]
pub struct Counts {
    /// Of what is there.
    pub recall: Share,
    /// Of what is found.
    pub precision: Share,
}

impl Counts {
    /// Returns the weighted mean of precision and recall; recall counts `beta` times.
    pub fn f(&self, beta: f64) -> f64 {
        let (p, r) = (self.precision.percent() / 100.0, self.recall.percent() / 100.0);
        let square = beta * beta;
        if p + r == 0.0 { 0.0 } else { (1.0 + square) * p * r / (square * p + r) }
    }

    /// Returns it for machines.
    pub fn value(&self) -> Value {
        json!({ "recall": self.recall.value(), "precision": self.precision.value(), "f1": self.f(1.0), "f2": self.f(2.0) })
    }
}

fn found(layers: &Layers, text: &str, category: Category) -> Vec<Range<usize>> {
    let findings = layers.patterns(text).into_iter();
    let about = findings.filter(|it| layers.category(it.detector) == Some(category));
    about.filter(|it| it.confidence >= Confidence::MEDIUM).map(|it| it.value).collect()
}

/// Tells whether two spans share half of the shorter one.
pub fn overlaps(one: &Range<usize>, other: &Range<usize>) -> bool {
    let shared = one.end.min(other.end).saturating_sub(one.start.max(other.start));
    2 * shared >= one.len().min(other.len()).max(1)
}

/// Returns where a span lies, in bytes.
pub fn bytes(row: &Personal, span: &Span) -> Range<usize> {
    let byte = |at: usize| row.text.char_indices().nth(at).map_or(row.text.len(), |(byte, _)| byte);
    byte(span.start)..byte(span.end)
}

/// Counts secrets by source, and for each family how many are found.
pub fn secrets(layers: &Layers, rows: &[Secret], report: &mut Report) {
    let mut families: BTreeMap<String, Share> = BTreeMap::new();
    let mut sources: BTreeMap<&str, Counts> = BTreeMap::new();
    for row in rows {
        let ranges = found(layers, &row.text, Category::Secrets);
        let count = sources.entry(&row.source).or_default();
        if row.label != Some(1) {
            if !ranges.is_empty() {
                count.precision.note(false);
            }
            continue;
        }
        let Some(secret) = &row.secret else { continue };
        let Some(at) = row.text.find(secret.as_str()) else { continue };
        let there = at..at + secret.len();
        let hit = ranges.iter().any(|range| overlaps(range, &there));
        count.recall.note(hit);
        if hit {
            count.precision.note(true);
        }
        families.entry(row.rule.clone().unwrap_or_default()).or_default().note(hit);
    }
    let lines: Vec<Vec<String>> = sources
        .iter()
        .map(|(source, count)| {
            let f = format!("{:.3}", count.f(1.0));
            vec![
                (*source).to_owned(),
                count.recall.all.to_string(),
                count.recall.cell(),
                count.precision.cell(),
                f,
            ]
        })
        .collect();
    let missed: Vec<Value> = families
        .iter()
        .filter(|(_, share)| share.hits < share.all)
        .map(|(name, share)| json!([name, share.value()]))
        .collect();
    let values: BTreeMap<&&str, Value> =
        sources.iter().map(|(source, count)| (source, count.value())).collect();
    let remark = format!(
        "Medium confidence or more. {} families, {} found whole.",
        families.len(),
        families.len() - missed.len()
    );
    let columns = ["source", "secrets", "recall", "precision", "F1"];
    report.table(
        "Secrets",
        &remark,
        &columns,
        &lines,
        json!({ "sources": values, "families_missed": missed }),
    );
}

/// Counts personal data by type, as patterns alone find it and with the tagger.
pub fn personal(layers: &Layers, rows: &[Personal], report: &mut Report) {
    personal_by(layers, rows, report, false);
    personal_by(layers, rows, report, true);
}

fn personal_by(layers: &Layers, rows: &[Personal], report: &mut Report, with_names: bool) {
    let mut types: BTreeMap<String, Share> = BTreeMap::new();
    let mut sums: BTreeMap<&str, Counts> = BTreeMap::new();
    for row in rows {
        let mut ranges = found(layers, &row.text, Category::Pii);
        if with_names {
            ranges.extend(layers.names(&row.text).into_iter().map(|span| span.range));
        }
        let spans: Vec<(Range<usize>, &str)> =
            row.spans.iter().map(|span| (bytes(row, span), span.r#type.as_str())).collect();
        for (span, kind) in &spans {
            let hit = ranges.iter().any(|range| overlaps(range, span));
            types.entry((*kind).to_owned()).or_default().note(hit);
            let set = if FREE_TEXT.contains(kind) { "free text" } else { "structured" };
            sums.entry(set).or_default().recall.note(hit);
            sums.entry("all").or_default().recall.note(hit);
            if row.source == SYNTH {
                sums.entry("all of synth_v2").or_default().recall.note(hit);
            }
        }
        // Only these sources label everything that is in a text.
        if row.source.starts_with("presidio-research") || row.source.starts_with("synthetic") {
            for range in &ranges {
                let hit = spans.iter().any(|(span, _)| overlaps(range, span));
                let of_synth = (row.source == SYNTH).then_some("all of synth_v2");
                for set in ["all", "structured", "free text"].into_iter().chain(of_synth) {
                    sums.entry(set).or_default().precision.note(hit);
                }
            }
        }
    }
    let mut lines: Vec<Vec<String>> = sums
        .iter()
        .map(|(set, count)| {
            let f = format!("{:.3}", count.f(2.0));
            vec![
                format!("**{set}**"),
                count.recall.all.to_string(),
                count.recall.cell(),
                count.precision.cell(),
                f,
            ]
        })
        .collect();
    let by_type = |(kind, share): (&String, &Share)| {
        vec![kind.clone(), share.all.to_string(), share.cell(), String::new(), String::new()]
    };
    lines.extend(types.iter().map(by_type));
    let by_type: BTreeMap<&String, Value> = types.iter().map(|(kind, share)| (kind, share.value())).collect();
    let sums: BTreeMap<&&str, Value> = sums.iter().map(|(set, count)| (set, count.value())).collect();
    report.table(
        if with_names { "Personal data, with the tagger on" } else { "Personal data" },
        "Spans of medium confidence or more that overlap by half, whatever their type. Precision over the sources that \
         label everything.",
        &["type", "n", "recall", "precision", "F2"],
        &lines,
        json!({ "sums": sums, "types": by_type }),
    );
}
