//! Leaves one source out at a time: what a model says of texts from where it has learnt nothing.
//!
//! Each source of attacks is a fold; harmless sources are spread over the folds. A text is judged by the model
//! that has seen neither its source nor an attack that shares a third of its word sequences with one held out.

use std::collections::BTreeSet;

use portcullis::scan::classifier::Origin;
use portcullis::scan::classifier::lexicon;
use portcullis::scan::classifier::lexicon::Lexicon;
use portcullis::scan::classifier::linear;
use portcullis::scan::classifier::normal::Normal;
use portcullis::scan::classifier::pool::Pooling;
use portcullis::scan::classifier::stack;
use portcullis::scan::classifier::stack::INPUTS;
use portcullis::scan::classifier::stack::Stack;

use crate::canonical;
use crate::chance::hash;
use crate::corpus::Doc;
use crate::learn;
use crate::learn::Encoded;
use crate::learn::Lesson;
use crate::logistic;

/// Words of a sequence by which near duplicates are known.
const SHINGLE_WORDS: usize = 8;
/// An attack that shares one of this many sequences with one held out is left out, too.
const SHARED_PART: usize = 3;
/// Made from payloads of other sources: never learnt from while one of these is held out.
const COMPOSED: &str = "synthetic";
/// Off-task requests without a sign of an attack: not learnt from by the last step.
const OFF_TASK: &str = "BIPIA";

/// What is known of texts by models that have not seen their sources.
pub struct Folds {
    /// The fold in which each text was held out.
    of: Vec<usize>,
    /// What each text was judged by.
    inputs: Vec<[f32; INPUTS]>,
    /// What the lines of its loudest window are judged by on their own, if it is long.
    alone: Vec<Option<[f32; INPUTS]>>,
    /// The log odds of each text.
    pub odds: Vec<f32>,
}

/// Returns what a set of texts teaches, in the order of the corpus.
pub fn lessons<'a>(docs: &'a [Doc], texts: &'a [Encoded], chosen: &BTreeSet<usize>) -> Vec<Lesson<'a>> {
    let lesson = |at: &usize| {
        let (doc, text) = (docs.get(*at)?, texts.get(*at)?);
        Some(Lesson { text, heads: doc.heads, source: &doc.source, own: doc.own })
    };
    chosen.iter().filter_map(lesson).collect()
}

impl Folds {
    /// Trains a model for each fold and judges the texts it held out.
    pub fn measure(docs: &[Doc], texts: &[Encoded], lexicon: &Lexicon) -> Self {
        let foreign = docs.iter().filter(|doc| doc.attack && !doc.own);
        let groups: BTreeSet<&str> = foreign.map(|doc| doc.group.as_str()).collect();
        let groups: Vec<&str> = groups.into_iter().collect();
        let of: Vec<usize> = docs.iter().map(|doc| fold_of(doc, &groups)).collect();
        let attacks = docs.iter().zip(texts);
        let sequences: Vec<BTreeSet<u64>> = attacks
            .map(|(doc, text)| if doc.attack { shingles(&text.normal) } else { BTreeSet::new() })
            .collect();
        let mut inputs = vec![[0.0; INPUTS]; docs.len()];
        let mut alone = vec![None; docs.len()];
        for (fold, group) in groups.iter().enumerate() {
            let held = docs.iter().zip(&sequences).filter(|(doc, _)| doc.group == *group);
            let held: BTreeSet<u64> = held.flat_map(|(_, sequences)| sequences.iter().copied()).collect();
            let is_near = |at: usize| {
                let shared = sequences[at].intersection(&held).count();
                !docs[at].own && shared * SHARED_PART > sequences[at].len()
            };
            let learnt = |at: &usize| of[*at] != fold && docs[*at].group != COMPOSED && !is_near(*at);
            let chosen: BTreeSet<usize> = (0..docs.len()).filter(learnt).collect();
            let weights = learn::learn(&lessons(docs, texts, &chosen));
            let mut pooling = Pooling::default();
            for at in (0..docs.len()).filter(|at| of[*at] == fold) {
                let normal = &texts[at].normal;
                let mut judged_by = |normal: &Normal| pooling.read(normal, lexicon, &weights);
                let pooled = judged_by(normal);
                inputs[at] = stack::inputs(&pooled, docs[at].origin);
                let text = canonical(&docs[at].text);
                let lines = linear::loudest_lines(&text, normal, &pooled);
                let lines = lines.and_then(|lines| text.get(lines)).map(Normal::of);
                alone[at] = lines.map(|lines| stack::inputs(&judged_by(&lines), docs[at].origin));
            }
        }
        let mut folds = Self { of, inputs, alone, odds: vec![0.0; docs.len()] };
        for fold in 0..groups.len() {
            let stack = folds.stack(docs, Some(fold));
            for at in (0..docs.len()).filter(|at| folds.of[*at] == fold) {
                folds.odds[at] = stack.odds(&folds.inputs[at]);
            }
        }
        folds
    }

    /// Fits the last step to all folds but one: to the texts, and to the loudest lines of the long ones.
    pub fn stack(&self, docs: &[Doc], without: Option<usize>) -> Stack {
        let known = |at: &usize| {
            Some(self.of[*at]) != without && ![COMPOSED, OFF_TASK].contains(&docs[*at].group.as_str())
        };
        let known: Vec<usize> = (0..docs.len()).filter(known).collect();
        let row = |at: usize, inputs| (inputs, docs[at].attack, docs[at].source.as_str());
        let whole = known.iter().map(|at| row(*at, &self.inputs[*at]));
        let lines = known.iter().filter_map(|at| Some(row(*at, self.alone[*at].as_ref()?)));
        logistic::fit(&whole.chain(lines).collect::<Vec<_>>())
    }

    /// Returns the log odds that this share of the harmless texts of others exceeds, of people or of tools.
    pub fn level(&self, docs: &[Doc], origin: Origin, share: f64) -> f32 {
        let counts = |doc: &Doc| !doc.attack && !doc.own && doc.origin == origin;
        let harmless = docs.iter().zip(&self.odds).filter(|(doc, _)| counts(doc));
        let mut odds: Vec<f32> = harmless.map(|(_, odds)| *odds).collect();
        odds.sort_by(f32::total_cmp);
        let at = (odds.len() as f64 * (1.0 - share)) as usize;
        odds.get(at).copied().unwrap_or(f32::MAX)
    }
}

/// Returns the fold in which a text is held out.
///
/// The only harmless source that has most languages is spread text by text.
fn fold_of(doc: &Doc, groups: &[&str]) -> usize {
    if let Some(at) = groups.iter().position(|group| *group == doc.group) {
        return at;
    }
    let by_text = !doc.attack && doc.source.ends_with("_multilingual");
    let key = if by_text { doc.text.as_bytes() } else { doc.group.as_bytes() };
    (hash(key) % groups.len().max(1) as u64) as usize
}

fn shingles(normal: &Normal) -> BTreeSet<u64> {
    let hashes: Vec<u64> = normal.words().iter().map(|word| lexicon::hash_of(normal.word(word))).collect();
    let sequence = |words: &[u64]| words.iter().fold(0u64, |hash, word| hash.rotate_left(7) ^ word);
    hashes.windows(SHINGLE_WORDS).map(sequence).collect()
}
