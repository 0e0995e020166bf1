//! Policies that change under load: nothing fails, and every answer was decided by one revision.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use portcullis::store::Batch;
use portcullis::store::open_sled;
use serde_json::Value;
use serde_json::json;

use crate::framing::POLICY;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::upstream::Step;
use crate::upstream::Upstream;
use crate::upstream::chunk;
use crate::upstream::chunked_head;
use crate::usage::admin;
use crate::wire::Client;
use crate::wire::Response;
use crate::wire::exchange;
use crate::wire::post;

const RELOADS: u64 = 30;
/// Ten reloads a second, as far as the machine lets them be done.
const PACE: Duration = Duration::from_millis(100);
const CLIENTS: usize = 16;
const PAUSE: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(20);
const ADDRESS: &str = "maria.lopez@northwind-traders.de";

/// What the policy does about an address, in requests and in responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Watches,
    Acts,
}

impl Rule {
    /// Even revisions act, odd ones watch: so a revision's number says what it decides.
    fn of(revision: u64) -> Self {
        if revision.is_multiple_of(2) { Self::Acts } else { Self::Watches }
    }
}

#[test]
fn reloads_under_load_fail_nothing_and_mix_nothing() {
    let answers = Upstream::start(vec![Step::Send(answer())]);
    let events = Upstream::start(stream());
    let config = |revision| config(&answers, &events, Rule::of(revision));
    let gateway = Gateway::start(&config(1));
    let address = gateway.proxy;
    assert_eq!(revision_in_force(address), 1);

    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || use_gateway(address, number, &stop))
        })
        .collect();

    let mut waits = Vec::new();
    for revision in 2..=RELOADS {
        let begun = Instant::now();
        gateway.rewrite(&config(revision));
        gateway.signal("HUP");
        wait_for_revision(address, revision);
        waits.push(begun.elapsed());
        thread::sleep(PACE.saturating_sub(begun.elapsed()));
        if revision == RELOADS / 2 {
            a_faulty_file_changes_nothing(&gateway, revision);
        }
    }
    // Without a signal, the watch sees it too.
    let begun = Instant::now();
    gateway.rewrite(&config(RELOADS + 1));
    wait_for_revision(address, RELOADS + 1);
    let by_watch = begun.elapsed();

    stop.store(true, Ordering::Relaxed);
    let mut seen = BTreeMap::<u64, usize>::new();
    for client in clients {
        for (revision, count) in client.join().expect("no client met a failure") {
            *seen.entry(revision).or_default() += count;
        }
    }
    waits.sort();
    let (count, median, worst) =
        (seen.values().sum::<usize>(), waits[waits.len() / 2], waits[waits.len() - 1]);
    // A figure for whoever runs the test by itself; nothing is asserted on a shared machine.
    #[allow(clippy::print_stderr)]
    {
        eprintln!(
            "{count} exchanges under {} revisions; in force after {median:?} (median), {worst:?} (worst), \
             {by_watch:?} (without a signal)",
            seen.len()
        );
    }
    assert!(seen.len() as u64 > RELOADS / 2, "the load met only the revisions {:?}", seen.keys());
}

/// Rewrites the file wrongly: the old rules stay, it is counted, and every fault is told.
fn a_faulty_file_changes_nothing(gateway: &Gateway, revision: u64) {
    assert_eq!(gateway.metric("portcullis_config_last_reload_successful"), "1");
    gateway.rewrite("[policies.default]\nfail_mode = \"ajar\"\n\n[limtis]\nscan_ms = 5\n");
    gateway.signal("HUP");
    let deadline = Instant::now() + PATIENCE;
    while gateway.metric("portcullis_config_last_reload_successful") != "0" {
        assert!(Instant::now() < deadline, "a faulty file was not noticed");
    }
    assert_eq!(revision_in_force(gateway.proxy), revision, "a faulty file changed something");
    let log = gateway.log();
    for told in ["gateway.toml:2", "closed, open", "gateway.toml:4", "limtis"] {
        assert!(log.contains(told), "the log does not say {told}");
    }
}

/// Sends requests and reads streams on one connection, and counts the exchanges of each revision.
fn use_gateway(address: SocketAddr, number: usize, stop: &AtomicBool) -> BTreeMap<u64, usize> {
    static ROUND: AtomicU64 = AtomicU64::new(0);
    let mut client = Client::connect(address);
    let mut seen = BTreeMap::new();
    let mut last = 0;
    while !stop.load(Ordering::Relaxed) {
        let streams = (ROUND.fetch_add(1, Ordering::Relaxed) + number as u64).is_multiple_of(2);
        let revision = if streams { read_stream(&mut client) } else { send_address(&mut client) };
        assert!(revision >= last, "revision {revision} after {last} on one connection");
        last = revision;
        *seen.entry(revision).or_insert(0) += 1;
        // The reloads are what is tested, not how much an unoptimised build bears.
        thread::sleep(PAUSE);
    }
    seen
}

fn send_address(client: &mut Client) -> u64 {
    client.send(&post("/v1/chat/completions", "", &chat(ADDRESS, false)));
    let response = client.response().expect("an answer");
    let (revision, expected) = (revision(&response), Rule::of(revision(&response)));
    let status = if expected == Rule::Acts { 403 } else { 200 };
    assert_eq!(response.status, status, "{expected:?}: {}", response.text());
    revision
}

fn read_stream(client: &mut Client) -> u64 {
    client.send(&post("/streams/v1/chat/completions", "", &chat("hello", true)));
    let response = client.response().expect("a stream to its end");
    let (revision, text) = (revision(&response), response.text());
    assert_eq!(response.status, 200, "{text}");
    assert!(text.contains("[DONE]"), "the stream was cut: {text}");
    let hidden = text.contains("[REDACTED:email_address]");
    assert_eq!(hidden, Rule::of(revision) == Rule::Acts, "revision {revision}: {text}");
    revision
}

fn wait_for_revision(address: SocketAddr, revision: u64) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = revision_in_force(address);
        if found == revision {
            return;
        }
        assert!(found < revision, "revision {found} was made by nobody");
        assert!(Instant::now() < deadline, "revision {revision} is not in force");
    }
}

fn revision_in_force(address: SocketAddr) -> u64 {
    revision(&exchange(address, &post("/v1/chat/completions", "", &chat("hello", false))))
}

/// Returns the revision that an answer names; there is exactly one.
fn revision(response: &Response) -> u64 {
    let named: Vec<&str> = response
        .headers
        .iter()
        .filter(|(name, _)| name == "x-portcullis-policy")
        .map(|(_, value)| value.as_str())
        .collect();
    let [one] = named.as_slice() else { panic!("{named:?} in {} {}", response.status, response.text()) };
    one.strip_prefix("default@").and_then(|number| number.parse().ok()).expect("policy@revision")
}

fn chat(text: &str, stream: bool) -> String {
    format!(
        r#"{{"model":"m","stream":{stream},"messages":[{{"role":"user","content":"write to {text} today"}}]}}"#
    )
}

fn answer() -> Vec<u8> {
    let body = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"done"}}]}"#;
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// A stream that says the address in two events.
fn stream() -> Vec<Step> {
    let (head, tail) = ADDRESS.split_at(7);
    let event = |text: &str| {
        chunk(
            format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
                .as_bytes(),
        )
    };
    let pieces = [chunked_head("text/event-stream"), event("ask "), event(head), event(tail), event(" now")];
    let end = [chunk(b"data: [DONE]\n\n"), chunk(b"")];
    pieces.into_iter().chain(end).map(Step::Send).collect()
}

fn config(answers: &Upstream, events: &Upstream, rule: Rule) -> String {
    let (request, response) = match rule {
        Rule::Watches => ("monitor", "monitor"),
        Rule::Acts => ("block", "redact"),
    };
    let no_packs = Path::new("no-packs").display();
    format!(
        "[telemetry]\npublic_metrics = true\n\n[proxy]\nmax_requests_per_connection = 1000000\n\n\
         [plugins]\npath = \"{no_packs}\"\n\n\
         [[routes]]\nname = \"answers\"\npath_prefix = \"/\"\nupstream = \"http://{}\"\ndialect = \"openai\"\n\n\
         [[routes]]\nname = \"streams\"\npath_prefix = \"/streams\"\nstrip_prefix = true\n\
         upstream = \"http://{}\"\ndialect = \"openai\"\n\n\
         {UNLIMITED}\n[policies.default.detectors.email_address]\nrequest = \"{request}\"\nresponse = \"{response}\"\n\
         threshold = \"low\"\n",
        answers.address, events.address
    )
}

#[test]
fn limits_that_were_set_through_the_api_outlive_the_process() {
    let upstream = Upstream::answering("application/json", "{}");
    let mut gateway = Gateway::in_front_of(upstream.address, POLICY);
    let large = post("/v1/embeddings", "", &format!("\"{}\"", "a".repeat(1_500_000)));
    assert_eq!(exchange(gateway.proxy, &large).status, 200);
    let tiers = json!({ "community": { "requests_per_minute": 5000, "burst": 5000 } });
    let limits = json!({ "limits": { "tiers": tiers, "buffered_bytes_total": 1 << 20 } });
    let (status, told) = admin(&gateway, "PUT", "/api/v1/config", &limits);
    assert_eq!(status, 200, "{told}");
    for _ in 0..2 {
        let answer = exchange(gateway.proxy, &post("/v1/embeddings", "", "{}"));
        assert_eq!((answer.status, answer.header("x-ratelimit-limit")), (200, Some("5000")));
        assert_eq!(exchange(gateway.proxy, &large).status, 503, "there is no room for it");
        gateway.end_and_restart();
    }
}

#[test]
fn what_was_changed_over_the_sample_provider_outlives_the_process() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::write(directory.path().join("gateway.toml"), UNLIMITED).expect("it is writable");
    let arguments = ["--with-sample-provider", "--config", "gateway.toml"].map(str::to_owned);
    let mut gateway = Gateway::launched(directory, arguments.to_vec());
    let (status, told) = admin(&gateway, "PUT", "/api/v1/config", &json!({ "limits": { "scan_ms": 1999 } }));
    assert_eq!(status, 200, "{told}");
    let ask = post(
        "/v1/chat/completions",
        "",
        r#"{"model":"sample","messages":[{"role":"user","content":"say: hello"}]}"#,
    );
    for _ in 0..2 {
        let answer = exchange(gateway.proxy, &ask);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let (_, config) = admin(&gateway, "GET", "/api/v1/config", &json!({}));
        assert_eq!((&config["limits"]["scan_ms"], &config["revision"]), (&json!(1999), &json!(2)));
        assert_eq!(config["routes"][0]["upstream"], "https://api.openai.com");
        gateway.crash_and_restart();
    }
}

/// A policy was made over the network under a release that knew fewer limits, and kept its revisions otherwise.
#[test]
fn a_policy_outlives_an_upgrade_and_what_was_before_it_comes_back() {
    const REVISIONS: &str = "policy.revisions";
    let upstream = Upstream::answering("application/json", "{}");
    let mut gateway = Gateway::in_front_of(upstream.address, POLICY);
    let mine = json!({ "id": "mine", "categories": { "secrets": { "mode": "block" } } });
    assert_eq!(admin(&gateway, "POST", "/api/v1/policies", &mine).0, 201);
    gateway.signal("TERM");
    gateway.wait_for_end();
    {
        let store = open_sled(&gateway.directory().join("state/store")).expect("the store");
        let mut batch = Batch::default();
        for key in [1, 2].map(u64::to_be_bytes) {
            let stored = store.get(REVISIONS, &key).expect("a store").expect("a revision");
            let mut stored: Value = serde_json::from_slice(&stored).expect("a record");
            let record = stored["record"].as_object_mut().expect("a table");
            record.remove("own_etag").expect("what files said");
            record["file_etag"] = json!("\"of other defaults\"");
            let limits = record["rules"]["limits"].as_object_mut().expect("limits");
            limits.retain(|key, _| !key.starts_with("document_"));
            batch.put(REVISIONS, key.to_vec(), stored.to_string().into_bytes());
        }
        store.commit_durable(&batch).expect("it is kept");
    }
    gateway.crash_and_restart();
    gateway.wait_for_log("if they changed since, change them once more", 1);
    for revision in [1, 2] {
        assert_eq!(admin(&gateway, "GET", "/api/v1/policies/mine", &json!({})).0, 200);
        let back = json!({ "revision": revision });
        let (status, told) = admin(&gateway, "POST", "/api/v1/config/rollback", &back);
        assert_eq!((status, &told["policies"]["mine"].is_null()), (200, &(revision == 1)), "{told}");
        let again = json!({ "revision": 2 });
        assert_eq!(admin(&gateway, "POST", "/api/v1/config/rollback", &again).0, 200);
    }
}
