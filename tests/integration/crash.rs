//! What a crash and a full disk leave behind: nothing acknowledged is lost, and the next start says what it found.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use portcullis::clock::SystemClock;
use portcullis::govern::audit;
use portcullis::govern::audit::AuditConfig;
use portcullis::govern::audit::PAGE_ENTRIES_MAX;
use portcullis::govern::audit::Query;
use portcullis::store::Store;
use portcullis::telemetry::metrics::Metrics;
use serde_json::Value;

use crate::answers::handshake;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::gateway::program;
use crate::upstream::Step;
use crate::upstream::Upstream;
use crate::wire::Client;
use crate::wire::Response;
use crate::wire::exchange;
use crate::wire::post;

const ROUNDS: usize = 4;
const CLIENTS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(20);
const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;

/// With `audit.durability = "wait"` no answer is complete before its event is on the disk: so every answer that a
/// caller has is in the log, whenever the process is killed.
#[test]
fn a_kill_at_any_moment_loses_nothing_that_was_acknowledged() {
    let upstream = Upstream::start(vec![Step::Send(answer())]);
    let mut gateway = Gateway::start(&config(&upstream, "durability = \"wait\""));
    let mut acknowledged = BTreeSet::new();
    for round in 0..ROUNDS {
        let count = Arc::new(AtomicUsize::new(0));
        let address = gateway.proxy;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let count = Arc::clone(&count);
                thread::spawn(move || use_until_it_dies(address, &format!("r{round}c{number}"), &count))
            })
            .collect();
        // Killed after another number of answers each time, in the midst of the others.
        let deadline = Instant::now() + PATIENCE;
        while count.load(Ordering::Relaxed) < 7 + 13 * round {
            assert!(Instant::now() < deadline, "the gateway does not answer");
            thread::yield_now();
        }
        gateway.crash_and_restart();
        for client in clients {
            acknowledged.extend(client.join().expect("a client ends when the gateway does"));
        }
    }
    let log = gateway.log();
    let mended = log.lines().filter(|line| line.contains("torn end")).count();
    assert!(mended <= ROUNDS);
    gateway.signal("KILL");
    let recorded = recorded(&gateway.directory().join("state/audit"));
    let lost: Vec<_> = acknowledged.difference(&recorded).collect();
    assert!(
        lost.is_empty(),
        "{} of {} acknowledged exchanges are lost: {lost:?}",
        lost.len(),
        acknowledged.len()
    );
    assert!(acknowledged.len() > ROUNDS * CLIENTS, "only {} exchanges", acknowledged.len());
}

/// Sends requests on one connection until it breaks; returns the request ids that were acknowledged.
pub fn use_until_it_dies(address: SocketAddr, name: &str, count: &AtomicUsize) -> Vec<String> {
    let mut client = Client::connect(address);
    let mut answered = Vec::new();
    loop {
        let id = format!("{name}n{:06}", answered.len());
        client.send(&post("/v1/chat/completions", &format!("x-request-id: {id}\r\n"), BODY));
        match client.response() {
            Ok(response) => {
                assert_eq!(response.status, 200, "{}", response.text());
                assert_eq!(response.header("x-request-id"), Some(id.as_str()));
                answered.push(id);
                count.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => return answered,
        }
    }
}

/// Opens the log as the next process would, verifies its chain, and returns all request ids in it.
pub fn recorded(folder: &Path) -> BTreeSet<String> {
    let config = AuditConfig { reserve_bytes: 0, low_water_bytes: 0, ..AuditConfig::at(folder.to_owned()) };
    let metrics = Arc::new(Metrics::new("0", "0"));
    let deadline = Instant::now() + PATIENCE;
    let opened = loop {
        match audit::open(config.clone(), Store::in_memory(), Arc::new(SystemClock), Arc::clone(&metrics)) {
            Ok(opened) => break opened,
            // The killed process may not have let go yet.
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        thread::yield_now();
    };
    let entries = opened.log.verify().expect("the chain is whole").entries();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut ids = BTreeSet::new();
    let mut cursor = None;
    loop {
        let query = Query { limit: PAGE_ENTRIES_MAX, cursor, ..Query::default() };
        let page = runtime.block_on(opened.log.query(query)).expect("the log can be read");
        assert_eq!(page.total, entries as u64, "the index and the chain differ");
        ids.extend(page.entries.into_iter().filter_map(|entry| entry.event.request_id));
        cursor = page.cursor;
        if cursor.is_none() {
            return ids;
        }
    }
}

#[test]
fn a_state_directory_in_use_is_refused_in_words() {
    let upstream = Upstream::start(vec![Step::Send(answer())]);
    let gateway = Gateway::start(&config(&upstream, ""));
    let said = refused_start(&gateway);
    assert!(said.contains("in use by another process"), "{said}");
    assert_eq!(exchange(gateway.proxy, &post("/v1/chat/completions", "", BODY)).status, 200);
}

/// A disk of 24 MiB is filled up, and emptied again.
#[test]
fn a_full_disk_degrades_health_refuses_traffic_and_heals_by_itself() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let Some(disk) = SmallDisk::mount(&directory.path().join("state")) else {
        // Only root may mount; the same walk with a pretended disk is a unit test of the audit log.
        return;
    };
    let upstream = Upstream::start(vec![Step::Send(answer())]);
    let settings =
        "durability = \"wait\"\nsegment_bytes = 65536\nreserve_bytes = 1048576\nlow_water_bytes = 4194304";
    let file = directory.path().join("gateway.toml");
    fs::write(&file, config(&upstream, settings)).expect("the directory is writable");
    let mut gateway = Gateway::launched(directory, vec!["--config".to_owned(), file.display().to_string()]);
    // Unmounted before the gateway's directory is removed.
    let disk = disk;
    assert_eq!((send(&gateway).status, health(&gateway)), (200, (200, "healthy".to_owned())));
    assert_eq!(hold(&gateway, "before"), 201);

    // What the gateway gives up of its reserve holds thousands of entries: it is filled, too.
    let refuses = || {
        disk.fill();
        send(&gateway).status == 503
    };
    wait(refuses, "traffic without a record");
    let refused = send(&gateway);
    assert!(refused.json()["error"].is_object(), "not in the caller's shape: {}", refused.text());
    assert_eq!(
        exchange(gateway.proxy, &handshake("/v1/realtime")).status,
        503,
        "neither are connections carried"
    );
    assert_eq!(health(&gateway), (503, "degraded".to_owned()));
    assert!(ask(&gateway, "/health").json()["reasons"]["persistence"].is_string());
    assert_eq!(hold(&gateway, "meanwhile"), 503);
    let holds = ask(&gateway, "/api/v1/legal-holds");
    assert_eq!(holds.json()[0]["entity_id"], "before", "what is there is read: {}", holds.text());

    disk.empty();
    // No traffic is needed for that: a balancer sends none to a gateway that is not healthy.
    wait(|| health(&gateway) == (200, "healthy".to_owned()), "health stays degraded");
    assert_eq!(send(&gateway).status, 200);
    assert_eq!(hold(&gateway, "after"), 201, "the store is written to again");
    gateway.end_and_restart();
    let holds = ask(&gateway, "/api/v1/legal-holds").json();
    let entities = holds.as_array().expect("holds").iter().map(|hold| hold["entity_id"].clone());
    assert_eq!(entities.collect::<Vec<_>>(), ["before", "after"]);
}

/// The process may end while the disk is full, by itself or not, and be started again before there is room.
#[test]
fn a_start_on_a_full_disk_is_refused_and_loses_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let Some(disk) = SmallDisk::mount(&directory.path().join("state")) else {
        // Only root may mount; a unit test of the store does the same, where it may.
        return;
    };
    let upstream = Upstream::start(vec![Step::Send(answer())]);
    let file = directory.path().join("gateway.toml");
    let settings = "segment_bytes = 65536\nreserve_bytes = 1048576\nlow_water_bytes = 4194304";
    fs::write(&file, config(&upstream, settings)).expect("the directory is writable");
    let mut gateway = Gateway::launched(directory, vec!["--config".to_owned(), file.display().to_string()]);
    // Unmounted before the gateway's directory is removed.
    let disk = disk;
    for (round, signal) in ["KILL", "TERM"].into_iter().enumerate() {
        assert_eq!(hold(&gateway, signal), 201);
        disk.fill();
        gateway.signal(signal);
        gateway.wait_for_end();
        // What the gateway gave up of its reserve, too.
        disk.fill();
        for _ in 0..2 {
            let said = refused_start(&gateway);
            assert!(said.contains("make room"), "{said}");
        }
        disk.empty();
        gateway.crash_and_restart();
        let holds = ask(&gateway, "/api/v1/legal-holds").json();
        assert_eq!(holds.as_array().expect("holds").len(), round + 1, "{holds}");
    }
}

/// Starts the program once more on the directory of a gateway, which is to be refused; returns what it says.
pub fn refused_start(gateway: &Gateway) -> String {
    let output = program()
        .args(["run", "--config"])
        .arg(gateway.directory().join("gateway.toml"))
        .env("PORTCULLIS__PROXY__LISTEN", "127.0.0.1:0")
        .env("PORTCULLIS__ADMIN__LISTEN", "127.0.0.1:0")
        .env("PORTCULLIS__STORE__PATH", gateway.directory().join("state"))
        .output()
        .expect("the program was built");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

/// Where that is wanted traffic goes on, and no exchange is lost without being counted.
#[test]
fn a_full_disk_lets_traffic_pass_where_that_is_wanted_and_counts_what_is_not_recorded() {
    const UNRECORDED: u64 = 5;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let Some(disk) = SmallDisk::mount(&directory.path().join("state")) else {
        // Only root may mount; the same walk with a pretended disk is a unit test of the audit log.
        return;
    };
    let upstream = Upstream::start(vec![Step::Send(answer())]);
    let settings = "durability = \"wait\"\non_failure = \"allow_and_alarm\"\nsegment_bytes = 65536\n\
                    reserve_bytes = 1048576\nlow_water_bytes = 4194304";
    let file = directory.path().join("gateway.toml");
    fs::write(&file, config(&upstream, settings)).expect("the directory is writable");
    let gateway = Gateway::launched(directory, vec!["--config".to_owned(), file.display().to_string()]);
    // Unmounted before the gateway's directory is removed.
    let disk = disk;
    let answered = AtomicUsize::new(0);
    let passes = || {
        assert_eq!(send(&gateway).status, 200);
        answered.fetch_add(1, Ordering::Relaxed);
    };
    let unrecorded = || {
        let text = ask(&gateway, "/metrics").text();
        let figure = text.lines().find_map(|line| line.strip_prefix("portcullis_audit_refused_total "));
        figure.and_then(|figure| figure.parse::<u64>().ok()).unwrap_or(0)
    };
    passes();
    let is_full = || {
        disk.fill();
        passes();
        unrecorded() >= UNRECORDED
    };
    wait(is_full, "every exchange is recorded");
    assert_eq!(health(&gateway), (503, "degraded".to_owned()));
    let ready = exchange(gateway.admin, b"GET /ready HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(ready.status, 200, "a balancer goes on to send traffic");

    disk.empty();
    wait(|| health(&gateway) == (200, "healthy".to_owned()), "health stays degraded");
    passes();
    let recorded = ask(&gateway, "/api/v1/audit?event_type=exchange").json()["total"].as_u64();
    assert_eq!(recorded.map(|it| it + unrecorded()), Some(answered.into_inner() as u64));
}

/// A change that is in force and may not be safe is in the log; whoever is to ask again may.
#[test]
fn what_the_disk_did_not_confirm_is_recorded_and_can_be_asked_for_again() {
    let upstream = Upstream::start(vec![Step::Send(answer())]);
    let gateway = Gateway::start(&config(&upstream, "durability = \"wait\""));
    assert_eq!(send(&gateway).status, 200);
    assert_eq!(hold(&gateway, "eve"), 201);
    let [log, away] = ["db", "away"].map(|name| gateway.directory().join("state/store").join(name));
    fs::rename(&log, &away).expect("the store's log");
    assert_eq!(hold(&gateway, "ada"), 503);
    let release = || {
        let key = gateway.admin_key();
        let fields = format!("host: localhost\r\nx-api-key: {key}\r\n\r\n");
        let request = format!("DELETE /api/v1/legal-holds/hold_1 HTTP/1.1\r\n{fields}");
        exchange(gateway.admin, request.as_bytes()).status
    };
    assert_eq!(release(), 503);
    assert_eq!(post_json(&gateway, "/api/v1/dsar/erase", r#"{"entity_id":"bob"}"#), 503);
    assert_eq!(health(&gateway), (503, "degraded".to_owned()));
    let unconfirmed = ask(&gateway, "/api/v1/audit?event_type=change_unconfirmed").json();
    let routes =
        unconfirmed["entries"].as_array().expect("entries").iter().map(|entry| entry["route"].clone());
    assert_eq!(
        routes.collect::<Vec<_>>(),
        ["/api/v1/dsar/erase", "/api/v1/legal-holds/{id}", "/api/v1/legal-holds"]
    );
    fs::rename(&away, &log).expect("the store's log");
    wait(|| health(&gateway) == (200, "healthy".to_owned()), "health stays degraded");
    assert_eq!(post_json(&gateway, "/api/v1/dsar/erase", r#"{"entity_id":"bob"}"#), 200);
    assert_eq!(hold(&gateway, "carl"), 201);
    // That the hold is let go is recorded once it is known to be safe, by whoever asked again, and once.
    assert_eq!([release(), release()], [200, 200]);
    let released = ask(&gateway, "/api/v1/audit?event_type=hold_released&entity=eve").json();
    assert_eq!(
        (&released["total"], &released["entries"][0]["message"]),
        (&1.into(), &"legal hold hold_1 was released".into())
    );
}

#[test]
fn damage_to_the_log_is_told_and_stops_neither_traffic_nor_answers() {
    let upstream = Upstream::start(vec![Step::Send(answer())]);
    let gateway = Gateway::start(&config(&upstream, "durability = \"wait\"\nsegment_bytes = 65536"));
    let folder = gateway.directory().join("state/audit");
    let segment = |number: u64| folder.join(format!("audit-{number:016x}.segment"));
    let fills = || {
        let mut client = Client::connect(gateway.proxy);
        for _ in 0..20 {
            client.send(&post("/v1/chat/completions", "", BODY));
            assert_eq!(client.response().expect("an answer").status, 200);
        }
        segment(2).exists()
    };
    wait(fills, "the first segment is never full");
    assert_eq!(health(&gateway), (200, "healthy".to_owned()));
    let before = entries(&gateway);
    assert_eq!(before["complete"], true);

    let mut bytes = fs::read(segment(1)).expect("the first segment");
    bytes[5000] ^= 1;
    fs::write(segment(1), bytes).expect("the segment is writable");
    let left = entries(&gateway);
    assert_eq!(left["complete"], false);
    let count = |page: &Value| page["entries"].as_array().expect("entries").len();
    assert_eq!(count(&left) + 1, count(&before), "the damaged entry alone is missing");
    assert_eq!(health(&gateway), (503, "degraded".to_owned()));
    let ready = exchange(gateway.admin, b"GET /ready HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!((ready.status, send(&gateway).status), (200, 200), "traffic goes on");
    let figure = || {
        let text = ask(&gateway, "/metrics").text();
        let figure = text.lines().find_map(|line| line.strip_prefix("portcullis_audit_damaged_bytes "));
        figure.is_some_and(|bytes| bytes != "0")
    };
    wait(figure, "no metric tells of damage");
    entries(&gateway);
    assert_eq!(gateway.log().matches("the audit journal is damaged").count(), 1, "{}", gateway.log());
    let verified = program().args(["audit", "verify"]).arg(&folder).output();
    let said = String::from_utf8_lossy(&verified.expect("the program was built").stderr).into_owned();
    assert!(said.contains("segment 1 is damaged"), "{said}");
}

fn entries(gateway: &Gateway) -> Value {
    ask(gateway, "/api/v1/audit?limit=1000&event_type=exchange").json()
}

/// Asks the management API for a path, with the administrator's key.
pub fn ask(gateway: &Gateway, path: &str) -> Response {
    let key = gateway.admin_key();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\n\r\n");
    exchange(gateway.admin, request.as_bytes())
}

/// Asks for a legal hold, and returns the status of the answer.
pub fn hold(gateway: &Gateway, entity: &str) -> u16 {
    let body =
        format!(r#"{{"entity_id":"{entity}","entity_type":"user","reason":"a suit","issued_by":"counsel"}}"#);
    post_json(gateway, "/api/v1/legal-holds", &body)
}

/// Sends a body with the administrator's key, and returns the status of the answer.
pub fn post_json(gateway: &Gateway, path: &str, body: &str) -> u16 {
    let (key, length) = (gateway.admin_key(), body.len());
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    exchange(gateway.admin, request.as_bytes()).status
}

/// Sends one exchange.
pub fn send(gateway: &Gateway) -> Response {
    exchange(gateway.proxy, &post("/v1/chat/completions", "", BODY))
}

fn health(gateway: &Gateway) -> (u16, String) {
    let response = exchange(gateway.admin, b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let status = response.json().get("status").and_then(Value::as_str).unwrap_or_default().to_owned();
    (response.status, status)
}

fn wait(condition: impl Fn() -> bool, otherwise: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "{otherwise}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A file system in memory, small enough to be filled; unmounted when it is dropped.
struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    fn mount(folder: &Path) -> Option<Self> {
        fs::create_dir(folder).expect("the directory is writable");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"]).arg(folder).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Self { folder: folder.to_owned() })
    }

    /// Writes until nothing more fits, the gateway's reserve included once it is given up.
    fn fill(&self) {
        for number in 0..64 {
            // What fits is written before the write fails.
            let _ = fs::write(self.folder.join(format!("filler-{number}")), vec![0; 1 << 20]);
        }
        let _ = fs::write(self.folder.join("filler-last"), vec![0; 4 << 10]);
    }

    fn empty(&self) {
        for entry in fs::read_dir(&self.folder).expect("it is mounted").map_while(Result::ok) {
            if entry.file_name().to_string_lossy().starts_with("filler") {
                fs::remove_file(entry.path()).expect("it can be removed");
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.folder).status();
    }
}

/// Returns an answer of the scripted upstream.
pub fn answer() -> Vec<u8> {
    let body = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"done"}}]}"#;
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

pub fn config(upstream: &Upstream, audit: &str) -> String {
    format!(
        "[proxy]\nmax_requests_per_connection = 1000000\n\n[audit]\n{audit}\n\n[[routes]]\nname = \"all\"\n\
         path_prefix = \"/\"\nupstream = \"http://{}\"\ndialect = \"openai\"\nwebsocket = true\n\n{UNLIMITED}",
        upstream.address
    )
}
