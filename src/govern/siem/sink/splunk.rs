//! Splunk's HTTP Event Collector.
//!
//! Source: Splunk, "HTTP Event Collector REST API endpoints" and "Troubleshoot HTTP Event Collector": success is status
//! 200 with `"code": 0`. Status 400 has many reasons, and only some of them lie in the events: a wrong index (7) or
//! channel (10, 11) is somebody's to mend, and the events wait.

use async_trait::async_trait;
use http::HeaderValue;
use http::StatusCode;
use serde::Deserialize;

use super::Delivery;
use super::HttpSide;
use super::Sink;
use super::Trouble;
use super::sensitive;
use crate::govern::audit::Entry;
use crate::govern::siem::format::Teller;
use crate::govern::siem::format::hec;
use crate::govern::siem::http::HttpAnswer;

const TAKEN: i64 = 0;
/// No data, data in a wrong format, an event that is missing or blank, fields that cannot be indexed.
const MALFORMED: [i64; 5] = [5, 6, 12, 13, 15];

pub(super) struct Splunk {
    pub(super) side: HttpSide,
    pub(super) index: Option<String>,
    pub(super) teller: Teller,
}

#[derive(Deserialize)]
struct Reply {
    code: i64,
}

#[async_trait]
impl Sink for Splunk {
    async fn deliver(&mut self, entries: &[&Entry]) -> Result<Delivery, Trouble> {
        let body =
            hec::body(entries, self.index.as_deref(), &self.teller).map_err(|_| Trouble::Unsendable)?;
        let mut headers = vec![("content-type", HeaderValue::from_static("application/json"))];
        if let Some(token) = self.side.secret()? {
            headers.push(("authorization", sensitive(format!("Splunk {token}"))?));
        }
        let HttpAnswer { status, body, retry_after } = self.side.post(headers, body).await?;
        let code = serde_json::from_slice::<Reply>(&body).ok().map(|reply| reply.code);
        let is_malformed = code.is_some_and(|code| MALFORMED.contains(&code));
        match (status, code) {
            (status, Some(TAKEN)) if status.is_success() => Ok(Delivery::Taken),
            (status, _) if status.is_success() => Err(Trouble::Nonsense),
            (StatusCode::BAD_REQUEST, _) if is_malformed => Err(Trouble::Batch(status)),
            (StatusCode::PAYLOAD_TOO_LARGE, _) => Err(Trouble::Batch(status)),
            (status, _) => Err(Trouble::Status { status, retry_after }),
        }
    }
}
