//! Forwarding of the audit log, to scripted platforms, real syslog daemons and a real NATS server.

mod faults;
mod following;
mod nats;
pub mod receiver;
mod syslog;
mod syslog_ng;

use std::time::Instant;

use hmac::Hmac;
use hmac::KeyInit;
use hmac::Mac;
use parking_lot::Mutex;
use serde_json::Value;
use sha2::Sha256;

use self::receiver::Receiver;
use self::receiver::Reply;
use self::receiver::Request;
use crate::framing::POLICY;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::gateway::program;
use crate::upstream::Upstream;
use crate::wire::PATIENCE;
use crate::wire::exchange;
use crate::wire::post;

/// Waits between attempts are short, so that tests are.
const QUICK: &str = "backoff_min_ms = 5\nbackoff_max_ms = 20\ntimeout_ms = 500\n";
const HEC_OK: &str = "{\"text\":\"Success\",\"code\":0}";

/// Starts a gateway in front of a provider that always answers, with one sink.
fn gateway(sink: &str) -> Gateway {
    gateway_beside(sink, &[])
}

/// Starts one in a directory that has files already.
fn gateway_beside(sink: &str, files: &[(&str, &str)]) -> Gateway {
    Gateway::start_beside(&config(&Upstream::answering("application/json", "{}"), sink), files)
}

/// Writes the configuration of a gateway with one sink.
fn config(upstream: &Upstream, sink: &str) -> String {
    format!(
        "[[routes]]\nname = \"all\"\npath_prefix = \"/\"\nupstream = \"http://{}\"\ndialect = \"openai\"\n\
         policy = \"default\"\n\n{UNLIMITED}\n{POLICY}\n[[siem.sinks]]\nname = \"soc\"\n{QUICK}{sink}\n",
        upstream.address
    )
}

fn send(gateway: &Gateway, exchanges: usize) {
    for at in 0..exchanges {
        let body = format!("{{\"input\":\"question {at}\"}}");
        assert_eq!(exchange(gateway.proxy, &post("/v1/embeddings", "", &body)).status, 200);
    }
}

fn ask(gateway: &Gateway, path: &str) -> Value {
    let key = gateway.admin_key();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\nx-api-key: {key}\r\n\r\n", gateway.admin);
    exchange(gateway.admin, request.as_bytes()).json()
}

/// Waits until the log has that many exchanges, and returns their ids, oldest first.
fn recorded(gateway: &Gateway, exchanges: usize) -> Vec<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let page = ask(gateway, "/api/v1/audit?event_type=exchange&limit=1000");
        let ids = page["entries"].as_array().expect("entries").iter().map(|entry| text(&entry["id"]));
        let mut ids: Vec<String> = ids.collect();
        if ids.len() == exchanges {
            ids.reverse();
            return ids;
        }
        assert!(Instant::now() < deadline, "{} exchanges are in the log", ids.len());
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Waits until the sink's status satisfies `enough`, and returns it.
fn status(gateway: &Gateway, enough: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = ask(gateway, "/api/v1/siem/status")["platforms"][0].clone();
        if enough(&status) {
            return status;
        }
        assert!(Instant::now() < deadline, "the sink never stood as it should: {status}");
    }
}

fn lines(body: &[u8]) -> Vec<Value> {
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).expect("JSON in a line")).collect()
}

/// Returns the ids of the documents of a bulk request, in order.
pub fn document_ids(body: &[u8]) -> impl Iterator<Item = String> {
    lines(body).into_iter().filter_map(|line| line["create"]["_id"].as_str().map(str::to_owned))
}

/// Returns ids without repetitions, in the order in which they came first.
fn distinct(ids: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    ids.for_each(|id| {
        if !seen.contains(&id) {
            seen.push(id);
        }
    });
    seen
}

#[test]
fn splunk_gets_every_entry_whatever_happens_on_the_way() {
    let splunk = Receiver::start(|number, _| match number {
        0 => Reply::Hangup,
        1 => Reply::Answer(500, "", String::new()),
        2 => Reply::Answer(429, "retry-after: 0\r\n", String::new()),
        3 => Reply::Garbage,
        4 => Reply::Answer(200, "", "<html>welcome</html>".to_owned()),
        5 => Reply::Silence,
        6 => Reply::Answer(403, "", "{\"text\":\"Invalid token\",\"code\":4}".to_owned()),
        7 => Reply::Answer(302, "location: http://127.0.0.1:1/\r\n", String::new()),
        8 => Reply::Answer(400, "", "{\"text\":\"Incorrect index\",\"code\":7}".to_owned()),
        _ => Reply::Answer(200, "", HEC_OK.to_owned()),
    });
    let sink = format!(
        "platform = \"splunk_hec\"\nurl = \"http://{}\"\nallow_private = true\nsecret_file = \"hec.token\"\n\
         index = \"security\"\nbatch_entries = 7\nevent_types = [\"exchange\"]\n",
        splunk.address
    );
    let mut gateway = gateway_beside(&sink, &[("hec.token", "abc-123\n")]);
    send(&gateway, 30);
    let log = recorded(&gateway, 30);
    let ids = |requests: &[Request]| {
        let taken = requests.iter().skip(9).flat_map(|request| lines(&request.body));
        distinct(taken.map(|event| text(&event["event"]["id"])))
    };
    let requests = splunk.wait_for(|requests| ids(requests).len() == 30);
    assert_eq!(ids(&requests), log, "all of them, in order");
    let first = &requests[9];
    assert_eq!(first.header("authorization"), "Splunk abc-123");
    assert_eq!(first.path, "/services/collector/event");
    let event = &lines(&first.body)[0];
    assert_eq!((&event["sourcetype"], &event["index"]), (&"portcullis:audit".into(), &"security".into()));
    let told = status(&gateway, |told| told["status"] == "connected" && told["events_forwarded"] == 30);
    assert!(told["errors"].as_u64() >= Some(9), "{told}");
    assert_eq!(told["dead_letters"], 0, "a wrong index is no fault of an entry: {told}");
    assert!(told["last_error"].is_null() && told["last_forward"].is_string(), "{told}");

    gateway.crash_and_restart();
    send(&gateway, 5);
    let log = recorded(&gateway, 35);
    let requests = splunk.wait_for(|requests| ids(requests).len() == 35);
    assert_eq!(ids(&requests), log, "after a crash nothing is missing");
    let all: usize = requests.iter().skip(9).map(|request| lines(&request.body).len()).sum();
    assert!(all < 35 + 30, "the log is not sent from its beginning again: {all}");
}

#[test]
fn elastic_gets_again_only_what_it_could_not_take_and_keeps_what_it_has() {
    // Of what it sees for the first time: it has the first, is busy for the second, never takes the third,
    // and has no index for the fourth yet.
    let seen = Mutex::new(Vec::new());
    let elastic = Receiver::start(move |_, request| {
        let mut seen = seen.lock();
        let items: Vec<String> = document_ids(&request.body)
            .map(|id| {
                let known = seen.iter().position(|it| *it == id);
                let is_new = known.is_none();
                let at = known.unwrap_or(seen.len());
                if is_new {
                    seen.push(id);
                }
                let status = match (at, is_new) {
                    (0, _) => 409,
                    (1, true) => 429,
                    (2, _) => 400,
                    (3, true) => 404,
                    _ => 201,
                };
                format!("{{\"create\":{{\"status\":{status}}}}}")
            })
            .collect();
        Reply::Answer(200, "", format!("{{\"errors\":true,\"items\":[{}]}}", items.join(",")))
    });
    let sink = format!(
        "platform = \"elastic\"\nurl = \"http://{}\"\nallow_private = true\nevent_types = [\"exchange\"]\n",
        elastic.address
    );
    let gateway = gateway(&sink);
    send(&gateway, 6);
    let log = recorded(&gateway, 6);
    let told = status(&gateway, |told| told["events_forwarded"] == 5 && told["dead_letters"] == 1);
    assert!(told["errors"].as_u64() >= Some(1), "{told}");
    let requests = elastic.wait_for(|_| true);
    let sent: Vec<String> = requests.iter().flat_map(|request| document_ids(&request.body)).collect();
    let ids = distinct(sent.iter().cloned());
    assert_eq!(ids, log);
    let document = lines(&requests[0].body).remove(1);
    assert_eq!(document["event"]["dataset"], "portcullis.audit");
    assert_eq!(document["event"]["id"], Value::String(log[0].clone()));
    assert!(document["@timestamp"].is_string() && document["ecs"]["version"].is_string(), "{document}");
    let times = |id: &String| sent.iter().filter(|it| *it == id).count();
    assert_eq!(
        log.iter().map(times).collect::<Vec<_>>(),
        [1, 2, 1, 2, 1, 1],
        "only the second and the fourth go again"
    );
    let letters = gateway.directory().join("state/siem/soc.dead");
    assert!(std::fs::read_to_string(letters).expect("dead letters").starts_with(&log[2]));
}

#[test]
fn a_webhook_is_signed_and_one_bad_entry_does_not_hold_the_others_up() {
    let webhook = Receiver::start(|_, request| {
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        let entries = body["entries"].as_array().expect("entries");
        match entries.iter().any(|entry| entry["action"] == "block") {
            true => Reply::Answer(422, "", String::new()),
            false => Reply::Answer(204, "", String::new()),
        }
    });
    let sink = format!(
        "platform = \"webhook\"\nurl = \"http://{}/in\"\nallow_private = true\nsecret_file = \"hook.secret\"\n\
         event_types = [\"exchange\"]\ngzip = false\n",
        webhook.address
    );
    let gateway = gateway_beside(&sink, &[("hook.secret", "s3cret")]);
    send(&gateway, 3);
    recorded(&gateway, 3);
    let leak = format!("{{\"input\":\"AKIA{}\"}}", "Z7VRSQ5TJN2WMPLX");
    exchange(gateway.proxy, &post("/v1/embeddings", "", &leak));
    recorded(&gateway, 4);
    send(&gateway, 3);
    let log = recorded(&gateway, 7);
    let told = status(&gateway, |told| told["cursor"] == Value::String(log[6].clone()));
    assert_eq!((&told["events_forwarded"], &told["dead_letters"]), (&6.into(), &1.into()), "{told}");
    let letters = gateway.directory().join("state/siem/soc.dead");
    assert!(std::fs::read_to_string(letters).expect("dead letters").starts_with(&log[3]));
    let requests = webhook.wait_for(|_| true);
    let request = requests.first().expect("a request");
    assert_signed(request, b"s3cret");
    assert_eq!(request.path, "/in");
}

/// Checks a webhook's signature as `src/manual/operations.rs` tells receivers to.
fn assert_signed(request: &Request, secret: &[u8]) {
    let signature = request.header("x-portcullis-signature");
    let (time, mac) = signature.strip_prefix("t=").and_then(|it| it.split_once(",v1=")).expect("a signature");
    let mut expected = Hmac::<Sha256>::new_from_slice(secret).expect("a key");
    expected.update(format!("{time}.").as_bytes());
    expected.update(&request.body);
    let hex: String = expected.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(mac, hex);
}

#[test]
fn a_webhook_is_signed_over_its_body_before_compression() {
    let webhook = Receiver::start(|_, _| Reply::Answer(204, "", String::new()));
    let sink = format!(
        "platform = \"webhook\"\nurl = \"http://{}/in\"\nallow_private = true\nsecret_file = \"hook.secret\"\n\
         gzip = true\n",
        webhook.address
    );
    let gateway = gateway_beside(&sink, &[("hook.secret", "s3cret\n")]);
    send(&gateway, 2);
    let requests = webhook.wait_for(|requests| !requests.is_empty());
    assert_eq!(requests[0].header("content-encoding"), "gzip");
    // The receiver unpacks what it records.
    requests.iter().for_each(|request| assert_signed(request, b"s3cret"));
}

#[test]
fn a_private_address_needs_the_operators_word() {
    let receiver = Receiver::start(|_, _| Reply::Answer(200, "", HEC_OK.to_owned()));
    let gateway =
        gateway(&format!("platform = \"webhook\"\nurl = \"http://localhost:{}\"\n", receiver.address.port()));
    send(&gateway, 1);
    let told = status(&gateway, |told| told["errors"].as_u64() > Some(0));
    assert_eq!(told["status"], "retrying");
    assert!(text(&told["last_error"]).contains("`allow_private = true`"), "{told}");
    gateway.wait_for_log("which needs `allow_private = true`", 1);
    assert!(receiver.wait_for(|_| true).is_empty(), "nothing was sent");
}

#[test]
fn a_file_gets_ocsf_events_and_is_put_aside_when_it_is_full() {
    let sink = "platform = \"ocsf_file\"\npath = \"ocsf.jsonl\"\nfile_bytes = 4096\nfiles_kept = 100\nbatch_entries = 1\n\
                event_types = [\"exchange\"]\n";
    let gateway = gateway(sink);
    send(&gateway, 9);
    let leak = format!("{{\"input\":\"AKIA{}\"}}", "Z7VRSQ5TJN2WMPLX");
    exchange(gateway.proxy, &post("/v1/embeddings", "", &leak));
    let log = recorded(&gateway, 10);
    status(&gateway, |told| told["events_forwarded"] == 10);
    let mut events = Vec::new();
    for number in (1..100).rev().map(|number| format!("ocsf.jsonl.{number}")).chain(["ocsf.jsonl".to_owned()])
    {
        let Ok(file) = std::fs::read(gateway.directory().join(&number)) else { continue };
        assert!(file.len() <= 4096, "{number}");
        events.extend(lines(&file));
    }
    let ids: Vec<String> = events.iter().map(|event| text(&event["metadata"]["uid"])).collect();
    assert_eq!(ids, log);
    let finding = events.last().expect("an event");
    assert_eq!((&finding["class_uid"], &finding["type_uid"]), (&2004.into(), &200_401.into()), "{finding}");
    for required in ["activity_id", "category_uid", "severity_id", "time", "metadata", "finding_info"] {
        assert!(!finding[required].is_null(), "{required}: {finding}");
    }
    let call = &events[0];
    assert_eq!((&call["class_uid"], &call["category_uid"]), (&6003.into(), &6.into()), "{call}");
    for required in ["actor", "api", "src_endpoint", "type_uid", "metadata"] {
        assert!(!call[required].is_null(), "{required}: {call}");
    }
}

#[test]
fn what_is_wrong_with_a_sink_is_told_before_the_start() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("gateway.toml");
    let config = "[[siem.sinks]]\nname = \"A b\"\nplatform = \"splunk\"\nurl = \"ftp://x\"\n\
                  [[siem.sinks]]\nname = \"b\"\nplatform = \"syslog\"\nurl = \"tcp://user:word@host\"\ntoken = \"x\"\n\
                  [[siem.sinks]]\nname = \"c\"\nplatform = \"syslog\"\nurl = \"udp://127.0.0.1:514\"\nmessage_bytes = 100000\n\
                  [[siem.sinks]]\nname = \"d\"\nplatform = \"nats\"\nurl = \"wss://host\"\nsubject = \"audit..>\"\n\
                  stream = \"a.b\"\nuser = \"gate\"\nindex = \"x\"\n";
    std::fs::write(&file, config).expect("the directory is writable");
    let ran = program()
        .args(["check", "--config", "gateway.toml"])
        .current_dir(directory.path())
        .output()
        .expect("the program was built");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned() + &String::from_utf8_lossy(&ran.stdout);
    assert_eq!(ran.status.code(), Some(78), "{said}");
    let named = [
        "siem.sinks[0].name",
        "splunk_hec",
        "siem.sinks[1].url",
        "siem.sinks[1].token",
        "siem.sinks[2].message_bytes",
        "siem.sinks[2].url: an address of a private network or of this machine, which needs `allow_private = true`",
        "siem.sinks[3].url",
        "siem.sinks[3].subject",
        "siem.sinks[3].stream",
        "siem.sinks[3].user",
        "siem.sinks[3].index",
    ];
    for told in named {
        assert!(said.contains(told), "{told} in {said}");
    }
    assert!(!said.contains("user:word"), "{said}");
}
