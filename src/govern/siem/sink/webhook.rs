//! Any HTTP receiver: `{"entries": […]}`, signed.
//!
//! `X-Portcullis-Signature: t=UNIX_SECONDS,v1=HEX`, where HEX is the HMAC-SHA256, under the shared secret, of the
//! seconds, a full stop and the body as it was sent, before compression. The seconds are when it is sent, so that
//! receivers can refuse what is old and still take a backlog. `X-Portcullis-Delivery` is the id of the last entry: a
//! batch that is sent again has the same one.

use std::sync::Arc;

use async_trait::async_trait;
use hmac::Hmac;
use hmac::KeyInit;
use hmac::Mac;
use http::HeaderValue;
use serde::Serialize;
use sha2::Sha256;

use super::Delivery;
use super::HttpSide;
use super::Sink;
use super::Trouble;
use crate::clock::Clock;
use crate::govern::audit::Entry;
use crate::govern::siem::format::plain::Plain;

pub(super) struct Webhook {
    pub(super) side: HttpSide,
    pub(super) clock: Arc<dyn Clock>,
}

#[derive(Serialize)]
struct Body<'a> {
    entries: Vec<Plain<'a>>,
}

#[async_trait]
impl Sink for Webhook {
    async fn deliver(&mut self, entries: &[&Entry]) -> Result<Delivery, Trouble> {
        let body = Body { entries: entries.iter().map(|entry| Plain::of(entry)).collect() };
        let body = serde_json::to_vec(&body).map_err(|_| Trouble::Unsendable)?;
        let mut headers = vec![("content-type", HeaderValue::from_static("application/json"))];
        if let Some(last) = entries.last() {
            let id = HeaderValue::try_from(last.id.to_string()).map_err(|_| Trouble::Unsendable)?;
            headers.push(("x-portcullis-delivery", id));
            if let Some(secret) = self.side.secret()? {
                let signature = sign(&secret, self.clock.now().as_second(), &body);
                let signature = HeaderValue::try_from(signature).map_err(|_| Trouble::Unsendable)?;
                headers.push(("x-portcullis-signature", signature));
            }
        }
        self.side.post_whole(headers, body).await?;
        Ok(Delivery::Taken)
    }
}

/// Returns the value of the signature header.
fn sign(secret: &str, unix_s: i64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(unix_s.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={unix_s},v1={hex}")
}
