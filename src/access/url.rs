//! Addresses as operators and identity providers write them: origins and endpoints, HTTPS but on this machine.

use std::fmt;
use std::net::IpAddr;

use http::Uri;
use http::uri::Authority;

/// The longest address that is read, in bytes.
pub const URL_BYTES_MAX: usize = 2048;

/// Why a text is no address that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlFault {
    /// It is no address of the form that is needed.
    #[error("expected an address like https://host.example")]
    Form,
    /// It would send secrets in the clear.
    #[error("expected https; http is taken for this machine alone")]
    Insecure,
    /// It has a path, a query or a fragment, and must not.
    #[error("expected an address without path, query or fragment")]
    Path,
}

/// A scheme, a host and perhaps a port: what browsers call an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    text: String,
    host: String,
    is_secure: bool,
}

/// An address that requests are sent to, or browsers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    text: String,
    authority: Authority,
    is_secure: bool,
}

impl Origin {
    /// Reads an origin; a final slash is passed over.
    ///
    /// # Errors
    /// See [`UrlFault`].
    pub fn parse(text: &str) -> Result<Self, UrlFault> {
        let endpoint = Endpoint::parse(text)?;
        let origin = endpoint.origin();
        let rest = text.get(origin.text.len()..).unwrap_or_default();
        if matches!(rest, "" | "/") { Ok(origin) } else { Err(UrlFault::Path) }
    }

    /// Returns it as browsers write it, without a final slash.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the host in lower case, without the port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Tells whether it is reached by HTTPS.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }
}

impl Endpoint {
    /// Reads an address: `https`, or `http` for a host of this machine; no user, no fragment.
    ///
    /// # Errors
    /// See [`UrlFault`].
    pub fn parse(text: &str) -> Result<Self, UrlFault> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#' && byte != b'\\');
        if !is_plain || text.len() > URL_BYTES_MAX {
            return Err(UrlFault::Form);
        }
        let uri: Uri = text.parse().map_err(|_| UrlFault::Form)?;
        let is_secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(UrlFault::Form),
        };
        let authority = uri.authority().filter(|it| !it.as_str().contains('@') && !it.host().is_empty());
        let authority = authority.ok_or(UrlFault::Form)?.clone();
        if !is_secure && !is_this_machine(authority.host()) {
            return Err(UrlFault::Insecure);
        }
        Ok(Self { text: text.to_owned(), authority, is_secure })
    }

    /// Returns it as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns its host.
    pub fn host(&self) -> &str {
        self.authority.host()
    }

    /// Returns its host and, where it is written, its port.
    pub fn authority(&self) -> &str {
        self.authority.as_str()
    }

    /// Returns its port, written or not.
    pub fn port(&self) -> u16 {
        self.authority.port_u16().unwrap_or(if self.is_secure { 443 } else { 80 })
    }

    /// Tells whether it is reached by HTTPS.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Returns the path and the query.
    pub fn path(&self) -> &str {
        let scheme = if self.is_secure { "https://" } else { "http://" };
        let rest = self.text.get(scheme.len() + self.authority.as_str().len()..).unwrap_or_default();
        if rest.starts_with('/') { rest } else { "/" }
    }

    /// Returns its origin.
    pub fn origin(&self) -> Origin {
        let scheme = if self.is_secure { "https" } else { "http" };
        let authority = self.authority.as_str().to_ascii_lowercase();
        let host = self.authority.host().to_ascii_lowercase();
        Origin { text: format!("{scheme}://{authority}"), host, is_secure: self.is_secure }
    }

    /// Returns it with parameters added to its query.
    pub fn with_query(&self, pairs: &[(&str, &str)]) -> String {
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        let joint = if self.text.contains('?') { '&' } else { '?' };
        format!("{}{joint}{query}", self.text)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Tells whether a host is this machine, by name or by address.
pub fn is_this_machine(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let is_loopback = bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_loopback || host.eq_ignore_ascii_case("localhost")
}

/// Returns where to go after a sign-in: a path of ours, or `/` for whatever is none.
///
/// Browsers read `//host`, `/\host` and `/<tab>/host` as addresses elsewhere; none of them passes. Nor does a
/// path that would end the session, or begin another, that was just begun.
pub fn safe_next(text: Option<&str>) -> &str {
    const HOME: &str = "/";
    const NEXT_BYTES_MAX: usize = 512;
    let Some(text) = text.filter(|text| text.len() <= NEXT_BYTES_MAX) else { return HOME };
    let is_path = text.starts_with('/') && !text.starts_with("//");
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_sign_in = text.starts_with("/auth/") || text.starts_with("/login");
    let path = text.split(['?', '#']).next().unwrap_or_default();
    let goes_round = path.split('/').any(|part| {
        let part = part.to_ascii_lowercase().replace("%2e", ".");
        part == "." || part == ".."
    });
    if is_path && is_plain && !is_sign_in && !goes_round { text } else { HOME }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_be_overheard_is_an_endpoint() {
        let fault = |text: &str| Endpoint::parse(text).err();
        for good in ["https://id.example/a?b=c", "http://127.0.0.1:9/x", "http://[::1]:9", "http://LOCALHOST"]
        {
            assert_eq!(fault(good), None, "{good}");
        }
        for bad in [
            "",
            "id.example",
            "/path",
            "ftp://a",
            "https://",
            "https://u:p@a/",
            "https://a/#f",
            "https://a\\b",
        ] {
            assert_eq!(fault(bad), Some(UrlFault::Form), "{bad}");
        }
        for plain in ["http://id.example/", "http://127.0.0.1.example/", "http://10.0.0.1/"] {
            assert_eq!(fault(plain), Some(UrlFault::Insecure), "{plain}");
        }
        let endpoint = Endpoint::parse("https://id.example:8443/a/b?c=d").unwrap();
        assert_eq!((endpoint.host(), endpoint.port(), endpoint.path()), ("id.example", 8443, "/a/b?c=d"));
        assert_eq!(endpoint.with_query(&[("e", "f&g")]), "https://id.example:8443/a/b?c=d&e=f%26g");
        assert_eq!(Endpoint::parse("https://id.example").unwrap().path(), "/");
    }

    #[test]
    fn an_origin_has_no_path() {
        assert_eq!(Origin::parse("https://Gate.example/").unwrap().as_str(), "https://gate.example");
        assert_eq!(Origin::parse("https://gate.example/x"), Err(UrlFault::Path));
        assert_eq!(Origin::parse("https://gate.example?x"), Err(UrlFault::Path));
        assert_eq!(Origin::parse("http://gate.example"), Err(UrlFault::Insecure));
    }

    #[test]
    fn nobody_is_sent_elsewhere() {
        for kept in ["/", "/audit?from=x&to=y", "/a/b", "/a.b/..c?d=/../e"] {
            assert_eq!(safe_next(Some(kept)), kept);
        }
        let long = format!("/{}", "a".repeat(512));
        for elsewhere in [
            "",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "javascript:alert(1)",
            "/\t/evil.example",
            "evil",
            "/auth/logout",
            "/login",
            "/./auth/logout",
            "/x/../auth/logout",
            "/%2E/auth/logout",
            "/x/.%2e/login",
            "/a b",
            "/\u{e9}",
            "\\\\evil",
            "/\r\nx: y",
            &long,
        ] {
            assert_eq!(safe_next(Some(elsewhere)), "/", "{elsewhere:?}");
        }
        assert_eq!(safe_next(None), "/");
    }
}
