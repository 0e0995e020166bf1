//! The protocol of NATS as far as a publisher needs it: what is written, and what is read.
//!
//! Sources: docs.nats.io, "Client Protocol" and "JetStream wire API", and what nats-server 2.9 answers. Everything that is
//! read has a limit, and what makes no sense ends the connection; nothing of a server's own words goes further than here.

use bytes::Buf;
use bytes::BytesMut;
use http::StatusCode;
use serde::Deserialize;
use serde::Serialize;

use crate::govern::siem::config::NatsTarget;
use crate::govern::siem::sink::Trouble;

/// The longest line, and the longest message below one, that a server may send. An acknowledgement has some fifty bytes;
/// the line that tells of the server names each other one of its cluster.
const SAID_BYTES_MAX: usize = 64 << 10;
/// What a server takes that does not say.
const MESSAGE_BYTES: usize = 1 << 20;
/// The status of a message that nobody was there for.
const NO_RESPONDERS: &str = "503";
/// The errors of JetStream that say more than that the stream takes nothing: the message is too large for it, and it is
/// not the stream that was expected.
const TOO_LARGE: u32 = 10_054;
const OTHER_STREAM: u32 = 10_060;

/// What a server says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Of itself.
    Info(Info),
    /// That it wants to hear something.
    Ping,
    /// That it has read what came before a question.
    Pong,
    /// That something is wrong.
    Fault(Trouble),
    /// What became of a message, by its number.
    Answer(u64, Answer),
    /// What does not matter.
    Other,
}

/// What a server says of itself. Where else it could be reached is not asked for: nobody follows that.
#[derive(Debug, Deserialize, PartialEq, Eq)]
pub(super) struct Info {
    #[serde(default)]
    pub(super) tls_required: bool,
    /// The largest message, in bytes, its header with it.
    #[serde(default = "message_bytes")]
    pub(super) max_payload: usize,
}

/// What became of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The stream has it, now or from an earlier time.
    Taken,
    /// The stream never will.
    Refused,
    /// The stream does not have it.
    Failed(Trouble),
}

/// A message: the line that announces it, and what follows.
pub(super) struct Letter {
    pub(super) line: Vec<u8>,
    pub(super) body: Vec<u8>,
    /// What counts against the server's limit, in bytes.
    pub(super) counted: usize,
}

/// What a client says of itself. `protocol` 0: one that wants to hear of no other servers.
#[derive(Serialize)]
struct Hello<'a> {
    verbose: bool,
    pedantic: bool,
    tls_required: bool,
    name: &'static str,
    lang: &'static str,
    version: &'a str,
    protocol: u8,
    headers: bool,
    no_responders: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    auth_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pass: Option<&'a str>,
}

/// A stream's answer.
#[derive(Deserialize)]
struct Acknowledgement {
    #[serde(default)]
    stream: String,
    #[serde(default)]
    seq: u64,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    err_code: u32,
}

fn message_bytes() -> usize {
    MESSAGE_BYTES
}

/// Returns what signs in, and asks whether it is let in.
pub(super) fn hello(to: &NatsTarget, secret: Option<&str>, version: &str) -> Result<Vec<u8>, Trouble> {
    let user = to.user.as_deref();
    let hello = Hello {
        verbose: false,
        pedantic: false,
        tls_required: to.peer.tls,
        name: "portcullis",
        lang: "rust",
        version,
        protocol: 0,
        headers: true,
        no_responders: true,
        auth_token: secret.filter(|_| user.is_none()),
        user,
        pass: secret.filter(|_| user.is_some()),
    };
    let hello = serde_json::to_string(&hello).map_err(|_| Trouble::Unsendable)?;
    Ok(format!("CONNECT {hello}\r\nPING\r\n").into_bytes())
}

/// Returns what asks for the answers that are sent to the words below an inbox.
pub(super) fn listen(inbox: &str) -> Vec<u8> {
    format!("SUB {inbox}* 1\r\n").into_bytes()
}

/// Returns a message that is answered to `number` below an inbox.
///
/// Its id names the subject beside the entry: a stream knows a message by its id alone, whatever its subject, and two sinks
/// of one stream would take each other's for what they sent before.
pub(super) fn letter(to: &NatsTarget, entry: &str, inbox: &str, number: u64, event: &[u8]) -> Letter {
    let subject = &to.subject;
    let mut head = format!("NATS/1.0\r\nNats-Msg-Id: {entry}@{subject}\r\n");
    if let Some(stream) = &to.stream {
        head.push_str(&format!("Nats-Expected-Stream: {stream}\r\n"));
    }
    head.push_str("\r\n");
    let counted = head.len() + event.len();
    let line = format!("HPUB {subject} {inbox}{number} {} {counted}\r\n", head.len());
    let body = [head.as_bytes(), event, b"\r\n"].concat();
    Letter { line: line.into_bytes(), body, counted }
}

/// Takes the next thing that a server said off what was read; `None` while it is not whole.
///
/// # Errors
/// It makes no sense, or is too long.
pub(super) fn take(read: &mut BytesMut, to: &NatsTarget, inbox: &str) -> Result<Option<Said>, Trouble> {
    let Some(end) = memchr::memchr(b'\n', read) else {
        return if read.len() > SAID_BYTES_MAX { Err(Trouble::Nonsense) } else { Ok(None) };
    };
    let line = std::str::from_utf8(read.get(..end).unwrap_or_default()).map_err(|_| Trouble::Nonsense)?;
    let line = line.trim_end();
    let (verb, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let mut length = end + 1;
    let said = match verb.to_ascii_uppercase().as_str() {
        "INFO" => Said::Info(serde_json::from_str(rest).map_err(|_| Trouble::Nonsense)?),
        "PING" => Said::Ping,
        "PONG" => Said::Pong,
        "+OK" => Said::Other,
        "-ERR" => Said::Fault(fault(rest)),
        verb @ ("MSG" | "HMSG") => {
            let message = Message::of(rest, verb == "HMSG")?;
            let Some(whole) = read.get(length..length + message.bytes + 2) else { return Ok(None) };
            length += whole.len();
            message.said(whole, to, inbox)?
        }
        _ => return Err(Trouble::Nonsense),
    };
    read.advance(length);
    Ok(Some(said))
}

/// What the line of a message tells of it.
struct Message<'a> {
    subject: &'a str,
    head_bytes: usize,
    /// All of it, its head with it.
    bytes: usize,
}

impl<'a> Message<'a> {
    /// Reads `SUBJECT SID [REPLY] [HEAD_BYTES] BYTES`.
    fn of(line: &'a str, has_head: bool) -> Result<Self, Trouble> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (subject, bytes, head_bytes) = match (words.as_slice(), has_head) {
            ([subject, _, bytes] | [subject, _, _, bytes], false) => (subject, bytes, &"0"),
            ([subject, _, head, bytes] | [subject, _, _, head, bytes], true) => (subject, bytes, head),
            _ => return Err(Trouble::Nonsense),
        };
        let number = |text: &str| text.parse::<usize>().map_err(|_| Trouble::Nonsense);
        let message = Self { subject, head_bytes: number(head_bytes)?, bytes: number(bytes)? };
        let is_sound = message.bytes <= SAID_BYTES_MAX && message.head_bytes <= message.bytes;
        if is_sound { Ok(message) } else { Err(Trouble::Nonsense) }
    }

    /// Returns what it says; `whole` is all of it and the end of its last line.
    fn said(&self, whole: &[u8], to: &NatsTarget, inbox: &str) -> Result<Said, Trouble> {
        let number = self.subject.strip_prefix(inbox).and_then(|number| number.parse().ok());
        let (head, event) = (whole.get(..self.head_bytes), whole.get(self.head_bytes..self.bytes));
        match (number, head, event) {
            (None, ..) => Ok(Said::Other),
            (Some(number), Some(head), Some(event)) => Ok(Said::Answer(number, answer(head, event, to)?)),
            _ => Err(Trouble::Nonsense),
        }
    }
}

fn answer(head: &[u8], event: &[u8], to: &NatsTarget) -> Result<Answer, Trouble> {
    let head = std::str::from_utf8(head).map_err(|_| Trouble::Nonsense)?;
    let status = head.lines().next().and_then(|line| line.split_ascii_whitespace().nth(1));
    if status == Some(NO_RESPONDERS) {
        return Ok(Answer::Failed(Trouble::NoStream));
    }
    let told: Acknowledgement = serde_json::from_slice(event).map_err(|_| Trouble::Nonsense)?;
    let is_expected = to.stream.as_ref().is_none_or(|stream| *stream == told.stream);
    Ok(match told.error.map(|error| error.err_code) {
        Some(TOO_LARGE) => Answer::Refused,
        Some(OTHER_STREAM) => Answer::Failed(Trouble::OtherStream),
        Some(code) => Answer::Failed(Trouble::Stream(code)),
        None if told.stream.is_empty() || told.seq == 0 => return Err(Trouble::Nonsense),
        None if !is_expected => Answer::Failed(Trouble::OtherStream),
        None => Answer::Taken,
    })
}

/// Returns what a server's complaint means, by the words of nats-server.
fn fault(said: &str) -> Trouble {
    let said = said.trim().trim_matches('\'').to_ascii_lowercase();
    let begins = |words: &[&str]| words.iter().any(|word| said.starts_with(word));
    if begins(&["maximum payload"]) {
        Trouble::Batch(StatusCode::PAYLOAD_TOO_LARGE)
    } else if begins(&["secure connection", "tls required"]) {
        Trouble::Unsecured
    } else if begins(&["authorization", "authentication", "user auth", "account auth", "permissions"]) {
        Trouble::Denied
    } else {
        Trouble::Broken
    }
}
