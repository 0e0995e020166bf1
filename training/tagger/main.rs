//! `make train-tagger`: trains the tagger that finds names, addresses, places and organisations.
//!
//! In: the lists and templates beside this file, and the harmless ones of the shared rows (`PORTCULLIS_SHARED`, or
//! `../shared/data/train`). Out: `plugins/models/doorplate/model.bin`, the same bytes for the same rows. One thread, some
//! minutes. `make eval` measures it on sources it has not learnt from.

use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::path::PathBuf;

use portcullis::scan::tagger::format;

#[path = "../chance.rs"]
mod chance;
mod learn;
mod lists;
mod make;
mod prose;
mod sample;

fn main() -> Result<(), Box<dyn Error>> {
    let own = Path::new("training/tagger");
    let shared = std::env::var_os("PORTCULLIS_SHARED");
    let shared = shared.map_or_else(|| PathBuf::from("../shared/data/train"), PathBuf::from);
    let lists = lists::Lists::read(&own.join("lists"))?;
    let maker = make::Maker::read(&own.join("texts"), &lists)?;
    let parts = prose::read(&shared)?;
    let known = prose::known(&parts, &lists.words([]));
    let known = known.into_iter().chain(maker.texts().flat_map(lists::hashes));
    let words = lists.words(known);
    let mut samples = maker.samples();
    let made = samples.len();
    samples.extend(prose::samples(&parts, &words, &maker));
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{made} sentences, {} parts of texts, {} words",
        samples.len() - made,
        words.entries().len()
    )?;
    let tell = |round, loss| drop(writeln!(std::io::stdout(), "round {round}: {loss:.4}"));
    let tagger = learn::learn(&samples, words, tell);
    let file = format::write(&tagger)?;
    writeln!(out, "{} bytes", file.len())?;
    fs::write("plugins/models/doorplate/model.bin", file)?;
    Ok(())
}
