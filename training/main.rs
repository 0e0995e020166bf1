//! `make train`: trains the model of the third layer, and measures it on sources it left out.
//!
//! In: the shared rows (`PORTCULLIS_SHARED`, or `../shared/data/train`), the lexicon and the texts beside this
//! file. Out: `plugins/models/gatehouse/model.bin`, the same bytes for the same rows, and what was measured in
//! `target/eval/folds.json`. One thread, a few minutes.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::path::PathBuf;

use portcullis::scan::classifier::Origin;
use portcullis::scan::classifier::format;
use portcullis::scan::classifier::lexicon;
use portcullis::scan::classifier::lexicon::Lexicon;
use portcullis::scan::classifier::linear::Levels;
use portcullis::scan::classifier::linear::Linear;
use portcullis::scan::classifier::normal::Normal;
use portcullis::scan::numbers::FormatFault;
use portcullis::scan::view;
use serde::Deserialize;

mod chance;
mod corpus;
mod fold;
mod grammar;
mod learn;
mod logistic;
mod tell;
#[cfg(test)]
mod tests;

use corpus::Doc;
use fold::Folds;
use tell::Told;

/// The share of harmless texts of left-out sources that may be reported with medium confidence.
const WATCH_SHARE: f64 = 0.0075;
/// The share that may be reported with high confidence, and so be blocked under the default policy.
const SURE_SHARE: f64 = 0.001;
/// What a finding of the first layer adds to the log odds, of medium and of high confidence.
const SIGNALS: [f32; 2] = [0.7, 1.5];
/// Log odds that nothing reaches: what the operator wrote is never reported with high confidence.
const NEVER: f32 = 1000.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LexiconFile {
    concepts: BTreeMap<String, Vec<String>>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let own = Path::new("training");
    let shared = std::env::var_os("PORTCULLIS_SHARED");
    let shared = shared.map_or_else(|| PathBuf::from("../shared/data/train"), PathBuf::from);
    let mut out = std::io::stdout();
    let docs = corpus::read(&shared, &own.join("texts"))?;
    writeln!(out, "{} texts, {} attacks", docs.len(), docs.iter().filter(|doc| doc.attack).count())?;
    let lexicon = read_lexicon(&own.join("lexicon/concepts.toml"))?;
    let (model, told) = train(&docs, lexicon)?;
    fs::create_dir_all("target/eval")?;
    fs::write("target/eval/folds.json", told.json())?;
    writeln!(out, "{}", told.markdown)?;
    fs::write("plugins/models/gatehouse/model.bin", model)?;
    Ok(())
}

/// Returns a model that learnt from all texts, as its file holds it, and what those judge that left a source out.
fn train(docs: &[Doc], lexicon: Lexicon) -> Result<(Vec<u8>, Told), FormatFault> {
    let read = |doc: &Doc| learn::encode(Normal::of(&canonical(&doc.text)), &lexicon);
    let texts: Vec<learn::Encoded> = docs.iter().map(read).collect();
    let folds = Folds::measure(docs, &texts, &lexicon);
    let told = tell::folds(docs, &folds);
    let everything: BTreeSet<usize> = (0..docs.len()).collect();
    let weights = learn::learn(&fold::lessons(docs, &texts, &everything));
    let mut stack = folds.stack(docs, None);
    stack.signals = SIGNALS;
    let levels = levels(&folds, docs);
    let model = format::write(&Linear { weights, lexicon, stack, levels })?;
    Ok((model, told))
}

/// Returns from which log odds on a text of each origin is reported.
///
/// Whose texts nobody recorded, they count as people's.
fn levels(folds: &Folds, docs: &[Doc]) -> Levels {
    let level = |origin, share| folds.level(docs, origin, share);
    let (watch, sure) = (level(Origin::User, WATCH_SHARE), level(Origin::User, SURE_SHARE));
    let (watch_tool, sure_tool) = (level(Origin::Tool, WATCH_SHARE), level(Origin::Tool, SURE_SHARE));
    Levels { watch: [watch, sure, watch, watch_tool, watch], sure: [sure, NEVER, sure, sure_tool, sure] }
}

/// Returns a text as the scanner hands it to the model.
fn canonical(text: &str) -> Vec<u8> {
    view::canonical(text.as_bytes()).map_or_else(|| text.as_bytes().to_vec(), |view| view.bytes().to_vec())
}

fn read_lexicon(path: &Path) -> Result<Lexicon, Box<dyn Error>> {
    let file: LexiconFile = toml::from_str(&fs::read_to_string(path)?)?;
    if file.concepts.len() > lexicon::CONCEPTS_MAX {
        return Err(format!("{}: more than {} concepts", path.display(), lexicon::CONCEPTS_MAX).into());
    }
    let mut entries = Vec::new();
    for (concept, words) in file.concepts.values().enumerate() {
        for word in words {
            entries.extend(lexicon::entries_of(&canonical(word), concept as u8));
        }
    }
    Ok(Lexicon::new(entries))
}
