//! What `doctor` says of whom a node needs beside providers.

use std::net::TcpListener;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use super::eventually;
use super::folder;
use super::free_port;
use super::limits::Redis;
use super::postgres::Postgres;
use crate::gateway::program;

#[test]
fn the_doctor_asks_the_database_redis_the_collector_and_the_sinks() {
    let port = free_port();
    let (mut server, mut redis) = (Postgres::start_on(port), Redis::start());
    let listens = || TcpStream::connect(("127.0.0.1", redis.port)).is_ok();
    eventually(Duration::from_secs(20), "Redis listens", listens);
    let receiver = TcpListener::bind("127.0.0.1:0").expect("a port");
    let there = receiver.local_addr().expect("an address");
    let more = format!(
        "[cluster]\nenabled = true\nlimits = \"redis\"\n[cluster.redis]\nurl_file = \"redis.url\"\n\
         [otlp]\nendpoint = \"http://{there}\"\n\
         [[siem.sinks]]\nname = \"soc\"\nplatform = \"webhook\"\nurl = \"http://{there}/\"\nallow_private = true\n\
         [[routes]]\nname = \"all\"\nupstream = \"http://{there}\"\n"
    );
    let folder = folder(&Postgres::url_at(port), &more);
    std::fs::write(folder.path().join("redis.url"), Redis::url_at(redis.port)).expect("it is writable");
    let doctor = |more: &[&str]| {
        let output = program()
            .args([&["doctor", "-c", "gateway.toml", "--json"], more].concat())
            .current_dir(folder.path())
            .output()
            .expect("the program was built");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let checks = report["checks"].as_array().expect("checks").clone();
        let told = move |name: &str| {
            let check = checks.iter().find(|check| check["name"] == name);
            check.map(|check| (check["result"].clone(), check["detail"].to_string()))
        };
        (output.status.code(), told)
    };
    let (code, told) = doctor(&[]);
    for name in ["database", "redis", "collector", "sink soc"] {
        let (result, detail) = told(name).expect(name);
        assert!(result == "ok" && detail.contains("answers"), "{name}: {detail}");
    }
    assert_eq!(code, Some(0));
    assert!(told("database").expect("the check").1.contains("PostgreSQL 1"), "its release is told");

    redis.bound(1);
    let (code, told) = doctor(&[]);
    let (result, detail) = told("redis").expect("the check");
    assert!(code == Some(1) && result == "fault" && detail.contains("refuses to write: OOM"), "{detail}");

    server.kill();
    redis.kill();
    drop(receiver);
    let (code, told) = doctor(&[]);
    let result = |name: &str| told(name).expect(name).0;
    assert_eq!(
        ["database", "redis", "collector", "sink soc"].map(result),
        ["fault", "fault", "warning", "fault"]
    );
    assert_eq!(code, Some(1));
    let (_, why) = told("database").expect("the check");
    assert!(why.contains("refused") && !why.contains("postgres://"), "the cause is told, and no URL: {why}");
    let (code, told) = doctor(&["--offline"]);
    assert!(code == Some(0) && told("database").is_none() && told("redis").is_none());
}
