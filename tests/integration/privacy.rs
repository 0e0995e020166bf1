//! Whoever is erased is gone from every file of the state directory, and what remains still verifies.

use std::fs;
use std::path::Path;
use std::thread;

use serde_json::Value;
use serde_json::json;

use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::gateway::program;
use crate::upstream::Upstream;
use crate::wire::Client;
use crate::wire::Response;
use crate::wire::exchange;
use crate::wire::post;

const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;
const ALICE: &str = "alice.lidell@example.org";
const SLOT_BYTES: usize = 64;
const KEY_BYTES: usize = 32;

struct World {
    gateway: Gateway,
    _upstream: Upstream,
}

fn world(more: &str) -> World {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = Gateway::start(&format!(
        "[audit]\ndurability = \"wait\"\n{more}\n[[routes]]\nname = \"all\"\npath_prefix = \"/\"\n\
         upstream = \"http://{}\"\ndialect = \"openai\"\n\n{UNLIMITED}",
        upstream.address
    ));
    World { gateway, _upstream: upstream }
}

impl World {
    fn admin(&self, method: &str, path: &str, body: &Value) -> Response {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.gateway.admin_key(),
            body.len()
        );
        exchange(self.gateway.admin, request.as_bytes())
    }

    fn hold(&self, entity: &str) -> Response {
        let hold = json!({ "entity_id": entity, "entity_type": "user", "reason": format!("what {entity} did"), "issued_by": "counsel" });
        self.admin("POST", "/api/v1/legal-holds", &hold)
    }

    fn erase(&self, entity: &str) -> Response {
        self.admin("POST", "/api/v1/dsar/erase", &json!({ "entity_id": entity }))
    }

    fn export(&self, entity: &str) -> Value {
        let answer = self.admin("POST", "/api/v1/dsar/export", &json!({ "entity_id": entity }));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    fn entries(&self, query: &str) -> Vec<Value> {
        let answer = self.admin("GET", &format!("/api/v1/audit?{query}"), &Value::Null);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["entries"].as_array().expect("entries").clone()
    }

    fn state(&self) -> std::path::PathBuf {
        self.gateway.directory().join("state")
    }
}

/// Returns the files below a folder that hold some bytes, in one of the shapes a program may have left them in.
pub fn holding(folder: &Path, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in
            fs::read_dir(&folder).expect("it is a folder").map(|entry| entry.expect("readable").path())
        {
            if entry.is_dir() {
                pending.push(entry);
            } else if entry.is_file() && contains(&fs::read(&entry).expect("readable"), bytes) {
                found.push(entry.display().to_string());
            }
        }
    }
    found
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    let Some(first) = needle.first() else { return true };
    let mut from = 0;
    while let Some(at) = haystack[from..].iter().position(|byte| byte == first) {
        if haystack[from + at..].starts_with(needle) {
            return true;
        }
        from += at + 1;
    }
    false
}

/// Returns the keys in the file of keys.
fn keys(state: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(state.join("subjects.keys")).expect("the file of keys");
    let slots = bytes.chunks_exact(SLOT_BYTES).skip(1);
    slots
        .map(|slot| slot[SLOT_BYTES - KEY_BYTES..].to_vec())
        .filter(|key| key.iter().any(|b| *b != 0))
        .collect()
}

#[test]
fn names_are_counted_by_how_well_their_holders_are_known() {
    let world = world("");
    let secret = BODY.replace("hello", &format!("AKIA{}", "Z7VRSQ5TJN2WMPLX"));
    for (credential, body, status) in
        [("one", BODY, 200), ("two", BODY, 200), ("two", &secret, 403), ("three", &secret, 403)]
    {
        let sent = post("/v1/chat/completions", &format!("authorization: Bearer {credential}\r\n"), body);
        assert_eq!(exchange(world.gateway.proxy, &sent).status, status, "{credential}");
    }
    // The provider took the credentials of two; the third one's it never saw.
    let figure = |metrics: &str, of: &str| -> u64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(of)?.strip_prefix(' ')?.parse().ok());
        line.unwrap_or_default()
    };
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let metrics = world.admin("GET", "/metrics", &Value::Null).text();
        let names =
            |standing: &str| figure(&metrics, &format!("portcullis_names{{standing=\"{standing}\"}}"));
        if (names("caller"), names("stranger")) == (2, 1) && names("known") > 0 {
            assert_eq!(figure(&metrics, "portcullis_names_aged_out_total"), 0);
            return;
        }
        assert!(std::time::Instant::now() < until, "{metrics}");
        thread::yield_now();
    }
}

#[test]
fn whoever_is_erased_is_in_no_file_and_the_chain_verifies() {
    let mut world = world("segment_bytes = 65536");
    // A caller of a provider, whose id is the hash of its credential, and somebody that a hold is about.
    for _ in 0..300 {
        let sent = post("/v1/chat/completions", "authorization: Bearer a-credential\r\n", BODY);
        assert_eq!(exchange(world.gateway.proxy, &sent).status, 200);
    }
    let caller =
        world.entries("event_type=exchange&limit=1")[0]["entity"].as_str().expect("a caller").to_owned();
    assert!(caller.starts_with("caller_"), "{caller}");
    assert_eq!(world.hold(ALICE).status, 201);
    assert_eq!(world.hold(&caller).status, 201);
    for _ in 0..2 {
        world.export(ALICE);
    }
    assert_eq!(world.export(&caller)["providers"]["audit"]["events"], 301);
    assert_eq!(world.entries(&format!("entity={caller}&limit=1000")).len(), 302);
    for entity in [ALICE, &caller] {
        let blocked = world.erase(entity);
        assert_eq!(blocked.status, 409);
        assert_eq!(blocked.json(), json!({ "entity_id": entity, "blocked_by": "legal_hold" }));
    }
    for id in ["hold_1", "hold_2"] {
        let released = world.admin("DELETE", &format!("/api/v1/legal-holds/{id}"), &Value::Null);
        assert_eq!((released.status, released.json()), (200, json!({ "status": "released" })));
    }
    // A restart, so that indexes and stores have written what they keep.
    world.gateway.crash_and_restart();
    let before = keys(&world.state());
    for (entity, audit) in [(ALICE, 5), (caller.as_str(), 304)] {
        let erased = world.erase(entity);
        assert_eq!(erased.status, 200, "{}", erased.text());
        assert_eq!(erased.json()["providers"]["audit"], audit, "{}", erased.text());
        assert_eq!(world.export(entity)["providers"], json!({}));
        assert!(world.entries(&format!("entity={entity}")).is_empty());
    }
    let shown: Vec<Value> = world.entries("event_type=exchange&limit=1000");
    assert_eq!(shown.len(), 300);
    assert!(shown.iter().all(|entry| entry["entity"] == "[erased]" && entry["actor"] == "[erased]"));
    let holds = world.admin("GET", "/api/v1/legal-holds", &Value::Null).json();
    assert!(
        holds
            .as_array()
            .expect("holds")
            .iter()
            .all(|hold| hold["entity_id"] == "[erased]" && hold["reason"] == "[erased]")
    );
    verify_offline(&world);
    world.gateway.crash_and_restart();
    let after = keys(&world.state());
    let destroyed: Vec<&Vec<u8>> = before.iter().filter(|key| !after.contains(key)).collect();
    assert_eq!(destroyed.len(), 2);
    for bytes in destroyed.into_iter().map(Vec::as_slice).chain([ALICE.as_bytes(), caller.as_bytes()]) {
        assert_eq!(holding(&world.state(), bytes), Vec::<String>::new());
    }
    // Half of it is not there either, however it may have been split by a page.
    assert_eq!(holding(&world.state(), b"alice.lidell"), Vec::<String>::new());
}

/// What is left verifies without the gateway, and shows nobody who was erased; what was changed since does not.
fn verify_offline(world: &World) {
    let get = |path: &str| world.admin("GET", path, &Value::Null);
    let keep = |name: &str, bytes: &[u8]| {
        let path = world.gateway.directory().join(name);
        fs::write(&path, bytes).expect("the directory is writable");
        path.display().to_string()
    };
    let verify = |arguments: &[&str]| {
        let program = program().args(["audit", "verify"]).args(arguments).output();
        let output = program.expect("the program was built");
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    let keys = keep("jwks.json", &get("/.well-known/jwks.json").body);
    let checkpoint =
        keep("checkpoint.jsonl", format!("{}\n", get("/api/v1/audit/checkpoint").json()).as_bytes());
    let export = get("/api/v1/audit/export");
    assert_eq!(export.header("content-type"), Some("application/x-ndjson"));
    let disposition = export.header("content-disposition").expect("a file name");
    assert!(disposition.starts_with("attachment; filename=\"audit-2") && disposition.ends_with(".jsonl\""));
    let text = export.text();
    assert!(text.contains("[erased]") && !text.contains("alice.lidell"));
    let file = keep("export.jsonl", text.as_bytes());
    let trusted = ["--keys", keys.as_str(), "--checkpoint", checkpoint.as_str()];
    let sound = verify(&[&[file.as_str()], &trusted[..]].concat());
    assert_eq!(sound.0, Some(0), "{}", sound.1);
    assert!(sound.1.contains("sound"), "{}", sound.1);
    // A part of it, and the journal while the gateway runs.
    let part = keep("part.jsonl", &get("/api/v1/audit/export?event_type=hold_created").body);
    assert!(verify(&[&part, "--keys", &keys]).1.contains("sound, 2 entries"), "{}", verify(&[&part]).1);
    let nobody = keep("nobody.json", b"{\"keys\":[]}");
    let unvouched = verify(&[file.as_str(), "--keys", &nobody]);
    assert_eq!(unvouched.0, Some(1), "no key is not any key: {}", unvouched.1);
    let state = world.state().display().to_string();
    let journal = verify(&[&[state.as_str()], &trusted[..]].concat());
    assert_eq!(journal.0, Some(0), "{}", journal.1);
    for changed in [text.replacen("\"allow\"", "\"block\"", 1), text.replacen("[erased]", "[someone]", 1)] {
        let broken = verify(&[&keep("changed.jsonl", changed.as_bytes())]);
        assert_eq!(broken.0, Some(4), "{}", broken.1);
    }
    assert_eq!(verify(&["/nonexistent"]).0, Some(1));
    assert_eq!(verify(&[&keys]).0, Some(1));
    let table = get("/api/v1/audit/export?format=csv");
    let (rows, entries) = (table.text().lines().count(), text.lines().count());
    // One more entry: the first export itself; and neither a first nor a last line.
    assert_eq!(table.header("content-type"), Some("text/csv; charset=utf-8"));
    assert!(rows >= entries - 1, "{rows} rows, {entries} lines");
    assert_eq!(get("/api/v1/audit/export?format=xml").status, 400);
    assert_eq!(get("/api/v1/audit/export?limit=5").status, 400);
}

/// A hold on any name of a user protects it under every other, and erasing it by one forgets it by all.
#[test]
fn a_user_is_one_entity_by_its_name_in_any_spelling_and_by_its_id() {
    let world = world("");
    let user = json!({ "name": "ada", "password": "correct horse battery", "role": "analyst" });
    let made = world.admin("POST", "/api/v1/users", &user);
    assert_eq!(made.status, 201, "{}", made.text());
    let id = made.json()["id"].as_str().expect("an id").to_owned();
    for (number, held) in ["ada", "ADA", &id].into_iter().enumerate() {
        assert_eq!(world.hold(held).status, 201);
        for name in ["ada", "Ada", &id] {
            let blocked = world.erase(name);
            assert_eq!(blocked.status, 409, "{name} while {held} is held: {}", blocked.text());
            assert_eq!(blocked.json()["blocked_by"], "legal_hold");
            let path = format!("/api/v1/legal-holds/check/{name}");
            assert_eq!(world.admin("GET", &path, &Value::Null).json()["under_hold"], true, "{name}");
        }
        let path = format!("/api/v1/legal-holds/hold_{}", number + 1);
        assert_eq!(world.admin("DELETE", &path, &Value::Null).status, 200);
    }
    assert!(!world.entries(&format!("entity={id}")).is_empty());
    assert!(world.export("ADA")["providers"]["audit"]["events"].as_u64() > Some(0));
    let erased = world.erase("ADA");
    assert_eq!(erased.status, 200, "{}", erased.text());
    assert_eq!(erased.json()["providers"]["rbac"], 1);
    for name in ["ada", "ADA", &id] {
        assert!(world.entries(&format!("entity={name}")).is_empty(), "{name} is still named");
        assert_eq!(world.export(name)["providers"], json!({}), "{name}");
    }
    assert_eq!(world.entries("event_type=user_created")[0]["entity"], "[erased]");
    // Nor does what was recorded of it by whoever spelt it otherwise.
    let holds = world.admin("GET", "/api/v1/legal-holds", &Value::Null).json();
    let of_holds = holds.as_array().expect("holds").iter().chain(&entries_about(&world)).count();
    assert_eq!(of_holds, 3 + 3 + 3 + 9, "holds, their beginnings and ends, and blocked erasures");
    for told in holds.as_array().expect("holds") {
        assert_eq!(told["entity_id"], "[erased]", "{told}");
    }
    for told in entries_about(&world) {
        assert_eq!(told["entity"], "[erased]", "{told}");
    }
}

/// Returns what is recorded of holds and of erasures that were blocked.
fn entries_about(world: &World) -> Vec<Value> {
    let kinds = ["hold_created", "hold_released", "erasure_blocked"];
    kinds.into_iter().flat_map(|kind| world.entries(&format!("event_type={kind}"))).collect()
}

/// Names of keys and users lie in no file, neither before nor after they are erased, and outlive a restart.
#[test]
fn names_of_keys_and_users_are_in_no_file() {
    let mut world = world("");
    let (key, user) = ("ci-of-marigold-street", "marigold.quince");
    let made = world.admin("POST", "/api/v1/keys", &json!({ "name": key, "role": "service" }));
    assert_eq!(made.status, 201, "{}", made.text());
    let id = made.json()["id"].as_str().expect("an id").to_owned();
    let told = json!({ "name": user, "password": "correct horse battery", "role": "analyst" });
    assert_eq!(world.admin("POST", "/api/v1/users", &told).status, 201);
    world.gateway.crash_and_restart();
    assert_ne!(holding(&world.state(), id.as_bytes()), Vec::<String>::new(), "the key is stored");
    let login = json!({ "username": user, "password": "correct horse battery" });
    assert_eq!(world.admin("POST", "/api/v1/auth/token", &login).status, 200);
    let listed = world.admin("GET", "/api/v1/keys", &Value::Null).text();
    assert!(listed.contains(key), "{listed}");
    let before = keys(&world.state());
    for (entity, destroyed) in [(key, 2), (user, 4)] {
        let erased = world.erase(entity);
        assert_eq!((erased.status, &erased.json()["providers"]["rbac"]), (200, &json!(1)), "{entity}");
        let after = keys(&world.state());
        assert_eq!(before.iter().filter(|key| !after.contains(key)).count(), destroyed, "{entity}");
    }
    world.gateway.crash_and_restart();
    for name in [key, user, "marigold"] {
        assert_eq!(holding(&world.state(), name.as_bytes()), Vec::<String>::new(), "{name}");
    }
    assert_eq!(world.admin("POST", "/api/v1/auth/token", &login).status, 401);
}

/// Whoever changed the rules is gone from their history as well, which goes on.
#[test]
fn the_history_of_the_rules_forgets_its_authors() {
    let mut world = world("");
    let made = world.admin("POST", "/api/v1/keys", &json!({ "name": "deployer", "role": "operator" })).json();
    let (id, secret) = (text(&made["id"]), text(&made["key"]));
    let change = r#"{"limits":{"scan_ms":1234}}"#;
    let request = format!(
        "PUT /api/v1/config HTTP/1.1\r\nhost: localhost\r\nx-api-key: {secret}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{change}",
        change.len()
    );
    let changed = exchange(world.gateway.admin, request.as_bytes());
    assert_eq!(changed.status, 200, "{}", changed.text());
    let authors = |world: &World| {
        let listed = world.admin("GET", "/api/v1/config/revisions", &Value::Null).json();
        let revisions = listed["revisions"].as_array().expect("revisions").clone();
        revisions.iter().map(|revision| text(&revision["author"])).collect::<Vec<_>>()
    };
    assert_eq!(authors(&world), [id.as_str(), "portcullis"]);
    world.gateway.crash_and_restart();
    assert_eq!(authors(&world), [id.as_str(), "portcullis"]);
    assert_eq!(world.erase("deployer").status, 200);
    assert_eq!(authors(&world), ["[erased]", "portcullis"]);
    world.gateway.crash_and_restart();
    assert_eq!(authors(&world), ["[erased]", "portcullis"]);
    let rules = world.admin("GET", "/api/v1/config", &Value::Null).json();
    assert_eq!((&rules["limits"]["scan_ms"], &rules["revision"]), (&json!(1234), &json!(2)));
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

#[test]
fn holds_and_erasures_that_meet_agree_whoever_wins_and_whenever_it_is_killed() {
    let mut world = world("");
    for round in 0..3 {
        let entities: Vec<String> = (0..25).map(|number| format!("subject-{round}-{number}")).collect();
        let outcomes: Vec<(Option<u16>, Option<u16>)> = thread::scope(|scope| {
            let world = &world;
            let threads: Vec<_> = entities
                .iter()
                .map(|entity| {
                    let hold = scope.spawn(move || send(world, "/api/v1/legal-holds", &json!({ "entity_id": entity, "entity_type": "user", "reason": "case", "issued_by": "counsel" })));
                    let erasure = scope.spawn(move || send(world, "/api/v1/dsar/erase", &json!({ "entity_id": entity })));
                    (hold, erasure)
                })
                .collect();
            if round % 2 == 1 {
                world.gateway.signal("KILL");
            }
            threads
                .into_iter()
                .map(|(hold, erasure)| (hold.join().expect("no panic"), erasure.join().expect("no panic")))
                .collect()
        });
        world.gateway.crash_and_restart();
        for (entity, (hold, erasure)) in entities.iter().zip(&outcomes) {
            let path = format!("/api/v1/legal-holds/check/{entity}");
            let is_held = world.admin("GET", &path, &Value::Null).json()["under_hold"] == true;
            match (hold, erasure) {
                // Whoever was told that it won has won; whoever was told nothing may have.
                (Some(201), _) => assert!(is_held, "{entity}: a hold that was taken is gone"),
                (Some(409), Some(status)) => assert_eq!((*status, is_held), (200, false), "{entity}"),
                (Some(409), None) => assert!(!is_held, "{entity}"),
                (None, Some(409)) => assert!(is_held, "{entity}"),
                (None, _) => {}
                other => panic!("{entity}: {other:?}"),
            }
            if is_held {
                assert_eq!(world.erase(entity).status, 409, "{entity}");
            }
        }
    }
}

/// Posts, and returns the status if there was an answer.
fn send(world: &World, path: &str, body: &Value) -> Option<u16> {
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        world.gateway.admin_key(),
        body.len()
    );
    let mut client = Client::try_connect(world.gateway.admin)?;
    client.send(request.as_bytes());
    client.response().ok().map(|answer| answer.status)
}
