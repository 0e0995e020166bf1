//! Three gateways under load, and one thing after the other that goes wrong: a node dies, the database dies or is cut
//! off, Redis is cut off, a node is cut off from the database. No answer is wrong meanwhile; afterwards all agree, and
//! the audit log of all of them is complete and holds together.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use serde_json::json;

use super::Deployment;
use super::eventually;
use super::limits::Redis;
use super::limits::count;
use super::relay::Relay;
use crate::framing::secret;
use crate::wire::Client;
use crate::wire::post;

const CLIENTS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(20);
/// How many more right answers are waited for after each fault.
const ANSWERS: usize = 60;

/// What came of the load.
#[derive(Default)]
struct Counts {
    right: AtomicUsize,
    /// From nodes that were dead.
    none: AtomicUsize,
    wrong: AtomicUsize,
    is_over: AtomicBool,
}

/// Asks one node after the other, as a round robin would: every third text holds a secret.
fn load(counts: &Counts, nodes: &parking_lot::RwLock<Vec<SocketAddr>>, first: usize) {
    for number in first.. {
        if counts.is_over.load(Ordering::Relaxed) {
            return;
        }
        let address = {
            let nodes = nodes.read();
            nodes[number % nodes.len()]
        };
        let has_secret = number % 3 == 0;
        let text = if has_secret { secret() } else { "hello".to_owned() };
        let body = json!({"model": "m", "messages": [{"role": "user", "content": text}]}).to_string();
        let Some(mut client) = Client::try_connect(address) else {
            counts.none.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        client.send(&post("/v1/chat/completions", "", &body));
        match client.response() {
            Ok(answer) if answer.status == if has_secret { 403 } else { 200 } => {
                counts.right.fetch_add(1, Ordering::Relaxed);
            }
            Ok(_) => drop(counts.wrong.fetch_add(1, Ordering::Relaxed)),
            // Only a node that was killed leaves an answer half said.
            Err(_) => drop(counts.none.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

/// Starts three nodes that share quotas, too, none of which is ever reached; returns the way to Redis.
fn start(redis: &Redis) -> (Deployment, Relay) {
    let relay = Relay::to(redis.port);
    let more = "[cluster]\nenabled = true\nlimits = \"redis\"\n[cluster.redis]\nurl_file = \"redis.url\"\n\
                when_away = \"local\"\n[limits.tiers.community]\nrequests_per_minute = 600000\nburst = 100000\n\
                [limits.tiers.enterprise]\nrequests_per_minute = 0\nburst = 0";
    let world = Deployment::start_with(3, more, &[("redis.url", Redis::url_at(relay.port))]);
    (world, relay)
}

/// Cuts the database off from all nodes, and mends that.
fn cut_database(world: &Deployment, go_on: &impl Fn(&str)) {
    world.relays.iter().for_each(Relay::cut);
    go_on("traffic goes on without a word from the database");
    let refused = world.call(0, "POST", "/api/v1/keys", &json!({"name": "y", "role": "auditor"}));
    assert_eq!(refused.status, 503, "{}", refused.text());
    world.relays.iter().for_each(Relay::mend);
    world.settle();
    go_on("the database answers again");
}

#[test]
fn no_answer_is_wrong_whatever_fails() {
    let mut redis = Redis::start();
    let (mut world, to_redis) = start(&redis);
    let counts = Counts::default();
    let addresses: Vec<SocketAddr> = world.nodes.iter().map(|node| node.proxy).collect();
    let nodes = parking_lot::RwLock::new(addresses);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (counts, nodes) = (&counts, &nodes);
            scope.spawn(move || load(counts, nodes, client));
        }
        let go_on = |what: &str| {
            let before = counts.right.load(Ordering::Relaxed);
            eventually(PATIENCE, what, || counts.right.load(Ordering::Relaxed) >= before + ANSWERS);
        };
        go_on("the load runs");

        // The database dies: who is known goes on; what cannot be kept is refused, and it is told.
        world.server.kill();
        go_on("traffic goes on without the database");
        let refused = world.call(0, "POST", "/api/v1/keys", &json!({"name": "x", "role": "auditor"}));
        assert_eq!(refused.status, 503, "{}", refused.text());
        eventually(PATIENCE, "it is told", || {
            world.call(1, "GET", "/health", &Value::Null).json()["status"] == "degraded"
        });
        let ready = (0..3).map(|node| world.call(node, "GET", "/ready", &Value::Null).status);
        assert_eq!(ready.collect::<Vec<_>>(), [200; 3], "a balancer leaves the nodes in: traffic goes on");
        world.server.restart();
        world.settle();
        go_on("the database is back");

        cut_database(&world, &go_on);

        // Redis is cut off, and dies: each node counts for itself, and tells afterwards.
        to_redis.cut();
        go_on("traffic goes on without a word from Redis");
        to_redis.mend();
        redis.kill();
        go_on("traffic goes on without Redis");
        redis.restart();
        let told = count(&world, "told");
        eventually(PATIENCE, "the new one is told", || count(&world, "told") > told);
        go_on("Redis is back");

        // One node is cut off: it goes on with what it knows, takes no holds, and catches up.
        world.relays[2].cut();
        eventually(PATIENCE, "the others miss it", || {
            let health = world.call(0, "GET", "/api/v1/cluster/health", &Value::Null).json();
            let nodes = health["nodes"].as_array().cloned().unwrap_or_default();
            nodes.iter().filter(|node| node["status"] == "missing").count() == 1
        });
        let hold = json!({"entity_id": "eve", "entity_type": "user", "reason": "r", "issued_by": "legal"});
        let erase = world.call(2, "POST", "/api/v1/dsar/erase", &json!({"entity_id": "eve"}));
        assert!(erase.status >= 500, "an erasure that cannot ask for holds is refused: {}", erase.status);
        assert_eq!(world.call(0, "POST", "/api/v1/legal-holds", &hold).status, 201);
        let patch = json!({"limits": {"json_depth_max": 31}});
        assert_eq!(world.call(1, "PUT", "/api/v1/config", &patch).status, 200);
        go_on("traffic goes on at all three");
        world.relays[2].mend();
        eventually(PATIENCE, "it has caught up", || {
            let config = world.call(2, "GET", "/api/v1/config", &Value::Null).json();
            config["limits"]["json_depth_max"] == 31
        });
        eventually(PATIENCE, "the hold is in force there, too", || {
            world.call(2, "POST", "/api/v1/dsar/erase", &json!({"entity_id": "eve"})).status == 409
        });
        world.settle();

        // A node dies: the others miss it; it comes back.
        world.nodes[1].signal("KILL");
        go_on("traffic goes on at the others");
        eventually(PATIENCE, "the others miss it", || {
            world.call(0, "GET", "/api/v1/cluster/health", &Value::Null).json()["status"] == "degraded"
        });
        world.nodes[1].crash_and_restart();
        nodes.write()[1] = world.nodes[1].proxy;
        world.settle();
        go_on("it is back");
        counts.is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(counts.wrong.load(Ordering::Relaxed), 0);
    // No answer was complete before its event was on the disk: nothing that was answered is missing, wherever it is
    // asked for, and the chains of all nodes hold together.
    world.all_shipped();
    let totals: Vec<u64> = (0..3)
        .map(|node| {
            let query = "/api/v1/audit?event_type=exchange&limit=1";
            let found = world.call(node, "GET", query, &Value::Null).json();
            assert_eq!(found["complete"], true);
            found["total"].as_u64().expect("a count")
        })
        .collect();
    let right = counts.right.load(Ordering::Relaxed) as u64;
    assert!(totals.iter().all(|total| *total == totals[0] && *total >= right), "{totals:?} {right}");
    assert!(world.verified(0) >= right);
}
