//! The parts of a page, made of what the management API answers whoever looks at it: what a role may not ask is left out,
//! and what an answer withholds is said in its words.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use axum::body::to_bytes;
use http::Method;
use jiff::Timestamp;
use maud::Markup;
use maud::html;
use serde_json::Value;
use serde_json::json;

use super::part::Cell;
use super::part::Form;
use super::part::Part;
use super::parts;
use crate::admin::call::Call;
use crate::admin::error::ApiError;
use crate::admin::routes::Route;
use crate::admin::routes::routes;

/// The most rows of a table that are shown: a script shows all of them.
const ROWS_MAX: usize = 100;
/// The largest answer that is shown, in bytes.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// How many digits behind the point are shown.
const DIGITS: i32 = 4;
const SIZES: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

type Answered = Result<Value, ApiError>;

/// Returns the parts of a page, by its name.
pub async fn parts(call: &Call, page: &str) -> Markup {
    let (all, mut answers) = (parts::of(page), BTreeMap::new());
    for part in all {
        if let Entry::Vacant(place) = answers.entry(part.asked) {
            place.insert(asked(call, part.asked).await);
        }
    }
    html! {
        @for (number, part) in all.iter().enumerate() {
            @match answers.get(&part.asked) {
                Some(Some(Ok(answer))) => (card(part, number, answer)),
                Some(Some(Err(error))) => p class="notice problem" { (error) },
                Some(None) | None => "",
            }
        }
    }
}

/// Asks as whoever looks would; `None`: who may not.
async fn asked(call: &Call, (path, query): (&'static str, &'static str)) -> Option<Answered> {
    let answers = |route: &Route| route.method == Method::GET && route.path == path;
    let route = routes().into_iter().find(answers)?;
    route.admit(Ok(call.principal.clone()), false).ok()?;
    Some(answered(&route, call.reading(path, query)).await)
}

async fn answered(route: &Route, call: Call) -> Answered {
    let answer = (route.handler)(call).await?;
    let body = to_bytes(answer.into_body(), ANSWER_BYTES_MAX).await.map_err(|_| ApiError::Internal)?;
    serde_json::from_slice(&body).map_err(|_| ApiError::Internal)
}

fn card(part: &Part, number: usize, answer: &Value) -> Markup {
    let name = format!("part-{number}");
    html! {
        section class={ "card" @if part.rows.is_some() { " flush" } } aria-labelledby=(name) {
            header { div { h2 id=(name) { (part.title) } } }
            @match part.rows {
                Some(rows) => (table(part, &rows_at(answer, rows))),
                None => dl class="facts" {
                    @for (name, at, form) in part.cells {
                        @if let Some(value) = answer.pointer(at).filter(|value| !value.is_null()) {
                            dt { (name) } dd { (written(value, *form)) }
                        }
                    }
                },
            }
        }
    }
}

/// Returns the rows that lie at a pointer; of an object its members.
fn rows_at<'a>(answer: &'a Value, at: &str) -> Vec<Cow<'a, Value>> {
    let member = |(name, value)| Cow::Owned(json!({"name": name, "value": value}));
    match answer.pointer(at) {
        Some(Value::Array(rows)) => rows.iter().map(Cow::Borrowed).collect(),
        Some(Value::Object(members)) => members.iter().map(member).collect(),
        _ => Vec::new(),
    }
}

fn table(part: &Part, rows: &[Cow<'_, Value>]) -> Markup {
    if rows.is_empty() {
        return html! { div class="empty" { p { (part.none) } } };
    }
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(part.title) {
            table class="stacked" role="table" aria-label=(part.title) {
                thead role="rowgroup" {
                    tr role="row" {
                        @for cell in part.cells {
                            th scope="col" role="columnheader" class=[right(cell)] { (cell.0) }
                        }
                    }
                }
                tbody role="rowgroup" {
                    @for row in rows.iter().take(ROWS_MAX) {
                        tr role="row" { @for cell in part.cells { (shown(row, cell)) } }
                    }
                }
            }
        }
        @if rows.len() > ROWS_MAX {
            p class="quiet small" { "And " (rows.len() - ROWS_MAX) " more." }
        }
    }
}

fn shown(row: &Value, cell: &Cell) -> Markup {
    let (name, at, form) = cell;
    let value = row.pointer(at).filter(|value| !value.is_null());
    html! {
        td role="cell" class=[right(cell)] data-label=(name) {
            @if let Some(value) = value { (written(value, *form)) }
        }
    }
}

fn right((_, _, form): &Cell) -> Option<&'static str> {
    let is_figure = matches!(
        form,
        Form::Count | Form::Decimal | Form::Percent | Form::Millis | Form::Seconds | Form::Bytes
    );
    is_figure.then_some("right number")
}

/// Writes a value; what has another form than it should is written as it is.
fn written(value: &Value, form: Form) -> Markup {
    let text = text(value);
    let number = value.as_f64();
    match (form, number) {
        (Form::Code, _) => html! { code { (text) } },
        (Form::Badge, _) => html! { span class={ "badge " (grade(&text)) } { (text.replace('_', " ")) } },
        (Form::Moment, _) => match text.parse::<Timestamp>() {
            Ok(moment) => html! { time class="number" datetime=(text) { (moment.strftime("%F %T")) " UTC" } },
            Err(_) => html! { (text) },
        },
        (Form::Decimal, Some(number)) => html! { (rounded(number)) },
        (Form::Percent, Some(number)) => html! { (rounded(number)) " %" },
        (Form::Millis, Some(number)) => html! { (rounded(number)) " ms" },
        (Form::Seconds, Some(number)) => html! { (number) " s" },
        (Form::Bytes, Some(number)) => html! { (size(number)) },
        _ => html! { (text) },
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(text).collect::<Vec<_>>().join(", "),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => other.to_string(),
    }
}

fn rounded(number: f64) -> f64 {
    let scale = 10_f64.powi(DIGITS);
    (number * scale).round() / scale
}

fn size(bytes: f64) -> String {
    let (mut size, mut units) = (bytes, SIZES.into_iter());
    let mut unit = units.next().unwrap_or_default();
    while size >= 1024.0
        && let Some(next) = units.next()
    {
        (size, unit) = (size / 1024.0, next);
    }
    format!("{:.1} {unit}", size)
}

/// Returns how a badge is coloured: a severity by its name, a state by whether it is one to worry about.
fn grade(text: &str) -> &'static str {
    match text.to_ascii_lowercase().as_str() {
        "critical" | "degraded" | "down" | "failed" | "block" | "fail" | "expired" | "denied" | "missing" => {
            "critical"
        }
        "high" => "high",
        "medium" | "monitor" | "partial" | "expiring" | "suspicious" | "redact" | "behind" => "medium",
        "low" => "low",
        "healthy" | "up" | "valid" | "pass" | "active" | "allow" | "trusted" | "connected" => "good",
        _ => "",
    }
}
