//! Signs what is forwarded by AWS Signature Version 4, on routes that hold credentials of AWS.
//!
//! In: the head as it is about to leave, addressed, with its body; the route's credentials; the time. Out: the same head
//! with a signature over method, path, query, host, what tells of the content, and the body's hash. It is made anew for
//! every request, after everything that may change one: no signature of a caller's is ever kept beside it.
//!
//! Source: "Create a signed AWS API request" in AWS's IAM user guide; the tests hold AWS's own vectors.

use hmac::Hmac;
use hmac::KeyInit;
use hmac::Mac;
use http::HeaderName;
use http::HeaderValue;
use http::header;
use jiff::Timestamp;
use percent_encoding::AsciiSet;
use percent_encoding::NON_ALPHANUMERIC;
use percent_encoding::percent_decode_str;
use percent_encoding::percent_encode;
use pingora::http::RequestHeader;
use sha2::Digest;
use sha2::Sha256;

use crate::policy::route::AwsScope;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const DATE: &str = "x-amz-date";
const BODY_HASH: &str = "x-amz-content-sha256";
const SESSION_TOKEN: &str = "x-amz-security-token";
/// Headers that are signed beside `host` and `content-type`, by the begin of their names. `x-amzn-` ones are not: AWS
/// itself writes those anew on the way.
const SIGNED_BEGIN: &str = "x-amz-";
/// What a query has escaped: all but letters, digits and four signs (RFC 3986, section 2.3).
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The begin of the query parameters that are a signature, of which one would stand beside ours.
const SIGNATURE_PARAMETERS: &str = "x-amz-";
/// What a path keeps unescaped.
const UNRESERVED: &[u8] = b"-._~/";

/// The credentials of a route, the scope of what they sign, and when.
pub struct Signer {
    access_key_id: String,
    secret: String,
    session_token: Option<HeaderValue>,
    scope: AwsScope,
    now: Timestamp,
}

/// Never shows the secret or the token.
impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl Signer {
    /// Reads credentials, `ACCESS_KEY_ID:SECRET` or `ACCESS_KEY_ID:SECRET:SESSION_TOKEN`; `None` where that is something
    /// else.
    pub fn read(credentials: &HeaderValue, scope: &AwsScope, now: Timestamp) -> Option<Self> {
        let mut parts = credentials.to_str().ok()?.splitn(3, ':');
        let (access_key_id, secret) = (parts.next()?, parts.next()?);
        let session_token = parts.next().map(HeaderValue::from_str).transpose().ok()?;
        let is_id = !access_key_id.is_empty() && access_key_id.bytes().all(|it| it.is_ascii_alphanumeric());
        let has_all = is_id && !secret.is_empty() && session_token.as_ref().is_none_or(|it| !it.is_empty());
        has_all.then(|| Self {
            access_key_id: access_key_id.to_owned(),
            secret: secret.to_owned(),
            session_token: session_token.map(sensitive),
            scope: scope.clone(),
            now,
        })
    }

    /// Signs a request to `authority`.
    ///
    /// # Errors
    /// Fails where a header cannot be written, which none of those is.
    pub fn sign(&self, head: &mut RequestHeader, authority: &str, body: &[u8]) -> pingora::Result<()> {
        unsign_query(head)?;
        let hash = hex(&Sha256::digest(body));
        let at = self.now.strftime("%Y%m%dT%H%M%SZ").to_string();
        head.insert_header(DATE, &at)?;
        head.insert_header(BODY_HASH, &hash)?;
        head.remove_header(SESSION_TOKEN);
        if let Some(token) = &self.session_token {
            head.insert_header(SESSION_TOKEN, token.clone())?;
        }
        let headers = signed_headers(head, authority);
        let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
        let names = names.join(";");
        let request = canonical(head, &headers, &names, &hash);
        let scope = self.scope_of(&at);
        let signature = self.signature(&at, &scope, &request);
        let credential = format!("{}/{scope}", self.access_key_id);
        let value =
            format!("{ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}");
        let value =
            HeaderValue::try_from(value).map_err(|_| pingora::Error::new(pingora::InvalidHTTPHeader))?;
        head.insert_header(header::AUTHORIZATION, sensitive(value))
    }

    fn scope_of(&self, at: &str) -> String {
        let AwsScope { region, service } = &self.scope;
        format!("{}/{region}/{service}/aws4_request", at.get(..8).unwrap_or_default())
    }

    fn signature(&self, at: &str, scope: &str, request: &str) -> String {
        let text = format!("{ALGORITHM}\n{at}\n{scope}\n{}", hex(&Sha256::digest(request)));
        let first = format!("AWS4{}", self.secret).into_bytes();
        let key = scope.split('/').fold(first, |key, part| keyed(&key, part.as_bytes()));
        hex(&keyed(&key, text.as_bytes()))
    }
}

/// Takes a caller's signature out of the query.
fn unsign_query(head: &mut RequestHeader) -> pingora::Result<()> {
    let is_signature = |pair: &str| {
        let name = pair.split('=').next().unwrap_or_default();
        percent_decode_str(name)
            .collect::<Vec<u8>>()
            .to_ascii_lowercase()
            .starts_with(SIGNATURE_PARAMETERS.as_bytes())
    };
    let query = head.uri.query().unwrap_or_default();
    if !query.split('&').any(is_signature) {
        return Ok(());
    }
    let rest: Vec<&str> = query.split('&').filter(|pair| !is_signature(pair)).collect();
    let (path, rest) = (head.uri.path(), rest.join("&"));
    let target = if rest.is_empty() { path.to_owned() } else { format!("{path}?{rest}") };
    head.set_raw_path(target.as_bytes())
}

/// Returns the headers to sign, in the order of their names, each with its values in one line.
fn signed_headers(head: &RequestHeader, authority: &str) -> Vec<(String, String)> {
    let is_signed =
        |name: &&HeaderName| **name == header::CONTENT_TYPE || name.as_str().starts_with(SIGNED_BEGIN);
    let line = |name: &HeaderName| {
        let values = head.headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
        let values: Vec<String> =
            values.map(|value| value.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        (name.as_str().to_owned(), values.join(","))
    };
    let mut headers: Vec<(String, String)> = head.headers.keys().filter(is_signed).map(line).collect();
    headers.push((header::HOST.as_str().to_owned(), authority.to_owned()));
    headers.sort();
    headers
}

/// Writes a request as it is signed.
fn canonical(head: &RequestHeader, headers: &[(String, String)], names: &str, hash: &str) -> String {
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let path = escaped(head.uri.path());
    let query = canonical_query(head.uri.query().unwrap_or_default());
    format!("{}\n{path}\n{query}\n{lines}\n{names}\n{hash}", head.method)
}

/// Escapes a path once more, as it is written: all services but S3 want that.
fn escaped(path: &str) -> String {
    let write = |byte: u8| match byte.is_ascii_alphanumeric() || UNRESERVED.contains(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    path.bytes().map(write).collect()
}

/// Sorts the parameters of a query, each escaped in the one way that AWS compares, however it was written.
fn canonical_query(query: &str) -> String {
    let written = |text: &str| {
        let bytes: Vec<u8> = percent_decode_str(text).collect();
        percent_encode(&bytes, QUERY).to_string()
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut pairs: Vec<(String, String)> =
        pairs.map(|(name, value)| (written(name), written(value))).collect();
    pairs.sort_unstable();
    let pairs: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}

fn keyed(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.chain_update(text).finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sensitive(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The credentials and the scope of AWS's own test suite.
    fn signer(service: &str) -> Signer {
        let credentials = HeaderValue::from_static("AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
        let scope = AwsScope { region: "us-east-1".to_owned(), service: service.to_owned() };
        Signer::read(&credentials, &scope, "2015-08-30T12:36:00Z".parse().unwrap()).expect("credentials")
    }

    #[test]
    fn aws_own_vectors_are_signed_as_they_say() {
        let date = "20150830T123600Z";
        let form = ("content-type", "application/x-www-form-urlencoded");
        type Case<'a> = (&'a str, &'a str, Option<(&'a str, &'a str)>, &'a str, &'a str);
        let cases: [Case<'_>; 4] = [
            ("GET", "/", None, "", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            (
                "GET",
                "/?Param2=value2&Param1=value1",
                None,
                "",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            ("POST", "/", None, "", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
            (
                "POST",
                "/",
                Some(form),
                "Param1=value1",
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
        ];
        for (method, path, more, body, expected) in cases {
            let mut head = RequestHeader::build(method, path.as_bytes(), None).unwrap();
            head.insert_header(DATE, date).unwrap();
            if let Some((name, value)) = more {
                head.insert_header(name.to_owned(), value).unwrap();
            }
            let headers = signed_headers(&head, "example.amazonaws.com");
            let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
            let request = canonical(&head, &headers, &names.join(";"), &hex(&Sha256::digest(body)));
            let signer = signer("service");
            assert_eq!(signer.signature(date, &signer.scope_of(date), &request), expected, "{method} {path}");
        }
    }

    #[test]
    fn a_signature_covers_what_leaves_and_takes_the_place_of_others() {
        let mut head = RequestHeader::build("POST", b"/model/a%3A0/converse", None).unwrap();
        for (name, value) in [
            ("x-amz-date", "old"),
            ("x-amz-security-token", "theirs"),
            ("authorization", "AWS4-HMAC-SHA256 theirs"),
        ] {
            head.insert_header(name, value).unwrap();
        }
        signer("bedrock").sign(&mut head, "bedrock-runtime.us-east-1.amazonaws.com", b"{}").unwrap();
        let value = head.headers.get("authorization").unwrap().to_str().unwrap();
        assert!(value.contains("SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature="), "{value}");
        assert!(!head.headers.contains_key("x-amz-security-token"));
        assert_eq!(head.headers.get_all("authorization").iter().count(), 1);
        assert_eq!(escaped(head.uri.path()), "/model/a%253A0/converse");
    }

    #[test]
    fn a_query_is_signed_in_the_one_way_it_is_compared_and_keeps_no_signature_of_the_caller() {
        for (query, expected) in [
            ("b=2&a=1", "a=1&b=2"),
            ("arn=a:b%3ac,d&flag", "arn=a%3Ab%3Ac%2Cd&flag="),
            ("a=x+y%20z~", "a=x%2By%20z~"),
        ] {
            assert_eq!(canonical_query(query), expected, "{query}");
        }
        let path = b"/model/m/invoke?a=1&X-Amz-Signature=00&x-amz-credential=k%2F1&b=2";
        let mut head = RequestHeader::build("POST", path, None).unwrap();
        head.insert_header("x-amzn-trace-id", "Root=1-0").unwrap();
        signer("bedrock").sign(&mut head, "bedrock-runtime.us-east-1.amazonaws.com", b"{}").unwrap();
        assert_eq!(head.uri.query(), Some("a=1&b=2"));
        let signed = head.headers.get("authorization").unwrap().to_str().unwrap();
        assert!(!signed.contains("x-amzn-trace-id"), "{signed}");
        let mut head = RequestHeader::build("POST", b"/m?X-Amz-Signature=00", None).unwrap();
        signer("bedrock").sign(&mut head, "bedrock-runtime.us-east-1.amazonaws.com", b"{}").unwrap();
        assert_eq!((head.uri.path(), head.uri.query()), ("/m", None));
    }

    #[test]
    fn only_credentials_are_read_as_such_and_nothing_shows_them() {
        let scope = AwsScope { region: "r".to_owned(), service: "s".to_owned() };
        let read =
            |text: &str| Signer::read(&HeaderValue::from_str(text).unwrap(), &scope, Timestamp::UNIX_EPOCH);
        for text in ["", "AKID", "AKID:", ":secret", "AKID:secret:", "AK/ID:secret"] {
            assert!(read(text).is_none(), "{text}");
        }
        let shown = format!("{:?}", read("AKID:se/cret:to:ken").expect("credentials"));
        assert!(!shown.contains("cret") && !shown.contains("ken"), "{shown}");
    }
}
