//! QRadar's Log Event Extended Format 2.0, with tabs between attributes.
//!
//! Source: IBM, "QRadar LEEF event format, version 2.0".

use std::fmt::Write;

use super::PRODUCT;
use super::Teller;
use super::detectors;
use super::out_of_ten;
use crate::clock::rfc3339;
use crate::govern::audit::Entry;

/// A pattern of Java's `SimpleDateFormat`: with `X` the `Z` at the end is read as UTC, in quotes it would be a letter, and
/// the time the receiver's own.
const TIME_FORMAT: &str = "yyyy-MM-dd'T'HH:mm:ss.SSSX";

/// Returns an entry as one line.
pub(in crate::govern::siem) fn line(entry: &Entry, teller: &Teller) -> String {
    let event = &entry.event;
    let mut line = format!(
        "LEEF:2.0|{PRODUCT}|{PRODUCT}|{}|{}|x09|",
        header(&teller.version),
        header(&event.event_type)
    );
    let shadow = event.shadow.as_ref();
    let pairs = [
        ("devTime", Some(rfc3339(entry.timestamp()))),
        ("devTimeFormat", Some(TIME_FORMAT.to_owned())),
        ("sev", Some(out_of_ten(entry).max(1).to_string())),
        ("cat", event.category.map(|category| category.as_str().to_owned())),
        ("usrName", event.actor.clone()),
        ("resource", event.route.clone()),
        ("action", Some(event.action.clone())),
        ("eventId", Some(entry.id.to_string())),
        ("requestId", event.request_id.clone()),
        ("entity", event.entity.clone()),
        ("policy", event.policy.clone()),
        ("shadowPolicy", shadow.map(|shadow| shadow.policy.clone())),
        ("shadowAction", shadow.map(|shadow| shadow.action.clone())),
        ("revision", event.revision.map(|revision| revision.to_string())),
        ("detectors", Some(detectors(entry).join(","))),
        ("techniques", Some(event.techniques.join(","))),
        ("msg", Some(event.message.clone())),
    ];
    let filled =
        pairs.into_iter().filter_map(|(key, value)| value.filter(|it| !it.is_empty()).map(|it| (key, it)));
    for (at, (key, value)) in filled.enumerate() {
        let tab = if at == 0 { "" } else { "\t" };
        // Writing to a text does not fail.
        let _ = write!(line, "{tab}{key}={}", attribute(&value));
    }
    line
}

fn header(text: &str) -> String {
    attribute(&text.replace('|', " "))
}

/// Takes out what ends an attribute: the format has no escapes.
fn attribute(text: &str) -> String {
    text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect()
}
