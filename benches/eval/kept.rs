//! Attacks and keys written otherwise that are still found, and harmless texts that are stopped only then.

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
use crate::report::Report;
use crate::rows::Secret;
use crate::rows::Text;
use crate::spans::found;
use crate::spans::overlaps;
use crate::transform::TRANSFORMS;
use crate::transform::Transform;

/// How many keys, and how many harmless texts, are transformed.
const KEYS_MAX: usize = 150;
const HARMLESS_MAX: usize = 1000;

/// A key in its text, and who finds it there.
struct Key<'a> {
    text: &'a str,
    detectors: Vec<DetectorId>,
}

/// What of harmless texts is stopped, and what is reported.
#[derive(Clone, Copy, Default)]
struct Alarms {
    refused: Share,
    told: Share,
}

/// Counts for each transform what is kept of attacks and of keys, and how many harmless texts are stopped.
pub fn measure(layers: &Layers, rows: &[Text], secrets: &[Secret], report: &mut Report) {
    let is_told = |row: &&Text| layers.outcome(&row.text, Origin::User).told();
    let attacks: Vec<&Text> = attacks(rows).into_iter().filter(is_told).collect();
    let keys = keys(layers, secrets);
    let harmless = harmless(rows);
    let plain = alarms(layers, &harmless, |text| text.to_owned());
    let mut lines = vec![line("none", "as it is", None, None, plain, plain)];
    let mut values = vec![json!({ "name": "as it is", "harmless_refused": plain.refused.value(),
        "harmless_reported": plain.told.value() })];
    for transform in &TRANSFORMS {
        let kept = kept(layers, &attacks, transform);
        let same = transform.is_exact.then(|| kept_keys(layers, &keys, transform));
        let written = alarms(layers, &harmless, transform.write);
        lines.push(line(transform.family, transform.name, Some(kept), same, written, plain));
        values.push(
            json!({ "family": transform.family, "name": transform.name, "attacks_kept": kept.value(),
            "keys_kept": same.map(Share::value), "harmless_refused": written.refused.value(),
            "harmless_reported": written.told.value(), "rise_points": rise(written, plain) }),
        );
    }
    report.table(
        "Kept when transformed",
        "Of the attacks that are reported as they are and whose letters can be written so, the percentage that is still \
         reported; of the keys that are found as they \
         are, in their texts, that which the same detector still finds, where a transform leaves a key the same key. Of harmless \
         texts, those that the default policy refuses for an injection or a secret, by how many points these are more than of \
         the texts as they are, and those reported for an injection.",
        &["family", "transform", "attacks", "kept", "keys", "kept", "harmless", "refused", "rise", "reported"],
        &lines,
        json!(values),
    );
}

fn line(
    family: &str,
    name: &str,
    attacks: Option<Share>,
    keys: Option<Share>,
    harmless: Alarms,
    plain: Alarms,
) -> Vec<String> {
    let of = |share: Option<Share>| {
        share.map_or_else(Default::default, |share| (share.all.to_string(), share.cell()))
    };
    let (attacks, keys): ((String, String), (String, String)) = (of(attacks), of(keys));
    vec![
        family.to_owned(),
        name.to_owned(),
        attacks.0,
        attacks.1,
        keys.0,
        keys.1,
        harmless.refused.all.to_string(),
        harmless.refused.cell(),
        format!("{:+.1}", rise(harmless, plain)),
        harmless.told.cell(),
    ]
}

fn rise(written: Alarms, plain: Alarms) -> f64 {
    written.refused.percent() - plain.refused.percent()
}

fn kept(layers: &Layers, attacks: &[&Text], transform: &Transform) -> Share {
    let mut kept = Share::default();
    for row in attacks.iter().filter(|row| (transform.carries)(&row.text)) {
        kept.note(layers.outcome(&(transform.write)(&row.text), Origin::User).told());
    }
    kept
}

fn kept_keys(layers: &Layers, keys: &[Key<'_>], transform: &Transform) -> Share {
    let mut kept = Share::default();
    for key in keys {
        let mut findings = found(layers, &(transform.write)(key.text), Category::Secrets).into_iter();
        kept.note(findings.any(|finding| key.detectors.contains(&finding.detector)));
    }
    kept
}

/// Returns keys that are found as they are, a few of all families.
fn keys<'a>(layers: &Layers, rows: &'a [Secret]) -> Vec<Key<'a>> {
    let key = |row: &'a Secret| {
        let at = row.text.find(row.secret.as_deref().filter(|_| row.label == Some(1))?)?;
        let there = at..at + row.secret.as_ref()?.len();
        let is_there = |finding: &Finding| overlaps(&finding.value, &there);
        let found = found(layers, &row.text, Category::Secrets).into_iter().filter(is_there);
        let detectors: Vec<DetectorId> = found.map(|finding| finding.detector).collect();
        (!detectors.is_empty()).then_some(Key { text: &row.text, detectors })
    };
    sampled(rows.iter().filter_map(key).collect(), KEYS_MAX)
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
