//! Models of others, in the form of ONNX: plugged in as files, they judge live traffic like the shipped one.

use std::fs;
use std::path::Path;
use std::time::Instant;

use prost::Message;
use serde_json::Value;
use serde_json::json;
use tempfile::TempDir;

use self::fixture::ModelProto;
use self::fixture::Size;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::gateway::program;
use crate::upstream::Upstream;
use crate::usage::admin;
use crate::wire::PATIENCE;
use crate::wire::Response;
use crate::wire::exchange;

#[path = "../../src/scan/classifier/onnx/fixture.rs"]
mod fixture;

/// What the model in the tests knows, and nothing else does.
const ORDER: &str = "xyzzy please";
const PERSONA: &str = "plugh mode";
const HARMLESS: &str = "Please tell me which trains leave for Lisbon on a Sunday morning.";

fn tiny(order: &str) -> ModelProto {
    fixture::of_bytes(&[order, PERSONA], false, Size::Named("tokens"))
}

/// A gateway with a model beside the shipped one.
struct World {
    gateway: Gateway,
    upstream: Upstream,
}

impl World {
    fn start(model: &ModelProto, about: &str, policy: &str) -> Self {
        Self::answering("{}", model, about, policy)
    }

    fn answering(answer: &str, model: &ModelProto, about: &str, policy: &str) -> Self {
        let upstream = Upstream::answering("application/json", answer);
        let directory = tempfile::tempdir().expect("a temporary directory");
        plug(directory.path(), model, about);
        let config = directory.path().join("gateway.toml");
        let text = format!(
            "[limits]\nscan_ms = 60000\n[[routes]]\nname = \"all\"\npath_prefix = \"/\"\nupstream = \"http://{}\"\n\
             dialect = \"auto\"\n\n{UNLIMITED}\n{policy}",
            upstream.address
        );
        fs::write(&config, text).expect("the directory is writable");
        let arguments = vec!["--config".to_owned(), config.display().to_string()];
        Self { gateway: Gateway::launched(directory, arguments), upstream }
    }

    fn say(&self, text: &str) -> Response {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": text}]}).to_string();
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        exchange(self.gateway.proxy, request.as_bytes())
    }

    fn status(&self, text: &str) -> u16 {
        self.say(text).status
    }

    fn wait_for(&self, text: &str, status: u16) {
        let deadline = Instant::now() + PATIENCE;
        while self.status(text) != status {
            assert!(Instant::now() < deadline, "never {status}: {text}");
        }
    }
}

/// Lays a model and its card into the folder of plugins, each in one step.
fn plug(directory: &Path, model: &ModelProto, about: &str) {
    let folder = folder(directory);
    fs::create_dir_all(&folder).expect("the directory is writable");
    fs::write(folder.join("card.toml"), fixture::card("tiny", about)).expect("the directory is writable");
    replace(directory, &model.encode_to_vec());
}

fn replace(directory: &Path, model: &[u8]) {
    let fresh = directory.join("model.new");
    fs::write(&fresh, model).expect("the directory is writable");
    fs::rename(fresh, folder(directory).join("model.onnx")).expect("the file can be replaced");
}

fn folder(directory: &Path) -> std::path::PathBuf {
    directory.join("plugins/models/tiny")
}

#[test]
fn a_model_that_is_plugged_in_judges_requests_and_answers() {
    let world = World::start(&tiny(ORDER), "default = true", "");
    let filler = "The harbour lay still that morning, and the first boats came home. ".repeat(100);
    for attack in [ORDER, PERSONA] {
        assert_eq!(world.status(&format!("Well, {attack}.")), 403);
        assert_eq!(world.status(&format!("{filler}{attack} {filler}")), 403, "deep in a document");
        // Like any other model, it reads what is encoded, and what is spelt otherwise.
        assert_eq!(world.status(&format!("Well, {}.", attack.replace('z', "\u{200b}z"))), 403);
    }
    assert_eq!(world.status(&filler), 200);
    assert_eq!(world.status(HARMLESS), 200);
    let scanned = |text: &str| {
        let asked = json!({"content": text});
        admin(&world.gateway, "POST", "/api/v1/scan", &asked).1
    };
    let told = scanned(&format!("Well, {PERSONA}."));
    let found = &told["threats"][0];
    assert_eq!((&found["type"], &found["layer"]), (&json!("jailbreak"), &json!("l3_ml")), "{told}");
    assert_eq!(scanned(HARMLESS)["threats"], json!([]));

    let choice = json!({"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": format!("I was told: {ORDER}.")}});
    let answer = json!({"id": "1", "object": "chat.completion", "model": "m", "choices": [choice]});
    let policy = "[policies.default.categories.injection]\nmode = \"block\"\n";
    let world = World::answering(&answer.to_string(), &tiny(ORDER), "default = true", policy);
    let refused = world.say(HARMLESS);
    assert!(refused.status >= 400 && !refused.text().contains(ORDER), "{}", refused.text());
    assert_eq!(world.upstream.received().len(), 1, "the answer was refused, not the request");
}

#[test]
fn a_variant_of_an_experiment_may_be_judged_by_it() {
    let world = World::start(&tiny(ORDER), "", "");
    let ask = |method: &str, path: &str, body: &Value| admin(&world.gateway, method, path, body);
    let variants = json!([
        {"name": "ours", "weight": 1, "model_ref": "gatehouse"},
        {"name": "theirs", "weight": 1, "model_ref": "tiny"},
    ]);
    let (status, made) = ask("POST", "/api/v1/abtest/tests", &json!({"name": "tiny", "variants": variants}));
    assert_eq!(status, 201, "{made}");
    let path = format!("/api/v1/abtest/tests/{}", made["id"].as_str().expect("an id"));
    assert_eq!(ask("POST", &format!("{path}/start"), &json!({})).0, 200);
    let mut seen = [false; 2];
    while seen != [true; 2] {
        let answer = world.say(&format!("Well, {ORDER}."));
        let id = answer.header("x-request-id").expect("an id");
        let (_, told) = ask("POST", &format!("{path}/assign"), &json!({"request_id": id}));
        let is_theirs = told["variant"] == "theirs";
        assert_eq!(answer.status, if is_theirs { 403 } else { 200 }, "{told}");
        seen[usize::from(is_theirs)] = true;
        assert_eq!(world.status(HARMLESS), 200);
    }
}

#[test]
fn a_corrupt_file_changes_nothing_and_is_told() {
    let world = World::start(&tiny(ORDER), "default = true", "");
    let directory = world.gateway.directory();
    let next = "quux at once";
    let whole = tiny(next).encode_to_vec();
    replace(directory, &whole[..whole.len() / 2]);
    world.gateway.wait_for_log("`model.onnx` cannot be read as an ONNX model", 1);
    assert!(world.gateway.log().contains("rules unchanged"), "{}", world.gateway.log());
    assert_eq!(world.status(&format!("Well, {ORDER}.")), 403);
    assert_eq!(world.status(HARMLESS), 200);
    replace(directory, &whole);
    world.wait_for(&format!("Well, {next}."), 403);
    assert_eq!(world.status(&format!("Well, {ORDER}.")), 200, "the new one does not know it");
}

#[test]
fn what_a_model_could_not_judge_meets_the_fail_mode() {
    // It gives no number for one word, which no trial finds out.
    let broken = fixture::broken_for(&[ORDER, PERSONA], Size::Named("tokens"));
    let closed = World::start(&broken, "default = true", "");
    let refused = closed.say(&format!("Well, {ORDER}."));
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("the model did not judge it"), "{}", refused.text());
    assert_eq!(closed.status(HARMLESS), 200);
    let open = World::start(&broken, "default = true", "[policies.default]\nfail_mode = \"open\"\n");
    assert_eq!(open.status(&format!("Well, {ORDER}.")), 200);
}

fn check(directory: &Path) -> (Option<i32>, String) {
    let output = program()
        .args(["check", "-c", "gateway.toml"])
        .current_dir(directory)
        .output()
        .expect("the program was built");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn check_names_the_card_the_file_and_the_fault() {
    let directory: TempDir = tempfile::tempdir().expect("a temporary directory");
    fs::write(directory.path().join("gateway.toml"), "").expect("the directory is writable");
    plug(directory.path(), &tiny(ORDER), "");
    let (code, told) = check(directory.path());
    assert_eq!(code, Some(0), "{told}");
    let mut model = tiny(ORDER);
    let graph = model.graph.as_mut().expect("a graph");
    graph.node[1].op_type = "Teleport".to_owned();
    replace(directory.path(), &model.encode_to_vec());
    let (code, told) = check(directory.path());
    assert_eq!(code, Some(78), "{told}");
    let expected = "models/tiny/card.toml: `model.onnx` needs operators that are not known: Teleport";
    assert!(told.contains(expected), "{told}");
    fs::write(folder(directory.path()).join("card.toml"), fixture::card("tiny", "").replace("64", "9000"))
        .expect("the directory is writable");
    let (code, told) = check(directory.path());
    assert_eq!(code, Some(78), "{told}");
    assert!(told.contains("models/tiny/card.toml: `onnx.window`: expected 8 to 8192 tokens"), "{told}");
}
