//! What all pages share: the frame with its menu, and the headers that keep other people's text from acting.

use axum::body::Body;
use http::HeaderMap;
use http::HeaderValue;
use http::Response;
use http::StatusCode;
use http::header;
use jiff::Timestamp;
use maud::DOCTYPE;
use maud::Markup;
use maud::html;

use super::assets::address;
use super::menu;
use super::menu::Entry;
use crate::access::credential::Principal;
use crate::access::tier::Tier;
use crate::access::url::Origin;
use crate::admin::call::Answer;
use crate::admin::error::ApiError;

/// What every page says to the browser beside its text. Nothing inline runs, nothing is framed, nothing is fetched
/// from elsewhere. (`Referrer-Policy: no-referrer` would make browsers hide the origin of our own forms.)
const HEADERS: [(&str, &str); 5] = [
    ("referrer-policy", "same-origin"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
];
/// Where browsers know Trusted Types, no script can make markup or script of a text, ours included.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; \
                      base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'; form-action 'self'";
/// The gate, as in the picture of the program.
const GATE: &str = "M2 14V6a6 6 0 0 1 12 0v8M5 3v9M8 2v12M11 3v9M2.5 6.5h11M2.5 10h11";

/// How somebody signed in.
pub struct Way {
    /// With what.
    pub by: &'static str,
    /// When it ends, where it does.
    pub until: Option<Timestamp>,
}

/// Who looks at a page.
struct Reader<'a> {
    principal: &'a Principal,
    tier: Tier,
    way: Way,
}

/// A page under way.
pub struct Page<'a> {
    title: &'a str,
    status: StatusCode,
    body: Markup,
    reader: Option<Reader<'a>>,
    entry: Option<&'static Entry>,
    script: Option<&'a str>,
    form_target: Option<Origin>,
}

impl<'a> Page<'a> {
    /// Begins a page with a title and what stands on it.
    pub fn new(title: &'a str, status: StatusCode, body: Markup) -> Self {
        Self { title, status, body, reader: None, entry: None, script: None, form_target: None }
    }

    /// Names who is signed in, and offers the menu and to sign out.
    pub fn of(mut self, principal: &'a Principal, deployment: Tier, way: Way) -> Self {
        self.reader = Some(Reader { principal, tier: principal.tier.min(deployment), way });
        self
    }

    /// Marks the page in the menu.
    pub fn at(mut self, entry: &'static Entry) -> Self {
        self.entry = Some(entry);
        self
    }

    /// Names the script that makes a page one that can be acted on.
    pub fn filled_by(mut self, script: &'a str) -> Self {
        self.script = Some(script);
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
                    meta name="color-scheme" content="light dark";
                    title { (self.title) " · Portcullis" }
                    link rel="icon" type="image/svg+xml" href=(address("icon.svg"));
                    link rel="stylesheet" href=(address("portcullis.css"));
                    @if self.reader.is_some() { script type="module" src=(address("app.js")) {} }
                }
                @match &self.reader {
                    Some(reader) => (self.framed(reader)),
                    None => body class="alone" {
                        main { p class="brand" { (picture(GATE)) "Portcullis" } (self.body) }
                    },
                }
            }
        }
    }

    fn framed(&self, reader: &Reader<'_>) -> Markup {
        let may = reader.principal.role.granted().join(" ");
        html! {
            body class="app" data-may=(may) data-page=[self.script] data-tier=(reader.tier.as_str()) {
                a class="skip" href="#main" { "Skip to the content" }
                header class="bar" {
                    button id="menu-button" type="button" aria-expanded="false" aria-controls="menu" {
                        (picture("M2 4h12M2 8h12M2 12h12")) span class="hidden" { "Menu" }
                    }
                    a class="brand" href="/" { (picture(GATE)) "Portcullis" }
                    p class="who" {
                        span class="name" id="who" { (reader.principal.name) }
                        " " span class="badge" id="role" { (reader.principal.role.as_str()) }
                        " " a id="sign-out" href="/auth/logout" { "Sign out" }
                    }
                }
                nav id="menu" aria-label="Pages" {
                    @for (group, pages) in menu::groups(reader.principal) {
                        p id={ "group-" (group) } { (group) }
                        ul aria-labelledby={ "group-" (group) } { @for page in pages { li { (self.link(page)) } } }
                    }
                    (account(reader))
                }
                main id="main" tabindex="-1" { (self.body) }
            }
        }
    }

    fn link(&self, page: &Entry) -> Markup {
        let is_here = self.entry.is_some_and(|entry| entry.id == page.id);
        html! {
            a href=(page.address()) aria-current=[is_here.then_some("page")] { (picture(page.icon)) (page.title) }
        }
    }
}

fn account(reader: &Reader<'_>) -> Markup {
    html! {
        dl class="account" {
            dt { "Signed in with" } dd { (reader.way.by) }
            dt { "Tier" } dd { (reader.tier.as_str()) }
            @if let Some(until) = reader.way.until {
                dt { "Until" } dd { time datetime=(until) { (until.strftime("%F %H:%M")) " UTC" } }
            }
        }
    }
}

/// Returns a small picture that says nothing beside the words next to it.
fn picture(outline: &str) -> Markup {
    html! {
        svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false" { path d=(outline) {} }
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
