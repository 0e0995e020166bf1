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

/// What made a call be denied, where the words of the code alone would say something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There is no authority by which certificates could be verified.
    Unverifiable,
    /// The agent holds the capability, and is not trusted.
    Distrusted,
    /// The agent has as many calls under way as it may.
    TooManyAtOnce,
    /// The request tells no time that can be read, whoever signed it.
    Untimed,
    /// The signature is right, and was made too long ago, or is yet to be made.
    Stale,
    /// The signature is right, and came before.
    Replayed,
    /// The signature is right, and nobody can tell whether it came before: the gateway's memory does not reach back so far.
    Forgotten,
    /// More was signed lately than is remembered of one agent.
    Unremembered,
    /// Whether the signature came before is asked of others, who do not answer.
    Untold,
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
    /// What it was, where the code does not tell.
    pub cause: Option<Cause>,
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

impl Cause {
    /// Says it as the end of a sentence about a call.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unverifiable => "the gateway cannot verify client certificates at the moment",
            Self::Distrusted => "the agent is not trusted enough",
            Self::TooManyAtOnce => "the agent has too many calls under way at once",
            Self::Untimed => "the request has no X-A2A-Timestamp that can be read: RFC 3339, or Unix seconds",
            Self::Stale => "the request's timestamp is too old, or too far ahead",
            Self::Replayed => "the request was seen before",
            Self::Forgotten => "the request was signed before the gateway began to remember: sign it anew",
            Self::Unremembered => "the agent has signed more requests lately than are remembered",
            Self::Untold => "whether the request was seen before cannot be told at the moment",
        }
    }
}

impl Denial {
    /// Returns a denial of a call about which nothing is known.
    pub fn of(code: Code) -> Self {
        Self { code, agent: None, capability: None, retry_after: None, cause: None }
    }

    /// Returns whom and what a refusal is about, as far as they can be named.
    pub fn subject(agent: Option<&str>, capability: Option<&str>) -> String {
        let named = |name: Option<&str>| name.map_or("unknown".to_owned(), |it| format!("`{it}`"));
        format!("agent {}, capability {}", named(agent), named(capability))
    }

    /// Returns the same, with what made it.
    pub fn because(self, cause: Cause) -> Self {
        Self { cause: Some(cause), ..self }
    }
}

/// Says it in one sentence that names the agent and the capability.
impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = Self::subject(self.agent.as_deref(), self.capability.as_deref());
        let why = self.cause.map_or(CODES[self.code as usize].3, Cause::as_str);
        write!(f, "{subject}: {why}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_says_what_the_code_would_say_wrongly() {
        let denial = Denial { agent: Some("planner".to_owned()), ..Denial::of(Code::CapDenied) };
        let told = denial.clone().because(Cause::Distrusted).to_string();
        assert_eq!(told, "agent `planner`, capability unknown: the agent is not trusted enough");
        assert!(denial.to_string().ends_with("the agent lacks this capability"));
    }

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
