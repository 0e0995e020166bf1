//! `doctor`, `completions` and `man` as an operator meets them, and the log's level while the gateway runs.

use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;
use std::time::Instant;

use rcgen::CertificateParams;
use rcgen::KeyPair;
use serde_json::Value;

use crate::gateway::Gateway;
use crate::gateway::program;
use crate::upstream::Upstream;
use crate::wire::PATIENCE;
use crate::wire::exchange;
use crate::wire::post;

fn run(directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = program().args(arguments).current_dir(directory).output().expect("the program was built");
    (output.status.code(), String::from_utf8(output.stdout).expect("it writes text"))
}

/// Returns the result and the detail of one check.
fn told(report: &Value, name: &str) -> (String, String) {
    let checks = report["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["name"] == name).expect("the check is made");
    let text = |key: &str| check[key].as_str().expect("a text").to_owned();
    (text("result"), text("detail"))
}

fn configured(directory: &Path, upstream: &str, days: i64) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec!["gate.example".to_owned()]).expect("a name");
    let now = std::time::SystemTime::now();
    params.not_before = (now - std::time::Duration::from_secs(90_000)).into();
    params.not_after = match days {
        ..0 => (now - std::time::Duration::from_secs(60)).into(),
        _ => (now + std::time::Duration::from_secs(days as u64 * 86_400 + 60)).into(),
    };
    let certificate = params.self_signed(&key).expect("a certificate");
    fs::write(directory.join("cert.pem"), certificate.pem()).expect("writable");
    fs::write(directory.join("key.pem"), key.serialize_pem()).expect("writable");
    let text = format!(
        "[proxy.tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n[[routes]]\nname = \"provider\"\npath_prefix = \"/\"\n\
         upstream = \"{upstream}\"\n"
    );
    fs::write(directory.join("gateway.toml"), text).expect("writable");
}

#[test]
fn the_doctor_finds_what_keeps_a_gateway_from_working() {
    let directory = tempfile::tempdir().unwrap();
    let listening = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = listening.local_addr().unwrap();
    let doctor = |more: &[&str]| {
        let (code, text) =
            run(directory.path(), &[&["doctor", "-c", "gateway.toml", "--json"], more].concat());
        (code, serde_json::from_str::<Value>(&text).expect("JSON"))
    };
    configured(directory.path(), &format!("http://{there}"), 90);
    let (code, report) = doctor(&[]);
    assert_eq!((code, &report["well"]), (Some(0), &Value::Bool(true)), "{report}");
    assert_eq!(told(&report, "provider"), ("ok".to_owned(), format!("{there} answers")));
    assert_eq!(told(&report, "proxy").0, "ok");

    // A certificate that is over, a state that others may read, and a provider that is gone.
    drop(listening);
    configured(directory.path(), &format!("http://{there}"), -1);
    fs::create_dir(directory.path().join("state")).unwrap();
    fs::write(directory.path().join("state/node.secret"), "x").unwrap();
    let (code, report) = doctor(&[]);
    assert_eq!((code, &report["well"]), (Some(1), &Value::Bool(false)));
    for name in ["provider", "proxy", "node.secret"] {
        assert_eq!(told(&report, name).0, "fault", "{name}: {report}");
    }
    let (_, report) = doctor(&["--offline"]);
    assert!(report["checks"].as_array().unwrap().iter().all(|check| check["area"] != "providers"));

    // A state that cannot be made: there is a file where a directory would have to be.
    let file = directory.path().join("file");
    fs::write(&file, "x").unwrap();
    for path in ["file", "file/state"] {
        fs::write(directory.path().join("gateway.toml"), format!("[store]\npath = \"{path}\"\n")).unwrap();
        let (code, report) = doctor(&["--offline"]);
        assert_eq!((code, told(&report, "directory").0.as_str()), (Some(1), "fault"), "{path}: {report}");
    }

    // A licence that does not count: the start goes on with the community tier, which is not what was meant.
    let keygen = ["license", "keygen", "--key", "sign.pem", "--public", "trusted.pem"];
    assert_eq!(run(directory.path(), &keygen).0, Some(0));
    fs::write(directory.path().join("license.jwt"), "garbage").unwrap();
    let licensed = "[license]\nfile = \"license.jwt\"\ntrusted_keys = [\"trusted.pem\"]\n";
    for (config, result, detail) in [
        (licensed, "fault", "the licence is malformed: the tier is community"),
        ("", "ok", "there is none: the tier is community"),
    ] {
        fs::write(directory.path().join("gateway.toml"), config).unwrap();
        let (_, report) = doctor(&["--offline"]);
        assert_eq!(told(&report, "license"), (result.to_owned(), detail.to_owned()), "{report}");
    }

    fs::write(directory.path().join("gateway.toml"), "[proxy]\nlisen = 1\n").unwrap();
    let (code, report) = doctor(&[]);
    assert_eq!(code, Some(78));
    assert!(told(&report, "fault").1.starts_with("gateway.toml:2:1: proxy.lisen: unknown key"), "{report}");
}

#[test]
fn the_doctor_sees_that_a_gateway_runs_and_the_log_is_switched() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = Gateway::in_front_of(upstream.address, "");
    let (code, table) = run(gateway.directory(), &["doctor", "-c", "gateway.toml"]);
    assert_eq!(code, Some(0), "{table}");
    assert!(table.contains("is in use: a gateway runs on it"), "{table}");

    gateway.signal("USR1");
    gateway.wait_for_log("the level of the log was switched filter=\"info,portcullis=debug\"", 1);
    gateway.signal("USR1");
    gateway.wait_for_log("the level of the log was switched filter=\"info\"", 1);
}

/// Whoever read the log has gone: a collector that was restarted, `| head`. Traffic goes on, and so does the process.
#[test]
fn a_log_that_nobody_reads_any_more_ends_nothing() {
    let upstream = Upstream::answering("application/json", "{}");
    let directory = tempfile::tempdir().unwrap();
    let config = format!("[[routes]]\nname = \"all\"\nupstream = \"http://{}\"\n", upstream.address);
    fs::write(directory.path().join("gateway.toml"), config).unwrap();
    let mut process = program()
        .args(["run", "--config", "gateway.toml", "--ready-file", "ready.json"])
        .current_dir(directory.path())
        .env("PORTCULLIS__PROXY__LISTEN", "127.0.0.1:0")
        .env("PORTCULLIS__ADMIN__LISTEN", "127.0.0.1:0")
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built");
    drop(process.stderr.take());
    let deadline = Instant::now() + PATIENCE * 3;
    let proxy: SocketAddr = loop {
        let written = fs::read(directory.path().join("ready.json")).unwrap_or_default();
        let written: Value = serde_json::from_slice(&written).unwrap_or_default();
        if let Some(proxy) = written["proxy"].as_str() {
            break proxy.parse().expect("an address");
        }
        let ended = process.try_wait().expect("a child can be asked");
        assert!(ended.is_none() && Instant::now() < deadline, "it is not ready: {ended:?}");
    };
    let answered = exchange(proxy, &post("/v1/embeddings", "", "{\"input\":\"hello\"}"));
    assert_eq!(answered.status, 200);
    let asked = Command::new("kill").args(["-s", "INT", &process.id().to_string()]).status();
    assert!(asked.expect("kill runs").success());
    assert_eq!(process.wait().expect("it ends").code(), Some(0));
}

/// Starts the gateway under a limit of open files, as `ulimit` sets it, and returns what it has, or what it said.
fn started_under(limit: &str) -> Result<String, (Option<i32>, String)> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let script = format!("ulimit {limit} && exec \"$0\" run --ready-file ready.json");
    let mut process = Command::new("bash")
        .args(["-c", &script, env!("CARGO_BIN_EXE_portcullis")])
        .current_dir(directory.path())
        .env("PORTCULLIS__PROXY__LISTEN", "127.0.0.1:0")
        .env("PORTCULLIS__ADMIN__LISTEN", "127.0.0.1:0")
        .stderr(Stdio::piped())
        .spawn()
        .expect("bash runs");
    let deadline = Instant::now() + PATIENCE * 3;
    while !directory.path().join("ready.json").exists() {
        if process.try_wait().expect("a child can be asked").is_some() {
            let output = process.wait_with_output().expect("it has ended");
            return Err((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        assert!(Instant::now() < deadline, "it neither serves nor ends");
    }
    let limits = fs::read_to_string(format!("/proc/{}/limits", process.id())).expect("Linux tells");
    process.kill().expect("it runs");
    process.wait().expect("it ends");
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    Ok(line.expect("the limit of open files").trim().to_owned())
}

/// Too few open files are told before anything is begun; what may be raised is.
#[test]
fn a_start_has_the_open_files_that_it_needs_or_says_so() {
    let (code, said) = started_under("-n 60").expect_err("nothing can be served");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("60 open files are not enough") && !said.contains("panicked"), "{said}");
    let limits = started_under("-Sn 512").expect("a start raises it");
    let numbers: Vec<u64> = limits.split_whitespace().flat_map(str::parse).collect();
    let hard = numbers.get(1).copied().unwrap_or(u64::MAX);
    assert_eq!(numbers[0], hard.min(24_128), "{limits}");
}

#[test]
fn shells_and_man_know_every_command() {
    let directory = tempfile::tempdir().unwrap();
    let (code, page) = run(directory.path(), &["man"]);
    assert_eq!(code, Some(0));
    for command in ["run", "check", "scan", "doctor", "audit", "license"] {
        assert!(page.contains(&format!(".SH \"PORTCULLIS {}\"", command.to_uppercase())), "{command}");
        for shell in ["bash", "zsh", "fish"] {
            let (code, script) = run(directory.path(), &["completions", shell]);
            assert!(code == Some(0) && script.contains(command), "{shell} does not know {command}");
        }
    }
    for nested in ["RULES CHECK", "KEY CREATE", "AUDIT VERIFY"] {
        assert!(page.contains(&format!(".SH \"PORTCULLIS {nested}\"")), "{nested}");
    }
    assert!(!page.contains("take-over"), "what only programs say is not told");
    let linted = Command::new("bash").args(["-n", "/dev/stdin"]).stdin(Stdio::piped()).spawn().and_then(
        |mut shell| {
            let (_, script) = run(directory.path(), &["completions", "bash"]);
            std::io::Write::write_all(&mut shell.stdin.take().expect("a pipe"), script.as_bytes())?;
            shell.wait()
        },
    );
    assert!(linted.expect("bash runs").success());
}

#[test]
fn top_shows_the_traffic_of_a_running_gateway_to_who_may_see_it() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = Gateway::in_front_of(upstream.address, "");
    for _ in 0..3 {
        assert_eq!(exchange(gateway.proxy, &post("/v1/embeddings", "", "{\"input\":\"hello\"}")).status, 200);
    }
    let admin = format!("http://{}", gateway.admin);
    let top = |admin: &str, key: &str| {
        let mut command = program();
        command.args(["top", "--screens", "1", "--admin", admin]).env("PORTCULLIS_KEY", key);
        let output = command.output().expect("the program was built");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).expect("it writes text"))
    };
    let has_row = |screen: &str, begin: &[&str]| {
        let starts = |line: &str| line.split_whitespace().take(begin.len()).eq(begin.iter().copied());
        screen.lines().any(starts)
    };
    // What ended is counted once its answer has left.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (code, screen) = top(&admin, &gateway.admin_key());
        assert_eq!(code, Some(0), "{screen}");
        if has_row(&screen, &["all", "3"]) {
            break;
        }
        assert!(Instant::now() < deadline, "{screen}");
    }
    // Who looks is no traffic.
    let (_, screen) = top(&admin, &gateway.admin_key());
    assert!(!screen.contains("/metrics") && has_row(&screen, &["requests", "3"]), "{screen}");
    let (code, told) = top(&admin, "no-key");
    assert!(code == Some(1) && told.contains("PORTCULLIS_KEY") && !told.contains("no-key"), "{told}");
    let (code, told) = top("http://127.0.0.1:1", "");
    assert!(code == Some(1) && told.contains("cannot be reached"), "{told}");
    let mut command = program();
    let refused = command.args(["top", "--screens", "0", "--admin", &admin]).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(2), "no screens would be all there ever are");
}

/// A restart must not end the screen of whoever watches it.
#[test]
fn top_goes_on_while_the_gateway_is_away() {
    let upstream = Upstream::answering("application/json", "{}");
    let mut gateway = Gateway::in_front_of(upstream.address, "");
    let mut top = program()
        .args(["top", "--screens", "3", "--every", "1", "--admin", &format!("http://{}", gateway.admin)])
        .env("PORTCULLIS_KEY", gateway.admin_key())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program was built");
    let mut lines =
        BufReader::new(top.stdout.take().expect("it is piped")).lines().map(|line| line.expect("text"));
    assert!(lines.any(|line| line.starts_with("FINDINGS")), "the first screen");
    gateway.signal("INT");
    assert_eq!(gateway.wait_for_end(), Some(0));
    assert!(lines.any(|line| line.contains("cannot be reached")), "it says that nobody is there");
    lines.for_each(drop);
    assert!(top.wait().expect("it ends").success());
}
