//! Attacks, keys and personal data written otherwise that are still found, and harmless texts that are stopped only then.

use std::ops::Range;

use portcullis::scan::classifier::Origin;
use portcullis::scan::threat::Category;
use portcullis::scan::threat::DetectorId;
use portcullis::scan::threat::Finding;
use serde_json::json;

use crate::injection::ATTACK_BYTES;
use crate::injection::attacks;
use crate::injection::sampled;
use crate::layers::Layers;
use crate::measure::Share;
use crate::personal;
use crate::report::Report;
use crate::rows::Personal;
use crate::rows::Secret;
use crate::rows::Text;
use crate::spans::found;
use crate::spans::overlaps;
use crate::transform::TRANSFORMS;
use crate::transform::Transform;

/// How many keys, how many pieces of personal data, and how many harmless texts are transformed.
const KEYS_MAX: usize = 150;
const PERSONAL_MAX: usize = 150;
const HARMLESS_MAX: usize = 1000;

/// A value in its text, and who finds it there.
struct Planted<'a> {
    text: &'a str,
    detectors: Vec<DetectorId>,
}

/// What is kept under a transform: of attacks, and where letters stay what they were, of values.
#[derive(Clone, Copy, Default)]
struct Kept {
    attacks: Option<Share>,
    keys: Option<Share>,
    personal: Option<Share>,
}

/// What of harmless texts is stopped, and what is reported.
#[derive(Clone, Copy, Default)]
struct Alarms {
    refused: Share,
    told: Share,
}

/// Counts for each transform what is kept of attacks, keys and personal data, and how many harmless texts are stopped.
pub fn measure(
    layers: &Layers,
    rows: &[Text],
    secrets: &[Secret],
    personal: &[Personal],
    report: &mut Report,
) {
    let is_told = |row: &&Text| layers.outcome(&row.text, Origin::User).told();
    let attacks: Vec<&Text> = attacks(rows).into_iter().filter(is_told).collect();
    let keys = planted(layers, Category::Secrets, KEYS_MAX, secrets.iter().filter_map(secret));
    let personal = planted(layers, Category::Pii, PERSONAL_MAX, personal.iter().flat_map(spans));
    let harmless = harmless(rows);
    let plain = alarms(layers, &harmless, |text| text.to_owned());
    let mut lines = vec![line("none", "as it is", Kept::default(), plain, plain)];
    let mut values = vec![json!({ "name": "as it is", "harmless_refused": plain.refused.value(),
        "harmless_reported": plain.told.value() })];
    for transform in &TRANSFORMS {
        let of = |category, planted| transform.is_exact.then(|| same(layers, category, planted, transform));
        let kept = Kept {
            attacks: Some(told(layers, &attacks, transform)),
            keys: of(Category::Secrets, &keys),
            personal: of(Category::Pii, &personal),
        };
        let written = alarms(layers, &harmless, transform.write);
        lines.push(line(transform.family, transform.name, kept, written, plain));
        values.push(
            json!({ "family": transform.family, "name": transform.name, "attacks_kept": kept.attacks.map(Share::value),
            "keys_kept": kept.keys.map(Share::value), "personal_kept": kept.personal.map(Share::value), "harmless_refused": written.refused.value(),
            "harmless_reported": written.told.value(), "rise_points": rise(written, plain) }),
        );
    }
    report.table(
        "Kept when transformed",
        "Of the attacks that are reported as they are and whose letters can be written so, the percentage that is still \
         reported; of the keys and of the personal data that are found as they are, in their texts, that which the same \
         detector still finds, where a transform leaves a key the same key. Of harmless \
         texts, those that the default policy refuses for an injection or a secret, by how many points these are more than of \
         the texts as they are, and those reported for an injection.",
        &["family", "transform", "attacks", "kept", "keys", "kept", "personal", "kept", "harmless", "refused", "rise", "reported"],
        &lines,
        json!(values),
    );
}

fn line(family: &str, name: &str, kept: Kept, harmless: Alarms, plain: Alarms) -> Vec<String> {
    let cells = |share: Option<Share>| {
        share.map_or_else(Default::default, |share| [share.all.to_string(), share.cell()])
    };
    let [attacks, keys, personal]: [[String; 2]; 3] = [kept.attacks, kept.keys, kept.personal].map(cells);
    let refused = [harmless.refused.all.to_string(), harmless.refused.cell()];
    let others = [format!("{:+.1}", rise(harmless, plain)), harmless.told.cell()];
    let named = [family.to_owned(), name.to_owned()];
    [named, attacks, keys, personal, refused, others].concat()
}

fn rise(written: Alarms, plain: Alarms) -> f64 {
    written.refused.percent() - plain.refused.percent()
}

fn told(layers: &Layers, attacks: &[&Text], transform: &Transform) -> Share {
    let mut kept = Share::default();
    for row in attacks.iter().filter(|row| (transform.carries)(&row.text)) {
        kept.note(layers.outcome(&(transform.write)(&row.text), Origin::User).told());
    }
    kept
}

fn same(layers: &Layers, category: Category, planted: &[Planted<'_>], transform: &Transform) -> Share {
    let mut kept = Share::default();
    for value in planted {
        let mut findings = found(layers, &(transform.write)(value.text), category).into_iter();
        kept.note(findings.any(|finding| value.detectors.contains(&finding.detector)));
    }
    kept
}

/// Returns values that are found as they are, a few of all families.
fn planted<'a>(
    layers: &Layers,
    category: Category,
    max: usize,
    values: impl Iterator<Item = (&'a str, Range<usize>)>,
) -> Vec<Planted<'a>> {
    let found = |(text, there): (&'a str, Range<usize>)| {
        let is_there = |finding: &Finding| overlaps(&finding.value, &there);
        let found = found(layers, text, category).into_iter().filter(is_there);
        let detectors: Vec<DetectorId> = found.map(|finding| finding.detector).collect();
        (!detectors.is_empty()).then_some(Planted { text, detectors })
    };
    sampled(values.filter_map(found).collect(), max)
}

fn secret(row: &Secret) -> Option<(&str, Range<usize>)> {
    let secret = row.secret.as_deref().filter(|_| row.label == Some(1))?;
    let at = row.text.find(secret)?;
    Some((&row.text, at..at + secret.len()))
}

fn spans(row: &Personal) -> impl Iterator<Item = (&str, Range<usize>)> {
    row.spans.iter().map(|span| (row.text.as_str(), personal::bytes(row, span)))
}

/// Returns harmless texts as long as the attacks, a few of all sources.
fn harmless(rows: &[Text]) -> Vec<&Text> {
    let is_plain = |row: &&Text| {
        let is_written_otherwise = row.kind.starts_with("benign_obfuscated");
        row.label == Some(0) && !is_written_otherwise && ATTACK_BYTES.contains(&row.text.len())
    };
    sampled(rows.iter().filter(is_plain).collect(), HARMLESS_MAX)
}

fn alarms(layers: &Layers, rows: &[&Text], write: impl Fn(&str) -> String) -> Alarms {
    let mut alarms = Alarms::default();
    for row in rows {
        let outcome = layers.outcome(&write(&row.text), Origin::User);
        alarms.refused.note(outcome.refused());
        alarms.told.note(outcome.told());
    }
    alarms
}
