//! Splunk's HTTP Event Collector: event objects, one behind the other.
//!
//! Source: Splunk, "Format events for HTTP Event Collector".

use serde::Serialize;

use super::Teller;
use super::plain::Plain;
use crate::govern::audit::Entry;

const SOURCE: &str = "portcullis";
const SOURCE_TYPE: &str = "portcullis:audit";

#[derive(Serialize)]
struct Event<'a> {
    /// Unix seconds with milliseconds.
    time: f64,
    host: &'a str,
    source: &'static str,
    sourcetype: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<&'a str>,
    event: Plain<'a>,
}

/// Returns the body of a request.
pub(in crate::govern::siem) fn body(
    entries: &[&Entry],
    index: Option<&str>,
    teller: &Teller,
) -> serde_json::Result<Vec<u8>> {
    let mut body = Vec::new();
    for entry in entries {
        let event = Event {
            time: entry.timestamp().as_millisecond() as f64 / 1000.0,
            host: &teller.node,
            source: SOURCE,
            sourcetype: SOURCE_TYPE,
            index,
            event: Plain::of(entry),
        };
        serde_json::to_writer(&mut body, &event)?;
        body.push(b'\n');
    }
    Ok(body)
}
