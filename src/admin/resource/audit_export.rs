//! `/api/v1/audit/export` and `/api/v1/audit/checkpoint`: the log for others, and a signed word on where it is.
//!
//! An export is streamed, oldest entry first. As JSON lines it can be verified offline (`portcullis audit verify`);
//! as CSV it is for people and their spreadsheets: no cell begins with a sign that a spreadsheet takes for a formula.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::HeaderValue;
use http::Response;
use http::header;
use serde::Serialize;
use sha2::Digest;
use sha2::Sha256;
use utoipa::ToSchema;

use super::audit::Asked;
use super::audit::is_of_another;
use super::audit::show;
use crate::admin::Office;
use crate::admin::adapter::Streamed;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::error::ApiError;
use crate::clock::rfc3339;
use crate::govern::audit::AuditShadow;
use crate::govern::audit::Checkpoint;
use crate::govern::audit::Export;
use crate::govern::audit::ExportHead;
use crate::govern::audit::Exported;
use crate::govern::audit::Hash;
use crate::govern::audit::Query;
use crate::id::Ulid;

const COLUMNS: [&str; 22] = [
    "id",
    "node",
    "timestamp",
    "event_type",
    "category",
    "severity",
    "action",
    "actor",
    "entity",
    "route",
    "request_id",
    "message",
    "findings",
    "techniques",
    "policy",
    "shadow_policy",
    "shadow_action",
    "shadow_findings",
    "revision",
    "latency_ms",
    "hash",
    "previous_hash",
];

/// Where the chain is, signed.
#[derive(Serialize, ToSchema)]
pub struct CheckpointEntry {
    /// The format's version.
    pub v: u32,
    /// The node.
    pub origin: String,
    /// When it was signed, in ISO 8601.
    pub at: String,
    /// The newest entry.
    pub last_id: String,
    /// Its hash, in hexadecimal.
    pub last_hash: String,
    /// The key's thumbprint, as in `/.well-known/jwks.json`.
    pub key_id: String,
    /// The public key, as `x` of its JWK.
    pub public_key: String,
    /// An Ed25519 signature in base64url.
    pub signature: String,
}

/// What an export is written as.
#[derive(Clone, Copy, PartialEq)]
enum Format {
    Lines,
    Csv,
}

/// An export on its way.
struct Writing {
    office: Arc<Office>,
    export: Export,
    format: Format,
    digest: Sha256,
    last: (Ulid, Hash),
    head: Option<String>,
    is_over: bool,
}

/// `GET /api/v1/audit/checkpoint`.
pub async fn checkpoint(call: Call) -> Answer {
    let signed = call.office.notary.sign().await.map_err(|_| ApiError::Unavailable)?;
    let signed = signed.ok_or_else(|| ApiError::NotFound("the audit log is empty".to_owned()))?;
    let line: serde_json::Value = serde_json::from_str(&signed.to_line()).map_err(|_| ApiError::Internal)?;
    ok(&line)
}

/// Where the chains of all nodes were, signed.
#[derive(Serialize, ToSchema)]
pub struct ClusterCheckpointEntry {
    /// The format's version.
    pub v: u32,
    /// The node that made it.
    pub origin: String,
    /// When it was signed, in ISO 8601.
    pub at: String,
    /// Each node's chain.
    pub nodes: Vec<AnchorEntry>,
    /// The key's thumbprint, as in `/.well-known/jwks.json`.
    pub key_id: String,
    /// The public key, as `x` of its JWK.
    pub public_key: String,
    /// An Ed25519 signature in base64url.
    pub signature: String,
}

/// Where one chain was.
#[derive(Serialize, ToSchema)]
pub struct AnchorEntry {
    /// The node.
    pub node: String,
    /// The number of the newest entry it had shipped.
    pub sequence: u64,
    /// That entry.
    pub last_id: String,
    /// Its hash, in hexadecimal.
    pub last_hash: String,
}

/// `GET /api/v1/audit/checkpoint/cluster`.
pub async fn cluster_checkpoint(call: Call) -> Answer {
    let missing = || ApiError::NotFound("no checkpoint of several nodes was made".to_owned());
    let notary = call.office.cluster_notary.clone().ok_or_else(missing)?;
    let newest = tokio::task::spawn_blocking(move || notary.newest()).await;
    let newest = newest.map_err(|_| ApiError::Internal)?.map_err(|_| ApiError::Unavailable)?;
    let line = newest.ok_or_else(missing)?.to_line();
    let shown: serde_json::Value = serde_json::from_str(&line).map_err(|_| ApiError::Internal)?;
    ok(&shown)
}

/// `GET /api/v1/audit/export`.
pub async fn export(call: Call) -> Answer {
    let (format, query) = call.query::<Asked>()?.read_export(&call.office)?;
    let format = match format.as_deref() {
        None | Some("jsonl") => Format::Lines,
        Some("csv") => Format::Csv,
        Some(_) => return Err(ApiError::Invalid("format: expected jsonl or csv".to_owned())),
    };
    call.ensure_recordable()?;
    // A node's entries are a whole chain.
    let filtered = Query { node: None, ..query.clone() } != Query::default();
    if is_of_another(&call.office, &query) {
        return Err(ApiError::NotFound("there is no such node".to_owned()));
    }
    call.office.record(call.event("audit_exported", "the audit log was exported".to_owned())).await;
    let export = call.office.audit.export(query).await.map_err(|_| ApiError::Unavailable)?;
    let now = call.office.clock.now();
    let (extension, media, head) = match format {
        Format::Lines => ("jsonl", "application/x-ndjson", head_line(&call.office, filtered, &export)?),
        Format::Csv => ("csv", "text/csv; charset=utf-8", format!("{}\r\n", COLUMNS.join(","))),
    };
    let writing = Writing {
        office: call.office,
        export,
        format,
        digest: Sha256::new(),
        last: (Ulid(0), Hash::default()),
        head: Some(head),
        is_over: false,
    };
    let pieces = stream::unfold(writing, |mut writing| async move {
        let piece = writing.next().await?;
        Some((Ok::<Bytes, Infallible>(piece), writing))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    response.extensions_mut().insert(Streamed);
    let name = format!("attachment; filename=\"audit-{}.{extension}\"", now.strftime("%Y-%m-%d"));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers
        .insert(header::CONTENT_DISPOSITION, HeaderValue::from_str(&name).map_err(|_| ApiError::Internal)?);
    Ok(response)
}

fn head_line(office: &Office, filtered: bool, export: &Export) -> Result<String, ApiError> {
    let head = ExportHead {
        portcullis_audit_export: if export.is_of_all_nodes() { 2 } else { 1 },
        origin: office.notary.origin().to_owned(),
        exported_at: rfc3339(office.clock.now()),
        filtered,
    };
    Ok(serde_json::to_string(&head).map_err(|_| ApiError::Internal)? + "\n")
}

impl Writing {
    /// Returns the next bytes; `None` once all are written. An export that breaks off lacks its last line.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(head) = self.head.take() {
            return Some(self.counted(head));
        }
        if self.is_over {
            return None;
        }
        let broke_off = |error: &dyn std::fmt::Display| tracing::warn!(%error, "an audit export broke off");
        let batch = self.export.next_batch().await.inspect_err(|error| broke_off(error)).ok()?;
        if let Some(last) = batch.last() {
            self.last = (last.entry.id, last.entry.hash);
            let mut text = String::new();
            for exported in &batch {
                match self.format {
                    Format::Lines => {
                        text += &exported.to_line().inspect_err(|error| broke_off(error)).ok()?;
                        text.push('\n');
                    }
                    Format::Csv => text += &row(exported, self.office.notary.origin()),
                }
            }
            return Some(self.counted(text));
        }
        self.is_over = true;
        (self.format == Format::Lines).then(|| self.seal())
    }

    fn counted(&mut self, text: String) -> Bytes {
        self.digest.update(text.as_bytes());
        text.into()
    }

    fn seal(&self) -> Bytes {
        let sha256 = Hash(self.digest.clone().finalize().into());
        let sealed: Checkpoint = self.office.notary.seal(self.last.0, self.last.1, Some(sha256));
        format!("{{\"checkpoint\":{}}}\n", sealed.to_line()).into()
    }
}

fn row(exported: &Exported, node: &str) -> String {
    let entry = show(&exported.entry, node);
    let text = |text: Option<String>| text.unwrap_or_default();
    let findings = entry.findings.iter().map(|found| format!("{} {}", found.detector, found.redacted_match));
    let shadow =
        |told: fn(&AuditShadow) -> String| exported.entry.event.shadow.as_ref().map(told).unwrap_or_default();
    let cells: [String; COLUMNS.len()] = [
        entry.id,
        entry.node,
        entry.timestamp,
        entry.event_type,
        entry.category.unwrap_or_default().to_owned(),
        entry.severity.unwrap_or_default().to_owned(),
        entry.action,
        text(entry.actor),
        text(entry.entity),
        text(entry.route),
        text(entry.request_id),
        entry.message,
        findings.collect::<Vec<_>>().join("; "),
        entry.techniques.join(" "),
        text(entry.policy),
        shadow(|shadow| shadow.policy.clone()),
        shadow(|shadow| shadow.action.clone()),
        shadow(AuditShadow::told),
        entry.revision.map(|revision| revision.to_string()).unwrap_or_default(),
        entry.latency_ms.map(|latency| latency.to_string()).unwrap_or_default(),
        entry.hash,
        entry.previous_hash,
    ];
    cells.map(|text| cell(&text)).join(",") + "\r\n"
}

/// Returns a text as a cell (RFC 4180). One that a spreadsheet would take for a formula gets an apostrophe before it,
/// as OWASP has it; control characters become spaces.
fn cell(text: &str) -> String {
    let is_formula = text
        .starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}']);
    let plain = text.replace(|letter: char| letter.is_control(), " ").replace('"', "\"\"");
    if is_formula { format!("\"'{plain}\"") } else { format!("\"{plain}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula_or_ends_early() {
        let cases = [
            ("", "\"\""),
            ("plain, text", "\"plain, text\""),
            ("=1+1", "\"'=1+1\""),
            ("+1", "\"'+1\""),
            ("-1", "\"'-1\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("\t=1", "\"' =1\""),
            ("a\"b", "\"a\"\"b\""),
            ("a\r\n=b", "\"a  =b\""),
        ];
        for (text, expected) in cases {
            assert_eq!(cell(text), expected);
        }
    }
}
