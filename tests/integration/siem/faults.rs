//! Receivers that fail in every way there is: nothing is lost, whatever they speak.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::Value;

use super::HEC_OK;
use super::distinct;
use super::document_ids;
use super::gateway;
use super::gateway_beside;
use super::lines;
use super::receiver::Receiver;
use super::receiver::Reply;
use super::receiver::Request;
use super::recorded;
use super::send;
use super::status;
use super::text;

const EXCHANGES: usize = 40;

/// An HTTP platform.
struct Platform {
    name: &'static str,
    /// Answers that it took all of a request.
    taken: fn(&Request) -> Reply,
    /// Returns the ids of the entries of a request.
    ids: fn(&[u8]) -> Vec<String>,
}

const PLATFORMS: [Platform; 3] = [
    Platform {
        name: "splunk_hec",
        taken: |_| Reply::Answer(200, "", HEC_OK.to_owned()),
        ids: |body| lines(body).iter().map(|event| text(&event["event"]["id"])).collect(),
    },
    Platform {
        name: "elastic",
        taken: |request| {
            let items: Vec<_> =
                document_ids(&request.body).map(|_| "{\"create\":{\"status\":201}}").collect();
            Reply::Answer(200, "", format!("{{\"errors\":false,\"items\":[{}]}}", items.join(",")))
        },
        ids: |body| document_ids(body).collect(),
    },
    Platform {
        name: "webhook",
        taken: |_| Reply::Answer(204, "", String::new()),
        ids: |body| {
            let body: Value = serde_json::from_slice(body).expect("JSON");
            body["entries"].as_array().expect("entries").iter().map(|entry| text(&entry["id"])).collect()
        },
    },
];

/// Returns what goes wrong with a request, by its number: every second one of the first is spoilt.
fn fault(number: usize) -> Option<Reply> {
    let asked = "date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let faults = [
        Reply::Hangup,
        Reply::Answer(500, "", "{}".to_owned()),
        Reply::Answer(429, "retry-after: 0\r\n", String::new()),
        Reply::Answer(503, asked, String::new()),
        Reply::Cut,
        Reply::Garbage,
        Reply::Silence,
        Reply::Answer(307, "location: http://127.0.0.1:1/\r\n", String::new()),
        Reply::Answer(404, "", "not here".to_owned()),
    ];
    faults.into_iter().nth(number / 2).filter(|_| number.is_multiple_of(2))
}

#[test]
fn every_fault_of_every_platform_loses_nothing() {
    for platform in &PLATFORMS {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&taken);
        let receiver = Receiver::start(move |number, request| {
            fault(number).unwrap_or_else(|| {
                told.lock().extend((platform.ids)(&request.body));
                (platform.taken)(request)
            })
        });
        let sink = format!(
            "platform = \"{}\"\nurl = \"http://{}\"\nallow_private = true\nbatch_entries = 3\nsecret_file = \"token\"\n\
             event_types = [\"exchange\"]\n",
            platform.name, receiver.address
        );
        let gateway = gateway_beside(&sink, &[("token", "abc-123\n")]);
        send(&gateway, EXCHANGES);
        let log = recorded(&gateway, EXCHANGES);
        receiver.wait_for(|_| distinct(taken.lock().iter().cloned()).len() == EXCHANGES);
        assert_eq!(distinct(taken.lock().iter().cloned()), log, "{}: all of them, in order", platform.name);
        let told =
            status(&gateway, |told| told["events_forwarded"] == EXCHANGES && told["status"] == "connected");
        assert_eq!(told["errors"].as_u64(), Some(9), "{}: {told}", platform.name);
        for none in ["dead_letters", "events_missed", "events_late"] {
            assert_eq!(told[none], 0, "{none}: {told}");
        }
    }
}

/// What a receiver asks for counts for more than the waits of the configuration, which are short here.
#[test]
fn whoever_asks_to_be_left_alone_is() {
    let times = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&times);
    let receiver = Receiver::start(move |number, _| {
        told.lock().push(Instant::now());
        match number {
            0 => Reply::Answer(429, "retry-after: 1\r\n", String::new()),
            _ => Reply::Answer(204, "", String::new()),
        }
    });
    let sink = format!(
        "platform = \"webhook\"\nurl = \"http://{}\"\nallow_private = true\nevent_types = [\"exchange\"]\n",
        receiver.address
    );
    let gateway = gateway(&sink);
    send(&gateway, 1);
    status(&gateway, |told| told["events_forwarded"] == 1);
    let times = times.lock();
    assert!(times[1] - times[0] >= Duration::from_secs(1), "{:?}", times[1] - times[0]);
}

/// A receiver that is not made for what it is sent refuses it all, until somebody mends that.
#[test]
fn a_receiver_that_refuses_everything_makes_no_dead_letters() {
    for platform in PLATFORMS.iter().filter(|platform| platform.name != "splunk_hec") {
        let is_mended = Arc::new(AtomicBool::new(false));
        let (mended, taken) = (Arc::clone(&is_mended), Arc::new(Mutex::new(Vec::new())));
        let told = Arc::clone(&taken);
        let receiver = Receiver::start(move |_, request| {
            if mended.load(Ordering::Relaxed) {
                told.lock().extend((platform.ids)(&request.body));
                return (platform.taken)(request);
            }
            match platform.name {
                "elastic" => {
                    let items: Vec<_> =
                        document_ids(&request.body).map(|_| "{\"create\":{\"status\":400}}").collect();
                    Reply::Answer(200, "", format!("{{\"errors\":true,\"items\":[{}]}}", items.join(",")))
                }
                _ => Reply::Answer(400, "", String::new()),
            }
        });
        let sink = format!(
            "platform = \"{}\"\nurl = \"http://{}\"\nallow_private = true\nevent_types = [\"exchange\"]\n",
            platform.name, receiver.address
        );
        let gateway = gateway(&sink);
        // The first one may come alone.
        send(&gateway, 1);
        let said = |told: &Value| told["last_error"].as_str().is_some_and(|why| why.contains("every entry"));
        let alone = status(&gateway, said);
        assert_eq!((&alone["status"], &alone["dead_letters"]), (&"retrying".into(), &0.into()), "{alone}");
        send(&gateway, 5);
        let log = recorded(&gateway, 6);
        let so_far = alone["errors"].as_u64().unwrap_or_default();
        let waiting = status(&gateway, |told| told["errors"].as_u64() > Some(so_far + 3));
        assert_eq!(waiting["dead_letters"], 0, "{}: {waiting}", platform.name);
        is_mended.store(true, Ordering::Relaxed);
        let told = status(&gateway, |told| told["events_forwarded"] == 6);
        assert_eq!((&told["dead_letters"], &told["last_error"]), (&0.into(), &Value::Null), "{told}");
        let mut taken = taken.lock().clone();
        taken.sort();
        assert_eq!(taken, log, "{}: all of them, once", platform.name);
    }
}
