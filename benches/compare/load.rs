//! Both ends of the comparison: a provider that costs next to nothing, and clients that measure.
//!
//! ```text
//! load upstream ADDRESS                                  answers chats, whole or as a paced stream
//! load closed TARGET BODY SECONDS CONNECTIONS            each connection sends as soon as it may
//! load rate   TARGET BODY SECONDS CONNECTIONS PER_SECOND requests are due at fixed times
//! load paced  TARGET BODY SECONDS CONNECTIONS            reads streams; delay of each event
//! ```
//! A body that holds words `qzqaaaaaaaaaaaa` has other letters there in each request. The clients print one line of JSON. Latencies are in microseconds; one that was due while its
//! connection was still busy counts from when it was due. Everything blocks, one thread a
//! connection: that is the cheapest client there is for a few dozen connections.

use std::error::Error;
use std::io;
use std::io::Read;
use std::io::Write;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

const READ_BYTES: usize = 64 << 10;
const EVENTS: usize = 200;
const EVENT_GAP: Duration = Duration::from_millis(5);
const SLOW_EVENT_GAP: Duration = Duration::from_secs(1);
const PROSE: &str = "The harbour lay still that morning, and the first boats came home with little to show for a long \
night. In the market hall people spoke of the weather, of prices, and of the new bridge that was to be opened in \
the autumn, if the stone arrived in time and the river stayed within its banks. ";
const STREAM_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
/// A time of writing travels as a word: two letters to find it by, then 16 that spell microseconds.
const STAMP: &str = "zq";
const STAMP_LETTERS: usize = 16;

/// What a body has such a word in its texts for: it is another one in each request, so that no text is sent twice.
const FRESH: &[u8] = b"qzq";
const FRESH_LETTERS: usize = 12;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let report = match words.as_slice() {
        ["upstream", address] => return Ok(upstream(address)?),
        ["closed", target, body, seconds, connections] => {
            clients(target, body, seconds, connections, Pace::Closed)?
        }
        ["rate", target, body, seconds, connections, rate] => {
            clients(target, body, seconds, connections, Pace::Rate(rate.parse()?))?
        }
        ["paced", target, body, seconds, connections] => {
            clients(target, body, seconds, connections, Pace::Streams)?
        }
        _ => return Err("usage: see the top of load.rs".into()),
    };
    writeln!(io::stdout(), "{report}")?;
    Ok(())
}

// === the provider ===

fn upstream(address: &str) -> io::Result<()> {
    let body = format!(
        "{{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"bench\",\"choices\":[{{\
         \"index\":0,\"message\":{{\"role\":\"assistant\",\"content\":\"{}\"}},\"finish_reason\":\"stop\"}}],\
         \"usage\":{{\"prompt_tokens\":100,\"completion_tokens\":150,\"total_tokens\":250}}}}",
        PROSE.repeat(3)
    );
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let answer: &'static [u8] = Box::leak((head + &body).into_bytes().into_boxed_slice());
    for stream in TcpListener::bind(address)?.incoming() {
        let stream = stream?;
        thread::spawn(move || answer_all(stream, answer));
    }
    Ok(())
}

fn answer_all(mut stream: TcpStream, answer: &[u8]) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut connection = Buffered::default();
    loop {
        let (_, body) = connection.message(&mut stream)?;
        // The request says so at its end: the bodies are ours.
        let tail = body.len().saturating_sub(32);
        if find(&body[tail..], b"\"stream\":true").is_some() {
            let is_slow = find(&body[tail..], b"\"slow\":true").is_some();
            answer_events(&mut stream, if is_slow { SLOW_EVENT_GAP } else { EVENT_GAP })?;
        } else {
            stream.write_all(answer)?;
        }
    }
}

fn answer_events(stream: &mut TcpStream, gap: Duration) -> io::Result<()> {
    stream.write_all(STREAM_HEAD)?;
    let begun = Instant::now();
    let mut at = 0;
    for event in 0..EVENTS {
        thread::sleep((begun + gap * event as u32).saturating_duration_since(Instant::now()));
        let words = PROSE.get(at..at + 24).unwrap_or(" and so it went on, day b");
        at = (at + 24) % (PROSE.len() - 24);
        let data = format!(
            "data: {{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"bench\",\
             \"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{} {words}\"}},\"finish_reason\":null}}]}}\n\n",
            stamp()
        );
        stream.write_all(format!("{:x}\r\n{data}\r\n", data.len()).as_bytes())?;
    }
    stream.write_all(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
}

fn now_us() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_micros() as u64)
}

fn stamp() -> String {
    let now = now_us();
    let letters = (0..STAMP_LETTERS).rev().map(|nibble| char::from(b'a' + (now >> (4 * nibble) & 15) as u8));
    STAMP.chars().chain(letters).collect()
}

fn stamped(event: &[u8]) -> Option<u64> {
    let at = find(event, STAMP.as_bytes())? + STAMP.len();
    event.get(at..at + STAMP_LETTERS)?.iter().try_fold(0u64, |time, &letter| {
        (b'a'..=b'p').contains(&letter).then(|| time << 4 | u64::from(letter - b'a'))
    })
}

// === the clients ===

#[derive(Clone, Copy)]
enum Pace {
    Closed,
    Rate(f64),
    Streams,
}

#[derive(Default)]
struct Tally {
    latencies_us: Vec<u64>,
    answers: u64,
    refused: u64,
    errors: u64,
    events: u64,
}

fn clients(
    target: &str,
    body: &str,
    seconds: &str,
    connections: &str,
    pace: Pace,
) -> Result<String, Box<dyn Error>> {
    let body = std::fs::read(body)?;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {target}\r\ncontent-type: application/json\r\nauthorization: Bearer bench\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    let request = Request::new([head.as_bytes(), &body].concat());
    let (seconds, connections): (f64, u32) = (seconds.parse()?, connections.parse()?);
    let begun = Instant::now();
    let end = begun + Duration::from_secs_f64(seconds);
    let mut all = Tally::default();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..connections)
            .map(|number| {
                let schedule = schedule(pace, begun, number, connections);
                let request = request.clone();
                scope.spawn(move || client(target, request, end, schedule, matches!(pace, Pace::Streams)))
            })
            .collect();
        for worker in workers {
            let tally = worker.join().unwrap_or_default();
            all.latencies_us.extend(tally.latencies_us);
            all.answers += tally.answers;
            all.refused += tally.refused;
            all.errors += tally.errors;
            all.events += tally.events;
        }
    });
    let elapsed = begun.elapsed().as_secs_f64();
    all.latencies_us.sort_unstable();
    let quantile = |q: f64| {
        let last = all.latencies_us.len().saturating_sub(1);
        all.latencies_us.get((last as f64 * q) as usize).copied().unwrap_or(0)
    };
    Ok(format!(
        "{{\"answers\":{},\"refused\":{},\"errors\":{},\"events\":{},\"seconds\":{elapsed:.3},\"p50_us\":{},\"p99_us\":{}}}",
        all.answers,
        all.refused,
        all.errors,
        all.events,
        quantile(0.50),
        quantile(0.99)
    ))
}

/// A request and where it is another one each time.
#[derive(Clone)]
struct Request {
    bytes: Vec<u8>,
    fresh: Vec<usize>,
}

impl Request {
    fn new(bytes: Vec<u8>) -> Self {
        let marks = bytes.windows(FRESH.len()).enumerate().filter(|(_, window)| *window == FRESH);
        let fresh = marks.map(|(at, _)| at + FRESH.len()).collect();
        Self { bytes, fresh }
    }

    /// Returns the next one.
    fn next(&mut self) -> &[u8] {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        if !self.fresh.is_empty() {
            // No two runs begin within the microseconds that the other's requests count.
            let number = now_us() + COUNT.fetch_add(1, Ordering::Relaxed);
            for at in &self.fresh {
                let letters = (0..FRESH_LETTERS).map(|nibble| b'a' + (number >> (4 * nibble) & 15) as u8);
                self.bytes
                    .iter_mut()
                    .skip(*at)
                    .take(FRESH_LETTERS)
                    .zip(letters)
                    .for_each(|(to, it)| *to = it);
            }
        }
        &self.bytes
    }
}

/// Returns when the first request is due, and the time between two; streams begin spread out.
fn schedule(pace: Pace, begun: Instant, number: u32, connections: u32) -> Option<(Instant, Duration)> {
    match pace {
        Pace::Closed => None,
        Pace::Rate(rate) => {
            let gap = Duration::from_secs_f64(f64::from(connections) / rate);
            Some((begun + gap * number / connections, gap))
        }
        Pace::Streams => Some((begun + EVENT_GAP * number / connections, Duration::ZERO)),
    }
}

fn client(
    target: &str,
    mut request: Request,
    end: Instant,
    schedule: Option<(Instant, Duration)>,
    events: bool,
) -> Tally {
    let mut tally = Tally::default();
    let mut due = schedule.map(|(first, _)| first);
    while Instant::now() < end {
        let Ok(mut stream) = TcpStream::connect(target) else {
            tally.errors += 1;
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        let _ = stream.set_nodelay(true);
        let mut connection = Buffered::default();
        while Instant::now() < end {
            let begun = match due {
                Some(due) => {
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    // The timer is late by tens of microseconds: not the proxy's fault.
                    if connection.was_late { due } else { Instant::now() }
                }
                None => Instant::now(),
            };
            let sent = stream.write_all(request.next());
            let got = sent.and_then(|()| {
                if events {
                    connection.events(&mut stream, &mut tally)
                } else {
                    connection.message(&mut stream).map(|(status, _)| status)
                }
            });
            let Ok(status) = got else {
                tally.errors += 1;
                break;
            };
            tally.answers += 1;
            tally.refused += u64::from(status != 200);
            if !events {
                tally.latencies_us.push(begun.elapsed().as_micros() as u64);
            }
            due = due.zip(schedule).map(|(due, (_, gap))| due + gap);
            connection.was_late = !events && due.is_some_and(|due| due < Instant::now());
        }
    }
    tally
}

/// A connection's bytes that were read and not yet used.
#[derive(Default)]
struct Buffered {
    bytes: Vec<u8>,
    /// What one read fills; kept, for clearing it each time costs more than the read.
    piece: Vec<u8>,
    was_late: bool,
}

impl Buffered {
    fn fill(&mut self, stream: &mut TcpStream) -> io::Result<&[u8]> {
        self.piece.resize(READ_BYTES, 0);
        let count = stream.read(&mut self.piece)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.bytes.extend_from_slice(&self.piece[..count]);
        Ok(self.bytes.as_slice())
    }

    /// Reads a head; returns its status (0 for a request) and the length of its body, if it says.
    fn head(&mut self, stream: &mut TcpStream) -> io::Result<(u16, Option<usize>)> {
        let mut bytes: &[u8] = self.bytes.as_slice();
        let end = loop {
            match find(bytes, b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => bytes = self.fill(stream)?,
            }
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let status = head.strip_prefix("http/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok()).unwrap_or(0);
        let length =
            head.split("\r\n").find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let chunked = head.contains("transfer-encoding: chunked");
        self.bytes.drain(..end);
        Ok((status, if chunked { None } else { Some(length.unwrap_or(0)) }))
    }

    /// Reads a whole message; a chunked body is taken to end where its last chunk does.
    fn message(&mut self, stream: &mut TcpStream) -> io::Result<(u16, Vec<u8>)> {
        let (status, length) = self.head(stream)?;
        while match length {
            Some(length) => self.bytes.len() < length,
            None => !self.ends_chunked(),
        } {
            self.fill(stream)?;
        }
        let end = length.unwrap_or(self.bytes.len());
        Ok((status, self.bytes.drain(..end).collect()))
    }

    /// Reads a stream, counting its events and their delays.
    fn events(&mut self, stream: &mut TcpStream, tally: &mut Tally) -> io::Result<u16> {
        let (status, length) = self.head(stream)?;
        if length.is_some() {
            return Ok(status);
        }
        let mut seen = 0;
        loop {
            let now = now_us();
            let bytes = self.bytes.as_slice();
            while let Some(end) = find(&bytes[seen..], b"\n\n") {
                if let Some(written) = stamped(&bytes[seen..seen + end]) {
                    tally.events += 1;
                    tally.latencies_us.push(now.saturating_sub(written));
                }
                seen += end + 2;
            }
            if self.ends_chunked() {
                self.bytes.clear();
                return Ok(status);
            }
            self.fill(stream)?;
        }
    }

    fn ends_chunked(&self) -> bool {
        let bytes = self.bytes.as_slice();
        bytes.ends_with(b"\r\n0\r\n\r\n") || bytes == b"0\r\n\r\n"
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
