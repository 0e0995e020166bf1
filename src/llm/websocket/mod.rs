//! WebSocket frames (RFC 6455, section 5): cut out of the bytes of one side, joined into messages, written anew.
//!
//! Extensions are not spoken: whoever carries these frames offers none, so that a set reserved bit is a fault and no
//! message is compressed. A message keeps the bytes of its frames beside what it says; control frames that came between
//! them stand alone.

#[cfg(test)]
mod tests;

use std::ops::Range;

use bytes::Buf;
use bytes::BufMut;
use bytes::Bytes;
use bytes::BytesMut;

/// The most frames that one message may come in.
pub const FRAGMENTS_MAX: usize = 1024;
/// The longest payload of a control frame, as the standard says.
const CONTROL_BYTES_MAX: usize = 125;
/// The status of a close frame whose sender's policy was violated.
pub const POLICY_VIOLATION: u16 = 1008;
/// The status of a close frame whose sender met what it cannot mend.
pub const INTERNAL_ERROR: u16 = 1011;
/// The status of a close frame whose sender has no room at the moment (IANA's WebSocket Close Code Number Registry).
pub const TRY_AGAIN_LATER: u16 = 1013;
/// The status of a close frame whose sender leaves.
pub const GOING_AWAY: u16 = 1001;

const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Whose frames they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Those of who opened the socket, which are masked.
    Caller,
    /// Those of who accepted it, which are not.
    Provider,
}

/// Why frames cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SocketFault {
    /// A bit or a kind of frame that nobody agreed on.
    #[error("a frame uses an extension that was not offered")]
    Reserved,
    /// It is masked and should not be, or the other way round.
    #[error("a frame is masked as those of the other side are")]
    Mask,
    /// Its length is not written in the shortest way.
    #[error("a frame's length is not written as it has to be")]
    Length,
    /// A control frame that is too long, or in pieces, or not what its kind has to be.
    #[error("a control frame is malformed")]
    Control,
    /// A frame continues nothing, or begins a message within another.
    #[error("a frame does not follow the one before")]
    Order,
    /// A message outgrew the limit.
    #[error("a message is longer than {0} bytes")]
    TooLarge(usize),
    /// A message came in more frames than the limit.
    #[error("a message comes in more than {FRAGMENTS_MAX} frames")]
    TooManyFragments,
}

/// What one side says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A message, whole.
    Message(Message),
    /// A ping or a pong.
    Ping(Control),
    /// The end: that side says nothing more.
    Close(Control),
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its frames, as they came.
    pub raw: Bytes,
    /// What they say together.
    pub payload: Bytes,
    /// Whether it says that it is text.
    pub is_text: bool,
    mask: Option<[u8; 4]>,
}

/// A control frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// The frame as it came.
    pub raw: Bytes,
    /// What it carries; of a close frame, its reason.
    pub payload: Bytes,
}

/// Cuts the bytes of one side into what it says.
#[derive(Debug)]
pub struct SocketParser {
    side: Side,
    message_bytes_max: usize,
    pending: BytesMut,
    message: Option<Fragments>,
    is_closed: bool,
    fault: Option<SocketFault>,
}

/// A message under way.
#[derive(Debug)]
struct Fragments {
    raw: BytesMut,
    payload: BytesMut,
    count: usize,
    is_text: bool,
    mask: Option<[u8; 4]>,
}

/// The head of a frame.
struct Head {
    is_final: bool,
    opcode: u8,
    mask: Option<[u8; 4]>,
    payload: Range<usize>,
}

impl Message {
    /// Returns a frame that says something else in the place of this message, masked as this one was.
    pub fn with(&self, payload: &[u8]) -> Bytes {
        frame(if self.is_text { TEXT } else { BINARY }, payload, self.mask)
    }
}

/// Writes a text in a frame of the provider's side.
pub fn text(payload: &[u8]) -> Bytes {
    frame(TEXT, payload, None)
}

/// Writes a close frame, masked where it is of the caller's side. A reason that is too long is left out.
pub fn close(status: u16, reason: &str, mask: Option<[u8; 4]>) -> Bytes {
    let mut payload = status.to_be_bytes().to_vec();
    payload.extend(Some(reason).filter(|it| it.len() + 2 <= CONTROL_BYTES_MAX).unwrap_or_default().bytes());
    frame(CLOSE, &payload, mask)
}

impl SocketParser {
    /// Returns a parser of one side of a fresh socket, whose messages may be so long.
    pub fn new(side: Side, message_bytes_max: usize) -> Self {
        Self {
            side,
            message_bytes_max,
            pending: BytesMut::new(),
            message: None,
            is_closed: false,
            fault: None,
        }
    }

    /// Takes the next bytes and returns what they complete. Bytes behind a close frame say nothing and are dropped.
    ///
    /// # Errors
    /// Fails where frames are not as the standard has them, or past a limit, and on every call after that. What was
    /// complete before is returned first; then the next call tells the fault.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Said>, SocketFault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let mut said = Vec::new();
        if !self.is_closed {
            self.pending.extend_from_slice(bytes);
        }
        while !self.is_closed {
            match self.next() {
                Ok(Some(next)) => said.extend(next),
                Ok(None) => break,
                Err(fault) => {
                    self.fault = Some(fault);
                    break;
                }
            }
        }
        match self.fault {
            Some(fault) if said.is_empty() => Err(fault),
            Some(_) | None => Ok(said),
        }
    }

    /// Returns how many bytes make no whole message yet, with those of a message under way as they came and as it says.
    pub fn unread_bytes(&self) -> usize {
        let under_way = self.message.as_ref();
        self.pending.len() + under_way.map_or(0, |message| message.raw.len() + message.payload.len())
    }

    /// Takes what makes no whole message yet, for a side that is not read any further.
    pub fn take_rest(&mut self) -> Bytes {
        let mut rest = self.message.take().map(|message| message.raw).unwrap_or_default();
        rest.extend_from_slice(&std::mem::take(&mut self.pending));
        rest.freeze()
    }

    /// Takes the next frame; `Some(None)` where it completes nothing.
    fn next(&mut self) -> Result<Option<Option<Said>>, SocketFault> {
        let Some(head) = self.head()? else { return Ok(None) };
        self.check(&head)?;
        if self.pending.len() < head.payload.end {
            return Ok(None);
        }
        let raw = self.pending.split_to(head.payload.end).freeze();
        let mut payload = BytesMut::from(&raw[head.payload.clone()]);
        if let Some(mask) = head.mask {
            apply(mask, &mut payload);
        }
        match head.opcode {
            CLOSE => self.close(raw, payload.freeze()).map(|close| Some(Some(close))),
            PING | PONG => Ok(Some(Some(Said::Ping(Control { raw, payload: payload.freeze() })))),
            _ => Ok(Some(self.fragment(&head, raw, payload))),
        }
    }

    /// Reads the head of the next frame; none while too little of it has come.
    fn head(&self) -> Result<Option<Head>, SocketFault> {
        let mut rest = &self.pending[..];
        if rest.len() < 2 {
            return Ok(None);
        }
        let (first, second) = (rest.get_u8(), rest.get_u8());
        if first & RESERVED != 0 || !matches!(first & 0xf, CONTINUATION..=BINARY | CLOSE..=PONG) {
            return Err(SocketFault::Reserved);
        }
        let is_masked = second & MASKED != 0;
        if is_masked != (self.side == Side::Caller) {
            return Err(SocketFault::Mask);
        }
        let length = match second & !MASKED {
            126 if rest.len() < 2 => return Ok(None),
            127 if rest.len() < 8 => return Ok(None),
            126 => Some(u64::from(rest.get_u16())).filter(|length| *length > 125),
            127 => Some(rest.get_u64()).filter(|length| *length > u64::from(u16::MAX)),
            short => Some(u64::from(short)),
        };
        let length = length.ok_or(SocketFault::Length)?;
        let length = usize::try_from(length).map_err(|_| SocketFault::TooLarge(self.message_bytes_max))?;
        let mask = match is_masked {
            true if rest.len() < 4 => return Ok(None),
            true => Some(rest.get_u32().to_be_bytes()),
            false => None,
        };
        let start = self.pending.len() - rest.len();
        let end = start.saturating_add(length);
        Ok(Some(Head { is_final: first & FINAL != 0, opcode: first & 0xf, mask, payload: start..end }))
    }

    /// Checks a frame by its head, before its payload would have to be kept.
    fn check(&self, head: &Head) -> Result<(), SocketFault> {
        if head.opcode >= CLOSE {
            let is_sound = head.is_final && head.payload.len() <= CONTROL_BYTES_MAX;
            return if is_sound { Ok(()) } else { Err(SocketFault::Control) };
        }
        if (head.opcode == CONTINUATION) != self.message.is_some() {
            return Err(SocketFault::Order);
        }
        let before = self.message.as_ref().map_or(0, |message| message.payload.len());
        if before.saturating_add(head.payload.len()) > self.message_bytes_max {
            return Err(SocketFault::TooLarge(self.message_bytes_max));
        }
        match self.message.as_ref().is_some_and(|message| message.count >= FRAGMENTS_MAX) {
            true => Err(SocketFault::TooManyFragments),
            false => Ok(()),
        }
    }

    fn close(&mut self, raw: Bytes, payload: Bytes) -> Result<Said, SocketFault> {
        let reason = match payload.len() {
            0 => payload,
            1 => return Err(SocketFault::Control),
            _ => payload.slice(2..),
        };
        if std::str::from_utf8(&reason).is_err() {
            return Err(SocketFault::Control);
        }
        self.is_closed = true;
        Ok(Said::Close(Control { raw, payload: reason }))
    }

    /// Adds a frame to its message; returns that, once it is whole.
    fn fragment(&mut self, head: &Head, raw: Bytes, payload: BytesMut) -> Option<Said> {
        let is_text = head.opcode == TEXT;
        let Some(mut message) = self.message.take() else {
            if head.is_final {
                let payload = payload.freeze();
                return Some(Said::Message(Message { raw, payload, is_text, mask: head.mask }));
            }
            let raw = BytesMut::from(&raw[..]);
            self.message = Some(Fragments { raw, payload, count: 1, is_text, mask: head.mask });
            return None;
        };
        message.raw.extend_from_slice(&raw);
        message.payload.extend_from_slice(&payload);
        message.count += 1;
        if !head.is_final {
            self.message = Some(message);
            return None;
        }
        let Fragments { raw, payload, is_text, mask, .. } = message;
        Some(Said::Message(Message { raw: raw.freeze(), payload: payload.freeze(), is_text, mask }))
    }
}

fn frame(opcode: u8, payload: &[u8], mask: Option<[u8; 4]>) -> Bytes {
    let masked = if mask.is_some() { MASKED } else { 0 };
    let mut out = BytesMut::with_capacity(payload.len() + 14);
    out.put_u8(FINAL | opcode);
    match payload.len() {
        length @ 0..=125 => out.put_u8(masked | length as u8),
        length @ 126..=0xffff => {
            out.put_u8(masked | 126);
            out.put_u16(length as u16);
        }
        length => {
            out.put_u8(masked | 127);
            out.put_u64(length as u64);
        }
    }
    let start = out.len() + if mask.is_some() { 4 } else { 0 };
    out.put_slice(mask.as_ref().map_or(&[][..], |mask| mask));
    out.put_slice(payload);
    if let (Some(mask), Some(payload)) = (mask, out.get_mut(start..)) {
        apply(mask, payload);
    }
    out.freeze()
}

/// Masks a payload, or takes the mask off.
fn apply(mask: [u8; 4], payload: &mut [u8]) {
    payload.iter_mut().zip(mask.into_iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
}
