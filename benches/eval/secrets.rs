//! Secrets that rivals show as examples, and what they show as none: by source, and by the family each is of.

use std::collections::BTreeMap;

use portcullis::scan::threat::Category;
use serde_json::Value;
use serde_json::json;

use crate::layers::Layers;
use crate::report::Report;
use crate::rows::Secret;
use crate::spans::Counts;
use crate::spans::found;
use crate::spans::overlaps;

const COLUMNS: [&str; 5] = ["secrets", "recall", "findings", "precision", "F1"];

/// Counts secrets by source and by family.
pub fn measure(layers: &Layers, rows: &[Secret], report: &mut Report) {
    let mut sources: BTreeMap<String, Counts> = BTreeMap::new();
    let mut families: BTreeMap<String, Counts> = BTreeMap::new();
    for row in rows {
        let Some((there, hit)) = judged(layers, row) else { continue };
        note(&mut sources, row.source.clone(), there, hit);
        if let Some(family) = &row.rule {
            note(&mut families, family.clone(), there, hit);
        }
    }
    let missed = families.values().filter(|count| count.recall.hits < count.recall.all).count();
    let shown = families.values().filter(|count| count.recall.all > 0).count();
    let remark = format!(
        "Medium confidence or more, percent with 95 % intervals. A text that shows a secret counts as found where something is \
         found at the secret; one that shows none counts as a false finding where anything is found. {shown} families, {} \
         found whole.",
        shown - missed
    );
    table("Secrets", "source", &remark, &sources, report);
    table(
        "Secrets by family",
        "family",
        "Families as their sources call them; the false findings are in the texts that a source shows as none of the family.",
        &families,
        report,
    );
}

fn note(counts: &mut BTreeMap<String, Counts>, name: String, there: bool, hit: bool) {
    let count = counts.entry(name).or_default();
    if there {
        count.recall.note(hit);
    }
    if hit {
        count.precision.note(there);
    }
}

/// Tells whether a row shows a secret, and whether one is found; nothing where nobody knows.
fn judged(layers: &Layers, row: &Secret) -> Option<(bool, bool)> {
    let findings = found(layers, &row.text, Category::Secrets);
    if row.label? != 1 {
        return Some((false, !findings.is_empty()));
    }
    let secret = row.secret.as_ref()?;
    let at = row.text.find(secret.as_str())?;
    let there = at..at + secret.len();
    Some((true, findings.iter().any(|finding| overlaps(&finding.value, &there))))
}

fn table(title: &str, name: &str, remark: &str, counts: &BTreeMap<String, Counts>, report: &mut Report) {
    let line = |(name, count): (&String, &Counts)| [vec![name.clone()], count.cells(1.0)].concat();
    let lines: Vec<Vec<String>> = counts.iter().map(line).collect();
    let values: BTreeMap<&String, Value> = counts.iter().map(|(name, count)| (name, count.value())).collect();
    let columns = [&[name][..], &COLUMNS[..]].concat();
    report.table(title, remark, &columns, &lines, json!(values));
}
