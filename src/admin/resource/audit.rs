//! `/api/v1/audit`: what happened, newest first.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::Office;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::error::ApiError;
use crate::clock::rfc3339;
use crate::govern::audit::AuditFinding;
use crate::govern::audit::AuditForeseen;
use crate::govern::audit::AuditShadow;
use crate::govern::audit::Entry;
use crate::govern::audit::PAGE_ENTRIES_DEFAULT;
use crate::govern::audit::PAGE_ENTRIES_MAX;
use crate::govern::audit::Query;
use crate::govern::audit::QueryError;

/// How long a date is.
const DATE_BYTES: usize = "9999-12-31".len();
/// What entries are asked for by, wherever they are shown.
const FILTERS: [&str; 10] = [
    "category",
    "severity",
    "action",
    "detector",
    "route",
    "policy",
    "entity",
    "request_id",
    "event_type",
    "node",
];
/// What an open stream may be asked by.
pub const STREAM_PARAMETERS: [&str; 10] = FILTERS;
/// What an export may be asked by.
pub const EXPORT_PARAMETERS: [&str; 13] = and_filters(["format", "from", "to"]);
/// What a page may be asked by.
pub const PARAMETERS: [&str; 14] = and_filters(["from", "to", "limit", "cursor"]);

/// Returns names with those of the filters behind them.
const fn and_filters<const OWN: usize, const ALL: usize>(own: [&'static str; OWN]) -> [&'static str; ALL] {
    assert!(OWN + FILTERS.len() == ALL, "the list is as long as its parts");
    let mut all = [""; ALL];
    let mut at = 0;
    while at < ALL {
        all[at] = if at < OWN { own[at] } else { FILTERS[at - OWN] };
        at += 1;
    }
    all
}

/// One page of the log.
#[derive(Serialize, ToSchema)]
pub struct AuditPage {
    /// The entries, newest first.
    pub entries: Vec<AuditEntry>,
    /// How many entries match on all pages together.
    pub total: u64,
    /// Asks for the next page; `null` on the last one.
    pub cursor: Option<String>,
    /// Whether all entries were looked at; `false` while the database that nodes share is away, where another node has
    /// entries of the first release that may match, with which it alone answers, as long as older entries are still to
    /// be indexed by action, detector, route or policy, where that is asked for, while the index is built anew after an
    /// upgrade and the newest entries are still to come, and where the journal is damaged at the time that is asked for.
    pub complete: bool,
}

/// One entry of the log.
#[derive(Serialize, ToSchema)]
pub struct AuditEntry {
    /// A ULID.
    pub id: String,
    /// The node whose journal it is from.
    pub node: String,
    /// When it was recorded, in ISO 8601. Entries are ordered by the moment in their ids, which is a later one where the
    /// clock was set back; `from` and `to` choose by when they were recorded.
    pub timestamp: String,
    /// What happened, e.g. `exchange`, `key_created`.
    pub event_type: String,
    /// The gravest finding's category; `category` asks for that of any.
    pub category: Option<&'static str>,
    /// The gravest finding's severity.
    pub severity: Option<&'static str>,
    /// What was done about it.
    pub action: String,
    /// Who did it.
    pub actor: Option<String>,
    /// Whom or what it is about.
    pub entity: Option<String>,
    /// The route's name, or the path of a management call.
    pub route: Option<String>,
    /// The request it belongs to.
    pub request_id: Option<String>,
    /// One sentence for people.
    pub message: String,
    /// What the scanner found, redacted.
    pub findings: Vec<AuditedFinding>,
    /// Technique ids of all findings.
    pub techniques: Vec<String>,
    /// The policy that decided.
    pub policy: Option<String>,
    /// What its shadow policy would have done, where that is something else.
    pub shadow: Option<AuditedShadow>,
    /// The revision that decided.
    pub revision: Option<u64>,
    /// How long it took, in milliseconds.
    pub latency_ms: Option<f64>,
    /// SHA-256 over the previous hash and the entry, in hexadecimal.
    pub hash: String,
    /// The hash of the entry before.
    pub previous_hash: String,
}

/// One finding of an entry.
#[derive(Serialize, ToSchema)]
pub struct AuditedFinding {
    /// The detector's name.
    #[serde(rename = "type")]
    pub detector: String,
    /// Its category.
    pub category: &'static str,
    /// Its severity.
    pub severity: &'static str,
    /// How sure it was, 0 to 1.
    pub confidence: f64,
    /// What was done about it.
    pub action: String,
    /// The match with its middle masked.
    pub redacted_match: String,
}

/// What a shadow policy would have done.
#[derive(Serialize, ToSchema)]
pub struct AuditedShadow {
    /// The shadow policy.
    pub policy: String,
    /// The strictest action it would have taken.
    pub action: String,
    /// The findings about which it would have decided otherwise, each detector once.
    pub findings: Vec<ForeseenFinding>,
}

/// What a shadow policy would have done about a detector's findings.
#[derive(Serialize, ToSchema)]
pub struct ForeseenFinding {
    /// The detector's name.
    #[serde(rename = "type")]
    pub detector: String,
    /// The strictest action it would have taken about them.
    pub action: String,
}

/// The query of the log, or of an export of it, as it was written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    format: Option<String>,
    from: Option<String>,
    to: Option<String>,
    category: Option<String>,
    severity: Option<String>,
    action: Option<String>,
    detector: Option<String>,
    route: Option<String>,
    policy: Option<String>,
    limit: Option<String>,
    entity: Option<String>,
    request_id: Option<String>,
    event_type: Option<String>,
    node: Option<String>,
    cursor: Option<String>,
}

/// `GET /api/v1/audit`.
pub async fn query(call: Call) -> Answer {
    let query = call.query::<Asked>()?.read(&call.office)?;
    if is_of_another(&call.office, &query) {
        return ok(&AuditPage { entries: Vec::new(), total: 0, cursor: None, complete: true });
    }
    let page = call.office.audit.query(query).await.map_err(|error| match error {
        QueryError::Limit => ApiError::Invalid(error.to_string()),
        QueryError::Read(_)
        | QueryError::Store(_)
        | QueryError::Interrupted
        | QueryError::Held
        | QueryError::Behind => ApiError::Unavailable,
    })?;
    ok(&AuditPage {
        entries: page.entries.iter().map(|entry| show(entry, &call.office.facts.node_id)).collect(),
        total: page.total,
        cursor: page.cursor.map(|cursor| cursor.to_string()),
        complete: page.is_complete,
    })
}

/// Tells whether entries of another node are asked for where there is none.
pub(super) fn is_of_another(office: &Office, query: &Query) -> bool {
    let is_other = query.node.as_ref().is_some_and(|node| *node != office.facts.node_id);
    is_other && office.audit.shipping().is_none()
}

impl Asked {
    /// Reads the query of an export: its format, and what is asked for.
    ///
    /// # Errors
    /// A parameter is wrong, or has no place here.
    pub fn read_export(mut self, office: &Office) -> Result<(Option<String>, Query), ApiError> {
        if self.limit.is_some() || self.cursor.is_some() {
            return Err(ApiError::Invalid(
                "an export has no pages: it takes no limit and no cursor".to_owned(),
            ));
        }
        let format = self.format.take();
        Ok((format, self.read(office)?))
    }

    /// Reads the query of a stream: what is asked for, but neither times nor pages.
    ///
    /// # Errors
    /// A parameter is wrong, or has no place here.
    pub(super) fn read_stream(self, office: &Office) -> Result<Query, ApiError> {
        if self.from.is_some() || self.to.is_some() || self.limit.is_some() || self.cursor.is_some() {
            return Err(ApiError::Invalid(
                "a stream goes on from now, or from Last-Event-ID: it takes no from, to, limit and cursor"
                    .to_owned(),
            ));
        }
        self.read(office)
    }

    fn read(self, office: &Office) -> Result<Query, ApiError> {
        if self.format.is_some() {
            return Err(ApiError::Invalid("format: only an export has one".to_owned()));
        }
        let (from, to) = (moment("from", self.from)?, until("to", self.to)?);
        if from.zip(to).is_some_and(|(from, to)| from > to) {
            return Err(ApiError::Invalid("from lies after to".to_owned()));
        }
        let limit = named::<usize>("limit", "a number", self.limit)?.unwrap_or(PAGE_ENTRIES_DEFAULT);
        if !(1..=PAGE_ENTRIES_MAX).contains(&limit) {
            return Err(ApiError::Invalid(format!("limit must lie between 1 and {PAGE_ENTRIES_MAX}")));
        }
        Ok(Query {
            from,
            to,
            category: named(
                "category",
                "one of secrets, pii, injection, exfiltration, custom",
                self.category,
            )?,
            severity: named("severity", "one of critical, high, medium, low", self.severity)?,
            event_type: filled("event_type", self.event_type)?,
            action: filled("action", self.action)?,
            detector: filled("detector", self.detector)?,
            route: filled("route", self.route)?,
            policy: filled("policy", self.policy)?,
            entity: filled("entity", self.entity)?.map(|entity| office.privacy.asked(&entity)),
            request_id: filled("request_id", self.request_id)?,
            node: filled("node", self.node)?,
            cursor: named("cursor", "the cursor of a page", self.cursor)?,
            limit,
            ..Query::default()
        })
    }
}

fn named<T: std::str::FromStr>(
    name: &str,
    expected: &str,
    text: Option<String>,
) -> Result<Option<T>, ApiError> {
    let wrong = || ApiError::Invalid(format!("{name}: expected {expected}"));
    text.map(|text| text.parse().map_err(|_| wrong())).transpose()
}

fn filled(name: &str, text: Option<String>) -> Result<Option<String>, ApiError> {
    match text {
        Some(text) if text.is_empty() => Err(ApiError::Invalid(format!("{name}: expected a text"))),
        text => Ok(text),
    }
}

/// Reads a moment from which on something is asked for: a bare date is the day's begin in UTC, a time without a zone is one
/// in UTC.
pub(super) fn moment(name: &str, text: Option<String>) -> Result<Option<Timestamp>, ApiError> {
    read_moment(name, text, |day| day.to_zoned(TimeZone::UTC).ok().map(|begin| begin.timestamp()))
}

/// Reads a moment up to which something is asked for: a bare date is the day's last moment.
pub(super) fn until(name: &str, text: Option<String>) -> Result<Option<Timestamp>, ApiError> {
    read_moment(name, text, |day| {
        let last = day.at(23, 59, 59, 999_000_000).to_zoned(TimeZone::UTC);
        last.ok().map(|last| last.timestamp())
    })
}

/// Reads a moment, a bare date by what `of_day` makes of it. The last hours of the year 9999, by which many mean for ever, are
/// the last moment there is.
fn read_moment(
    name: &str,
    text: Option<String>,
    of_day: fn(Date) -> Option<Timestamp>,
) -> Result<Option<Timestamp>, ApiError> {
    let in_utc = |text: &str| match text.parse::<Date>() {
        Ok(day) if text.len() <= DATE_BYTES => of_day(day),
        _ => text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok().map(|moment| moment.timestamp()),
    };
    let read = |text: String| {
        let read = text.parse::<Timestamp>().ok().or_else(|| in_utc(&text)).or_else(|| last_moment(&text));
        read.ok_or_else(|| ApiError::Invalid(not_a_moment(name, &text)))
    };
    text.map(read).transpose()
}

/// Says what was expected of a moment, and of a zone's sign that was read as the space it stands for in a query.
fn not_a_moment(name: &str, text: &str) -> String {
    let is_sign_lost = text.contains(' ') && text.replace(' ', "+").parse::<Timestamp>().is_ok();
    let hint =
        if is_sign_lost { "; a + of a zone is written %2B in a query, for + is a space there" } else { "" };
    format!("{name}: expected an ISO 8601 time{hint}")
}

/// Returns the last moment there is for one in UTC that lies behind it.
fn last_moment(text: &str) -> Option<Timestamp> {
    let is_date = text.len() == DATE_BYTES;
    let civil = text.strip_suffix('Z').or(is_date.then_some(text))?;
    let last = Timestamp::MAX.to_zoned(TimeZone::UTC).datetime();
    (civil.parse::<DateTime>().ok()? > last).then_some(Timestamp::MAX)
}

/// Returns an entry as the node of a name shows it.
pub fn show(entry: &Entry, node: &str) -> AuditEntry {
    let event = &entry.event;
    AuditEntry {
        id: entry.id.to_string(),
        node: entry.node.as_deref().unwrap_or(node).to_owned(),
        timestamp: rfc3339(entry.timestamp()),
        event_type: event.event_type.clone(),
        category: event.category.map(|category| category.as_str()),
        severity: event.severity.map(|severity| severity.as_str()),
        action: event.action.clone(),
        actor: event.actor.clone(),
        entity: event.entity.clone(),
        route: event.route.clone(),
        request_id: event.request_id.clone(),
        message: event.message.clone(),
        findings: event.findings.iter().map(show_finding).collect(),
        techniques: event.techniques.clone(),
        policy: event.policy.clone(),
        shadow: event.shadow.as_ref().map(show_shadow),
        revision: event.revision,
        latency_ms: event.latency_us.map(|latency| latency as f64 / 1000.0),
        hash: entry.hash.to_string(),
        previous_hash: entry.previous_hash.to_string(),
    }
}

fn show_shadow(shadow: &AuditShadow) -> AuditedShadow {
    let show =
        |it: &AuditForeseen| ForeseenFinding { detector: it.detector.clone(), action: it.action.clone() };
    AuditedShadow {
        policy: shadow.policy.clone(),
        action: shadow.action.clone(),
        findings: shadow.findings.iter().map(show).collect(),
    }
}

fn show_finding(finding: &AuditFinding) -> AuditedFinding {
    AuditedFinding {
        detector: finding.detector.clone(),
        category: finding.category.as_str(),
        severity: finding.severity.as_str(),
        confidence: f64::from(finding.confidence) / 100.0,
        action: finding.action.clone(),
        redacted_match: finding.redacted.clone(),
    }
}
