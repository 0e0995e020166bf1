//! ArcSight's Common Event Format, version 0.
//!
//! Source: OpenText, "ArcSight Common Event Format Implementation Standard", version 26.

use std::fmt::Write;

use super::PRODUCT;
use super::Teller;
use super::detectors;
use super::out_of_ten;
use crate::govern::audit::Entry;

/// Returns an entry as one line.
pub(in crate::govern::siem) fn line(entry: &Entry, teller: &Teller) -> String {
    let event = &entry.event;
    let title = match event.category {
        Some(category) => format!("{} {}", event.event_type, category.as_str()),
        None => event.event_type.clone(),
    };
    let mut line = format!(
        "CEF:0|{PRODUCT}|{PRODUCT}|{}|{}|{}|{}|",
        header(&teller.version),
        header(&event.event_type),
        header(&title),
        out_of_ten(entry)
    );
    let revision = event.revision.map(|revision| revision.to_string());
    let shadow = event.shadow.as_ref().map(|shadow| format!("{} would {}", shadow.policy, shadow.action));
    let names = detectors(entry).join(",");
    let techniques = event.techniques.join(",");
    let pairs = [
        ("rt", Some(entry.timestamp().as_millisecond().to_string())),
        ("externalId", Some(entry.id.to_string())),
        ("dvchost", Some(teller.node.clone())),
        ("act", Some(event.action.clone())),
        ("cat", event.category.map(|category| category.as_str().to_owned())),
        ("suser", event.actor.clone()),
        ("request", event.route.clone()),
        ("msg", Some(event.message.clone())),
        ("cs1Label", event.policy.as_ref().map(|_| "policy".to_owned())),
        ("cs1", event.policy.clone()),
        ("cs2Label", (!names.is_empty()).then(|| "detectors".to_owned())),
        ("cs2", Some(names)),
        ("cs3Label", (!techniques.is_empty()).then(|| "techniques".to_owned())),
        ("cs3", Some(techniques)),
        ("cs4Label", event.entity.as_ref().map(|_| "entity".to_owned())),
        ("cs4", event.entity.clone()),
        ("cs5Label", event.request_id.as_ref().map(|_| "requestId".to_owned())),
        ("cs5", event.request_id.clone()),
        ("cs6Label", shadow.as_ref().map(|_| "shadow".to_owned())),
        ("cs6", shadow),
        ("cn1Label", revision.as_ref().map(|_| "revision".to_owned())),
        ("cn1", revision),
    ];
    let filled =
        pairs.into_iter().filter_map(|(key, value)| value.filter(|it| !it.is_empty()).map(|it| (key, it)));
    for (at, (key, value)) in filled.enumerate() {
        let space = if at == 0 { "" } else { " " };
        // Writing to a text does not fail.
        let _ = write!(line, "{space}{key}={}", extension(&value));
    }
    line
}

/// Escapes what ends a header field; line breaks are not allowed there.
fn header(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('|', "\\|");
    text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect()
}

/// Escapes what ends a value.
fn extension(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('=', "\\=").replace('\r', "\\r").replace('\n', "\\n");
    text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_field_is_escaped() {
        assert_eq!(header("a|b\\c\nd"), "a\\|b\\\\c d");
        assert_eq!(extension("a=b\\c\nd|e\u{1b}[0m"), "a\\=b\\\\c\\nd|e [0m");
    }
}
