//! OpenAI's own SDK and `ws`, with the gateway between them and a scripted provider of Realtime.

use std::process::Command;

use crate::bedrock::INSTALLED;
use crate::bedrock::Peer;
use crate::bedrock::passes;
use crate::bedrock::python;
use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;

const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/realtime.mjs");

#[test]
fn the_realtime_clients_are_answered_redacted_and_closed_in_their_own_terms() {
    let peer = Peer::start("realtime_peer.py", &[]);
    let gateway = Gateway::start(&format!(
        "[[routes]]\nname = \"openai\"\npath_prefix = \"/v1\"\nwebsocket = true\nupstream = \"http://{}\"\n{UNLIMITED}\
         [limits]\nscan_ms = 60000\n[policies.default]\nfail_mode = \"closed\"\n\
         [policies.default.categories.secrets]\nmode = \"block\"\n\
         [policies.default.categories.pii]\nmode = \"redact\"\n",
        peer.address
    ));
    let base = format!("http://{}", gateway.proxy);
    passes(python("realtime.py").arg(&base));
    let mut of_node = Command::new(format!("{INSTALLED}/bin/node"));
    passes(of_node.env("CLIENTS_NODE", format!("{INSTALLED}/node")).arg(CLIENT).arg(&base));
}
