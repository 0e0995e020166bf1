//! `[siem]` into the configuration of its module.

use std::path::PathBuf;

use http::Uri;
use serde_json::Value;

use crate::document::Document;
use crate::document::Fault;
use crate::document::Problem;
use crate::document::fault::nearest;
use crate::document::secret::SecretPlace;
use crate::document::section;
use crate::document::section::Section;
use crate::govern::siem::config::FileTarget;
use crate::govern::siem::config::Filter;
use crate::govern::siem::config::HttpTarget;
use crate::govern::siem::config::NatsTarget;
use crate::govern::siem::config::Peer;
use crate::govern::siem::config::SINKS_MAX;
use crate::govern::siem::config::SiemConfig;
use crate::govern::siem::config::SinkConfig;
use crate::govern::siem::config::SyslogPayload;
use crate::govern::siem::config::SyslogTarget;
use crate::govern::siem::config::SyslogTransport;
use crate::govern::siem::config::Target;
use crate::govern::siem::is_private_address;

const KEY: &str = "siem";
const PLATFORMS: [&str; 6] = ["splunk_hec", "elastic", "syslog", "webhook", "ocsf_file", "nats"];
const NAME_BYTES_MAX: usize = 64;
const BATCH_ENTRIES: u64 = 500;
const BATCH_ENTRIES_MAX: u64 = 10_000;
const TIMEOUT_MS: u64 = 30_000;
const BACKOFF_MIN_MS: u64 = 500;
const BACKOFF_MAX_MS: u64 = 60_000;
const HOUR_MS: u64 = 3_600_000;
/// What every receiver of RFC 5424 messages should take is 2 KiB; rsyslog and syslog-ng take 8 KiB as shipped.
const MESSAGE_BYTES: u64 = 8 << 10;
/// What a datagram holds at most: 64 KiB less the headers of IPv4 and UDP.
const DATAGRAM_BYTES_MAX: u64 = 65_507;
const FILE_BYTES: u64 = 256 << 20;
const FILES_KEPT: u64 = 8;
const HEC_PATH: &str = "/services/collector/event";
const BULK_PATH: &str = "/_bulk";
const ELASTIC_INDEX: &str = "logs-portcullis.audit-default";
const NATS_SUBJECT: &str = "portcullis.audit";
/// What a server takes in a line leaves room for much more; a file of its own is named after each stream.
const NATS_NAME_BYTES_MAX: usize = 255;

/// Reads `[siem]` of a document, whatever else is in it.
///
/// # Errors
/// All faults of it.
pub fn of(document: &Document) -> Result<SiemConfig, Vec<Fault>> {
    let siem = document.root().get(KEY).map(|siem| (KEY.to_owned(), siem.clone()));
    let alone = Document::from_json(Value::Object(siem.into_iter().collect()), None).unwrap_or_default();
    section::read(&alone.placed_like(document), |root| read(&mut root.section(KEY)))
}

pub(super) fn read(section: &mut Section<'_>) -> SiemConfig {
    let mut sinks: Vec<SinkConfig> = Vec::new();
    for mut sink in section.list("sinks") {
        let read = read_sink(&mut sink);
        if sinks.iter().any(|other| other.name == read.name) {
            sink.invalid("name", "names a sink twice", None);
        }
        sinks.push(read);
    }
    if sinks.len() > SINKS_MAX {
        section.invalid("sinks", format!("expected {SINKS_MAX} sinks at most"), None);
    }
    section.finish();
    SiemConfig { sinks }
}

fn read_sink(section: &mut Section<'_>) -> SinkConfig {
    let number =
        |section: &mut Section<'_>, key, range, default| section.number_maybe(key, range).unwrap_or(default);
    let config = SinkConfig {
        name: name(section),
        target: target(section),
        filter: filter(section),
        batch_entries_max: number(section, "batch_entries", 1..=BATCH_ENTRIES_MAX, BATCH_ENTRIES) as usize,
        timeout_ms: number(section, "timeout_ms", 1..=HOUR_MS, TIMEOUT_MS),
        backoff_min_ms: number(section, "backoff_min_ms", 1..=HOUR_MS, BACKOFF_MIN_MS),
        backoff_max_ms: number(section, "backoff_max_ms", 1..=HOUR_MS, BACKOFF_MAX_MS),
    };
    section.finish();
    config
}

/// Reads a name that can be one of a file.
fn name(section: &mut Section<'_>) -> String {
    let name = section.text("name").to_owned();
    let fits = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b"-_".contains(&it);
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(fits) {
        section.invalid("name", "expected 1 to 64 of a-z, 0-9, - and _", None);
    }
    name
}

fn target(section: &mut Section<'_>) -> Target {
    match section.text("platform") {
        "splunk_hec" => {
            let index = section.text_maybe("index").map(str::to_owned);
            Target::SplunkHec(http(section, Some(HEC_PATH)), index)
        }
        "elastic" => {
            let index = section.text_maybe("index").unwrap_or(ELASTIC_INDEX).to_owned();
            Target::Elastic(http(section, Some(BULK_PATH)), index)
        }
        "webhook" => Target::Webhook(http(section, None)),
        "syslog" => syslog(section),
        "ocsf_file" => Target::OcsfFile(file(section)),
        "nats" => Target::Nats(nats(section)),
        other => {
            let expected = format!("expected one of {}", PLATFORMS.join(", "));
            section.invalid("platform", expected, nearest(other, PLATFORMS));
            Target::OcsfFile(unknown(section))
        }
    }
}

/// Asks for whatever the platforms take, so that an unknown one is the only fault: nobody knows which of it is needed.
fn unknown(section: &mut Section<'_>) -> FileTarget {
    let texts = [
        "url",
        "ca_file",
        "secret_file",
        "secret_env",
        "index",
        "framing",
        "payload",
        "subject",
        "stream",
        "user",
        "path",
    ];
    let _ = texts.map(|key| section.text_maybe(key));
    let _ = ["gzip", "allow_private"].map(|key| section.flag_or(key, false));
    let _ = ["message_bytes", "file_bytes", "files_kept"].map(|key| section.number_maybe(key, 0..=u64::MAX));
    FileTarget { path: PathBuf::new(), bytes_max: FILE_BYTES, kept: FILES_KEPT as u32 }
}

/// Reads an HTTP receiver; a platform has its own `path`, where the address names none.
fn http(section: &mut Section<'_>, path: Option<&str>) -> HttpTarget {
    let (peer, uri) = peer(section, &[("https", 443, true), ("http", 80, false)]);
    let named = uri.path_and_query().map(|it| it.as_str()).filter(|it| *it != "/");
    HttpTarget {
        peer,
        path: named.or(path).unwrap_or("/").to_owned(),
        secret: secret(section),
        gzip: section.flag_or("gzip", true),
    }
}

fn syslog(section: &mut Section<'_>) -> Target {
    let schemes = [("tls", 6514, true), ("tcp", 601, false), ("udp", 514, false)];
    let (peer, uri) = peer(section, &schemes);
    let framing = section.text_maybe("framing").unwrap_or("octet_counting");
    let transport = match (uri.scheme_str(), framing) {
        (Some("udp"), _) => SyslogTransport::Udp,
        (_, "octet_counting") => SyslogTransport::OctetCounted,
        (_, "lines") => SyslogTransport::Lines,
        (_, other) => {
            let names = ["octet_counting", "lines"];
            section.invalid("framing", "expected octet_counting or lines", nearest(other, names));
            SyslogTransport::OctetCounted
        }
    };
    let payload = match section.text_maybe("payload").unwrap_or("json") {
        "json" => SyslogPayload::Json,
        "cef" => SyslogPayload::Cef,
        "leef" => SyslogPayload::Leef,
        other => {
            section.invalid("payload", "expected json, cef or leef", nearest(other, ["json", "cef", "leef"]));
            SyslogPayload::Json
        }
    };
    // A datagram holds no more, whatever is asked for.
    let bytes_max = if transport == SyslogTransport::Udp { DATAGRAM_BYTES_MAX } else { 1 << 20 };
    let bytes =
        section.number_maybe("message_bytes", 480..=bytes_max).unwrap_or(MESSAGE_BYTES.min(bytes_max));
    Target::Syslog(SyslogTarget { peer, transport, payload, message_bytes_max: bytes as usize })
}

fn nats(section: &mut Section<'_>) -> NatsTarget {
    let (peer, _) = peer(section, &[("tls", 4222, true), ("nats", 4222, false)]);
    let fits = |name: &str, never: &[u8]| {
        (1..=NATS_NAME_BYTES_MAX).contains(&name.len())
            && name.bytes().all(|it| it.is_ascii_graphic() && !never.contains(&it))
    };
    let subject = section.text_maybe("subject").unwrap_or(NATS_SUBJECT);
    if !fits(subject, b"*>") || subject.split('.').any(str::is_empty) {
        let expected = "expected words with full stops between them, without spaces, * and >";
        section.invalid("subject", expected, None);
    }
    let stream = section.text_maybe("stream");
    if !stream.is_none_or(|name| fits(name, b".*>/\\")) {
        section.invalid(
            "stream",
            "expected a stream's name, without spaces, full stops, slashes, * and >",
            None,
        );
    }
    let user = section.text_maybe("user").filter(|name| !name.is_empty());
    let secret = secret(section);
    if user.is_some() && secret.is_none() {
        section.invalid("user", "expected its password in secret_file or secret_env", None);
    }
    NatsTarget {
        peer,
        subject: subject.to_owned(),
        stream: stream.map(str::to_owned),
        user: user.map(str::to_owned),
        secret,
    }
}

fn file(section: &mut Section<'_>) -> FileTarget {
    let path = section.path_maybe("path");
    if path.is_none() {
        section.fault("path", Problem::Missing);
    }
    FileTarget {
        path: path.unwrap_or_default(),
        bytes_max: section.number_maybe("file_bytes", 1 << 10..=1 << 40).unwrap_or(FILE_BYTES),
        kept: section.number_maybe("files_kept", 0..=1000).unwrap_or(FILES_KEPT) as u32,
    }
}

/// Reads `url`, `ca_file` and `allow_private`; `schemes` are their names, default ports, and whether they mean TLS.
fn peer(section: &mut Section<'_>, schemes: &[(&str, u16, bool)]) -> (Peer, Uri) {
    let text = section.text("url");
    let uri: Uri = text.parse().unwrap_or_default();
    let known = schemes.iter().find(|(name, _, _)| uri.scheme_str() == Some(*name));
    let bare = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    if !text.is_empty() && (known.is_none() || !bare) {
        let names: Vec<String> = schemes.iter().map(|(name, ..)| format!("{name}://HOST:PORT")).collect();
        section.invalid("url", format!("expected {}, without credentials", names.join(" or ")), None);
    }
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let allow_private = section.flag_or("allow_private", false);
    if !allow_private && is_private_address(&host) {
        let reason = "an address of a private network or of this machine, which needs `allow_private = true`";
        section.invalid("url", reason, None);
    }
    let (_, port, tls) = known.copied().unwrap_or_default();
    let peer = Peer {
        host,
        port: uri.port_u16().unwrap_or(port),
        tls,
        ca: section.path_maybe("ca_file"),
        allow_private,
    };
    (peer, uri)
}

fn secret(section: &mut Section<'_>) -> Option<SecretPlace> {
    let file = section.path_maybe("secret_file");
    let variable = section.text_maybe("secret_env").filter(|name| !name.is_empty());
    match (file, variable) {
        (Some(_), Some(_)) => {
            section.invalid("secret_env", "expected one of secret_file and secret_env", None);
            None
        }
        (Some(file), None) => Some(SecretPlace::File(file)),
        (None, variable) => variable.map(|name| SecretPlace::Environment(name.to_owned())),
    }
}

fn filter(section: &mut Section<'_>) -> Filter {
    let mut categories = Vec::new();
    for text in section.texts("categories") {
        match text.parse() {
            Ok(category) => categories.push(category),
            Err(_) => section.invalid(
                "categories",
                "expected any of secrets, pii, injection, exfiltration, custom",
                None,
            ),
        }
    }
    Filter {
        min_severity: section.choice_maybe("min_severity"),
        categories,
        event_types: section.texts("event_types").into_iter().map(str::to_owned).collect(),
    }
}
