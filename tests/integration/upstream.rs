//! A provider that follows a script: it records exactly the bytes that reach it and answers with
//! exactly the pieces it was given, each in a write of its own.

use std::io::Read;
use std::io::Write;
use std::net::Shutdown;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use parking_lot::Condvar;
use parking_lot::Mutex;

use crate::wire::PATIENCE;
use crate::wire::chunk_at;
use crate::wire::find;

/// One thing that the upstream does once it has a whole request.
#[derive(Clone, Debug)]
pub enum Step {
    /// Writes these bytes and flushes them.
    Send(Vec<u8>),
    /// Waits until the test calls [`Upstream::proceed`].
    Wait,
    /// Closes the connection.
    Close,
}

/// What one connection brought.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Every byte received.
    pub bytes: Vec<u8>,
    /// The peer has closed its side (or reset the connection).
    pub closed: bool,
}

/// A listening upstream; it stops with the test's process.
pub struct Upstream {
    /// Where it listens.
    pub address: SocketAddr,
    record: Arc<Record>,
    proceed: mpsc::Sender<()>,
}

#[derive(Default)]
struct Record {
    connections: Mutex<Vec<Recorded>>,
    changed: Condvar,
}

impl Upstream {
    /// Starts an upstream that plays the script for each request it receives.
    pub fn start(script: Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let record = Arc::new(Record::default());
        let (proceed, waits) = mpsc::channel();
        let waits = Arc::new(Mutex::new(waits));
        let (script, kept) = (Arc::new(script), Arc::clone(&record));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (script, record, waits) = (Arc::clone(&script), Arc::clone(&kept), Arc::clone(&waits));
                thread::spawn(move || serve(stream, &script, &record, &waits));
            }
        });
        Self { address, record, proceed }
    }

    /// Starts an upstream that answers each request with one whole response and closes.
    pub fn answering(content_type: &str, body: &str) -> Self {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        Self::start(vec![Step::Send(head.into_bytes()), Step::Close])
    }

    /// Starts an upstream that streams: a chunked head, each piece as a chunk, then the end.
    pub fn streaming(content_type: &str, pieces: &[&[u8]]) -> Self {
        let mut script = vec![Step::Send(chunked_head(content_type))];
        script.extend(pieces.iter().map(|piece| Step::Send(chunk(piece))));
        script.push(Step::Send(chunk(b"")));
        Self::start(script)
    }

    /// Lets one [`Step::Wait`] end.
    pub fn proceed(&self) {
        self.proceed.send(()).expect("the upstream runs");
    }

    /// Returns what was received so far, one entry a connection, in the order of their arrival.
    pub fn received(&self) -> Vec<Recorded> {
        self.record.connections.lock().clone()
    }

    /// Returns what was received so far and forgets it.
    pub fn take(&self) -> Vec<Recorded> {
        let mut connections = self.record.connections.lock();
        std::mem::take(&mut *connections)
    }

    /// Waits until what was received satisfies a condition, and returns it.
    pub fn wait_until(&self, condition: impl Fn(&[Recorded]) -> bool) -> Vec<Recorded> {
        let deadline = Instant::now() + PATIENCE;
        let mut connections = self.record.connections.lock();
        while !condition(&connections) {
            let waited = self.record.changed.wait_until(&mut connections, deadline);
            assert!(!waited.timed_out(), "the upstream waited in vain; it has {connections:?}");
        }
        connections.clone()
    }
}

/// Writes the head of a chunked response that keeps its connection.
pub fn chunked_head(content_type: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n")
        .into_bytes()
}

/// Writes one chunk; an empty one ends the body.
pub fn chunk(data: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}

fn serve(mut stream: TcpStream, script: &[Step], record: &Record, waits: &Mutex<mpsc::Receiver<()>>) {
    stream.set_nodelay(true).expect("a TCP socket");
    let place = {
        let mut connections = record.connections.lock();
        connections.push(Recorded::default());
        connections.len() - 1
    };
    let update = |change: &dyn Fn(&mut Recorded)| {
        if let Some(recorded) = record.connections.lock().get_mut(place) {
            change(recorded);
        }
        record.changed.notify_all();
    };
    let mut unread = Vec::new();
    let mut piece = [0; 16 << 10];
    loop {
        let count = stream.read(&mut piece).unwrap_or(0);
        if count == 0 {
            update(&|recorded| recorded.closed = true);
            return;
        }
        update(&|recorded| recorded.bytes.extend_from_slice(&piece[..count]));
        unread.extend_from_slice(&piece[..count]);
        while let Some(end) = request_end(&unread) {
            unread.drain(..end);
            if !play(&mut stream, script, waits) {
                let _ = stream.shutdown(Shutdown::Write);
                // What else arrives is still recorded; a reset could destroy the answer on its way.
                stream.set_read_timeout(Some(Duration::from_secs(2))).expect("a time above zero");
                break;
            }
        }
    }
}

/// Plays the script; `false`: the connection is to be closed.
fn play(stream: &mut TcpStream, script: &[Step], waits: &Mutex<mpsc::Receiver<()>>) -> bool {
    script.iter().all(|step| match step {
        Step::Send(bytes) => stream.write_all(bytes).and_then(|()| stream.flush()).is_ok(),
        Step::Wait => waits.lock().recv_timeout(PATIENCE).is_ok(),
        Step::Close => false,
    })
}

/// Returns where the first request ends, if it is whole. It is read as loosely as the loosest
/// server would, since the strict reading is what tests assert on the recorded bytes.
fn request_end(bytes: &[u8]) -> Option<usize> {
    let head = find(bytes, b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let field =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim));
    if field("transfer-encoding").is_some() {
        let mut at = head;
        while let Ok(Some((data, end))) = chunk_at(&bytes[at..]) {
            at += end;
            if data.is_empty() {
                return Some(at);
            }
        }
        return None;
    }
    let length: usize = field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    (bytes.len() >= head + length).then_some(head + length)
}

#[test]
fn it_records_what_it_gets_and_answers_in_the_pieces_it_was_given() {
    use crate::wire::Client;
    use crate::wire::Events;
    let pause =
        vec![Step::Send(chunked_head("text/event-stream")), Step::Send(chunk(b"data: a\n\n")), Step::Wait];
    let rest =
        vec![Step::Send(chunk(b"data: b\r\n")), Step::Send(chunk(b"\r\ntail")), Step::Send(chunk(b""))];
    let upstream = Upstream::start([pause, rest].concat());
    let request = b"POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let mut client = Client::connect(upstream.address);
    client.send(&request[..20]);
    client.send(&request[20..]);
    assert_eq!(client.head().expect("a head").status, 200);
    let mut events = Events::of(&mut client);
    assert_eq!(events.event().expect("an event").as_deref(), Some(&b"data: a\n\n"[..]));
    upstream.proceed();
    assert_eq!(events.event().expect("an event").as_deref(), Some(&b"data: b\r\n\r\n"[..]));
    assert_eq!(events.event().expect("a tail").as_deref(), Some(&b"tail"[..]));
    assert_eq!(events.event(), Ok(None));
    drop(client);
    let received = upstream.wait_until(|connections| connections.iter().all(|connection| connection.closed));
    assert_eq!(received[0].bytes, request);
}
