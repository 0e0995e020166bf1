//! Sinks that come, change and go while the gateway runs.

use serde_json::Value;
use serde_json::json;

use super::HEC_OK;
use super::QUICK;
use super::ask;
use super::distinct;
use super::lines;
use super::receiver::Receiver;
use super::receiver::Reply;
use super::receiver::Request;
use super::recorded;
use super::send;
use super::status;
use super::text;
use crate::framing::POLICY;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::upstream::Upstream;
use crate::wire::PATIENCE;
use crate::wire::Response;
use crate::wire::exchange;

fn receiver() -> Receiver {
    Receiver::start(|_, _| Reply::Answer(200, "", HEC_OK.to_owned()))
}

fn sink(name: &str, receiver: &Receiver, more: &str) -> String {
    format!(
        "[[siem.sinks]]\nname = \"{name}\"\n{QUICK}platform = \"splunk_hec\"\nurl = \"http://{}\"\n\
         allow_private = true\nevent_types = [\"exchange\"]\n{more}",
        receiver.address
    )
}

fn config(upstream: &Upstream, sinks: &[String]) -> String {
    format!(
        "[[routes]]\nname = \"all\"\npath_prefix = \"/\"\nupstream = \"http://{}\"\ndialect = \"openai\"\n\
         policy = \"default\"\n\n{UNLIMITED}\n{POLICY}\n{}\n",
        upstream.address,
        sinks.concat()
    )
}

/// Returns the ids of the entries that came, each once.
fn ids(requests: &[Request]) -> Vec<String> {
    let events = requests.iter().flat_map(|request| lines(&request.body));
    distinct(events.map(|event| text(&event["event"]["id"])))
}

fn names(gateway: &Gateway) -> Vec<String> {
    let told = ask(gateway, "/api/v1/siem/status");
    told["platforms"].as_array().expect("sinks").iter().map(|sink| text(&sink["name"])).collect()
}

/// Waits until the gateway has these sinks.
fn wait_for(gateway: &Gateway, expected: &[&str]) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while names(gateway) != expected {
        assert!(std::time::Instant::now() < deadline, "{:?}", names(gateway));
    }
}

fn patch(gateway: &Gateway, patch: &Value) -> Response {
    let (key, body) = (gateway.admin_key(), patch.to_string());
    let request = format!(
        "PUT /api/v1/config HTTP/1.1\r\nhost: {}\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        gateway.admin,
        body.len()
    );
    exchange(gateway.admin, request.as_bytes())
}

#[test]
fn sinks_come_and_go_and_keep_their_places() {
    let (upstream, first, second) = (Upstream::answering("application/json", "{}"), receiver(), receiver());
    let both = [sink("first", &first, ""), sink("second", &second, "")];
    let gateway = Gateway::start(&config(&upstream, &both[..1]));
    send(&gateway, 3);
    let log = recorded(&gateway, 3);
    assert_eq!(ids(&first.wait_for(|requests| ids(requests).len() == 3)), log);

    gateway.rewrite(&config(&upstream, &both));
    wait_for(&gateway, &["first", "second"]);
    // A sink has its place once it says so; what is recorded from then on is its.
    let placed = || ask(&gateway, "/api/v1/siem/status")["platforms"][1]["cursor"].is_string();
    let deadline = std::time::Instant::now() + PATIENCE;
    while !placed() {
        assert!(std::time::Instant::now() < deadline);
    }
    send(&gateway, 2);
    let log = recorded(&gateway, 5);
    assert_eq!(ids(&second.wait_for(|requests| ids(requests).len() == 2)), log[3..]);
    assert_eq!(ids(&first.wait_for(|requests| ids(requests).len() == 5)), log);

    gateway.rewrite(&config(&upstream, &both[1..]));
    wait_for(&gateway, &["second"]);
    send(&gateway, 2);
    let log = recorded(&gateway, 7);
    second.wait_for(|requests| ids(requests).len() == 4);
    assert_eq!(ids(&first.wait_for(|_| true)).len(), 5, "who is left out gets nothing");

    // It comes back, with another filter, to where it was.
    let changed = sink("first", &first, "batch_entries = 1\n");
    gateway.rewrite(&config(&upstream, &[changed, both[1].clone()]));
    wait_for(&gateway, &["first", "second"]);
    assert_eq!(ids(&first.wait_for(|requests| ids(requests).len() == 7)), log);

    // A file that says nothing of sinks means it.
    gateway.rewrite(&config(&upstream, &[]));
    wait_for(&gateway, &[]);
    assert_eq!(ask(&gateway, "/api/v1/siem/status")["enabled"], false);
}

#[test]
fn where_entries_go_is_said_in_files_alone() {
    let (upstream, own, other) = (Upstream::answering("application/json", "{}"), receiver(), receiver());
    let gateway = Gateway::start(&config(&upstream, &[sink("soc", &own, "")]));
    send(&gateway, 1);
    status(&gateway, |told| told["events_forwarded"] == 1);
    let sinks = ask(&gateway, "/api/v1/config")["siem"]["sinks"].clone();
    let elsewhere = {
        let mut sinks = sinks.clone();
        sinks[0]["url"] = json!(format!("http://{}", other.address));
        sinks
    };
    let refused = patch(&gateway, &json!({"siem": {"sinks": elsewhere}}));
    assert!(
        refused.status == 400 && refused.text().contains("only in the configuration file"),
        "{}",
        refused.text()
    );
    let mut quieter = sinks.clone();
    quieter[0]["event_types"] = json!(["login"]);
    let faulty = {
        let mut sinks = quieter.clone();
        sinks[0]["batch_entries"] = json!(0);
        sinks
    };
    let refused = patch(&gateway, &json!({"siem": {"sinks": faulty}}));
    assert!(refused.status == 400 && refused.text().contains("batch_entries"), "{}", refused.text());
    let taken = patch(&gateway, &json!({"siem": {"sinks": quieter}}));
    assert_eq!(taken.status, 200, "{}", taken.text());
    // It begins anew, under the name and at the place it had.
    status(&gateway, |told| told["status"] == "idle" && told["events_forwarded"] == 1);
    send(&gateway, 2);
    recorded(&gateway, 3);
    let removed = patch(&gateway, &json!({"siem": {"sinks": []}}));
    assert_eq!(removed.status, 200, "{}", removed.text());
    wait_for(&gateway, &[]);
    assert_eq!((ids(&own.wait_for(|_| true)).len(), ids(&other.wait_for(|_| true)).len()), (1, 0));
}
