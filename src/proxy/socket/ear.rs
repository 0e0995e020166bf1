//! One side of a socket: its bytes, cut into what they say.

use bytes::Bytes;
use bytes::BytesMut;

use super::super::reject::Rejection;
use crate::llm::websocket::Said;
use crate::llm::websocket::Side;
use crate::llm::websocket::SocketFault;
use crate::llm::websocket::SocketParser;

/// One side of a socket.
pub(super) struct Ear {
    parser: SocketParser,
    /// Whether its bytes pass unread, as the route or the fail mode has it.
    passes: bool,
    /// Whether it said that it says nothing more.
    pub(super) is_closed: bool,
    /// Whether what left of it stops anywhere.
    pub(super) is_cut: bool,
}

impl Ear {
    /// Returns a side that has said nothing yet, whose messages may be so long.
    pub(super) fn new(side: Side, message_bytes_max: usize, passes: bool) -> Self {
        let parser = SocketParser::new(side, message_bytes_max);
        Self { parser, passes, is_closed: false, is_cut: false }
    }

    /// Tells whether what left of it is whole frames, and not its last.
    pub(super) fn may_be_followed(&self) -> bool {
        !self.passes && !self.is_closed && !self.is_cut
    }

    /// Returns how many bytes wait for the rest of their message.
    pub(super) fn unread_bytes(&self) -> usize {
        self.parser.unread_bytes()
    }

    /// Lets everything from here on pass unread; returns what waits.
    pub(super) fn pass(&mut self) -> Bytes {
        self.passes = true;
        self.parser.take_rest()
    }

    /// Cuts its bytes and hands on what they say; returns why they cannot be read any further, if so.
    pub(super) fn hear(
        &mut self,
        bytes: &[u8],
        out: &mut BytesMut,
        mut judge: impl FnMut(Said, &mut BytesMut) -> Result<(), Rejection>,
    ) -> Result<Option<SocketFault>, Rejection> {
        if self.passes {
            out.extend_from_slice(bytes);
            return Ok(None);
        }
        match self.parser.push(bytes) {
            Ok(said) => {
                for said in said {
                    let closes = matches!(said, Said::Close(_));
                    judge(said, out)?;
                    self.is_closed |= closes;
                }
                Ok(self.parser.push(&[]).err())
            }
            Err(fault) => Ok(Some(fault)),
        }
    }
}
