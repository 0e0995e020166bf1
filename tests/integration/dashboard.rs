//! The dashboard in a real browser: Chromium goes through every page of a gateway that had real traffic, signed in as
//! each role, and holds what is shown against the API.

use std::fs;
use std::path::Path;
use std::process::Command;

use portcullis::access::jose::SigningKey;
use portcullis::access::license::License;
use portcullis::access::tier::Tier;

use crate::gateway::Gateway;
use crate::sso::script;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// What the browser checks: each page in several looks, and what is done on it.
const CHECKS_MIN: usize = 200;
const AGENTS: &str = "
capabilities:
  ask:
  pay: {min_tier: professional}
agents:
  planner:
    capabilities: [ask, pay]
    secrets: [{file: planner.secret}]
  clerk:
    capabilities: [ask]
    secrets: [{file: planner.secret}]
";
const CONFIG: &str = r#"
[license]
file = "license.jwt"
trusted_keys = ["license.pem"]

[a2a]
capabilities = "agents.yaml"

[[siem.sinks]]
name = "away"
platform = "webhook"
url = "http://127.0.0.1:9/hook"
allow_private = true

[[routes]]
name = "openai"
path_prefix = "/v1"
upstream = "http://127.0.0.1:9"
dialect = "openai"
policy = "default"
"#;

/// Starts a gateway of the highest tier, so that nothing is closed, with the sample provider behind it.
fn gateway() -> Gateway {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, text: &str| {
        fs::write(directory.path().join(name), text).expect("it is writable");
    };
    let key = SigningKey::generate();
    let moment = |text: &str| text.parse().expect("a moment");
    let license = License {
        subject: "Northwind".to_owned(),
        tier: Tier::Enterprise,
        issued_at: moment("2020-01-01T00:00:00Z"),
        not_before: None,
        expires_at: moment("2199-01-01T00:00:00Z"),
        agent: None,
        features: Vec::new(),
    };
    write("license.jwt", &license.sign(&key));
    write("license.pem", &key.public_pem());
    write("agents.yaml", AGENTS);
    write("planner.secret", "planner-signs-with-this");
    write("gateway.toml", CONFIG);
    let file = directory.path().join("gateway.toml").display().to_string();
    Gateway::launched(directory, vec!["--config".to_owned(), file, "--with-sample-provider".to_owned()])
}

#[test]
fn chromium_sees_what_the_api_tells_and_nothing_of_others_acts() {
    let installed = Path::new(ROOT).join("tests/browser/setup.sh");
    let output = Command::new(installed).output().expect("bash runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    script("seed.mjs");
    script("checks.mjs");
    let driver = script("dashboard.mjs");
    let gateway = gateway();
    let (admin, proxy) = (format!("http://{}", gateway.admin), format!("http://{}", gateway.proxy));
    let driven = Command::new(format!("{ROOT}/target/clients/bin/node"))
        .args([&driver, &admin, &proxy, &gateway.admin_key()])
        .output()
        .expect("node runs");
    let (out, err) = (String::from_utf8_lossy(&driven.stdout), String::from_utf8_lossy(&driven.stderr));
    assert!(driven.status.success(), "{out}{err}");
    let checks = out.lines().filter(|line| line.starts_with("ok ")).count();
    assert!(checks >= CHECKS_MIN, "{checks} checks\n{out}{err}");
}
