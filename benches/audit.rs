//! How fast the audit log answers and takes in: first pages of queries over many entries, and the cost of an event.
//!
//! `cargo bench --bench audit -- [ENTRIES] [FOLDER]` builds a log of so many entries (ten million, about seven
//! gigabytes) where none is in the folder yet, and asks for the first page under every combination of filters, some of
//! which match everything, little, or nothing: half of the answers take no longer than p50, all but one in a hundred no
//! longer than p99. The goal is 50 ms for each p99; the program fails where one is above it. Where no folder is named
//! the log lies below `target`, for as long as it is asked: `/tmp` may lie in memory.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use portcullis::clock::SystemClock;
use portcullis::govern::audit;
use portcullis::govern::audit::AuditConfig;
use portcullis::govern::audit::AuditEvent;
use portcullis::govern::audit::AuditFinding;
use portcullis::govern::audit::AuditLog;
use portcullis::govern::audit::Durability;
use portcullis::govern::audit::Query;
use portcullis::govern::audit::RecordError;
use portcullis::govern::audit::Recorder;
use portcullis::scan::threat::Category;
use portcullis::scan::threat::Severity;
use portcullis::store::open_sled;
use portcullis::telemetry::metrics::Metrics;
use tokio::runtime::Runtime;

const ENTRIES: usize = 10_000_000;
const GOAL: Duration = Duration::from_millis(50);
const ROUNDS: usize = 40;
const ROUTES: [&str; 3] = ["openai", "anthropic", "mcp"];
const DETECTORS: [&str; 5] = ["iban", "ssn", "github_token", "prompt_injection", "credit_card"];
const FILTERS: [&str; 10] = [
    "category",
    "severity",
    "event_type",
    "entity",
    "request_id",
    "from",
    "action",
    "detector",
    "route",
    "policy",
];
/// How many callers there are; each has about as many entries as the others.
const CALLERS: usize = 10_000;
/// One entry in so many has a finding.
const FINDING_EVERY: usize = 20;

fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let entries = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(ENTRIES);
    let own = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let folder = arguments.next().map_or_else(|| own.path().to_owned(), PathBuf::from);
    let runtime = Runtime::new().expect("a runtime");
    let store = open_sled(&folder.join("store")).expect("a store");
    let config = AuditConfig {
        durability: Durability::Buffer,
        retention_age: None,
        ..AuditConfig::at(folder.join("audit"))
    };
    let metrics = Arc::new(Metrics::new("0", "0"));
    let opened = audit::open(config, store, Arc::new(SystemClock), metrics).expect("a log");
    runtime.spawn(opened.writer.run(std::future::pending()));
    let there = runtime.block_on(opened.log.status()).expect("a status").entry_count as usize;
    fill(&runtime, &opened.recorder, &opened.log, there, entries);
    let slowest = ask(&runtime, &opened.log, entries);
    say(&format!("slowest p99 of a first page: {:.1} ms; the goal is {} ms", ms(slowest), GOAL.as_millis()));
    std::process::ExitCode::from(u8::from(slowest > GOAL))
}

/// Records what is missing, and says what an event costs whoever records it.
fn fill(runtime: &Runtime, recorder: &Recorder, log: &AuditLog, there: usize, wanted: usize) {
    let (began, mut recording) = (Instant::now(), Duration::ZERO);
    for number in there..wanted {
        let mut event = event(number);
        loop {
            let (copy, one) = (event.clone(), Instant::now());
            match recorder.record_soon(event) {
                Ok(()) => {
                    recording += one.elapsed();
                    break;
                }
                Err(RecordError::QueueFull) => std::thread::sleep(Duration::from_millis(1)),
                Err(error) => panic!("{error}"),
            }
            event = copy;
        }
    }
    let count = wanted.saturating_sub(there).max(1);
    runtime.block_on(recorder.record_safely(event(wanted))).expect("the log is written");
    say(&format!(
        "{count} entries in {:.1} s; one costs {:.0} ns to record",
        began.elapsed().as_secs_f64(),
        recording.as_nanos() as f64 / count as f64
    ));
    let began = Instant::now();
    runtime.block_on(log.query(Query::default())).expect("an answer");
    say(&format!("indexed in {:.1} s", began.elapsed().as_secs_f64()));
}

fn event(number: usize) -> AuditEvent {
    let has_finding = number.is_multiple_of(FINDING_EVERY);
    // Spread without order, as callers come.
    let caller = format!("caller_{:024x}", number.wrapping_mul(7919) % CALLERS);
    let finding = |nth: usize| AuditFinding {
        detector: DETECTORS[(number / FINDING_EVERY + nth) % DETECTORS.len()].into(),
        category: Category::Pii,
        severity: Severity::High,
        confidence: 90,
        action: "redact".into(),
        redacted: "12…89".into(),
    };
    AuditEvent {
        event_type: if number.is_multiple_of(1000) { "key_created".into() } else { "exchange".into() },
        category: has_finding.then(|| Category::ALL[number / FINDING_EVERY % Category::ALL.len()]),
        severity: has_finding.then(|| Severity::ALL[number / FINDING_EVERY / 7 % Severity::ALL.len()]),
        action: if has_finding {
            ["redact", "block", "monitor"][number / FINDING_EVERY % 3]
        } else {
            "allow"
        }
        .into(),
        actor: Some(caller.clone()),
        entity: Some(caller),
        route: Some(ROUTES[number / 11 % ROUTES.len()].into()),
        request_id: Some(format!("01J{number:023}")),
        message: "status 200".into(),
        policy: Some(if (number / 13).is_multiple_of(10) { "strict" } else { "default" }.into()),
        findings: (0..if has_finding { 1 + number / FINDING_EVERY % 2 } else { 0 }).map(finding).collect(),
        revision: Some(1),
        latency_us: Some(1500),
        ..AuditEvent::default()
    }
}

/// Asks under every combination of filters; returns the slowest p99.
fn ask(runtime: &Runtime, log: &AuditLog, entries: usize) -> Duration {
    let middle = format!("01J{:023}", entries / 2);
    let mut slowest = Duration::ZERO;
    say("  p50 ms   p99 ms");
    for combination in 0..1024u32 {
        let has = |bit: u32| combination >> bit & 1 == 1;
        let query = Query {
            category: has(0).then_some(Category::Pii),
            severity: has(1).then_some(Severity::High),
            event_type: has(2).then(|| "exchange".to_owned()),
            entity: has(3).then(|| format!("caller_{:024x}", 7)),
            request_id: has(4).then(|| middle.clone()),
            action: has(6).then(|| "redact".to_owned()),
            detector: has(7).then(|| "ssn".to_owned()),
            route: has(8).then(|| "mcp".to_owned()),
            policy: has(9).then(|| "strict".to_owned()),
            from: has(5).then(|| "2020-01-01T00:00:00Z".parse().expect("a moment")),
            ..Query::default()
        };
        let mut times: Vec<Duration> = Vec::with_capacity(ROUNDS);
        let mut total = 0;
        for _ in 0..ROUNDS {
            let began = Instant::now();
            total = runtime.block_on(log.query(query.clone())).expect("an answer").total;
            times.push(began.elapsed());
        }
        times.sort();
        let (p50, p99) = (times[ROUNDS / 2 - 1], times[ROUNDS * 99 / 100 - 1]);
        slowest = slowest.max(p99);
        let asked: Vec<&str> =
            (0..).zip(FILTERS).filter(|(bit, _)| has(*bit)).map(|(_, name)| name).collect();
        say(&format!("{:>8.2} {:>8.2}  {total:>10} match  {}", ms(p50), ms(p99), asked.join(" ")));
    }
    slowest
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}
