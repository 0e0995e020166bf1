//! Odd HTTP messages: whatever a client sends, the upstream gets only what every parser reads alike.

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::gateway::Gateway;
use crate::upstream::Upstream;
use crate::wire::Client;
use crate::wire::WireFault;
use crate::wire::chunk_at;
use crate::wire::find;

/// How long an answer may take before a message counts as left without one.
const SILENCE: Duration = Duration::from_millis(700);
/// A collection of odd messages that is kept beside the project, not in it, and beside the folder of shared rows.
const COLLECTION: &str = "http-vectors.json";
/// How many it has at least.
const COLLECTED_MIN: usize = 122;

/// Monitoring only, so that nothing but the HTTP layer can refuse a message.
const POLICY: &str =
    "[policies.default]\nfail_mode = \"open\"\n[policies.default.categories.secrets]\nmode = \"monitor\"\n";

/// The messages that may be forwarded, and why each is safe.
const ACCEPTED: &[(&str, &str)] = &[
    (
        "g47",
        "a complete request; what follows it in the same packet is dropped with the connection or read as a request of its own",
    ),
    ("g72", "a complete chunked request without a body; the NUL after it begins a message that is refused"),
    ("g73", "an ordinary chunked request"),
    (
        "g16",
        "an empty chunk size ends the body for Pingora; it is framed anew, with the length that was read, and the connection closes",
    ),
    (
        "g63",
        "as before: one body of 23 bytes goes on, with its length; what follows it is never read as a request",
    ),
    (
        "te_tab",
        "a tab is optional white space before a field value (RFC 9110, 5.6.3); forwarded in our own writing",
    ),
    ("chunk_ws", "white space after a chunk size is tolerated, never passed on: chunks are framed anew"),
    ("chunk_ext_lf", "chunk extensions are dropped, never passed on: chunks are framed anew"),
    (
        "trailer_te",
        "a complete chunked request; its trailer fields are dropped, the Content-Length among them with all others",
    ),
    ("g74", "an ordinary GET in frames: HTTP/2 by prior knowledge; it goes on in our own writing"),
    ("hop_auth", "a field that `Connection` nominates is for us alone and is not passed on"),
    ("hop_authz", "as before; a client that nominates its credential gets its request through without it"),
    (
        "upgrade_smug",
        "an unknown upgrade may be ignored (RFC 9110, 7.8): an ordinary GET goes on without `Upgrade`",
    ),
    ("h2c_up", "as before"),
    ("expect", "an ordinary request; we answer `100 Continue` ourselves"),
    (
        "get_body",
        "a GET may have a body (RFC 9110, 9.3.1); its length is clear and it is inspected like any other",
    ),
    ("path_dot", "forwarded with the dot segments resolved, on the route of the resolved path"),
    ("path_enc", "as before; `%2e` is an unreserved character, so decoding it changes nothing"),
    ("own_many_fields", "ordinary fields, within the limit of their number"),
    ("own_plain", "an ordinary request"),
    ("own_chunked", "an ordinary chunked request"),
];

/// The statuses of heads that are not read.
const HEAD_STATUSES: [u16; 3] = [400, 417, 431];
/// What the data plane refuses for another reason than the head.
const NOT_THE_HEAD: &[&str] = &[];

/// Our own messages, for where the collection is not at hand.
const OWN: &[(&str, &str)] = &[
    ("own_plain", "GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("own_chunked", "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
    (
        "own_both_lengths",
        "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    ("own_two_lengths", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc"),
    ("own_list_of_lengths", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3,3\r\n\r\nabc"),
    ("own_padded_length", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 03\r\n\r\nabc"),
    ("own_two_codings", "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    ("own_bare_lf", "GET /x HTTP/1.1\nHost: a\n\n"),
    ("own_folded", "GET /x HTTP/1.1\r\nHost: a\r\nX-A: b\r\n c\r\n\r\n"),
    ("own_underscore", "POST /x HTTP/1.1\r\nHost: a\r\nContent_Length: 3\r\n\r\n"),
    ("own_no_host", "GET /x HTTP/1.1\r\n\r\n"),
    ("own_two_hosts", "GET /x HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
    ("own_user_in_host", "GET /x HTTP/1.1\r\nHost: a@b\r\n\r\n"),
    ("own_fragment_in_host", "GET /x HTTP/1.1\r\nHost: a/#@b\r\n\r\n"),
    ("own_trace", "TRACE /x HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("own_control_in_value", "GET /x HTTP/1.1\r\nHost: a\r\nX-A: b\x01c\r\n\r\n"),
    ("own_old_chunked", "POST /x HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("own_websocket", "GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
];

#[test]
fn nothing_ambiguous_reaches_the_upstream() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = Gateway::in_front_of(upstream.address, POLICY);
    let (mut faults, mut forwarded) = (Vec::new(), HashSet::new());
    let messages = messages();
    let names: Vec<String> = messages.iter().map(|(id, _)| id.clone()).collect();
    for (id, message) in messages {
        let outcome = send(&gateway, &message);
        let received = upstream.take();
        if received.iter().any(|connection| !connection.bytes.is_empty()) {
            forwarded.insert(id.clone());
        }
        let accepted = ACCEPTED.iter().any(|(name, _)| *name == id);
        for connection in received.iter().filter(|connection| !connection.bytes.is_empty()) {
            if let Err(reason) = strictly_read(&connection.bytes) {
                faults.push(format!("{id}: {reason}: {:?}", String::from_utf8_lossy(&connection.bytes)));
            } else if !accepted {
                faults.push(format!("{id}: forwarded without a reason in ACCEPTED"));
            }
        }
        match outcome {
            Ok(status) if received.is_empty() && status < 400 => {
                faults.push(format!("{id}: answered {status} by nobody"))
            }
            // "Not implemented" and "version not supported" are refusals; other 5xx mean that we broke.
            Ok(status) if status >= 500 && !matches!(status, 501 | 505) => {
                faults.push(format!("{id}: answered {status}"))
            }
            Ok(_) | Err(_) => {}
        }
    }
    let stale =
        ACCEPTED.iter().filter(|(id, _)| names.iter().any(|name| name == id) && !forwarded.contains(*id));
    faults.extend(stale.map(|(id, _)| format!("{id}: is in ACCEPTED and was not forwarded")));
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// What one plane cannot read, the other does not read differently: proxies stand in front of both.
#[test]
fn the_management_plane_refuses_the_same_heads() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = Gateway::in_front_of(upstream.address, POLICY);
    let mut faults = Vec::new();
    let mut compared = 0;
    for (id, message) in messages() {
        let Ok(status) = send_to(gateway.proxy, &message) else { continue };
        if !HEAD_STATUSES.contains(&status) || NOT_THE_HEAD.contains(&id.as_str()) {
            continue;
        }
        compared += 1;
        match send_to(gateway.admin, &message) {
            Ok(answered) if answered == status => {}
            other => faults.push(format!("{id}: {status} on the data plane, {other:?} here")),
        }
    }
    assert!(compared >= 10, "{compared}");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    // Which methods a path takes is told there.
    let trace = b"TRACE /version HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(send_to(gateway.admin, trace).expect("an answer"), 405);
    let old = b"GET /version HTTP/1.0\r\n\r\n";
    assert_eq!(send_to(gateway.admin, old).expect("an answer"), 200, "load balancers ask so");
}

/// Sends a message as it is and returns the status of the last answer to it.
fn send(gateway: &Gateway, message: &[u8]) -> Result<u16, WireFault> {
    send_to(gateway.proxy, message)
}

fn send_to(address: SocketAddr, message: &[u8]) -> Result<u16, WireFault> {
    let mut client = Client::connect(address);
    client.patience(SILENCE);
    client.send(message);
    client.response().map(|response| response.status)
}

/// Returns all messages by name; characters of the collection stand for bytes (Latin-1).
fn messages() -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = OWN.iter().map(|(id, text)| ((*id).to_owned(), text.as_bytes().to_vec())).collect();
    let fields: String = (0..50).map(|number| format!("X-{number}: 1\r\n")).collect();
    all.push((
        "own_many_fields".to_owned(),
        format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into_bytes(),
    ));
    let named = std::env::var_os("PORTCULLIS_SHARED").map(PathBuf::from);
    let shared =
        named.unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data/train")));
    let collection = shared.parent().map(|folder| folder.join(COLLECTION));
    if let Some(Ok(text)) = collection.map(fs::read_to_string) {
        let read: BTreeMap<String, serde_json::Value> =
            serde_json::from_str(&text).expect("the collection is JSON");
        assert!(read.len() >= COLLECTED_MIN, "only {} messages", read.len());
        all.extend(read.into_iter().map(|(id, entry)| {
            let text = entry["p"].as_str().expect("each has its message in `p`").to_owned();
            (id, text.chars().map(|c| u8::try_from(u32::from(c)).expect("Latin-1")).collect())
        }));
    }
    all
}

/// Reads a connection's bytes as requests, refusing whatever any server might read in another way.
fn strictly_read(mut bytes: &[u8]) -> Result<(), String> {
    while !bytes.is_empty() {
        let head = find(bytes, b"\r\n\r\n").ok_or("the head has no end")? + 4;
        let framing = strict_head(&bytes[..head - 4])?;
        bytes = &bytes[head..];
        bytes = match framing {
            Framing::Length(length) => bytes.get(length..).ok_or("the body is shorter than its length")?,
            Framing::Chunked => strict_chunks(bytes)?,
        };
    }
    Ok(())
}

enum Framing {
    Length(usize),
    Chunked,
}

fn strict_head(head: &[u8]) -> Result<Framing, String> {
    let text: String = head.iter().map(|&byte| char::from(byte)).collect();
    let mut lines = text.split("\r\n");
    strict_request_line(lines.next().unwrap_or_default())?;
    let (mut hosts, mut lengths, mut codings) = (Vec::new(), Vec::new(), Vec::new());
    for line in lines {
        let (name, value) =
            line.split_once(':').ok_or_else(|| format!("a line without a colon: {line:?}"))?;
        let well_named = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^`|~".contains(c));
        if !well_named {
            return Err(format!("a field named {name:?}"));
        }
        let value = value.trim_matches([' ', '\t']);
        if value.chars().any(|c| (c.is_control() && c != '\t') || !c.is_ascii()) {
            return Err(format!("a field with the value {value:?}"));
        }
        match name.to_ascii_lowercase().as_str() {
            "host" => hosts.push(value.to_owned()),
            "content-length" => lengths.push(value.to_owned()),
            "transfer-encoding" => codings.push(value.to_ascii_lowercase()),
            "upgrade" | "http2-settings" | "te" | "trailer" => {
                return Err(format!("the hop-by-hop field {name}"));
            }
            _ => {}
        }
    }
    strict_host(&hosts)?;
    match (lengths.as_slice(), codings.as_slice()) {
        ([], []) => Ok(Framing::Length(0)),
        ([], [coding]) if coding == "chunked" => Ok(Framing::Chunked),
        ([length], []) if plain_number(length) => {
            length.parse().map(Framing::Length).map_err(|_| "an endless length".into())
        }
        _ => Err(format!("the framing {lengths:?} with {codings:?}")),
    }
}

fn strict_request_line(line: &str) -> Result<(), String> {
    let [method, target, "HTTP/1.1"] = line.split(' ').collect::<Vec<_>>()[..] else {
        return Err(format!("the request line {line:?}"));
    };
    let plain_method = !method.is_empty() && method.chars().all(|c| c.is_ascii_uppercase());
    let plain_target =
        target.starts_with('/') && target.chars().all(|c| c.is_ascii_graphic() && c != '#' && c != '\\');
    let path = target.split('?').next().unwrap_or_default().to_ascii_lowercase().replace("%2e", ".");
    let climbs = path.split('/').any(|segment| matches!(segment, "." | ".."));
    if !plain_method || matches!(method, "TRACE" | "CONNECT") || !plain_target || climbs {
        return Err(format!("the request line {line:?}"));
    }
    Ok(())
}

fn strict_host(hosts: &[String]) -> Result<(), String> {
    match hosts {
        [host]
            if !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || ".-:[]".contains(c)) =>
        {
            Ok(())
        }
        _ => Err(format!("the hosts {hosts:?}")),
    }
}

fn plain_number(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit()) && (text == "0" || !text.starts_with('0'))
}

fn strict_chunks(mut bytes: &[u8]) -> Result<&[u8], String> {
    loop {
        let (data, end) =
            chunk_at(bytes).map_err(|_| "a chunk that is not one")?.ok_or("a body without an end")?;
        bytes = &bytes[end..];
        if data.is_empty() {
            return Ok(bytes);
        }
    }
}

#[test]
fn the_strict_reader_refuses_what_it_should() {
    let refused = OWN.iter().filter(|(id, _)| !ACCEPTED.iter().any(|(name, _)| name == id));
    for (id, message) in refused {
        assert!(strictly_read(message.as_bytes()).is_err(), "{id}");
    }
    for (id, message) in OWN.iter().filter(|(id, _)| ACCEPTED.iter().any(|(name, _)| name == id)) {
        assert_eq!(strictly_read(message.as_bytes()), Ok(()), "{id}");
    }
}

#[test]
fn each_accepted_message_is_one_there_is() {
    let names: Vec<String> = messages().into_iter().map(|(id, _)| id).collect();
    let collection_is_here = names.iter().any(|name| !name.starts_with("own_"));
    for (id, reason) in ACCEPTED.iter().filter(|(id, _)| collection_is_here || id.starts_with("own_")) {
        assert!(names.iter().any(|name| name == id), "{id} ({reason}) is not among the messages");
    }
}
