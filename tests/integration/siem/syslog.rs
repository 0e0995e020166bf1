//! Syslog: a scripted daemon that goes away, and a real rsyslog over UDP, TCP and TLS.

use std::fs;
use std::io::Read;
use std::net::SocketAddr;
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

use super::config;
use super::distinct;
use super::gateway;
use super::recorded;
use super::send;
use super::status;
use crate::gateway::Gateway;
use crate::upstream::Upstream;
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

/// A daemon; on its first connection it reads all there is, or a little and no more.
struct Scripted {
    address: SocketAddr,
    /// What came so far on a connection, whenever there is more; nothing once it has ended.
    told: mpsc::Receiver<(usize, Option<String>)>,
}

impl Scripted {
    fn start(reads_at_first: bool) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let mut held = Vec::new();
            for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
                let (mut stream, tell) = (stream, tell.clone());
                if number == 0 && !reads_at_first {
                    stream.read_exact(&mut [0; 64]).expect("bytes");
                    held.push(stream);
                    continue;
                }
                thread::spawn(move || {
                    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
                    while let Ok(read @ 1..) = stream.read(&mut piece) {
                        all.extend_from_slice(&piece[..read]);
                        // The test may have heard enough.
                        let _ = tell.send((number, Some(String::from_utf8_lossy(&all).into_owned())));
                    }
                    let _ = tell.send((number, None));
                });
            }
        });
        Self { address, told }
    }

    fn sink(&self, more: &str) -> String {
        format!(
            "platform = \"syslog\"\nurl = \"tcp://{}\"\nframing = \"lines\"\nallow_private = true\n\
             event_types = [\"exchange\"]\n{more}",
            self.address
        )
    }

    /// Waits until a connection has brought so many entries; returns them, in the order in which they came.
    fn heard(&self, connection: usize, count: usize) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (number, text) = self.told.recv_timeout(PATIENCE).expect("the daemon hears");
            let Some(text) = text else { continue };
            let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            let ids: Vec<String> = whole.map(id).collect();
            if number == connection && ids.len() >= count {
                return ids;
            }
            assert!(Instant::now() < deadline, "{} of {count} on connection {number}", ids.len());
        }
    }

    /// Waits until a connection ends.
    fn ended(&self, connection: usize) {
        while self.told.recv_timeout(PATIENCE).expect("the connection ends") != (connection, None) {}
    }
}

/// What was sent, and what nobody had read, was lost with the connection of a sink that changed, or of a process that
/// ended or was killed.
#[test]
fn what_a_daemon_may_not_have_read_is_sent_again_by_whoever_takes_the_place_over() {
    let ways: [fn(&mut Gateway, &str); 3] = [
        |gateway, changed| gateway.rewrite(changed),
        |gateway, _| gateway.end_and_restart(),
        |gateway, _| gateway.crash_and_restart(),
    ];
    for begun_again in ways {
        let (daemon, upstream) = (Scripted::start(false), Upstream::answering("application/json", "{}"));
        let mut gateway = Gateway::start(&config(&upstream, &daemon.sink("")));
        send(&gateway, 12);
        let log = recorded(&gateway, 12);
        status(&gateway, |told| told["events_forwarded"] == 12);
        begun_again(&mut gateway, &config(&upstream, &daemon.sink("batch_entries = 5\n")));
        assert_eq!(daemon.heard(1, 12), log);
    }
}

#[test]
fn what_a_daemon_has_read_is_not_sent_again_when_its_sink_changes_or_the_process_ends() {
    let (daemon, upstream) = (Scripted::start(true), Upstream::answering("application/json", "{}"));
    let mut gateway = Gateway::start(&config(&upstream, &daemon.sink("")));
    send(&gateway, 12);
    assert_eq!(daemon.heard(0, 12), recorded(&gateway, 12));
    gateway.rewrite(&config(&upstream, &daemon.sink("batch_entries = 5\n")));
    daemon.ended(0);
    send(&gateway, 3);
    let log = recorded(&gateway, 15);
    let second = daemon.heard(1, 3);
    assert_eq!(second, log[12..]);
    gateway.end_and_restart();
    send(&gateway, 2);
    assert_eq!(daemon.heard(2, 2), recorded(&gateway, 17)[15..]);
}

/// Some firewalls forget connections that lie idle and reset what comes over them then: each event found its connection
/// broken, and all that had been sent for it went again with the next one.
#[test]
fn connections_that_all_break_bring_no_entry_back_for_ever() {
    const AGAIN_MAX: usize = 3;
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    let (reset, resets) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            resets.recv().expect("the test goes on");
            let mut all = [0; 64 << 10];
            let heard = stream.peek(&mut all).expect("bytes");
            // Closed with what is unread in it, a connection is reset.
            drop(stream);
            tell.send(String::from_utf8_lossy(&all[..heard]).into_owned()).expect("the test listens");
        }
    });
    let gateway = gateway(&format!(
        "platform = \"syslog\"\nurl = \"tcp://{address}\"\nframing = \"lines\"\nallow_private = true\n\
         event_types = [\"exchange\"]\n"
    ));
    for count in 1..=8 {
        send(&gateway, 1);
        let log = recorded(&gateway, count);
        status(&gateway, |told| told["status"] == "connected" && told["cursor"] == log[count - 1].as_str());
        reset.send(()).expect("the daemon goes on");
        let heard: Vec<String> =
            told.recv_timeout(PATIENCE).expect("the daemon hears").lines().map(id).collect();
        assert_eq!(heard, log[count - heard.len()..], "the last ones, in order");
        assert!(heard.len() <= 1 + AGAIN_MAX, "{} on connection {count}", heard.len());
    }
}

/// A daemon that ends each connection after its first message, in good order or by a reset, gets all of them all the same,
/// in their order, and none for ever.
#[test]
fn a_daemon_that_closes_after_each_message_gets_all_of_them() {
    const SENT_MAX: usize = 8;
    for resets in [false, true] {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let (mut message, mut byte) = (Vec::new(), [0]);
                while !message.ends_with(b"\n") && matches!(stream.read(&mut byte), Ok(1)) {
                    message.extend_from_slice(&byte);
                    // Closed with what is unread in it, a connection is reset.
                    if resets && message.ends_with(b"}") && id_of(&message).is_some() {
                        break;
                    }
                }
                drop(stream);
                // The test may have heard enough.
                let _ = id_of(&message).map(|id| tell.send(id));
            }
        });
        let gateway = gateway(&format!(
            "platform = \"syslog\"\nurl = \"tcp://{address}\"\nframing = \"lines\"\nallow_private = true\n\
             event_types = [\"exchange\"]\n"
        ));
        send(&gateway, 12);
        let log = recorded(&gateway, 12);
        let mut heard: Vec<String> = Vec::new();
        while heard.last() != log.last() {
            heard.push(told.recv_timeout(PATIENCE).expect("it goes on"));
        }
        for entry in &log {
            let times = heard.iter().filter(|id| *id == entry).count();
            assert!((1..=SENT_MAX).contains(&times), "{times} times, resets: {resets}");
        }
        assert!(heard.is_sorted(), "{heard:?}");
        status(&gateway, |told| told["cursor"] == log[11].as_str());
    }
}

/// Returns the id of the entry in the bytes of a whole message.
fn id_of(message: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(message).ok()?;
    let entry: Value = serde_json::from_str(text.get(text.find('{')?..)?.trim_end()).ok()?;
    entry["id"].as_str().map(str::to_owned)
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

/// Over UDP a receiver tells by one thing alone that it is not there: its host refuses what comes.
#[test]
fn what_nobody_listens_for_over_udp_waits_until_somebody_does() {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a free port");
    let address = socket.local_addr().expect("a bound address");
    drop(socket);
    let gateway = gateway(&format!(
        "platform = \"syslog\"\nurl = \"udp://{address}\"\nallow_private = true\nevent_types = [\"exchange\"]\n"
    ));
    send(&gateway, 5);
    let log = recorded(&gateway, 5);
    let told = status(&gateway, |told| told["errors"].as_u64() > Some(1));
    assert_eq!((&told["status"], &told["events_forwarded"]), (&"retrying".into(), &0.into()), "{told}");
    let socket = UdpSocket::bind(address).expect("the port is free still");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut datagram = [0; 65_536];
    let mut heard = || {
        let length = socket.recv(&mut datagram).expect("a datagram");
        id(&String::from_utf8_lossy(&datagram[..length]))
    };
    let mut ids = Vec::new();
    while distinct(ids.iter().cloned()).len() < 5 {
        ids.push(heard());
    }
    assert_eq!(distinct(ids.into_iter()), log);
    let told = status(&gateway, |told| told["events_forwarded"] == 5);
    assert_eq!(told["status"], "connected", "{told}");
}
