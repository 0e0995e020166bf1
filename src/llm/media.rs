//! What a body is, by its Content-Type and, where that may lie, by its first bytes.

mod base64;
mod words;

/// The mark that some put before UTF-8: JSON may not have it (RFC 8259, section 8.1), and many parsers pass over it.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The form of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Media {
    /// One JSON text.
    Json,
    /// JSON texts on lines of their own.
    Ndjson,
    /// Server-sent events.
    EventStream,
    /// Any other text.
    Text,
    /// Fields of a form, in which a plus stands for a space.
    Form,
    /// Parts between boundaries (RFC 7578).
    Multipart {
        /// The boundary, without its leading dashes.
        boundary: String,
    },
    /// Bytes that are no text: images, audio, archives, documents.
    Opaque,
    /// A file of any kind, as the field of the form or the path that brings it tells.
    File,
    /// What no Content-Type was ever for: a message of a socket that says it is binary, or what a control frame
    /// carries. Most often it is sound, or drawn by chance.
    Binary,
    /// Amazon's frames around pieces of JSON.
    AmazonEvents,
    /// Nothing was declared, or nothing that tells whether it is text.
    Undeclared,
}

/// The declaration cannot be honoured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MediaFault {
    /// A charset other than UTF-8.
    #[error("the only charset accepted is utf-8")]
    Charset,
    /// A multipart type without a usable boundary.
    #[error("the multipart boundary is missing or malformed")]
    Boundary,
    /// Frames that hold text, in a body that is read whole.
    #[error("events in Amazon's frames are read in answers only")]
    Framed,
    /// A parameter stands there twice, or in pieces: some parsers take the first, others the last.
    #[error("a parameter of the content type is repeated")]
    Repeated,
}

const BOUNDARY_BYTES_MAX: usize = 70;
/// The parameters by which a body is read.
const PARAMETERS: [&str; 2] = ["boundary", "charset"];
/// Of so many bytes, in percent, a text in wide characters has at least a NUL at one place of two or four …
const WIDE_NULS_MIN: usize = 50;
/// … and at most so many bytes at the others that are no ASCII text.
const WIDE_OTHERS_MAX: usize = 10;
/// Applications whose files are no text, though some hold one …
const OPAQUE_APPLICATION: [&str; 26] = [
    "gzip",
    "java-archive",
    "mp4",
    "msword",
    "octet-stream",
    "ogg",
    "pdf",
    "vnd.apache.arrow.file",
    "vnd.apache.parquet",
    "vnd.rar",
    "vnd.sqlite3",
    "wasm",
    "x-7z-compressed",
    "x-bzip2",
    "x-gzip",
    "x-hdf5",
    "x-parquet",
    "x-protobuf",
    "x-rar-compressed",
    "x-sqlite3",
    "x-tar",
    "x-xz",
    "x-zip-compressed",
    "zip",
    "zlib",
    "zstd",
];
/// … and how the names of whole families of them begin: office files, most of which are archives. What is XML of them
/// ends in `+xml`.
const OPAQUE_FAMILIES: [&str; 6] = [
    "vnd.apple.",
    "vnd.ms-",
    "vnd.oasis.opendocument.",
    "vnd.openxmlformats-officedocument.",
    "vnd.sun.xml.",
    "vnd.visio",
];

impl Media {
    /// Reads a Content-Type value; an absent one is [`Media::Undeclared`].
    pub fn parse(content_type: Option<&str>) -> Result<Self, MediaFault> {
        let Some(content_type) = content_type else { return Ok(Self::Undeclared) };
        let mut parts = content_type.split(';');
        let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let parameters: Vec<(String, String)> = parts.filter_map(parameter).collect();
        let called =
            |name: &str| parameters.iter().filter(|(known, _)| known.split('*').next() == Some(name)).count();
        let in_pieces = |name: &str| {
            parameters.iter().any(|(known, _)| known != name && known.split('*').next() == Some(name))
        };
        if PARAMETERS.iter().any(|name| called(name) > 1 || in_pieces(name)) {
            return Err(MediaFault::Repeated);
        }
        let find = |name: &str| parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        let media = match essence.split_once('/') {
            Some(("multipart", _)) => {
                let boundary = find("boundary").filter(|boundary| is_boundary(boundary));
                return boundary.map(|b| Self::Multipart { boundary: b.clone() }).ok_or(MediaFault::Boundary);
            }
            Some(("text", "event-stream")) => Self::EventStream,
            Some(("application", "json")) => Self::Json,
            Some(("application", "x-ndjson" | "ndjson" | "jsonl" | "jsonlines" | "x-json-stream")) => {
                Self::Ndjson
            }
            Some((_, subtype)) if subtype.ends_with("+json") => Self::Json,
            Some(("application", "vnd.amazon.eventstream")) => Self::AmazonEvents,
            Some(("application", "x-www-form-urlencoded")) => Self::Form,
            Some(("audio" | "image" | "video" | "font" | "model", _)) => Self::Opaque,
            Some(("application", subtype)) if subtype == "xml" || subtype.ends_with("+xml") => Self::Text,
            Some(("application", subtype)) if is_opaque_application(subtype) => Self::Opaque,
            Some(("text", _)) => Self::Text,
            _ => Self::Undeclared,
        };
        let utf8 = find("charset").is_none_or(|charset| {
            matches!(charset.to_ascii_lowercase().as_str(), "utf-8" | "utf8" | "us-ascii")
        });
        if utf8 || matches!(media, Self::Opaque | Self::AmazonEvents) {
            Ok(media)
        } else {
            Err(MediaFault::Charset)
        }
    }

    /// Returns what the body is taken for, given its bytes.
    ///
    /// Providers parse JSON whatever its label says, so text that begins like JSON is read as JSON
    /// where that succeeds, and bytes labelled opaque are read when they are text.
    pub fn may_be_json(body: &[u8]) -> bool {
        let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
        matches!(body.trim_ascii_start().first(), Some(b'{' | b'[' | b'"'))
    }

    /// Tells whether bytes look like UTF-16 or UTF-32 text, which some providers decode.
    pub fn looks_wide(body: &[u8]) -> bool {
        matches!(body, [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, 0, 0xfe, 0xff, ..])
            || matches!(body, [b'{' | b'[' | b'"' | b' ', 0, ..] | [0, b'{' | b'[' | b'"' | b' ', ..])
            || matches!(body, [0, 0, 0, b'{' | b'[' | b'"', ..])
            || Self::is_wide_text(body)
    }

    /// Tells whether most of some bytes are a text in wide characters, however they begin: sound may begin so too.
    pub fn is_wide_text(body: &[u8]) -> bool {
        is_wide(body, 2) || is_wide(body, 4)
    }

    /// Tells whether a file is a text in wide characters: by its mark and what follows, or by what most of it is.
    fn is_wide_file(file: &[u8]) -> bool {
        let swapped = match file {
            [0xff, 0xfe, ..] => false,
            [0xfe, 0xff, ..] => true,
            _ => return Self::is_wide_text(file),
        };
        let (pairs, _) = file.as_chunks::<2>();
        let unit =
            |pair: &[u8; 2]| if swapped { u16::from_be_bytes(*pair) } else { u16::from_le_bytes(*pair) };
        let is_text = |sign: char| !sign.is_control() || sign.is_ascii_whitespace();
        char::decode_utf16(pairs.iter().map(unit)).all(|sign| sign.is_ok_and(is_text))
            || Self::is_wide_text(file)
    }

    /// Tells whether bytes are those of no text in any encoding of eight bits: control characters are among them.
    pub fn looks_binary(body: &[u8]) -> bool {
        body.iter().any(|byte| matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f))
    }

    /// Tells whether bytes are UTF-8 but for the characters that they begin and end within: a part of a file that was cut
    /// somewhere is.
    pub fn is_cut_text(part: &[u8]) -> bool {
        const CONTINUATIONS_MAX: usize = 3;
        let is_continuation = |byte: &&u8| **byte & 0xc0 == 0x80;
        let begun = part.iter().take(CONTINUATIONS_MAX).take_while(is_continuation).count();
        let rest = part.get(begun..).unwrap_or_default();
        std::str::from_utf8(rest).err().is_none_or(|fault| fault.error_len().is_none())
    }

    /// Tells whether bytes are no text, in whichever encoding.
    pub fn is_binary(bytes: &[u8]) -> bool {
        let is_text = std::str::from_utf8(bytes).is_ok() && !Self::looks_binary(bytes);
        !bytes.is_empty() && !is_text && !Self::looks_wide(bytes)
    }
}

fn is_opaque_application(subtype: &str) -> bool {
    OPAQUE_APPLICATION.contains(&subtype)
        || subtype.ends_with("+zip")
        || OPAQUE_FAMILIES.iter().any(|family| subtype.starts_with(family))
}

/// Tells whether a text of wide characters, `width` bytes each, would look so: NULs beside ASCII.
fn is_wide(body: &[u8], width: usize) -> bool {
    let length = body.len() / width;
    // Nearly all that is no such text has too few of them.
    let nuls = body.iter().filter(|byte| **byte == 0).count();
    if nuls * 100 < length * (width - 1) * WIDE_NULS_MIN {
        return false;
    }
    // The byte that tells is the first or the last of each character.
    [0, width - 1].into_iter().any(|telling| {
        let bytes = || body.chunks_exact(width);
        let is_told = |byte: u8| matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e);
        let told = bytes().filter(|it| it.get(telling).is_some_and(|byte| is_told(*byte))).count();
        let wide =
            bytes().filter(|it| it.iter().enumerate().all(|(at, byte)| at == telling || *byte == 0)).count();
        length > 0
            && wide * 100 >= length * WIDE_NULS_MIN
            && (length - told) * 100 <= length * WIDE_OTHERS_MAX
    })
}

fn parameter(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    let value = value.trim();
    let value = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value);
    Some((name.trim().to_ascii_lowercase(), value.to_owned()))
}

fn is_boundary(boundary: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&byte);
    (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len())
        && boundary.bytes().all(known)
        && !boundary.ends_with(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations() {
        let cases = [
            (Some("application/json; charset=UTF-8"), Ok(Media::Json)),
            (Some("application/vnd.api+json"), Ok(Media::Json)),
            (Some("text/event-stream;charset=utf-8"), Ok(Media::EventStream)),
            (Some("application/x-ndjson"), Ok(Media::Ndjson)),
            (Some("application/x-www-form-urlencoded"), Ok(Media::Form)),
            (Some("image/png"), Ok(Media::Opaque)),
            (Some("application/vnd.amazon.eventstream"), Ok(Media::AmazonEvents)),
            (Some("application/json; charset=utf-16"), Err(MediaFault::Charset)),
            (Some("multipart/form-data; boundary=\"a b\""), Ok(Media::Multipart { boundary: "a b".into() })),
            (Some("multipart/form-data"), Err(MediaFault::Boundary)),
            (Some("nonsense"), Ok(Media::Undeclared)),
            (Some("application/x-hwp"), Ok(Media::Undeclared)),
            (Some("application/x-hwp; charset=utf-16"), Err(MediaFault::Charset)),
            (Some("application/xml"), Ok(Media::Text)),
            (Some("application/rss+xml"), Ok(Media::Text)),
            (Some("application/vnd.ms-excel"), Ok(Media::Opaque)),
            (
                Some("application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
                Ok(Media::Opaque),
            ),
            (
                Some("application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"),
                Ok(Media::Text),
            ),
            (Some("multipart/form-data; boundary=A; boundary=B"), Err(MediaFault::Repeated)),
            (Some("multipart/form-data; boundary=A; Boundary=A"), Err(MediaFault::Repeated)),
            (Some("multipart/form-data; boundary=A; boundary*=utf-8''B"), Err(MediaFault::Repeated)),
            (Some("multipart/form-data; boundary*0=A"), Err(MediaFault::Repeated)),
            (Some("text/plain; charset=utf-8; charset=utf-16"), Err(MediaFault::Repeated)),
            (None, Ok(Media::Undeclared)),
        ];
        for (declared, media) in cases {
            assert_eq!(Media::parse(declared), media, "{declared:?}");
        }
    }

    #[test]
    fn wide_text_is_recognised() {
        for body in [&b"{\0\"\0"[..], b"\0{\0\"", b"\xff\xfe{\0", b"\xfe\xff\0{"] {
            assert!(Media::looks_wide(body));
        }
        assert!(!Media::looks_wide(b"{\"a\":1}") && !Media::looks_wide(b"\x89PNG"));
        let text = "\nuse it, caf\u{e9}";
        let two: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let swapped: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let four: Vec<u8> = text.chars().flat_map(|it| u32::from(it).to_le_bytes()).collect();
        assert!([&two, &swapped, &four].into_iter().all(|it| Media::looks_wide(it)));
        let archive = [text.as_bytes(), &[0; 512][..]].concat();
        let silence = [0; 64];
        let sound: Vec<u8> = (0..64_i16).flat_map(i16::to_le_bytes).collect();
        assert!(![&archive[..], &silence, &sound].into_iter().any(Media::looks_wide));
        let quiet: Vec<u8> = (0..64_i16).flat_map(|it| (91 - it * 5).to_le_bytes()).collect();
        assert!(Media::looks_wide(&quiet) && !Media::is_wide_text(&quiet));
        assert!([&two, &swapped, &four].into_iter().all(|it| Media::is_wide_text(it)));
    }
}
