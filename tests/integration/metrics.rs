//! The metrics as Prometheus' own tool judges them, after traffic of every kind.

use std::io::Write;
use std::process::Command;
use std::process::Stdio;
use std::time::Instant;

use crate::framing::POLICY;
use crate::gateway::Gateway;
use crate::upstream::Upstream;
use crate::wire::PATIENCE;
use crate::wire::exchange;
use crate::wire::post;

#[test]
fn promtool_finds_nothing_to_mend() {
    if Command::new("promtool").arg("--version").output().is_err() {
        #[allow(clippy::print_stderr)]
        {
            eprintln!(
                "SKIPPED: promtool is not installed (Debian's package prometheus, which `make test` installs)"
            );
        }
        return;
    }
    let upstream =
        Upstream::answering("application/json", "{\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}");
    let gateway = Gateway::in_front_of(upstream.address, POLICY);
    let leak = format!("{{\"input\":\"AKIA{}\"}}", "Z7VRSQ5TJN2WMPLX");
    for body in ["{\"input\":\"hello\"}", leak.as_str(), "{"] {
        assert!(exchange(gateway.proxy, &post("/v1/embeddings", "", body)).status > 0);
    }
    let key = gateway.admin_key();
    let ask = format!("GET /metrics HTTP/1.1\r\nhost: {}\r\nx-api-key: {key}\r\n\r\n", gateway.admin);
    // What was found is counted once the answer has left.
    let deadline = Instant::now() + PATIENCE;
    let metrics = loop {
        let metrics = exchange(gateway.admin, ask.as_bytes());
        if metrics.text().contains("portcullis_detections_total{") {
            break metrics;
        }
        assert!(Instant::now() < deadline, "{}", metrics.text());
    };
    let mut tool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs");
    tool.stdin.take().expect("a pipe").write_all(&metrics.body).expect("it reads");
    let said = tool.wait_with_output().expect("it ends");
    let complaints = [said.stdout, said.stderr].concat();
    assert!(said.status.success() && complaints.is_empty(), "{}", String::from_utf8_lossy(&complaints));
}
