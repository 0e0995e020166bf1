//! The cookies of people who sign in: how they are named, set, taken back and found.
//!
//! Over HTTPS their names begin with `__Host-`, which browsers take from this host alone, for every path, and
//! never over plain HTTP: nobody beside us can plant one. A deployment on loopback without HTTPS uses the same
//! names without that beginning, and no `Secure`. What is set is `HttpOnly` and `SameSite=Lax`, but for a sign-in
//! under way that ends with a form from the provider's page.

use http::HeaderMap;
use http::header;

/// What `Set-Cookie` may say of each: that other origins never send it along, except when a link leads here.
const ATTRIBUTES: &str = "Path=/; HttpOnly; SameSite=Lax";
/// What is said of the one that has to come along when a provider's page sends a form here. Browsers take `None` with
/// `Secure` only, and that from this machine in the clear too.
const ATTRIBUTES_POSTED: &str = "Path=/; HttpOnly; SameSite=None; Secure";
const HOST_PREFIX: &str = "__Host-";

/// How cookies travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CookieStyle {
    /// Over HTTPS only.
    Secure,
    /// Over plain HTTP, on this machine only.
    Loopback,
}

/// Which cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cookie {
    /// The session.
    Session,
    /// A sign-in under way.
    Attempt,
    /// A sign-in under way at a provider whose page sends a form here.
    PostedAttempt,
}

/// The names without their beginning.
pub const NAMES: [&str; 3] = ["portcullis-session", "portcullis-login", "portcullis-saml"];

impl Cookie {
    /// Returns the name in a style.
    pub fn name(self, style: CookieStyle) -> String {
        let name = NAMES[self as usize];
        match style {
            CookieStyle::Secure => format!("{HOST_PREFIX}{name}"),
            CookieStyle::Loopback => name.to_owned(),
        }
    }

    /// Returns the value that a request carries; `None` where there is none, or two that differ.
    pub fn of_headers(self, style: CookieStyle, headers: &HeaderMap) -> Option<&str> {
        let wanted = self.name(style);
        let mut found = None;
        for (name, value) in pairs(headers) {
            match found {
                _ if name != wanted => {}
                Some(other) if other != value => return None,
                _ => found = Some(value),
            }
        }
        found.filter(|value| !value.is_empty())
    }

    /// Returns the `Set-Cookie` that makes a browser keep a value until it ends, or for some seconds.
    pub fn set(self, style: CookieStyle, value: &str, max_age_s: Option<u64>) -> String {
        let name = self.name(style);
        let attributes = match (self, style) {
            (Self::PostedAttempt, _) => ATTRIBUTES_POSTED.to_owned(),
            (Self::Session | Self::Attempt, CookieStyle::Secure) => format!("{ATTRIBUTES}; Secure"),
            (Self::Session | Self::Attempt, CookieStyle::Loopback) => ATTRIBUTES.to_owned(),
        };
        let age = max_age_s.map(|seconds| format!("; Max-Age={seconds}")).unwrap_or_default();
        format!("{name}={value}; {attributes}{age}")
    }

    /// Returns the `Set-Cookie` that takes it back.
    pub fn clear(self, style: CookieStyle) -> String {
        self.set(style, "", Some(0))
    }
}

/// Returns the value of a `Cookie` header without the cookies of ours; `None` where nothing is left.
pub fn without_ours(value: &str) -> Option<String> {
    let kept: Vec<&str> = value.split(';').filter(|pair| !is_ours(pair)).map(str::trim).collect();
    let kept = kept.join("; ");
    if kept.is_empty() { None } else { Some(kept) }
}

/// Tells whether a `Set-Cookie` sets a cookie of ours: browsers would keep it for every port of the host.
pub fn sets_ours(value: &[u8]) -> bool {
    // Some browsers send what has no name as if it had one.
    let pair = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    is_ours(&String::from_utf8_lossy(pair.strip_prefix(b"=").unwrap_or(pair)))
}

fn is_ours(pair: &str) -> bool {
    let name = pair.split('=').next().unwrap_or_default().trim();
    NAMES.contains(&name.strip_prefix(HOST_PREFIX).unwrap_or(name))
}

fn pairs(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let values = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(';')).filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((name.trim(), value.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(fields: &[&'static str], style: CookieStyle) -> Option<String> {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(header::COOKIE, header::HeaderValue::from_static(field));
        }
        Cookie::Session.of_headers(style, &headers).map(str::to_owned)
    }

    #[test]
    fn a_cookie_is_found_under_its_own_name_alone() {
        let secure = |fields: &[&'static str]| found(fields, CookieStyle::Secure);
        assert_eq!(secure(&["a=b; __Host-portcullis-session=x; c=d"]).as_deref(), Some("x"));
        assert_eq!(secure(&["a=b", "__Host-portcullis-session=x"]).as_deref(), Some("x"));
        // A name that somebody else could have planted is not looked at, and two values are none.
        assert_eq!(secure(&["portcullis-session=x"]), None);
        assert_eq!(secure(&["__Host-portcullis-session=x; __Host-portcullis-session=y"]), None);
        assert_eq!(secure(&["__Host-portcullis-session="]), None);
        assert_eq!(found(&["portcullis-session=x"], CookieStyle::Loopback).as_deref(), Some("x"));
        assert_eq!(found(&["__Host-portcullis-session=x"], CookieStyle::Loopback), None);
    }

    #[test]
    fn what_is_set_is_for_this_host_alone() {
        let set = Cookie::Session.set(CookieStyle::Secure, "v", None);
        assert_eq!(set, "__Host-portcullis-session=v; Path=/; HttpOnly; SameSite=Lax; Secure");
        let cleared = Cookie::Attempt.clear(CookieStyle::Loopback);
        assert_eq!(cleared, "portcullis-login=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0");
        let posted = Cookie::PostedAttempt.set(CookieStyle::Secure, "v", Some(9));
        assert_eq!(posted, "__Host-portcullis-saml=v; Path=/; HttpOnly; SameSite=None; Secure; Max-Age=9");
    }

    #[test]
    fn what_sets_ours_is_known() {
        for (value, expected) in [
            ("__Host-portcullis-session=x; Path=/", true),
            (" portcullis-login =x", true),
            ("=portcullis-saml=x", true),
            ("portcullis-session", true),
            ("a=portcullis-session", false),
            ("my-portcullis-session=x", false),
            ("", false),
        ] {
            assert_eq!(sets_ours(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn ours_are_taken_out_and_others_left() {
        let cases = [
            ("a=b; __Host-portcullis-session=x; c=d", Some("a=b; c=d")),
            ("portcullis-session=x;portcullis-login=y", None),
            ("a=b", Some("a=b")),
            ("x-portcullis-session=1", Some("x-portcullis-session=1")),
        ];
        for (given, kept) in cases {
            assert_eq!(without_ours(given).as_deref(), kept, "{given}");
        }
    }
}
