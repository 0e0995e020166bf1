//! Answers on connections of which no request was read: bytes, with the head that every answer has.
//!
//! Nothing is known yet of who asks for what. So the body has no provider's shape, the quota that is told is that of the
//! address, of which nothing is taken, and the request's id is a new one.

use std::net::IpAddr;
use std::sync::Arc;

use crate::access::license::Licensing;
use crate::access::limit::Buckets;
use crate::access::place;
use crate::clock::Clock;
use crate::id::UlidSource;

/// Why a connection is turned away.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bare {
    /// There are too many.
    Overloaded,
    /// The head of a request does not come.
    Late,
}

/// What such answers say of quotas, and are named by.
pub struct BareAnswers {
    buckets: Arc<Buckets>,
    licensing: Arc<Licensing>,
    clock: Arc<dyn Clock>,
    ids: UlidSource,
}

impl Bare {
    /// Returns the status, what else the head says of it, and the body.
    fn parts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Overloaded => (
                "503 Service Unavailable",
                "Retry-After: 1\r\n",
                r#"{"error":{"code":"overloaded","message":"too many connections"}}"#,
            ),
            Self::Late => (
                "408 Request Timeout",
                "",
                r#"{"error":{"code":"request_timeout","message":"the request head took too long"}}"#,
            ),
        }
    }
}

impl BareAnswers {
    /// Returns answers that tell of these quotas, by the tier of the deployment.
    pub fn new(buckets: Arc<Buckets>, licensing: Arc<Licensing>, clock: Arc<dyn Clock>) -> Self {
        Self { buckets, licensing, clock, ids: UlidSource::default() }
    }

    /// Returns the bytes of an answer to whoever is at an address.
    pub(super) fn write(&self, why: Bare, address: Option<IpAddr>) -> Vec<u8> {
        let now = self.clock.now();
        let limit = self.buckets.peek(&place::stranger(address), self.licensing.tier(now), now);
        let (status, more, body) = why.parts();
        format!(
            "HTTP/1.1 {status}\r\n{more}Content-Type: application/json\r\nContent-Length: {length}\r\n\
             Connection: close\r\nX-Request-Id: {id}\r\nX-RateLimit-Limit: {most}\r\n\
             X-RateLimit-Remaining: {left}\r\nX-RateLimit-Reset: {reset}\r\n\r\n{body}",
            length = body.len(),
            id = self.ids.next(now.as_millisecond()),
            most = limit.limit,
            left = limit.remaining,
            reset = limit.reset_unix,
        )
        .into_bytes()
    }
}
