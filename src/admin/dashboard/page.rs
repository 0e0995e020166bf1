//! What all pages share: the frame, the stylesheet, and the headers that keep other people's text from acting.

use axum::body::Body;
use http::HeaderMap;
use http::HeaderValue;
use http::Response;
use http::StatusCode;
use http::header;
use maud::DOCTYPE;
use maud::Markup;
use maud::html;

use crate::access::credential::Principal;
use crate::access::url::Origin;
use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::error::ApiError;

/// Where the stylesheet is.
pub const STYLESHEET: &str = "/assets/portcullis.css";
const STYLE: &str = include_str!("portcullis.css");

/// What every page says to the browser beside its text. Nothing inline runs, nothing is framed, nothing is fetched
/// from elsewhere. (`Referrer-Policy: no-referrer` would make browsers hide the origin of our own forms.)
const HEADERS: [(&str, &str); 5] = [
    ("referrer-policy", "same-origin"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
];
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; \
                      base-uri 'none'; frame-ancestors 'none'; form-action 'self'";

/// A page under way.
pub struct Page<'a> {
    title: &'a str,
    status: StatusCode,
    body: Markup,
    principal: Option<&'a Principal>,
    form_target: Option<Origin>,
}

impl<'a> Page<'a> {
    /// Begins a page with a title and what stands on it.
    pub fn new(title: &'a str, status: StatusCode, body: Markup) -> Self {
        Self { title, status, body, principal: None, form_target: None }
    }

    /// Names who is signed in, and offers to sign out.
    pub fn of(mut self, principal: &'a Principal) -> Self {
        self.principal = Some(principal);
        self
    }

    /// Lets the answer to a form of the page lead to another origin: browsers check that too.
    pub fn with_form_target(mut self, origin: Option<Origin>) -> Self {
        self.form_target = origin;
        self
    }

    /// Returns the page as an answer.
    ///
    /// # Errors
    /// Never; it is an answer like any other.
    pub fn answer(self) -> Answer {
        let text = self.markup().into_string();
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        secure(headers, self.form_target.as_ref());
        Ok(response)
    }

    fn markup(&self) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (self.title) " · Portcullis" }
                    link rel="stylesheet" href=(STYLESHEET);
                }
                body {
                    header {
                        a href="/" { "Portcullis" }
                        @if let Some(principal) = self.principal {
                            nav {
                                span { (principal.name) " (" (principal.role.as_str()) ")" }
                                a id="sign-out" href="/auth/logout" { "Sign out" }
                            }
                        }
                    }
                    main { (self.body) }
                }
            }
        }
    }
}

/// Puts the security headers of a page on an answer.
fn secure(headers: &mut HeaderMap, form_target: Option<&Origin>) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let policy = form_target.map_or_else(|| POLICY.to_owned(), |origin| format!("{POLICY} {origin}"));
    let policy = HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static(POLICY));
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
}

/// Returns an answer that leads on, by GET.
///
/// # Errors
/// The place cannot be written in a header.
pub fn redirect(place: &str) -> Answer {
    let place = HeaderValue::from_str(place).map_err(|_| ApiError::Internal)?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(header::LOCATION, place);
    secure(response.headers_mut(), None);
    Ok(response)
}

/// Returns an answer that sets cookies too.
///
/// # Errors
/// That of the answer, or a cookie cannot be written in a header.
pub fn with_cookies(answer: Answer, cookies: &[String]) -> Answer {
    let mut response = answer?;
    for cookie in cookies {
        let value = HeaderValue::from_str(cookie).map_err(|_| ApiError::Internal)?;
        response.headers_mut().append(header::SET_COOKIE, value);
    }
    Ok(response)
}

/// `GET /assets/portcullis.css`.
pub async fn stylesheet(_call: Call) -> Answer {
    let mut response = Response::new(Body::from(STYLE));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/css; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=300"));
    Ok(response)
}
