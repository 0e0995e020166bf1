//! Which route fits which host and path, and which upstreams can be written.

use proptest::prelude::*;

use super::*;
use crate::policy::ruleset::closest_route;
use crate::policy::ruleset::order_routes;

fn route(name: &str, host: Option<&str>, prefix: &str) -> Route {
    Route {
        name: name.to_owned(),
        host: host.map(str::to_owned),
        path_prefix: prefix.to_owned(),
        strip_prefix: true,
        upstreams: vec!["http://127.0.0.1:1".parse().unwrap()],
        upstream_ca_file: None,
        h2: UpstreamH2::Auto,
        dialect: RouteDialect::Auto,
        auth: RouteAuth::Transparent,
        aws: None,
        policy: "default".parse().unwrap(),
        websocket: false,
        websocket_uninspected: false,
        timeouts: RouteTimeouts::default(),
    }
}

fn table() -> Vec<Route> {
    order_routes(vec![
        route("any", None, "/"),
        route("v1", None, "/v1"),
        route("v1-chat", None, "/v1/chat"),
        route("exact", Some("api.example.com"), "/"),
        route("wild", Some("*.example.com"), "/v1"),
        route("wilder", Some("*.eu.example.com"), "/"),
    ])
}

#[test]
fn the_closest_route_wins() {
    let cases = [
        (None, "/", "any"),
        (None, "/v1", "v1"),
        (None, "/v1/", "v1"),
        (None, "/v10", "any"),
        (None, "/v1/chat/completions", "v1-chat"),
        (None, "/v1/chatter", "v1"),
        (Some("other.org"), "/v1/x", "v1"),
        (Some("api.example.com"), "/v1/chat", "exact"),
        (Some("b.example.com"), "/v1/chat", "wild"),
        (Some("b.example.com"), "/v2", "any"),
        (Some("example.com"), "/v2", "any"),
        (Some("a.eu.example.com"), "/v1", "wilder"),
    ];
    let table = table();
    for (host, path, expected) in cases {
        let found = closest_route(&table, host, path).map(|route| route.name.as_str());
        assert_eq!(found, Some(expected), "{host:?} {path}");
    }
    assert_eq!(closest_route(&[route("x", Some("h"), "/")], None, "/"), None);
}

#[test]
fn a_stripped_prefix_leaves_a_path() {
    let stripped = route("x", None, "/openai");
    for (path, expected) in [("/openai", "/"), ("/openai/", "/"), ("/openai/v1/x", "/v1/x")] {
        assert_eq!(stripped.forwarded(path), expected);
    }
    assert_eq!(route("x", None, "/").forwarded("/a"), "/a");
    let kept = Route { strip_prefix: false, ..stripped };
    assert_eq!(kept.forwarded("/openai/v1"), "/openai/v1");
}

#[test]
fn upstreams_are_urls_without_credentials() {
    let cases = [
        ("https://api.example.com", Ok("https://api.example.com:443")),
        ("http://API.example.com:8000/base/", Ok("http://api.example.com:8000/base")),
        ("http://[::1]:11434", Ok("http://[::1]:11434")),
        ("https://user:pass@example.com", Err(InvalidUpstream::Credentials)),
        ("https://example.com/?key=1", Err(InvalidUpstream::Query)),
        ("ftp://example.com", Err(InvalidUpstream::Url)),
        ("example.com", Err(InvalidUpstream::Url)),
        ("http://example.com:0", Err(InvalidUpstream::Url)),
        ("http://example.com:99999", Err(InvalidUpstream::Url)),
        ("http://example.com/a/../b", Err(InvalidUpstream::Url)),
        ("", Err(InvalidUpstream::Url)),
    ];
    for (text, expected) in cases {
        let parsed = text.parse::<Upstream>().map(|upstream| upstream.to_string());
        assert_eq!(parsed, expected.map(str::to_owned), "{text}");
    }
}

proptest! {
    #[test]
    fn matching_follows_from_the_set_of_routes_alone(
        prefixes in prop::collection::btree_set("(/[ab]{1,2}){0,3}", 1..6),
        path in "(/[ab]{1,2}){1,4}",
        turn in 0usize..6,
    ) {
        let mut routes: Vec<Route> = prefixes
            .iter()
            .map(|prefix| route(prefix, None, if prefix.is_empty() { "/" } else { prefix }))
            .collect();
        let one = order_routes(routes.clone());
        let turns = turn % routes.len();
        routes.rotate_left(turns);
        let two = order_routes(routes);
        let found = closest_route(&one, None, &path);
        prop_assert_eq!(found, closest_route(&two, None, &path));
        let longest = prefixes
            .iter()
            .filter(|prefix| path == **prefix || path.starts_with(&format!("{prefix}/")))
            .max_by_key(|prefix| prefix.len());
        prop_assert_eq!(found.map(|route| &route.name), longest);
    }
}
