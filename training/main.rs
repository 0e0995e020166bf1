//! Trains the model of the third layer from the shared rows and the texts beside this file.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::error::Error;
use std::io::Write as _;
use std::path::Path;

use portcullis::scan::classifier::lexicon;
use portcullis::scan::classifier::lexicon::Lexicon;
use portcullis::scan::classifier::normal::Normal;
use portcullis::scan::classifier::pool::Pooling;
use portcullis::scan::classifier::stack;
use portcullis::scan::classifier::stack::INPUTS;
use portcullis::scan::view;
use serde::Deserialize;

mod chance;
mod corpus;
mod grammar;
mod learn;
mod logistic;

use corpus::Doc;
use learn::Lesson;

#[derive(Deserialize)]
struct LexiconFile {
    concepts: BTreeMap<String, Vec<String>>,
}

fn canonical(text: &str) -> Vec<u8> {
    view::canonical(text.as_bytes()).map_or_else(|| text.as_bytes().to_vec(), |view| view.bytes().to_vec())
}

fn main() -> Result<(), Box<dyn Error>> {
    let own = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/training"));
    let own =
        if own.exists() { own.to_path_buf() } else { Path::new("/work/wt/model/training").to_path_buf() };
    let shared = std::env::var("PORTCULLIS_SHARED").unwrap_or("/work/shared/data/train".into());
    let lexicon = read_lexicon(&own.join("lexicon/concepts.toml"))?;
    let docs = corpus::read(Path::new(&shared), &own.join("texts"))?;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{} docs, {} attacks, own {} attacks {} benign; lexicon {}",
        docs.len(),
        docs.iter().filter(|d| d.attack).count(),
        docs.iter().filter(|d| d.attack && d.own).count(),
        docs.iter().filter(|d| !d.attack && d.own).count(),
        lexicon.entries().len()
    )?;
    let encoded: Vec<learn::Encoded> =
        docs.iter().map(|doc| learn::encode(Normal::of(&canonical(&doc.text)), &lexicon)).collect();
    let shingles: Vec<BTreeSet<u64>> = docs
        .iter()
        .zip(&encoded)
        .map(|(doc, enc)| if doc.attack { shingles(&enc.normal) } else { BTreeSet::new() })
        .collect();
    let groups: Vec<String> = docs
        .iter()
        .filter(|doc| doc.attack && !doc.own)
        .map(|doc| doc.group.clone())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let fold_of = |doc: &Doc| -> usize {
        if let Some(at) = groups.iter().position(|g| *g == doc.group) {
            return at;
        }
        (chance::hash(doc.group.as_bytes()) % groups.len() as u64) as usize
    };
    // Own benign rows: fold by text, own attacks by family.
    let folds: Vec<usize> = docs
        .iter()
        .map(|doc| {
            if !doc.attack && (doc.own || doc.source.ends_with("_multilingual")) {
                (chance::hash(doc.text.as_bytes()) % groups.len() as u64) as usize
            } else {
                fold_of(doc)
            }
        })
        .collect();
    let mut rows: Vec<Option<[f32; INPUTS]>> = vec![None; docs.len()];
    let mut raw: Vec<Option<portcullis::scan::classifier::pool::Pooled>> = vec![None; docs.len()];
    for (fold, group) in groups.iter().enumerate() {
        let held: BTreeSet<u64> = docs
            .iter()
            .zip(&shingles)
            .filter(|(d, _)| d.group == *group)
            .flat_map(|(_, s)| s.iter().copied())
            .collect();
        let lessons: Vec<Lesson<'_>> = docs
            .iter()
            .zip(&encoded)
            .zip(&shingles)
            .zip(&folds)
            .filter(|(((doc, _), s), f)| {
                **f != fold
                    && doc.group != "synthetic"
                    && !(doc.attack && !doc.own && s.intersection(&held).count() * 3 > s.len())
            })
            .map(|(((doc, text), _), _)| Lesson { text, heads: doc.heads, source: &doc.source, own: doc.own })
            .collect();
        let weights = learn::learn(&lessons);
        let mut pooling = Pooling::default();
        for (at, doc) in docs.iter().enumerate() {
            if folds[at] == fold {
                let pooled = pooling.read(&encoded[at].normal, &lexicon, &weights);
                rows[at] = Some(stack::inputs(&pooled, doc.origin));
                raw[at] = Some(pooled);
            }
        }
        if std::env::var("FIT").is_ok() {
            fit(&docs, &encoded, &lexicon, &weights, &folds, fold);
        }
        eprintln!("fold {fold} {group} lessons {} biases {:?}", lessons.len(), weights.biases);
    }
    // Stacker leave-fold-out
    let mut odds = vec![0f32; docs.len()];
    for fold in 0..groups.len() {
        let train: Vec<(&[f32; INPUTS], bool, &str)> = docs
            .iter()
            .enumerate()
            .filter(|(at, doc)| folds[*at] != fold && doc.group != "synthetic" && doc.group != "BIPIA")
            .map(|(at, doc)| (rows[at].as_ref().unwrap(), doc.attack, doc.source.as_str()))
            .collect();
        let s = logistic::fit(&train);
        for at in 0..docs.len() {
            if folds[at] == fold {
                odds[at] = s.odds(rows[at].as_ref().unwrap());
            }
        }
    }
    report(&mut out, &docs, &odds, &raw)?;
    let Ok(target) = std::env::var("MODEL") else { return Ok(()) };
    let lessons: Vec<Lesson<'_>> = docs
        .iter()
        .zip(&encoded)
        .map(|(doc, text)| Lesson { text, heads: doc.heads, source: &doc.source, own: doc.own })
        .collect();
    let weights = learn::learn(&lessons);
    let train: Vec<(&[f32; INPUTS], bool, &str)> = docs
        .iter()
        .enumerate()
        .filter(|(_, doc)| doc.group != "BIPIA")
        .map(|(at, doc)| (rows[at].as_ref().unwrap(), doc.attack, doc.source.as_str()))
        .collect();
    let mut stack = logistic::fit(&train);
    stack.signals = [0.7, 1.5];
    let mut benign: Vec<f32> =
        docs.iter().zip(&odds).filter(|(d, _)| !d.attack && !d.own).map(|(_, o)| *o).collect();
    benign.sort_by(f32::total_cmp);
    let cut = |share: f64| benign[(benign.len() as f64 * (1.0 - share)) as usize];
    let (watch, sure) = (cut(0.005), cut(0.001));
    let levels = portcullis::scan::classifier::linear::Levels {
        watch: [watch, sure, watch, watch, watch],
        sure: [sure, 1000.0, sure, sure, sure],
    };
    let model = portcullis::scan::classifier::linear::Linear { weights, lexicon, stack, levels };
    std::fs::write(&target, portcullis::scan::classifier::format::write(&model)?)?;
    Ok(())
}

fn report(
    out: &mut impl std::io::Write,
    docs: &[Doc],
    odds: &[f32],
    raw: &[Option<portcullis::scan::classifier::pool::Pooled>],
) -> Result<(), Box<dyn Error>> {
    let mut benign: Vec<f32> = docs
        .iter()
        .zip(odds)
        .filter(|(d, _)| !d.attack && !d.own && !d.source.starts_with("synthetic"))
        .map(|(_, o)| *o)
        .collect();
    benign.sort_by(f32::total_cmp);
    let cut = |share: f64| benign[(benign.len() as f64 * (1.0 - share)) as usize];
    let (one, tenth) = (cut(0.01), cut(0.001));
    writeln!(out, "benign n={} cut 1% {one:.2} 0.1% {tenth:.2}", benign.len())?;
    let mut by: BTreeMap<(bool, &str), Vec<usize>> = BTreeMap::new();
    for (at, d) in docs.iter().enumerate() {
        by.entry((
            d.attack,
            if d.own {
                &d.source
            } else if d.attack {
                &d.group
            } else {
                &d.source
            },
        ))
        .or_default()
        .push(at);
    }
    let mut macro_: Vec<f32> = vec![];
    for ((attack, source), at) in &by {
        let hit = |t: f32| at.iter().filter(|i| odds[**i] > t).count() as f32 / at.len() as f32 * 100.0;
        if *attack || hit(one) > 0.0 {
            writeln!(
                out,
                "{} {source:<48} n={:<5} 1%: {:5.1}  0.1%: {:5.1}",
                if *attack { "ATT" } else { "ben" },
                at.len(),
                hit(one),
                hit(tenth)
            )?;
        }
        if *attack && !source.starts_with("own/") && *source != "synthetic" {
            macro_.push(hit(one));
        }
    }
    writeln!(out, "MACRO {:.1}", macro_.iter().sum::<f32>() / macro_.len() as f32)?;
    if let Ok(path) = std::env::var("DUMP") {
        let mut f = std::fs::File::create(path)?;
        let mut idx: Vec<usize> = (0..docs.len()).collect();
        idx.sort_by(|a, b| odds[*b].total_cmp(&odds[*a]));
        for i in idx {
            let d = &docs[i];
            let p = raw[i].as_ref().unwrap();
            let n = p.peaks;
            let peak = n[0][0];
            writeln!(
                f,
                "{}",
                serde_json::json!({"o": odds[i], "a": d.attack, "s": d.source, "ov": [n[0][0].score, n[0][1].score], "pe": [n[1][0].score, n[1][1].score], "ab": [n[2][0].score, n[2][1].score], "abo": p.about, "len": d.text.len(), "peak": [peak.from*32, peak.until*32], "t": d.text.chars().take(400).collect::<String>()})
            )?;
        }
    }
    Ok(())
}

fn shingles(normal: &Normal) -> BTreeSet<u64> {
    let hashes: Vec<u64> = normal.words().iter().map(|w| lexicon::hash_of(normal.word(w))).collect();
    hashes.windows(8).map(|w| w.iter().fold(0u64, |h, x| h.rotate_left(7) ^ x)).collect()
}

fn read_lexicon(path: &Path) -> Result<Lexicon, Box<dyn Error>> {
    let file: LexiconFile = toml::from_str(&std::fs::read_to_string(path)?)?;
    let mut entries = vec![];
    for (id, words) in file.concepts.values().enumerate() {
        for w in words {
            entries.extend(lexicon::entries_of(&canonical(w), id as u8));
        }
    }
    Ok(Lexicon::new(entries))
}

fn fit(
    docs: &[Doc],
    enc: &[learn::Encoded],
    lexicon: &Lexicon,
    weights: &portcullis::scan::classifier::pool::Weights,
    folds: &[usize],
    fold: usize,
) {
    let mut by: BTreeMap<(bool, String), (usize, [f32; 6])> = BTreeMap::new();
    let mut pooling = Pooling::default();
    for (at, d) in docs.iter().enumerate() {
        if folds[at] == fold || at % 7 != 0 {
            continue;
        }
        let p = pooling.read(&enc[at].normal, lexicon, weights);
        let e = by.entry((d.attack, learn::kin(&d.source).to_owned())).or_default();
        e.0 += 1;
        for l in 0..3 {
            e.1[l] += p.peaks[0][l].score;
            e.1[l + 3] += p.peaks[1][l].score;
        }
    }
    for (k, v) in by {
        eprintln!("{k:?} n={} {:?}", v.0, v.1.map(|x| (x / v.0 as f32 * 10.0).round() / 10.0));
    }
}
