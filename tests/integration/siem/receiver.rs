//! A platform that follows a script: records what it is sent and answers what the script says.

use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use flate2::read::GzDecoder;
use parking_lot::Condvar;
use parking_lot::Mutex;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(30);

/// One request, its body as it was before compression.
#[derive(Clone, Debug)]
pub struct Request {
    /// The path.
    pub path: String,
    /// The header fields, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// What the platform does about a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Answers a status, more header lines, and a body.
    Answer(u16, &'static str, String),
    /// Begins an answer of success, and closes the connection in the midst of it.
    Cut,
    /// Answers something that is not HTTP.
    Garbage,
    /// Closes the connection.
    Hangup,
    /// Neither answers nor closes.
    Silence,
}

/// What is recorded, and the bell that is rung for it.
type Kept = Arc<(Mutex<Vec<Request>>, Condvar)>;

/// A listening platform; it stops with the test's process.
pub struct Receiver {
    /// Where it listens.
    pub address: SocketAddr,
    kept: Kept,
}

impl Request {
    /// Returns a header field, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }
}

impl Receiver {
    /// Starts a platform; `script` gets the number of a request, from 0, and the request.
    pub fn start(script: impl Fn(usize, &Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let kept = Kept::default();
        let (script, shared) = (Arc::new(script), Arc::clone(&kept));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, shared) = (Arc::clone(&script), Arc::clone(&shared));
                thread::spawn(move || serve(stream, &*script, &shared));
            }
        });
        Self { address, kept }
    }

    /// Waits until what was recorded satisfies `enough`, and returns it.
    pub fn wait_for(&self, enough: impl Fn(&[Request]) -> bool) -> Vec<Request> {
        let (requests, bell) = &*self.kept;
        let mut requests = requests.lock();
        let deadline = Instant::now() + PATIENCE;
        while !enough(&requests) {
            let late = bell.wait_until(&mut requests, deadline).timed_out();
            assert!(!late, "the platform waited in vain; it has {} requests", requests.len());
        }
        requests.clone()
    }
}

fn serve(stream: TcpStream, script: &dyn Fn(usize, &Request) -> Reply, kept: &Kept) {
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    let mut stream = stream;
    while let Some(request) = read(&mut reader) {
        let number = {
            let mut requests = kept.0.lock();
            requests.push(request.clone());
            requests.len() - 1
        };
        let reply = script(number, &request);
        let is_last = matches!(reply, Reply::Cut | Reply::Garbage);
        let wrote = match reply {
            Reply::Answer(status, more, body) => {
                let length = body.len();
                write!(stream, "HTTP/1.1 {status} X\r\n{more}content-length: {length}\r\n\r\n{body}")
            }
            Reply::Cut => write!(stream, "HTTP/1.1 200 X\r\ncontent-length: 400\r\n\r\n{{\"errors\":fal"),
            Reply::Garbage => write!(stream, "220 ready for mail\r\n\r\n"),
            Reply::Hangup => {
                kept.1.notify_all();
                return;
            }
            Reply::Silence => Ok(()),
        };
        kept.1.notify_all();
        if wrote.is_err() || is_last {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let line = |reader: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        let read = reader.read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    };
    let path = line(reader)?.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let field = line(reader)?;
        let Some((name, value)) = field.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request { path, headers, body: Vec::new() };
    let length = request.header("content-length").parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    request.body = match request.header("content-encoding") {
        "gzip" => {
            let mut plain = Vec::new();
            GzDecoder::new(&body[..]).read_to_end(&mut plain).expect("a gzip body");
            plain
        }
        _ => body,
    };
    Some(request)
}
