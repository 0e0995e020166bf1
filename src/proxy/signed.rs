//! What its caller has signed (AWS Signature Version 4, as Bedrock wants it). A signed body leaves as it came, or not at
//! all; a signed header as it came. Only routes that hold credentials sign a changed one anew ([`sigv4`](super::sigv4)); a broken signature would be refused where nobody sees why.

use http::header;
use pingora::http::RequestHeader;
use pingora::proxy::Session;

use super::request::text_header;

const SCHEME: &str = "AWS4-";
/// The parameter of an address that is signed beforehand.
const PARAMETER: &str = "X-Amz-Signature";
/// The parameter that lists what is signed of the head, in a header and in an address.
const SIGNED_HEADERS: &str = "SignedHeaders=";
const SIGNED_HEADERS_PARAMETER: &str = "X-Amz-SignedHeaders";
const BODY_HASH: &str = "x-amz-content-sha256";
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";
const LENGTH: &str = "content-length";

/// Fields of a request that tell of the bytes of its body, and would be wrong of others.
const OF_BODY: [&str; 4] = ["content-digest", "content-md5", "digest", "repr-digest"];

/// Tells whether a request's signature covers its body, or what its head tells of that: its length, a digest.
pub(super) fn covers_body(session: &Session) -> bool {
    let by_header =
        text_header(session, header::AUTHORIZATION).is_some_and(|value| value.starts_with(SCHEME));
    let query = session.req_header().uri.query().unwrap_or_default();
    let by_address = form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == PARAMETER);
    let hash = text_header(session, header::HeaderName::from_static(BODY_HASH));
    let is_unsigned = hash.is_some_and(|hash| hash.ends_with(UNSIGNED));
    let head = session.req_header();
    let is_told = || OF_BODY.iter().chain([&LENGTH]).any(|name| covers_header(head, name));
    (by_header || by_address) && (!is_unsigned || is_told())
}

/// Tells whether a request's head has a digest of its body.
pub(super) fn tells_digest(head: &RequestHeader) -> bool {
    OF_BODY.iter().any(|name| head.headers.contains_key(*name))
}

/// Takes the digests of a body out of a head: they are of another than what leaves.
pub(super) fn drop_digests(head: &mut RequestHeader) {
    for name in OF_BODY {
        head.remove_header(name);
    }
}

/// Tells whether a request's signature covers a header.
pub(super) fn covers_header(head: &RequestHeader, name: &str) -> bool {
    let lists = |list: &str| list.split(';').any(|signed| signed.trim().eq_ignore_ascii_case(name));
    let value = head.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let parameters = value.and_then(|value| value.strip_prefix(SCHEME)).unwrap_or_default();
    // The first comes behind the name of the algorithm.
    let mut words = parameters.split([',', ' ']);
    let query = head.uri.query().unwrap_or_default();
    words.any(|word| word.strip_prefix(SIGNED_HEADERS).is_some_and(lists))
        || form_urlencoded::parse(query.as_bytes())
            .any(|(name, list)| name == SIGNED_HEADERS_PARAMETER && lists(&list))
}
