//! Three gateways on one database: what is made, changed or taken away on one of them is so on all of them.

use std::fs;
use std::thread;

use serde_json::Value;
use serde_json::json;

use super::CONVERGED;
use super::Deployment;
use super::Relay;
use super::call;
use super::eventually;
use crate::gateway::UNLIMITED;
use crate::gateway::program;

fn status(world: &Deployment, node: usize, key: &str, path: &str) -> u16 {
    call(&world.nodes[node], key, "GET", path, &Value::Null).status
}

#[test]
fn what_one_node_does_all_nodes_know() {
    let world = Deployment::start(3);
    let made = world.call(0, "POST", "/api/v1/keys", &json!({"name": "n", "role": "auditor"})).json();
    let (key, id) = (made["key"].as_str().expect("a key"), made["id"].as_str().expect("an id"));
    eventually(CONVERGED, "the key counts everywhere", || {
        (0..3).all(|node| status(&world, node, key, "/api/v1/audit") == 200)
    });
    assert_eq!(world.call(2, "DELETE", &format!("/api/v1/keys/{id}"), &Value::Null).status, 200);
    eventually(CONVERGED, "the key counts nowhere", || {
        (0..3).all(|node| status(&world, node, key, "/api/v1/audit") == 401)
    });

    let before = world.call(0, "GET", "/api/v1/cluster/health", &Value::Null).json()["revision"].clone();
    let patch = json!({"limits": {"json_depth_max": 32}});
    assert_eq!(world.call(1, "PUT", "/api/v1/config", &patch).status, 200);
    let took = eventually(CONVERGED, "every node serves the new revision", || {
        (0..3).all(|node| {
            let config = world.call(node, "GET", "/api/v1/config", &Value::Null).json();
            config["limits"]["json_depth_max"] == 32
        })
    });
    assert!(took < CONVERGED);
    world.settle();
    eventually(CONVERGED, "the nodes tell the new revision", || {
        let after = world.call(2, "GET", "/api/v1/cluster/health", &Value::Null).json();
        after["revision"].as_u64() > before.as_u64() && after["mode"] == "cluster"
    });
    // Several at once: each is made behind the one before it, and nobody who did not ask is told to read again.
    let patches = [16, 17, 18].map(|depth| json!({"limits": {"json_depth_max": depth}}));
    let statuses: Vec<u16> = thread::scope(|scope| {
        let calls: Vec<_> = patches
            .iter()
            .enumerate()
            .map(|(node, patch)| {
                let world = &world;
                scope.spawn(move || world.call(node, "PUT", "/api/v1/config", patch).status)
            })
            .collect();
        calls.into_iter().map(|call| call.join().expect("an answer")).collect()
    });
    assert_eq!(statuses, [200, 200, 200]);
    let depth = |node: usize| {
        world.call(node, "GET", "/api/v1/config", &Value::Null).json()["limits"]["json_depth_max"].clone()
    };
    eventually(CONVERGED, "all serve the same", || depth(0) == depth(1) && depth(1) == depth(2));
}

#[test]
fn nodes_on_a_database_that_tells_nobody_look_by_themselves() {
    const WRITES: usize = 12;
    let config = format!("[cluster]\nenabled = true\n{UNLIMITED}");
    let world = Deployment::start_through(2, &config, &[], |port| {
        Relay::to_one_without(port, &["LISTEN portcullis", "NOTIFY portcullis"])
    });
    let before = world.relays[0].connections();
    for number in 0..WRITES {
        let body = json!({"name": format!("n{number}"), "role": "auditor"});
        let made = world.call(0, "POST", "/api/v1/keys", &body).json();
        let key = made["key"].as_str().expect("a key");
        eventually(CONVERGED * 2, "the key counts at the other node", || {
            status(&world, 1, key, "/api/v1/audit") == 200
        });
    }
    let more = world.relays[0].connections() - before;
    assert!(more < WRITES / 2, "no connection is given up for a word that is not known: {more}");
}

#[test]
fn a_node_that_cannot_read_newer_keys_says_so() {
    let world = Deployment::start(2);
    // A newer release would write such a record; its version is what nobody here reads.
    world.server.sql(
        "UPDATE portcullis_tables SET version = version + 1 WHERE name = 'keys'; \
         INSERT INTO portcullis_entries (name, key, value, version) \
         SELECT 'keys', 'newer', convert_to('{\"v\":99,\"record\":{}}', 'UTF8'), version \
         FROM portcullis_tables WHERE name = 'keys'",
    );
    eventually(CONVERGED * 20, "no node is ready, and all say so", || {
        let shown = |node: usize| world.call(node, "GET", "/api/v1/cluster/health", &Value::Null).json();
        (0..2).all(|node| world.call(node, "GET", "/ready", &Value::Null).status == 503)
            && (0..2).all(|node| shown(node)["status"] == "degraded")
    });
    world.server.sql(
        "UPDATE portcullis_tables SET version = version + 1 WHERE name = 'keys'; \
         UPDATE portcullis_entries SET value = NULL, version = (SELECT version FROM portcullis_tables \
         WHERE name = 'keys') WHERE name = 'keys' AND key = 'newer'",
    );
    eventually(CONVERGED * 5, "both are ready again", || {
        (0..2).all(|node| world.call(node, "GET", "/ready", &Value::Null).status == 200)
    });
    world.settle();
}

#[test]
fn holds_beat_erasures_on_whichever_node() {
    let world = Deployment::start(2);
    let hold = |entity: &str| json!({"entity_id": entity, "entity_type": "user", "reason": "r", "issued_by": "legal"});
    let taken = world.call(0, "POST", "/api/v1/legal-holds", &hold("alice"));
    assert_eq!(taken.status, 201, "{}", taken.text());
    let id = taken.json()["id"].as_str().expect("an id").to_owned();
    // At once, whatever the other node has heard: an erasure asks.
    let refused = world.call(1, "POST", "/api/v1/dsar/erase", &json!({"entity_id": "alice"}));
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert_eq!(world.call(1, "DELETE", &format!("/api/v1/legal-holds/{id}"), &Value::Null).status, 200);
    let erased = world.call(0, "POST", "/api/v1/dsar/erase", &json!({"entity_id": "alice"}));
    assert_eq!(erased.status, 200, "{}", erased.text());
    let shown = world.call(1, "GET", "/api/v1/legal-holds", &Value::Null).text();
    eventually(CONVERGED, "nobody can read the name", || {
        !world.call(1, "GET", "/api/v1/legal-holds", &Value::Null).text().contains("alice")
    });
    assert!(shown.contains(&id), "a released hold is kept");
    for round in 0..12 {
        let entity = format!("bob-{round}");
        let (held, erased) = thread::scope(|scope| {
            let hold =
                scope.spawn(|| world.call(round % 2, "POST", "/api/v1/legal-holds", &hold(&entity)).status);
            let erase = scope.spawn(|| {
                world.call(1 - round % 2, "POST", "/api/v1/dsar/erase", &json!({"entity_id": &entity})).status
            });
            (hold.join().expect("an answer"), erase.join().expect("an answer"))
        });
        // One after the other is fine; both at once must not be: a hold that was taken is in force.
        assert!([(201, 409), (409, 200), (201, 200)].contains(&(held, erased)), "{held} {erased}");
        let is_held =
            world.call(0, "GET", &format!("/api/v1/legal-holds/check/{entity}"), &Value::Null).json();
        assert_eq!(is_held["under_hold"], json!(held == 201), "{entity}: {held} {erased}");
    }
}

#[test]
fn a_hold_on_a_key_holds_its_name_whichever_node_revokes_it() {
    let world = Deployment::start(2);
    let key = world.call(0, "POST", "/api/v1/keys", &json!({"name": "carl", "role": "service"})).json();
    let id = key["id"].as_str().expect("an id").to_owned();
    let path = format!("/api/v1/keys/{id}");
    let hold = json!({"entity_id": id, "entity_type": "key", "reason": "r", "issued_by": "legal"});
    assert_eq!(world.call(0, "POST", "/api/v1/legal-holds", &hold).status, 201);
    eventually(CONVERGED, "the other node knows the key", || {
        world.call(1, "GET", &path, &Value::Null).status == 200
    });
    assert_eq!(world.call(1, "PATCH", &path, &json!({"name": "dora"})).status, 200);
    assert_eq!(world.call(1, "DELETE", &path, &Value::Null).status, 200);
    for (node, name) in [(0, "carl"), (1, "carl"), (0, "dora"), (1, "dora")] {
        let refused = world.call(node, "POST", "/api/v1/dsar/erase", &json!({"entity_id": name}));
        assert_eq!(refused.status, 409, "{node} {name}: {}", refused.text());
    }
    let issuer = world.call(1, "POST", "/api/v1/dsar/erase", &json!({"entity_id": "legal"}));
    assert_eq!(issuer.status, 409, "{}", issuer.text());
}

#[test]
fn people_and_what_they_used_are_known_everywhere() {
    let world = Deployment::start(2);
    let user = json!({"name": "ada", "password": "a long enough pass phrase", "role": "analyst"});
    let made = world.call(0, "POST", "/api/v1/users", &user);
    assert_eq!(made.status, 201, "{}", made.text());
    let id = made.json()["id"].as_str().expect("an id").to_owned();
    let login = json!({"username": "ada", "password": "a long enough pass phrase"});
    eventually(CONVERGED, "the other node knows the user", || {
        world.call(1, "GET", "/api/v1/users", &Value::Null).text().contains(&id)
    });
    let answer = world.call(1, "POST", "/api/v1/auth/token", &login);
    let bearer = answer.json()["access_token"].as_str().expect("a token").to_owned();
    let whoami = |node: usize| {
        let request = format!(
            "GET /api/v1/analytics/usage HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {bearer}\r\n\r\n",
            world.nodes[node].admin
        );
        crate::wire::exchange(world.nodes[node].admin, request.as_bytes()).status
    };
    assert_eq!(whoami(0), 200, "a token of one node counts on the other");
    assert_eq!(world.call(0, "DELETE", &format!("/api/v1/users/{id}"), &Value::Null).status, 200);
    eventually(CONVERGED, "whoever is deleted is out everywhere", || whoami(0) == 401 && whoami(1) == 401);

    for node in 0..2 {
        for _ in 0..5 {
            let body = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;
            let request = crate::wire::post("/v1/chat/completions", "", body);
            assert_eq!(crate::wire::exchange(world.nodes[node].proxy, &request).status, 200);
        }
    }
    eventually(CONVERGED * 5, "figures are of all nodes", || {
        (0..2).all(|node| {
            let usage = world.call(node, "GET", "/api/v1/analytics/usage", &Value::Null).json();
            usage["request_count"] == 10
        })
    });
    assert_eq!(world.upstream.received().len(), 10);
}

/// As from a backup that is restored while its node still runs.
#[test]
fn a_node_whose_state_was_copied_from_one_that_runs_does_not_start() {
    let mut world = Deployment::start(1);
    let node = &world.nodes[0];
    let copy = tempfile::tempdir().expect("a folder");
    for file in ["gateway.toml", "postgres.url", "deployment.secret"] {
        fs::copy(node.directory().join(file), copy.path().join(file)).expect("it is there");
    }
    fs::create_dir(copy.path().join("state")).expect("it is writable");
    fs::copy(node.directory().join("state/node.secret"), copy.path().join("state/node.secret"))
        .expect("the first start made it");
    let refused = program()
        .args(["run", "--config", "gateway.toml"])
        .current_dir(copy.path())
        .env("PORTCULLIS__PROXY__LISTEN", "127.0.0.1:0")
        .env("PORTCULLIS__ADMIN__LISTEN", "127.0.0.1:0")
        .output()
        .expect("the program was built");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("another process runs as this node"), "{said}");
    assert_eq!(world.call(0, "GET", "/health", &Value::Null).status, 200);
    world.nodes[0].crash_and_restart();
    world.settle();
}
