//! `/api/v1/audit/stream`: audit entries as they are recorded, as server-sent events.
//!
//! Each stream reads the log from its own place, so that a client that comes back with `Last-Event-ID`
//! misses nothing and gets nothing twice. Where several nodes share a database, each streams the entries of all: its own,
//! which it names in `X-Portcullis-Node`, as they are recorded, and those of the others as they are shipped, a moment later;
//! `?node=` asks for those of one. An event's id begins with that of its entry and tells how far the client has heard each
//! node, so that it may come back to any of them; an entry's id alone stands for all that was recorded up to it. While the
//! database is away a node goes on with its own entries, and those of the others follow once it is back. A comment every 15 seconds keeps the connection open; with it
//! the stream ends whose credential no longer counts, or for less than at its beginning. An open stream does not keep
//! its session alive.
//!
//! A stream begins with the id of its place, without an event: who loses it before the first entry comes back to that place,
//! too, as `EventSource` does by itself.
//!
//! What this node's retention has dropped before a client had it is not passed over in silence: `event: gap`, without an
//! id, says after and before which of its entries some are missing: `{"after": …, "before": …}`.

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

use super::audit::Asked;
use super::audit::is_of_another;
use super::audit::show;
use crate::access::concurrency::Seat;
use crate::access::credential::Principal;
use crate::admin::Office;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::error::ApiError;
use crate::govern::audit::Entry;
use crate::govern::audit::Following;
use crate::govern::audit::Gap;
use crate::govern::audit::Query;
use crate::govern::audit::Seen;

const HEARTBEAT: Duration = Duration::from_secs(15);
const RETRY_MS: u32 = 3000;
const COMMENT: &str = ": still here\n\n";
const LAST_EVENT_ID: &str = "last-event-id";
const NODE: &str = "x-portcullis-node";

/// One open stream.
struct Subscription {
    office: Arc<Office>,
    principal: Option<Principal>,
    following: Following,
    query: Query,
    next_beat: Instant,
    has_begun: bool,
    _permit: OwnedSemaphorePermit,
    _seat: Seat,
}

/// `GET /api/v1/audit/stream`.
pub async fn stream(call: Call) -> Answer {
    let query = call.query::<Asked>()?.read_stream(&call.office)?;
    let node = &call.office.facts.node_id;
    if is_of_another(&call.office, &query) {
        return Err(ApiError::Invalid(format!("node: there is none but this one, {node}")));
    }
    let node = HeaderValue::from_str(node).map_err(|_| ApiError::Internal)?;
    let seen = last_event_id(&call)?;
    let seat = seat(&call)?;
    let permit = call.office.streams.clone().try_acquire_owned().map_err(|_| ApiError::TooManyStreams)?;
    let following = call.office.audit.follow(seen, query.node.clone()).await;
    let following = following.map_err(|_| ApiError::Unavailable)?;
    let subscription = Subscription {
        office: call.office,
        principal: call.principal,
        following,
        query,
        next_beat: Instant::now() + HEARTBEAT,
        has_begun: false,
        _permit: permit,
        _seat: seat,
    };
    let pieces = stream::unfold(subscription, |mut subscription| async move {
        let piece = subscription.next().await?;
        Some((Ok::<Bytes, Infallible>(piece), subscription))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(NODE, node);
    Ok(response)
}

/// Returns a seat among the open streams of a credential, so that nobody takes those of all.
fn seat(call: &Call) -> Result<Seat, ApiError> {
    let principal = call.principal.as_ref().ok_or(ApiError::Unauthenticated)?;
    let name = format!("audit streams of {}", principal.payer());
    call.office.concurrency.enter(&name, call.office.facts.streams_per_caller).ok_or(ApiError::TooManyAtOnce)
}

fn last_event_id(call: &Call) -> Result<Option<Seen>, ApiError> {
    let Some(value) = call.headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let seen = value.to_str().ok().and_then(Seen::parse);
    seen.map(Some).ok_or_else(|| {
        ApiError::Invalid("Last-Event-ID: expected the id of an event, or of an audit entry".to_owned())
    })
}

/// Returns the event that entries are missing.
fn told(Gap { after, before }: Gap) -> String {
    format!("event: gap\ndata: {{\"after\":\"{after}\",\"before\":\"{before}\"}}\n\n")
}

impl Subscription {
    /// Returns the next bytes; `None` ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        if !self.has_begun {
            self.has_begun = true;
            let place = self.following.beginning();
            return Some(format!("retry: {RETRY_MS}\nid: {place}\n\n").into());
        }
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(self.next_beat) => {
                self.next_beat = Instant::now() + HEARTBEAT;
                self.still_counts().then(|| Bytes::from_static(COMMENT.as_bytes()))
            }
            entries = self.following.next_batch() => {
                let entries = entries.inspect_err(|error| tracing::warn!(%error, "an audit stream broke off")).ok()?;
                // Of what happened since it counts no more, a reader hears nothing.
                self.still_counts().then_some(())?;
                let gap = self.following.gap_before(&entries).map(told);
                let events = entries.iter().filter_map(|entry| self.event(entry)).collect::<String>();
                Some([gap.unwrap_or_default(), events].concat().into())
            }
        }
    }

    /// Returns the event of an entry that is wanted.
    fn event(&mut self, entry: &Entry) -> Option<String> {
        self.following.pass(entry);
        if !self.query.admits(entry) {
            return None;
        }
        // JSON has no line breaks of its own, so that one line of data holds it.
        let data = serde_json::to_string(&show(entry, &self.office.facts.node_id)).ok()?;
        Some(format!("event: audit\nid: {}\ndata: {data}\n\n", self.following.place(entry)))
    }

    fn still_counts(&self) -> bool {
        let Some(principal) = &self.principal else { return false };
        self.office.authenticator.still_counts(principal, self.office.clock.now())
    }
}
