//! A defect anywhere in an agent's call: the agent is told, and the gateway lives.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portcullis::app;
use portcullis::app::Wanted;
use portcullis::clock::Clock;
use portcullis::clock::SystemClock;
use portcullis::config::Sources;
use portcullis::config::env::Environment;
use serde_json::json;
use tokio::runtime::Runtime;

use super::*;
use crate::upstream::Upstream;

/// The machine's clock, until it is told to fail at the so-maniest question of the data plane.
struct Defective {
    left: AtomicUsize,
}

impl Clock for Defective {
    fn now(&self) -> Timestamp {
        let is_data_plane = std::thread::current().name().is_some_and(|name| name.contains("proxy"));
        if is_data_plane && self.left.load(Ordering::SeqCst) > 0 {
            assert!(self.left.fetch_sub(1, Ordering::SeqCst) != 1, "a defect");
        }
        SystemClock.now()
    }

    fn monotonic(&self) -> Duration {
        SystemClock.monotonic()
    }
}

#[test]
fn a_panic_is_told_as_an_internal_error_and_the_gateway_lives() {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::env::set_current_dir(directory.path()).expect("it is there");
    deployment.install(
        directory.path(),
        upstream.address,
        "[a2a.tiers.community]\nrequests_per_minute = 0\nburst = 0\n[store]\nin_memory = true\n",
    );
    let listen = ["PORTCULLIS__PROXY__LISTEN", "PORTCULLIS__ADMIN__LISTEN"];
    let environment = Environment::of(listen.map(|name| (name.to_owned(), "127.0.0.1:0".to_owned())));
    let ready = directory.path().join("ready.json");
    let wanted = Wanted {
        sources: Sources { file: Some("gateway.toml".into()), environment, ..Sources::default() },
        ready_file: Some(ready.clone()),
        ..Wanted::default()
    };
    let clock = Arc::new(Defective { left: AtomicUsize::new(0) });
    let (told_by, result) = (Arc::clone(&clock), std::sync::mpsc::channel());
    let tell = result.0;
    std::thread::spawn(move || tell.send(app::run_by(wanted, told_by).map_err(|error| error.to_string())));
    let address: SocketAddr = loop {
        let written: Option<Value> =
            fs::read(&ready).ok().and_then(|text| serde_json::from_slice(&text).ok());
        if let Some(address) = written.and_then(|it| it["proxy"].as_str()?.parse().ok()) {
            break address;
        }
        if let Ok(ended) = result.1.recv_timeout(Duration::from_millis(5)) {
            panic!("the gateway did not start: {ended:?}");
        }
    };
    let planner = deployment.authority.agent("planner");
    let at = (address, &deployment.server);
    let runtime = Runtime::new().expect("a runtime");
    let call = |protocol| runtime.block_on(call(at, Some(&planner), protocol, "/agents/x", &sound()));
    let (mut internal, began) = (0, Instant::now());
    for question in 1.. {
        clock.left.store(question, Ordering::SeqCst);
        let told = call(if question % 2 == 0 { "h2" } else { "http/1.1" });
        let is_over = clock.left.swap(0, Ordering::SeqCst) > 0;
        if told.body["code"] == "A2A_INTERNAL_ERROR" {
            assert_eq!(
                (told.status, told.body.as_object().map(|it| it.len())),
                (500, Some(2)),
                "{}",
                told.body
            );
            internal += 1;
        } else {
            assert!([200, 500].contains(&told.status), "{told:?}");
        }
        assert_eq!(call("h2").status, 200, "the gateway did not live on after question {question}");
        if is_over || began.elapsed() > PATIENCE {
            break;
        }
    }
    assert!(internal > 0, "no defect was in an agent's call: {}", json!(internal));
}
