//! Trust in an agent, from its calls over real TLS to what is thought, done and attested about it.

use std::time::Duration;
use std::time::Instant;

use serde_json::json;
use tokio::runtime::Runtime;

use super::*;
use crate::bedrock::python;
use crate::bedrock::set_up;
use crate::privacy::holding;
use crate::usage::admin;

/// How often it is looked whether something is so.
const POLL: Duration = Duration::from_millis(20);
/// Enforces trust, and lifts the limits of agents, which are tested on their own.
const ENFORCED: &str = "trust = \"enforce\"\n[a2a.tiers.professional]\nrequests_per_minute = 0\nburst = 0\n\
                        [limits.tiers.professional]\nrequests_per_minute = 0\nburst = 0\n";

/// Starts a gateway whose deployment is of the professional tier.
pub fn start(deployment: &Deployment, upstream: SocketAddr, more: &str) -> Gateway {
    let directory = tempfile::tempdir().expect("a temporary directory");
    deployment.install(directory.path(), upstream, more);
    let file = directory.path().join("gateway.toml");
    let config = fs::read_to_string(&file).expect("it was just written");
    let licensed = config.replace("[license]\n", "[license]\nfile = \"license.jwt\"\n");
    let license = deployment.license(Tier::Professional, None, "2190-01-01T00:00:00Z");
    fs::write(file, licensed).expect("it is writable");
    fs::write(directory.path().join("license.jwt"), license).expect("it is writable");
    launched(directory)
}

/// Asks until the answer is as wanted: what an exchange tells is taken into account after its answer.
fn until(gateway: &Gateway, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let told = ask(gateway, path);
        if wanted(&told) {
            return told;
        }
        assert!(Instant::now() < deadline, "{path}: {told}");
        // Whoever asks without a pause has used up its quota before anything changes.
        std::thread::sleep(POLL);
    }
}

/// Makes a new signing key, and withdraws the others or not.
fn rotate(gateway: &Gateway, withdraw: bool) -> Value {
    let (key, body) = (gateway.admin_key(), json!({ "withdraw": withdraw }).to_string());
    let request = format!(
        "POST /api/v1/signing/rotate HTTP/1.1\r\nhost: {}\r\nx-api-key: {key}\r\ncontent-length: {}\r\n\r\n{body}",
        gateway.admin,
        body.len()
    );
    exchange(gateway.admin, request.as_bytes()).json()
}

#[test]
fn an_agent_that_probes_is_kept_out_and_that_is_attested() {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let mut gateway = start(&deployment, upstream.address, ENFORCED);
    let planner = deployment.authority.agent("planner");
    let runtime = Runtime::new().expect("a runtime");
    let send = |gateway: &Gateway, headers: &Headers| {
        let at = (gateway.proxy, &deployment.server);
        runtime.block_on(call(at, Some(&planner), "h2", "/agents/x", headers))
    };
    let sessions = "/api/v1/trust/sessions?active=true&agent=planner";
    let calls = |told: &Value| told["sessions"][0]["calls"].as_u64().unwrap_or(0);
    let score = "/api/v1/trust/score?agent=planner&explain=true";
    assert_eq!(ask(&gateway, score)["error"], "no call of such an agent was seen");

    (0..3).for_each(|_| assert_eq!(send(&gateway, &sound()).status, 200));
    until(&gateway, sessions, |told| calls(told) == 3);
    let told = ask(&gateway, score);
    assert_eq!(told["verdict"], "SUSPICIOUS", "{told}");
    // Nobody lowers it who only uses its name.
    let stranger = deployment.authority.agent("busy");
    let at = (gateway.proxy, &deployment.server);
    let smear = runtime.block_on(call(at, Some(&stranger), "h2", "/agents/x", &sound()));
    assert_eq!(smear.body["code"], "A2A_AUTH_FAILED");

    let probe = but("a2a-capability", "fly");
    for at in 0..12 {
        assert_eq!(send(&gateway, &probe).body["code"], "A2A_CAP_DENIED");
        until(&gateway, sessions, |told| {
            calls(told) == 4 + at || ask(&gateway, score)["verdict"] == "BLOCKED"
        });
        if ask(&gateway, score)["verdict"] == "BLOCKED" {
            break;
        }
    }
    let told = ask(&gateway, score);
    assert_eq!(told["verdict"], "BLOCKED", "{told}");
    let why = told["explanation"]["contract_compliance"]["reasons"].to_string();
    assert!(why.contains("denied with A2A_CAP_DENIED, asking for fly"), "{why}");

    let seen = calls(&ask(&gateway, sessions));
    let refused = send(&gateway, &sound());
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("A2A_CAP_DENIED")));
    assert_eq!(refused.body["message"], "agent `planner`, capability `ask`: the agent is not trusted enough");
    until(&gateway, "/api/v1/audit?event_type=trust_verdict", |told| told["total"] == 2);
    let latest = "/api/v1/trust/attestations/latest?agent=planner";
    until(&gateway, latest, |told| told["statements"][0]["verdict"] == "BLOCKED");
    // This comes back once all that was written before it is on the disk.
    let rotated = rotate(&gateway, false);
    assert_eq!(rotated["status"], "rotated", "{rotated}");
    gateway.crash_and_restart();
    assert_eq!(send(&gateway, &sound()).status, 403, "it is not forgotten");
    let again = ask(&gateway, score);
    assert_eq!((&again["verdict"], &again["last_updated"]), (&told["verdict"], &told["last_updated"]));
    assert_eq!(calls(&ask(&gateway, sessions)), seen, "what is refused for want of trust is no act");
}

/// Tells what Python says of the newest attestation, with nothing but the published keys.
fn verified(gateway: &Gateway) -> String {
    set_up();
    let folder = tempfile::tempdir().expect("a folder");
    let put = |name: &str, path: &str| {
        let file = folder.path().join(name);
        fs::write(&file, ask(gateway, path).to_string()).expect("it is writable");
        file
    };
    let jwks = put("jwks.json", "/.well-known/jwks.json");
    let attested = put("attested.json", "/api/v1/trust/attestations/latest?agent=planner");
    let now = Timestamp::now().to_string();
    let said = python("verify_attestation.py").args([jwks, attested]).arg(now).output().expect("Python runs");
    String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).trim().to_owned()
}

/// By a clock that stands at no whole millisecond, and with the keys of the moment, also where the others were withdrawn.
#[test]
fn an_attestation_of_a_running_gateway_is_verified_by_who_shares_no_code_with_it() {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = start(&deployment, upstream.address, "");
    let planner = deployment.authority.agent("planner");
    let at = (gateway.proxy, &deployment.server);
    let told =
        Runtime::new().expect("a runtime").block_on(call(at, Some(&planner), "h2", "/agents/x", &sound()));
    assert_eq!(told.status, 200, "{told:?}");
    let latest = "/api/v1/trust/attestations/latest?agent=planner";
    let first = until(&gateway, latest, |told| told["id"].is_string());
    assert_eq!(verified(&gateway), "verified");
    assert_eq!(rotate(&gateway, true)["status"], "withdrawn");
    assert_ne!(ask(&gateway, latest)["id"], first["id"], "nobody can verify it any more");
    assert_eq!(verified(&gateway), "verified");
}

/// What was signed before a first start may have come to whoever had the state before: nobody can tell, and it is no fault
/// of the agent. Nor is it told that it signs badly where it says no time.
#[test]
fn an_honest_agent_is_not_blocked_for_what_the_gateway_does_not_know() {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = start(&deployment, upstream.address, &format!("replay_window_s = 600\n{ENFORCED}"));
    let planner = deployment.authority.agent("planner");
    let at = (gateway.proxy, &deployment.server);
    let timed = |second: i64| {
        let time = second.to_string();
        let signature = sign(SECRET, &[time.as_bytes(), b".", BODY.as_bytes()]);
        [but("a2a-signature", &signature), vec![("x-a2a-timestamp", time)]].concat()
    };
    let now = Timestamp::now().as_second();
    let runtime = Runtime::new().expect("a runtime");
    let send = |headers: &Headers| runtime.block_on(call(at, Some(&planner), "h2", "/agents/x", headers));
    let (before, old) = ("signed before the gateway began to remember", "timestamp is too old");
    let cases = (0..6)
        .map(|at| (timed(now - 300 - at), before))
        .chain((0..3).map(|at| (timed(now - 9000 - at), old)));
    let mut calls = 0;
    for (headers, why) in cases.chain([(sound(), "no X-A2A-Timestamp")]) {
        let told = send(&headers);
        assert_eq!((told.status, &told.body["code"]), (403, &json!("A2A_INTEGRITY_INVALID")));
        assert!(told.body["message"].as_str().is_some_and(|message| message.contains(why)), "{}", told.body);
        calls += 1;
    }
    let sessions = "/api/v1/trust/sessions?active=true&agent=planner";
    until(&gateway, sessions, |told| told["sessions"][0]["calls"] == calls);
    let score = ask(&gateway, "/api/v1/trust/score?agent=planner&explain=true");
    assert_eq!(score["verdict"], "SUSPICIOUS", "{score}");
    // Whoever signs anew is served; whoever starts took no longer than this.
    assert_eq!(send(&timed(now + 120)).status, 200);
}

#[test]
fn an_agent_that_is_trusted_no_more_loses_the_stream_it_reads() {
    let deployment = Deployment::make();
    let upstream = streaming();
    let gateway = start(&deployment, upstream.address, ENFORCED);
    let (planner, at) = (deployment.authority.agent("planner"), (gateway.proxy, &deployment.server));
    let probe = but("a2a-capability", "fly");
    let probing = async {
        let deadline = Instant::now() + PATIENCE;
        while ask(&gateway, "/api/v1/trust/score?agent=planner")["verdict"] != "BLOCKED" {
            assert!(Instant::now() < deadline, "it is trusted whatever it does");
            assert_eq!(call(at, Some(&planner), "h2", "/agents/x", &probe).await.status, 403);
        }
    };
    let rest = Runtime::new().expect("a runtime").block_on(rest_of_stream(at, &planner, &sound(), probing));
    assert!(rest.contains("A2A_CAP_DENIED"), "{rest}");
}

/// An agent's name lies in no file of the state directory, and is nowhere once it was erased.
#[test]
fn an_agent_that_is_erased_is_in_no_file() {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let mut gateway = start(&deployment, upstream.address, "");
    let planner = deployment.authority.agent("planner");
    let runtime = Runtime::new().expect("a runtime");
    let at = (gateway.proxy, &deployment.server);
    assert_eq!(runtime.block_on(call(at, Some(&planner), "h2", "/agents/x", &sound())).status, 200);
    let latest = "/api/v1/trust/attestations/latest?agent=planner";
    until(&gateway, latest, |told| told["agent_id"] == "planner");
    let rotated = rotate(&gateway, false);
    assert_eq!(rotated["status"], "rotated", "{rotated}");
    gateway.crash_and_restart();
    assert_eq!(ask(&gateway, latest)["agent_id"], "planner", "it is not forgotten");
    let score = ask(&gateway, "/api/v1/trust/score?agent=planner");
    let dsar = |what: &str| {
        let path = format!("/api/v1/dsar/{what}");
        let (status, told) = admin(&gateway, "POST", &path, &json!({ "entity_id": "planner" }));
        assert_eq!(status, 200, "{told}");
        told["providers"]["trust"].clone()
    };
    let told = dsar("export");
    assert_eq!((&told["verdict"], &told["sessions"]), (&score["verdict"], &json!(1)), "{told}");
    let shown = format!("{:.1}", score["score"].as_f64().expect("a score"));
    assert_eq!(told["score"], json!(shown), "{told}");
    let attested = told["attestations"].as_u64().expect("a count");
    assert!(attested >= 1, "{told}");
    // The agent, its session, and what was attested of it.
    assert_eq!(dsar("erase"), json!(2 + attested));
    assert_eq!(dsar("export"), Value::Null);
    gateway.crash_and_restart();
    assert_eq!(ask(&gateway, latest)["error"], "no call of such an agent was seen");
    assert_eq!(holding(&gateway.directory().join("state"), b"planner"), Vec::<String>::new());
}
