//! The fourteen ways in which an agent's call is denied (interface, section 7).

use std::fmt;
use std::time::Duration;

/// Why a call is denied, as the contract names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// The client certificate does not count, or is not the agent's.
    AuthFailed,
    /// No client certificate was presented.
    AuthNoCert,
    /// The client certificate has no Common Name.
    AuthMissingCn,
    /// A paid capability was asked for without a licence.
    LicenseMissing,
    /// The licence does not count, or is for a smaller tier or another agent.
    LicenseInvalid,
    /// The agent asks too often.
    RateLimited,
    /// The body is not signed.
    IntegrityMissing,
    /// The signature is not of this body.
    IntegrityInvalid,
    /// The signature is no HMAC-SHA256 in base64.
    IntegrityMalformed,
    /// No capability is named.
    CapMissing,
    /// The agent lacks the capability.
    CapDenied,
    /// No such agent is registered.
    CapUnknownAgent,
    /// There is no capability map to look in.
    CapCheckFailed,
    /// A defect of the gateway.
    InternalError,
}

/// A denied call: the code, and whom and what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Why.
    pub code: Code,
    /// The agent, as far as it can be named.
    pub agent: Option<String>,
    /// The capability, as far as it can be named.
    pub capability: Option<String>,
    /// When to come back, for who came too often.
    pub retry_after: Option<Duration>,
}

/// Every code with its name, its status and its words.
const CODES: [(Code, &str, u16, &str); 14] = [
    (Code::AuthFailed, "A2A_AUTH_FAILED", 403, "the client certificate does not authenticate this agent"),
    (Code::AuthNoCert, "A2A_AUTH_NO_CERT", 403, "no client certificate was presented"),
    (Code::AuthMissingCn, "A2A_AUTH_MISSING_CN", 403, "the client certificate has no Common Name"),
    (Code::LicenseMissing, "A2A_LICENSE_MISSING", 403, "the capability needs a licence key"),
    (
        Code::LicenseInvalid,
        "A2A_LICENSE_INVALID",
        403,
        "the licence key is invalid, expired, or of another tier or agent",
    ),
    (Code::RateLimited, "A2A_RATE_LIMITED", 429, "the agent exceeds its rate limit"),
    (Code::IntegrityMissing, "A2A_INTEGRITY_MISSING", 403, "the request body is not signed"),
    (Code::IntegrityInvalid, "A2A_INTEGRITY_INVALID", 403, "the signature does not match the request body"),
    (Code::IntegrityMalformed, "A2A_INTEGRITY_MALFORMED", 403, "the signature is no HMAC-SHA256 in base64"),
    (Code::CapMissing, "A2A_CAP_MISSING", 403, "the request names no capability"),
    (Code::CapDenied, "A2A_CAP_DENIED", 403, "the agent lacks this capability"),
    (Code::CapUnknownAgent, "A2A_CAP_UNKNOWN_AGENT", 403, "the agent is not registered"),
    (Code::CapCheckFailed, "A2A_CAP_CHECK_FAILED", 500, "capabilities cannot be looked up at the moment"),
    (Code::InternalError, "A2A_INTERNAL_ERROR", 500, "the gateway failed"),
];

impl Code {
    /// Every code.
    pub const ALL: [Self; 14] = {
        let mut all = [Self::AuthFailed; 14];
        let mut at = 0;
        while at < CODES.len() {
            all[at] = CODES[at].0;
            at += 1;
        }
        all
    };

    /// Returns the name used in answers.
    pub fn as_str(self) -> &'static str {
        CODES[self as usize].1
    }

    /// Returns the HTTP status it is answered with.
    pub fn status(self) -> u16 {
        CODES[self as usize].2
    }

    /// Tells whether the gateway is at fault, not the agent.
    pub fn is_ours(self) -> bool {
        self.status() >= 500
    }
}

impl Denial {
    /// Returns a denial of a call about which nothing is known.
    pub fn of(code: Code) -> Self {
        Self { code, agent: None, capability: None, retry_after: None }
    }
}

/// Says it in one sentence that names the agent and the capability.
impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named =
            |name: &Option<String>| name.as_deref().map_or("unknown".to_owned(), |it| format!("`{it}`"));
        let (agent, capability) = (named(&self.agent), named(&self.capability));
        write!(f, "agent {agent}, capability {capability}: {}", CODES[self.code as usize].3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_stands_in_its_own_row() {
        for (at, (code, name, status, _)) in CODES.into_iter().enumerate() {
            assert_eq!(code as usize, at, "{name}");
            assert_eq!((code.as_str(), code.status()), (name, status));
        }
        let ours: Vec<&str> = Code::ALL.into_iter().filter(|it| it.is_ours()).map(Code::as_str).collect();
        assert_eq!(ours, ["A2A_CAP_CHECK_FAILED", "A2A_INTERNAL_ERROR"]);
        assert_eq!(Code::RateLimited.status(), 429);
    }
}
