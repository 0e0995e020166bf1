//! Messages of RFC 5424, and how they are framed on a stream.

use super::Teller;
use super::cef;
use super::leef;
use super::plain::Plain;
use crate::govern::audit::Entry;
use crate::govern::siem::config::SyslogPayload;
use crate::govern::siem::config::SyslogTransport;
use crate::scan::threat::Severity;

/// "Log audit" (RFC 5424 §6.2.1).
const FACILITY: u8 = 13;
const FACILITY_STEP: u8 = 8;
const APP: &str = "portcullis";
/// The longest name of a host and of a message kind (RFC 5424 §6).
const HOST_BYTES_MAX: usize = 255;
const KIND_BYTES_MAX: usize = 32;

/// Returns an entry as one message, without framing; one that is longer than `bytes_max` goes without findings.
pub(in crate::govern::siem) fn message(
    entry: &Entry,
    payload: SyslogPayload,
    bytes_max: usize,
    teller: &Teller,
) -> serde_json::Result<Vec<u8>> {
    let head = head(entry, teller);
    let whole = match payload {
        SyslogPayload::Json => serde_json::to_string(&Plain::of(entry))?,
        SyslogPayload::Cef => cef::line(entry, teller),
        SyslogPayload::Leef => leef::line(entry, teller),
    };
    let fits = head.len() + whole.len() <= bytes_max;
    let text = match payload {
        SyslogPayload::Json if !fits => serde_json::to_string(&Plain::brief(entry))?,
        _ => whole,
    };
    Ok([head.as_bytes(), text.as_bytes()].concat())
}

/// Adds a message to what goes out on a stream.
pub(in crate::govern::siem) fn frame(transport: SyslogTransport, message: &[u8], out: &mut Vec<u8>) {
    if transport == SyslogTransport::OctetCounted {
        out.extend_from_slice(format!("{} ", message.len()).as_bytes());
    }
    out.extend_from_slice(message);
    if transport == SyslogTransport::Lines {
        out.push(b'\n');
    }
}

/// `<PRI>1 TIME HOST APP - KIND -` and a space.
fn head(entry: &Entry, teller: &Teller) -> String {
    let severity = match entry.event.severity {
        Some(Severity::Critical) => 2,
        Some(Severity::High) => 3,
        Some(Severity::Medium) => 4,
        Some(Severity::Low) => 5,
        None => 6,
    };
    format!(
        "<{}>1 {:.3} {} {APP} - {} - ",
        FACILITY * FACILITY_STEP + severity,
        entry.timestamp(),
        name(&teller.node, HOST_BYTES_MAX),
        name(&entry.event.event_type, KIND_BYTES_MAX)
    )
}

/// Returns a text as a header field: visible ASCII, and `-` for nothing.
fn name(text: &str, bytes_max: usize) -> String {
    let name: String = text.chars().filter(char::is_ascii_graphic).take(bytes_max).collect();
    if name.is_empty() { "-".to_owned() } else { name }
}
