//! Multipart bodies (RFC 7578, RFC 2387, RFC 2046 §5.1), read strictly: what two parsers could split
//! differently is refused. Ranges point into the body, so that an edit changes only what it must.

use std::ops::Range;

use memchr::memmem;

/// The most parts of one body, unless the caller asks for fewer.
pub const PARTS_MAX: usize = 1000;
const PART_HEAD_BYTES_MAX: usize = 8192;

/// One part of a multipart body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The header lines, without the blank line after them.
    pub head: Range<usize>,
    /// The content.
    pub content: Range<usize>,
    /// The declared Content-Type.
    pub content_type: Option<String>,
    /// The name of the form's field.
    pub name: Option<String>,
    /// Whether it is a file: its disposition names one.
    pub is_file: bool,
}

/// Why a multipart body is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MultipartFault {
    /// The body does not begin with the boundary, or has no closing one.
    #[error("a multipart boundary is missing")]
    Boundary,
    /// Text stands before the first or after the last boundary.
    #[error("the multipart body has text outside its parts")]
    OutsideText,
    /// A part's header lines are malformed, repeated or too long.
    #[error("a multipart part has malformed headers")]
    PartHead,
    /// A part holds parts, or declares a transfer encoding.
    #[error("a multipart part is nested or transfer encoded")]
    Nested,
    /// More parts than the limit.
    #[error("the multipart body has too many parts")]
    TooMany,
}

/// Splits a body into its parts.
pub fn parts(body: &[u8], boundary: &str, parts_max: usize) -> Result<Vec<Part>, MultipartFault> {
    let delimiter = format!("\r\n--{boundary}");
    let finder = memmem::Finder::new(delimiter.as_bytes());
    let first = &delimiter.as_bytes()[2..];
    if !body.starts_with(first) {
        return Err(MultipartFault::Boundary);
    }
    let mut found = Vec::new();
    let mut at = first.len();
    loop {
        match body.get(at..) {
            Some([b'-', b'-', rest @ ..]) => {
                let blank = rest.is_empty() || rest == b"\r\n";
                return if blank { Ok(found) } else { Err(MultipartFault::OutsideText) };
            }
            Some([b'\r', b'\n', ..]) => at += 2,
            _ => return Err(MultipartFault::Boundary),
        }
        let end = at + finder.find(&body[at..]).ok_or(MultipartFault::Boundary)?;
        if found.len() == parts_max {
            return Err(MultipartFault::TooMany);
        }
        found.push(part(body, at..end)?);
        at = end + delimiter.len();
    }
}

/// The head of a part with its quoted pairs undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpaired {
    /// What it says.
    pub bytes: Vec<u8>,
    /// Where each of them stands in the head, and where that ends.
    places: Vec<usize>,
}

impl Unpaired {
    /// Returns where a range of the bytes comes from in the head.
    pub fn source(&self, range: Range<usize>) -> Range<usize> {
        let place = |at: usize| self.places.get(at).or(self.places.last()).copied().unwrap_or_default();
        place(range.start)..place(range.end)
    }
}

/// Returns the head of a part with each quoted pair as the sign it stands for (RFC 2183, section 2), if there is any.
/// Browsers write none, and take a backslash for one.
pub fn unpaired(head: &[u8]) -> Option<Unpaired> {
    memchr::memchr(b'\\', head)?;
    let mut unpaired = Unpaired { bytes: Vec::with_capacity(head.len()), places: Vec::new() };
    let mut bytes = head.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        let meant = if *byte == b'\\' { bytes.next().map_or(byte, |(_, meant)| meant) } else { byte };
        unpaired.bytes.push(*meant);
        unpaired.places.push(at);
    }
    unpaired.places.push(head.len());
    Some(unpaired)
}

fn part(body: &[u8], range: Range<usize>) -> Result<Part, MultipartFault> {
    let bytes = &body[range.clone()];
    let split = memmem::find(bytes, b"\r\n\r\n").ok_or(MultipartFault::PartHead)?;
    let head = range.start..range.start + split;
    let text = std::str::from_utf8(&body[head.clone()]).map_err(|_| MultipartFault::PartHead)?;
    let Declared { content_type, disposition } = check_head(text)?;
    let Disposition { name, is_file } = disposition;
    Ok(Part { head, content: range.start + split + 4..range.end, content_type, name, is_file })
}

/// What the header lines of a part say of it.
struct Declared {
    content_type: Option<String>,
    disposition: Disposition,
}

/// What a `Content-Disposition` says.
#[derive(Default)]
struct Disposition {
    name: Option<String>,
    is_file: bool,
}

/// Returns what the header lines of a part say, if they have one meaning.
fn check_head(head: &str) -> Result<Declared, MultipartFault> {
    if head.len() > PART_HEAD_BYTES_MAX {
        return Err(MultipartFault::PartHead);
    }
    let mut content_type = None;
    let mut disposition = None;
    for line in head.split("\r\n") {
        let (name, value) = line.split_once(':').ok_or(MultipartFault::PartHead)?;
        let odd = name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if odd || value.bytes().any(|b| b.is_ascii_control()) {
            return Err(MultipartFault::PartHead);
        }
        match name.to_ascii_lowercase().as_str() {
            "content-disposition" if disposition.is_some() => return Err(MultipartFault::PartHead),
            "content-disposition" => disposition = Some(Disposition::read(value)?),
            "content-type" if content_type.is_some() => return Err(MultipartFault::PartHead),
            "content-type" => content_type = Some(value.trim().to_owned()),
            "content-transfer-encoding" => {
                let plain = matches!(value.trim().to_ascii_lowercase().as_str(), "binary" | "8bit" | "7bit");
                if !plain {
                    return Err(MultipartFault::Nested);
                }
            }
            _ => {}
        }
    }
    let nested =
        content_type.as_deref().is_some_and(|t: &str| t.to_ascii_lowercase().starts_with("multipart/"));
    match (nested, disposition) {
        (true, _) => Err(MultipartFault::Nested),
        (false, Some(disposition)) => Ok(Declared { content_type, disposition }),
        // Of related parts (RFC 2387) none has a name: each is a file of the type it tells.
        (false, None) if content_type.is_some() => {
            Ok(Declared { content_type, disposition: Disposition { name: None, is_file: true } })
        }
        (false, None) => Err(MultipartFault::PartHead),
    }
}

impl Disposition {
    /// Reads a value with one meaning: `name` stands once and in no other encoding, `filename` and `filename*` do not
    /// stand together.
    fn read(value: &str) -> Result<Self, MultipartFault> {
        // Some readers end a quoted text at an escaped quote, and some do not.
        if value.contains("\\\"") || !value.matches('"').count().is_multiple_of(2) {
            return Err(MultipartFault::PartHead);
        }
        let mut read = Self::default();
        for parameter in unquoted_split(value).skip(1) {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let key = key.trim().to_ascii_lowercase();
            let is_taken = match key.as_str() {
                "name" => read.name.replace(plain(value.trim())?.to_owned()).is_some(),
                "filename" | "filename*" => std::mem::replace(&mut read.is_file, true),
                other => other.starts_with("name*") || other.starts_with("filename*"),
            };
            if is_taken {
                return Err(MultipartFault::PartHead);
            }
        }
        Ok(read)
    }
}

/// Splits at the semicolons that stand in no quotes.
fn unquoted_split(value: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    value.split(move |byte| {
        quoted ^= byte == '"';
        byte == ';' && !quoted
    })
}

/// Returns a value without its quotes, if it is all in them or has none: what is escaped is read in several ways.
fn plain(value: &str) -> Result<&str, MultipartFault> {
    let bare = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value);
    if bare.contains(['"', '\\']) { Err(MultipartFault::PartHead) } else { Ok(bare) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(parts: &[&str]) -> Vec<u8> {
        let mut body = String::new();
        for part in parts {
            body.push_str(&format!("--B\r\n{part}\r\n"));
        }
        body.push_str("--B--\r\n");
        body.into_bytes()
    }

    const FIELD: &str = "Content-Disposition: form-data; name=\"model\"\r\n\r\nwhisper-1";
    const FILE: &str = "Content-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\nhi\r\n--Bx";

    #[test]
    fn parts_are_found_where_they_lie() {
        let body = body(&[FIELD, FILE]);
        let found = parts(&body, "B", PARTS_MAX);
        // `--Bx` begins with the boundary, so the second part does not end where it seems to.
        assert_eq!(found, Err(MultipartFault::Boundary));
        let body = self::body(&[FIELD]);
        let found = parts(&body, "B", PARTS_MAX).unwrap();
        assert_eq!(&body[found[0].content.clone()], b"whisper-1");
    }

    #[test]
    fn quoted_pairs_are_the_signs_behind_them_and_lead_back() {
        assert_eq!(unpaired(b"filename=\"a b\""), None);
        let head = br#"filename="\A\K-\\IA""#;
        let unpaired = unpaired(head).unwrap();
        assert_eq!(unpaired.bytes, br#"filename="AK-\IA""#);
        assert_eq!(&head[unpaired.source(10..12)], br"\A\K");
        assert_eq!(&head[unpaired.source(13..14)], br"\\");
        assert_eq!(unpaired.source(0..unpaired.bytes.len()), 0..head.len());
        assert_eq!(super::unpaired(br"a\").unwrap().bytes, br"a\");
    }

    #[test]
    fn a_file_is_what_is_named_as_one() {
        let cases = [
            (r#"form-data; name="a"; filename="b.txt""#, true),
            (r#"form-data; name="a"; FileName = b"#, true),
            (r#"form-data; name="a"; filename*=UTF-8''b"#, true),
            (r#"form-data; name="a; filename=b""#, false),
            (r#"form-data; name="filename""#, false),
        ];
        for (disposition, is_file) in cases {
            let read = Disposition::read(disposition).map(|it| it.is_file);
            assert_eq!(read, Ok(is_file), "{disposition}");
        }
    }

    #[test]
    fn a_related_part_is_a_file_of_its_type() {
        let body = body(&["Content-Type: application/json\r\n\r\n{}", "content-type: text/plain\r\n\r\nhi"]);
        let found = parts(&body, "B", PARTS_MAX).unwrap();
        let told = |part: &Part| (part.content_type.clone(), part.name.clone(), part.is_file);
        assert_eq!(told(&found[0]), (Some("application/json".to_owned()), None, true));
        assert_eq!(&body[found[1].content.clone()], b"hi");
        assert_eq!(
            parts(&self::body(&["X-Other: 1\r\n\r\nhi"]), "B", PARTS_MAX),
            Err(MultipartFault::PartHead)
        );
    }

    #[test]
    fn what_splits_in_two_ways_is_refused() {
        let named_twice = "Content-Disposition: form-data; name=\"a\"; name=\"b\"\r\n\r\nx";
        let otherwise = "Content-Disposition: form-data; name=\"a\"; name*=UTF-8''b\r\n\r\nx";
        let escaped = "Content-Disposition: form-data; name=\"mo\\del\"\r\n\r\nx";
        let hidden = "Content-Disposition: form-data; x=\"\\\"\"; name=\"model\"\r\n\r\nx";
        let open = "Content-Disposition: form-data; x=\"; name=\"model\"\r\n\r\nx";
        let two_files =
            "Content-Disposition: form-data; name=\"a\"; filename=\"b\"; filename*=UTF-8''c\r\n\r\nx";
        let nested = "Content-Disposition: form-data; name=\"a\"\r\nContent-Type: multipart/mixed\r\n\r\nx";
        let encoded =
            "Content-Disposition: form-data; name=\"a\"\r\nContent-Transfer-Encoding: base64\r\n\r\neA==";
        let cases: [(&[u8], MultipartFault); 11] = [
            (&body(&[hidden]), MultipartFault::PartHead),
            (&body(&[open]), MultipartFault::PartHead),
            (&body(&[named_twice]), MultipartFault::PartHead),
            (&body(&[otherwise]), MultipartFault::PartHead),
            (&body(&[escaped]), MultipartFault::PartHead),
            (&body(&[two_files]), MultipartFault::PartHead),
            (&body(&["no colon\r\n\r\nx"]), MultipartFault::PartHead),
            (&body(&[nested]), MultipartFault::Nested),
            (&body(&[encoded]), MultipartFault::Nested),
            (b"preamble\r\n--B\r\n", MultipartFault::Boundary),
            (b"--B--\r\nepilogue", MultipartFault::OutsideText),
        ];
        for (body, fault) in cases {
            assert_eq!(parts(body, "B", PARTS_MAX), Err(fault));
        }
        assert_eq!(parts(&body(&[FIELD, FIELD]), "B", 1), Err(MultipartFault::TooMany));
    }
}
