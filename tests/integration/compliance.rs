//! Reports of compliance show the deployment as it is, and frameworks of one's own are taken while it runs.

use std::fs;
use std::time::Instant;

use serde_json::Value;

use crate::framing::POLICY;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::gateway::program;
use crate::upstream::Upstream;
use crate::wire::PATIENCE;
use crate::wire::exchange;
use crate::wire::post;

const OWN: &str = "[framework]\nid = \"house_rules\"\nname = \"House rules\"\nversion = \"1\"\nsource = \"https://example.com\"\n\
    [[control]]\nid = \"1\"\ntitle = \"Exchanges are recorded\"\nchecks = [\"exchanges_recorded\", \"usage_metered\"]\n\
    [[control]]\nid = \"2\"\ntitle = \"Keys are asked for\"\nchecks = [\"gateway_keys_required\"]\n\
    [[control]]\nid = \"3\"\ntitle = \"The coffee machine is clean\"\n";
const CHAT: &str = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;

fn asked(gateway: &Gateway, path: &str) -> (u16, Value) {
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {}\r\nx-api-key: {}\r\n\r\n",
        gateway.admin,
        gateway.admin_key()
    );
    let answer = exchange(gateway.admin, request.as_bytes());
    (answer.status, answer.json())
}

/// Asks until the answer is as it should be.
fn until(gateway: &Gateway, path: &str, is_good: impl Fn(u16, &Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (status, answer) = asked(gateway, path);
        if is_good(status, &answer) {
            return answer;
        }
        assert!(Instant::now() < deadline, "{status} {answer}");
    }
}

#[test]
fn a_framework_of_ones_own_counts_at_once_and_a_faulty_one_never() {
    let upstream = Upstream::answering("application/json", "{}");
    let config = format!(
        "[plugins]\npath = \"mine\"\n[[routes]]\nname = \"all\"\npath_prefix = \"/\"\nupstream = \"http://{}\"\n\
         dialect = \"openai\"\n{UNLIMITED}{POLICY}",
        upstream.address
    );
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::write(directory.path().join("gateway.toml"), &config).expect("it is writable");
    let folder = directory.path().join("mine/frameworks");
    fs::create_dir_all(&folder).expect("it is writable");
    let gateway = Gateway::launched(directory, vec!["--config".to_owned(), "gateway.toml".to_owned()]);
    let path = "/api/v1/compliance?framework=house_rules";
    let (status, unknown) = asked(&gateway, path);
    assert_eq!(status, 400, "{unknown}");
    let names = unknown["valid_frameworks"].as_array().expect("the known ones");
    assert_eq!(names.len(), 8, "{unknown}");

    assert_eq!(exchange(gateway.proxy, &post("/v1/chat/completions", "", CHAT)).status, 200);
    fs::write(folder.join("house.toml"), OWN).expect("it is writable");
    let is_recorded = |status, answer: &Value| status == 200 && answer["controls"][0]["status"] == "pass";
    let report = until(&gateway, path, is_recorded);
    let controls = report["controls"].as_array().expect("a list");
    let statuses: Vec<&Value> = controls.iter().map(|control| &control["status"]).collect();
    // The route takes the caller's own credential; nobody can tell how clean the coffee machine is.
    assert_eq!(statuses, ["pass", "fail", "not_assessed"], "{report}");
    assert_eq!((&report["score"], &report["coverage"]), (&50.0.into(), &66.6.into()), "{report}");
    // The evidence can be seen again by its link.
    let evidence = &controls[0]["evidence"][0];
    let (_, page) = asked(&gateway, evidence["links"][0].as_str().expect("a link"));
    assert_eq!(page["total"].as_f64(), evidence["figure"].as_f64(), "{evidence} {page}");

    fs::write(folder.join("house.toml"), OWN.replace("gateway_keys_required", "keys_of_gold"))
        .expect("it is writable");
    let deadline = Instant::now() + PATIENCE;
    while !gateway.log().contains("there is no such check") {
        assert!(Instant::now() < deadline, "{}", gateway.log());
        std::thread::yield_now();
    }
    assert_eq!(asked(&gateway, path).0, 200);
    let check = program()
        .args(["check", "--config", "gateway.toml"])
        .current_dir(gateway.directory())
        .output()
        .expect("the program was built");
    let told = String::from_utf8_lossy(&check.stderr).into_owned();
    assert_eq!(check.status.code(), Some(78), "{told}");
    assert!(told.contains("frameworks/house.toml:13:") && told.contains("control[1].checks"), "{told}");
}

/// The category as the shipped default has it: what is neither proven nor grave is recorded only.
const RECORDS_A_PART: &str = "[policies.default.categories.pii]\nmode = \"redact\"\nthreshold = \"medium\"\n\
    only = \"validated_or_high\"\n";

#[test]
fn what_a_policy_only_records_is_not_said_to_be_stopped() {
    let upstream = Upstream::answering("application/json", "{}");
    let seen = |rules: &str| {
        let gateway = Gateway::start(&format!(
            "[[routes]]\nname = \"all\"\npath_prefix = \"/\"\nupstream = \"http://{}\"\ndialect = \"openai\"\n\
             {UNLIMITED}{POLICY}{rules}",
            upstream.address
        ));
        let (status, told) = asked(&gateway, "/api/v1/compliance/evidence?check=pii_stopped");
        assert_eq!(status, 200, "{told}");
        told
    };
    let part = seen(RECORDS_A_PART);
    assert_eq!((&part["result"], &part["figure"]), (&"partial".into(), &0.0.into()), "{part}");
    assert_eq!(part["items"][0]["good"], false, "{part}");
    // Where all of it is to go, what is only recorded and what is off are named, and nothing else.
    let less = "[policies.default.categories.pii]\nmode = \"redact\"\nthreshold = \"low\"\n\
        [policies.default.detectors.email_address]\nmode = \"monitor\"\n[detectors]\ndisabled = [\"iban\"]\n";
    let told = seen(less);
    let observed = told["observed"].as_str().expect("a sentence");
    assert_eq!(told["result"], "partial", "{told}");
    assert!(observed.contains("default: 2 of ") && observed.ends_with("(email_address, iban)"), "{observed}");
}

#[test]
fn what_ships_looks_for_every_technique_that_a_framework_names_and_a_pack_that_is_off_leaves_a_gap() {
    let upstream = Upstream::answering("application/json", "{}");
    let start = |rules: &str| {
        Gateway::start(&format!(
            "[[routes]]\nname = \"all\"\npath_prefix = \"/\"\nupstream = \"http://{}\"\ndialect = \"openai\"\n\
             {UNLIMITED}{rules}",
            upstream.address
        ))
    };
    let gateway = start("");
    let (_, list) = asked(&gateway, "/api/v1/compliance");
    let mut narrowed = 0;
    for framework in list["valid_names"].as_array().expect("a list") {
        let framework = framework.as_str().expect("a name");
        let (_, report) = asked(&gateway, &format!("/api/v1/compliance?framework={framework}"));
        let controls = report["controls"].as_array().expect("a list").iter();
        let evidence = controls.flat_map(|control| control["evidence"].as_array().expect("a list"));
        for seen in evidence.filter(|seen| seen["check"] == "techniques_looked_for") {
            let (_, told) = asked(&gateway, seen["links"][0].as_str().expect("a link"));
            assert_eq!((&seen["result"], &told["figure"]), (&"met".into(), &seen["figure"]), "{told}");
            narrowed += 1;
        }
    }
    assert!(narrowed > 30, "{narrowed} controls name techniques");
    // Rules of layer 2 are named: they are what a poisoned tool is found by.
    let path = "/api/v1/compliance/evidence?check=techniques_looked_for&techniques=AML.T0110";
    let observed = |gateway: &Gateway| asked(gateway, path).1["items"][0]["observed"].clone();
    let told = observed(&gateway).to_string();
    assert!(
        told.contains("every policy looks for all ") && told.contains("tool_definition_changed"),
        "{told}"
    );
    drop(gateway);
    let told = observed(&start("[detectors]\ndisabled = [\"tool_definition_changed\"]\n")).to_string();
    assert!(
        told.contains("default does not look for 1 of ") && told.contains("(tool_definition_changed)"),
        "{told}"
    );
}
