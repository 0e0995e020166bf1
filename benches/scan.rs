//! How fast texts are scanned: the shipped detectors over prose, mixed and hostile texts.
//!
//! Prints one line a text: its size, the best time of many rounds, the rate, and how much of it the plain search
//! (without decoding) and its first stage (without confirming) take. `--each` adds the rate of each detector alone.

use std::io::Write;
use std::time::Duration;
use std::time::Instant;

use portcullis::scan::pack;
use portcullis::scan::proof::rate;
use portcullis::scan::scanner::Scanner;
use portcullis::scan::threat::DetectorSet;

const ROUNDS: usize = 60;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let began = Instant::now();
    let detectors = pack::builtin().expect("shipped packs can be read");
    let count = detectors.len();
    let parsed = began.elapsed();
    let scanner = Scanner::compile(detectors.clone()).expect("shipped packs compile");
    writeln!(out, "{count} detectors: read in {parsed:?}, with compiling {:?}", began.elapsed())?;
    for (name, text) in texts() {
        report(&mut out, &scanner, name, text.as_bytes())?;
    }
    let clock = || began.elapsed();
    if std::env::args().any(|argument| argument == "--each") {
        for detector in detectors {
            let name = detector.name.clone();
            let rate = rate::of_detector(&detector, &clock).expect("a shipped detector can be measured");
            writeln!(out, "{:8.2} GB/s  {name}", rate.bytes_per_second / 1e9)?;
        }
    }
    Ok(())
}

/// Times one text and writes a line.
fn report(out: &mut impl Write, scanner: &Scanner, name: &str, text: &[u8]) -> std::io::Result<()> {
    let all = scanner.all();
    let found = match scanner.scan(text, &all) {
        Ok(found) => found.len(),
        Err(fault) => return writeln!(out, "{name:<24} {:>8} bytes  refused: {fault}", text.len()),
    };
    let full = best(|| drop(scanner.scan(text, &all)));
    let plain = best(|| drop(scanner.search_plain(text, &all)));
    let first = best(|| drop(scanner.search_plain(text, &DetectorSet::default())));
    let rate = text.len() as f64 / full.as_secs_f64() / 1e6;
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    writeln!(
        out,
        "{name:<24} {:>8} bytes {:>10.1} us (plain {:>9.1} us, first stage {:>9.1} us) {rate:>8.0} MB/s {found:>6} findings",
        text.len(),
        micros(full),
        micros(plain),
        micros(first),
    )
}

fn best(mut run: impl FnMut()) -> Duration {
    let mut fastest = Duration::MAX;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        run();
        fastest = fastest.min(began.elapsed());
    }
    fastest
}

fn texts() -> Vec<(&'static str, String)> {
    let prose = "The committee met again in the spring to discuss how the new library should be built, who would pay \
                 for it and what it might contain. Nobody expected an answer before the summer, yet one came. ";
    let mixed = "Ann wrote to ann.smith@mail.example on 2025-03-14 that order 4711-0815 costs 1,234.50 EUR; \
                 see https://shop.example/items?id=42&page=3 {\"user\": 17, \"ip\": \"10.24.0.17\"}\n";
    let of = |unit: &str, bytes: usize| unit.repeat(bytes.div_ceil(unit.len()));
    let mut texts = Vec::new();
    for (name, unit) in [("prose", prose), ("mixed", mixed)] {
        for bytes in [1 << 10, 4 << 10, 64 << 10] {
            let mut text = of(unit, bytes);
            text.truncate(bytes);
            texts.push((name, text));
        }
    }
    let hostile = [
        ("anchors", "a@a."),
        ("digits", "1"),
        ("letters", "a"),
        ("grouped digits", "4111 1111 1111 1112 "),
        ("key heads", "-----BEGIN RSA PRIVATE KEY-----\n"),
        ("token heads", "ghp_AKIAsk-proj-eyJhbGci"),
        ("percent signs", "%41%42"),
        ("base64", "VGhlIGNvbW1pdHRlZSBtZXQgYWdhaW4u "),
        ("long base64", "VGhlIGNvbW1pdHRlZSBtZXQgYWdhaW4u"),
        ("assignments", "password = "),
    ];
    texts.extend(hostile.map(|(name, unit)| (name, of(unit, 64 << 10))));
    texts
}
