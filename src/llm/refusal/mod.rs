//! Saying no in the shape that the caller's own SDK understands.
//!
//! Shapes and statuses were tried on the official SDKs: a stream that just stops reads as success, 409, 429 and 5xx
//! are sent again, and an error in a foreign shape loses its code.

mod body;
mod items;
mod stream;
mod track;

#[cfg(test)]
mod tests;

pub use self::track::StreamTrack;
use crate::llm::dialect::Wire;

/// The shape of an answer to a caller of whom nothing is known.
pub const DEFAULT_WIRE: Wire = Wire::Generic;
/// The `code` of content that a policy does not let through.
pub const CONTENT_BLOCKED: &str = "content_blocked";

/// Anthropic's own status for overload, in place of 503.
const ANTHROPIC_OVERLOADED: u16 = 529;

/// A refusal, ready to be written for any caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status, as everybody but Anthropic knows it.
    pub status: u16,
    /// The gateway's own name of the reason: `content_blocked` …
    pub code: &'static str,
    /// What the caller reads: no matched text.
    pub message: String,
    /// The exchange's identifier.
    pub request_id: String,
    /// The id of the JSON-RPC call that is refused, as it was written.
    pub call_id: Option<String>,
}

/// What the providers call a status.
struct Names {
    openai: &'static str,
    anthropic: &'static str,
    gemini: &'static str,
    /// The exception of an answer, and the one that ends a stream.
    amazon: &'static str,
    amazon_stream: &'static str,
}

impl Refusal {
    /// Returns the HTTP status of the answer in a provider's shape.
    pub fn status_for(&self, wire: Wire) -> u16 {
        match (self.status, wire) {
            (503, Wire::Anthropic) => ANTHROPIC_OVERLOADED,
            (status, _) => status,
        }
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

    /// Returns the message that tells on a socket why it ends, as the provider tells its errors there.
    pub fn socket_error(&self, wire: Wire) -> Vec<u8> {
        body::socket(self, wire).to_string().into_bytes()
    }

    fn names(&self) -> Names {
        let (amazon, amazon_stream) = match self.status {
            401 | 403 => ("AccessDeniedException", "validationException"),
            404 => ("ResourceNotFoundException", "validationException"),
            429 => ("ThrottlingException", "throttlingException"),
            503 => ("ServiceUnavailableException", "serviceUnavailableException"),
            504 => ("ModelTimeoutException", "modelTimeoutException"),
            0..=499 => ("ValidationException", "validationException"),
            _ => ("InternalServerException", "internalServerException"),
        };
        let names = |openai, anthropic, gemini| Names { openai, anthropic, gemini, amazon, amazon_stream };
        let (invalid, server) = ("invalid_request_error", "server_error");
        match self.status {
            401 => names("authentication_error", "authentication_error", "UNAUTHENTICATED"),
            403 if self.code == CONTENT_BLOCKED => names(invalid, "permission_error", "PERMISSION_DENIED"),
            403 => names("permission_error", "permission_error", "PERMISSION_DENIED"),
            404 => names(invalid, "not_found_error", "NOT_FOUND"),
            413 => names(invalid, "request_too_large", "INVALID_ARGUMENT"),
            429 => names("rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED"),
            502 => names(server, "api_error", "UNAVAILABLE"),
            503 => names(server, "overloaded_error", "UNAVAILABLE"),
            504 => names(server, "timeout_error", "DEADLINE_EXCEEDED"),
            0..=499 => names(invalid, invalid, "INVALID_ARGUMENT"),
            _ => names(server, "api_error", "INTERNAL"),
        }
    }
}
