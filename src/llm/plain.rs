//! Text as it stands, in pieces that end where the bytes do that arrived: there is nothing else in it to cut at.

use bytes::BytesMut;
use smallvec::smallvec;

use crate::llm::stream::StreamPiece;

/// Cuts a text into what has arrived of it, never within a character.
#[derive(Debug, Default)]
pub struct PlainParser {
    pending: BytesMut,
}

impl PlainParser {
    /// Returns the bytes that make no whole piece yet, to be added to.
    pub(super) fn pending(&mut self) -> &mut BytesMut {
        &mut self.pending
    }

    /// Cuts off the characters that are complete, and whatever is none.
    pub(super) fn advance(&mut self, pieces: &mut Vec<StreamPiece>) {
        let length = match std::str::from_utf8(&self.pending) {
            Ok(text) => text.len(),
            Err(fault) if fault.error_len().is_none() => fault.valid_up_to(),
            Err(_) => self.pending.len(),
        };
        pieces.extend((length > 0).then(|| self.cut(length)));
    }

    /// Returns what was begun of a character.
    pub(super) fn finish(&mut self) -> Option<StreamPiece> {
        let length = self.pending.len();
        (length > 0).then(|| self.cut(length))
    }

    fn cut(&mut self, length: usize) -> StreamPiece {
        let raw = self.pending.split_to(length).freeze();
        StreamPiece { raw, event: None, data: smallvec![0..length], terminated: true, frame: None }
    }
}

#[cfg(test)]
mod tests {
    use crate::llm::stream::StreamFormat;
    use crate::llm::stream::StreamParser;

    #[test]
    fn no_character_is_cut_wherever_its_bytes_are_and_what_is_none_goes_on() {
        let told = |chunks: &[&[u8]]| -> Vec<Vec<u8>> {
            let mut parser = StreamParser::new(StreamFormat::Text, 256);
            let mut pieces: Vec<_> = chunks.iter().flat_map(|chunk| parser.push(chunk).unwrap()).collect();
            pieces.extend(parser.finish().unwrap());
            pieces.iter().map(|piece| piece.payload().into_owned()).collect()
        };
        let text = "a€b😀".as_bytes();
        for cut in 0..=text.len() {
            let (begin, end) = text.split_at(cut);
            let pieces = told(&[begin, end]);
            assert!(pieces.iter().all(|piece| std::str::from_utf8(piece).is_ok()), "{cut}");
            assert_eq!(pieces.concat(), text, "{cut}");
        }
        assert_eq!(told(&[b"a\xff", b"b\xe2", b"\x82"]), [&b"a\xff"[..], b"b", b"\xe2\x82"]);
    }
}
