//! The official SDKs of A2A and MCP, clients and servers, with the gateway between them.

use std::io::BufRead;
use std::io::BufReader;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

use super::*;

const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients");
const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/clients");

/// The agent and the tools of `peers.py`; ended when dropped.
struct Peers {
    process: Child,
    ports: Value,
}

impl Peers {
    fn start() -> Self {
        let setup = Command::new(format!("{CLIENTS}/setup.sh")).status().expect("bash runs");
        assert!(setup.success(), "the SDKs could not be installed");
        let mut process = python("peers.py").stdout(Stdio::piped()).spawn().expect("Python was installed");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        Self { process, ports: serde_json::from_str(&line).expect("the ports") }
    }

    fn address(&self, name: &str) -> SocketAddr {
        format!("127.0.0.1:{}", self.ports[name]).parse().expect("a port")
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn python(script: &str) -> Command {
    let mut command = Command::new(format!("{INSTALLED}/venv/bin/python"));
    command.arg(format!("{CLIENTS}/{script}")).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn passes(mut command: Command) {
    let output = command.output().expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains(" 0 failed"), "{out}{err}");
}

#[test]
fn official_sdks_talk_through_the_gateway_and_raise_what_it_refuses() {
    let peers = Peers::start();
    let route = |name: &str| {
        format!(
            "[[routes]]\nname = \"{name}\"\npath_prefix = \"/{name}\"\nupstream = \"http://{}\"\n{}\n",
            peers.address(name),
            // The tools have their path in their own path.
            if name == "mcp" { "dialect = \"mcp\"" } else { "strip_prefix = true\ndialect = \"a2a\"" }
        )
    };
    let unlimited = "[limits.tiers.community]\nrequests_per_minute = 0\nburst = 0\n";
    let open =
        Gateway::start(&format!("{unlimited}[limits]\nscan_ms = 60000\n{}{}", route("a2a"), route("mcp")));
    let deployment = Deployment::make();
    let guarded = deployment.start(
        peers.address("a2a"),
        &format!(
            "[a2a.tiers.community]\nrequests_per_minute = 0\nburst = 0\n[[routes]]\nname = \"tools\"\n\
             path_prefix = \"/tools\"\nstrip_prefix = true\nupstream = \"http://{}\"\nauth = \"a2a\"\n\
             policy = \"default\"\ndialect = \"mcp\"\n",
            peers.address("mcp")
        ),
    );
    let planner = deployment.authority.agent("planner");
    let write =
        |name: &str, text: &str| fs::write(guarded.directory().join(name), text).expect("it is writable");
    write("planner.pem", &planner.cert_pem);
    write("planner.key", &planner.key_pem);
    let base = format!("http://{}", open.proxy);
    let guarded_base = format!("https://localhost:{}", guarded.proxy.port());
    let mut of_python = python("agents.py");
    of_python.arg(&base).arg(&guarded_base).arg(guarded.directory());
    passes(of_python);
    let mut of_node = Command::new(format!("{INSTALLED}/bin/node"));
    of_node.env("CLIENTS_NODE", format!("{INSTALLED}/node")).arg(format!("{CLIENTS}/agents.mjs"));
    of_node.arg(&base).arg(&guarded_base).arg(guarded.directory());
    passes(of_node);
}
