//! Budgets of several nodes, decided together in a real Redis.

use std::thread;
use std::time::Duration;

use serde_json::Value;
use serde_json::json;

use super::Deployment;
use super::eventually;
use super::limits::Redis;
use super::limits::count;
use crate::upstream::Step;
use crate::upstream::Upstream;
use crate::usage::ANSWER;
use crate::wire::Client;
use crate::wire::exchange;
use crate::wire::post;

const PATIENCE: Duration = Duration::from_secs(20);
/// What one answer says it used.
const USED: u64 = 100;
/// How many clients ask each node at once.
const CLIENTS: usize = 6;

/// Two nodes on a Redis, and a provider that says what it used.
struct World {
    nodes: Deployment,
    /// Answers at once.
    _quick: Upstream,
    /// Answers when it may.
    slow: Upstream,
}

/// What came of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Passed,
    UsedUp,
    Reserved,
    /// Nobody can tell what is left.
    Away,
}

impl World {
    fn start(redis: &Redis, when_away: &str) -> Self {
        let quick = Upstream::answering("application/json", ANSWER);
        let slow = Upstream::start(vec![Step::Wait, Step::Close]);
        let route = |name: &str, upstream: &Upstream| {
            format!(
                "[[routes]]\nname = \"{name}\"\npath_prefix = \"/{name}\"\nupstream = \"http://{}\"\n\
                 strip_prefix = true\nauth = \"gateway_key\"\npolicy = \"default\"\n",
                upstream.address
            )
        };
        let more = format!(
            "[cluster]\nenabled = true\nlimits = \"redis\"\n[cluster.redis]\nurl_file = \"redis.url\"\n\
             when_away = \"{when_away}\"\n{}{}{}",
            crate::gateway::UNLIMITED,
            route("quick", &quick),
            route("slow", &slow)
        );
        let files = [("redis.url", Redis::url_at(redis.port))];
        Self { nodes: Deployment::start_with(2, &more, &files), _quick: quick, slow }
    }

    /// Makes a key with a budget that both nodes know; returns the key and its id.
    fn key(&self, tokens_per_day: u64) -> (String, String) {
        let wanted = json!({"name": "app", "role": "service", "budget": {"tokens_per_day": tokens_per_day}});
        let made = self.nodes.call(0, "POST", "/api/v1/keys", &wanted).json();
        let text = |name: &str| made[name].as_str().expect("a text").to_owned();
        let id = text("id");
        eventually(PATIENCE, "both nodes know the budget", || {
            (0..2).all(|node| self.used(node, &id) == Some(0))
        });
        (text("key"), id)
    }

    /// Returns what a node says was used of a budget.
    fn used(&self, node: usize, id: &str) -> Option<u64> {
        let path = format!("/api/v1/keys/{id}/budget");
        self.nodes.call(node, "GET", &path, &Value::Null).json()["today"]["tokens"].as_u64()
    }

    /// Asks for an answer of so many tokens at the most.
    fn ask(&self, node: usize, key: &str, tokens_max: u64) -> Came {
        let answer = exchange(self.nodes.nodes[node].proxy, &request("quick", key, tokens_max));
        if answer.status == 200 {
            return Came::Passed;
        }
        assert_eq!(answer.status, 429, "{}", answer.text());
        match answer.json()["error"]["code"].as_str() {
            Some("budget_exceeded") => Came::UsedUp,
            Some("budget_reserved") => Came::Reserved,
            Some("rate_limited") => Came::Away,
            other => panic!("{other:?}"),
        }
    }

    /// Asks both nodes by many clients at once until nothing is left; returns how many exchanges passed.
    fn use_up(&self, key: &str) -> u64 {
        let client = |node: usize| {
            let mut passed = 0;
            loop {
                match self.ask(node, key, USED) {
                    Came::Passed => passed += 1,
                    Came::Reserved => {}
                    Came::UsedUp => return passed,
                    Came::Away => panic!("Redis is there"),
                }
            }
        };
        let passed: u64 = thread::scope(|scope| {
            let clients: Vec<_> =
                (0..2 * CLIENTS).map(|number| scope.spawn(move || client(number % 2))).collect();
            clients.into_iter().map(|client| client.join().expect("a count")).sum()
        });
        // Whoever was told too early that nothing is left asks once more.
        passed + client(0) + client(1)
    }

    /// Waits until budgets are decided together.
    fn settle(&self) {
        let (key, _) = self.key(1_000_000);
        eventually(PATIENCE, "Redis is believed", || {
            (0..2).all(|node| self.ask(node, &key, 1) == Came::Passed)
        });
    }
}

fn request(route: &str, key: &str, tokens_max: u64) -> Vec<u8> {
    let body = json!({
        "model": "gpt-4o-mini", "max_tokens": tokens_max, "messages": [{"role": "user", "content": "four words of text"}]
    });
    let path = format!("/{route}/v1/chat/completions");
    post(&path, &format!("authorization: Bearer {key}\r\n"), &body.to_string())
}

#[test]
fn a_budget_is_that_of_all_nodes_together() {
    let mut redis = Redis::start();
    let world = World::start(&redis, "refuse");
    world.settle();
    let (key, id) = world.key(20 * USED);
    assert_eq!(world.use_up(&key), 20, "as at one node");
    eventually(PATIENCE, "the store has it", || (0..2).all(|node| world.used(node, &id) == Some(20 * USED)));

    // Without Redis nobody can tell, and it is counted.
    let (other, other_id) = world.key(5 * USED);
    let away = count(&world.nodes, "away");
    redis.kill();
    assert_eq!([0, 1].map(|node| world.ask(node, &other, 1)), [Came::Away; 2]);
    eventually(PATIENCE, "it is counted", || count(&world.nodes, "away") > away);
    // One that knows nothing is told what was used before.
    redis.restart();
    world.settle();
    let more = json!({"tokens_per_day": 23 * USED});
    let path = format!("/api/v1/keys/{id}/budget");
    assert_eq!(world.nodes.call(0, "PUT", &path, &more).status, 200);
    eventually(PATIENCE, "the other node knows the new limit", || world.ask(1, &key, 1) == Came::Passed);
    assert_eq!(world.use_up(&key), 2, "what was used before counts");
    assert_eq!(world.use_up(&other), 5);
    eventually(PATIENCE, "each answer counts once", || {
        (0..2).all(|node| {
            (world.used(node, &id), world.used(node, &other_id)) == (Some(23 * USED), Some(5 * USED))
        })
    });
}

#[test]
fn what_a_dead_node_reserved_lapses_and_without_redis_each_node_decides_where_that_is_wanted() {
    let mut redis = Redis::start();
    let world = World::start(&redis, "local");
    world.settle();
    let (key, _) = world.key(1000);
    let mut waiting = Client::connect(world.nodes.nodes[0].proxy);
    waiting.send(&request("slow", &key, 900));
    world.slow.wait_until(|received| !received.is_empty());
    assert_eq!(world.ask(1, &key, 200), Came::Reserved);
    world.nodes.nodes[0].signal("KILL");
    eventually(PATIENCE, "it lapses", || world.ask(1, &key, 200) == Came::Passed);

    let away = count_of(&world, 1);
    redis.kill();
    assert_eq!(world.ask(1, &key, 200), Came::Passed);
    eventually(PATIENCE, "it is counted", || count_of(&world, 1) > away);
}

/// Returns how often one node could not reach Redis.
fn count_of(world: &World, node: usize) -> u64 {
    let text = world.nodes.call(node, "GET", "/metrics", &Value::Null).text();
    let wanted = "portcullis_shared_limits_total{result=\"away\"} ";
    text.lines().find_map(|line| line.strip_prefix(wanted)?.parse().ok()).unwrap_or_default()
}
