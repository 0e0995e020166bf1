//! State in PostgreSQL: what is there after the gateway that wrote it, and its directory, are gone.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use serde_json::json;

use super::call;
use super::eventually;
use super::folder;
use super::postgres::Postgres;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;

fn start(folder: tempfile::TempDir) -> Gateway {
    Gateway::launched(folder, vec!["--config".to_owned(), "gateway.toml".to_owned()])
}

#[test]
fn what_was_made_is_in_the_database_and_outlives_a_kill() {
    let mut server = Postgres::start();
    let mut gateway = start(folder(&server.url(), UNLIMITED));
    let admin = gateway.admin_key();
    let persistence = call(&gateway, &admin, "GET", "/api/v1/persistence", &Value::Null).json();
    assert_eq!((&persistence["backend"], &persistence["enabled"]), (&json!("postgresql"), &json!(true)));
    let made = call(&gateway, &admin, "POST", "/api/v1/keys", &json!({"name": "shared", "role": "auditor"}));
    assert_eq!(made.status, 201);
    let auditor = made.json()["key"].as_str().expect("the key is shown once").to_owned();
    let hold = json!({"entity_id": "alice", "entity_type": "user", "reason": "r", "issued_by": "legal"});
    assert_eq!(call(&gateway, &admin, "POST", "/api/v1/legal-holds", &hold).status, 201);
    assert!(!server.sql("SELECT name FROM portcullis_entries WHERE name = 'keys'").is_empty());
    let secrets = server.sql("SELECT encode(value, 'escape') FROM portcullis_entries");
    assert!(!secrets.contains(&auditor) && !secrets.contains("alice"), "neither keys nor names lie there");

    gateway.crash_and_restart();
    assert_eq!(call(&gateway, &auditor, "GET", "/api/v1/audit", &Value::Null).status, 200);
    let held = call(&gateway, &admin, "GET", "/api/v1/legal-holds/check/alice", &Value::Null).json();
    assert_eq!(held["under_hold"], json!(true));

    // Without the database: who is known goes on, what cannot be kept is refused, and it is told.
    server.kill();
    assert_eq!(call(&gateway, &auditor, "GET", "/api/v1/audit", &Value::Null).status, 200);
    let refused = call(&gateway, &admin, "POST", "/api/v1/keys", &json!({"name": "x", "role": "auditor"}));
    assert_eq!(refused.status, 503, "{}", refused.text());
    server.restart();
    eventually(Duration::from_secs(10), "the database is found again", || {
        let made = call(&gateway, &admin, "POST", "/api/v1/keys", &json!({"name": "x", "role": "auditor"}));
        made.status == 201
    });
}

#[test]
fn a_second_gateway_is_not_let_in_and_wrong_settings_are_named() {
    let server = Postgres::start();
    let first = start(folder(&server.url(), UNLIMITED));
    let run = |folder: &tempfile::TempDir, variable: (&str, &str)| {
        let output = Command::new(env!("CARGO_BIN_EXE_portcullis"))
            .args(["run", "--config", "gateway.toml"])
            .env("PORTCULLIS__PROXY__LISTEN", "127.0.0.1:0")
            .env("PORTCULLIS__ADMIN__LISTEN", "127.0.0.1:0")
            .env(variable.0, variable.1)
            .current_dir(folder.path())
            .output()
            .expect("it runs");
        assert!(!output.status.success());
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
    };
    let other = folder(&server.url(), UNLIMITED);
    let said = run(&other, ("UNUSED", ""));
    assert!(said.contains("uses the same database"), "{said}");
    let said = run(&other, ("PORTCULLIS__STORE__POSTGRES__URL_FILE", "missing.url"));
    assert!(said.contains("store.postgres.url_file") && said.contains("cannot be read"), "{said}");
    let said = run(&other, ("PORTCULLIS__STORE__POSTGRES__SECRET_FILE", "postgres.url.missing"));
    assert!(said.contains("store.postgres.secret_file"), "{said}");
    fs::write(other.path().join("deployment.secret"), "another-secret-of-thirty-two-characters")
        .expect("it is writable");
    let said = run(&other, ("PORTCULLIS__STORE__IN_MEMORY", "true"));
    assert!(said.contains("outlives the process"), "{said}");
    let said = run(&other, ("PORTCULLIS__STORE__BACKEND", "mysql"));
    assert!(said.contains("expected sled or postgres"), "{said}");
    fs::write(other.path().join("postgres.url"), "postgres://u:hidden@127.0.0.1:1/d").expect("writable");
    let said = run(&other, ("PORTCULLIS__STORE__POSTGRES__TLS", "false"));
    assert!(said.contains("the database cannot be used") && !said.contains("hidden"), "{said}");
    drop(first);
}
