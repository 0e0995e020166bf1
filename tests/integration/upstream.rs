//! A provider that follows a script: it records exactly the bytes that reach it and answers with
//! exactly the pieces it was given, each in a write of its own.

use std::io::Read;
use std::io::Write;
use std::net::Shutdown;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use parking_lot::Condvar;
use parking_lot::Mutex;

use crate::wire::PATIENCE;
use crate::wire::chunk_at;
use crate::wire::find;

/// How long what arrives behind the end of an answer is still recorded.
const CLOSING: Duration = Duration::from_secs(2);

/// One thing that the upstream does once it has a whole request.
#[derive(Clone, Debug)]
pub enum Step {
    /// Writes these bytes and flushes them.
    Send(Vec<u8>),
    /// Waits until the test calls [`Upstream::proceed`] or the peer closes: longer than any test does.
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
}

#[derive(Default)]
struct Record {
    kept: Mutex<Kept>,
    changed: Condvar,
}

#[derive(Default)]
struct Kept {
    connections: Vec<Recorded>,
    /// How many [`Step::Wait`]s may end.
    allowed: usize,
}

impl Upstream {
    /// Starts an upstream that plays the script for each request it receives.
    pub fn start(script: Vec<Step>) -> Self {
        Self::start_knowing(|_| script)
    }

    /// Starts an upstream whose script tells where it listens.
    pub fn start_knowing(script: impl FnOnce(SocketAddr) -> Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let record = Arc::new(Record::default());
        let (script, kept) = (Arc::new(script(address)), Arc::clone(&record));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (script, record) = (Arc::clone(&script), Arc::clone(&kept));
                thread::spawn(move || serve(stream, &script, &record));
            }
        });
        Self { address, record }
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
        self.record.kept.lock().allowed += 1;
        self.record.changed.notify_all();
    }

    /// Returns what was received so far, one entry a connection, in the order of their arrival.
    pub fn received(&self) -> Vec<Recorded> {
        self.record.kept.lock().connections.clone()
    }

    /// Returns what was received so far and forgets it.
    pub fn take(&self) -> Vec<Recorded> {
        std::mem::take(&mut self.record.kept.lock().connections)
    }

    /// Waits until what was received satisfies a condition, and returns it.
    pub fn wait_until(&self, condition: impl Fn(&[Recorded]) -> bool) -> Vec<Recorded> {
        let deadline = Instant::now() + PATIENCE;
        let mut kept = self.record.kept.lock();
        while !condition(&kept.connections) {
            let waited = self.record.changed.wait_until(&mut kept, deadline);
            assert!(!waited.timed_out(), "the upstream waited in vain; it has {:?}", kept.connections);
        }
        kept.connections.clone()
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

/// One connection, on which what arrives is recorded while the script is played.
struct Connection {
    place: usize,
    closed: AtomicBool,
    record: Arc<Record>,
}

impl Connection {
    fn open(record: &Arc<Record>) -> Self {
        let mut kept = record.kept.lock();
        kept.connections.push(Recorded::default());
        let place = kept.connections.len() - 1;
        Self { place, closed: AtomicBool::new(false), record: Arc::clone(record) }
    }

    fn update(&self, change: impl Fn(&mut Recorded)) {
        if let Some(recorded) = self.record.kept.lock().connections.get_mut(self.place) {
            change(recorded);
        }
        self.record.changed.notify_all();
    }

    fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.update(|recorded| recorded.closed = true);
    }

    /// Waits until the peer has closed or `or` holds; `false` after a time, or once it has closed.
    fn wait(&self, limit: Duration, or: impl Fn(&mut Kept) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        let mut kept = self.record.kept.lock();
        loop {
            if self.closed.load(Ordering::SeqCst) {
                return false;
            }
            if or(&mut kept) {
                return true;
            }
            if self.record.changed.wait_until(&mut kept, deadline).timed_out() {
                return false;
            }
        }
    }
}

fn serve(mut stream: TcpStream, script: &Arc<Vec<Step>>, record: &Arc<Record>) {
    stream.set_nodelay(true).expect("a TCP socket");
    let connection = Arc::new(Connection::open(record));
    let (whole, requests) = mpsc::channel();
    let (answering, known, script) =
        (stream.try_clone().expect("a socket"), Arc::clone(&connection), Arc::clone(script));
    thread::spawn(move || answer(answering, &script, &known, &requests));
    let mut unread = Vec::new();
    let mut piece = [0; 16 << 10];
    loop {
        let count = stream.read(&mut piece).unwrap_or(0);
        if count == 0 {
            return connection.close();
        }
        connection.update(|recorded| recorded.bytes.extend_from_slice(&piece[..count]));
        unread.extend_from_slice(&piece[..count]);
        while let Some(end) = request_end(&unread) {
            unread.drain(..end);
            let _ = whole.send(());
        }
    }
}

/// Plays the script for each request, until it says to close.
fn answer(mut stream: TcpStream, script: &[Step], connection: &Connection, requests: &mpsc::Receiver<()>) {
    while requests.recv().is_ok() {
        if !play(&mut stream, script, connection) {
            let _ = stream.shutdown(Shutdown::Write);
            // What else arrives is still recorded; a reset could destroy the answer on its way.
            connection.wait(CLOSING, |_| false);
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
    }
}

/// Plays the script; `false`: the connection is to be closed.
fn play(stream: &mut TcpStream, script: &[Step], connection: &Connection) -> bool {
    script.iter().all(|step| match step {
        Step::Send(bytes) => stream.write_all(bytes).and_then(|()| stream.flush()).is_ok(),
        Step::Wait => connection.wait(PATIENCE * 4, |kept| match kept.allowed.checked_sub(1) {
            Some(left) => {
                kept.allowed = left;
                true
            }
            None => false,
        }),
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
