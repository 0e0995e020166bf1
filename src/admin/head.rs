//! Which request heads are read at all: one meaning for us and for whoever comes after us.
//!
//! Pingora rejects much by itself; what it lets through but another parser might read differently is
//! refused here, on both planes (RFC 9112 §3.2, §5.1, §6.3; RFC 9110 §7.2, §9.3.8). Nothing is repaired.

use http::HeaderMap;
use http::HeaderName;
use http::Method;
use http::Uri;
use http::Version;
use http::header;
use http::request::Parts;

/// The largest request heads that are read.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Bytes of the whole head.
    pub bytes_max: usize,
    /// Header fields.
    pub fields_max: usize,
}

/// What a request says once: of two, one parser would take the first and another the last.
const SINGLE_FIELDS: [HeaderName; 3] =
    [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::AUTHORIZATION];

/// Why a request head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadFault {
    /// A line ends in LF alone, or a CR stands alone.
    #[error("the request head has a line that does not end in CR LF")]
    BareLineEnd,
    /// No Host, or more than one.
    #[error("the request needs exactly one Host")]
    HostCount,
    /// The Host is not `host[:port]`.
    #[error("the Host is not a host name or address with an optional port")]
    HostForm,
    /// A request target with a fragment, which no client sends.
    #[error("the request target has a fragment")]
    Target,
    /// The request target names another authority than Host.
    #[error("the request target and the Host differ")]
    HostMismatch,
    /// Content-Length with Transfer-Encoding.
    #[error("Content-Length and Transfer-Encoding exclude each other")]
    LengthAndCoding,
    /// A length that is repeated or not a plain decimal number.
    #[error("Content-Length is repeated or not a plain decimal number")]
    Length,
    /// A transfer coding other than one `chunked`.
    #[error("the only transfer coding accepted is chunked")]
    TransferCoding,
    /// A name with an underscore or a byte that is not a token.
    #[error("a header name has a character that other parsers read differently")]
    FieldName,
    /// A value with a control byte or a byte beyond ASCII.
    #[error("a header value has a control character or a byte beyond ASCII")]
    FieldValue,
    /// TRACE, CONNECT or a method nobody here speaks.
    #[error("the method is not accepted")]
    Method,
    /// A field that says how to read the body, or who calls, stands there twice.
    #[error("Content-Type, Content-Encoding or Authorization is repeated")]
    Repeated,
    /// An expectation other than 100-continue.
    #[error("the only expectation accepted is 100-continue")]
    Expectation,
    /// A WebSocket handshake that is none.
    #[error("the request is no WebSocket handshake")]
    Handshake,
    /// More bytes or fields than the limits allow.
    #[error("the request head is too large")]
    TooLarge,
}

/// Checks one request head; `raw` holds its bytes on HTTP/1. Whether the method is one of ours is asked last: who
/// knows which methods a path takes may tell that instead.
pub fn check(
    (method, uri, version, headers): (&Method, &Uri, Version, &HeaderMap),
    raw: Option<&[u8]>,
    limits: HeadLimits,
) -> Result<(), HeadFault> {
    check_size(headers, raw, limits)?;
    raw.map_or(Ok(()), check_raw)?;
    check_fields(headers)?;
    check_host(uri, version, headers)?;
    check_framing(version, headers)?;
    let expectation = headers.get(header::EXPECT).map(|value| value.as_bytes());
    match expectation {
        Some(value) if !value.eq_ignore_ascii_case(b"100-continue") => Err(HeadFault::Expectation),
        _ => check_method(method),
    }
}

/// Tells whether a method is one that is spoken here. Any other is a text of its caller's choice, as long as it likes.
pub fn is_known(method: &Method) -> bool {
    let known = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
    ];
    known.contains(method)
}

/// Tells whether a request asks for a WebSocket (RFC 6455 §4.1). Other upgrades are offers that may be
/// ignored (RFC 9110 §7.8), and are: some clients offer `h2c` with every request.
pub fn is_websocket(head: &Parts) -> bool {
    let asks = |name| {
        let values = head.headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|token| token.trim().eq_ignore_ascii_case("websocket"))
    };
    head.version == Version::HTTP_11 && asks(header::UPGRADE)
}

/// Checks what a WebSocket handshake has to be: anything else could carry a body that nobody reads.
pub fn check_websocket(head: &Parts) -> Result<(), HeadFault> {
    let carries = [header::CONTENT_LENGTH, header::TRANSFER_ENCODING];
    let is_bare = head.method == Method::GET && !carries.iter().any(|name| head.headers.contains_key(name));
    let is_keyed = head.headers.contains_key(header::SEC_WEBSOCKET_KEY);
    if is_bare && is_keyed { Ok(()) } else { Err(HeadFault::Handshake) }
}

fn check_size(headers: &HeaderMap, raw: Option<&[u8]>, limits: HeadLimits) -> Result<(), HeadFault> {
    let counted = || headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    let bytes: usize = raw.map_or_else(counted, <[u8]>::len);
    let fits = bytes <= limits.bytes_max && headers.len() <= limits.fields_max;
    if fits { Ok(()) } else { Err(HeadFault::TooLarge) }
}

fn check_method(method: &Method) -> Result<(), HeadFault> {
    if is_known(method) { Ok(()) } else { Err(HeadFault::Method) }
}

/// What only the bytes still tell: Pingora drops a Content-Length beside a Transfer-Encoding, and the
/// fragment of a target, before any hook sees the head.
fn check_raw(raw: &[u8]) -> Result<(), HeadFault> {
    check_lines(raw)?;
    let mut lines = raw.split(|byte| *byte == b'\n');
    if lines.next().is_some_and(|line| line.contains(&b'#')) {
        return Err(HeadFault::Target);
    }
    let (mut has_length, mut has_coding) = (false, false);
    for line in lines {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        has_length |= name.eq_ignore_ascii_case(b"content-length");
        has_coding |= name.eq_ignore_ascii_case(b"transfer-encoding");
    }
    if has_length && has_coding { Err(HeadFault::LengthAndCoding) } else { Ok(()) }
}

/// Every CR is followed by LF, every LF comes after CR, and no line continues the one before.
fn check_lines(raw: &[u8]) -> Result<(), HeadFault> {
    for at in memchr::memchr2_iter(b'\r', b'\n', raw) {
        let paired = match raw[at] {
            b'\r' => raw.get(at + 1) == Some(&b'\n'),
            _ => at > 0 && raw[at - 1] == b'\r' && !matches!(raw.get(at + 1), Some(b' ' | b'\t')),
        };
        if !paired {
            return Err(HeadFault::BareLineEnd);
        }
    }
    Ok(())
}

fn check_fields(headers: &HeaderMap) -> Result<(), HeadFault> {
    for (name, value) in headers {
        if name.as_str().contains('_') {
            return Err(HeadFault::FieldName);
        }
        if value.as_bytes().iter().any(|byte| !matches!(byte, b'\t' | b' '..=b'~')) {
            return Err(HeadFault::FieldValue);
        }
    }
    let is_repeated = |name: &HeaderName| headers.get_all(name).iter().nth(1).is_some();
    if SINGLE_FIELDS.iter().any(is_repeated) { Err(HeadFault::Repeated) } else { Ok(()) }
}

/// On HTTP/1.1 there is a Host even beside an absolute target (RFC 9112, section 3.2). HTTP/1.0 knows none: load
/// balancers still ask so for the health.
fn check_host(uri: &Uri, version: Version, headers: &HeaderMap) -> Result<(), HeadFault> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => Some(host.to_str().map_err(|_| HeadFault::HostForm)?),
        (None, None) => None,
        _ => return Err(HeadFault::HostCount),
    };
    let target = uri.authority().map(|authority| authority.as_str());
    match (host, target) {
        (None, None) if version == Version::HTTP_10 => Ok(()),
        (None, None) => Err(HeadFault::HostCount),
        (None, Some(_)) if version == Version::HTTP_11 => Err(HeadFault::HostCount),
        (Some(host), Some(target)) if !host.eq_ignore_ascii_case(target) => Err(HeadFault::HostMismatch),
        (Some(host), _) => check_authority(host),
        (None, Some(target)) => check_authority(target),
    }
}

fn check_authority(authority: &str) -> Result<(), HeadFault> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']').ok_or(HeadFault::HostForm)?;
            address.parse::<std::net::Ipv6Addr>().map_err(|_| HeadFault::HostForm)?;
            ("v6", port.strip_prefix(':').or_else(|| port.is_empty().then_some("0")))
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, Some("0")),
        },
    };
    let named =
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'));
    let numbered = port.is_some_and(|port| {
        (1..=5).contains(&port.len())
            && port.bytes().all(|b| b.is_ascii_digit())
            && port.parse::<u16>().is_ok()
    });
    if named && numbered { Ok(()) } else { Err(HeadFault::HostForm) }
}

fn check_framing(version: Version, headers: &HeaderMap) -> Result<(), HeadFault> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let coding = codings.next();
    if let Some(coding) = coding {
        let single = codings.next().is_none() && coding.as_bytes().eq_ignore_ascii_case(b"chunked");
        if !single || version != Version::HTTP_11 {
            return Err(HeadFault::TransferCoding);
        }
    }
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let Some(length) = lengths.next() else { return Ok(()) };
    if coding.is_some() {
        return Err(HeadFault::LengthAndCoding);
    }
    let digits = length.as_bytes();
    let plain = !digits.is_empty()
        && digits.len() <= 18
        && digits.iter().all(u8::is_ascii_digit)
        && (digits.len() == 1 || digits[0] != b'0');
    if plain && lengths.next().is_none() { Ok(()) } else { Err(HeadFault::Length) }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const LIMITS: HeadLimits = HeadLimits { bytes_max: 1000, fields_max: 8 };

    fn verdict(target: &str, fields: &[(&str, &str)]) -> Result<(), HeadFault> {
        verdict_of(Version::HTTP_11, target, fields)
    }

    fn verdict_of(version: Version, target: &str, fields: &[(&str, &str)]) -> Result<(), HeadFault> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        check((&Method::POST, &target.parse().unwrap(), version, &headers), None, LIMITS)
    }

    #[test]
    fn heads_with_one_meaning_pass() {
        for host in ["a", "api.example.com:443", "[::1]:8080", "127.0.0.1:1"] {
            assert_eq!(verdict("/v1", &[("host", host), ("content-length", "5")]), Ok(()), "{host}");
        }
        assert_eq!(verdict("http://a/v1", &[("host", "A")]), Ok(()));
        assert_eq!(verdict("/", &[("host", "a"), ("transfer-encoding", "Chunked")]), Ok(()));
        assert_eq!(verdict_of(Version::HTTP_10, "/", &[]), Ok(()));
    }

    #[test]
    fn heads_with_two_meanings_are_refused() {
        let host = ("host", "a");
        let cases: &[(&[(&str, &str)], HeadFault)] = &[
            (&[], HeadFault::HostCount),
            (&[host, host], HeadFault::HostCount),
            (&[("host", "a@b")], HeadFault::HostForm),
            (&[("host", "localhost:4000/#@x")], HeadFault::HostForm),
            (&[("host", "a:99999")], HeadFault::HostForm),
            (&[("host", "")], HeadFault::HostForm),
            (&[host, ("content-length", "5"), ("transfer-encoding", "chunked")], HeadFault::LengthAndCoding),
            (&[host, ("content-length", "5"), ("content-length", "5")], HeadFault::Length),
            (&[host, ("content-length", "05")], HeadFault::Length),
            (&[host, ("content-length", "+5")], HeadFault::Length),
            (&[host, ("content-length", "5, 5")], HeadFault::Length),
            (&[host, ("transfer-encoding", "gzip, chunked")], HeadFault::TransferCoding),
            (
                &[host, ("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")],
                HeadFault::TransferCoding,
            ),
            (&[host, ("content_length", "5")], HeadFault::FieldName),
            (&[host, ("x-a", "caf\u{e9}")], HeadFault::FieldValue),
            (
                &[host, ("content-type", "application/json"), ("content-type", "text/plain")],
                HeadFault::Repeated,
            ),
            (&[host, ("authorization", "Bearer a"), ("authorization", "Bearer b")], HeadFault::Repeated),
            (&[host, ("expect", "200-ok")], HeadFault::Expectation),
        ];
        for (fields, fault) in cases {
            assert_eq!(verdict("/", fields), Err(*fault), "{fields:?}");
        }
        assert_eq!(verdict("http://b/", &[host]), Err(HeadFault::HostMismatch));
        assert_eq!(verdict("http://b/", &[]), Err(HeadFault::HostCount));
        assert_eq!(verdict("/", &[host; 9]), Err(HeadFault::TooLarge));
    }

    #[test]
    fn what_pingora_drops_is_read_from_the_bytes() {
        let both = b"POST / HTTP/1.1\r\nContent-length: 5\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(check_raw(both), Err(HeadFault::LengthAndCoding));
        assert_eq!(check_raw(b"GET /a#b HTTP/1.1\r\n\r\n"), Err(HeadFault::Target));
        assert_eq!(check_raw(b"GET /a HTTP/1.1\r\nX-Colour: #fff\r\n\r\n"), Ok(()));
    }

    #[test]
    fn lines_end_in_cr_lf() {
        assert_eq!(check_lines(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), Ok(()));
        for raw in [&b"GET / HTTP/1.1\nHost: a\r\n\r\n"[..], b"GET /\r HTTP/1.1\r\n", b"A: b\r\n c\r\n\r\n"] {
            assert_eq!(check_lines(raw), Err(HeadFault::BareLineEnd));
        }
    }
}
