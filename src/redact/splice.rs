//! Puts edits into a body and leaves every other byte as it came.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use crate::llm::stream::StreamPiece;

/// One change: these bytes of the body become that.
#[derive(Clone, PartialEq, Eq)]
pub struct Edit {
    /// The bytes that go.
    pub range: Range<usize>,
    /// What comes in their place, already escaped for where it stands.
    pub replacement: Vec<u8>,
}

/// Never shows the replacement: a restored placeholder is somebody's data.
impl std::fmt::Debug for Edit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Edit").field("range", &self.range).field("bytes", &self.replacement.len()).finish()
    }
}

impl Edit {
    /// Returns the edit of a text that begins at `from`.
    fn shifted(&self, from: usize) -> Self {
        let range = self.range.start - from..self.range.end - from;
        Self { range, replacement: self.replacement.clone() }
    }
}

/// The edits do not fit the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpliceFault {
    /// An edit begins before the one before it ends.
    #[error("edits overlap or are out of order at byte {offset}")]
    OutOfOrder {
        /// Where the later edit begins.
        offset: usize,
    },
    /// An edit reaches past the body, or ends before it begins.
    #[error("edit at byte {offset} does not lie within the body")]
    OutOfBounds {
        /// Where the edit begins.
        offset: usize,
    },
    /// An edit reaches out of the texts of a frame that may be replaced, or its frame cannot be written.
    #[error("an edit does not lie within a text of its frame")]
    OutOfFrame,
}

/// Adds an edit that takes the place of all those within its range; edits are ascending before and after.
pub fn override_with(edits: &mut Vec<Edit>, edit: Edit) {
    let within = |known: &Edit| edit.range.start <= known.range.start && known.range.end <= edit.range.end;
    edits.retain(|known| !within(known));
    let at = edits.partition_point(|known| known.range.start < edit.range.start);
    edits.insert(at, edit);
}

/// Makes ascending edits that overlap one, with the text of the first.
pub fn join_overlapping(edits: &mut Vec<Edit>) {
    edits.dedup_by(|next, known| {
        let overlaps = next.range.start < known.range.end;
        if overlaps {
            known.range.end = known.range.end.max(next.range.end);
        }
        overlaps
    });
}

/// Returns the body with the edits made; the body itself, uncopied, when there are none.
///
/// # Errors
/// Fails when the edits are not ascending, disjoint and inside the body; then nothing is edited.
pub fn splice<'a>(body: &'a [u8], edits: &[Edit]) -> Result<Cow<'a, [u8]>, SpliceFault> {
    if edits.is_empty() {
        return Ok(Cow::Borrowed(body));
    }
    let added: usize = edits.iter().map(|edit| edit.replacement.len()).sum();
    let mut spliced = Vec::with_capacity(body.len() + added);
    let mut copied_to = 0;
    for edit in edits {
        let offset = edit.range.start;
        if offset < copied_to {
            return Err(SpliceFault::OutOfOrder { offset });
        }
        let outside = edit.range.start > edit.range.end || edit.range.end > body.len();
        let kept = body.get(copied_to..offset).filter(|_| !outside);
        spliced.extend_from_slice(kept.ok_or(SpliceFault::OutOfBounds { offset })?);
        spliced.extend_from_slice(&edit.replacement);
        copied_to = edit.range.end;
    }
    spliced.extend_from_slice(body.get(copied_to..).unwrap_or_default());
    Ok(Cow::Owned(spliced))
}

/// Returns the bytes of a stream's piece with edits made in what is read of it.
///
/// # Errors
/// Fails as [`splice`] does, and where a frame cannot hold an edit.
pub fn splice_piece(piece: &StreamPiece, edits: &[Edit]) -> Result<Bytes, SpliceFault> {
    let Some(frame) = piece.frame.as_ref().filter(|_| !edits.is_empty()) else {
        return Ok(match splice(&piece.raw, edits)? {
            Cow::Borrowed(_) => piece.original().clone(),
            Cow::Owned(spliced) => spliced.into(),
        });
    };
    let (mut texts, mut made) = (Vec::new(), 0);
    for text in frame.texts() {
        let inside = |edit: &&Edit| text.start <= edit.range.start && edit.range.end <= text.end;
        let own: Vec<Edit> = edits.iter().filter(inside).map(|edit| edit.shifted(text.start)).collect();
        made += own.len();
        texts.push(splice(piece.raw.get(text).unwrap_or_default(), &own)?.into_owned().into());
    }
    if made != edits.len() {
        return Err(SpliceFault::OutOfFrame);
    }
    frame.with(&texts).map_err(|_| SpliceFault::OutOfFrame)
}

/// Returns a stream's piece with edits made in its payload, whose ranges are those of [`StreamPiece::payload`].
///
/// # Errors
/// Fails as [`splice`] does.
pub fn splice_payload(piece: &StreamPiece, edits: &[Edit]) -> Result<Bytes, SpliceFault> {
    let in_raw = |edit: &Edit| Edit {
        range: piece.raw_range(edit.range.clone()),
        replacement: edit.replacement.clone(),
    };
    let edits: Vec<Edit> = edits.iter().map(in_raw).collect();
    splice_piece(piece, &edits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::stream::StreamFormat;
    use crate::llm::stream::StreamParser;

    #[test]
    fn a_payload_over_several_lines_is_edited_in_place() {
        let pieces = StreamParser::new(StreamFormat::Sse, 256)
            .push(b": c\ndata: {\"a\":\ndata: \"secret\",\ndata: \"b\":1}\n\n")
            .unwrap();
        let at = pieces[0].payload().windows(6).position(|window| window == b"secret").unwrap();
        let spliced = splice_payload(&pieces[0], &[edit(at..at + 6, "[x]")]);
        assert_eq!(spliced.as_deref(), Ok(&b": c\ndata: {\"a\":\ndata: \"[x]\",\ndata: \"b\":1}\n\n"[..]));
        assert_eq!(splice_payload(&pieces[0], &[]), Ok(pieces[0].raw.clone()));
    }

    fn edit(range: Range<usize>, replacement: &str) -> Edit {
        Edit { range, replacement: replacement.into() }
    }

    #[test]
    fn edits_that_overlap_become_one() {
        let mut edits =
            vec![edit(0..4, "a"), edit(2..6, "b"), edit(6..8, "c"), edit(8..8, "d"), edit(9..9, "e")];
        join_overlapping(&mut edits);
        assert_eq!(edits, [edit(0..6, "a"), edit(6..8, "c"), edit(8..8, "d"), edit(9..9, "e")]);
    }

    #[test]
    fn only_the_ranges_change() {
        let body = b"0123456789";
        let cases: [(&[Edit], &[u8]); 4] = [
            (&[edit(0..2, "ab"), edit(2..3, ""), edit(9..10, "xyz")], b"ab345678xyz"),
            (&[edit(5..5, "+")], b"01234+56789"),
            (&[edit(0..10, "")], b""),
            (&[edit(10..10, "!")], b"0123456789!"),
        ];
        for (edits, expected) in cases {
            assert_eq!(splice(body, edits).as_deref(), Ok(expected), "{edits:?}");
        }
    }

    #[test]
    fn a_body_without_edits_is_not_copied() {
        assert!(matches!(splice(b"clean", &[]), Ok(Cow::Borrowed(b"clean"))));
    }

    #[test]
    fn edits_that_do_not_fit_change_nothing() {
        let overlap = [edit(0..4, ""), edit(3..5, "")];
        assert_eq!(splice(b"012345", &overlap), Err(SpliceFault::OutOfOrder { offset: 3 }));
        assert_eq!(splice(b"0123", &[edit(3..5, "")]), Err(SpliceFault::OutOfBounds { offset: 3 }));
        assert_eq!(splice(b"0123", &[edit(9..9, "")]), Err(SpliceFault::OutOfBounds { offset: 9 }));
    }
}
