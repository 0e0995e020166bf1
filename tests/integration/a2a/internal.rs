//! A defect anywhere in an agent's call: the agent is told, and the gateway lives.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portcullis::clock::Clock;
use portcullis::clock::SystemClock;
use serde_json::json;
use tokio::runtime::Runtime;

use super::inside::start;
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
    deployment.install(
        directory.path(),
        upstream.address,
        "[a2a.tiers.community]\nrequests_per_minute = 0\nburst = 0\n[store]\nin_memory = true\n",
    );
    let clock = Arc::new(Defective { left: AtomicUsize::new(0) });
    let (address, _) = start(directory.path(), Arc::clone(&clock) as Arc<dyn Clock>);
    let planner = deployment.authority.agent("planner");
    let at = (address, &deployment.server);
    let runtime = Runtime::new().expect("a runtime");
    let call = |protocol| runtime.block_on(call(at, Some(&planner), protocol, "/agents/x", &sound()));
    for protocol in ["h2", "http/1.1"] {
        each_question_fails_once(&clock, || call(protocol));
    }
}

/// Lets the clock fail at its first question, at its second, and so on, until a call asks it no more.
fn each_question_fails_once(clock: &Defective, call: impl Fn() -> Told) {
    let (mut internal, began) = (0, Instant::now());
    for question in 1.. {
        clock.left.store(question, Ordering::SeqCst);
        let told = call();
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
        assert_eq!(call().status, 200, "the gateway did not live on after question {question}");
        if is_over || began.elapsed() > PATIENCE {
            break;
        }
    }
    assert!(internal > 0, "no defect was in an agent's call: {}", json!(internal));
}
