//! The one spelling of a request path, on which routes are chosen and which is forwarded.
//!
//! RFC 3986 §6.2.2: unreserved characters are decoded, escapes are upper case, dot segments and empty
//! segments are resolved. A path whose fully decoded form would say something else is refused, because
//! the provider might decode once more than we do.

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    /// Not in origin form.
    #[error("the request path does not begin with a slash")]
    NotAbsolute,
    /// `%` without two hexadecimal digits.
    #[error("the request path has a broken percent escape")]
    BrokenEscape,
    /// A control character, a backslash or a byte beyond ASCII, escaped or not.
    #[error("the request path has a character that is not accepted")]
    Character,
    /// `..` above the root, or dots that appear only after decoding twice.
    #[error("the request path has dot segments that other parsers read differently")]
    DotSegments,
}

/// Returns the one spelling of `path` (without its query).
pub fn normalise(path: &str) -> Result<String, PathFault> {
    let rest = path.strip_prefix('/').ok_or(PathFault::NotAbsolute)?;
    let decoded = decode_unreserved(rest)?;
    let mut segments: Vec<&str> = Vec::new();
    let mut ends_in_slash = false;
    for segment in decoded.split('/') {
        ends_in_slash = false;
        match segment {
            "" | "." => ends_in_slash = true,
            ".." => {
                segments.pop().ok_or(PathFault::DotSegments)?;
                ends_in_slash = true;
            }
            hidden if hides_a_separator(hidden) => return Err(PathFault::DotSegments),
            plain => segments.push(plain),
        }
    }
    let mut normal = String::with_capacity(path.len());
    for segment in &segments {
        normal.push('/');
        normal.push_str(segment);
    }
    if ends_in_slash || segments.is_empty() {
        normal.push('/');
    }
    Ok(normal)
}

fn decode_unreserved(path: &str) -> Result<String, PathFault> {
    let mut decoded = String::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        let (value, escaped) = match byte {
            b'%' => (hex(bytes.next())? << 4 | hex(bytes.next())?, true),
            plain => (plain, false),
        };
        match value {
            0..=0x1f | 0x7f | b'\\' => return Err(PathFault::Character),
            _ if !escaped && (value >= 0x80 || value == b' ' || value == b'#') => {
                return Err(PathFault::Character);
            }
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                decoded.push(value as char)
            }
            _ if escaped => decoded.push_str(&format!("%{value:02X}")),
            _ => decoded.push(value as char),
        }
    }
    Ok(decoded)
}

fn hex(digit: Option<u8>) -> Result<u8, PathFault> {
    let value = digit.and_then(|digit| (digit as char).to_digit(16)).ok_or(PathFault::BrokenEscape)?;
    Ok(value as u8)
}

/// Tells whether decoding `%2F` or `%25` in the segment could make dot segments appear.
fn hides_a_separator(segment: &str) -> bool {
    let dots = |part: &str| part == "." || part == "..";
    let double = segment.contains("%25");
    let slashed = segment.contains("%2F") && segment.split("%2F").any(dots);
    let lower = segment.to_ascii_lowercase();
    slashed || (double && ["%252e", "%252f", "%255c"].iter().any(|escape| lower.contains(escape)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_spelling() {
        let cases = [
            ("/v1/chat/completions", "/v1/chat/completions"),
            ("/v1//chat/./completions", "/v1/chat/completions"),
            ("/v1/x/../chat", "/v1/chat"),
            ("/%76%31/m", "/v1/m"),
            ("/v1/models/org%2fname", "/v1/models/org%2Fname"),
            ("/v1beta/models/gemini:generateContent", "/v1beta/models/gemini:generateContent"),
            ("/a/", "/a/"),
            ("/", "/"),
        ];
        for (written, normal) in cases {
            assert_eq!(normalise(written).as_deref(), Ok(normal), "{written}");
        }
    }

    #[test]
    fn what_could_be_read_twice_is_refused() {
        let cases = [
            ("v1", PathFault::NotAbsolute),
            ("/../admin", PathFault::DotSegments),
            ("/v1/%2e%2e/%2e%2e/x", PathFault::DotSegments),
            ("/v1/..%2fadmin", PathFault::DotSegments),
            ("/v1/%252e%252e/admin", PathFault::DotSegments),
            ("/v1/%zz", PathFault::BrokenEscape),
            ("/v1/%00", PathFault::Character),
            ("/v1\\admin", PathFault::Character),
            ("/v1/%5cadmin", PathFault::Character),
        ];
        for (written, fault) in cases {
            assert_eq!(normalise(written), Err(fault), "{written}");
        }
    }

    proptest! {
        #[test]
        fn normalising_twice_changes_nothing(path in "/[a-z%2Fe./]{0,24}") {
            if let Ok(once) = normalise(&path) {
                prop_assert_eq!(normalise(&once), Ok(once.clone()));
            }
        }
    }
}
