//! What a request's headers say about the agent behind it. Nothing of it is believed yet.

use http::HeaderMap;
use jiff::Timestamp;

use super::map::NAME_BYTES_MAX;
use crate::access::jose::TOKEN_BYTES_MAX;

/// Names the agent; must be the Common Name of its certificate.
pub const AGENT_ID: &str = "x-a2a-agent-id";
/// Names the capability that is asked for.
pub const CAPABILITY: &str = "a2a-capability";
/// The HMAC-SHA256 of the body, in base64.
pub const SIGNATURE: &str = "a2a-signature";
/// The licence for paid capabilities.
pub const LICENSE: &str = "x-a2a-license-key";
/// When the request was made: Unix seconds, or a moment of RFC 3339.
pub const TIMESTAMP: &str = "x-a2a-timestamp";

/// An HMAC-SHA256 in base64 has 44 bytes.
const SIGNATURE_BYTES_MAX: usize = 128;
const TIMESTAMP_BYTES_MAX: usize = 64;

/// One header: there are two ways in which it tells nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is not there, or empty.
    Absent,
    /// It is repeated, too long, or no visible ASCII: whatever it says, it does not count.
    Unusable,
    /// It says this.
    Given(String),
}

/// What a request claims.
#[derive(Clone, PartialEq, Eq)]
pub struct Claims {
    /// Who asks.
    pub agent: Claim,
    /// For what.
    pub capability: Claim,
    /// With which licence.
    pub license: Claim,
    /// Signed how.
    pub signature: Claim,
    /// When.
    pub timestamp: Claim,
}

impl Claim {
    /// Reads one header.
    fn of(headers: &HeaderMap, name: &str, bytes_max: usize) -> Self {
        let mut values = headers.get_all(name).iter();
        let text = match (values.next(), values.next()) {
            (None, _) => return Self::Absent,
            (Some(value), None) => value.as_bytes().trim_ascii(),
            (Some(_), Some(_)) => return Self::Unusable,
        };
        let is_sane = text.len() <= bytes_max && text.iter().all(u8::is_ascii_graphic);
        match std::str::from_utf8(text) {
            Ok("") => Self::Absent,
            Ok(text) if is_sane => Self::Given(text.to_owned()),
            _ => Self::Unusable,
        }
    }

    /// Returns what is said, where it counts.
    pub fn given(&self) -> Option<&str> {
        match self {
            Self::Given(text) => Some(text),
            Self::Absent | Self::Unusable => None,
        }
    }
}

impl Claims {
    /// Reads the headers.
    pub fn of_headers(headers: &HeaderMap) -> Self {
        let claim = |name, bytes_max| Claim::of(headers, name, bytes_max);
        Self {
            agent: claim(AGENT_ID, NAME_BYTES_MAX),
            capability: claim(CAPABILITY, NAME_BYTES_MAX),
            license: claim(LICENSE, TOKEN_BYTES_MAX),
            signature: claim(SIGNATURE, SIGNATURE_BYTES_MAX),
            timestamp: claim(TIMESTAMP, TIMESTAMP_BYTES_MAX),
        }
    }
}

/// Shows neither signature nor licence.
impl std::fmt::Debug for Claims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (agent, capability) = (&self.agent, &self.capability);
        f.debug_struct("Claims").field("agent", agent).field("capability", capability).finish_non_exhaustive()
    }
}

/// Reads the time of a request.
pub fn moment(text: &str) -> Option<Timestamp> {
    match text.parse::<i64>() {
        Ok(seconds) => Timestamp::from_second(seconds).ok(),
        Err(_) => text.parse().ok(),
    }
}

/// Tells whether a header is one of those in which only the gateway speaks of agents and decisions.
///
/// `X-A2A-Extensions` belongs to the A2A protocol itself and is nobody's word about identity.
pub fn is_reserved(name: &str) -> bool {
    let of_agents = name.starts_with("x-a2a-") && name != "x-a2a-extensions";
    of_agents || name == CAPABILITY || name == SIGNATURE || name.starts_with("x-portcullis-")
}

#[cfg(test)]
mod tests {
    use http::HeaderName;
    use http::HeaderValue;

    use super::*;

    fn claim(values: &[&str]) -> Claim {
        let mut headers = HeaderMap::new();
        for value in values {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            headers.append(HeaderName::from_static(AGENT_ID), value);
        }
        Claims::of_headers(&headers).agent
    }

    #[test]
    fn a_header_counts_once_and_whole() {
        assert_eq!(claim(&[]), Claim::Absent);
        assert_eq!(claim(&["  "]), Claim::Absent);
        assert_eq!(claim(&[" planner "]), Claim::Given("planner".to_owned()));
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        let unusable: [&[&str]; 6] = [
            &["planner", "planner"],
            &["", "planner"],
            &["planner", ""],
            &["plan ner"],
            &["pl\u{430}nner"],
            &[&long],
        ];
        for values in unusable {
            assert_eq!(claim(values), Claim::Unusable, "{values:?}");
        }
    }

    #[test]
    fn what_only_the_gateway_says_is_known_by_its_name() {
        for name in
            ["x-a2a-agent-id", "x-a2a-anything", "a2a-capability", "a2a-signature", "x-portcullis-action"]
        {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["x-a2a-extensions", "a2a-version", "a2a-extensions", "x-request-id"] {
            assert!(!is_reserved(name), "{name}");
        }
    }

    #[test]
    fn a_moment_is_seconds_or_rfc_3339() {
        assert_eq!(moment("1700000000"), moment("2023-11-14T22:13:20Z"));
        assert!(moment("1700000000").is_some());
        for wrong in ["yesterday", "", "99999999999999999", "2023-11-14"] {
            assert_eq!(moment(wrong), None, "{wrong}");
        }
    }
}
