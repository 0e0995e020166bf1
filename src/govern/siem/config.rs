//! What a security team's platforms are, and how they are spoken to.

use std::path::PathBuf;

use crate::document::secret::SecretPlace;
use crate::govern::audit::Entry;
use crate::scan::threat::Category;
use crate::scan::threat::Severity;

/// The most sinks of a deployment.
pub const SINKS_MAX: usize = 32;

/// `[siem]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiemConfig {
    /// Where entries go.
    pub sinks: Vec<SinkConfig>,
}

/// One `[[siem.sinks]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkConfig {
    /// Its name, under which its place in the log is kept.
    pub name: String,
    /// Where it sends, and in which form.
    pub target: Target,
    /// Which entries it sends.
    pub filter: Filter,
    /// How many entries it sends at once at most.
    pub batch_entries_max: usize,
    /// How long an answer may take, in milliseconds.
    pub timeout_ms: u64,
    /// How long it waits after a first failure, in milliseconds; doubled after each further one.
    pub backoff_min_ms: u64,
    /// The longest it waits, in milliseconds.
    pub backoff_max_ms: u64,
}

/// Where a sink sends, and in which form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Splunk's HTTP Event Collector.
    SplunkHec(HttpTarget, Option<String>),
    /// The bulk interface of Elasticsearch or OpenSearch, as ECS documents in a data stream or an index.
    Elastic(HttpTarget, String),
    /// Any HTTP receiver; bodies are signed.
    Webhook(HttpTarget),
    /// A syslog daemon.
    Syslog(SyslogTarget),
    /// A file of OCSF events, one in a line.
    OcsfFile(FileTarget),
    /// A JetStream stream of a NATS server, as OCSF events.
    Nats(NatsTarget),
}

/// An HTTP receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpTarget {
    /// Where it is.
    pub peer: Peer,
    /// The path of requests.
    pub path: String,
    /// Where the token, or for a webhook the signing secret, lies.
    pub secret: Option<SecretPlace>,
    /// Whether bodies are compressed.
    pub gzip: bool,
}

/// A server somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name or address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whether it is spoken to over TLS.
    pub tls: bool,
    /// Certificates that are trusted beside the system's.
    pub ca: Option<PathBuf>,
    /// Whether it may be on a private network, or on this machine.
    pub allow_private: bool,
}

/// A syslog daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyslogTarget {
    /// Where it is; `tls` is false with UDP.
    pub peer: Peer,
    /// How messages travel.
    pub transport: SyslogTransport,
    /// What a message says.
    pub payload: SyslogPayload,
    /// The longest message in bytes; one that would be longer goes without its findings.
    pub message_bytes_max: usize,
}

/// How syslog messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyslogTransport {
    /// One in a datagram (RFC 5426).
    Udp,
    /// Each after its length (RFC 6587 §3.4.1, RFC 5425).
    OctetCounted,
    /// Each before a line feed (RFC 6587 §3.4.2).
    Lines,
}

/// What a syslog message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyslogPayload {
    /// The entry as JSON.
    Json,
    /// ArcSight's Common Event Format, version 0.
    Cef,
    /// QRadar's Log Event Extended Format, version 2.0.
    Leef,
}

/// A file that grows up to a size and is then put aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTarget {
    /// Where it is.
    pub path: PathBuf,
    /// How large it grows, in bytes.
    pub bytes_max: u64,
    /// How many earlier files are kept, as `PATH.1`, `PATH.2` and so on.
    pub kept: u32,
}

/// A NATS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsTarget {
    /// Where it is.
    pub peer: Peer,
    /// What entries are published under.
    pub subject: String,
    /// The stream that has to take them; `None`: any that takes the subject.
    pub stream: Option<String>,
    /// Whose password the secret is; `None`: it is a token.
    pub user: Option<String>,
    /// Where the token or the password lies.
    pub secret: Option<SecretPlace>,
}

/// Which entries a sink sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The least severity; where it is given, entries without a severity are not sent.
    pub min_severity: Option<Severity>,
    /// With a finding of which categories; empty: of all, and those without findings.
    pub categories: Vec<Category>,
    /// Of which types; empty: of all.
    pub event_types: Vec<String>,
}

impl Target {
    /// Returns the platform's name in the configuration and in answers.
    pub fn platform(&self) -> &'static str {
        match self {
            Self::SplunkHec(..) => "splunk_hec",
            Self::Elastic(..) => "elastic",
            Self::Webhook(_) => "webhook",
            Self::Syslog(_) => "syslog",
            Self::OcsfFile(_) => "ocsf_file",
            Self::Nats(_) => "nats",
        }
    }

    /// Returns the server that it sends to; `None` for a file.
    pub fn peer(&self) -> Option<&Peer> {
        match self {
            Self::SplunkHec(target, _) | Self::Elastic(target, _) | Self::Webhook(target) => {
                Some(&target.peer)
            }
            Self::Syslog(target) => Some(&target.peer),
            Self::Nats(target) => Some(&target.peer),
            Self::OcsfFile(_) => None,
        }
    }

    /// Returns where its secret lies, if it has one.
    pub fn secret(&self) -> Option<&SecretPlace> {
        match self {
            Self::SplunkHec(target, _) | Self::Elastic(target, _) | Self::Webhook(target) => {
                target.secret.as_ref()
            }
            Self::Nats(target) => target.secret.as_ref(),
            Self::Syslog(_) | Self::OcsfFile(_) => None,
        }
    }
}

impl Filter {
    /// Tells whether an entry is sent.
    pub fn lets_through(&self, entry: &Entry) -> bool {
        let event = &entry.event;
        let grave = self.min_severity.is_none_or(|min| event.severity.is_some_and(|it| it >= min));
        let category =
            self.categories.is_empty() || self.categories.iter().any(|category| event.found(*category));
        grave && category && (self.event_types.is_empty() || self.event_types.contains(&event.event_type))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::govern::audit::AuditEvent;
    use crate::govern::audit::AuditFinding;
    use crate::id::Ulid;

    #[test]
    fn a_filter_asks_for_any_finding_not_only_for_the_gravest() {
        let finding = |category, severity| AuditFinding {
            detector: "x".to_owned(),
            category,
            severity,
            confidence: 90,
            action: "monitor".to_owned(),
            redacted: "***".to_owned(),
        };
        let event = AuditEvent {
            category: Some(Category::Secrets),
            severity: Some(Severity::Critical),
            findings: vec![
                finding(Category::Pii, Severity::Low),
                finding(Category::Secrets, Severity::Critical),
            ],
            ..AuditEvent::default()
        };
        let (hash, previous_hash) = Default::default();
        let entry = Entry { node: None, id: Ulid(1), recorded_unix_ms: None, event, hash, previous_hash };
        let lets_through = |category| {
            let filter = Filter { categories: vec![category], ..Filter::default() };
            filter.lets_through(&entry)
        };
        let wanted = [Category::Pii, Category::Secrets, Category::Injection];
        assert_eq!(wanted.map(lets_through), [true, true, false]);
    }

    #[test]
    fn a_filter_lets_through_what_holds_to_all_of_it() {
        let entry = |event_type: &str, category, severity| {
            let event =
                AuditEvent { event_type: event_type.to_owned(), category, severity, ..AuditEvent::default() };
            let (hash, previous_hash) = Default::default();
            Entry { node: None, id: Ulid(1), recorded_unix_ms: None, event, hash, previous_hash }
        };
        let entries = [
            entry("exchange", Some(Category::Pii), Some(Severity::Low)),
            entry("exchange", Some(Category::Secrets), Some(Severity::Medium)),
            entry("exchange", Some(Category::Secrets), Some(Severity::Critical)),
            entry("exchange", None, None),
            entry("login", None, None),
        ];
        let medium = Filter { min_severity: Some(Severity::Medium), ..Filter::default() };
        let secrets = Filter { categories: vec![Category::Secrets], ..Filter::default() };
        let either = Filter { categories: vec![Category::Secrets, Category::Pii], ..Filter::default() };
        let logins = Filter { event_types: vec!["login".to_owned()], ..Filter::default() };
        let grave = Filter { min_severity: Some(Severity::High), ..secrets.clone() };
        let never = Filter { categories: vec![Category::Secrets], ..logins.clone() };
        for (filter, expected) in [
            (Filter::default(), [true, true, true, true, true]),
            (medium, [false, true, true, false, false]),
            (secrets, [false, true, true, false, false]),
            (either, [true, true, true, false, false]),
            (logins, [false, false, false, false, true]),
            (grave, [false, false, true, false, false]),
            (never, [false; 5]),
        ] {
            assert_eq!(entries.each_ref().map(|entry| filter.lets_through(entry)), expected, "{filter:?}");
        }
    }
}
