use std::io::Read;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;

use super::*;
use crate::clock::SystemClock;
use crate::govern::audit::AuditEvent;
use crate::govern::audit::Hash;
use crate::govern::siem::config::Peer;
use crate::govern::siem::config::SyslogPayload;
use crate::id::Ulid;

fn sink(to: SocketAddr) -> Syslog {
    let peer = Peer { host: to.ip().to_string(), port: to.port(), tls: false, ca: None, allow_private: true };
    let target = SyslogTarget {
        peer,
        transport: SyslogTransport::Lines,
        payload: SyslogPayload::Json,
        message_bytes_max: 1 << 20,
    };
    let teller = Teller { version: "0".into(), node: "node".into() };
    Syslog::new(target, None, 10_000, teller, Arc::new(SystemClock))
}

fn entries(count: u128, message: &str) -> Vec<Entry> {
    let entry = |id| Entry {
        node: None,
        id: Ulid(id),
        recorded_unix_ms: None,
        event: AuditEvent { message: message.to_owned(), ..AuditEvent::default() },
        hash: Hash::default(),
        previous_hash: Hash::default(),
    };
    (1..=count).map(entry).collect()
}

/// Whoever stops in the midst of a batch that the daemon takes its time with leaves nothing before it in doubt.
#[tokio::test]
async fn a_daemon_that_is_busy_when_we_stop_has_what_was_sent_before() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut sink = sink(listener.local_addr().unwrap());
    let (stopped, stop) = mpsc::channel();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let daemon = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut all, mut piece) = (Vec::new(), [0; 64 << 10]);
        // It reads the first batch and a little, and no more until the gateway is stopped.
        while all.iter().filter(|byte| **byte == b'\n').count() < 3 || all.len() < 20_000 {
            let read = stream.read(&mut piece).unwrap();
            all.extend_from_slice(&piece[..read]);
        }
        tell.send(()).unwrap();
        stop.recv().unwrap();
        stream.read_to_end(&mut all).unwrap();
        all
    });
    let (first, large) = (entries(3, "a word"), entries(200, &"x".repeat(100_000)));
    let batch: Vec<&Entry> = first.iter().collect();
    assert_eq!(sink.deliver(&batch).await, Ok(Delivery::Taken));
    assert_eq!(sink.unsettled(), 3);
    let batch: Vec<&Entry> = large.iter().collect();
    tokio::select! {
        biased;
        done = sink.deliver(&batch) => panic!("nobody reads it: {done:?}"),
        told = told.recv() => told.unwrap(),
    }
    stopped.send(()).unwrap();
    sink.close().await;
    assert_eq!(sink.unsettled(), 0);
    let all = daemon.join().unwrap();
    assert_eq!(all.iter().filter(|byte| **byte == b'\n').count(), 203, "no message is cut short");
}
