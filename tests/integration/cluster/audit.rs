//! One audit log of three gateways: every node answers for all, chains are verified from what was shipped, and what only
//! one node does moves when it dies.

use std::collections::BTreeSet;
use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Lines;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use serde_json::json;

use super::Deployment;
use super::eventually;
use crate::gateway::program;
use crate::wire::Client;
use crate::wire::exchange;
use crate::wire::post;

const PATIENCE: Duration = Duration::from_secs(20);
const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;

impl Deployment {
    /// Sends requests through a node, all of which are let through.
    fn traffic(&self, node: usize, count: usize) {
        for _ in 0..count {
            assert_eq!(exchange(self.nodes[node].proxy, &post("/v1/chat/completions", "", BODY)).status, 200);
        }
    }

    fn audit(&self, node: usize, query: &str) -> Value {
        let answer = self.call(node, "GET", &format!("/api/v1/audit?{query}"), &Value::Null);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    fn health(&self, node: usize) -> Value {
        self.call(node, "GET", "/api/v1/cluster/health", &Value::Null).json()
    }

    fn node_id(&self, node: usize) -> String {
        self.health(node)["node_id"].as_str().expect("a name").to_owned()
    }

    /// Runs `portcullis audit verify` where a node's configuration is; returns its status and what it says.
    fn verify(&self, node: usize, arguments: &[&str]) -> (Option<i32>, String) {
        let output = program()
            .args(["audit", "verify"])
            .args(arguments)
            .current_dir(self.nodes[node].directory())
            .output()
            .expect("it runs");
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.code(), said.concat())
    }

    /// Waits until everything that was recorded was shipped.
    pub(super) fn all_shipped(&self) {
        eventually(PATIENCE, "everything is shipped", || {
            let health = self.health(0);
            let nodes = health["nodes"].as_array().cloned().unwrap_or_default();
            nodes
                .iter()
                .all(|node| node["audit"]["waiting"] == 0 && node["audit"]["shipped"].as_u64() > Some(0))
        });
    }

    /// Waits until what the second node recorded was shipped, whatever the first one can reach.
    fn all_but_first_shipped(&self) {
        let own = self.node_id(1);
        eventually(PATIENCE, "it is shipped", || {
            self.audit(2, &format!("event_type=exchange&node={own}"))["total"] == 8
        });
    }

    /// Verifies what all nodes shipped, and returns how many entries that is.
    pub(super) fn verified(&self, node: usize) -> u64 {
        let (status, said) = self.verify(node, &["--shipped", "--config", "gateway.toml"]);
        assert_eq!(status, Some(0), "{said}");
        let counts = said
            .lines()
            .filter_map(|line| line.split_once("sound, ")?.1.split(' ').next()?.parse::<u64>().ok());
        counts.sum()
    }
}

fn ids(page: &Value) -> Vec<(String, String)> {
    let entries = page["entries"].as_array().expect("entries");
    let text = |entry: &Value, key: &str| entry[key].as_str().expect("a text").to_owned();
    entries.iter().map(|entry| (text(entry, "id"), text(entry, "node"))).collect()
}

#[test]
fn every_node_shows_and_proves_the_log_of_all() {
    let mut world = Deployment::start(3);
    let checkpoint = || world.call(1, "GET", "/api/v1/audit/checkpoint/cluster", &Value::Null);
    let anchors = || checkpoint().json()["nodes"].as_array().map_or(0, Vec::len);
    world.traffic(0, 4);
    eventually(PATIENCE, "the first node is vouched for", || anchors() >= 1);
    (1..3).for_each(|node| world.traffic(node, 4));
    eventually(PATIENCE, "the others do not wait for the next checkpoint", || anchors() == 3);
    let exchanges = "event_type=exchange";
    for node in 0..3 {
        eventually(PATIENCE, "the entries of all nodes are found", || {
            world.audit(node, exchanges)["total"] == 12
        });
    }
    let page = world.audit(1, exchanges);
    assert_eq!(page["complete"], true);
    let found = ids(&page);
    assert!(found.is_sorted_by(|newer, older| newer.0 > older.0));
    let nodes: BTreeSet<&String> = found.iter().map(|(_, node)| node).collect();
    assert_eq!(nodes.len(), 3);
    let own = world.node_id(2);
    for node in 0..3 {
        assert_eq!(world.audit(node, &format!("{exchanges}&node={own}"))["total"], 4);
    }
    let (mut paged, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.audit(0, &format!("{exchanges}&limit=5{cursor}"));
        paged.extend(ids(&page));
        let Some(next) = page["cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(paged, found);

    // A node that is cut off answers for itself, says what waits, and ships it once it is back.
    world.relays[2].cut();
    world.traffic(2, 3);
    eventually(PATIENCE, "it answers for itself", || world.audit(2, "limit=1")["complete"] == false);
    eventually(PATIENCE, "it says what waits", || {
        let health = world.health(2);
        let nodes = health["nodes"].as_array().cloned().unwrap_or_default();
        let waits = |node: &Value| node["id"] == *own && node["audit"]["waiting"].as_u64() >= Some(3);
        nodes.iter().any(waits)
    });
    let metrics = world.call(2, "GET", "/metrics", &Value::Null).text();
    assert!(metrics.contains("portcullis_audit_ship_waiting_entries "), "{metrics}");
    assert_eq!(world.audit(0, exchanges)["total"], 12);
    world.relays[2].mend();
    eventually(PATIENCE, "it is found everywhere", || {
        (0..3).all(|node| world.audit(node, exchanges)["total"] == 15)
    });

    // An export of all nodes is verified offline, node by node; so is what was shipped. The checkpoint comes first: the
    // export goes as far, whatever is signed meanwhile.
    let folder = tempfile::tempdir().expect("a folder");
    let kept = folder.path().join("cluster.checkpoint");
    fs::write(&kept, checkpoint().text()).expect("it is writable");
    let export = world.call(1, "GET", "/api/v1/audit/export", &Value::Null).text();
    let file = folder.path().join("export.jsonl");
    fs::write(&file, &export).expect("it is writable");
    let path = file.display().to_string();
    let (status, said) = world.verify(0, &[&path, "--checkpoint", &kept.display().to_string()]);
    assert_eq!(status, Some(0), "{said}");
    let without = export.lines().filter(|line| !line.contains("\"node\"") || !line.contains(&own));
    let cut: String = without.map(|line| format!("{line}\n")).collect();
    fs::write(&file, cut).expect("it is writable");
    assert_eq!(world.verify(0, &[&path]).0, Some(4), "a node's entries cannot be left out");
    world.all_shipped();
    assert!(world.verified(0) >= 15);
    world.server.sql("UPDATE portcullis_audit SET payload = payload || 'x' WHERE seq = 2");
    let (status, said) = world.verify(0, &["--shipped", "--config", "gateway.toml"]);
    assert_eq!(status, Some(4), "{said}");
    // Whoever deletes all that a node shipped, and that it ever did, is found by what was signed elsewhere.
    let missing = world.node_id(1);
    for node in &mut world.nodes {
        node.signal("KILL");
        node.wait_for_end();
    }
    for table in ["portcullis_audit", "portcullis_audit_heads"] {
        world.server.sql(&format!("DELETE FROM {table} WHERE node = '{missing}'"));
    }
    let kept = kept.display().to_string();
    let (_, said) = world.verify(0, &["--shipped", "--config", "gateway.toml", "--checkpoint", &kept]);
    assert!(said.contains(&format!("node {missing}, ")), "{said}");
    world.server.sql("DELETE FROM portcullis_audit");
    world.server.sql("DELETE FROM portcullis_audit_heads");
    world.server.sql("DELETE FROM portcullis_entries WHERE name = 'audit.cluster_checkpoints'");
    let (status, said) = world.verify(0, &["--shipped", "--config", "gateway.toml"]);
    assert_eq!(status, Some(1), "nothing at all is not sound: {said}");
}

/// A live stream, line by line.
struct Live(std::iter::Map<Lines<BufReader<TcpStream>>, Written>);

/// Takes a line that could be read.
type Written = fn(std::io::Result<String>) -> String;

impl Live {
    /// Opens one, and comes back once it has its place in the logs.
    fn open(world: &Deployment, node: usize, query: &str, last: Option<&str>) -> Self {
        let mut stream = TcpStream::connect(world.nodes[node].admin).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let last = last.map_or_else(String::new, |last| format!("last-event-id: {last}\r\n"));
        let request = format!(
            "GET /api/v1/audit/stream?{query} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {}\r\n{last}\r\n",
            world.admin
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        let text: fn(std::io::Result<String>) -> String = |line| line.expect("a line in time");
        let mut lines = BufReader::new(stream).lines().map(text);
        let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        assert!(head[0].contains(" 200 "), "{head:?}");
        let named = format!("x-portcullis-node: {}", world.node_id(node));
        assert!(head.iter().any(|line| line.eq_ignore_ascii_case(&named)), "{head:?}");
        assert!(lines.any(|line| line == "retry: 3000"));
        Self(lines)
    }

    /// Returns the next entries, each with the id of its event.
    fn next(&mut self, count: usize) -> Vec<(String, Value)> {
        let mut id = String::new();
        let events = self.0.by_ref().filter_map(|line| {
            if let Some(told) = line.strip_prefix("id: ") {
                id = told.to_owned();
            }
            let data = line.strip_prefix("data: ")?;
            Some((id.clone(), serde_json::from_str(data).expect("JSON")))
        });
        events.take(count).collect()
    }
}

fn named(events: &[(String, Value)]) -> BTreeSet<(String, String)> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    events.iter().map(|(_, entry)| (text(&entry["node"]), text(&entry["id"]))).collect()
}

/// A live stream has the entries of all nodes, each once, goes on at another node, and goes on with those of its own node
/// while the database is away.
#[test]
fn a_live_stream_has_the_entries_of_all_nodes() {
    let world = Deployment::start(3);
    let exchanges = "event_type=exchange";
    let mut live = Live::open(&world, 0, exchanges, None);
    let mut own = Live::open(&world, 0, &format!("{exchanges}&node={}", world.node_id(1)), None);
    for _ in 0..3 {
        (0..3).for_each(|node| world.traffic(node, 2));
    }
    let got = live.next(18);
    assert_eq!(named(&got).len(), 18);
    let nodes: BTreeSet<String> = named(&got).into_iter().map(|(node, _)| node).collect();
    assert_eq!(nodes.len(), 3);
    assert!(got.iter().all(|(id, entry)| id.starts_with(entry["id"].as_str().expect("an id"))));
    let of_one: BTreeSet<_> = named(&own.next(6));
    assert!(of_one.iter().all(|(node, _)| *node == world.node_id(1)) && of_one.len() == 6);
    // Whoever comes back to another node is given the rest there.
    let mut elsewhere = Live::open(&world, 2, exchanges, Some(&got[6].0));
    let rest = elsewhere.next(11);
    assert!(named(&rest).is_disjoint(&named(&got[..7])) && named(&rest).is_subset(&named(&got)));

    // Without the database its own go on, and those of the others come once it is back.
    world.relays[0].cut();
    world.traffic(1, 2);
    world.all_but_first_shipped();
    world.traffic(0, 3);
    let meanwhile = live.next(3);
    assert!(meanwhile.iter().all(|(_, entry)| entry["node"] == *world.node_id(0)), "{meanwhile:?}");
    world.relays[0].mend();
    let after = live.next(2);
    assert!(after.iter().all(|(_, entry)| entry["node"] == *world.node_id(1)), "{after:?}");
    let all = named(&got).len() + named(&meanwhile).len() + named(&after).len();
    eventually(PATIENCE, "that is all there is", || world.audit(1, exchanges)["total"] == all);
}

#[test]
fn what_one_node_does_moves_when_it_dies() {
    let mut world = Deployment::start(3);
    let names: Vec<String> = (0..3).map(|node| world.node_id(node)).collect();
    let runner = |world: &Deployment, asked: usize| {
        let health = world.health(asked);
        let jobs = health["jobs"].as_array().cloned().unwrap_or_default();
        let job = jobs.into_iter().find(|job| job["name"] == "audit_checkpoint").expect("the job");
        job["node_id"].as_str().map(str::to_owned)
    };
    let checkpoint = |world: &Deployment, asked: usize| {
        world.call(asked, "GET", "/api/v1/audit/checkpoint/cluster", &Value::Null).json()
    };
    // Where nothing was recorded there is nothing to sign.
    world.traffic(0, 2);
    eventually(PATIENCE, "somebody has the job", || runner(&world, 0).is_some());
    let first = runner(&world, 0).expect("a node");
    let at = names.iter().position(|name| *name == first).expect("one of the three");
    let other = (at + 1) % 3;
    eventually(PATIENCE, "it has signed", || checkpoint(&world, other)["origin"] == *first);
    world.nodes[at].signal("KILL");
    world.traffic(other, 2);
    eventually(PATIENCE, "another node has it", || runner(&world, other).is_some_and(|now| now != first));
    eventually(PATIENCE, "and has signed", || checkpoint(&world, other)["origin"] != *first);
    let signed = checkpoint(&world, other);
    let anchors = signed["nodes"].as_array().expect("anchors");
    assert!(
        anchors.iter().any(|anchor| anchor["node"] == *first),
        "the chain of the dead node is vouched for"
    );
    // What it had shipped is there although it is gone.
    let query = format!("node={first}&limit=1");
    assert!(world.audit(other, &query)["total"].as_u64() > Some(0));
    world.nodes[at].crash_and_restart();
    world.settle();
    assert_ne!(runner(&world, other), Some(first), "who comes back does not take it back");
}

#[test]
fn an_erasure_of_a_node_that_never_returns_is_finished_by_another() {
    let world = Deployment::start(2);
    let known = json!({"entity_id": "mallory", "entity_type": "user", "reason": "r", "issued_by": "legal"});
    let id =
        world.call(0, "POST", "/api/v1/legal-holds", &known).json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(world.call(0, "DELETE", &format!("/api/v1/legal-holds/{id}"), &Value::Null).status, 200);
    // The database takes its time in the midst of the erasure.
    world.server.sql(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1.8); RETURN NEW; END';
         CREATE TRIGGER wait BEFORE INSERT ON portcullis_entries FOR EACH ROW
         WHEN (NEW.name = 'erased_lately') EXECUTE FUNCTION wait()",
    );
    let notes =
        "SELECT count(*) FROM portcullis_entries WHERE name = 'erasures_under_way' AND value IS NOT NULL";
    let body = json!({"entity_id": "mallory"}).to_string();
    let request = format!(
        "POST /api/v1/dsar/erase HTTP/1.1\r\nhost: {}\r\nx-api-key: {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        world.nodes[1].admin,
        world.admin,
        body.len()
    );
    let mut client = Client::try_connect(world.nodes[1].admin).expect("it listens");
    client.send(request.as_bytes());
    eventually(PATIENCE, "the erasure is under way", || world.server.sql(notes) == "1");
    world.nodes[1].signal("KILL");
    world.server.sql("DROP TRIGGER wait ON portcullis_entries");
    assert_eq!(world.server.sql(notes), "1", "it was cut short");
    eventually(PATIENCE, "another node has finished it", || world.server.sql(notes) == "0");
    let own = world.node_id(0);
    let recorded = format!("event_type=entity_erased&node={own}");
    eventually(PATIENCE, "it is recorded there", || world.audit(0, &recorded)["total"] == 1);
    let holds = world.call(0, "GET", "/api/v1/legal-holds", &Value::Null).text();
    assert!(holds.contains(&id) && !holds.contains("mallory"), "nobody can read the name");
}
