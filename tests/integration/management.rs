//! The management plane, and clients that do not wait for its answers or send more than was asked for.

use std::time::Instant;

use serde_json::json;

use crate::gateway::Gateway;
use crate::gateway::UNLIMITED;
use crate::wire::Client;
use crate::wire::PATIENCE;
use crate::wire::exchange;

/// How many clients make a change.
const CLIENTS: usize = 30;

fn gateway() -> Gateway {
    Gateway::start(UNLIMITED)
}

/// Writes the request that makes a key of a name.
fn making_key(gateway: &Gateway, name: &str) -> Vec<u8> {
    let body = json!({ "name": name, "role": "analyst" }).to_string();
    let (key, length) = (gateway.admin_key(), body.len());
    format!(
        "POST /api/v1/keys HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Returns how many keys were made, as the audit log has it.
fn recorded(gateway: &Gateway) -> u64 {
    let key = gateway.admin_key();
    let request = format!(
        "GET /api/v1/audit?event_type=key_created HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\n\r\n"
    );
    exchange(gateway.admin, request.as_bytes()).json()["total"].as_u64().expect("a total")
}

#[test]
fn a_change_whose_client_does_not_wait_is_recorded_all_the_same() {
    let gateway = gateway();
    for number in 0..CLIENTS {
        let mut client = Client::connect(gateway.admin);
        client.send(&making_key(&gateway, &format!("key-{number}")));
    }
    let deadline = Instant::now() + PATIENCE;
    while recorded(&gateway) < CLIENTS as u64 {
        assert!(Instant::now() < deadline, "{} of {CLIENTS} changes were recorded", recorded(&gateway));
    }
}

#[test]
fn bytes_behind_a_request_do_not_end_its_call() {
    let gateway = gateway();
    for number in 0..CLIENTS {
        let mut client = Client::connect(gateway.admin);
        client.send(&making_key(&gateway, &format!("key-{number}")));
        client.send(b"GET / HTTP/1.1\r\n");
        let answer = client.response().expect("an answer");
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    assert_eq!(recorded(&gateway), CLIENTS as u64);
}
