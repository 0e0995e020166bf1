//! A licence that ends while the gateway runs.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::SignedDuration;
use portcullis::clock::Clock;
use portcullis::clock::SystemClock;
use serde_json::json;
use tokio::runtime::Runtime;

use super::inside::start;
use super::*;

/// The machine's clock, moved on by so many seconds.
#[derive(Default)]
struct Moved(AtomicI64);

impl Clock for Moved {
    fn now(&self) -> Timestamp {
        SystemClock.now() + SignedDuration::from_secs(self.0.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        SystemClock.monotonic()
    }
}

#[test]
fn a_licence_ends_on_every_socket_at_once() {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let directory = tempfile::tempdir().expect("a temporary directory");
    deployment.install(directory.path(), upstream.address, "");
    let file = directory.path().join("gateway.toml");
    let config = fs::read_to_string(&file).expect("it was just written");
    fs::write(file, config.replace("[license]\n", "[license]\nfile = \"license.jwt\"\n"))
        .expect("it is writable");
    let ends = (SystemClock.now() + SignedDuration::from_hours(1)).to_string();
    let license = deployment.license(Tier::Professional, None, &ends);
    fs::write(directory.path().join("license.jwt"), &license).expect("it is writable");
    let clock = Arc::new(Moved::default());
    let (proxy, admin) = start(directory.path(), Arc::clone(&clock) as Arc<dyn Clock>);

    let planner = deployment.authority.agent("planner");
    let at = (proxy, &deployment.server);
    let runtime = Runtime::new().expect("a runtime");
    let mut paid = but("a2a-capability", "pay");
    paid.push(("x-a2a-license-key", license));
    let call =
        |path: &str, headers: &Headers| runtime.block_on(call(at, Some(&planner), "h2", path, headers));
    let ask = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {admin}\r\n\r\n");
        exchange(admin, request.as_bytes())
    };
    let limit =
        |told: &Told| told.headers["x-ratelimit-limit"].to_str().map(str::to_owned).unwrap_or_default();
    let standing = || {
        let (agents, others) = (call("/agents/x", &sound()), call("/x", &Vec::new()));
        assert_eq!((agents.status, others.status), (200, 200), "{agents:?} {others:?}");
        let health = ask("/health");
        let version = ask("/version").header("x-ratelimit-limit").unwrap_or_default().to_owned();
        (
            limit(&agents),
            limit(&others),
            version,
            health.status,
            health.json()["dependencies"]["license"].clone(),
        )
    };
    let told = |agent: &str, caller: &str, status: u16, license: &str| {
        (agent.to_owned(), caller.to_owned(), caller.to_owned(), status, json!(license))
    };
    assert_eq!(standing(), told("120", "600", 200, "up"));
    assert_eq!(call("/agents/x", &paid).status, 200);
    clock.0.store(3601, Ordering::SeqCst);
    assert_eq!(standing(), told("30", "60", 503, "down"));
    let refused = call("/agents/x", &paid);
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("A2A_LICENSE_INVALID")));
}

#[test]
fn an_open_stream_ends_with_the_licence_that_the_agent_presented() {
    let deployment = Deployment::make();
    let upstream = streaming();
    let directory = tempfile::tempdir().expect("a temporary directory");
    deployment.install(directory.path(), upstream.address, UNPACED);
    let ends = (SystemClock.now() + SignedDuration::from_hours(1)).to_string();
    let mut paid = but("a2a-capability", "pay");
    paid.push(("x-a2a-license-key", deployment.license(Tier::Professional, None, &ends)));
    let clock = Arc::new(Moved::default());
    let (proxy, _) = start(directory.path(), Arc::clone(&clock) as Arc<dyn Clock>);
    let (planner, at) = (deployment.authority.agent("planner"), (proxy, &deployment.server));
    let end = async { clock.0.store(3601, Ordering::SeqCst) };
    let rest = Runtime::new().expect("a runtime").block_on(rest_of_stream(at, &planner, &paid, end));
    assert!(rest.contains("A2A_LICENSE_INVALID"), "{rest}");
}

#[test]
fn an_open_stream_ends_when_the_key_of_its_licence_is_trusted_no_more() {
    let deployment = Deployment::make();
    let upstream = streaming();
    let gateway = deployment.start(upstream.address, UNPACED);
    let mut paid = but("a2a-capability", "pay");
    paid.push(("x-a2a-license-key", deployment.license(Tier::Professional, None, "2190-01-01T00:00:00Z")));
    let (planner, at) = (deployment.authority.agent("planner"), (gateway.proxy, &deployment.server));
    let other = portcullis::access::jose::SigningKey::generate();
    let end = async {
        fs::write(gateway.directory().join("licenses.pem"), other.public_pem()).expect("it is writable");
    };
    let rest = Runtime::new().expect("a runtime").block_on(rest_of_stream(at, &planner, &paid, end));
    assert!(rest.contains("A2A_LICENSE_INVALID"), "{rest}");
}
