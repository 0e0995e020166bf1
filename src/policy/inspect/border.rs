//! Files that come in several requests: what stands over the border of two parts, which no request holds alone.
//!
//! In: the ends of two parts, one of which has left. Out: the findings whose value begins in the one and ends in the
//! other. These cannot be masked any more: where a policy says `redact`, the other part is refused, as where it says
//! `block`. A value of which more lies in one part than its end keeps is not found, nor is one over three parts.

use bytes::Bytes;

use super::Inspection;
use super::Inspector;
use super::text::Sheet;
use crate::llm::dialect::Channel;
use crate::llm::media::Media;
use crate::llm::multipart;
use crate::policy::decision::Action;
use crate::redact::token::Vault;

/// How much of a text is read at each of its ends, in bytes, beyond a value without a blank in it that is cut there.
const SIDE_BYTES: usize = 256;
/// How much of such a value is read, in bytes: a token, or a key in lines.
const VALUE_BYTES_MAX: usize = 8 << 10;

/// How a part of a file begins and ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    begin: Box<[u8]>,
    end: Box<[u8]>,
}

impl Ends {
    /// Returns the ends of the text that a body is, or of each of the fields of a form; none of what holds no text.
    pub fn of(body: &[u8], media: &Media, parts_max: usize) -> Vec<Self> {
        let Media::Multipart { boundary } = media else { return Self::of_text(body).into_iter().collect() };
        let parts = multipart::parts(body, boundary, parts_max).unwrap_or_default();
        parts.into_iter().filter_map(|part| Self::of_text(body.get(part.content)?)).collect()
    }

    /// Returns how many bytes they are.
    pub fn bytes(&self) -> usize {
        self.begin.len() + self.end.len()
    }

    fn of_text(text: &[u8]) -> Option<Self> {
        let is_read = std::str::from_utf8(text).is_ok() || !Media::looks_binary(text);
        let begin = text.get(..side_bytes(text.iter()))?;
        let end = text.get(text.len() - side_bytes(text.iter().rev())..)?;
        (is_read && !text.is_empty()).then(|| Self { begin: begin.into(), end: end.into() })
    }
}

impl Inspector<'_> {
    /// Judges what begins at the end of one part of a file, and ends at the begin of another.
    pub fn over_border(&self, before: &Ends, behind: &Ends, vault: &mut Vault) -> Inspection {
        let mut sheet = Sheet::new(self, vault);
        let joined = [&*before.end, &*behind.begin].concat();
        let border = before.end.len();
        let found = sheet.scan(&joined).map(|mut findings| {
            findings.retain(|found| found.value.start < border && border < found.value.end);
            sheet.judge(&findings, Channel::User, |range| joined.get(range));
        });
        let mut inspection = sheet.conclude(Bytes::new(), found.err().map(Into::into));
        if inspection.action == Action::Redact {
            let redacted = inspection.observations.iter_mut().filter(|seen| seen.action == Action::Redact);
            redacted.for_each(|seen| seen.action = Action::Block);
            (inspection.action, inspection.cleared) = (Action::Block, None);
        }
        inspection
    }
}

/// Returns how much of a text is read at one of its ends, whose bytes come from there on.
pub(in crate::policy) fn side_bytes<'b>(text: impl ExactSizeIterator<Item = &'b u8>) -> usize {
    let length = text.len();
    let unbroken = text.take(VALUE_BYTES_MAX).take_while(|byte| !matches!(byte, b' ' | b'\t')).count();
    length.min(unbroken + SIDE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_of_texts_alone_and_bounded() {
        let of = |body: &[u8]| Ends::of(body, &Media::File, 9);
        assert_eq!(of(b"").len() + of(b"\xff\xfe\x00\x01").len(), 0);
        let long = [&vec![b'a'; 1 << 20][..], &[0xc3]].concat();
        let [ends] = &of(&long)[..] else { panic!("no text") };
        assert_eq!(ends.bytes(), 2 * (VALUE_BYTES_MAX + SIDE_BYTES));
        assert!(ends.end.ends_with(&[b'a', 0xc3]));
        let form = b"--B\r\nContent-Disposition: form-data; name=\"data\"\r\n\r\none two\r\n--B--\r\n";
        let media = Media::Multipart { boundary: "B".into() };
        let whole: Box<[u8]> = b"one two"[..].into();
        assert_eq!(Ends::of(form, &media, 9), [Ends { begin: whole.clone(), end: whole }]);
    }
}
