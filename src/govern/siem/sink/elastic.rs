//! The bulk interface of Elasticsearch and OpenSearch.
//!
//! Source: Elastic, "Bulk API": each action has a status of its own. 409 is a document that is there already. A
//! document is given up only for what it is; a missing index or right (401, 403, 404) is somebody's to mend, and the
//! document waits.

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
use crate::govern::siem::format::ecs;

const CONFLICT: u16 = 409;
/// What is asked of the answer: a batch that is sent again is answered with a long excuse for each document.
const ANSWERED: &str = "filter_path=items.*.status";
/// A document that does not fit the index, is too large, or makes no sense.
const MALFORMED: [u16; 3] = [400, 413, 422];

pub(super) struct Elastic {
    pub(super) side: HttpSide,
    pub(super) index: String,
    pub(super) teller: Teller,
}

#[derive(Deserialize)]
struct Reply {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    create: Created,
}

#[derive(Deserialize)]
struct Created {
    status: u16,
}

#[async_trait]
impl Sink for Elastic {
    async fn deliver(&mut self, entries: &[&Entry]) -> Result<Delivery, Trouble> {
        let body = ecs::bulk(entries, &self.index, &self.teller).map_err(|_| Trouble::Unsendable)?;
        let mut headers = vec![("content-type", HeaderValue::from_static("application/x-ndjson"))];
        if let Some(key) = self.side.secret()? {
            headers.push(("authorization", sensitive(format!("ApiKey {key}"))?));
        }
        let answer = self.side.post_whole(headers, body).await?;
        let reply: Reply = serde_json::from_slice(&answer.body).map_err(|_| Trouble::Nonsense)?;
        if reply.items.len() != entries.len() {
            return Err(Trouble::Nonsense);
        }
        Ok(sorted(&reply.items))
    }
}

/// Returns an HTTP side that asks for no more of an answer than is read.
pub(super) fn asking(mut side: HttpSide) -> HttpSide {
    let mark = if side.path.contains('?') { '&' } else { '?' };
    side.path = format!("{}{mark}{ANSWERED}", side.path);
    side
}

fn sorted(items: &[Item]) -> Delivery {
    let (mut refused, mut again, mut because) = (Vec::new(), Vec::new(), Trouble::Nonsense);
    for (at, item) in items.iter().enumerate() {
        match item.create.status {
            200..300 | CONFLICT => {}
            status if MALFORMED.contains(&status) => refused.push(at),
            status => {
                again.push(at);
                if let Ok(status) = StatusCode::from_u16(status) {
                    because = Trouble::Status { status, retry_after: None };
                }
            }
        }
    }
    match refused.is_empty() && again.is_empty() {
        true => Delivery::Taken,
        false => Delivery::Partly { refused, again, because },
    }
}
