//! Amazon's event stream (`application/vnd.amazon.eventstream`), cut into frames as they come.
//!
//! A frame is a prelude (its length, that of its headers, a checksum), headers, a payload and a checksum over all of it,
//! numbers in network order. What of it is read is laid out by [`Frame`]; frames whose checksums or lengths are wrong
//! are never read, for nobody knows how their caller would.
//!
//! Source: the Smithy specification, "Amazon Event Stream".

mod frame;

#[cfg(test)]
mod tests;

use bytes::BytesMut;

pub use self::frame::Frame;
pub use self::frame::FrameFault;
pub(crate) use self::frame::exception;
use self::frame::frame_bytes;
use self::frame::read;
use crate::llm::stream::StreamFault;
use crate::llm::stream::StreamPiece;

/// Cuts a stream into frames.
#[derive(Debug)]
pub struct EventStreamParser {
    frame_bytes_max: usize,
    pending: BytesMut,
}

impl EventStreamParser {
    /// Returns a parser at the begin of a stream, whose frames may be `frame_bytes_max` long.
    pub(super) fn new(frame_bytes_max: usize) -> Self {
        Self { frame_bytes_max, pending: BytesMut::new() }
    }

    /// Returns the bytes that make no whole frame yet, to be added to.
    pub(super) fn pending(&mut self) -> &mut BytesMut {
        &mut self.pending
    }

    /// Ends the stream: no frame may be under way.
    pub(super) fn finish(&self) -> Result<(), StreamFault> {
        if self.pending.is_empty() { Ok(()) } else { Err(FrameFault::Truncated.into()) }
    }

    /// Cuts off the frames that are complete.
    ///
    /// # Errors
    /// Fails when a frame is too large or damaged; its bytes stay where they are.
    pub(super) fn advance(&mut self, pieces: &mut Vec<StreamPiece>) -> Result<(), StreamFault> {
        while let Some(length) = frame_bytes(&self.pending)? {
            if length > self.frame_bytes_max {
                return Err(StreamFault::PieceTooLarge { limit: self.frame_bytes_max });
            }
            if self.pending.len() < length {
                break;
            }
            let bytes = self.pending.split_to(length).freeze();
            match read(bytes.clone()) {
                Ok(piece) => pieces.push(piece),
                Err(fault) => {
                    let rest = std::mem::replace(&mut self.pending, BytesMut::from(&bytes[..]));
                    self.pending.extend_from_slice(&rest);
                    return Err(fault.into());
                }
            }
        }
        Ok(())
    }
}
