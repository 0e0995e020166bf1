//! Who has signed in: the session that a call's cookie belongs to, and what a call with one must show.
//!
//! A cookie is sent along whoever made the browser call, so a call that may change something has to come from a
//! page of ours: browsers say so in `Sec-Fetch-Site`, older ones in `Origin`. Calls with a key of their own need
//! not show that, for no browser adds the key by itself.

use http::HeaderMap;
use http::HeaderValue;
use http::Method;
use http::header;

use super::Office;
use super::error::ApiError;
use crate::access::cookie::Cookie;
use crate::access::cookie::CookieStyle;
use crate::access::credential::Principal;
use crate::access::patience::Patience;
use crate::access::session::SessionRecord;
use crate::access::session::SessionSecret;
use crate::access::session::shared::Untold;
use crate::access::url::Origin;

const FETCH_SITE: &str = "sec-fetch-site";
const SAME_ORIGIN: &str = "same-origin";

/// How browsers keep that somebody has signed in.
pub struct SignIn {
    /// How cookies travel; `None` where they would travel in the clear, and nobody can sign in.
    pub cookies: Option<CookieStyle>,
    /// How browsers call this plane, where the operator says so.
    pub public: Option<Origin>,
}

/// The session of the call under way.
#[derive(Clone, Debug)]
pub struct OwnSession {
    /// What is kept of it.
    pub record: SessionRecord,
    /// What the browser holds.
    pub secret: SessionSecret,
}

impl Office {
    /// Returns the session that a call's cookie belongs to.
    ///
    /// # Errors
    /// Nobody can tell whether it has ended.
    pub async fn own_session(
        &self,
        headers: &HeaderMap,
        patience: &Patience,
    ) -> Result<Option<OwnSession>, Untold> {
        let cookie = self.sign_in.cookies.and_then(|style| Cookie::Session.of_headers(style, headers));
        let Some(value) = cookie else { return Ok(None) };
        let resumed = self.authenticator.sessions.resume_with_all(value, self.clock.now(), patience).await?;
        Ok(resumed.map(|(record, secret)| OwnSession { record, secret }))
    }

    /// Returns the session of a call as this node knows it: what is to be ended is ended, whether or not the other nodes
    /// can be asked about it.
    pub fn session_to_end(&self, headers: &HeaderMap) -> Option<OwnSession> {
        let value = Cookie::Session.of_headers(self.sign_in.cookies?, headers)?;
        let (record, secret) = self.authenticator.sessions.resume(value, self.clock.now())?;
        Some(OwnSession { record, secret })
    }

    /// Returns whom a session stands for now; `None` when its holder is no more.
    pub fn holder(&self, session: &SessionRecord) -> Option<Principal> {
        self.authenticator.holder(session, self.clock.now())
    }

    /// Returns whom the session of a call stands for, where the call may be made with one.
    ///
    /// # Errors
    /// It may change something, and no page of ours makes it.
    pub fn session_holder(
        &self,
        session: &OwnSession,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<Option<Principal>, ApiError> {
        let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        if !reads {
            self.ensure_own_page(headers)?;
        }
        Ok(self.holder(&session.record))
    }

    /// Refuses what does not come from a page of ours.
    ///
    /// # Errors
    /// It does not, or does not show it.
    pub fn ensure_own_page(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let mut sites = headers.get_all(FETCH_SITE).iter().peekable();
        let is_own = match sites.peek() {
            Some(_) => sites.all(|site| site == SAME_ORIGIN),
            None => headers.get(header::ORIGIN).is_some_and(|origin| self.is_own_origin(origin, headers)),
        };
        if is_own { Ok(()) } else { Err(ApiError::ForeignOrigin) }
    }

    /// Tells whether somebody leaves because a page of ours, or a program, asked for it.
    ///
    /// `GET /auth/logout` is in the contract, and a link on any page could lead there with the cookie. Browsers
    /// tell where a navigation began; of those that do not, a navigation is known by asking for HTML. Neither
    /// counts as leaving unless it began here, nor does fetching ahead: then a page asks first.
    pub fn leaves_on_purpose(&self, headers: &HeaderMap) -> bool {
        let is_ahead = ["sec-purpose", "purpose"].iter().any(|name| headers.contains_key(*name));
        let mut sites = headers.get_all(FETCH_SITE).iter().peekable();
        let wants_page = headers
            .get(header::ACCEPT)
            .is_some_and(|accept| accept.to_str().is_ok_and(|accept| accept.contains("text/html")));
        match sites.peek() {
            Some(_) => !is_ahead && sites.all(|site| site == SAME_ORIGIN),
            None => !is_ahead && !wants_page,
        }
    }

    /// Tells whether an `Origin` is ours: what the operator says, or else the host that was called.
    fn is_own_origin(&self, origin: &HeaderValue, headers: &HeaderMap) -> bool {
        if let Some(public) = &self.sign_in.public {
            return origin == public.as_str();
        }
        let scheme = match self.sign_in.cookies {
            Some(CookieStyle::Secure) => "https",
            Some(CookieStyle::Loopback) | None => "http",
        };
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        !host.is_empty() && origin.as_bytes().eq_ignore_ascii_case(format!("{scheme}://{host}").as_bytes())
    }
}
