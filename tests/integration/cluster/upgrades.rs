//! Nodes on one database that are upgraded one after the other, each with requests under way.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use serde_json::json;

use super::Deployment;
use super::call;
use super::eventually;
use crate::restart::use_gateway;
use crate::restart::wait_for;

const NODES: usize = 2;
const ROUNDS: usize = 2;
/// How many clients each node has.
const CLIENTS: usize = 2;
/// How many requests are answered between two upgrades.
const ANSWERS: usize = 100;
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn nodes_are_upgraded_one_by_one_and_nothing_fails_or_is_lost() {
    let world = Deployment::start(NODES);
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let answered: usize = thread::scope(|scope| {
        let clients: Vec<_> = (0..NODES * CLIENTS)
            .map(|client| {
                let (address, stop, done) = (world.nodes[client % NODES].proxy, &stop, &done);
                scope.spawn(move || use_gateway(address, stop, done))
            })
            .collect();
        for upgrade in 0..ROUNDS * NODES {
            wait_for(&done, ANSWERS);
            let (node, other) = (upgrade % NODES, (upgrade + 1) % NODES);
            let serving = world.nodes[node].pid();
            world.nodes[node].signal("USR2");
            // What the other one is asked to change meanwhile counts at both.
            let name = format!("made-{upgrade}");
            let made = world.call(other, "POST", "/api/v1/keys", &json!({"name": name, "role": "auditor"}));
            assert_eq!(made.status, 201, "{}", made.text());
            let key = made.json()["key"].as_str().expect("a key").to_owned();
            eventually(PATIENCE, "another process serves", || world.nodes[node].pid() != serving);
            eventually(PATIENCE, "it knows the key", || {
                call(&world.nodes[node], &key, "GET", "/api/v1/audit?limit=1", &Value::Null).status == 200
            });
            world.settle();
        }
        wait_for(&done, ANSWERS);
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("a client")).sum()
    });
    world.all_shipped();
    let found = world.call(0, "GET", "/api/v1/audit?event_type=exchange&limit=1", &Value::Null).json();
    assert_eq!((found["complete"].clone(), found["total"].as_u64()), (json!(true), Some(answered as u64)));
    assert!(world.verified(0) >= answered as u64);
}
