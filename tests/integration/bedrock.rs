//! AWS's own SDK, with the gateway between it and a scripted Bedrock.

use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::net::SocketAddr;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;

const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients");
pub const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/clients");
/// The credentials that the peer knows; nobody's.
const CREDENTIALS: [&str; 3] = ["AKIDOFTHETESTS", "of/the+tests", "token-of-the-tests"];

/// A provider in Python, scripted; ended when dropped.
pub struct Peer {
    process: Child,
    pub address: SocketAddr,
}

impl Peer {
    /// Starts a script that prints its port.
    pub fn start(script: &str, arguments: &[&str]) -> Self {
        set_up();
        let mut process =
            python(script).args(arguments).stdout(Stdio::piped()).spawn().expect("Python was installed");
        let mut port = String::new();
        BufReader::new(process.stdout.take().expect("a pipe")).read_line(&mut port).expect("a line");
        let address = format!("127.0.0.1:{}", port.trim()).parse().expect("a port");
        Self { process, address }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Installs the SDKs where they are not there yet.
pub fn set_up() {
    let setup = Command::new(format!("{CLIENTS}/setup.sh")).status().expect("bash runs");
    assert!(setup.success(), "the SDKs could not be installed");
}

/// Returns a script of ours, to be run by the Python that has the SDKs.
pub fn python(script: &str) -> Command {
    let mut command = Command::new(format!("{INSTALLED}/venv/bin/python"));
    command.arg(format!("{CLIENTS}/{script}")).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Runs a client whose tests must all pass.
pub fn passes(client: &mut Command) {
    let output = client.output().expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains(" 0 failed"), "{out}{err}");
}

#[test]
fn boto3_is_answered_redacted_and_refused_in_its_own_terms() {
    let peer = Peer::start("bedrock_peer.py", &CREDENTIALS);
    let policy = "[limits]\nscan_ms = 60000\n[policies.default]\nfail_mode = \"closed\"\n\
                  [policies.default.categories.secrets]\nmode = \"block\"\n\
                  [policies.default.categories.pii]\nmode = \"redact\"\n";
    let folder = tempfile::tempdir().expect("a temporary directory");
    let credentials = folder.path().join("credentials");
    fs::write(&credentials, CREDENTIALS.join(":")).expect("it is writable");
    let route = |name: &str, base: &str, more: &str| {
        format!(
            "[[routes]]\nname = \"{name}\"\npath_prefix = \"/{name}\"\nstrip_prefix = true\n\
             upstream = \"http://{}{base}\"\n{more}",
            peer.address
        )
    };
    let signing = format!(
        "auth = \"gateway_key\"\naws_region = \"eu-west-1\"\nprovider_key_file = \"{}\"\n",
        credentials.display()
    );
    let routes =
        route("plain", "", "") + &route("strict", "/strict", "") + &route("signed", "/strict", &signing);
    let gateway = Gateway::start(&format!("{routes}{UNLIMITED}{policy}"));
    passes(python("bedrock.py").arg(format!("http://{}", gateway.proxy)).arg(gateway.admin_key()));
}
