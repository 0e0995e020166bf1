//! The fuzz targets as ordinary tests: over their corpora, and over seeded mutations of them.
//!
//! The same functions run under `cargo +nightly fuzz run --fuzz-dir tests/fuzz TARGET` for as long as wanted;
//! what it finds goes into the corpus, where it is checked from then on.

mod check;

use std::fs;
use std::panic;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use check::TARGETS;

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fuzz/corpus");
const FUZZ_TARGETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fuzz/fuzz_targets");
/// Mutations of each target; fewer where the time is over before.
const MUTATIONS: usize = 2000;
const TIME_MAX: Duration = Duration::from_millis(1200);
const BYTES_MAX: usize = 2048;
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

#[test]
fn every_target_has_a_corpus_and_a_fuzzer() {
    let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    for (folder, ending) in [(CORPUS, ""), (FUZZ_TARGETS, ".rs")] {
        let entries = fs::read_dir(folder).expect("it is part of the sources");
        let mut found: Vec<String> = entries
            .map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned())
            .map(|name| name.strip_suffix(ending).unwrap_or(&name).to_owned())
            .collect();
        found.sort();
        assert_eq!(found, names, "in {folder}");
    }
}

#[test]
fn corpora_hold_no_surprise() {
    for (name, check) in TARGETS {
        let corpus = corpus(name);
        assert!(corpus.len() >= 3, "{name}: only {} texts in the corpus", corpus.len());
        corpus.iter().for_each(|text| run(name, check, text));
    }
}

#[test]
fn mutations_of_the_corpora_hold_no_surprise() {
    for (name, check) in TARGETS {
        let corpus = corpus(name);
        let mut random = Random(SEED);
        let begun = Instant::now();
        for _ in 0..MUTATIONS {
            if begun.elapsed() > TIME_MAX {
                break;
            }
            let mut text = corpus[random.below(corpus.len())].clone();
            for _ in 0..=random.below(4) {
                mutate(&mut text, &corpus, &mut random);
            }
            text.truncate(BYTES_MAX);
            run(name, check, &text);
        }
    }
}

/// Runs a check; one that fails says on which bytes.
fn run(name: &str, check: check::Check, text: &[u8]) {
    if let Err(cause) = panic::catch_unwind(|| check(text)) {
        panic!("{name} failed ({:?}) on b\"{}\"", cause.downcast_ref::<String>(), text.escape_ascii());
    }
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(Path::new(CORPUS).join(name)).expect("every target has a corpus");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("it can be read")).collect()
}

/// Changes a text as a fuzzer would: a bit, a byte, a stretch gone, doubled, or taken from elsewhere.
fn mutate(text: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    const TELLING: &[u8] = b"\0\t\n\r \"%&'*+,-./0:;=@AZ[\\]_az{}\x7f\x80\xbf\xc3\xe2\xed\xf0\xff";
    let (from, to) = (random.below(text.len() + 1), random.below(text.len() + 1));
    let stretch = from.min(to)..from.max(to);
    match random.below(6) {
        0 if from < text.len() => text[from] ^= 1 << random.below(8),
        1 if from < text.len() => text[from] = TELLING[random.below(TELLING.len())],
        2 => text.insert(from, TELLING[random.below(TELLING.len())]),
        3 => drop(text.drain(stretch)),
        4 => {
            let doubled = text[stretch].to_vec();
            text.splice(from..from, doubled);
        }
        _ => {
            let other = &corpus[random.below(corpus.len())];
            let start = random.below(other.len() + 1);
            text.splice(stretch, other[start..].iter().copied());
        }
    }
}

/// Marsaglia's xorshift: the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}
