//! The API document, held against the running gateway by a tool that knows nothing but the document.

use std::process::Command;

use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;

#[test]
fn the_gateway_answers_as_its_document_says() {
    let gateway = Gateway::start(UNLIMITED);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/document.sh");
    let base = format!("http://{}", gateway.admin);
    let output = Command::new(script).args([&base, &gateway.admin_key()]).output().expect("bash runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
}
