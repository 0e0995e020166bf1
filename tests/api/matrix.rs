//! Every path × every method × every credential: 401, 403, 404, 405 where they belong, and nowhere else.
//!
//! The table is written from the contract, not taken from the product.

use std::collections::BTreeSet;

use axum::body::Body;
use http::Request;
use portcullis::access::tier::Tier;
use portcullis::admin::routes::routes;

use crate::world::World;

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"];
const CREDENTIALS: [&str; 8] =
    ["nothing", "garbage", "admin", "operator", "auditor", "analyst", "service", "agent"];

/// `*`: everybody; `+`: every credential; else the roles beside admin.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("GET", "/health", "*"),
    ("GET", "/api/v1/health", "*"),
    ("GET", "/ready", "*"),
    ("GET", "/version", "*"),
    ("GET", "/stats", "operator analyst"),
    ("GET", "/api/v1/status", "operator auditor analyst"),
    ("GET", "/api/v1/license/status", "operator auditor analyst"),
    ("GET", "/api/v1/tier", "operator auditor analyst"),
    ("GET", "/api/v1/sla", "operator auditor analyst"),
    ("GET", "/metrics", "operator"),
    ("GET", "/api/v1/metrics", "operator"),
    ("GET", "/openapi.json", "+"),
    ("POST", "/v1/scan", "operator analyst service"),
    ("POST", "/api/v1/scan", "operator analyst service"),
    ("POST", "/api/v1/screen", "operator analyst service"),
    ("POST", "/api/v1/screen/response", "operator analyst service"),
    ("GET", "/api/v1/config", "operator"),
    ("PUT", "/api/v1/config", "operator"),
    ("GET", "/api/v1/config/revisions", "operator"),
    ("POST", "/api/v1/config/rollback", "operator"),
    ("GET", "/api/v1/profiles", "operator"),
    ("POST", "/api/v1/profiles/apply", "operator"),
    ("GET", "/api/v1/policies", "operator"),
    ("POST", "/api/v1/policies", "operator"),
    ("GET", "/api/v1/policies/{id}", "operator"),
    ("PUT", "/api/v1/policies/{id}", "operator"),
    ("DELETE", "/api/v1/policies/{id}", "operator"),
    ("GET", "/api/v1/guardrails", "operator auditor"),
    ("GET", "/api/v1/keys", "operator"),
    ("POST", "/api/v1/keys", ""),
    ("GET", "/api/v1/keys/{id}", "operator"),
    ("DELETE", "/api/v1/keys/{id}", ""),
    ("GET", "/api/v1/audit", "operator auditor"),
    ("GET", "/api/v1/audit/stream", "operator auditor"),
    ("GET", "/api/v1/persistence", "operator auditor"),
    ("GET", "/", "*"),
    ("GET", "/assets/portcullis.css", "*"),
    ("GET", "/login", "*"),
    ("POST", "/login", "*"),
    ("GET", "/auth/login", "*"),
    ("GET", "/auth/callback", "*"),
    ("GET", "/auth/logout", "*"),
    ("POST", "/auth/logout", "*"),
    ("GET", "/api/v1/sessions", ""),
    ("DELETE", "/api/v1/sessions/{id}", ""),
    ("POST", "/api/v1/auth/token", "*"),
    ("POST", "/api/v1/auth/revoke", "+"),
    ("GET", "/api/v1/auth/whoami", "+"),
    ("GET", "/api/v1/users", ""),
    ("POST", "/api/v1/users", ""),
    ("GET", "/api/v1/users/{id}", ""),
    ("PATCH", "/api/v1/users/{id}", ""),
    ("DELETE", "/api/v1/users/{id}", ""),
    ("GET", "/.well-known/jwks.json", "*"),
    ("GET", "/api/v1/signing/keys", "operator"),
    ("POST", "/api/v1/signing/rotate", ""),
    ("POST", "/api/v1/legal-holds", "operator"),
    ("GET", "/api/v1/legal-holds", "operator auditor"),
    ("GET", "/api/v1/legal-holds/{id}", "operator auditor"),
    ("DELETE", "/api/v1/legal-holds/{id}", "operator"),
    ("GET", "/api/v1/legal-holds/check/{entityID}", "operator auditor"),
    ("POST", "/api/v1/dsar/export", ""),
    ("POST", "/api/v1/dsar/erase", ""),
    // Paths that are not there, for whomever.
    ("", "/api/v1/nothing", "*"),
    ("", "/auth", "*"),
];

/// Returns whom the contract lets call; `None`: the path does not take the method.
fn allowed(method: &str, path: &str) -> Option<&'static str> {
    let as_get = method == "HEAD" && path != "/api/v1/audit/stream";
    let row = ALLOWED
        .iter()
        .find(|(known, at, _)| *at == path && (*known == method || (as_get && *known == "GET")));
    row.map(|(_, _, who)| *who)
}

fn expected(method: &str, path: &str, credential: &str) -> &'static [u16] {
    if ALLOWED.iter().any(|(known, at, _)| *at == path && known.is_empty()) {
        return &[404];
    }
    let Some(who) = allowed(method, path) else { return &[405] };
    match (method, path) {
        // Whoever has not signed in is led to where that is done.
        ("GET" | "HEAD", "/") if matches!(credential, "nothing" | "garbage") => return &[303],
        ("GET" | "HEAD", "/auth/login" | "/auth/logout") => return &[303],
        ("GET" | "HEAD", "/auth/callback") => return &[404],
        // Forms are taken from pages of ours.
        ("POST", "/login" | "/auth/logout") => return &[403],
        _ => {}
    }
    let is_known = !matches!(credential, "nothing" | "garbage");
    let is_let_in = who == "*"
        || (is_known
            && (who == "+" || credential == "admin" || who.split(' ').any(|role| role == credential)));
    match (is_let_in, is_known) {
        (false, false) => &[401],
        (false, true) => &[403],
        // Every entity may be asked about.
        (true, _) if path.contains("/check/") => &[200],
        // Nothing has the id that is asked for, and bodies are empty.
        (true, _) if path.contains('{') && !matches!(method, "PUT" | "PATCH") => &[404],
        (true, _) if path.contains('{') => &[400, 404],
        (true, _) if matches!(method, "POST" | "PUT") => &[400],
        (true, _) => &[200],
    }
}

#[test]
fn the_table_is_the_whole_contract() {
    let written: BTreeSet<(String, &str)> =
        ALLOWED.iter().filter(|row| !row.0.is_empty()).map(|row| (row.0.to_owned(), row.1)).collect();
    let served: BTreeSet<(String, &str)> =
        routes().iter().map(|route| (route.method.to_string(), route.path)).collect();
    assert_eq!(written, served);
}

#[tokio::test]
async fn everybody_gets_what_the_contract_says() {
    let world = World::start(Tier::Enterprise);
    let paths: BTreeSet<&str> = ALLOWED.iter().map(|row| row.1).collect();
    for path in paths {
        for method in METHODS {
            for credential in CREDENTIALS {
                let mut request = Request::builder()
                    .method(method)
                    .uri(path.replace("{id}", "none").replace("{entityID}", "none"));
                request = request.header("host", "localhost");
                if credential != "nothing" {
                    request = request.header("authorization", format!("Bearer {}", world.key(credential)));
                }
                let response = world.send(request.body(Body::empty()).unwrap()).await;
                let status = response.status().as_u16();
                let wanted = expected(method, path, credential);
                assert!(
                    wanted.contains(&status),
                    "{method} {path} {credential}: {status}, expected {wanted:?}"
                );
                for name in
                    ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "x-request-id"]
                {
                    assert_eq!(response.headers().get_all(name).iter().count(), 1, "{method} {path} {name}");
                }
                assert_eq!(response.headers().contains_key("allow"), status == 405, "{method} {path}");
            }
        }
    }
}
