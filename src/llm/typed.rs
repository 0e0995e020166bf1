//! JSON values, one a line, each behind a sign of its type and a colon: the data stream protocol of Vercel's AI SDK.
//!
//! In: the lines of a stream. Out: the same, with the sign as the name of the event and the value as its payload. A line
//! that is none of these has no payload: it is text beside them.

use smallvec::smallvec;

use crate::llm::stream::StreamPiece;

/// The signs of types that there are.
const SIGNS: std::ops::RangeInclusive<u8> = b'a'..=b'k';

/// What a line begins with before its value, in bytes.
const HEAD_BYTES: usize = 2;

/// Takes a line apart.
pub(super) fn read(piece: &mut StreamPiece) {
    let line = piece.data.first().cloned().unwrap_or_default();
    let text = piece.raw.get(line.clone()).unwrap_or_default();
    match sign(text) {
        Some(sign) => {
            piece.event = Some(char::from(sign).to_string());
            piece.data = smallvec![line.start + HEAD_BYTES..line.end];
        }
        None => piece.data.clear(),
    }
}

/// Tells whether a body begins with such a line, whatever it is called; nothing, while it may still.
pub fn begins(body: &[u8]) -> Option<bool> {
    let end = memchr::memchr(b'\n', body);
    let line = body.get(..end.unwrap_or(body.len())).unwrap_or_default();
    match (line, end) {
        ([], None) => None,
        ([sign] | [sign, b':'], None) if is_sign(*sign) => None,
        (line, None) => {
            if may_begin(line) {
                None
            } else {
                Some(false)
            }
        }
        (line, Some(_)) => Some(may_begin(line) && sign(line).is_some()),
    }
}

/// Tells whether a line begins as one does whose value is a text, an object or an array.
pub fn may_begin(line: &[u8]) -> bool {
    matches!(line, [sign, b':', b'"' | b'{' | b'[', ..] if is_sign(*sign))
}

/// Returns the sign of a line, if it is one.
fn sign(line: &[u8]) -> Option<u8> {
    let (sign, value) = match line {
        [sign, b':', value @ ..] if is_sign(*sign) => (*sign, value),
        _ => return None,
    };
    serde_json::from_slice::<serde::de::IgnoredAny>(value).ok().map(|_| sign)
}

fn is_sign(byte: u8) -> bool {
    byte.is_ascii_digit() || SIGNS.contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::stream::StreamFormat;
    use crate::llm::stream::StreamParser;

    #[test]
    fn lines_are_taken_apart_and_others_have_no_payload() {
        let stream = "f:{\"messageId\":\"m\"}\n0:\"It is\"\r\n\n9 : 1\n0:\"\\ud83d\"\nz:1\nd:{}";
        let mut parser = StreamParser::new(StreamFormat::TypedLines, 256);
        let mut pieces = parser.push(stream.as_bytes()).unwrap();
        pieces.extend(parser.finish().unwrap());
        let told: Vec<(Option<&str>, &[u8], bool)> = pieces
            .iter()
            .map(|it| (it.event.as_deref(), &it.raw[it.data.first().cloned().unwrap_or(0..0)], it.terminated))
            .collect();
        let expected: [(Option<&str>, &[u8], bool); 7] = [
            (Some("f"), b"{\"messageId\":\"m\"}", true),
            (Some("0"), b"\"It is\"", true),
            (None, b"", true),
            (None, b"", true),
            (Some("0"), b"\"\\ud83d\"", true),
            (None, b"", true),
            (Some("d"), b"{}", false),
        ];
        assert_eq!(told, expected);
        assert_eq!(pieces.iter().flat_map(|it| it.raw.to_vec()).collect::<Vec<u8>>(), stream.as_bytes());
    }

    #[test]
    fn they_are_known_by_their_first_line_wherever_that_is_cut() {
        for (body, is_typed) in [
            ("0:\"It is\"\n", true),
            ("f:{\"messageId\":\"m\"}\r\n0", true),
            ("2:[1]\n", true),
            ("a: {\"key\": 1}\n", false),
            ("0:\"It is\n", false),
            ("z:\"It is\"\n", false),
            ("data: 1\n", false),
            ("10:\"so\"\n", false),
            ("\n", false),
        ] {
            assert_eq!(begins(body.as_bytes()), Some(is_typed), "{body}");
            for cut in 0..body.find('\n').unwrap() {
                let told = begins(&body.as_bytes()[..cut]);
                assert!(told.is_none() || told == Some(is_typed), "{body} {cut}");
            }
        }
    }
}
