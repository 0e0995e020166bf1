//! One JSON document a line, as Ollama streams.

use bytes::BytesMut;
use smallvec::SmallVec;
use smallvec::smallvec;

use crate::llm::stream::StreamFault;
use crate::llm::stream::StreamPiece;

/// Cuts a stream into lines.
#[derive(Debug)]
pub struct NdjsonParser {
    line_bytes_max: usize,
    pending: BytesMut,
    searched_to: usize,
}

impl NdjsonParser {
    /// Returns a parser at the begin of a stream, whose lines may be `line_bytes_max` long.
    pub(super) fn new(line_bytes_max: usize) -> Self {
        Self { line_bytes_max, pending: BytesMut::new(), searched_to: 0 }
    }

    /// Returns the bytes that make no whole piece yet, to be added to.
    pub(super) fn pending(&mut self) -> &mut BytesMut {
        &mut self.pending
    }

    /// Returns the last line when it has no line feed.
    pub(super) fn finish(&mut self) -> Option<StreamPiece> {
        let length = self.pending.len();
        (length > 0).then(|| self.cut(length, false))
    }

    /// Cuts off the lines that are complete.
    ///
    /// # Errors
    /// Fails when a line is too large.
    pub(super) fn advance(&mut self, pieces: &mut Vec<StreamPiece>) -> Result<(), StreamFault> {
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
        StreamPiece { raw, event: None, data, terminated, frame: None }
    }
}

/// Tells whether a body begins as JSON objects do that come one a line, whatever it is called; nothing, while it may still.
pub fn begins(body: &[u8]) -> Option<bool> {
    if body.is_empty() {
        return None;
    }
    let is_object = body.starts_with(b"{");
    let line = memchr::memchr(b'\n', body).filter(|_| is_object).and_then(|end| body.get(..end));
    match line {
        Some(line) => Some(serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok()),
        None if is_object => None,
        None => Some(false),
    }
}

/// Tells whether a body goes on as such objects do: the next one begins behind its first line; nothing, while it may still.
pub fn goes_on(body: &[u8]) -> Option<bool> {
    let rest = || body.get(memchr::memchr(b'\n', body)?..)?.trim_ascii_start().first();
    match begins(body)? {
        true => rest().map(|next| *next == b'{'),
        false => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_known_from_one_object_by_what_comes_behind_the_first() {
        for (body, goes) in [
            ("{\"a\":1}", None),
            ("{\"a\":1}\n", None),
            ("{\"a\":1}\r\n\n", None),
            ("{\"a\":1}\n{", Some(true)),
            ("{\"a\":1}\r\n {\"a\":2}", Some(true)),
            ("{\"a\":1}\n]", Some(false)),
            ("{\n\"a\":1}\n", Some(false)),
            ("[{\"a\":1}]\n", Some(false)),
        ] {
            assert_eq!(goes_on(body.as_bytes()), goes, "{body}");
        }
    }

    #[test]
    fn lines_are_known_by_the_first_wherever_it_is_cut() {
        let lines = "{\"a\":\"}\\n\"}\r\n{\"a\":2}\n";
        let told = lines.find('\n').unwrap() + 1;
        for cut in 0..lines.len() {
            assert_eq!(begins(&lines.as_bytes()[..cut]), (cut >= told).then_some(true), "{cut}");
        }
        for other in ["data: {}\n", "[1]\n", "{\n  \"a\": 1\n}\n", "{a}\n", "\n", "so"] {
            assert_eq!(begins(other.as_bytes()), Some(false), "{other}");
        }
    }
    use crate::llm::stream::StreamFormat;
    use crate::llm::stream::StreamParser;

    fn parser(line_bytes_max: usize) -> StreamParser {
        StreamParser::new(StreamFormat::Ndjson, line_bytes_max)
    }

    #[test]
    fn lines_keep_their_bytes() {
        let mut lines = parser(64);
        let mut pieces = lines.push(b" {\"a\":1} \r\n\n{\"b\"").unwrap();
        pieces.extend(lines.push(b":2}").unwrap());
        pieces.extend(lines.finish().unwrap());
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
        assert_eq!(parser(4).push(b"12345"), too_large);
        assert_eq!(parser(4).push(b"1234\n"), too_large);
        assert_eq!(parser(4).push(b"123\n123").unwrap().len(), 1);
    }
}
