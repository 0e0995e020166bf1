//! How many calls an agent may have under way.

use std::thread;

use serde_json::json;
use tokio::runtime::Runtime;

use super::*;
use crate::upstream::Step;
use crate::upstream::Upstream;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

#[test]
fn an_agent_has_no_more_calls_under_way_than_any_caller() {
    let deployment = Deployment::make();
    let upstream = Upstream::start(vec![Step::Wait, Step::Send(ANSWER.to_vec())]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    deployment.install(directory.path(), upstream.address, "");
    let file = directory.path().join("gateway.toml");
    let config = fs::read_to_string(&file).expect("it was just written");
    let limits = "[limits]\nconcurrent_requests_per_caller = 1\n";
    fs::write(file, config.replace("[limits]\n", limits)).expect("it is writable");
    let gateway = launched(directory);
    let (planner, busy) = (deployment.authority.agent("planner"), deployment.authority.agent("busy"));
    let runtime = Runtime::new().expect("a runtime");
    let send = |agent: &Identity, headers: &Headers| {
        runtime.block_on(call((gateway.proxy, &deployment.server), Some(agent), "h2", "/agents/x", headers))
    };
    thread::scope(|scope| {
        let first = scope.spawn(|| send(&planner, &sound()));
        upstream.wait_until(|received| received.len() == 1);
        let refused = send(&planner, &sound());
        assert_eq!((refused.status, &refused.body["code"]), (429, &json!("A2A_RATE_LIMITED")));
        let message = refused.body["message"].to_string();
        assert!(message.contains("too many calls under way at once"), "{message}");
        assert_eq!(refused.headers.get("retry-after").map(|it| it.as_bytes()), Some(&b"1"[..]));
        // Another agent is not concerned.
        let other = scope.spawn(|| send(&busy, &but("x-a2a-agent-id", "busy")));
        upstream.wait_until(|received| received.len() == 2);
        (0..2).for_each(|_| upstream.proceed());
        let told = [first, other].map(|it| it.join().expect("it is answered").status);
        assert_eq!(told, [200, 200]);
    });
    upstream.proceed();
    assert_eq!(send(&planner, &sound()).status, 200, "a place that was left is given again");
}
