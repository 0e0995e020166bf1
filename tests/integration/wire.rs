//! A raw HTTP/1.1 client: it sends exactly the bytes it is given and shows exactly what comes back.

use std::io::ErrorKind;
use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpStream;
use std::time::Duration;

/// How long a test waits for bytes before it fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// One connection; what was read and not yet asked for is kept.
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    framing: Framing,
}

/// How the body under way is delimited.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
    Ended,
}

/// Why nothing more can be read.
#[derive(Debug, PartialEq)]
pub enum WireFault {
    /// The peer closed before the end of what it had begun (or before it began).
    Closed,
    /// Nothing came within the time allowed.
    Silent,
    /// The bytes are not HTTP/1.1.
    Malformed(&'static str),
}

/// A status line and its header fields; names in lower case.
#[derive(Debug)]
pub struct Head {
    pub status: u16,
    pub headers: Vec<(String, String)>,
}

/// A whole response; the body is decoded from its framing.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Client {
    /// Connects to a server on this machine.
    pub fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).expect("the server listens")
    }

    /// Connects to a server that may be gone.
    pub fn try_connect(address: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_nodelay(true).expect("a TCP socket");
        let client = Self { stream, buffer: Vec::new(), framing: Framing::Ended };
        client.patience(PATIENCE);
        Some(client)
    }

    /// Sets how long a read waits for the next bytes.
    pub fn patience(&self, time: Duration) {
        self.stream.set_read_timeout(Some(time)).expect("a time above zero");
    }

    /// Sends bytes, at once. A peer that has already closed is no error here: the read tells.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Closes this side of the connection; the other one stays open.
    pub fn finish(&mut self) {
        self.stream.shutdown(std::net::Shutdown::Write).expect("an open connection");
    }

    /// Reads a response's head, interim (1xx) ones included.
    pub fn head(&mut self) -> Result<Head, WireFault> {
        let end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at + 4;
            }
            self.fill()?;
        };
        let text: Vec<u8> = self.buffer.drain(..end).collect();
        let head = Head::parse(&text)?;
        self.framing = head.framing()?;
        Ok(head)
    }

    /// Reads the next piece of the body, decoded, as soon as it is there; `None` at its end.
    pub fn piece(&mut self) -> Result<Option<Vec<u8>>, WireFault> {
        match self.framing {
            Framing::Ended => Ok(None),
            Framing::Length(0) => {
                self.framing = Framing::Ended;
                Ok(None)
            }
            Framing::Length(left) => {
                if self.buffer.is_empty() {
                    self.fill()?;
                }
                let taken = left.min(self.buffer.len());
                self.framing = Framing::Length(left - taken);
                Ok(Some(self.buffer.drain(..taken).collect()))
            }
            Framing::UntilClose => match self.fill_if_empty() {
                Ok(()) => Ok(Some(std::mem::take(&mut self.buffer))),
                Err(WireFault::Closed) => {
                    self.framing = Framing::Ended;
                    Ok(None)
                }
                Err(fault) => Err(fault),
            },
            Framing::Chunked => self.chunk(),
        }
    }

    /// Reads a whole response, passing over interim ones.
    pub fn response(&mut self) -> Result<Response, WireFault> {
        let mut head = self.head()?;
        while head.status < 200 {
            head = self.head()?;
        }
        let mut body = Vec::new();
        while let Some(piece) = self.piece()? {
            body.extend(piece);
        }
        Ok(Response { status: head.status, headers: head.headers, body })
    }

    /// Reads exactly so many bytes, whatever they mean.
    pub fn raw(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count {
            self.fill().expect("more bytes");
        }
        self.buffer.drain(..count).collect()
    }

    /// Returns whether the peer has closed the connection and left nothing to read.
    pub fn is_closed(&mut self) -> bool {
        self.buffer.is_empty() && self.fill() == Err(WireFault::Closed)
    }

    fn chunk(&mut self) -> Result<Option<Vec<u8>>, WireFault> {
        loop {
            match chunk_at(&self.buffer)? {
                Some((data, end)) => {
                    self.buffer.drain(..end);
                    if data.is_empty() {
                        self.framing = Framing::Ended;
                        return Ok(None);
                    }
                    return Ok(Some(data));
                }
                None => self.fill()?,
            }
        }
    }

    fn fill_if_empty(&mut self) -> Result<(), WireFault> {
        if self.buffer.is_empty() { self.fill() } else { Ok(()) }
    }

    fn fill(&mut self) -> Result<(), WireFault> {
        let mut piece = [0; 16 << 10];
        match self.stream.read(&mut piece) {
            Ok(0) => Err(WireFault::Closed),
            Ok(count) => {
                self.buffer.extend_from_slice(&piece[..count]);
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(WireFault::Silent)
            }
            Err(_) => Err(WireFault::Closed),
        }
    }
}

impl Head {
    fn parse(bytes: &[u8]) -> Result<Self, WireFault> {
        let text: String = bytes.iter().map(|&byte| char::from(byte)).collect();
        let mut lines = text.trim_end_matches("\r\n").split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
        let fields = lines.map(|line| {
            let (name, value) = line.split_once(':').ok_or(WireFault::Malformed("header field"))?;
            Ok((name.to_ascii_lowercase(), value.trim().to_owned()))
        });
        Ok(Self {
            status: status.ok_or(WireFault::Malformed("status line"))?,
            headers: fields.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the value of the first field of that name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    fn framing(&self) -> Result<Framing, WireFault> {
        if self.status < 200 || matches!(self.status, 204 | 304) {
            return Ok(Framing::Ended);
        }
        if self.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
            return Ok(Framing::Chunked);
        }
        match self.header("content-length") {
            Some(length) => {
                length.parse().map(Framing::Length).map_err(|_| WireFault::Malformed("content-length"))
            }
            None => Ok(Framing::UntilClose),
        }
    }
}

impl Response {
    /// Returns the value of the first field of that name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// Returns the body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.text()))
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
}

/// Reads Server-Sent Events one at a time, each with its exact bytes.
pub struct Events<'a> {
    client: &'a mut Client,
    text: Vec<u8>,
}

impl<'a> Events<'a> {
    /// Reads events from the body that the client has come to.
    pub fn of(client: &'a mut Client) -> Self {
        Self { client, text: Vec::new() }
    }

    /// Returns the next event with its blank line, or `None` at the end of the body; a last event
    /// without a blank line is returned as it is.
    pub fn event(&mut self) -> Result<Option<Vec<u8>>, WireFault> {
        loop {
            let ends = [&b"\n\n"[..], b"\r\n\r\n", b"\r\r"];
            let end = ends.iter().filter_map(|end| find(&self.text, end).map(|at| at + end.len())).min();
            if let Some(end) = end {
                return Ok(Some(self.text.drain(..end).collect()));
            }
            match self.client.piece()? {
                Some(piece) => self.text.extend(piece),
                None if self.text.is_empty() => return Ok(None),
                None => return Ok(Some(std::mem::take(&mut self.text))),
            }
        }
    }
}

/// Sends one request on a connection of its own and reads the answer.
pub fn exchange(address: SocketAddr, request: &[u8]) -> Response {
    let mut client = Client::connect(address);
    client.send(request);
    client.response().expect("a whole response")
}

/// Writes a `POST` of a JSON body; `more` holds whole header lines, each with its CR LF.
pub fn post(path: &str, more: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: gateway.test\r\ncontent-type: application/json\r\n{more}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Reads the chunk that the bytes begin with, strictly: its data and where it ends. The last chunk
/// has no data and includes the empty trailer section. `None`: more bytes are needed.
pub fn chunk_at(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, WireFault> {
    let Some(line) = find(bytes, b"\r\n") else {
        return if bytes.len() > 16 { Err(WireFault::Malformed("chunk size")) } else { Ok(None) };
    };
    let digits = &bytes[..line];
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(WireFault::Malformed("chunk size"));
    }
    let size = usize::from_str_radix(std::str::from_utf8(digits).expect("hexadecimal digits"), 16)
        .map_err(|_| WireFault::Malformed("chunk size"))?;
    let (start, end) = (line + 2, line + 2 + size);
    match bytes.get(end..end + 2) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some((bytes[start..end].to_vec(), end + 2))),
        Some(_) => Err(WireFault::Malformed("chunk end")),
    }
}

/// Returns where a short text begins in a longer one.
pub fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
