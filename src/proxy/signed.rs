//! Bodies that their caller has signed (AWS Signature Version 4, as Bedrock wants it): one leaves as it came, or not at
//! all. The gateway has no key to sign a changed one anew, and a broken signature would be refused where nobody sees why.

use http::header;
use pingora::proxy::Session;

use super::request::text_header;

const SCHEME: &str = "AWS4-";
/// The parameter of an address that is signed beforehand.
const PARAMETER: &str = "X-Amz-Signature";
const BODY_HASH: &str = "x-amz-content-sha256";
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

/// Tells whether a request's signature covers its body.
pub(super) fn covers_body(session: &Session) -> bool {
    let by_header =
        text_header(session, header::AUTHORIZATION).is_some_and(|value| value.starts_with(SCHEME));
    let query = session.req_header().uri.query().unwrap_or_default();
    let by_address = form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == PARAMETER);
    let hash = text_header(session, header::HeaderName::from_static(BODY_HASH));
    (by_header || by_address) && hash.is_none_or(|hash| !hash.ends_with(UNSIGNED))
}
