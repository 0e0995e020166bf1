//! Attacks found and harmless texts left alone: by source, and deep in documents.

use std::collections::BTreeMap;

use portcullis::scan::classifier::Origin;
use portcullis::scan::threat::Confidence;
use serde_json::Value;
use serde_json::json;

use crate::layers::Layers;
use crate::layers::Outcome;
use crate::measure::Share;
use crate::report::Report;
use crate::rows::Text;

/// How many attacks are transformed and hidden.
const ATTACKS_MAX: usize = 150;
/// How long they are.
pub const ATTACK_BYTES: std::ops::Range<usize> = 24..600;
/// Sizes of the documents that attacks are hidden in, in bytes: about 2k, 8k and 32k tokens.
const DOCUMENT_BYTES: [usize; 3] = [8 << 10, 32 << 10, 128 << 10];

/// Returns whose text a row is.
pub fn origin(row: &Text) -> Origin {
    let of_tool = ["indirect", "document", "tool_output"].iter().any(|part| row.kind.contains(part));
    if of_tool { Origin::Tool } else { Origin::User }
}

/// Returns the set that a row counts in, if it counts.
pub fn set_of(row: &Text) -> Option<&'static str> {
    match (row.label, row.kind.as_str()) {
        (Some(1), _) => Some("attack"),
        (Some(_), _) => Some("harmless"),
        (None, "harmful_request") => Some("harmful question, no technique"),
        (None, _) => None,
    }
}

/// Asks all layers about every row.
pub fn outcomes(layers: &Layers, rows: &[Text]) -> Vec<Outcome> {
    rows.iter().map(|row| layers.outcome(&row.text, origin(row))).collect()
}

/// What is counted for one source.
#[derive(Default)]
struct Counts {
    blocked: Share,
    told: Share,
    layers: [Share; 3],
}

/// Counts for each source what the default policy blocks and what is reported at all, and by which layer.
pub fn by_source(rows: &[Text], outcomes: &[Outcome], report: &mut Report) {
    let mut counts: BTreeMap<(&str, &str), Counts> = BTreeMap::new();
    for (row, outcome) in rows.iter().zip(outcomes) {
        let Some(set) = set_of(row) else { continue };
        for source in [row.source.as_str(), "all"] {
            let count = counts.entry((set, source)).or_default();
            count.blocked.note(outcome.blocked());
            count.told.note(outcome.told());
            let Outcome { layer1, layer2, layer3, .. } = *outcome;
            for (share, layer) in count.layers.iter_mut().zip([layer1, layer2, layer3]) {
                share.note(layer.is_some_and(|it| it >= Confidence::HIGH));
            }
        }
    }
    let row = |((set, source), count): (&(&str, &str), &Counts)| {
        let [one, two, three] = count.layers.map(|share| format!("{:.1}", share.percent()));
        let n = count.blocked.all.to_string();
        vec![
            (*set).to_owned(),
            (*source).to_owned(),
            n,
            count.blocked.cell(),
            count.told.cell(),
            one,
            two,
            three,
        ]
    };
    let lines: Vec<Vec<String>> = counts.iter().map(row).collect();
    let value = |((set, source), count): (&(&str, &str), &Counts)| {
        json!({ "set": set, "source": source, "blocked": count.blocked.value(), "reported": count.told.value(),
            "high_by_layer": count.layers.map(Share::value) })
    };
    let values: Vec<Value> = counts.iter().map(value).collect();
    report.table(
        "Injection by source, default policy",
        "Percent of the texts; the last three columns: high confidence by layer 1, 2, 3 alone. The model has learnt \
         from these sources.",
        &["set", "source", "n", "blocked", "reported", "l1", "l2", "l3"],
        &lines,
        json!(values),
    );
}

/// Returns attacks of some length that are written plainly, a few of all sources.
pub fn attacks(rows: &[Text]) -> Vec<&Text> {
    let direct = rows.iter().filter(|row| {
        let plain = !row.kind.starts_with("obfuscated") && !row.source.starts_with("BIPIA");
        row.label == Some(1) && plain && ATTACK_BYTES.contains(&row.text.len())
    });
    sampled(direct.collect(), ATTACKS_MAX)
}

/// Returns every so many of a list, the same each time.
pub fn sampled<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let step = (all.len() / most).max(1);
    all.into_iter().step_by(step).take(most).collect()
}

/// Counts attacks that are found deep in long documents, and the documents alone that are reported.
pub fn needles(layers: &Layers, rows: &[Text], long: &[Text], report: &mut Report) {
    let base = attacks(rows);
    let mut bare = Share::default();
    let found: Vec<&Text> = base
        .into_iter()
        .filter(|row| {
            let told = layers.outcome(&row.text, Origin::Tool).told();
            bare.note(told);
            told
        })
        .collect();
    let (mut lines, mut values) =
        (vec![vec!["bare".to_owned(), bare.all.to_string(), bare.cell(), String::new()]], Vec::new());
    for bytes in DOCUMENT_BYTES {
        let (mut kept, mut alone) = (Share::default(), Share::default());
        let documents = documents(long, bytes);
        for (at, row) in found.iter().enumerate() {
            let Some(document) = documents.get(at % documents.len().max(1)) else { break };
            let mut place = document.len() * (at % 9 + 1) / 10;
            while !document.is_char_boundary(place) {
                place -= 1;
            }
            let (before, behind) = document.split_at(place);
            kept.note(layers.outcome(&format!("{before}\n{}\n{behind}", row.text), Origin::Tool).told());
        }
        for document in documents.iter().take(ATTACKS_MAX) {
            alone.note(layers.outcome(document, Origin::Tool).told());
        }
        lines.push(vec![format!("{} KiB", bytes >> 10), kept.all.to_string(), kept.cell(), alone.cell()]);
        values.push(json!({ "bytes": bytes, "kept": kept.value(), "documents_alone": alone.value() }));
    }
    report.table(
        "Attacks deep in documents",
        "First row: attacks reported on their own. Below: of those, reported within a document of this size; and the \
         documents without an attack that are reported.",
        &["document", "n", "reported", "documents alone"],
        &lines,
        json!({ "bare": bare.value(), "hidden": values }),
    );
}

/// Joins long texts of one source to documents of a size.
fn documents(long: &[Text], bytes: usize) -> Vec<String> {
    let mut by_source: BTreeMap<&str, String> = BTreeMap::new();
    let mut documents = Vec::new();
    for row in long {
        let document = by_source.entry(&row.source).or_default();
        document.push_str(&row.text);
        document.push('\n');
        if document.len() >= bytes && documents.len() < ATTACKS_MAX {
            let mut cut = bytes;
            while !document.is_char_boundary(cut) {
                cut -= 1;
            }
            document.truncate(cut);
            documents.push(std::mem::take(document));
        }
    }
    documents
}
