//! A JSON array whose elements come one by one, as Gemini streams without `alt=sse`.

use bytes::BytesMut;
use smallvec::SmallVec;
use smallvec::smallvec;

use crate::llm::stream::StreamFault;
use crate::llm::stream::StreamPiece;

/// Where in the array the parser is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    BeforeArray,
    AfterOpening,
    AfterElement,
    AfterComma,
    InElement,
    AfterArray,
}

/// Cuts an array of objects into its elements; each takes the separators before it along.
///
/// Only the framing is read here. Whether an element is sound JSON, its walker tells.
#[derive(Debug)]
pub struct ArrayParser {
    element_bytes_max: usize,
    pending: BytesMut,
    searched_to: usize,
    /// How many bytes were cut off before `pending`.
    cut_off: u64,
    place: Place,
    element_from: usize,
    depth: usize,
    in_string: bool,
    after_backslash: bool,
}

impl ArrayParser {
    /// Returns a parser at the begin of a stream, whose elements may be `element_bytes_max` long.
    pub(super) fn new(element_bytes_max: usize) -> Self {
        Self {
            element_bytes_max,
            pending: BytesMut::new(),
            searched_to: 0,
            cut_off: 0,
            place: Place::BeforeArray,
            element_from: 0,
            depth: 0,
            in_string: false,
            after_backslash: false,
        }
    }

    /// Returns the bytes that make no whole piece yet, to be added to.
    pub(super) fn pending(&mut self) -> &mut BytesMut {
        &mut self.pending
    }

    /// Returns what is left at the end of the stream: the closing bracket, or an element that broke off.
    pub(super) fn finish(&mut self) -> Option<StreamPiece> {
        self.searched_to = self.pending.len();
        let terminated = self.place == Place::AfterArray;
        (!self.pending.is_empty()).then(|| self.cut(terminated))
    }

    /// Cuts off the elements that are complete.
    ///
    /// # Errors
    /// Fails when an element is too large, or the stream is no array of objects.
    pub(super) fn advance(&mut self, pieces: &mut Vec<StreamPiece>) -> Result<(), StreamFault> {
        while let Some(byte) = self.pending.get(self.searched_to).copied() {
            self.searched_to += 1;
            let element_ended = match self.place {
                Place::InElement => self.step_inside(byte),
                _ => self.step_between(byte).map(|()| false)?,
            };
            if self.searched_to > self.element_bytes_max {
                return Err(StreamFault::PieceTooLarge { limit: self.element_bytes_max });
            }
            if element_ended {
                self.place = Place::AfterElement;
                pieces.push(self.cut(true));
            }
        }
        Ok(())
    }

    fn step_between(&mut self, byte: u8) -> Result<(), StreamFault> {
        self.place = match (self.place, byte) {
            (place, b' ' | b'\t' | b'\r' | b'\n') => place,
            (Place::BeforeArray, b'[') => Place::AfterOpening,
            (Place::AfterOpening | Place::AfterElement, b']') => Place::AfterArray,
            (Place::AfterElement, b',') => Place::AfterComma,
            (Place::AfterOpening | Place::AfterComma, b'{') => {
                self.element_from = self.searched_to - 1;
                self.depth = 1;
                Place::InElement
            }
            _ => return Err(StreamFault::NotAnArray { offset: self.cut_off + self.searched_to as u64 - 1 }),
        };
        Ok(())
    }

    /// Takes a byte of an element, and tells whether it was its last.
    fn step_inside(&mut self, byte: u8) -> bool {
        match (self.in_string, byte) {
            (true, _) if self.after_backslash => self.after_backslash = false,
            (true, b'\\') => self.after_backslash = true,
            (_, b'"') => self.in_string = !self.in_string,
            (false, b'{' | b'[') => self.depth += 1,
            (false, b'}' | b']') => self.depth -= 1,
            (true | false, _) => {}
        }
        self.depth == 0
    }

    fn cut(&mut self, terminated: bool) -> StreamPiece {
        let raw = self.pending.split_to(self.searched_to).freeze();
        self.cut_off += raw.len() as u64;
        let unfinished = self.place == Place::InElement;
        let data = match unfinished || self.place == Place::AfterElement {
            true if self.element_from < raw.len()
                && (unfinished || raw.ends_with(b"}") || raw.ends_with(b"]")) =>
            {
                smallvec![self.element_from..raw.len()]
            }
            _ => SmallVec::new(),
        };
        self.searched_to = 0;
        self.element_from = 0;
        StreamPiece { raw, event: None, data, terminated, frame: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::stream::StreamFormat;
    use crate::llm::stream::StreamParser;

    fn pieces(stream: &[u8]) -> Result<Vec<(String, String, bool)>, StreamFault> {
        let mut parser = StreamParser::new(StreamFormat::JsonArray, 256);
        let mut pieces = parser.push(stream)?;
        pieces.extend(parser.finish()?);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Ok(pieces.iter().map(|piece| (text(&piece.raw), text(&piece.payload()), piece.terminated)).collect())
    }

    fn owned(rows: &[(&str, &str, bool)]) -> Vec<(String, String, bool)> {
        rows.iter().map(|(raw, payload, ended)| (raw.to_string(), payload.to_string(), *ended)).collect()
    }

    #[test]
    fn elements_keep_their_separators() {
        type Case<'a> = (&'a str, &'a [(&'a str, &'a str, bool)]);
        let cases: [Case; 5] = [
            (
                "[{\"a\":\"}]\\\"\"}\n,\r\n{\"b\":[{}]}\n]\n",
                &[
                    ("[{\"a\":\"}]\\\"\"}", "{\"a\":\"}]\\\"\"}", true),
                    ("\n,\r\n{\"b\":[{}]}", "{\"b\":[{}]}", true),
                    ("\n]\n", "", true),
                ],
            ),
            ("[]", &[("[]", "", true)]),
            ("[{}", &[("[{}", "{}", true)]),
            ("[{},{\"a", &[("[{}", "{}", true), (",{\"a", "{\"a", false)]),
            ("[{}\n", &[("[{}", "{}", true), ("\n", "", false)]),
        ];
        for (stream, expected) in cases {
            assert_eq!(pieces(stream.as_bytes()), Ok(owned(expected)), "{stream:?}");
        }
    }

    #[test]
    fn broken_framing_is_a_fault() {
        let cases: [(&str, u64); 6] =
            [("{}", 0), ("[1]", 1), ("[,{}]", 1), ("[{} {}]", 4), ("[{},]", 4), ("[{}] x", 5)];
        for (stream, offset) in cases {
            assert_eq!(pieces(stream.as_bytes()), Err(StreamFault::NotAnArray { offset }), "{stream:?}");
        }
        let too_large = format!("[{{\"a\":\"{}\"}}]", "x".repeat(300));
        assert_eq!(pieces(too_large.as_bytes()), Err(StreamFault::PieceTooLarge { limit: 256 }));
    }
}
