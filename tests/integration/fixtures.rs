//! What earlier programs wrote is read: states as they were left, each kept for ever, come back whole.
//!
//! `tests/fixtures` holds backups, one for each change of what is stored. Where a version is written that none of them
//! holds, a test says so; `UPDATE_FIXTURES=NAME` then adds one of that name, from a gateway that did a little of everything.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis::access::keyring::Keyring;
use portcullis::clock::ManualClock;
use portcullis::govern::analytics::figures::Count;
use portcullis::govern::analytics::meter::Meter;
use portcullis::govern::analytics::period::Period;
use portcullis::govern::analytics::price;
use portcullis::store::open_sled;
use serde_json::Value;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::a2a::Deployment;
use crate::a2a::call;
use crate::a2a::launched;
use crate::a2a::sound;
use crate::gateway::Gateway;
use crate::upstream::Upstream;
use crate::usage::ANSWER;
use crate::usage::CHAT;
use crate::usage::admin;
use crate::wire::Client;
use crate::wire::exchange;
use crate::wire::post;

const FOLDER: &str = "tests/fixtures";
/// Tables without a row in any fixture, and why.
const WITHOUT: &[(&str, &str)] = &[
    ("audit.cluster_checkpoints", "only nodes that share a database have them"),
    ("audit_cursor", "the index of the audit log is made anew"),
    ("audit_plain", "only nodes that share a database have them"),
    ("cluster.leases", "only nodes that share a database have them"),
    ("cluster.nodes", "the same"),
    ("erasures_under_way", "they are there while an erasure runs"),
    ("saml_used", "it takes a provider that speaks SAML"),
    ("subject_keys", "only nodes that share a database have them"),
    ("trust_agents", "where agents lay in the plain: a test of `govern::trust` reads them"),
    ("trust_attestations", "the same"),
];
/// Tables whose name is an argument, by the file that opens them.
const PASSED: &[(&str, &str)] = &[("src/access/spent.rs", "saml_used")];
/// Quotas that nobody uses up, and that take long to be whole again.
const PACED: &str = "[a2a.tiers.community]\nrequests_per_minute = 1\nburst = 500\n[limits.tiers.community]\n\
                     requests_per_minute = 1\nburst = 500\n";
const ADA: &str = "ada.lovelace@mill.example.org";
const BOB: &str = "bob.builder@mill.example.org";

/// A gateway with routes of every kind, and what its files need.
struct World {
    gateway: Gateway,
    deployment: Deployment,
    _upstream: Upstream,
}

impl World {
    /// Starts one in a folder that may hold a state.
    fn start(directory: TempDir) -> Self {
        let (deployment, upstream) = (Deployment::make(), Upstream::answering("application/json", ANSWER));
        let keyed = format!(
            "{PACED}[[siem.sinks]]\nname = \"soc\"\nplatform = \"ocsf_file\"\npath = \"ocsf.jsonl\"\n\
             [[routes]]\nname = \"keyed\"\npath_prefix = \"/keyed\"\nstrip_prefix = true\nauth = \"gateway_key\"\n\
             upstream = \"http://{}\"\ndialect = \"openai\"\n",
            upstream.address
        );
        deployment.install(directory.path(), upstream.address, &keyed);
        Self { gateway: launched(directory), deployment, _upstream: upstream }
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, told) = admin(&self.gateway, method, path, body);
        assert!((200..300).contains(&status), "{method} {path}: {status} {told}");
        told
    }

    /// Does a little of everything that is written down.
    fn live(&self) {
        let budget = json!({ "tokens_per_day": 1_000_000 });
        let key =
            self.ask("POST", "/api/v1/keys", &json!({ "name": ADA, "role": "service", "budget": budget }));
        let key = key["key"].as_str().expect("a key").to_owned();
        let bearer = format!("authorization: Bearer {key}\r\n");
        let tool =
            json!({ "type": "function", "function": { "name": "weather", "description": "of a city" } });
        let asked = json!({ "model": "gpt-4o-mini", "tools": [tool],
            "messages": [{ "role": "user", "content": "my card is 4111 1111 1111 1111" }] });
        let path = format!("/keyed{CHAT}");
        let asked = post(&path, &bearer, &asked.to_string());
        let runtime = Runtime::new().expect("a runtime");
        assert_eq!(runtime.block_on(self.over_tls(&asked)), 200);
        self.ask(
            "POST",
            "/api/v1/users",
            &json!({ "name": "grace", "password": "correct horse battery",
            "role": "auditor" }),
        );
        let token = self.ask(
            "POST",
            "/api/v1/auth/token",
            &json!({ "username": "grace",
            "password": "correct horse battery" }),
        );
        let token = token["access_token"].as_str().expect("a token").to_owned();
        self.with_token("/api/v1/auth/revoke", &token);
        self.ask(
            "POST",
            "/api/v1/legal-holds",
            &json!({ "entity_id": ADA, "entity_type": "user",
            "reason": "a lawsuit", "issued_by": "counsel" }),
        );
        self.ask("POST", "/api/v1/dsar/erase", &json!({ "entity_id": BOB }));
        let variants = json!([{ "name": "usual", "weight": 1, "model_ref": "default" },
            { "name": "none", "weight": 1, "model_ref": "off" }]);
        let test = self.ask(
            "POST",
            "/api/v1/abtest/tests",
            &json!({ "name": "strictness", "description": "d", "variants": variants }),
        );
        let test = test["id"].as_str().expect("an id").to_owned();
        self.ask("POST", &format!("/api/v1/abtest/tests/{test}/start"), &json!({}));
        let result = json!({ "request_id": "order-4712", "variant_name": "usual", "detected": true,
            "false_positive": false, "latency_ms": 2.5 });
        self.ask("POST", &format!("/api/v1/abtest/tests/{test}/result"), &result);
        self.ask("PUT", "/api/v1/config", &json!({ "limits": { "concurrent_requests_per_caller": 77 } }));
        let client = self.deployment.authority.agent("planner");
        let at = (self.gateway.proxy, &self.deployment.server);
        let told = runtime.block_on(call(at, Some(&client), "http/1.1", "/agents/x", &sound()));
        assert_eq!(told.status, 200, "{told:?}");
    }

    async fn over_tls(&self, request: &[u8]) -> u16 {
        use tokio::io::AsyncReadExt;
        use tokio::io::AsyncWriteExt;
        let mut stream =
            crate::h2::tls(self.gateway.proxy, &self.deployment.server, "http/1.1").await.expect("TLS");
        stream.write_all(request).await.expect("a connection");
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.expect("a head");
        String::from_utf8_lossy(&head[9..]).parse().expect("a status")
    }

    fn with_token(&self, path: &str, token: &str) {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-length: 0\r\n\r\n"
        );
        let answer = exchange(self.gateway.admin, request.as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    /// Signs in with the first key, as a browser does.
    fn sign_in(&self) {
        let body = format!("key={}", self.gateway.admin_key());
        let mut client = Client::connect(self.gateway.admin);
        client.send(
            format!(
                "POST /login HTTP/1.1\r\nhost: {0}\r\norigin: http://{0}\r\ncontent-type: application/x-www-form-urlencoded\r\n\
                 content-length: {1}\r\n\r\n{body}",
                self.gateway.admin,
                body.len()
            )
            .as_bytes(),
        );
        let head = client.head().expect("a head");
        assert_eq!(head.status, 303, "{head:?}");
    }

    /// Ends the gateway, which writes down the last; returns its folder's backup.
    fn backup(mut self, name: &str) -> Vec<u8> {
        self.gateway.end_and_restart();
        let (code, told) = run(self.gateway.directory(), &["backup", "-c", "gateway.toml", name]);
        assert_eq!(code, Some(0), "{told}");
        fs::read(self.gateway.directory().join(name)).expect("a backup")
    }
}

fn run(directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_portcullis"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("the program was built");
    let told = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(told).expect("it writes text"))
}

fn fixtures() -> Vec<PathBuf> {
    let files = fs::read_dir(FOLDER).expect("the fixtures").map(|file| file.expect("a file").path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|it| it == "backup")).collect();
    files.sort();
    files
}

/// Returns the tables of a backup, with the versions of their records.
fn versions(backup: &[u8]) -> BTreeSet<(String, u64)> {
    let lines = backup.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let records = lines.map(|line| serde_json::from_slice::<Value>(line).expect("a line of JSON"));
    records
        .filter_map(|line| {
            let record = line.get("record")?;
            let value = STANDARD.decode(record["value"].as_str()?).ok()?;
            // The index of the audit log is made anew; its keys hold no records.
            let version = serde_json::from_slice::<Value>(&value).ok()?["v"].as_u64()?;
            Some((record["table"].as_str()?.to_owned(), version))
        })
        .collect()
}

#[test]
fn each_version_that_is_written_is_kept_in_a_fixture() {
    let world = World::start(tempfile::tempdir().expect("a folder"));
    world.live();
    world.sign_in();
    let backup = world.backup("now.backup");
    if let Ok(name) = std::env::var("UPDATE_FIXTURES") {
        fs::create_dir_all(FOLDER).expect("a folder");
        fs::write(format!("{FOLDER}/{name}.backup"), &backup).expect("a file");
    }
    let kept: BTreeSet<(String, u64)> =
        fixtures().iter().flat_map(|path| versions(&fs::read(path).expect("a file"))).collect();
    let new: Vec<_> = versions(&backup).into_iter().filter(|it| !kept.contains(it)).collect();
    assert!(new.is_empty(), "no fixture holds {new:?}: add one with UPDATE_FIXTURES=NAME");
    let known: BTreeSet<&str> = kept.iter().map(|(table, _)| table.as_str()).collect();
    let missing: Vec<String> = tables_in_code()
        .into_iter()
        .filter(|table| !known.contains(table.as_str()))
        .filter(|table| !WITHOUT.iter().any(|(without, _)| table == without))
        .collect();
    assert!(missing.is_empty(), "no fixture has a record of {missing:?}, and WITHOUT does not say why");
}

/// Returns the names of tables of records, as the code has them: texts and constants that tables are opened by.
fn tables_in_code() -> BTreeSet<String> {
    let sources = sources();
    let mut found = BTreeSet::new();
    for (path, code) in &sources {
        for name in opened_by(code) {
            if let Some(text) = name.strip_prefix('"') {
                found.extend(text.split('"').next().filter(|text| text.len() > 1).map(str::to_owned));
                continue;
            }
            let known = constants(&sources, path, name.rsplit("::").next().unwrap_or(name));
            assert!(!known.is_empty(), "{}: nobody knows which table `{name}` is", path.display());
            found.extend(known);
        }
    }
    found
}

/// Returns what tables are opened by in a file.
fn opened_by(code: &str) -> impl Iterator<Item = &str> {
    let calls = code.match_indices(".table").filter_map(|(at, call)| {
        let rest = &code[at + call.len()..];
        let rest = match rest.strip_prefix("::<") {
            Some(types) => types.split_once('(')?.1,
            None => rest.strip_prefix('(')?,
        };
        rest.split(')').next()
    });
    // Without a name it is no table that is opened; what else has such a method is a table of a document.
    let is_name = |name: &&str| !name.is_empty() && !name.contains([',', ' ']);
    calls.map(str::trim).filter(is_name).filter(|name| name.ends_with(".table(") || !name.ends_with('('))
}

/// Returns the texts that a name stands for: a constant, of the same file where there are several, the arms of a method
/// that gives a table's name, or what callers pass on.
fn constants(sources: &[(PathBuf, String)], path: &Path, name: &str) -> Vec<String> {
    if let Some((_, passed)) = PASSED.iter().find(|(at, _)| path == Path::new(at)) {
        return vec![(*passed).to_owned()];
    }
    let in_file = |code: &str| -> Vec<String> {
        if name.ends_with(".table(") {
            let body = code
                .split("fn table(")
                .nth(1)
                .and_then(|rest| rest.split("\n    }").next())
                .unwrap_or_default();
            return body.split('"').skip(1).step_by(2).map(str::to_owned).collect();
        }
        let is = format!("const {name}: &str = \"");
        code.split(&is).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
    };
    let here = sources.iter().filter(|(at, _)| at == path).flat_map(|(_, code)| in_file(code));
    let here: Vec<String> = here.collect();
    if !here.is_empty() {
        return here;
    }
    sources.iter().flat_map(|(_, code)| in_file(code)).collect()
}

/// Returns the code of all files, without that of tests.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("src")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let is_test = ["tests.rs", "conformance.rs", "fixture.rs"].iter().any(|it| path.ends_with(it));
            let is_test = is_test || path.to_string_lossy().ends_with("_tests.rs");
            if !is_test && path.extension().is_some_and(|it| it == "rs") {
                let text = fs::read_to_string(&path).expect("a source");
                let code = text.split("#[cfg(test)]\nmod").next().unwrap_or_default().to_owned();
                found.push((path, code));
            }
        }
    }
    found
}

#[test]
fn what_was_written_by_earlier_programs_comes_back_whole() {
    let fixtures = fixtures();
    assert!(!fixtures.is_empty());
    for fixture in fixtures {
        let directory = tempfile::tempdir().expect("a folder");
        let into = directory.path().join("state").display().to_string();
        let from = fs::canonicalize(&fixture).expect("a file").display().to_string();
        let (code, told) = run(directory.path(), &["restore", &from, "--into", &into]);
        assert_eq!(code, Some(0), "{from}: {told}");
        assert!(told.contains("the audit log is sound"), "{told}");
        usage_comes_back(&directory.path().join("state"));
        comes_back(&World::start(directory));
    }
}

/// Usage is not kept for ever, but fixtures are: it is read by a clock that stands where they were made.
fn usage_comes_back(state: &Path) {
    let store = open_sled(&state.join("store")).expect("the store");
    let keyring = Arc::new(Keyring::open(&state.join("subjects.keys")).expect("the keys"));
    let moment = |text: &str| text.parse().expect("a moment");
    let (from, to) = (moment("2026-01-01T00:00:00Z"), moment("2026-12-31T00:00:00Z"));
    let prices = price::load(None).expect("the prices");
    let meter = Meter::new(&store, keyring, Arc::new(ManualClock::new(to)), prices);
    let days = meter.by_day(Period::touching(from, to)).expect("the days");
    let used: u64 = days.values().map(|roll| roll.total[Count::Total]).sum();
    assert!(used >= 100, "{used}");
}

fn comes_back(world: &World) {
    let list = |path: &str| world.ask("GET", path, &json!({}));
    assert!(list("/api/v1/keys").to_string().contains(ADA));
    assert!(list("/api/v1/users").to_string().contains("grace"));
    assert_eq!(list("/api/v1/legal-holds")[0]["entity_id"], ADA);
    let tests = list("/api/v1/abtest/tests");
    assert_eq!((&tests["count"], &tests["tests"][0]["status"]), (&json!(1), &json!("started")), "{tests}");
    let id = tests["tests"][0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(list(&format!("/api/v1/abtest/tests/{id}/metrics"))[0]["total_requests"], 1);
    assert!(list("/api/v1/config/revisions")["revisions"].as_array().is_some_and(|all| all.len() > 1));
    let exchanges = list("/api/v1/audit?event_type=exchange");
    assert!(exchanges["total"].as_u64() > Some(0), "{exchanges}");
    let about = list(&format!("/api/v1/audit?entity={ADA}"));
    assert!(about["total"].as_u64() > Some(0), "{about}");
    assert!(list("/api/v1/siem/status")["platforms"][0]["events_forwarded"].as_u64() > Some(0));
    assert_eq!(admin(&world.gateway, "POST", "/api/v1/dsar/erase", &json!({ "entity_id": ADA })).0, 409);
}
