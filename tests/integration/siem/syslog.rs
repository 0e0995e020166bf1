//! Syslog: a scripted daemon that goes away, and a real rsyslog over UDP, TCP and TLS.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::net::UdpSocket;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use rcgen::CertificateParams;
use rcgen::KeyPair;
use serde_json::Value;

use super::distinct;
use super::gateway;
use super::recorded;
use super::send;
use super::status;
use crate::wire::PATIENCE;

#[test]
fn a_daemon_that_goes_away_has_the_last_entries_sent_again() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    let (tell, told) = mpsc::channel();
    let first = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut some = [0; 64];
        let read = stream.read(&mut some).expect("bytes");
        // It has read a little of what it was sent, and is gone.
        drop(stream);
        let (mut stream, _) = listener.accept().expect("a second connection");
        let mut all = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(read) = stream.read(&mut piece) {
            if read == 0 {
                break;
            }
            all.extend_from_slice(&piece[..read]);
            tell.send(String::from_utf8_lossy(&all).into_owned()).expect("the test listens");
        }
        read
    });
    let gateway = gateway(&format!(
        "platform = \"syslog\"\nurl = \"tcp://{address}\"\nframing = \"lines\"\nallow_private = true\n\
         event_types = [\"exchange\"]\n"
    ));
    send(&gateway, 20);
    let log = recorded(&gateway, 20);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let heard = told.recv_timeout(PATIENCE).expect("the daemon hears");
        let ids = distinct(heard.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(id));
        if ids == log {
            break;
        }
        assert!(Instant::now() < deadline, "{} of {}", ids.len(), log.len());
    }
    drop(gateway);
    assert!(first.join().expect("the daemon ends") > 0);
}

/// Returns the id of the entry in a message.
fn id(line: &str) -> String {
    let at = line.find('{').expect("a message in JSON");
    let entry: Value = serde_json::from_str(line[at..].trim_end()).expect("JSON");
    entry["id"].as_str().expect("an id").to_owned()
}

/// A running daemon; it is killed when it is dropped.
pub struct Daemon(pub Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn rsyslog(directory: &Path, inputs: &str) -> Option<Daemon> {
    let program = ["/usr/sbin/rsyslogd", "rsyslogd"].into_iter().find(|program| {
        Command::new(program).arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    });
    let Some(program) = program else {
        #[allow(clippy::print_stderr)]
        {
            eprintln!(
                "SKIPPED: rsyslog is not installed (Debian's rsyslog and rsyslog-openssl, which `make test` installs)"
            );
        }
        return None;
    };
    let config = format!(
        "global(workDirectory=\"{0}\")\n{inputs}\
         template(name=\"raw\" type=\"string\" string=\"%rawmsg%\\n\")\n\
         action(type=\"omfile\" file=\"{0}/heard.log\" template=\"raw\")\n",
        directory.display()
    );
    let file = directory.join("rsyslog.conf");
    fs::write(&file, config).expect("the directory is writable");
    let mut command = Command::new(program);
    command.args(["-n", "-iNONE", "-f"]).arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
    Some(Daemon(command.spawn().expect("rsyslog starts")))
}

pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("a bound address").port()
}

pub fn wait_for_port(port: u16) {
    let deadline = Instant::now() + PATIENCE;
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline, "the daemon does not listen");
        thread::yield_now();
    }
}

/// Makes a certificate of this machine, and its key.
pub fn self_signed(directory: &Path) -> (PathBuf, PathBuf) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).expect("names");
    let certificate = params.self_signed(&key).expect("a certificate");
    let (cert_file, key_file) = (directory.join("cert.pem"), directory.join("key.pem"));
    fs::write(&cert_file, certificate.pem()).expect("the directory is writable");
    fs::write(&key_file, key.serialize_pem()).expect("the directory is writable");
    (cert_file, key_file)
}

/// Waits until the daemon has written every exchange of the log, and returns its lines.
pub fn heard(directory: &Path, log: &[String]) -> Vec<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = fs::read_to_string(directory.join("heard.log")).unwrap_or_default();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if log.iter().all(|id| lines.iter().any(|line| line.contains(id.as_str()))) {
            return lines;
        }
        assert!(Instant::now() < deadline, "the daemon heard {} lines of {}", lines.len(), log.len());
        thread::yield_now();
    }
}

#[test]
fn rsyslog_takes_messages_over_tcp_in_all_payloads() {
    for (payload, begins) in [("json", "{\""), ("cef", "CEF:0|"), ("leef", "LEEF:2.0|")] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let port = free_port();
        let inputs =
            format!("module(load=\"imtcp\")\ninput(type=\"imtcp\" address=\"127.0.0.1\" port=\"{port}\")\n");
        let Some(_daemon) = rsyslog(directory.path(), &inputs) else { return };
        wait_for_port(port);
        let gateway = gateway(&format!(
            "platform = \"syslog\"\nurl = \"tcp://127.0.0.1:{port}\"\npayload = \"{payload}\"\nallow_private = true\n\
             event_types = [\"exchange\"]\n"
        ));
        send(&gateway, 12);
        let log = recorded(&gateway, 12);
        let lines = heard(directory.path(), &log);
        for line in lines {
            assert!(line.starts_with("<110>1 2") && line.contains(begins), "{line}");
        }
        status(&gateway, |told| told["events_forwarded"] == 12 && told["status"] == "connected");
    }
}

#[test]
fn rsyslog_takes_messages_over_tls_from_whom_it_can_trust() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (cert_file, key_file) = self_signed(directory.path());
    let port = free_port();
    let inputs = format!(
        "global(defaultNetstreamDriver=\"ossl\" defaultNetstreamDriverCAFile=\"{0}\" \
         defaultNetstreamDriverCertFile=\"{0}\" defaultNetstreamDriverKeyFile=\"{1}\")\n\
         module(load=\"imtcp\" StreamDriver.Name=\"ossl\" StreamDriver.Mode=\"1\" StreamDriver.AuthMode=\"anon\")\n\
         input(type=\"imtcp\" address=\"127.0.0.1\" port=\"{port}\")\n",
        cert_file.display(),
        key_file.display()
    );
    let Some(_daemon) = rsyslog(directory.path(), &inputs) else { return };
    wait_for_port(port);
    let sink = format!(
        "platform = \"syslog\"\nurl = \"tls://127.0.0.1:{port}\"\nallow_private = true\nevent_types = [\"exchange\"]\n"
    );
    let trusting = gateway(&format!("{sink}ca_file = \"{}\"\n", cert_file.display()));
    send(&trusting, 12);
    heard(directory.path(), &recorded(&trusting, 12));
    let wary = gateway(&sink);
    send(&wary, 1);
    let told = status(&wary, |told| told["errors"].as_u64() > Some(0));
    assert_eq!((&told["events_forwarded"], &told["status"]), (&0.into(), &"retrying".into()));
}

#[test]
fn datagrams_hold_one_message_each() {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a free port");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let address = socket.local_addr().expect("a bound address");
    let gateway = gateway(&format!(
        "platform = \"syslog\"\nurl = \"udp://{address}\"\nallow_private = true\nevent_types = [\"exchange\"]\n"
    ));
    send(&gateway, 5);
    let log = recorded(&gateway, 5);
    let mut datagram = [0; 65_536];
    let ids: Vec<String> = (0..5)
        .map(|_| {
            let length = socket.recv(&mut datagram).expect("a datagram");
            id(&String::from_utf8_lossy(&datagram[..length]))
        })
        .collect();
    assert_eq!(ids, log);
}
