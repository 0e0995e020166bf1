//! Every path × every method × every credential: 401, 403, 404, 405 where they belong, and nowhere else.
//!
//! The table is written from the contract, not taken from the product.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Request;
use http::request::Builder;
use http_body_util::BodyExt;
use portcullis::access::jose::SigningKey;
use portcullis::access::key::NewKey;
use portcullis::access::patience::Patience;
use portcullis::access::role::Role;
use portcullis::access::scope::Scope;
use portcullis::access::session::Holder;
use portcullis::access::tier::Tier;
use portcullis::access::token::Issued;
use portcullis::access::token::NewToken;
use portcullis::access::token::Via;
use portcullis::access::user::NewUser;
use portcullis::access::user::UserRecord;
use portcullis::admin::routes::Access;
use portcullis::admin::routes::routes;
use portcullis::clock::Clock;
use serde_json::json;

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
    ("GET", "/api/v1/detectors", "operator"),
    ("GET", "/api/v1/guardrails", "operator auditor"),
    ("GET", "/api/v1/keys", "operator"),
    ("POST", "/api/v1/keys", ""),
    ("GET", "/api/v1/keys/{id}", "operator"),
    ("PATCH", "/api/v1/keys/{id}", ""),
    ("DELETE", "/api/v1/keys/{id}", ""),
    ("POST", "/api/v1/keys/{id}/rotate", ""),
    ("GET", "/api/v1/audit", "auditor"),
    ("GET", "/api/v1/audit/stream", "auditor"),
    ("GET", "/api/v1/audit/export", "auditor"),
    ("GET", "/api/v1/audit/checkpoint", "auditor"),
    ("GET", "/api/v1/audit/checkpoint/cluster", "auditor"),
    ("GET", "/api/v1/persistence", "auditor"),
    ("GET", "/api/v1/siem/status", "auditor"),
    ("GET", "/api/v1/certs", "auditor"),
    ("GET", "/api/v1/cluster/health", "auditor"),
    ("GET", "/", "*"),
    ("GET", "/ui/{page}", "*"),
    ("GET", "/docs", "*"),
    ("GET", "/assets/{version}/{name}", "*"),
    ("GET", "/login", "*"),
    ("POST", "/login", "*"),
    ("GET", "/auth/login", "*"),
    ("GET", "/auth/callback", "*"),
    ("POST", "/auth/callback", "*"),
    ("POST", "/auth/backchannel-logout", "*"),
    ("GET", "/auth/saml/metadata", "*"),
    ("GET", "/auth/saml/logout", "*"),
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
    ("POST", "/api/v1/abtest/tests", ""),
    ("GET", "/api/v1/abtest/tests", "operator"),
    ("GET", "/api/v1/abtest/tests/{id}", "operator"),
    ("DELETE", "/api/v1/abtest/tests/{id}", ""),
    ("POST", "/api/v1/abtest/tests/{id}/start", "operator"),
    ("POST", "/api/v1/abtest/tests/{id}/stop", "operator"),
    ("POST", "/api/v1/abtest/tests/{id}/archive", "operator"),
    ("GET", "/api/v1/abtest/tests/{id}/metrics", "operator"),
    ("POST", "/api/v1/abtest/tests/{id}/assign", "operator service"),
    ("POST", "/api/v1/abtest/tests/{id}/result", "operator service"),
    ("GET", "/api/v1/trust/health", "*"),
    ("GET", "/api/v1/trust/score", "auditor"),
    ("GET", "/api/v1/trust/sessions", "auditor"),
    ("GET", "/api/v1/trust/attestations", "auditor"),
    ("GET", "/api/v1/trust/attestations/latest", "auditor"),
    ("POST", "/api/v1/legal-holds", "operator"),
    ("GET", "/api/v1/legal-holds", "operator auditor"),
    ("GET", "/api/v1/legal-holds/{id}", "operator auditor"),
    ("DELETE", "/api/v1/legal-holds/{id}", "operator"),
    ("GET", "/api/v1/legal-holds/check/{entityID}", "operator auditor"),
    ("POST", "/api/v1/dsar/export", ""),
    ("POST", "/api/v1/dsar/erase", ""),
    ("GET", "/api/v1/keys/{id}/budget", "operator"),
    ("PUT", "/api/v1/keys/{id}/budget", ""),
    ("DELETE", "/api/v1/keys/{id}/budget", ""),
    ("GET", "/api/v1/analytics/usage", "auditor analyst"),
    ("GET", "/api/v1/analytics/cost", "auditor analyst"),
    ("GET", "/api/v1/analytics/anomalies", "auditor analyst"),
    ("GET", "/api/v1/analytics/dashboard", "auditor analyst"),
    ("GET", "/api/v1/compliance", "auditor"),
    ("GET", "/api/v1/compliance/live", "auditor"),
    ("GET", "/api/v1/compliance/evidence", "auditor"),
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
        ("GET" | "HEAD", "/" | "/docs") if matches!(credential, "nothing" | "garbage") => return &[303],
        ("GET" | "HEAD", "/auth/login" | "/auth/logout") => return &[303],
        (
            "GET" | "HEAD" | "POST",
            "/auth/callback" | "/auth/backchannel-logout" | "/auth/saml/metadata" | "/auth/saml/logout",
        ) => {
            return &[404];
        }
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
        // An empty log is nowhere yet.
        (true, _) if path.ends_with("/checkpoint") => &[200, 404],
        (true, _) if path.ends_with("/checkpoint/cluster") => &[404],
        // Every entity may be asked about.
        (true, _) if path.contains("/check/") => &[200],
        // Nothing has the id that is asked for, and bodies are empty.
        (true, _) if path.contains('{') && !matches!(method, "POST" | "PUT" | "PATCH") => &[404],
        (true, _) if path.contains('{') => &[400, 404],
        (true, _) if matches!(method, "POST" | "PUT") => &[400],
        // They need to be told whose.
        (true, _)
            if path.starts_with("/api/v1/trust/") && !path.ends_with('h') && !path.ends_with("sessions") =>
        {
            &[400]
        }
        // It needs to be told of which check.
        (true, _) if path.ends_with("/evidence") => &[400],
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

#[test]
fn no_role_is_granted_what_nobody_asks_for() {
    let asked = routes().into_iter().filter_map(|route| match route.access {
        Access::Permission(permission) | Access::Figures(permission) => Some(permission.0),
        Access::Public | Access::Credential => None,
    });
    // The one of the data plane.
    let asked: BTreeSet<&str> = asked.chain(["routes:use"]).collect();
    let granted = Role::ALL.into_iter().filter(|role| *role != Role::Admin).flat_map(Role::granted);
    let idle: Vec<&&str> = granted.filter(|permission| !asked.contains(*permission)).collect();
    assert!(idle.is_empty(), "{idle:?}");
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

/// A credential that a test shows, and whom it stands for while it counts.
struct Badge {
    name: String,
    role: Option<&'static str>,
    kind: Kind,
    credential: String,
}

/// How a credential is shown.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Key,
    Token,
    /// The session of a browser, whose calls come from a page of ours.
    Session,
}

impl Badge {
    /// Adds the credential to a request. Headers take turns: each carries every kind.
    fn show(&self, request: Builder) -> Builder {
        match (self.kind, self.credential.len() % 3) {
            (Kind::Session, _) => request
                .header("cookie", format!("portcullis-session={}", self.credential))
                .header("sec-fetch-site", "same-origin"),
            (Kind::Token, _) | (Kind::Key, 0) => {
                request.header("authorization", format!("Bearer {}", self.credential))
            }
            (Kind::Key, 1) => request.header("x-api-key", &self.credential),
            (Kind::Key, _) => request.header("x-api-token", &self.credential),
        }
    }
}

/// The users that tokens are issued to, by role.
struct People(Vec<(Role, UserRecord)>);

impl People {
    async fn of(world: &World) -> Self {
        let mut people = Vec::new();
        for role in Role::ALL {
            let new = NewUser {
                name: role.as_str().to_owned(),
                password: "correct horse battery".to_owned(),
                role,
                tier: None,
            };
            let (users, id) = (&world.office.authenticator.users, world.office.new_id());
            people.push((role, users.create(id, new, world.clock.now()).await.unwrap()));
        }
        Self(people)
    }

    /// Issues one token to a user.
    fn token(world: &World, user: &UserRecord, ttl: Option<Duration>, generation: u64) -> Issued {
        let new = NewToken {
            id: world.office.new_id(),
            subject: user.id.clone(),
            name: user.name.clone(),
            role: user.role,
            tier: user.tier,
            via: Via::Local,
            session: None,
            generation,
            ttl,
        };
        world.office.authenticator.tokens.issue(new, world.clock.now())
    }

    /// Begins a session of a user, in some state of it, and returns its id and what the browser holds.
    fn session(world: &World, user: &UserRecord, generation: u64) -> (String, String) {
        let holder = Holder::User { id: user.id.clone(), generation };
        let (sessions, id) = (&world.office.authenticator.sessions, world.office.new_id());
        let (record, secret) =
            sessions.begin(id, holder, None, world.clock.now(), &Patience::default()).unwrap();
        (record.id, secret.expose().to_owned())
    }

    /// Returns a right session of every role.
    fn sessions(&self, world: &World) -> Vec<Badge> {
        let right = |(role, user): &(Role, UserRecord)| Badge {
            name: format!("right session of {}", role.as_str()),
            role: Some(role.as_str()),
            kind: Kind::Session,
            credential: Self::session(world, user, user.generation).1,
        };
        self.0.iter().map(right).collect()
    }

    /// Returns a right token of every role; one may be spent by what it is used for.
    fn badges(&self, world: &World) -> Vec<Badge> {
        let right = |(role, user): &(Role, UserRecord)| Badge {
            name: format!("right token of {}", role.as_str()),
            role: Some(role.as_str()),
            kind: Kind::Token,
            credential: Self::token(world, user, None, user.generation).token,
        };
        self.0.iter().map(right).collect()
    }
}

/// Makes every credential that does not count; time moves while it does.
async fn dead_badges(world: &World, people: &People) -> Vec<Badge> {
    let mut badges = Vec::new();
    let mut show = |name: String, kind: Kind, credential: String| {
        badges.push(Badge { name, role: None, kind, credential });
    };
    for (role, user) in &people.0 {
        let role = role.as_str();
        let (ended, value) = People::session(world, user, user.generation);
        world.office.authenticator.sessions.revoke(&ended, &Patience::default()).unwrap();
        show(format!("session of {role} that was ended"), Kind::Session, value);
        let before = People::session(world, user, user.generation - 1).1;
        show(format!("session of {role} before it changed"), Kind::Session, before);
    }
    show("a value that is no session".to_owned(), Kind::Session, "A".repeat(43));
    let mut dead = |name: String, is_token: bool, credential: String| {
        show(name, if is_token { Kind::Token } else { Kind::Key }, credential);
    };
    let soon = world.clock.now() + jiff::SignedDuration::from_secs(5);
    for (role, user) in &people.0 {
        let (keys, now) = (&world.office.keys, world.clock.now());
        let key = |expires_at| {
            let (role, name) = (*role, "dead".to_owned());
            let new = NewKey { name, role, tier: Tier::Enterprise, expires_at, scope: Scope::default() };
            keys.create(world.office.new_id(), new, now).unwrap()
        };
        dead(format!("expired key of {}", role.as_str()), false, key(Some(soon)).1);
        let (record, revoked) = key(None);
        keys.revoke(&record.id, now).unwrap();
        dead(format!("revoked key of {}", role.as_str()), false, revoked);
        let (record, replaced) = key(None);
        keys.rotate(&record.id, Duration::from_secs(5), now).unwrap();
        dead(format!("replaced key of {}", role.as_str()), false, replaced);
        let token = |ttl, generation| People::token(world, user, ttl, generation);
        let short = token(Some(Duration::from_secs(5)), user.generation).token;
        dead(format!("expired token of {}", role.as_str()), true, short);
        let issued = token(None, user.generation);
        world.office.authenticator.tokens.revoke(&issued.claims.id, now).unwrap();
        dead(format!("revoked token of {}", role.as_str()), true, issued.token);
        dead(
            format!("token of {} before it changed", role.as_str()),
            true,
            token(None, user.generation - 1).token,
        );
    }
    let admin = &people.0.iter().find(|(role, _)| *role == Role::Admin).unwrap().1;
    let good = People::token(world, admin, None, admin.generation);
    let claims = serde_json::to_value(&good.claims).unwrap();
    let (_, rest) = good.token.split_once('.').unwrap();
    let (payload, _) = rest.split_once('.').unwrap();
    let part = |json: serde_json::Value| URL_SAFE_NO_PAD.encode(json.to_string());
    for alg in ["none", "None", "HS256", "RS256"] {
        let head = part(json!({ "alg": alg, "typ": "JWT" }));
        dead(format!("token with alg {alg}"), true, format!("{head}.{payload}."));
        dead(format!("token with alg {alg}, signed"), true, format!("{head}.{payload}.{}", part(json!({}))));
    }
    let stranger = SigningKey::generate();
    dead("token of another deployment".to_owned(), true, stranger.sign(&claims, None));
    // A key in the head is not asked for, whatever it claims to be.
    let x = URL_SAFE_NO_PAD.encode(stranger.public());
    let head =
        json!({ "alg": "EdDSA", "jwk": { "kty": "OKP", "crv": "Ed25519", "x": x }, "kid": "../../dev/null" });
    let signature = stranger.sign(&claims, None).rsplit_once('.').unwrap().1.to_owned();
    dead("token with its own key".to_owned(), true, format!("{}.{payload}.{signature}", part(head)));
    let (role, expired) = (json!("admin"), json!(1));
    for (name, value) in [("role", role), ("exp", expired), ("aud", json!("else")), ("iss", json!("else"))] {
        let mut claims = claims.clone();
        claims[name] = value;
        let head = good.token.split('.').next().unwrap();
        let signature = good.token.rsplit_once('.').unwrap().1;
        let changed = part(claims);
        if changed != payload {
            dead(format!("token with another {name}"), true, format!("{head}.{changed}.{signature}"));
        }
    }
    for garbage in ["pk_nonsense", "a.b.c", "....", "x", &"x".repeat(20_000)] {
        dead(format!("{} bytes of garbage", garbage.len()), garbage.contains('.'), garbage.to_owned());
    }
    world.clock.advance(Duration::from_secs(5));
    badges
}

/// Every endpoint × every role × every kind and state of credential: what counts has its role's answer,
/// and all that does not count has one and the same.
#[tokio::test]
async fn every_credential_has_its_answer_at_every_endpoint() {
    let world = World::start(Tier::Enterprise);
    let people = People::of(&world).await;
    let dead = dead_badges(&world, &people).await;
    let sessions = people.sessions(&world);
    let mut refusals = BTreeSet::new();
    for route in routes() {
        let (method, path) = (route.method.as_str(), route.path);
        let right_keys = Role::ALL.iter().map(|role| Badge {
            name: format!("right key of {}", role.as_str()),
            role: Some(role.as_str()),
            kind: Kind::Key,
            credential: world.key(role.as_str()).to_owned(),
        });
        let live: Vec<Badge> = right_keys.chain(people.badges(&world)).collect();
        for badge in live.iter().chain(&sessions).chain(&dead) {
            if badge.kind == Kind::Session && allowed(method, path) == Some("*") {
                // What is everybody's takes sessions as pages do: see `sessions` and `pages`.
                continue;
            }
            let request = Request::builder().method(method).uri(path.replace("{id}", "none"));
            let request = badge.show(request.header("host", "localhost"));
            let response = world.send(request.body(Body::empty()).unwrap()).await;
            let status = response.status().as_u16();
            let ends_itself =
                path == "/api/v1/auth/revoke" && badge.kind == Kind::Token && badge.role.is_some();
            let wanted: &[u16] = match ends_itself {
                true => &[200],
                false => expected(method, path, badge.role.unwrap_or("garbage")),
            };
            assert!(
                wanted.contains(&status),
                "{method} {path} {}: {status}, expected {wanted:?}",
                badge.name
            );
            if status == 401 {
                let body = response.into_body().collect().await.unwrap().to_bytes();
                refusals.insert(String::from_utf8(body.to_vec()).unwrap());
            }
        }
    }
    assert_eq!(refusals.len(), 1, "nobody is told why a credential does not count: {refusals:?}");
}
