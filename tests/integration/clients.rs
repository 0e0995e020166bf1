//! The official SDKs, in their own processes, against the sample provider and the gateway.

use std::net::SocketAddr;
use std::process::Command;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;

const POLICIES: &str = r#"
[policies.default]
fail_mode = "closed"
stream_block = "error"
[policies.default.categories.secrets]
mode = "block"
[policies.default.categories.pii]
mode = "redact"

[policies.graceful]
fail_mode = "closed"
stream_block = "graceful"
[policies.graceful.categories.secrets]
mode = "block"
[policies.graceful.categories.pii]
mode = "redact"

[policies.placeholders.categories.pii]
mode = "redact"
[policies.placeholders.detectors.payment_card]
mode = "redact"
mask = "token"
"#;

/// Starts the sample provider on a free port, for as long as the runtime is kept.
fn sample(runtime: &Runtime) -> SocketAddr {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
    let address = listener.local_addr().expect("an address");
    runtime.spawn(portcullis::sample::serve(listener, std::future::pending()));
    address
}

fn run(base: SocketAddr, more: &[&str]) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/run.sh");
    let output = Command::new(script).arg(format!("http://{base}")).args(more).output().expect("bash runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
}

#[test]
fn official_clients_understand_the_sample_provider() {
    let runtime = Runtime::new().expect("a runtime");
    run(sample(&runtime), &["--direct"]);
}

#[test]
fn official_clients_see_their_own_exceptions_through_the_gateway() {
    let runtime = Runtime::new().expect("a runtime");
    let upstream = sample(&runtime);
    let route = |name: &str, rest: &str| {
        format!(
            "[[routes]]\nname = \"{name}\"\nupstream = \"http://{upstream}\"\ndialect = \"auto\"\n{rest}\n"
        )
    };
    let prefixed = |name: &str| {
        route(name, &format!("path_prefix = \"/{name}\"\nstrip_prefix = true\npolicy = \"{name}\""))
    };
    let own = prefixed("graceful") + &prefixed("placeholders");
    let all = route("all", "path_prefix = \"/\"\npolicy = \"default\"");
    let gateway = Gateway::start(&format!("{own}{all}{UNLIMITED}{POLICIES}"));
    run(gateway.proxy, &[]);
}
