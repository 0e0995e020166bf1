//! `/api/v1/audit/stream`: audit entries as they are recorded, as server-sent events.
//!
//! Each stream reads the log from its own place, so that a client that comes back with `Last-Event-ID`
//! misses nothing and gets nothing twice. A comment every 15 seconds keeps the connection open; with it
//! the stream ends whose credential no longer counts, or for less than at its beginning. An open stream does not keep
//! its session alive.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::HeaderValue;
use http::Response;
use http::header;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::audit::show;
use crate::access::credential::Principal;
use crate::admin::Office;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::error::ApiError;
use crate::govern::audit::Entry;
use crate::govern::audit::Tail;
use crate::id::Ulid;

const HEARTBEAT: Duration = Duration::from_secs(15);
const BEGINNING: &str = "retry: 3000\n\n";
const COMMENT: &str = ": still here\n\n";
const LAST_EVENT_ID: &str = "last-event-id";

/// One open stream.
struct Subscription {
    office: Arc<Office>,
    principal: Option<Principal>,
    tail: Tail,
    next_beat: Instant,
    has_begun: bool,
    _permit: OwnedSemaphorePermit,
}

/// `GET /api/v1/audit/stream`.
pub async fn stream(call: Call) -> Answer {
    if !call.query.is_empty() {
        return Err(ApiError::Invalid("the stream takes no parameters".to_owned()));
    }
    let after = last_event_id(&call)?;
    let permit = call.office.streams.clone().try_acquire_owned().map_err(|_| ApiError::TooManyStreams)?;
    let tail = call.office.audit.tail(after).await.map_err(|_| ApiError::Unavailable)?;
    let subscription = Subscription {
        office: call.office,
        principal: call.principal,
        tail,
        next_beat: Instant::now() + HEARTBEAT,
        has_begun: false,
        _permit: permit,
    };
    let pieces = stream::unfold(subscription, |mut subscription| async move {
        let piece = subscription.next().await?;
        Some((Ok::<Bytes, Infallible>(piece), subscription))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

fn last_event_id(call: &Call) -> Result<Option<Ulid>, ApiError> {
    let Some(value) = call.headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let id = value.to_str().ok().and_then(|text| text.parse().ok());
    id.map(Some)
        .ok_or_else(|| ApiError::Invalid("Last-Event-ID: expected the id of an audit entry".to_owned()))
}

impl Subscription {
    /// Returns the next bytes; `None` ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        if !self.has_begun {
            self.has_begun = true;
            return Some(Bytes::from_static(BEGINNING.as_bytes()));
        }
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(self.next_beat) => {
                self.next_beat = Instant::now() + HEARTBEAT;
                self.still_counts().then(|| Bytes::from_static(COMMENT.as_bytes()))
            }
            entries = self.tail.next_batch() => {
                let entries = entries.inspect_err(|error| tracing::warn!(%error, "an audit stream broke off")).ok()?;
                Some(entries.iter().filter_map(|entry| event(entry, &self.office.facts.node_id)).collect::<String>().into())
            }
        }
    }

    fn still_counts(&self) -> bool {
        let Some(principal) = &self.principal else { return false };
        self.office.authenticator.still_counts(principal, self.office.clock.now())
    }
}

fn event(entry: &Entry, node: &str) -> Option<String> {
    // JSON has no line breaks of its own, so that one line of data holds it.
    let data = serde_json::to_string(&show(entry, node)).ok()?;
    Some(format!("event: audit\nid: {}\ndata: {data}\n\n", entry.id))
}
