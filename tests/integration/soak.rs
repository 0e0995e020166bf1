//! Kills in a row while everything is written to: afterwards nothing that was acknowledged is lost, and what belongs
//! together agrees: the chain, holds, erasures, keys, A/B tests and what was fed back to them, the place of a sink, counts.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

use serde_json::Value;
use serde_json::json;

use crate::crash::config;
use crate::crash::recorded;
use crate::crash::use_until_it_dies;
use crate::gateway::Gateway;
use crate::siem::document_ids;
use crate::siem::receiver::Receiver;
use crate::siem::receiver::Reply;
use crate::upstream::Upstream;
use crate::usage::admin;
use crate::wire::Client;
use crate::wire::PATIENCE;
use crate::wire::Response;

/// How often it is killed, unless the environment says so; `make soak` does it 200 times.
const ROUNDS: usize = 5;
const ROUNDS_VARIABLE: &str = "PORTCULLIS_SOAK_ROUNDS";
const CLIENTS: usize = 3;
const HOLDS: &str = "/api/v1/legal-holds";
const TESTS: &str = "/api/v1/abtest/tests";
const KEYS: &str = "/api/v1/keys";
const ERASE: &str = "/api/v1/dsar/erase";

/// What was acknowledged.
#[derive(Default)]
struct Told {
    exchanges: BTreeSet<String>,
    /// Holds by id, and whether their release was acknowledged; `None`: it was asked for.
    holds: BTreeMap<String, Option<bool>>,
    /// Keys by id, and whether their end was acknowledged; `None`: it was asked for.
    keys: BTreeMap<String, Option<bool>>,
    /// Who was erased.
    erased: BTreeSet<String>,
    /// A/B tests that were made.
    tests: BTreeSet<String>,
    /// Results that were fed back.
    results: u64,
    /// What was asked for, and never answered.
    unanswered: u64,
}

/// Writes to the management API over one connection until that breaks.
struct Clerk {
    client: Client,
    key: String,
    told: Told,
}

impl Clerk {
    fn ask(&mut self, method: &str, path: &str, body: &Value) -> Option<Response> {
        let body = body.to_string();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        );
        self.client.send(request.as_bytes());
        let answer = self.client.response().ok();
        self.told.unanswered += u64::from(answer.is_none());
        answer
    }

    /// Makes a test; then takes holds, releases every other one, and feeds results back.
    fn work(mut self, round: usize, counting: &str) -> Told {
        let _ = self.make_and_hold(round, counting);
        self.told
    }

    fn make_and_hold(&mut self, round: usize, counting: &str) -> Option<()> {
        let made = self.ask("POST", TESTS, &test(&format!("round {round}")))?;
        assert_eq!(made.status, 201, "{}", made.text());
        self.told.tests.insert(id_of(&made));
        let result =
            json!({"variant_name": "on", "detected": true, "false_positive": false, "latency_ms": 1.0});
        for number in 0.. {
            let hold = json!({"entity_id": format!("entity-{round}-{number}"), "entity_type": "user",
                "reason": "soak", "issued_by": "counsel"});
            let held = self.ask("POST", HOLDS, &hold)?;
            assert_eq!(held.status, 201, "{}", held.text());
            let id = id_of(&held);
            self.told.holds.insert(id.clone(), Some(false));
            if number % 2 == 0 {
                self.told.holds.insert(id.clone(), None);
                assert_eq!(self.ask("DELETE", &format!("{HOLDS}/{id}"), &Value::Null)?.status, 200);
                self.told.holds.insert(id, Some(true));
            }
            let fed = self.ask("POST", &format!("{TESTS}/{counting}/result"), &result)?;
            assert_eq!(fed.status, 200, "{}", fed.text());
            self.told.results += 1;
        }
        None
    }
}

/// Makes keys, and ends every other one; holds people, and erases them once they are free.
impl Clerk {
    fn keep(mut self, round: usize) -> Told {
        let _ = self.make_and_erase(round);
        self.told
    }

    fn make_and_erase(&mut self, round: usize) -> Option<()> {
        for number in 0.. {
            let made = self.ask("POST", KEYS, &json!({"name": format!("key-{round}"), "role": "auditor"}))?;
            assert_eq!(made.status, 201, "{}", made.text());
            let id = id_of(&made);
            self.told.keys.insert(id.clone(), Some(false));
            if number % 2 == 0 {
                self.told.keys.insert(id.clone(), None);
                assert_eq!(self.ask("DELETE", &format!("{KEYS}/{id}"), &Value::Null)?.status, 200);
                self.told.keys.insert(id, Some(true));
            }
            let person = format!("person-{round}-{number}");
            let hold = json!({"entity_id": person, "entity_type": "user", "reason": "soak",
                "issued_by": "counsel"});
            let held = id_of(&self.ask("POST", HOLDS, &hold)?);
            self.told.holds.insert(held.clone(), None);
            let erase = json!({"entity_id": person});
            assert_eq!(self.ask("POST", ERASE, &erase)?.status, 409, "whoever is held is not erased");
            assert_eq!(self.ask("DELETE", &format!("{HOLDS}/{held}"), &Value::Null)?.status, 200);
            self.told.holds.insert(held, Some(true));
            let erased = self.ask("POST", ERASE, &erase)?;
            assert_eq!(erased.status, 200, "{}", erased.text());
            self.told.erased.insert(person);
        }
        None
    }
}

impl Told {
    fn add(&mut self, more: Self) {
        self.exchanges.extend(more.exchanges);
        self.holds.extend(more.holds);
        self.keys.extend(more.keys);
        self.erased.extend(more.erased);
        self.tests.extend(more.tests);
        self.results += more.results;
        self.unanswered += more.unanswered;
    }

    /// Holds what the gateway knows against what it acknowledged.
    fn check(&self, gateway: &Gateway, counting: &str) {
        let (status, holds) = admin(gateway, "GET", HOLDS, &Value::Null);
        assert_eq!(status, 200, "{holds}");
        let known: BTreeMap<&str, &str> =
            list(&holds).iter().map(|hold| (text(&hold["id"]), text(&hold["status"]))).collect();
        for (id, released) in &self.holds {
            let status = known.get(id.as_str()).copied();
            let is_right = match released {
                Some(true) => status == Some("released"),
                Some(false) => status == Some("active"),
                None => status.is_some(),
            };
            assert!(is_right, "{id} is {status:?}, and its release is {released:?}");
        }
        let more = known.len() - self.holds.len();
        assert!(more as u64 <= self.unanswered, "{more} holds nobody asked for");
        let (_, keys) = admin(gateway, "GET", KEYS, &Value::Null);
        let known: BTreeSet<&str> = list(&keys["keys"]).iter().map(|key| text(&key["id"])).collect();
        for (id, ended) in &self.keys {
            assert!(ended.is_none_or(|ended| ended != known.contains(id.as_str())), "{id} {ended:?}: {keys}");
        }
        for person in &self.erased {
            let (_, page) = admin(gateway, "GET", &format!("/api/v1/audit?entity={person}"), &Value::Null);
            assert_eq!(page["total"], 0, "{person} was erased: {page}");
        }
        let (_, tests) = admin(gateway, "GET", TESTS, &Value::Null);
        let tests: BTreeSet<&str> = list(&tests["tests"]).iter().map(|test| text(&test["id"])).collect();
        assert!(self.tests.iter().all(|id| tests.contains(id.as_str())), "{tests:?} of {:?}", self.tests);
        let (_, metrics) = admin(gateway, "GET", &format!("{TESTS}/{counting}/metrics"), &Value::Null);
        let counted = metrics[0]["total_requests"].as_u64().expect("a count");
        let possible = self.results..=self.results + self.unanswered;
        assert!(possible.contains(&counted), "{counted} results of {possible:?}");
        assert_eq!(metrics[0]["detections"], counted, "{metrics}");
    }

    /// Takes the tests and keys of earlier rounds away, so that there never are many, and asks for nobody again.
    fn tidy(&mut self, gateway: &Gateway) {
        self.erased.clear();
        for (id, ended) in std::mem::take(&mut self.keys) {
            let (status, gone) = admin(gateway, "DELETE", &format!("{KEYS}/{id}"), &Value::Null);
            let is_right = ended.map_or([200, 404].contains(&status), |ended| (status == 404) == ended);
            assert!(is_right, "{id} {ended:?}: {gone}");
        }
        for id in std::mem::take(&mut self.tests) {
            let (status, gone) = admin(gateway, "DELETE", &format!("{TESTS}/{id}"), &Value::Null);
            assert_eq!(status, 200, "{gone}");
        }
    }
}

fn test(name: &str) -> Value {
    json!({"name": name, "description": "", "variants": [
        {"name": "on", "weight": 1, "model_ref": "default"}, {"name": "off", "weight": 1, "model_ref": "off"},
    ]})
}

fn id_of(answer: &Response) -> String {
    text(&answer.json()["id"]).to_owned()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// Lets everybody write, and kills the gateway in the midst of it.
fn round(gateway: &mut Gateway, number: usize, counting: &str) -> Told {
    let count = Arc::new(AtomicUsize::new(0));
    let (proxy, key): (SocketAddr, _) = (gateway.proxy, gateway.admin_key());
    let address = gateway.admin;
    let clerk = || Clerk { client: Client::connect(address), key: key.clone(), told: Told::default() };
    let (worker, keeper) = (clerk(), clerk());
    thread::scope(|scope| {
        let worker = scope.spawn(move || worker.work(number, counting));
        let keeper = scope.spawn(move || keeper.keep(number));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let count = Arc::clone(&count);
                scope.spawn(move || use_until_it_dies(proxy, &format!("r{number}c{client}"), &count))
            })
            .collect();
        // At another moment each time.
        let deadline = Instant::now() + PATIENCE;
        while count.load(Ordering::Relaxed) < 5 + 17 * number % 61 {
            assert!(Instant::now() < deadline, "the gateway does not answer");
            thread::yield_now();
        }
        gateway.crash_and_restart();
        let mut told = worker.join().expect("the clerk ends when the gateway does");
        told.add(keeper.join().expect("the other one does, too"));
        for client in clients {
            told.exchanges.extend(client.join().expect("a client ends when the gateway does"));
        }
        told
    })
}

#[test]
fn kills_in_a_row_leave_everything_consistent() {
    let rounds = std::env::var(ROUNDS_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let elastic = Receiver::start(|_, request| {
        let items: Vec<&str> = document_ids(&request.body).map(|_| "{\"create\":{\"status\":201}}").collect();
        Reply::Answer(200, "", format!("{{\"errors\":false,\"items\":[{}]}}", items.join(",")))
    });
    let upstream = Upstream::answering("application/json", r#"{"choices":[]}"#);
    let sink = format!(
        "[[siem.sinks]]\nname = \"soc\"\nplatform = \"elastic\"\nurl = \"http://{}\"\nallow_private = true\n\
         event_types = [\"exchange\"]\n",
        elastic.address
    );
    let mut gateway = Gateway::start(&format!("{}\n{sink}", config(&upstream, "durability = \"wait\"")));
    let (status, made) = admin(&gateway, "POST", TESTS, &test("counting"));
    assert_eq!(status, 201, "{made}");
    let counting = text(&made["id"]).to_owned();
    let (mut told, mut erased) = (Told::default(), 0);
    for number in 0..rounds {
        told.add(round(&mut gateway, number, &counting));
        told.check(&gateway, &counting);
        erased += told.erased.len();
        told.tidy(&gateway);
    }
    assert!(erased > 0, "nobody was erased");
    let entries = |gateway: &Gateway| {
        let (_, page) = admin(gateway, "GET", "/api/v1/audit?event_type=exchange&limit=1", &Value::Null);
        page["total"].as_u64().expect("a total")
    };
    let written = entries(&gateway);
    assert!(written >= told.exchanges.len() as u64, "{written} of {}", told.exchanges.len());
    // Nothing is missing at the platform, and nothing goes there before what it follows.
    let sent =
        elastic.wait_for(|requests| sent(requests.iter().map(|one| &one.body)).len() as u64 >= written);
    let sent = self::sent(sent.iter().map(|one| &one.body));
    assert_eq!(sent.len() as u64, written, "the platform has what the log does not");
    let (_, usage) = admin(&gateway, "GET", "/api/v1/analytics/usage", &Value::Null);
    assert!(usage["request_count"].as_u64() <= Some(written), "{usage}");
    gateway.signal("KILL");
    let recorded = recorded(&gateway.directory().join("state/audit"));
    let lost: Vec<_> = told.exchanges.difference(&recorded).collect();
    assert!(lost.is_empty(), "{} of {} are lost: {lost:?}", lost.len(), told.exchanges.len());
    assert!(told.exchanges.len() > rounds && told.holds.len() > rounds && told.results > rounds as u64);
}

/// Returns the ids that a platform was sent, each once.
fn sent<'a>(bodies: impl Iterator<Item = &'a Vec<u8>>) -> BTreeSet<String> {
    bodies.flat_map(|body| document_ids(body).collect::<Vec<_>>()).collect()
}
