//! Server-sent events, cut out of the stream byte for byte (WHATWG HTML, section 9.2.6).

use std::ops::Range;

use bytes::BytesMut;
use smallvec::SmallVec;

use crate::llm::media::BYTE_ORDER_MARK;
use crate::llm::stream::StreamFault;
use crate::llm::stream::StreamPiece;

/// Cuts a stream of server-sent events into events.
///
/// A lone carriage return at the end of what has arrived waits for the byte after it, so that an event's bytes never
/// depend on how the stream was cut.
#[derive(Debug)]
pub struct SseParser {
    event_bytes_max: usize,
    /// The bytes of the event under way.
    pending: BytesMut,
    /// Where its unfinished line begins, and up to where that was searched.
    line_from: usize,
    searched_to: usize,
    data: SmallVec<[Range<usize>; 1]>,
    event: Option<String>,
    at_stream_start: bool,
}

/// What a line is, its end included.
struct Line {
    text: Range<usize>,
    end: usize,
}

impl SseParser {
    /// Returns a parser at the begin of a stream, whose events may be `event_bytes_max` long.
    pub(super) fn new(event_bytes_max: usize) -> Self {
        Self {
            event_bytes_max,
            pending: BytesMut::new(),
            line_from: 0,
            searched_to: 0,
            data: SmallVec::new(),
            event: None,
            at_stream_start: true,
        }
    }

    /// Returns the bytes that make no whole piece yet, to be added to.
    pub(super) fn pending(&mut self) -> &mut BytesMut {
        &mut self.pending
    }

    /// Returns what is left at the end of the stream: an event without its blank line, which some clients still read.
    pub(super) fn finish(&mut self) -> Option<StreamPiece> {
        let length = self.pending.len();
        if length == 0 {
            return None;
        }
        let ended_by_return = self.pending.last() == Some(&b'\r') && self.line_from < length;
        let text = self.line_start()..length - usize::from(ended_by_return);
        let blank = ended_by_return && text.is_empty();
        self.take_line(text);
        Some(self.cut(length, blank))
    }

    /// Cuts off the events that are complete.
    ///
    /// # Errors
    /// Fails when an event is too large.
    pub(super) fn advance(&mut self, pieces: &mut Vec<StreamPiece>) -> Result<(), StreamFault> {
        let too_large = StreamFault::PieceTooLarge { limit: self.event_bytes_max };
        while let Some(line) = self.next_line() {
            let blank = line.text.is_empty();
            self.take_line(line.text);
            self.line_from = line.end;
            self.searched_to = line.end;
            if line.end > self.event_bytes_max {
                return Err(too_large);
            }
            if blank {
                pieces.push(self.cut(line.end, true));
            }
        }
        match self.pending.len() > self.event_bytes_max {
            true => Err(too_large),
            false => Ok(()),
        }
    }

    fn next_line(&mut self) -> Option<Line> {
        let rest = self.pending.get(self.searched_to..)?;
        let Some(found) = memchr::memchr2(b'\r', b'\n', rest) else {
            self.searched_to = self.pending.len();
            return None;
        };
        let at = self.searched_to + found;
        self.searched_to = at;
        let end = match (self.pending.get(at), self.pending.get(at + 1)) {
            (Some(b'\n'), _) => at + 1,
            (_, Some(b'\n')) => at + 2,
            (_, Some(_)) => at + 1,
            (_, None) => return None,
        };
        Some(Line { text: self.line_start().min(at)..at, end })
    }

    /// Returns where the line's text begins: after the byte order mark, on the very first line.
    fn line_start(&self) -> usize {
        match self.at_stream_start && self.pending.starts_with(BYTE_ORDER_MARK) {
            true if self.line_from == 0 => BYTE_ORDER_MARK.len(),
            _ => self.line_from,
        }
    }

    fn take_line(&mut self, text: Range<usize>) {
        let line = self.pending.get(text.clone()).unwrap_or_default();
        let colon = memchr::memchr(b':', line);
        let name = line.get(..colon.unwrap_or(line.len())).unwrap_or_default();
        let value_from = match colon {
            Some(colon) if line.get(colon + 1) == Some(&b' ') => colon + 2,
            Some(colon) => colon + 1,
            None => line.len(),
        };
        match name {
            b"data" => self.data.push(text.start + value_from..text.end),
            b"event" => {
                let value = line.get(value_from..).unwrap_or_default();
                self.event = Some(String::from_utf8_lossy(value).into_owned());
            }
            _ => {}
        }
    }

    fn cut(&mut self, length: usize, terminated: bool) -> StreamPiece {
        let raw = self.pending.split_to(length).freeze();
        self.line_from = 0;
        self.searched_to = 0;
        self.at_stream_start = false;
        let (event, data) = (self.event.take(), std::mem::take(&mut self.data));
        StreamPiece { raw, event, data, terminated, frame: None }
    }
}

/// Returns where the lines of events say what is no field that a client knows: comments, and fields of other names, those
/// with them.
pub fn remarks(text: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut end = 0;
    text.split(|byte| matches!(byte, b'\r' | b'\n')).filter_map(move |line| {
        let line_end = end + line.len();
        end = line_end + 1;
        let said = match line.split(|byte| *byte == b':').next().unwrap_or_default() {
            b"data" | b"event" | b"id" | b"retry" => return None,
            b"" => line.strip_prefix(b": ").or(line.strip_prefix(b":")).unwrap_or_default(),
            _ => line,
        };
        (!said.is_empty()).then(|| line_end - said.len()..line_end)
    })
}

/// Tells whether a body begins as events with JSON in them do, whatever it is called; nothing, while it may still.
pub fn begins(body: &[u8]) -> Option<bool> {
    let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    // Most are JSON in one line, whose first byte tells.
    let may_begin = |byte: &u8| matches!(byte, b'\r' | b'\n' | b':' | b'd' | b'e' | b'i' | b'r' | b'\xef');
    if !body.first().is_none_or(may_begin) {
        return Some(false);
    }
    let mut lines = body.split(|byte| matches!(byte, b'\r' | b'\n')).peekable();
    while let Some(line) = lines.next() {
        let is_over = lines.peek().is_some();
        if let Some(data) = line.strip_prefix(b"data:") {
            match data.trim_ascii_start().first() {
                Some(byte) => return Some(matches!(byte, b'{' | b'[')),
                None if is_over => continue,
                None => return None,
            }
        }
        let is_field = line.is_empty()
            || [&b":"[..], b"event:", b"id:", b"retry:"].iter().any(|field| line.starts_with(field));
        let may_be = !is_over
            && [&b"data:"[..], b"event:", b"id:", b"retry:", BYTE_ORDER_MARK]
                .iter()
                .any(|it| it.starts_with(line));
        match (is_field, may_be) {
            (true, _) => {}
            (false, true) => return None,
            (false, false) => return Some(false),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_known_by_how_they_begin_wherever_that_is_cut() {
        for events in [
            "data: {\"a\":1}\n\n",
            "\u{feff}: hello\r\n\r\nevent: x\r\nid: 7\r\nretry: 5\r\ndata:[1]\r\n\r\n",
            "data:\rdata: {}\r\r",
        ] {
            let told = events.find(['{', '[']).unwrap() + 1;
            for cut in 0..events.len() {
                assert_eq!(
                    begins(&events.as_bytes()[..cut]),
                    (cut >= told).then_some(true),
                    "{events:?} {cut}"
                );
            }
        }
        for other in
            ["{\"data\":1}", "data is what", "date: {", "id: 5\nname: x\n", "\u{89}PNG", "data: plain words"]
        {
            assert_eq!(begins(other.as_bytes()), Some(false), "{other}");
        }
    }
    #[test]
    fn remarks_are_what_is_no_field() {
        let text = b"\n: a\r\n:b\nevent: x\nid: 1\nretry\ndata\nfoo: c\n:\n\nd e\ndata: ";
        let said = remarks(text).map(|it| std::str::from_utf8(&text[it]).unwrap());
        assert_eq!(said.collect::<Vec<_>>(), ["a", "b", "foo: c", "d e"]);
    }

    use crate::llm::stream::StreamFormat;
    use crate::llm::stream::StreamParser;

    fn parser(event_bytes_max: usize) -> StreamParser {
        StreamParser::new(StreamFormat::Sse, event_bytes_max)
    }

    fn events(stream: &[u8]) -> Vec<StreamPiece> {
        let mut parser = parser(1 << 20);
        let mut pieces = parser.push(stream).unwrap();
        pieces.extend(parser.finish().unwrap());
        pieces
    }

    #[test]
    fn fields_are_read_as_the_standard_says() {
        // (stream, event name, payload, terminated)
        type Case = (&'static str, Option<&'static str>, &'static str, bool);
        let cases: [Case; 11] = [
            ("data: a\n\n", None, "a", true),
            ("data:a\r\n\r\n", None, "a", true),
            ("data:  a\r\r", None, " a", true),
            ("event: x\ndata: a\n\n", Some("x"), "a", true),
            (": note\nid: 7\nretry: 10\ndata: a\n\n", None, "a", true),
            ("data: {\ndata:  \"a\":1\ndata: }\n\n", None, "{\n \"a\":1\n}", true),
            ("data\ndata\n\n", None, "\n", true),
            ("\u{feff}data: a\n\n", None, "a", true),
            (": ping\n\n", None, "", true),
            ("data: a\n", None, "a", false),
            ("data: a", None, "a", false),
        ];
        for (stream, event, payload, terminated) in cases {
            let pieces = events(stream.as_bytes());
            assert_eq!(pieces.len(), 1, "{stream:?}");
            assert_eq!(pieces[0].raw, stream.as_bytes());
            assert_eq!(pieces[0].event.as_deref(), event, "{stream:?}");
            assert_eq!(&*pieces[0].payload(), payload.as_bytes(), "{stream:?}");
            assert_eq!(pieces[0].terminated, terminated, "{stream:?}");
        }
    }

    #[test]
    fn payload_offsets_map_into_the_lines() {
        let pieces = events(b"data: ab\ndata:cd\n\n");
        let piece = &pieces[0];
        let raw = |range| &piece.raw[piece.raw_range(range)];
        assert_eq!(raw(0..2), b"ab");
        assert_eq!(raw(3..5), b"cd");
        assert_eq!(raw(1..4), b"b\ndata:c");
        assert_eq!(raw(4..99), b"d");
    }

    #[test]
    fn a_byte_order_mark_counts_only_at_the_start() {
        let pieces = events("data: a\n\n\u{feff}data: b\n\n".as_bytes());
        assert!(pieces[0].has_payload() && !pieces[1].has_payload());
    }

    #[test]
    fn an_event_past_the_limit_is_a_fault() {
        let too_large = Err(StreamFault::PieceTooLarge { limit: 16 });
        assert_eq!(parser(16).push(b"data: 0123456789\n\n"), too_large);
        assert_eq!(parser(16).push(b"data: 0123456789 and no end"), too_large);
        assert_eq!(parser(16).push(b"data: 01234567\n\ndata: 01234567\n\n").unwrap().len(), 2);
    }
}
