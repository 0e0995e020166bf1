//! Providers of HTTP/2 that say of a request that they did not read it.

use std::collections::VecDeque;
use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;

use crate::gateway::Gateway;
use crate::wire::exchange;
use crate::wire::post;

/// The first bytes of a connection (RFC 9113, section 3.4).
const PREFACE_BYTES: usize = 24;
/// Kinds of frames (RFC 9113, section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;
/// Why a stream is reset (RFC 9113, section 7).
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
/// `:status: 200` and `content-type: application/json` (RFC 7541).
const OK_OF_JSON: &[u8] = b"\x88\x0f\x10\x10application/json";

/// The bodies that were read whole.
type Bodies = Arc<Mutex<Vec<Vec<u8>>>>;
/// What becomes of the requests to come.
type Fates = Arc<Mutex<VecDeque<Fate>>>;

/// What becomes of a request.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Answered,
    /// Its stream is reset with a code.
    Reset(u32),
    /// The connection ends, and no stream of it was read.
    GoneAway,
}

/// Starts a provider and returns where it listens.
fn provider(fates: &[Fate]) -> (SocketAddr, Bodies, Fates) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (read, left) = (Arc::default(), Arc::new(Mutex::new(fates.iter().copied().collect::<VecDeque<_>>())));
    let (bodies, fates) = (Arc::clone(&read), Arc::clone(&left));
    thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            let (bodies, fates) = (Arc::clone(&bodies), Arc::clone(&fates));
            // Who leaves in the middle is no fault of the test.
            thread::spawn(move || serve(socket, &bodies, &fates).ok());
        }
    });
    (address, read, left)
}

fn serve(mut socket: TcpStream, bodies: &Bodies, fates: &Fates) -> std::io::Result<()> {
    socket.read_exact(&mut [0; PREFACE_BYTES])?;
    socket.write_all(&frame(SETTINGS, 0, 0, &[]))?;
    let (mut body, mut is_read) = (Vec::new(), false);
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let (kind, flags) = (head[3], head[4]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let mut payload = vec![0; length];
        socket.read_exact(&mut payload)?;
        match kind {
            SETTINGS if flags & ACK == 0 => socket.write_all(&frame(SETTINGS, ACK, 0, &[]))?,
            HEADERS => match fates.lock().pop_front().unwrap_or(Fate::Answered) {
                Fate::Answered => is_read = true,
                Fate::Reset(code) => socket.write_all(&frame(RST_STREAM, 0, stream, &code.to_be_bytes()))?,
                Fate::GoneAway => socket.write_all(&frame(GOAWAY, 0, 0, &[0; 8]))?,
            },
            DATA if is_read => {
                body.extend_from_slice(&payload);
                if flags & END_STREAM != 0 {
                    bodies.lock().push(std::mem::take(&mut body));
                    socket.write_all(&frame(HEADERS, END_HEADERS, stream, OK_OF_JSON))?;
                    socket.write_all(&frame(DATA, END_STREAM, stream, br#"{"ok":true}"#))?;
                    is_read = false;
                }
            }
            _ => {}
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[test]
fn what_a_provider_says_it_did_not_read_is_sent_once_more() {
    let ask = r#"{"messages":[{"role":"user","content":"four words of text"}]}"#;
    let large = ask.replace("four", &"many ".repeat(1 << 18));
    // (what becomes of the requests, the body, the status, how many were asked for at all)
    let cases: [(&[Fate], &str, u16, usize); 6] = [
        (&[Fate::Reset(REFUSED_STREAM)], ask, 200, 2),
        (&[Fate::GoneAway], ask, 200, 2),
        (&[Fate::Reset(REFUSED_STREAM), Fate::GoneAway], ask, 502, 2),
        (&[Fate::Reset(INTERNAL_ERROR)], ask, 502, 1),
        (&[Fate::Answered, Fate::Reset(REFUSED_STREAM)], ask, 200, 1),
        (&[Fate::Reset(REFUSED_STREAM)], &large, 502, 1),
    ];
    for (fates, body, status, asked) in cases {
        let mut padded = fates.to_vec();
        padded.resize(4, Fate::Answered);
        let (address, bodies, left) = provider(&padded);
        let gateway = Gateway::start(&format!(
            "[[routes]]\nname = \"all\"\nupstream = \"http://{address}\"\nh2 = \"always\"\n"
        ));
        let answer = exchange(gateway.proxy, &post("/v1/chat/completions", "", body));
        assert_eq!(answer.status, status, "{fates:?}: {}", answer.text());
        assert_eq!(padded.len() - left.lock().len(), asked, "{fates:?}");
        let read = bodies.lock();
        let expected: &[&[u8]] = if status == 200 { &[body.as_bytes()] } else { &[] };
        assert_eq!(read.iter().map(Vec::as_slice).collect::<Vec<_>>(), expected, "{fates:?}");
    }
}
