//! What leaves a stream, and what is recorded, depends on its text alone, never on how it was cut.

use std::collections::BTreeMap;

use base64::Engine as _;
use portcullis::llm::stream::StreamFormat;
use portcullis::scan::detector::Detector;
use portcullis::scan::proof;
use serde_json::Value;
use serde_json::json;

use super::Bench;
use super::Case;
use super::End;
use super::Seen;
use super::carrier::CARRIERS;
use super::carrier::Carrier;
use super::policy_of_all;
use super::valid;

/// How many choices one stream has in which each is cut elsewhere.
const CHOICES: usize = 200;
/// Of the places at which an event may end, one in so many is tried for each detector.
const CUT_STEP: usize = 12;
/// Detectors of every kind of mask, check and width, and the text before and after a value.
const REPRESENTATIVES: [(&str, &str, &str); 12] = [
    ("github_token", "k=", "!"),
    ("aws_access_key_id", "", " x"),
    ("payment_card", "c ", "."),
    ("iban", "", ", "),
    ("us_ssn", "SSN ", ""),
    ("email_address", "at ", ";"),
    ("slack_bot_token", "", "\n"),
    ("google_api_key", "g ", "\u{e9}"),
    ("jwt", "", ""),
    ("npm_token", "\u{1f512}", " "),
    ("stripe_live_key", "", ")"),
    ("ip_address_v4", "", " "),
];

/// Returns the first example of a detector with a valid value in it, between words.
fn example(detector: &Detector) -> String {
    let mut filled = detector.finds[0].clone();
    if filled.contains(proof::PLACEHOLDER) {
        let value = proof::valid_value(detector, 1).expect("a value");
        filled = filled.replace(proof::PLACEHOLDER, std::str::from_utf8(&value).expect("UTF-8"));
    }
    format!("Here: {filled}\nThat was it.")
}

fn boundaries(text: &str) -> Vec<usize> {
    (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect()
}

/// Returns the text that left and the findings, for pieces of a text.
fn run(bench: &Bench, policy: &str, carrier: &Carrier, pieces: &[&str]) -> (String, Vec<Seen>) {
    let stream = carrier.stream(pieces);
    let case = Case::response(policy, carrier.dialect);
    let result = bench.stream(case, carrier.format, &mut bench.vault(), [stream.as_bytes()]);
    assert_eq!(result.end, End::Finished, "{}", carrier.name);
    (carrier.read(&result.out), of_detectors(bench, result.seen))
}

/// Runs one text as many choices of one chat stream, each cut into pieces of its own, and returns what left of each,
/// and all findings.
fn run_choices(bench: &Bench, policy: &str, ways: &[Vec<&str>]) -> (Vec<String>, Vec<Seen>) {
    let steps = ways.iter().map(Vec::len).max().unwrap_or_default();
    let mut stream = String::new();
    for step in 0..steps {
        let delta = |(index, way): (usize, &Vec<&str>)| {
            Some(json!({ "index": index, "delta": { "content": way.get(step)? } }))
        };
        let choices: Vec<Value> = ways.iter().enumerate().filter_map(delta).collect();
        stream += &format!("data: {}\n\n", json!({ "choices": choices }));
    }
    stream += "data: [DONE]\n\n";
    let case = Case::response(policy, "openai");
    let result = bench.stream(case, StreamFormat::Sse, &mut bench.vault(), [stream.as_bytes()]);
    assert_eq!(result.end, End::Finished);
    let mut left: BTreeMap<u64, String> = BTreeMap::new();
    let out = String::from_utf8(result.out).expect("UTF-8");
    for data in out.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]") {
        let event: Value = serde_json::from_str(data).expect("JSON");
        for choice in event["choices"].as_array().expect("choices") {
            let text = left.entry(choice["index"].as_u64().expect("an index")).or_default();
            text.push_str(choice["delta"]["content"].as_str().expect("content"));
        }
    }
    (left.into_values().collect(), of_detectors(bench, result.seen))
}

/// Leaves out what rules found: they speak once for a whole stream, not once for each of its texts.
fn of_detectors(bench: &Bench, mut seen: Vec<Seen>) -> Vec<Seen> {
    seen.retain(|seen| bench.rules.scanner.find(&seen.0).is_some());
    seen
}

/// Compares every way to cut a text with the uncut one; returns what differs.
fn compare(
    bench: &Bench,
    policy: &str,
    text: &str,
    ways: &[Vec<&str>],
    whole: &(String, Vec<Seen>),
) -> Option<String> {
    for ways in ways.chunks(CHOICES) {
        let (left, seen) = run_choices(bench, policy, ways);
        if let Some(at) = left.iter().position(|left| *left != whole.0) {
            return Some(format!("{:?} of {text:?}: {:?} left, not {:?}", ways[at], left[at], whole.0));
        }
        let mut expected: Vec<Seen> = ways.iter().flat_map(|_| whole.1.clone()).collect();
        expected.sort_by(|a, b| (a.3, &a.0).cmp(&(b.3, &b.0)));
        if seen != expected {
            return Some(format!("{text:?}: {seen:?} found, not {expected:?}"));
        }
    }
    None
}

/// Returns a policy for each detector that redacts what it finds and looks for nothing else.
fn policies_of_one(names: &[String]) -> String {
    let one = |name: &String| {
        let policy = policy_of_all(&format!("only_{name}"), "off", "");
        format!("{policy}[policies.only_{name}.detectors.{name}]\nmode = \"redact\"\nthreshold = \"low\"\n")
    };
    names.iter().map(one).collect()
}

#[test]
fn every_detector_sees_the_same_at_every_cut() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let (mut cuts, mut faults) = (0, Vec::new());
    for (at, detector) in bench.rules.scanner.detectors().iter().enumerate() {
        let text = example(detector);
        let whole = run(&bench, "all", &CARRIERS[0], &[&text]);
        if !whole.1.iter().any(|seen| seen.0 == detector.name) || whole.0 == text {
            faults.push(format!("{}: not masked in {text:?}", detector.name));
        }
        // Every place is cut in a lane alone, in `tests/plugins.rs`; here one in so many, spread detector by detector.
        let places = boundaries(&text).into_iter().skip(at % CUT_STEP).step_by(CUT_STEP);
        let ways: Vec<Vec<&str>> = places.map(|cut| vec![&text[..cut], &text[cut..]]).collect();
        cuts += ways.len();
        let fault = compare(&bench, "all", &text, &ways, &whole);
        faults.extend(fault.map(|fault| format!("{}: {fault}", detector.name)));
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert!(cuts > 1500, "only {cuts} ways");
}

#[test]
fn a_short_text_is_seen_the_same_at_every_pair_of_cuts() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let mut faults = Vec::new();
    for (name, before, after) in REPRESENTATIVES {
        let text = format!("{before}{}{after}", valid(&bench, name, 2));
        let whole = run(&bench, "all", &CARRIERS[0], &[&text]);
        assert!(whole.1.iter().any(|seen| seen.0 == name), "{name}: not found in {text:?}");
        let places = boundaries(&text);
        let step = (places.len() / 30).max(1);
        let pair = |from: usize, to: usize| vec![&text[..from], &text[from..to], &text[to..]];
        let ways: Vec<Vec<&str>> = places
            .iter()
            .step_by(step)
            .flat_map(|from| {
                places.iter().step_by(step).filter(move |to| *to > from).map(move |to| pair(*from, *to))
            })
            .collect();
        faults.extend(compare(&bench, "all", &text, &ways, &whole).map(|fault| format!("{name}: {fault}")));
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_place_that_comes_in_pieces_is_seen_the_same_at_every_cut() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let token = valid(&bench, "github_token", 3);
    let card = valid(&bench, "payment_card", 3);
    let text = format!("say \"hi\" {token}, \u{1f600} card {card}\n end");
    let mut faults = Vec::new();
    for carrier in &CARRIERS {
        let whole = run(&bench, "all", carrier, &[&text]);
        if whole.0.contains(&token) || whole.0.contains(&card) || !whole.0.contains("[REDACTED:github_token]")
        {
            faults.push(format!("{}: uncut: {:?}", carrier.name, whole));
            continue;
        }
        let places = boundaries(&text);
        let single: Vec<&str> = places.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect();
        let mut ways: Vec<Vec<&str>> = places.iter().map(|cut| vec![&text[..*cut], &text[*cut..]]).collect();
        ways.push(single);
        if let Some(way) = ways.iter().find(|way| run(&bench, "all", carrier, way) != whole) {
            faults.push(format!(
                "{}: {way:?}: {:?} is not {whole:?}",
                carrier.name,
                run(&bench, "all", carrier, way)
            ));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn chunks_of_the_transport_do_not_matter() {
    let bench = Bench::new(&policies_of_one(&["github_token".to_owned()]));
    let text = format!("key {} end", valid(&bench, "github_token", 3));
    for carrier in &CARRIERS {
        let (head, tail) = text.split_at(20);
        let stream = carrier.stream(&[head, tail]);
        let case = Case::response("only_github_token", carrier.dialect);
        let run = |size: usize| {
            let result =
                bench.stream(case, carrier.format, &mut bench.vault(), stream.as_bytes().chunks(size));
            (result.end, result.out, result.seen)
        };
        let whole = run(stream.len());
        assert_eq!(whole.0, End::Finished, "{}", carrier.name);
        for size in [1, 7] {
            assert_eq!(run(size), whole, "{} in chunks of {size}", carrier.name);
        }
        for cut in 0..=stream.len() {
            let (head, tail) = stream.as_bytes().split_at(cut);
            let result = bench.stream(case, carrier.format, &mut bench.vault(), [head, tail]);
            assert_eq!((result.end, result.out, result.seen), whole, "{} cut at {cut}", carrier.name);
        }
    }
}

#[test]
fn a_key_of_100_kilobytes_goes_whole() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    // A sound DER length before bytes of no meaning: what a real key of that size looks like from outside.
    let noise = (0_u32..75_000).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8);
    let der: Vec<u8> = [0x30, 0x83, 0x01, 0x24, 0xf8].into_iter().chain(noise).collect();
    let body = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> =
        body.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).expect("ASCII")).collect();
    let dashes = "-----";
    let key = format!(
        "{dashes}BEGIN RSA PRIVATE KEY{dashes}\n{}\n{dashes}END RSA PRIVATE KEY{dashes}",
        lines.join("\n")
    );
    assert!(key.len() > 100_000);
    let text = format!("Here it is:\n{key}\nKeep it.");
    let carrier = &CARRIERS[0];
    let whole = run(&bench, "all", carrier, &[&text]);
    assert_eq!(whole.0, "Here it is:\n[REDACTED:private_key]\nKeep it.");
    let in_pieces = |size: usize| -> Vec<&str> {
        text.as_bytes().chunks(size).map(|piece| std::str::from_utf8(piece).expect("ASCII")).collect()
    };
    for size in [4, 64, 33_333] {
        assert_eq!(run(&bench, "all", carrier, &in_pieces(size)).0, whole.0, "pieces of {size}");
    }
    // Without its end it is no less a key.
    for size in [64, 33_333] {
        let mut pieces = in_pieces(size);
        pieces.truncate(60_000 / size);
        assert_eq!(run(&bench, "all", carrier, &pieces).0, "Here it is:\n[REDACTED:private_key_unproven]");
    }
    // Where their events outgrow what a stream may hold: refused, and nothing of the key leaves.
    let bench = Bench::new(&format!(
        "[limits]\nstream_hold_bytes_max = 1048576\n{}",
        policy_of_all("all", "redact", "")
    ));
    let stream = carrier.stream(&in_pieces(4));
    let case = Case::response("all", carrier.dialect);
    let result = bench.stream(case, carrier.format, &mut bench.vault(), stream.as_bytes().chunks(4096));
    assert_eq!(result.end, End::Unreadable);
    assert!("Here it is:\n".starts_with(&carrier.read(&result.out)));
}
