//! Tells how the model does on sources it has not seen.

use std::collections::BTreeMap;

use portcullis::scan::classifier::Origin;
use serde_json::Value;
use serde_json::json;

use crate::corpus::Doc;
use crate::fold::Folds;

/// The shares of harmless texts that thresholds let through.
const SHARES: [f64; 2] = [0.01, 0.001];
/// The normal quantile of a 95 % interval.
const Z: f64 = 1.959_964;

/// What was measured.
pub struct Told {
    /// As tables.
    pub markdown: String,
    values: Value,
}

impl Told {
    /// Returns it for the evaluation.
    pub fn json(&self) -> String {
        json!({ "markdown": self.markdown, "values": self.values }).to_string()
    }
}

/// Tells the recall for each source of attacks, and what of each harmless source exceeds the thresholds.
pub fn folds(docs: &[Doc], folds: &Folds) -> Told {
    let levels = |origin: Origin| SHARES.map(|share| folds.level(docs, origin, share));
    let (of_people, of_tools) = (levels(Origin::User), levels(Origin::Tool));
    let mut sources: BTreeMap<(bool, bool, &str), Vec<[bool; 2]>> = BTreeMap::new();
    for (doc, odds) in docs.iter().zip(&folds.odds) {
        let name = if doc.own { kind_of(&doc.source) } else { doc.group.as_str() };
        let levels = if doc.origin == Origin::Tool { of_tools } else { of_people };
        sources.entry((!doc.attack, doc.own, name)).or_default().push(levels.map(|level| *odds > level));
    }
    let mut markdown = String::from(
        "\n## Sources left out\n\nEach source is judged by a model that learnt from the others. Thresholds are set on \
         the harmless texts of left-out sources, for people's and tools' texts apart: 1 % and 0.1 % of them exceed these. Percent, with 95 % intervals.\n\n\
         | texts | source | n | over the 1 % threshold | over the 0.1 % threshold |\n| --- | --- | --- | --- | --- |\n",
    );
    let (mut values, mut recalls) = (Vec::new(), Vec::new());
    for ((harmless, own, name), over) in &sources {
        let hits = [0, 1].map(|at| over.iter().filter(|over| over[at]).count());
        let set = if *harmless { "harmless" } else { "attacks" };
        if !*harmless && !*own && *name != "synthetic" {
            recalls.push(hits.map(|hits| 100.0 * hits as f64 / over.len() as f64));
        }
        let [one, tenth] = hits.map(|hits| cell(hits, over.len()));
        let whose = if *own { " (ours)" } else { "" };
        markdown.push_str(&format!("| {set}{whose} | {name} | {} | {one} | {tenth} |\n", over.len()));
        values.push(json!({ "set": set, "own": own, "source": name, "n": over.len(), "hits_1": hits[0], "hits_01": hits[1] }));
    }
    let mean = |at: usize| recalls.iter().map(|recall| recall[at]).sum::<f64>() / recalls.len().max(1) as f64;
    let line = format!(
        "\nRecall, mean of {} sources: {:.1} % at 1 %, {:.1} % at 0.1 %.\n",
        recalls.len(),
        mean(0),
        mean(1)
    );
    markdown.push_str(&line);
    Told { markdown, values: json!({ "sources": values, "macro_1": mean(0), "macro_01": mean(1) }) }
}

/// Returns the kind of a family of ours: its name without the language.
fn kind_of(source: &str) -> &str {
    source.rsplit_once('_').map_or(source, |(kind, _)| kind)
}

/// Returns a share in percent with its interval (Wilson).
fn cell(hits: usize, all: usize) -> String {
    let (n, p) = (all as f64, hits as f64 / all as f64);
    let spread = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    let (middle, whole) = (p + Z * Z / (2.0 * n), 1.0 + Z * Z / n);
    let (low, high) = ((middle - spread).max(0.0) / whole, (middle + spread) / whole);
    format!("{:.1} ({:.1}–{:.1})", 100.0 * p, 100.0 * low, 100.0 * high)
}
