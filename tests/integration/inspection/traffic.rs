//! Recorded traffic of the providers: nothing in it is changed where nothing is to be, streamed or not.

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;

use portcullis::policy::decision::Action;
use portcullis::policy::decision::Direction;
use serde_json::Value;
use sha2::Digest;
use sha2::Sha256;

use super::Bench;
use super::Case;
use super::End;

/// How many of the recorded bodies the shipped default policy may change or refuse, in percent.
const ALARMS_PERCENT_MAX: f64 = 2.0;

struct Recorded {
    id: String,
    dialect: &'static str,
    direction: Direction,
    stream: bool,
    media: String,
    body: String,
}

fn folder() -> PathBuf {
    let named = std::env::var_os("PORTCULLIS_SHARED").map(PathBuf::from);
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    named.unwrap_or_else(beside).join("data/train/traffic")
}

/// Returns the byte-exact bodies in the dialects we speak; says so where the recordings are not at hand.
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
fn recorded() -> Vec<Recorded> {
    let Ok(files) = std::fs::read_dir(folder()) else {
        eprintln!("SKIPPED: no recorded traffic in {}", folder().display());
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    let texts = paths.iter().map(|path| std::fs::read_to_string(path).expect("a text"));
    texts.flat_map(|text| text.lines().filter_map(exact).collect::<Vec<_>>()).collect()
}

fn exact(line: &str) -> Option<Recorded> {
    let row: Value = serde_json::from_str(line).expect("JSON");
    let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let spoken = text("dialect");
    let prefixes =
        [("openai", "openai"), ("embeddings", "openai"), ("anthropic", "anthropic"), ("gemini", "gemini")];
    let known = prefixes.iter().find(|(prefix, _)| spoken.starts_with(prefix)).map(|(_, name)| *name);
    let direction = if text("direction") == "request" { Direction::Request } else { Direction::Response };
    (row["exact"] == true && row["body_encoding"] == "utf-8").then(|| Recorded {
        id: text("id"),
        dialect: known.unwrap_or("generic"),
        direction,
        stream: row["stream"] == true && direction == Direction::Response,
        media: text("content_type"),
        body: text("body"),
    })
}

/// Judges one recorded body in chunks of a size; whole bodies know no chunks.
fn judge(bench: &Bench, policy: &str, it: &Recorded, chunk: Option<usize>) -> (Action, Vec<u8>, Vec<String>) {
    let case = Case { policy, direction: it.direction, dialect: it.dialect };
    let (body, mut vault) = (it.body.as_bytes(), bench.vault());
    let format = bench.rules.dialects.get(it.dialect).expect("known").stream_format(&it.media, "/");
    if let Some(format) = format.filter(|_| it.stream) {
        let mut sizes =
            chunk.map_or_else(|| vec![1, 63, 7, 1500, 2, 512], |chunk| vec![chunk]).into_iter().cycle();
        let mut rest = body;
        let chunks = std::iter::from_fn(|| {
            let (chunk, tail) = rest.split_at(sizes.next()?.min(rest.len()));
            rest = tail;
            (!chunk.is_empty()).then_some(chunk)
        });
        let result = bench.stream(case, format, &mut vault, chunks);
        let unreadable = (result.end == End::Unreadable).then(|| "unreadable".to_owned());
        let enforced = result.seen.iter().filter(|seen| seen.1 >= Action::Redact).map(|seen| seen.0.clone());
        return (result.action, result.out, enforced.chain(unreadable).collect());
    }
    let inspection = bench.declared(case, &mut vault, body, &it.media);
    let unreadable = inspection.unreadable.map(|why| why.to_string());
    let seen = bench.seen(inspection.observations);
    let enforced = seen.into_iter().filter(|seen| seen.1 >= Action::Redact).map(|seen| seen.0);
    let out = inspection.cleared.map(|cleared| cleared.into_bytes().to_vec()).unwrap_or_default();
    (inspection.action, out, enforced.chain(unreadable).collect())
}

#[test]
fn monitored_traffic_arrives_as_it_was_sent() {
    let bench = Bench::new("");
    let digest = |bytes: &[u8]| Sha256::digest(bytes);
    let (mut bodies, mut streams) = (0, 0);
    for it in recorded() {
        let sizes = [Some(it.body.len().max(1)), Some(7), None];
        for chunk in if it.stream { &sizes[..] } else { &sizes[..1] } {
            let (action, out, _) = judge(&bench, "monitor", &it, *chunk);
            assert!(action <= Action::Monitor, "{}: {action:?}", it.id);
            assert_eq!(digest(&out), digest(it.body.as_bytes()), "{} in chunks of {chunk:?}", it.id);
        }
        bodies += usize::from(!it.stream);
        streams += usize::from(it.stream);
    }
    assert!(bodies == 0 || (bodies > 1000 && streams > 150), "{bodies} bodies, {streams} streams");
}

#[test]
#[allow(clippy::print_stdout, reason = "the alarms are what one wants to read")]
fn the_default_policy_lets_ordinary_traffic_pass() {
    let bench = Bench::new("");
    let all = recorded();
    let mut alarms: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut count = 0;
    for it in &all {
        let (action, out, why) = judge(&bench, "default", it, Some(it.body.len().max(1)));
        if action <= Action::Monitor {
            assert_eq!(out, it.body.as_bytes(), "{}", it.id);
            continue;
        }
        count += 1;
        let why = why.into_iter().collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>();
        let row =
            alarms.entry(format!("{} {:?} {}", it.direction.as_str(), action, why.join(", "))).or_default();
        row.push(it.id.clone());
    }
    for (why, ids) in &alarms {
        println!("{:4} {why}: {:?}", ids.len(), &ids[..ids.len().min(4)]);
    }
    let percent = 100.0 * count as f64 / all.len().max(1) as f64;
    println!("{count} of {} bodies, {percent:.2} %", all.len());
    assert!(percent <= ALARMS_PERCENT_MAX, "{count} of {} bodies changed or refused", all.len());
}
