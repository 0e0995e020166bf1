//! A database that loses what it had confirmed, as by a failover to a standby that lagged behind: no node goes on with what
//! there is no more.

use std::time::Duration;

use serde_json::Value;
use serde_json::json;

use super::Deployment;
use super::call;
use super::eventually;

const NODES: usize = 3;
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns what a node holds of what the test made: the names of its keys, a limit, and whether somebody is under a hold.
fn held(world: &Deployment, node: usize) -> (Vec<String>, Value, Value) {
    let keys = world.call(node, "GET", "/api/v1/keys", &Value::Null).json();
    let name = |key: &Value| key["name"].as_str().filter(|name| *name != "first admin").map(str::to_owned);
    let mut names: Vec<String> = keys["keys"].as_array().into_iter().flatten().filter_map(name).collect();
    names.sort();
    let config = world.call(node, "GET", "/api/v1/config", &Value::Null).json();
    let hold = world.call(node, "GET", "/api/v1/legal-holds/check/bob", &Value::Null).json();
    (names, config["limits"]["json_depth_max"].clone(), hold["under_hold"].clone())
}

fn converge(world: &Deployment, what: &str, expected: &(Vec<String>, Value, Value)) {
    eventually(PATIENCE, what, || (0..NODES).all(|node| held(world, node) == *expected));
}

fn try_limit(world: &Deployment, node: usize, depth: u64) -> u16 {
    world.call(node, "PUT", "/api/v1/config", &json!({"limits": {"json_depth_max": depth}})).status
}

fn limit(world: &Deployment, node: usize, depth: u64) {
    assert_eq!(try_limit(world, node, depth), 200);
}

#[test]
fn what_a_database_lost_no_node_goes_on_with() {
    let mut world = Deployment::start(NODES);
    let key = |world: &Deployment, name: &str| {
        world.call(0, "POST", "/api/v1/keys", &json!({"name": name, "role": "auditor"})).json()
    };
    let kept = key(&world, "kept");
    limit(&world, 1, 30);
    let before = (vec!["kept".to_owned()], json!(30), json!(false));
    converge(&world, "all nodes know what is kept", &before);
    world.server.keep_data();
    eventually(PATIENCE, "the database takes writes of every node again", || {
        (0..NODES).all(|node| try_limit(&world, node, 30) == 200)
    });

    key(&world, "lost");
    limit(&world, 2, 31);
    let hold = json!({"entity_id": "bob", "entity_type": "user", "reason": "r", "issued_by": "legal"});
    assert_eq!(world.call(0, "POST", "/api/v1/legal-holds", &hold).status, 201);
    let after = (vec!["kept".to_owned(), "lost".to_owned()], json!(31), json!(true));
    converge(&world, "all nodes know what is lost later", &after);

    world.server.bring_back_data();
    converge(&world, "no node goes on with what is lost", &before);
    world.settle();
    // What is done now counts everywhere: the versions of tables are those that nodes had seen before.
    let (id, secret) = (kept["id"].as_str().expect("an id"), kept["key"].as_str().expect("a key"));
    assert_eq!(world.call(0, "DELETE", &format!("/api/v1/keys/{id}"), &Value::Null).status, 200);
    limit(&world, 2, 40);
    eventually(PATIENCE, "a key that is revoked counts nowhere", || {
        let status = |node| call(&world.nodes[node], secret, "GET", "/api/v1/audit", &Value::Null).status;
        (0..NODES).all(|node| status(node) == 401)
    });
    converge(&world, "all nodes serve the new rules", &(Vec::new(), json!(40), json!(false)));
}
