//! One management call: what handlers get, and what they give back.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::HeaderMap;
use http::HeaderValue;
use http::Response;
use http::StatusCode;
use http::header;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Map;
use serde_json::Value;

use super::Office;
use super::error::ApiError;
use super::resource::wire::Single;
use super::sign_in::OwnSession;
use crate::access::credential::Principal;
use crate::access::patience::Patience;
use crate::access::tier::Tier;

/// What every handler returns.
pub type Answer = Result<Response<Body>, ApiError>;

/// A call whose credential, permission and quota were checked.
pub struct Call {
    /// The parts of the process that handlers ask.
    pub office: Arc<Office>,
    /// Who calls; `None` on public paths.
    pub principal: Option<Principal>,
    /// The session it is made with; `None` for one with a key of its own.
    pub session: Option<OwnSession>,
    /// Whether nobody can tell if the session it is made with has ended: it counts for none then.
    pub is_untold: bool,
    /// Where from.
    pub address: Option<IpAddr>,
    /// How long it has waited for what nodes know together.
    pub patience: Patience,
    /// The path of the row that answers, its parameters in braces: what is asked for may name people.
    pub route: &'static str,
    /// The parameters in the path, by name.
    pub path: BTreeMap<String, String>,
    /// The query as it was written, without its question mark.
    pub query: String,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The call's name in answers, logs and the audit log.
    pub request_id: String,
}

impl Call {
    /// Reads the body as JSON of a closed shape.
    ///
    /// # Errors
    /// It is not.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        // A shape of named fields is read from an array, too: the fields in their order.
        if self.body.trim_ascii_start().first() == Some(&b'[') {
            return Err(ApiError::Invalid(
                "the request body has a value that does not fit: expected an object".to_owned(),
            ));
        }
        serde_json::from_slice(&self.body).map_err(|error| ApiError::Invalid(describe(&error)))
    }

    /// Reads the body as a JSON object of any names, each of which is there once, however deep.
    ///
    /// # Errors
    /// It is none, or has a name twice: who reads the first and who reads the last would not mean the same.
    pub fn object(&self) -> Result<Map<String, Value>, ApiError> {
        match self.json()? {
            Single(Value::Object(object)) => Ok(object),
            Single(_) => Err(ApiError::Invalid("the request body is no object".to_owned())),
        }
    }

    /// Reads the query as a closed shape.
    ///
    /// # Errors
    /// It is not.
    pub fn query<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        let pairs = axum::extract::Query::<T>::try_from_uri(&self.uri()?);
        pairs.map(|query| query.0).map_err(|error| {
            let text = error.body_text();
            let reason = text.rsplit_once("string: ").map_or(text.as_str(), |(_, reason)| reason);
            ApiError::Invalid(format!("the query is wrong: {reason}"))
        })
    }

    fn uri(&self) -> Result<http::Uri, ApiError> {
        format!("/?{}", self.query)
            .parse()
            .map_err(|_| ApiError::Invalid("the query is malformed".to_owned()))
    }

    /// Returns the same caller's call of another row, which reads.
    pub fn reading(&self, route: &'static str, query: &str) -> Self {
        Self {
            office: Arc::clone(&self.office),
            principal: self.principal.clone(),
            session: self.session.clone(),
            is_untold: self.is_untold,
            address: self.address,
            patience: self.patience.clone(),
            route,
            path: BTreeMap::new(),
            query: query.to_owned(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            request_id: self.request_id.clone(),
        }
    }

    /// Returns a parameter of the path.
    pub fn parameter(&self, name: &str) -> &str {
        self.path.get(name).map_or("", String::as_str)
    }

    /// Refuses what needs a higher tier than the credential has; no credential has more than the deployment.
    ///
    /// # Errors
    /// The tier is too low.
    pub fn ensure_tier(&self, least: Tier, feature: &'static str) -> Result<(), ApiError> {
        let deployment = self.office.tier();
        let has = self.principal.as_ref().map_or(deployment, |known| known.tier.min(deployment));
        if has < least { Err(ApiError::TierTooLow { feature, least, has }) } else { Ok(()) }
    }

    /// Returns the caller's name for records: a key's id, never a credential.
    pub fn actor(&self) -> Option<String> {
        self.principal.as_ref().map(|principal| principal.id())
    }
}

/// Says what is wrong with a body: the place, the kind and what was expected, never what was sent.
fn describe(error: &serde_json::Error) -> String {
    let place = format!("at line {} column {}", error.line(), error.column());
    if error.classify() != serde_json::error::Category::Data {
        return format!("the request body is not valid JSON {place}");
    }
    let text = error.to_string();
    let named = text.split('`').nth(1).unwrap_or_default();
    // What follows the last "expected" is ours; a value or a key that is quoted before it is not.
    let expected =
        text.rsplit_once(", expected ").map(|(_, rest)| rest.split(" at line ").next().unwrap_or(rest));
    let expected = expected.map(|expected| format!(": expected {}", plain(expected))).unwrap_or_default();
    let what = match text.split_once(['`', ':', ' ']) {
        Some(("duplicate", rest)) if rest.starts_with("name") => "has a name twice".to_owned(),
        Some(("missing", _)) => format!("lacks the field `{named}`"),
        Some(("duplicate", _)) => format!("has the field `{named}` twice"),
        Some(("unknown", _)) => "has an unknown field or name".to_owned(),
        _ => "has a value that does not fit".to_owned(),
    };
    format!("the request body {what} {place}{expected}")
}

/// Returns what was expected in the words of JSON.
fn plain(expected: &str) -> &str {
    match expected {
        "a sequence" => "a list",
        "f64" => "a number",
        "u16" | "u32" | "u64" | "usize" | "i64" => "a whole number",
        shape if shape.starts_with("struct ") => "an object",
        other => other,
    }
}

/// Answers 200 with a JSON body.
///
/// # Errors
/// The body cannot be written.
pub fn ok(body: &impl Serialize) -> Answer {
    with_status(StatusCode::OK, body)
}

/// Answers with a JSON body.
///
/// # Errors
/// The body cannot be written.
pub fn with_status(status: StatusCode, body: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(body).map_err(|_| ApiError::Internal)?;
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Answers that the caller has already what was asked for.
pub fn unchanged() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
}

/// Answers 200 with text of some media type.
///
/// # Errors
/// Never; it is an answer like any other.
pub fn text(media: &'static str, body: String) -> Answer {
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    Ok(response)
}
