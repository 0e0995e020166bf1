//! Which host names and origins a call may come for: a page of the world that has its name resolve to
//! this machine (DNS rebinding), or that posts here from a browser, is turned away.

use std::net::IpAddr;

use http::HeaderMap;
use http::Method;
use http::header;
use http::uri::Authority;

use super::Facts;
use super::Plane;
use super::error::ApiError;
use super::routes::Origins;
use crate::access::url::Origin;

/// Checks the Host and Origin of a call; `origins` tells whose pages may send it, should it change something.
///
/// # Errors
/// The Host is malformed or not ours; a changing call comes from a foreign origin.
pub fn check(
    facts: &Facts,
    public: Option<&Origin>,
    plane: Plane,
    method: &Method,
    headers: &HeaderMap,
    origins: Origins,
) -> Result<(), ApiError> {
    let Some(host) = host(headers)? else {
        // Browsers always name a host, old load balancers do not: nobody else's page is behind this call.
        return if headers.contains_key(header::ORIGIN) { Err(ApiError::ForeignOrigin) } else { Ok(()) };
    };
    if plane == Plane::Management && !is_own(facts, host.host()) {
        return Err(ApiError::Misdirected);
    }
    let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    match headers.get(header::ORIGIN) {
        // A proxy in front may name another host than browsers do.
        Some(origin) if public.is_some_and(|public| origin == public.as_str()) => Ok(()),
        Some(_) if origins == Origins::Any => Ok(()),
        Some(origin) if !reads && !is_same(origin.as_bytes(), &host) => Err(ApiError::ForeignOrigin),
        _ => Ok(()),
    }
}

/// Returns the host that is named, if one is.
fn host(headers: &HeaderMap) -> Result<Option<Authority>, ApiError> {
    let mut given = headers.get_all(header::HOST).iter();
    let Some(host) = given.next() else { return Ok(None) };
    let authority: Authority = host.as_bytes().try_into().map_err(|_| ApiError::BadHost)?;
    let is_odd = given.next().is_some() || authority.as_str().contains('@');
    if is_odd { Err(ApiError::BadHost) } else { Ok(Some(authority)) }
}

fn is_own(facts: &Facts, host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    if host == "localhost" || facts.hosts.contains(&host) {
        return true;
    }
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&host);
    // An address in the Host is no name that somebody else could resolve; where every address of the
    // machine is listened on, its own are not known here.
    let Ok(address) = bare.parse::<IpAddr>() else { return false };
    facts.addresses.iter().any(|own| *own == address || own.is_unspecified())
}

/// Tells whether an origin is the host that was called, whatever the scheme a proxy in front speaks.
fn is_same(origin: &[u8], host: &Authority) -> bool {
    let Ok(origin) = std::str::from_utf8(origin) else { return false };
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host.as_str()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use jiff::Timestamp;

    use super::super::Build;
    use super::*;

    fn facts(address: &str) -> Facts {
        Facts {
            trusted_proxies: Vec::new(),
            is_secure: false,
            build: Build { version: String::new(), commit: String::new(), build_date: String::new() },
            node_id: String::new(),
            started_at: Timestamp::UNIX_EPOCH,
            started: std::time::Duration::ZERO,
            public_metrics: false,
            without_record: false,
            streams_per_caller: 1,
            addresses: vec![address.parse().unwrap()],
            hosts: vec!["gate.example".to_owned()],
        }
    }

    fn status(address: &str, plane: Plane, method: Method, fields: &[(&'static str, &'static str)]) -> u16 {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let public = Origin::parse("https://front.example").unwrap();
        check(&facts(address), Some(&public), plane, &method, &headers, Origins::Own)
            .map_or_else(|error| error.status().as_u16(), |()| 200)
    }

    #[test]
    fn only_own_names_are_answered() {
        let cases = [
            ("localhost:9090", 200),
            ("LOCALHOST.", 200),
            ("127.0.0.1:9090", 200),
            ("gate.example", 200),
            ("evil.example", 421),
            ("127.0.0.2", 421),
            ("[::1]:9090", 421),
            ("u@localhost", 400),
            ("a b", 400),
        ];
        for (host, expected) in cases {
            let found = status("127.0.0.1", Plane::Management, Method::GET, &[("host", host)]);
            assert_eq!(found, expected, "{host}");
        }
        assert_eq!(status("0.0.0.0", Plane::Management, Method::GET, &[("host", "10.1.2.3")]), 200);
        assert_eq!(status("0.0.0.0", Plane::Management, Method::GET, &[("host", "evil.example")]), 421);
        assert_eq!(status("127.0.0.1", Plane::Data, Method::GET, &[("host", "evil.example")]), 200);
        assert_eq!(status("127.0.0.1", Plane::Management, Method::GET, &[]), 200);
        let page = [("origin", "http://evil.example")];
        assert_eq!(status("127.0.0.1", Plane::Management, Method::GET, &page), 403);
        let twice = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(status("127.0.0.1", Plane::Management, Method::GET, &twice), 400);
    }

    #[test]
    fn foreign_pages_change_nothing() {
        let host = ("host", "localhost:9090");
        let cases = [
            (Method::POST, "http://localhost:9090", 200),
            (Method::POST, "https://front.example", 200),
            (Method::POST, "http://front.example", 403),
            (Method::POST, "http://evil.example", 403),
            (Method::PUT, "null", 403),
            (Method::DELETE, "http://localhost:3000", 403),
            (Method::GET, "http://evil.example", 200),
        ];
        for (method, origin, expected) in cases {
            let found = status("127.0.0.1", Plane::Management, method, &[host, ("origin", origin)]);
            assert_eq!(found, expected, "{origin}");
        }
    }
}
