//! A store that has lost what was safe: it is told, and nothing begins anew in silence.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::crash::answer;
use crate::crash::ask;
use crate::crash::config;
use crate::crash::hold;
use crate::crash::post_json;
use crate::crash::refused_start;
use crate::crash::send;
use crate::gateway::Gateway;
use crate::gateway::program;
use crate::upstream::Step;
use crate::upstream::Upstream;

const HOLDS: usize = 30;
const POLICY: &str = r#"{"id":"mine","categories":{"secrets":{"mode":"block"}}}"#;

/// Starts a gateway, and lets it keep holds and a policy.
fn started(upstream: &Upstream) -> Gateway {
    let gateway = Gateway::start(&config(upstream, ""));
    (0..HOLDS).for_each(|number| assert_eq!(hold(&gateway, &format!("entity-{number}")), 201));
    assert_eq!(post_json(&gateway, "/api/v1/policies", POLICY), 201);
    gateway
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.expect("cp runs").success(), "cp");
}

/// Returns the number of the revision that decides.
fn revision(gateway: &Gateway) -> u64 {
    let decided = send(gateway);
    let policy = decided.header("x-portcullis-policy").expect("a policy decides");
    policy.rsplit_once('@').and_then(|(_, number)| number.parse().ok()).expect("a revision")
}

/// Returns how `doctor` finds the store.
fn told_of_store(gateway: &Gateway) -> Option<String> {
    let output = program()
        .args(["doctor", "--offline", "--json", "--config", "gateway.toml"])
        .current_dir(gateway.directory())
        .output()
        .expect("the program was built");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checks = report["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["name"] == "store")?;
    Some(check["result"].as_str().expect("a result").to_owned())
}

#[test]
fn a_store_that_lost_something_is_not_served_from() {
    let upstream = Upstream::start(vec![Step::Send(answer())]);
    for signal in ["KILL", "TERM"] {
        let mut gateway = started(&upstream);
        gateway.signal(signal);
        gateway.wait_for_end();
        let (store, whole) = (gateway.directory().join("state/store"), gateway.directory().join("whole"));
        copy(&store, &whole);
        let key = gateway.admin_key();
        let bytes = fs::read(store.join("db")).expect("the store's log");
        let length = bytes.len();
        let flipped = [8, 100, length / 4, length / 2].map(|at| {
            let mut changed = bytes.clone();
            changed[at] ^= 0x55;
            Some(changed)
        });
        for damaged in flipped.into_iter().chain([Some(bytes[..length / 2].to_vec()), None]) {
            fs::remove_dir_all(&store).expect("the store is ours");
            if let Some(damaged) = &damaged {
                copy(&whole, &store);
                fs::write(store.join("db"), damaged).expect("the store is ours");
            }
            for _ in 0..2 {
                let said = refused_start(&gateway);
                assert!(said.contains("restore a backup (portcullis restore)"), "{signal}: {said}");
            }
        }
        assert_eq!(told_of_store(&gateway).as_deref(), Some("fault"));
        assert_eq!(gateway.admin_key(), key, "no other key was made");
        fs::remove_dir_all(&store).expect("the store is ours");
        copy(&whole, &store);
        gateway.crash_and_restart();
        assert_eq!(ask(&gateway, "/api/v1/legal-holds").json().as_array().expect("holds").len(), HOLDS);
        assert_eq!(told_of_store(&gateway), None);
    }
}

#[test]
fn a_loss_that_is_accepted_is_told_and_no_revision_comes_twice() {
    let upstream = Upstream::start(vec![Step::Send(answer())]);
    let mut gateway = started(&upstream);
    let before = revision(&gateway);
    assert!(before > 1, "a policy was made");
    gateway.signal("KILL");
    gateway.wait_for_end();
    let acceptance = gateway.directory().join("state/store.accept-loss");
    fs::remove_dir_all(gateway.directory().join("state/store")).expect("the store is ours");
    fs::write(&acceptance, "").expect("the directory is ours");
    gateway.crash_and_restart();
    let log = gateway.log();
    for (text, times) in [
        ("the store goes on with what is left of it", 1),
        ("all revisions were lost", 1),
        ("the admin keys were lost, and another was written", 1),
        ("the first start", 1),
        ("the first admin key was written", 1),
    ] {
        assert_eq!(log.matches(text).count(), times, "{text}\n{log}");
    }
    assert!(!acceptance.exists(), "it counts for one start");
    let after = revision(&gateway);
    assert!(after > before, "{after} after {before}");
    assert_eq!(hold(&gateway, "anew"), 201);
    gateway.end_and_restart();
    assert_eq!(revision(&gateway), after);
    assert_eq!(ask(&gateway, "/api/v1/legal-holds").json().as_array().expect("holds").len(), 1);
}
