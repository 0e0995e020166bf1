//! State in PostgreSQL: what is there after the gateway that wrote it, and its directory, are gone.

use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use rcgen::CertificateParams;
use rcgen::KeyPair;
use serde_json::Value;
use serde_json::json;

use super::call;
use super::eventually;
use super::folder;
use super::free_port;
use super::postgres::Postgres;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::gateway::program;

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
        let output = program()
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
    let said = waits(&other);
    assert!(said.contains("the database cannot be used: ") && !said.contains("hidden"), "{said}");
    drop(first);
}

/// Starts a gateway whose database cannot be reached; returns what it says of that, and ends it.
fn waits(folder: &tempfile::TempDir) -> String {
    let mut process = program()
        .args(["run", "--config", "gateway.toml"])
        .env("PORTCULLIS__PROXY__LISTEN", "127.0.0.1:0")
        .env("PORTCULLIS__ADMIN__LISTEN", "127.0.0.1:0")
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let lines = BufReader::new(process.stderr.take().expect("it is piped")).lines();
    let said = lines.map(|line| line.expect("text")).find(|line| line.contains("waits for the database"));
    process.kill().and_then(|()| process.wait()).expect("it runs until it is ended");
    said.expect("it waits")
}

/// A failover that takes a moment, or a database that starts after its gateways, is no reason to end.
#[test]
fn a_start_waits_for_a_database_that_is_away() {
    let port = free_port();
    let mut server = Postgres::start_on(port);
    let mut gateway = start(folder(&Postgres::url_at(port), UNLIMITED));
    let admin = gateway.admin_key();
    server.kill();
    let log = gateway.log_path();
    thread::scope(|scope| {
        scope.spawn(|| gateway.crash_and_restart());
        eventually(Duration::from_secs(60), "it waits", || {
            fs::read_to_string(&log).is_ok_and(|log| log.contains("waits for the database"))
        });
        server.restart();
    });
    assert_eq!(call(&gateway, &admin, "GET", "/api/v1/keys", &Value::Null).status, 200);
}

/// Lets a server speak TLS only, under a certificate for a name; returns the certificate.
fn speak_tls(server: &Postgres, name: &str) -> String {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    // The server's own user has to own them.
    for (file, text) in [("server.key", key.serialize_pem()), ("server.crt", certificate.clone())] {
        server.sql(&format!(
            "COPY (SELECT unnest(string_to_array('{text}', E'\\n'))) TO PROGRAM 'umask 077; cat > {file}'"
        ));
    }
    server.sql("COPY (SELECT 1) TO PROGRAM 'cat; sed -i s/^host/hostssl/ pg_hba.conf'");
    server.sql("ALTER SYSTEM SET ssl = on");
    server.sql("SELECT pg_reload_conf()");
    eventually(Duration::from_secs(10), "the server speaks TLS", || server.sql("SHOW ssl") == "on");
    certificate
}

#[test]
fn the_database_is_reached_over_tls_if_its_certificate_is_one_that_is_trusted_and_its_own() {
    let port = free_port();
    let server = Postgres::start_on(port);
    let certificate = speak_tls(&server, "localhost");
    let other = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let other = other.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate").pem();
    let (at_address, over_tls) = (Postgres::url_at(port), "sslmode=verify-full");
    let at_name = at_address.replace("127.0.0.1", "localhost");
    let in_place = |url: &str, trusted: &str, tls: bool| {
        let folder = folder(url, &format!("[cluster]\nenabled = true\n{UNLIMITED}"));
        let (file, ca) = (folder.path().join("gateway.toml"), folder.path().join("ca.pem"));
        let text = fs::read_to_string(&file).expect("it is there");
        let text = text.replace("tls = false", &format!("tls = {tls}\nca_file = \"ca.pem\""));
        fs::write(file, text).and_then(|()| fs::write(ca, trusted)).expect("it is writable");
        folder
    };
    let refused = |url: &str, trusted: &str, tls: bool| {
        let output = program()
            .args(["run", "--config", "gateway.toml"])
            .env("PORTCULLIS__PROXY__LISTEN", "127.0.0.1:0")
            .env("PORTCULLIS__ADMIN__LISTEN", "127.0.0.1:0")
            .current_dir(in_place(url, trusted, tls).path())
            .output()
            .expect("it runs");
        assert!(!output.status.success());
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
    };
    let secured = format!("{at_name}?{over_tls}");
    for (url, trusted, tls, expected) in [
        (&at_name, &other, true, "invalid peer certificate"),
        (&at_address, &certificate, true, "not valid for name"),
        (&at_name, &certificate, false, "no encryption"),
        (&secured, &certificate, false, "asks for TLS, which store.postgres.tls turns off"),
    ] {
        let said = refused(url, trusted, tls);
        assert!(said.contains(expected), "{expected}: {said}");
    }
    for url in [&at_name, &secured] {
        let gateway = start(in_place(url, &certificate, true));
        let over_tcp = "FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE client_addr IS NOT NULL";
        let told = server.sql(&format!("SELECT bool_and(ssl), count(*) > 0 {over_tcp}"));
        assert_eq!(told, "t|t");
        drop(gateway);
    }
}
