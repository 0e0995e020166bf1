//! Saying no in the shape that the caller's own SDK understands.
//!
//! Shapes and statuses were tried on the official SDKs: a stream that just stops reads as success, 409, 429 and 5xx
//! are sent again, and an error in a foreign shape loses its code.

mod body;
mod stream;
mod track;

#[cfg(test)]
mod tests;

pub use self::track::StreamTrack;
use crate::llm::dialect::Wire;

/// Why an exchange is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefusalReason {
    /// The policy does not let the content through.
    ContentBlocked,
    /// The body cannot be read without doubt.
    Unreadable,
    /// The caller is not known.
    Unauthorized,
    /// The caller may not do this.
    Forbidden,
    /// No route leads there.
    NotFound,
    /// The body is larger than what is inspected.
    TooLarge,
    /// The body is in a format or encoding that cannot be read.
    UnsupportedMedia,
    /// The caller asks too often.
    RateLimited,
    /// The gateway failed.
    Internal,
    /// The provider failed, or cannot be reached.
    BadGateway,
    /// The gateway cannot serve now.
    Unavailable,
    /// The provider takes too long.
    GatewayTimeout,
}

/// A refusal, ready to be written for any caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: RefusalReason,
    /// What the caller reads: no matched text.
    pub message: String,
    /// The exchange's identifier.
    pub request_id: String,
}

/// What one reason is called by everybody.
struct Names {
    status: u16,
    code: &'static str,
    openai: &'static str,
    anthropic: &'static str,
    gemini: &'static str,
}

impl RefusalReason {
    /// Every reason.
    pub const ALL: [Self; 12] = [
        Self::ContentBlocked,
        Self::Unreadable,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::TooLarge,
        Self::UnsupportedMedia,
        Self::RateLimited,
        Self::Internal,
        Self::BadGateway,
        Self::Unavailable,
        Self::GatewayTimeout,
    ];

    /// Returns the reason's own name, the `code` of bodies that have one.
    pub fn code(self) -> &'static str {
        self.names().code
    }

    /// Returns the HTTP status; Anthropic has its own for overload.
    pub fn status(self, wire: Wire) -> u16 {
        match (self, wire) {
            (Self::Unavailable, Wire::Anthropic) => 529,
            _ => self.names().status,
        }
    }

    fn names(self) -> Names {
        let names = |status, code, openai, anthropic, gemini| Names { status, code, openai, anthropic, gemini };
        let (invalid, server) = ("invalid_request_error", "server_error");
        match self {
            Self::ContentBlocked => names(403, "content_blocked", invalid, "permission_error", "PERMISSION_DENIED"),
            Self::Unreadable => names(400, "unreadable_body", invalid, invalid, "INVALID_ARGUMENT"),
            Self::Unauthorized => {
                names(401, "invalid_api_key", "authentication_error", "authentication_error", "UNAUTHENTICATED")
            }
            Self::Forbidden => names(403, "forbidden", "permission_error", "permission_error", "PERMISSION_DENIED"),
            Self::NotFound => names(404, "not_found", invalid, "not_found_error", "NOT_FOUND"),
            Self::TooLarge => names(413, "request_too_large", invalid, "request_too_large", "INVALID_ARGUMENT"),
            Self::UnsupportedMedia => names(415, "unsupported_media_type", invalid, invalid, "INVALID_ARGUMENT"),
            Self::RateLimited => {
                names(429, "rate_limit_exceeded", "rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED")
            }
            Self::Internal => names(500, "internal_error", server, "api_error", "INTERNAL"),
            Self::BadGateway => names(502, "upstream_error", server, "api_error", "UNAVAILABLE"),
            Self::Unavailable => names(503, "unavailable", server, "overloaded_error", "UNAVAILABLE"),
            Self::GatewayTimeout => names(504, "upstream_timeout", server, "timeout_error", "DEADLINE_EXCEEDED"),
        }
    }
}

impl Refusal {
    /// Returns the HTTP status of the answer.
    pub fn status(&self, wire: Wire) -> u16 {
        self.reason.status(wire)
    }

    /// Returns the error body, JSON in the provider's shape.
    pub fn error_body(&self, wire: Wire) -> Vec<u8> {
        body::error(self, wire).to_string().into_bytes()
    }

    /// Returns the body of a whole answer that refuses as the model itself would, in place of one that is blocked.
    ///
    /// `track` has read the blocked body: the answer keeps its id and model.
    pub fn graceful_body(&self, wire: Wire, track: &StreamTrack) -> Vec<u8> {
        body::graceful(self, wire, track).to_string().into_bytes()
    }

    /// Returns what ends a stream so that the caller's SDK raises an error.
    pub fn stream_error(&self, wire: Wire, track: &StreamTrack) -> Vec<u8> {
        stream::error(self, wire, track)
    }

    /// Returns what ends a stream as the model itself would end it on a refusal, without an error.
    pub fn stream_graceful(&self, wire: Wire, track: &StreamTrack) -> Vec<u8> {
        stream::graceful(self, wire, track)
    }
}
