//! Texts: what is found, and what may leave, depends on the text alone and never on how it was cut.

use std::sync::OnceLock;

use portcullis::scan::hold::Watch;
use portcullis::scan::lane::Lane;
use portcullis::scan::pack;
use portcullis::scan::pack::PluginFiles;
use portcullis::scan::scanner::Scanner;
use portcullis::scan::threat::Finding;
use portcullis::scan::view;
use portcullis::scan::view::Canonicaliser;

use super::cuttings;

/// A detector of each shape: anchored, starting with any word, validated, wide, caseless.
const PACK: &str = r#"
[pack]
name = "fuzz"
version = "1.0.0"

[[detector]]
type = "anchored"
category = "secrets"
severity = "critical"
confidence = "high"
pattern = '\b(key_[a-z0-9]{8})\b'
why = "It begins with what it is."
finds = ["key_abcdefg1"]
ignores = ["key_abc"]

[[detector]]
type = "address"
category = "pii"
severity = "medium"
confidence = "high"
pattern = '\b[a-z]{1,16}@[a-z]{1,16}\.[a-z]{2,4}\b'
why = "It may begin with any word."
finds = ["ab@cd.ef"]
ignores = ["ab@cd"]

[[detector]]
type = "card"
category = "pii"
severity = "high"
confidence = "high"
pattern = '\b((?:[0-9][ -]?){12,18}[0-9])\b'
checks = ["luhn"]
why = "A check decides."
finds = ["4111 1111 1111 1111"]
ignores = ["4111 1111 1111 1112"]

[[detector]]
type = "block"
category = "secrets"
severity = "critical"
confidence = "high"
pattern = '-----BEGIN[a-zA-Z0-9\s]{1,4000}?-----END'
anchor = '-----BEGIN'
why = "It is wide."
finds = ["-----BEGIN a -----END"]
ignores = ["-----BEGIN a"]

[[detector]]
type = "phrase"
category = "injection"
severity = "high"
confidence = "high"
pattern = '(?i)\bignore\s{1,8}(?:all\s{1,8})?rules\b'
why = "Words, in any case."
finds = ["Ignore all rules"]
ignores = ["ignore nothing"]
"#;

struct Rules {
    scanner: Scanner,
    watch: Watch,
}

fn rules() -> &'static Rules {
    static RULES: OnceLock<Rules> = OnceLock::new();
    RULES.get_or_init(|| {
        let files = PluginFiles::from([("detectors/fuzz.toml".to_owned(), PACK.into())]);
        let scanner = Scanner::compile(pack::parse_all(&files).expect("a sound pack")).expect("it compiles");
        let all = scanner.all();
        let watch = Watch::compile(scanner.detectors(), &all, &all);
        Rules { scanner, watch }
    })
}

/// Returns what finds a detector of each shape.
pub(super) fn scanner() -> &'static Scanner {
    &rules().scanner
}

/// Other spellings add to what is found in a text as it stands, and what they add lies in it.
pub fn spelling(text: &[u8]) {
    let Rules { scanner, .. } = rules();
    let all = scanner.all();
    let plain = scanner.scan(text, &all).expect("a short text can be scanned");
    let spelt = scanner.scan_spelt(text, &all).expect("a short text can be scanned").findings;
    let beyond =
        scanner.scan_spelt_beyond(text, &all, Vec::new()).expect("a short text can be scanned").findings;
    for found in spelt.iter().chain(&beyond) {
        assert!(
            found.span.start < found.span.end && found.span.end <= text.len(),
            "{found:?} is not in the text"
        );
        let is_within = found.span.start <= found.value.start && found.value.end <= found.span.end;
        assert!(is_within && found.value.start < found.value.end, "{found:?} is not within its match");
    }
    for found in &plain {
        let has = |it: &Finding| {
            it.detector == found.detector
                && it.span.start <= found.span.start
                && found.span.end <= it.span.end
        };
        assert!(spelt.iter().any(has), "{found:?} is lost among other spellings");
    }
}

/// What a client and a log get of a text.
#[derive(Debug, PartialEq)]
struct Outcome {
    left: usize,
    findings: Vec<Finding>,
}

/// Judges a text whole and in pieces.
pub fn lane(text: &[u8]) {
    check_view(text);
    let Rules { scanner, watch } = rules();
    let whole = judged(&[text]);
    assert_eq!(whole.left, text.len(), "the end of a text settles it");
    let block = scanner.scan(text, &scanner.all());
    let block = sorted(block.expect("a short text can be scanned"));
    assert_eq!(whole.findings, block, "a lane finds what a block finds");
    for cutting in cuttings(text) {
        assert_eq!(judged(&cutting), whole, "the verdict depends on the cutting");
    }
    let _ = watch;
}

fn judged(pieces: &[&[u8]]) -> Outcome {
    let Rules { scanner, watch } = rules();
    let (mut lane, mut findings, mut left, mut fed) = (Lane::new(), Vec::new(), 0, 0);
    for piece in pieces {
        fed += piece.len();
        let advance = lane.feed(scanner, watch, piece).expect("a short text can be judged");
        assert!(left <= advance.judged_to && advance.judged_to <= fed);
        let early = advance.findings.iter().any(|found: &Finding| found.value.start < left);
        assert!(!early, "a byte of a value left before it was found");
        left = advance.judged_to;
        findings.extend(advance.findings);
    }
    let advance = lane.finish(scanner, watch).expect("a short text can be judged");
    assert!(
        advance.findings.iter().all(|found| found.value.start >= left),
        "a byte of a value left too early"
    );
    findings.extend(advance.findings);
    Outcome { left: advance.judged_to, findings: sorted(findings) }
}

fn sorted(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|found| (found.span.start, found.detector, found.span.end));
    findings
}

/// The canonical view is the same in pieces, and each of its bytes comes from somewhere in the text.
fn check_view(text: &[u8]) {
    let whole = read(&[text]);
    for cutting in cuttings(text) {
        assert_eq!(read(&cutting), whole, "the canonical view depends on the cutting");
    }
    let Some(view) = view::canonical(text) else { return assert_eq!(whole, text) };
    assert_eq!(view.bytes(), whole, "the two makers of the canonical view differ");
    let mut last = 0;
    for at in 0..view.bytes().len() {
        let source = view.source_range(at..at + 1);
        assert!(last <= source.start && source.start < source.end && source.end <= text.len());
        last = source.start;
    }
}

fn read(pieces: &[&[u8]]) -> Vec<u8> {
    let mut reader = Canonicaliser::default();
    let (mut bytes, mut next) = (Vec::new(), 0);
    let mut emit = |piece: view::Piece<'_>| {
        assert_eq!(piece.source, next, "a stretch of the text was passed over");
        next += piece.taken;
        bytes.extend_from_slice(piece.bytes);
    };
    pieces.iter().for_each(|piece| reader.push(piece, &mut emit));
    reader.finish(&mut emit);
    assert_eq!(next, pieces.iter().map(|piece| piece.len()).sum::<usize>());
    bytes
}
