//! A real nats-server with JetStream, that goes away, lets nobody in, and has no stream.

use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::io::ErrorKind;
use std::io::Read;
use std::io::Write;
use std::net::TcpListener;
use std::net::TcpStream;
use std::process::Command;
use std::process::Stdio;
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use serde_json::json;
use tempfile::TempDir;

use super::ask;
use super::config;
use super::gateway;
use super::recorded;
use super::send;
use super::status;
use super::syslog::Daemon;
use super::syslog::free_port;
use super::syslog::self_signed;
use super::syslog::wait_for_port;
use super::text;
use crate::gateway::Gateway;
use crate::upstream::Upstream;
use crate::wire::PATIENCE;
use crate::wire::exchange;
use crate::wire::post;

const TOKEN: &str = "s3cret-of-the-bus";

/// A server with a port and a folder of its own, whether it runs or not.
struct Server {
    port: u16,
    folder: TempDir,
    daemon: Option<Daemon>,
}

/// A message of a stream.
struct Stored {
    head: String,
    event: Value,
}

impl Server {
    /// Starts a server; `more` is what its configuration says beside where it is.
    fn start(more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let mut server = Self { port: free_port(), folder, daemon: None };
        server.restart(more);
        server
    }

    /// Kills it, and starts it again on what it has written.
    fn restart(&mut self, more: &str) {
        self.kill();
        let file = self.folder.path().join("nats.conf");
        let written = self.folder.path().join("written");
        let config = format!(
            "listen: \"127.0.0.1:{}\"\njetstream {{ store_dir: \"{}\" }}\n{more}\n",
            self.port,
            written.display()
        );
        fs::write(&file, config).expect("the directory is writable");
        let program = ["/usr/sbin/nats-server", "nats-server"].into_iter().find(|program| {
            Command::new(program).arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
        });
        let program =
            program.expect("Debian's package nats-server is installed: tests/setup/system.sh does it");
        let mut command = Command::new(program);
        command.arg("-c").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        self.daemon = Some(Daemon(command.spawn().expect("nats-server starts")));
        wait_for_port(self.port);
    }

    fn kill(&mut self) {
        self.daemon = None;
    }

    /// Asks JetStream something, as somebody with the token.
    fn ask(&self, call: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
        let (hello, body) = (json!({"verbose": false, "auth_token": TOKEN}), body.to_string());
        write!(
            stream,
            "CONNECT {hello}\r\nSUB answer 1\r\nPUB $JS.API.STREAM.{call} answer {}\r\n{body}\r\n",
            body.len()
        )
        .expect("it reads");
        loop {
            let mut line = String::new();
            assert!(reader.read_line(&mut line).expect("it answers") > 0, "{call}");
            if line.starts_with("MSG ") {
                let length =
                    line.split_ascii_whitespace().last().expect("a length").parse().expect("a number");
                let mut answer = vec![0; length];
                reader.read_exact(&mut answer).expect("a whole answer");
                return serde_json::from_slice(&answer).expect("JSON");
            }
        }
    }

    /// Makes a stream that takes the sink's subject; JetStream may need a moment after the start.
    fn make_stream(&self, name: &str, more: &Value) {
        let mut config = json!({"name": name, "subjects": ["portcullis.>"], "storage": "file"});
        let wanted = more.as_object().expect("settings").clone();
        config.as_object_mut().expect("settings").extend(wanted);
        let made = self.ask(&format!("CREATE.{name}"), &config);
        assert!(made["error"].is_null(), "{made}");
    }

    /// Returns all that a stream has.
    fn stored(&self, name: &str) -> Vec<Stored> {
        let info = self.ask(&format!("INFO.{name}"), &json!({}));
        let last = info["state"]["last_seq"].as_u64().expect("a number");
        let get = |sequence| {
            let got = self.ask(&format!("MSG.GET.{name}"), &json!({"seq": sequence}));
            let decoded = |key: &str| STANDARD.decode(text(&got["message"][key])).expect("base64");
            let head = String::from_utf8(decoded("hdrs")).expect("text");
            Stored { head, event: serde_json::from_slice(&decoded("data")).expect("JSON") }
        };
        (1..=last).map(get).collect()
    }
}

fn ids(stored: &[Stored]) -> Vec<String> {
    stored.iter().map(|message| text(&message.event["metadata"]["uid"])).collect()
}

fn sink(scheme: &str, port: u16, more: &str) -> String {
    format!(
        "platform = \"nats\"\nurl = \"{scheme}://127.0.0.1:{port}\"\nallow_private = true\n\
         event_types = [\"exchange\"]\n{more}"
    )
}

#[test]
fn a_stream_gets_every_entry_once_and_in_order() {
    let server = Server::start("");
    server.make_stream("AUDIT", &json!({}));
    let mut gateway = gateway(&sink("nats", server.port, "batch_entries = 7\n"));
    send(&gateway, 30);
    let log = recorded(&gateway, 30);
    let told = status(&gateway, |told| told["events_forwarded"] == 30 && told["status"] == "connected");
    assert_eq!((&told["platform"], &told["dead_letters"]), (&"nats".into(), &0.into()));
    let stored = server.stored("AUDIT");
    assert_eq!(ids(&stored), log);
    let first = &stored[0];
    assert!(first.head.contains(&format!("Nats-Msg-Id: {}@portcullis.audit\r\n", log[0])), "{}", first.head);
    assert_eq!((&first.event["class_uid"], &first.event["category_uid"]), (&6003.into(), &6.into()));

    gateway.crash_and_restart();
    send(&gateway, 5);
    let log = recorded(&gateway, 35);
    status(&gateway, |told| told["cursor"] == log[34].as_str());
    assert_eq!(ids(&server.stored("AUDIT")), log, "what is sent again after a crash is not stored again");
}

#[test]
fn a_server_that_is_killed_loses_nothing_and_has_nothing_twice() {
    const SENT: usize = 400;
    let mut server = Server::start("");
    server.make_stream("AUDIT", &json!({}));
    let gateway = gateway(&sink("nats", server.port, "batch_entries = 50\n"));
    thread::scope(|scope| {
        let traffic = scope.spawn(|| send(&gateway, SENT));
        for forwarded in [SENT / 5, SENT / 2] {
            status(&gateway, |told| told["events_forwarded"].as_u64() >= Some(forwarded as u64));
            server.kill();
            status(&gateway, |told| told["status"] == "retrying");
            server.restart("");
        }
        traffic.join().expect("all are answered");
    });
    let log = recorded(&gateway, SENT);
    let told = status(&gateway, |told| told["cursor"] == log[SENT - 1].as_str());
    assert_eq!((&told["status"], &told["dead_letters"]), (&"connected".into(), &0.into()), "{told}");
    assert_eq!(ids(&server.stored("AUDIT")), log, "all of them, in order, each once");
}

#[test]
fn a_wrong_token_is_told_and_the_right_one_is_followed() {
    let server = Server::start(&format!("authorization {{ token: \"{TOKEN}\" }}"));
    server.make_stream("AUDIT", &json!({}));
    let upstream = Upstream::answering("application/json", "{}");
    let with =
        |file: &str| config(&upstream, &sink("nats", server.port, &format!("secret_file = \"{file}\"\n")));
    let wrong = "a-token-of-long-ago";
    let tokens = [("old.token", wrong), ("new.token", TOKEN)];
    let gateway = Gateway::start_beside(&with("old.token"), &tokens);
    send(&gateway, 3);
    let refused = "the receiver refuses the sink's credentials, or what they may do";
    status(&gateway, |told| told["status"] == "retrying" && told["last_error"] == refused);
    gateway.rewrite(&with("new.token"));
    let log = recorded(&gateway, 3);
    status(&gateway, |told| told["events_forwarded"] == 3 && told["status"] == "connected");
    assert_eq!(ids(&server.stored("AUDIT")), log);
    let said = gateway.log() + &ask(&gateway, "/api/v1/siem/status").to_string();
    assert!(!said.contains(wrong) && !said.contains(TOKEN), "{said}");
}

#[test]
fn tls_is_spoken_with_whom_the_operator_trusts_and_nothing_else_is() {
    let mut server = Server::start("");
    server.make_stream("AUDIT", &json!({}));
    let (cert_file, key_file) = self_signed(server.folder.path());
    server.restart(&format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\" }}",
        cert_file.display(),
        key_file.display()
    ));
    let trusting = gateway(&sink("tls", server.port, &format!("ca_file = \"{}\"\n", cert_file.display())));
    send(&trusting, 12);
    let log = recorded(&trusting, 12);
    status(&trusting, |told| told["events_forwarded"] == 12 && told["status"] == "connected");
    for (scheme, because) in [("tls", "cannot be reached"), ("nats", "begin `url` with tls://")] {
        let wary = gateway(&sink(scheme, server.port, ""));
        send(&wary, 1);
        let told = status(&wary, |told| told["errors"].as_u64() > Some(0));
        assert_eq!(told["events_forwarded"], 0, "{told}");
        assert!(text(&told["last_error"]).contains(because), "{told}");
    }
    server.restart("");
    assert_eq!(ids(&server.stored("AUDIT")), log);
}

#[test]
fn entries_wait_until_the_right_stream_takes_them() {
    let server = Server::start("");
    let gateway = gateway(&sink("nats", server.port, "stream = \"AUDIT\"\n"));
    send(&gateway, 6);
    status(&gateway, |told| told["last_error"] == "no stream takes the sink's subject");
    server.make_stream("OTHER", &json!({}));
    let other = "a stream takes the sink's subject that is not the expected one";
    status(&gateway, |told| told["last_error"] == other);
    assert!(server.stored("OTHER").is_empty());
    server.ask("DELETE.OTHER", &json!({}));
    server.make_stream("AUDIT", &json!({"max_msgs": 4, "discard": "new"}));
    let full = "the stream takes nothing: JetStream error 10077";
    status(&gateway, |told| told["last_error"] == full);
    let wider = json!({"name": "AUDIT", "subjects": ["portcullis.>"], "storage": "file"});
    server.ask("UPDATE.AUDIT", &wider);
    let log = recorded(&gateway, 6);
    let told = status(&gateway, |told| told["cursor"] == log[5].as_str() && told["status"] == "connected");
    assert_eq!((&told["events_forwarded"], &told["dead_letters"]), (&6.into(), &0.into()), "{told}");
    assert_eq!(ids(&server.stored("AUDIT")), log);
}

#[test]
fn what_is_too_large_for_the_server_or_the_stream_does_not_hold_the_others_up() {
    for (server_takes, stream_takes) in [("max_payload: 4096", -1), ("", 4096)] {
        let server = Server::start(server_takes);
        server.make_stream("AUDIT", &json!({"max_msg_size": stream_takes}));
        let gateway = gateway(&sink("nats", server.port, ""));
        send(&gateway, 2);
        recorded(&gateway, 2);
        let leak = format!("AKIA{} ", "Z7VRSQ5TJN2WMPLX").repeat(100);
        exchange(gateway.proxy, &post("/v1/embeddings", "", &format!("{{\"input\":\"{leak}\"}}")));
        recorded(&gateway, 3);
        send(&gateway, 2);
        let mut log = recorded(&gateway, 5);
        let told = status(&gateway, |told| told["cursor"] == log[4].as_str());
        assert_eq!((&told["events_forwarded"], &told["dead_letters"]), (&4.into(), &1.into()), "{told}");
        let large = log.remove(2);
        let letters =
            fs::read_to_string(gateway.directory().join("state/siem/soc.dead")).expect("dead letters");
        assert!(letters.starts_with(&large), "{letters}");
        assert_eq!(ids(&server.stored("AUDIT")), log);
    }
}

#[test]
fn a_private_server_needs_the_operators_word() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.set_nonblocking(true).expect("a mode");
    let port = listener.local_addr().expect("a bound address").port();
    let gateway = gateway(&format!("platform = \"nats\"\nurl = \"nats://localhost:{port}\"\n"));
    send(&gateway, 1);
    let told = status(&gateway, |told| told["errors"].as_u64() > Some(0) && told["status"] == "retrying");
    assert!(text(&told["last_error"]).contains("`allow_private = true`"), "{told}");
    let accepted = listener.accept().map(drop).map_err(|error| error.kind());
    assert_eq!(accepted, Err(ErrorKind::WouldBlock), "nobody came");
}
