//! A report as a page that can be read on a screen and printed; it loads nothing and runs nothing, and says so.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::header;
use sha2::Digest;
use sha2::Sha256;

use crate::admin::call::Answer;
use crate::admin::call::text;
use crate::admin::error::ApiError;
use crate::govern::compliance::report::Report;
use crate::govern::compliance::report::Status;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
color:#1a1a1a;background:#fff}h1{margin-bottom:0}table{border-collapse:collapse;width:100%}\
td,th{border-bottom:1px solid #ccc;padding:.4rem .6rem;text-align:left;vertical-align:top}\
ul{margin:.2rem 0;padding-left:1.2rem;font-size:.9em}code{overflow-wrap:anywhere}\
.pass{color:#116329}.fail{color:#a40e26}.partial{color:#7a4d00}.not_assessed{color:#57606a}\
tr{break-inside:avoid}@media print{body{margin:0;max-width:none;font-size:11px}}";

/// Answers with the page, of which nothing acts but its own style.
///
/// # Errors
/// Never; it is an answer like any other.
pub(super) fn answer(report: &Report) -> Answer {
    let mut answer = text("text/html; charset=utf-8", page(report))?;
    let style = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let policy = HeaderValue::from_str(&policy).map_err(|_| ApiError::Internal)?;
    answer.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    Ok(answer)
}

/// Returns the page.
fn page(report: &Report) -> String {
    let mut page = String::new();
    let name = escaped(&report.name);
    // Writing to a text cannot fail.
    let _ = write!(
        page,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{name}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>\
         <h1>{name}</h1><p>{} · <a href=\"{}\">source</a></p>\
         <p>Judged at {}; events since {}. <strong>{:.1} %</strong> of the controls that were assessed pass; \
         {:.1} % of all controls were assessed.</p><p>",
        escaped(&report.version),
        escaped(&report.source),
        report.at,
        report.since,
        report.score,
        report.coverage,
    );
    for status in Status::ALL {
        let _ = write!(page, "{}: {} &nbsp; ", label(status), report.count(status));
    }
    page.push_str(
        "</p><table><thead><tr><th>Control</th><th>Status</th><th>Evidence</th></tr></thead><tbody>",
    );
    for control in &report.controls {
        let _ = write!(
            page,
            "<tr><td><strong>{}</strong><br>{}</td><td class=\"{}\">{}</td><td>",
            escaped(&control.id),
            escaped(&control.title),
            control.status.as_str(),
            label(control.status),
        );
        if !control.evidence.is_empty() {
            page.push_str("<ul>");
            for evidence in &control.evidence {
                let calls: Vec<String> =
                    evidence.links.iter().map(|link| format!("<code>GET {}</code>", escaped(link))).collect();
                let _ = write!(
                    page,
                    "<li>{} <em>{}</em>: {}. {}</li>",
                    escaped(evidence.asks),
                    evidence.verdict.as_str(),
                    escaped(&evidence.seen),
                    calls.join(", "),
                );
            }
            page.push_str("</ul>");
        }
        page.push_str("</td></tr>");
    }
    page.push_str("</tbody></table></body></html>");
    page
}

fn label(status: Status) -> &'static str {
    match status {
        Status::Pass => "passes",
        Status::Partial => "in part",
        Status::Fail => "fails",
        Status::NotAssessed => "not assessed",
    }
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}
