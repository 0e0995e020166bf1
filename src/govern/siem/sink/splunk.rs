//! Splunk's HTTP Event Collector.
//!
//! Source: Splunk, "HTTP Event Collector REST API endpoints": success is status 200 with `"code": 0`.

use async_trait::async_trait;
use http::HeaderValue;
use serde::Deserialize;

use super::Delivery;
use super::HttpSide;
use super::Sink;
use super::Trouble;
use super::sensitive;
use crate::govern::audit::Entry;
use crate::govern::siem::format::Teller;
use crate::govern::siem::format::hec;

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
        let answer = self.side.post(headers, body).await?;
        match serde_json::from_slice::<Reply>(&answer.body) {
            Ok(Reply { code: 0 }) => Ok(Delivery::Taken),
            _ => Err(Trouble::Nonsense),
        }
    }
}
