//! The dashboard and the alerts that are shipped, judged by Prometheus itself: it scrapes a gateway under traffic, and
//! every panel's query has an answer.

use std::fs;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use serde_json::Value;

use crate::gateway::Gateway;
use crate::traces;
use crate::upstream::Step;
use crate::upstream::Upstream;
use crate::wire::Client;
use crate::wire::exchange;
use crate::wire::post;

const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);

struct Prometheus {
    process: Child,
    address: SocketAddr,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn shipped(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("conf/deploy").join(path)
}

#[test]
fn the_alerts_fire_when_they_should() {
    for arguments in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]] {
        let run = Command::new("promtool").args(arguments).current_dir(shipped("prometheus")).output();
        let run = run.expect("promtool, which tests/setup/system.sh installs");
        let said = [run.stdout, run.stderr].concat();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn every_panel_has_an_answer() {
    let directory = tempfile::tempdir().unwrap();
    let answers = Upstream::start(vec![Step::Send(answer())]);
    let gateway = Gateway::in_front_of(answers.address, crate::framing::POLICY);
    let prometheus = scraping(&gateway, directory.path());

    let dashboard: Value =
        serde_json::from_slice(&fs::read(shipped("grafana/portcullis.json")).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut silent: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(silent.len() > 20, "{} queries", silent.len());
    let deadline = Instant::now() + PATIENCE;
    while !silent.is_empty() {
        traffic(gateway.proxy);
        silent.retain(|query| !answers_with_data(prometheus.address, query));
        assert!(Instant::now() < deadline, "without an answer:\n{}", silent.join("\n"));
        thread::sleep(POLL);
    }
}

#[test]
fn prometheus_keeps_the_trace_of_a_bucket() {
    let directory = tempfile::tempdir().unwrap();
    let (answers, collector) = (Upstream::start(vec![Step::Send(answer())]), traces::collector());
    let gateway = traces::gateway(&answers, collector.address, "");
    let unsent = traces::TRACE.replace("4bf9", "5ca1");
    for (trace, flag) in [(traces::TRACE, "01"), (unsent.as_str(), "00")] {
        let parent = format!("traceparent: 00-{trace}-{}-{flag}\r\n", traces::CALLER);
        assert_eq!(
            exchange(gateway.proxy, &post("/v1/embeddings", &parent, "{\"input\":\"hello\"}")).status,
            200
        );
    }
    let prometheus = scraping(&gateway, directory.path());
    let ask = "GET /api/v1/query_exemplars?query=portcullis_request_duration_seconds_bucket&start=0&end=9999999999 \
               HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let deadline = Instant::now() + PATIENCE;
    let told = loop {
        let answer = exchange(prometheus.address, ask.as_bytes());
        if answer.status == 200 && answer.text().contains("trace_id") {
            break answer.json();
        }
        assert!(Instant::now() < deadline, "no exemplar: {}", answer.text());
        thread::sleep(POLL);
    };
    let series = &told["data"][0];
    assert_eq!(
        (&series["seriesLabels"]["listener"], &series["seriesLabels"]["route"]),
        (&"proxy".into(), &"all".into())
    );
    assert_eq!(series["exemplars"][0]["labels"]["trace_id"], traces::TRACE, "{told}");
    assert!(!told.to_string().contains(&unsent), "{told}");
    // Who asks for nothing gets the other format, which has none.
    let key = gateway.admin_key();
    let metrics = |accept: &str| {
        let ask =
            format!("GET /metrics HTTP/1.1\r\nhost: {}\r\nx-api-key: {key}\r\n{accept}\r\n", gateway.admin);
        exchange(gateway.admin, ask.as_bytes())
    };
    let (open, classic) = (metrics("accept: application/openmetrics-text\r\n"), metrics(""));
    assert_eq!(
        open.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(open.text().contains(traces::TRACE) && open.text().ends_with("\n# EOF\n"), "{}", open.text());
    assert!(
        classic.header("content-type").is_some_and(|media| media.starts_with("text/plain; version=0.0.4"))
    );
    assert!(!classic.text().contains("trace_id"), "{}", classic.text());
}

/// Starts Prometheus on the configuration that is shipped, with this gateway in it.
fn scraping(gateway: &Gateway, directory: &Path) -> Prometheus {
    // The operator's key opens the metrics, as a file beside the configuration.
    fs::write(directory.join("portcullis.token"), gateway.admin_key()).expect("the directory is writable");
    let config = fs::read_to_string(shipped("prometheus/prometheus.yml")).expect("it is shipped");
    let config = config
        .replace("127.0.0.1:9090", &gateway.admin.to_string())
        .replace("scrape_interval: 15s", "scrape_interval: 1s")
        .replace("alerts.yml", &shipped("prometheus/alerts.yml").display().to_string());
    fs::write(directory.join("prometheus.yml"), config).expect("the directory is writable");
    start(directory)
}

fn start(directory: &Path) -> Prometheus {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = free.local_addr().expect("an address");
    drop(free);
    let process = Command::new("prometheus")
        .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=error"])
        .arg("--enable-feature=exemplar-storage")
        .arg(format!("--web.listen-address={address}"))
        .current_dir(directory)
        .stdin(Stdio::null())
        .spawn()
        .expect("prometheus, which tests/setup/system.sh installs");
    let prometheus = Prometheus { process, address };
    let deadline = Instant::now() + PATIENCE;
    while Client::try_connect(address).is_none() {
        assert!(Instant::now() < deadline, "prometheus does not start");
        thread::sleep(POLL);
    }
    prometheus
}

/// One of each kind: clean, blocked, unreadable, a path of our own.
fn traffic(proxy: SocketAddr) {
    let leak = format!("{{\"input\":\"AKIA{}\"}}", "Z7VRSQ5TJN2WMPLX");
    for body in ["{\"input\":\"hello\"}", leak.as_str(), "{"] {
        assert!(exchange(proxy, &post("/v1/embeddings", "", body)).status > 0);
    }
}

fn answers_with_data(prometheus: SocketAddr, query: &str) -> bool {
    let query = query.replace("$__rate_interval", "10s").replace("$instance", ".*").replace("$route", ".*");
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let request =
        format!("GET /api/v1/query?query={encoded} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let answer = exchange(prometheus, request.as_bytes());
    if answer.status == 503 {
        // It listens before it is ready.
        return false;
    }
    assert_eq!(answer.status, 200, "{query}: {}", answer.text());
    let found = answer.json();
    let samples = found["data"]["result"].as_array().expect("a vector");
    // A share of nothing, or a quantile of nothing, is no answer.
    samples.iter().any(|sample| sample["value"][1].as_str().is_some_and(|value| value != "NaN"))
}

fn answer() -> Vec<u8> {
    let body = "{\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}";
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into()
}
