//! The files behind the guardrails, while they change.

use std::ffi::OsStr;

use portcullis::access::a2a::replay::Replays;
use portcullis::store::backup::STORE_FOLDER;
use portcullis::store::open_sled;
use serde_json::json;
use tokio::runtime::Runtime;

use super::pki::named;
use super::*;
use crate::gateway::program;

/// For how long signatures are remembered, in seconds.
const WINDOW_S: i64 = 600;

/// A list of revoked certificates as OpenSSL makes it unasked: of version 1.
const LIST_OF_VERSION_1: &str = "-----BEGIN X509 CRL-----\n\
MIGTMDswCgYIKoZIzj0EAwIwDTELMAkGA1UEAwwCY2EXDTI2MTEyNTE0MTAxMloY\n\
DzIxOTEwMzA1MTQxMDEyWjAKBggqhkjOPQQDAgNIADBFAiEAkHLKUO/hB6hHsigb\n\
JkAKGBX/NOnEAWloVZeKxya0LrkCIEIyBK4haPhH3dwu5vRgQQ+z5ybxxUTczfD0\n\
F345pjdV\n\
-----END X509 CRL-----\n";

fn health(gateway: &Gateway) -> Value {
    ask(gateway, "/api/v1/health")["dependencies"]["a2a"].clone()
}

/// Returns what is recorded of the capability map, the newest first.
fn recorded(gateway: &Gateway) -> Vec<String> {
    let log = ask(gateway, "/api/v1/audit?limit=1000");
    let entries = log["entries"].as_array().expect("a list").iter();
    let of_map =
        entries.filter(|it| it["event_type"].as_str().is_some_and(|kind| kind.starts_with("capabilities_")));
    let told = |it: &Value| {
        format!("{}: {}", it["action"].as_str().unwrap_or(""), it["message"].as_str().unwrap_or(""))
    };
    of_map.map(told).collect()
}

#[test]
fn without_a_map_agents_wait_and_with_a_broken_one_the_old_counts() {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let directory = tempfile::tempdir().expect("a temporary directory");
    deployment.install(directory.path(), upstream.address, UNPACED);
    let map = directory.path().join("capabilities.yaml");
    fs::remove_file(&map).expect("it was there");
    let gateway = launched(directory);
    let planner = deployment.authority.agent("planner");
    let at = (gateway.proxy, &deployment.server);
    let runtime = Runtime::new().expect("a runtime");
    let told_in =
        |protocol: &str| runtime.block_on(call(at, Some(&planner), protocol, "/agents/x", &sound()));
    let told = || told_in("h2");
    for protocol in ["h2", "http/1.1"] {
        let missing = told_in(protocol);
        assert_eq!(
            (missing.status, &missing.body["code"]),
            (500, &json!("A2A_CAP_CHECK_FAILED")),
            "{protocol}"
        );
        assert_eq!(missing.body.as_object().map(|it| it.len()), Some(2), "{}", missing.body);
    }
    assert_eq!(health(&gateway), "down");
    assert_eq!(recorded(&gateway), Vec::<String>::new());
    fs::write(&map, MAP).expect("it is writable");
    gateway.signal("HUP");
    until("the map is read", || health(&gateway) == "up");
    assert_eq!(told().status, 200);
    let known = "allow: the capability map knows 2 agents and 3 capabilities";
    until("that is recorded", || recorded(&gateway) == [known]);
    fs::write(&map, MAP.replace("capabilities: [ask, pay]", "capabilities: [aks]")).expect("it is writable");
    gateway.signal("HUP");
    until("the fault is told", || gateway.log().contains("capabilities.yaml:8:"));
    until("the fault shows", || health(&gateway) == "down");
    assert!(gateway.log().contains("did you mean `ask`?"), "{}", gateway.log());
    assert_eq!(told().status, 200, "a broken map replaced the old one");
    let refused = "block: a changed capability map has 1 faults; nothing changed";
    until("the refusal is recorded", || recorded(&gateway) == [refused, known]);
    // Nothing that was told is told again.
    gateway.signal("HUP");
    until("the fault is told again", || gateway.log().matches("capabilities.yaml:8:").count() > 1);
    // One that is being written, or was cut, does not mean to know nobody.
    fs::write(&map, "").expect("it is writable");
    gateway.signal("HUP");
    until("the missing tables are told", || gateway.log().contains("capabilities: missing"));
    let empty = refused.replace('1', "2");
    until("that is recorded as well", || recorded(&gateway) == [&empty, refused, known]);
    assert_eq!((told().status, health(&gateway)), (200, json!("down")));
    fs::write(&map, MAP.replace("capabilities: [ask, pay]", "capabilities: [pay]")).expect("it is writable");
    gateway.signal("HUP");
    until("the grant is taken back", || told().body["code"] == "A2A_CAP_DENIED");
    until("that is recorded, too", || recorded(&gateway) == [known, &empty, refused, known]);
}

#[test]
fn another_authority_counts_on_open_connections_too() {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let gateway =
        deployment.start(upstream.address, "[a2a.tiers.community]\nrequests_per_minute = 0\nburst = 0\n");
    let planner = deployment.authority.agent("planner");
    Runtime::new().expect("a runtime").block_on(async {
        let stream = connect(gateway.proxy, &deployment.server, Some(&planner), "h2").await;
        let (mut sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
        tokio::spawn(connection);
        let mut status = async || {
            let request =
                Request::post("https://localhost/agents/x").header("content-type", "application/json");
            let request =
                sound().into_iter().fold(request, |request, (name, value)| request.header(name, value));
            let request = request.body(Full::new(Bytes::from_static(BODY.as_bytes()))).expect("a request");
            let answer = timeout(PATIENCE, sender.send_request(request)).await.expect("in time");
            answer.expect("an answer").status().as_u16()
        };
        assert_eq!(status().await, 200);
        let authority = gateway.directory().join("agents.pem");
        fs::write(&authority, Authority::make().pem()).expect("it is writable");
        gateway.signal("HUP");
        let deadline = Instant::now() + PATIENCE;
        while status().await != 403 {
            assert!(Instant::now() < deadline, "the old authority still counts");
        }
        fs::write(&authority, deployment.authority.pem()).expect("it is writable");
        gateway.signal("HUP");
        let deadline = Instant::now() + PATIENCE;
        while status().await != 200 {
            assert!(Instant::now() < deadline, "the new authority does not count");
        }
    });
}

#[test]
fn a_revoked_certificate_counts_no_more_and_without_a_list_in_date_none_does() {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let directory = tempfile::tempdir().expect("a temporary directory");
    deployment.install(
        directory.path(),
        upstream.address,
        "client_crl = \"agents.crl\"\n[a2a.tiers.community]\nrequests_per_minute = 0\nburst = 0\n",
    );
    let list = directory.path().join("agents.crl");
    let listing = |text: &str| fs::write(&list, text).expect("it is writable");
    listing(&deployment.authority.revoking(&[], 2190));
    let gateway = launched(directory);
    let of = |name: &str, serial: u64| {
        deployment.authority.issue(|params| {
            params.distinguished_name = named(&[name]);
            params.serial_number = Some(serial.into());
        })
    };
    let (planner, busy) = (of("planner", 7), of("busy", 8));
    let at = (gateway.proxy, &deployment.server);
    let runtime = Runtime::new().expect("a runtime");
    let told = |who: &Identity, name: &str| {
        runtime.block_on(call(at, Some(who), "h2", "/agents/x", &but("x-a2a-agent-id", name)))
    };
    assert_eq!((told(&planner, "planner").status, told(&busy, "busy").status), (200, 200));
    assert_eq!(ask(&gateway, "/api/v1/guardrails")["mtls"]["revocation"], true);
    listing(&deployment.authority.revoking(&[7], 2190));
    gateway.signal("HUP");
    until("the revocation counts", || told(&planner, "planner").status == 403);
    assert_eq!(told(&planner, "planner").body["code"], "A2A_AUTH_FAILED");
    assert_eq!(told(&busy, "busy").status, 200);
    listing("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n");
    gateway.signal("HUP");
    until("the fault shows", || health(&gateway) == "down");
    assert_eq!((told(&planner, "planner").status, told(&busy, "busy").status), (403, 200));
    // A list that is out of date says nothing of anybody, nor does one of another authority.
    for stale in [deployment.authority.revoking(&[7], 2021), Authority::make().revoking(&[], 2190)] {
        listing(&stale);
        gateway.signal("HUP");
        until("nobody is known to be good", || told(&busy, "busy").status == 403);
        listing(&deployment.authority.revoking(&[7], 2190));
        gateway.signal("HUP");
        until("the list counts again", || told(&busy, "busy").status == 200);
    }
}

/// A list that nobody could read was taken as a new revision, and nothing was looked up in it.
#[test]
fn another_list_that_cannot_be_used_is_refused_and_none_is_said_to_be_in_force() {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = deployment.start(upstream.address, UNPACED);
    let write =
        |name: &str, text: &str| fs::write(gateway.directory().join(name), text).expect("it is writable");
    let runtime = Runtime::new().expect("a runtime");
    let planner = deployment.authority.agent("planner");
    let told = || {
        let at = (gateway.proxy, &deployment.server);
        runtime.block_on(call(at, Some(&planner), "h2", "/agents/x", &sound()))
    };
    let revocation = || ask(&gateway, "/api/v1/guardrails")["mtls"]["revocation"].clone();
    write("agents.crl", LIST_OF_VERSION_1);
    let listed = format!("client_crl = \"agents.crl\"\n{UNPACED}");
    gateway.rewrite(&config(upstream.address, &listed));
    gateway.signal("HUP");
    gateway.wait_for_log("an X.509 CRL of version 2 in PEM is needed", 1);
    assert_eq!((revocation(), health(&gateway)), (json!(false), json!("up")));
    assert_eq!(told().status, 200);
    write("agents.crl", &deployment.authority.revoking(&[], 2190));
    gateway.signal("HUP");
    until("the list is in force", || revocation() == true);
    // What was in force stays, whatever becomes of its file.
    write("agents.crl", LIST_OF_VERSION_1);
    gateway.signal("HUP");
    until("the fault shows", || health(&gateway) == "down");
    assert_eq!((revocation(), told().status), (json!(true), 200));
}

/// A list that a refused configuration named was known from then on, and not judged again.
#[test]
fn a_list_is_judged_until_the_configuration_that_names_it_is_taken() {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = deployment.start(upstream.address, UNPACED);
    let write =
        |name: &str, text: &str| fs::write(gateway.directory().join(name), text).expect("it is writable");
    let dialects = gateway.directory().join("plugins/dialects");
    fs::create_dir_all(&dialects).expect("it is writable");
    write("plugins/dialects/own.toml", "[dialect]\nunheard_of = true\n");
    write("agents.crl", &deployment.authority.revoking(&[], 2190));
    gateway.rewrite(&config(upstream.address, &format!("client_crl = \"agents.crl\"\n{UNPACED}")));
    gateway.signal("HUP");
    gateway.wait_for_log("faulty file, rules unchanged", 1);
    assert!(gateway.log().contains("own.toml"), "{}", gateway.log());
    write("agents.crl", LIST_OF_VERSION_1);
    fs::remove_file(dialects.join("own.toml")).expect("it is there");
    gateway.signal("HUP");
    gateway.wait_for_log("an X.509 CRL of version 2 in PEM is needed", 1);
    let revocation = || ask(&gateway, "/api/v1/guardrails")["mtls"]["revocation"].clone();
    assert_eq!((revocation(), health(&gateway)), (json!(false), json!("up")));
    write("agents.crl", &deployment.authority.revoking(&[], 2190));
    gateway.signal("HUP");
    until("the list is in force", || revocation() == true);
}

/// Every agent was told that it had presented no certificate: it had not been asked for one.
#[test]
fn without_a_list_that_can_be_used_from_the_start_agents_are_told_that_nobody_can_be_verified() {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let listed = format!("client_crl = \"agents.crl\"\n{UNPACED}");
    deployment.install(directory.path(), upstream.address, &listed);
    fs::write(directory.path().join("agents.crl"), LIST_OF_VERSION_1).expect("it is writable");
    let gateway = launched(directory);
    let planner = deployment.authority.agent("planner");
    let at = (gateway.proxy, &deployment.server);
    let runtime = Runtime::new().expect("a runtime");
    let told = runtime.block_on(call(at, Some(&planner), "h2", "/agents/x", &sound()));
    assert_eq!((told.status, &told.body["code"]), (403, &json!("A2A_AUTH_FAILED")));
    let message = told.body["message"].to_string();
    assert!(message.contains("the gateway cannot verify client certificates at the moment"), "{message}");
    assert_eq!(ask(&gateway, "/api/v1/guardrails")["mtls"]["revocation"], false);
    assert_eq!(health(&gateway), "down");
}

/// Agents were shut out, and nothing said so.
#[test]
fn a_list_that_is_out_of_date_is_told_until_there_is_another() {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let listed = format!("client_crl = \"agents.crl\"\n{UNPACED}");
    deployment.install(directory.path(), upstream.address, &listed);
    let list = directory.path().join("agents.crl");
    fs::write(&list, deployment.authority.revoking(&[], 2021)).expect("it is writable");
    let gateway = launched(directory);
    until("it is told", || health(&gateway) == "down");
    gateway.wait_for_log("is out of date since 2021-01-01T00:00:00Z", 1);
    fs::write(&list, deployment.authority.revoking(&[], 2190)).expect("it is writable");
    gateway.signal("HUP");
    until("the list is in date", || health(&gateway) == "up");
    gateway.wait_for_log("are in date again", 1);
}

#[test]
fn a_recorded_request_is_taken_once() {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let mut gateway = deployment.start(upstream.address, &format!("replay_window_s = {WINDOW_S}\n{UNPACED}"));
    let planner = deployment.authority.agent("planner");
    let at = (gateway.proxy, &deployment.server);
    // A first start takes nothing that was signed before it ended.
    let first = Timestamp::now().as_second() + 10;
    let timed = |second: i64| {
        let time = second.to_string();
        let signature = sign(SECRET, &[time.as_bytes(), b".", BODY.as_bytes()]);
        [but("a2a-signature", &signature), vec![("x-a2a-timestamp", time)]].concat()
    };
    // A time that is not signed can be any time.
    let untied = [sound(), vec![("x-a2a-timestamp", first.to_string())]].concat();
    Runtime::new().expect("a runtime").block_on(async {
        let late = timed(first - 2 * WINDOW_S);
        for (headers, status) in
            [(timed(first), 200), (timed(first), 403), (late, 403), (sound(), 403), (untied, 403)]
        {
            let told = call(at, Some(&planner), "h2", "/agents/x", &headers).await;
            assert_eq!(told.status, status, "{headers:?}");
            assert!(status == 200 || told.body["code"] == "A2A_INTEGRITY_INVALID", "{}", told.body);
        }
    });
    let runtime = Runtime::new().expect("a runtime");
    let status = |gateway: &Gateway, second| {
        let at = (gateway.proxy, &deployment.server);
        runtime.block_on(call(at, Some(&planner), "h2", "/agents/x", &timed(second))).status
    };
    gateway.end_and_restart();
    assert_eq!(status(&gateway, first), 403, "the next process knows it too");
    assert_eq!(status(&gateway, first - 1), 200, "signed before, and never sent");
    // One after a crash cannot, and takes nothing that was signed as early as what was taken and written down. However long
    // starts take here, nobody's clock has come as far by then.
    let last = first + WINDOW_S / 2;
    assert_eq!(status(&gateway, last), 200);
    until("how far ahead was signed is written down", || !would_be_taken(&gateway, last));
    gateway.crash_and_restart();
    for second in [first, last, last - 1] {
        assert_eq!(status(&gateway, second), 403, "it was taken before, or may have been");
    }
    assert_eq!(status(&gateway, last + 5), 200, "it is new");
}

/// Tells whether a process that went on with what is written down now would take what was signed at a moment.
fn would_be_taken(gateway: &Gateway, signed: i64) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let (backup, state) = (folder.path().join("now.backup"), folder.path().join("state"));
    let run = |arguments: &[&OsStr]| {
        let ran = program()
            .args(arguments)
            .current_dir(gateway.directory())
            .output()
            .expect("the program was built");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    };
    run(&["backup".as_ref(), "-c".as_ref(), "gateway.toml".as_ref(), backup.as_ref()]);
    run(&["restore".as_ref(), backup.as_ref(), "--into".as_ref(), state.as_ref()]);
    let store = open_sled(&state.join(STORE_FOLDER)).expect("a store");
    Replays::open(&store, Timestamp::now()).is_known("planner", signed)
}

#[test]
fn what_agents_rest_on_is_checked_before_and_not_changed_from_afar() {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = deployment.start(upstream.address, "");
    let key = gateway.admin_key();
    let put = |patch: &str| {
        let request = format!(
            "PUT /api/v1/config HTTP/1.1\r\nhost: {}\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{patch}",
            gateway.admin,
            patch.len()
        );
        exchange(gateway.admin, request.as_bytes())
    };
    for patch in [r#"{"a2a":{"capabilities":"/tmp/mine.yaml"}}"#, r#"{"a2a":{"client_ca":null}}"#] {
        let refused = put(patch);
        assert_eq!(refused.status, 400, "{}", refused.text());
        assert!(refused.text().contains("only in the configuration file"), "{}", refused.text());
    }
    assert_eq!(put(r#"{"a2a":{"replay_window_s":30,"tiers":{"community":{"burst":7}}}}"#).status, 200);
    let report = ask(&gateway, "/api/v1/guardrails");
    assert_eq!(
        (&report["replay_window_s"], &report["rate_limits"]["community"]["burst"]),
        (&json!(30), &json!(7))
    );
    let check = |config: String| {
        fs::write(gateway.directory().join("other.toml"), config).expect("it is writable");
        let ran = program()
            .args(["check", "--config", "other.toml"])
            .current_dir(gateway.directory())
            .output()
            .expect("the program was built");
        (ran.status.success(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    let sound = config(upstream.address, "");
    assert_eq!(check(sound.clone()), (true, String::new()));
    for (written, instead, told) in [
        (
            "[proxy.tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n",
            "",
            "agents are known by their certificates",
        ),
        ("client_ca = \"agents.pem\"\n", "", "a2a.client_ca: missing"),
        ("capabilities = \"capabilities.yaml\"", "capabilities = \"none.yaml\"", "none.yaml: cannot be read"),
        ("agents.pem", "gateway.toml", "other.toml:7:"),
        ("auth = \"a2a\"", "auth = \"a2a\"\nwebsocket = true", "no upgrades"),
    ] {
        let (good, complaint) = check(sound.replace(written, instead));
        assert!(!good && complaint.contains(told), "{told}: {complaint}");
    }
}

/// Nobody tells the gateway that the map has changed.
#[test]
fn an_agent_that_leaves_the_map_loses_the_stream_it_reads() {
    let deployment = Deployment::make();
    let upstream = streaming();
    let gateway = deployment.start(upstream.address, UNPACED);
    let planner = deployment.authority.agent("planner");
    let map = gateway.directory().join("capabilities.yaml");
    let (whole, id) = (fs::read_to_string(&map).expect("it is there"), "planner:");
    let at = (gateway.proxy, &deployment.server);
    let leave = async { fs::write(&map, whole.replace(id, "somebody:")).expect("it is writable") };
    let rest = Runtime::new().expect("a runtime").block_on(rest_of_stream(at, &planner, &sound(), leave));
    assert!(rest.contains("A2A_CAP_UNKNOWN_AGENT"), "{rest}");
    upstream.wait_until(|received| received.iter().all(|it| it.closed));
}
