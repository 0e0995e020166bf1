//! One JSON document a line, as Ollama streams.

use bytes::Bytes;
use bytes::BytesMut;
use smallvec::SmallVec;
use smallvec::smallvec;

use crate::llm::stream::StreamFault;
use crate::llm::stream::StreamPiece;
use crate::llm::stream::pieces_first;

/// Cuts a stream into lines.
#[derive(Debug)]
pub struct NdjsonParser {
    line_bytes_max: usize,
    pending: BytesMut,
    searched_to: usize,
    fault: Option<StreamFault>,
}

impl NdjsonParser {
    /// Takes the bytes that make no whole piece yet.
    pub fn take_rest(&mut self) -> Bytes {
        std::mem::take(&mut self.pending).freeze()
    }

    /// Returns a parser at the begin of a stream, whose lines may be `line_bytes_max` long.
    pub fn new(line_bytes_max: usize) -> Self {
        Self { line_bytes_max, pending: BytesMut::new(), searched_to: 0, fault: None }
    }

    /// Takes the next bytes and returns the lines they complete.
    ///
    /// # Errors
    /// Fails when a line is too large; lines before it are returned first, and the next call fails.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<StreamPiece>, StreamFault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        self.pending.extend_from_slice(bytes);
        let mut pieces = Vec::new();
        let outcome = self.advance(&mut pieces);
        pieces_first(&mut self.fault, pieces, outcome)
    }

    /// Returns the last line when it has no line feed.
    ///
    /// # Errors
    /// Fails when a line was too large.
    pub fn finish(&mut self) -> Result<Option<StreamPiece>, StreamFault> {
        let length = self.pending.len();
        match self.fault {
            Some(fault) => Err(fault),
            None => Ok((length > 0).then(|| self.cut(length, false))),
        }
    }

    fn advance(&mut self, pieces: &mut Vec<StreamPiece>) -> Result<(), StreamFault> {
        let too_large = StreamFault::PieceTooLarge { limit: self.line_bytes_max };
        while let Some(found) =
            self.pending.get(self.searched_to..).and_then(|rest| memchr::memchr(b'\n', rest))
        {
            let length = self.searched_to + found + 1;
            if length > self.line_bytes_max {
                return Err(too_large);
            }
            pieces.push(self.cut(length, true));
        }
        self.searched_to = self.pending.len();
        match self.pending.len() > self.line_bytes_max {
            true => Err(too_large),
            false => Ok(()),
        }
    }

    fn cut(&mut self, length: usize, terminated: bool) -> StreamPiece {
        let raw = self.pending.split_to(length).freeze();
        self.searched_to = 0;
        let payload = raw.trim_ascii();
        let start = raw.len() - raw.trim_ascii_start().len();
        let data = match payload.len() {
            0 => SmallVec::new(),
            length => smallvec![start..start + length],
        };
        StreamPiece { raw, event: None, data, terminated }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_bytes() {
        let mut parser = NdjsonParser::new(64);
        let mut pieces = parser.push(b" {\"a\":1} \r\n\n{\"b\"").unwrap();
        pieces.extend(parser.push(b":2}").unwrap());
        pieces.extend(parser.finish().unwrap());
        let seen: Vec<(&[u8], Vec<u8>, bool)> = pieces
            .iter()
            .map(|piece| (&*piece.raw, piece.payload().into_owned(), piece.terminated))
            .collect();
        let expected: [(&[u8], Vec<u8>, bool); 3] = [
            (b" {\"a\":1} \r\n", b"{\"a\":1}".to_vec(), true),
            (b"\n", Vec::new(), true),
            (b"{\"b\":2}", b"{\"b\":2}".to_vec(), false),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_line_past_the_limit_is_a_fault() {
        let too_large = Err(StreamFault::PieceTooLarge { limit: 4 });
        assert_eq!(NdjsonParser::new(4).push(b"12345"), too_large);
        assert_eq!(NdjsonParser::new(4).push(b"1234\n"), too_large);
        assert_eq!(NdjsonParser::new(4).push(b"123\n123").unwrap().len(), 1);
    }
}
