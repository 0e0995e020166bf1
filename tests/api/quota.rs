//! Quotas, health and panics: what happens when something gives out.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Request;
use http::Response;
use http_body_util::BodyExt;
use portcullis::access::tier::Tier;
use portcullis::admin::Plane;
use portcullis::admin::adapter::PeerAddress;
use portcullis::admin::edge;
use portcullis::admin::routes::Route;
use portcullis::admin::routes::routes;
use portcullis::govern::audit::AuditEvent;
use portcullis::govern::audit::Query;
use portcullis::telemetry::health::Dependency;
use tower::ServiceExt;

use crate::world::World;
use crate::world::certificate;

async fn get(world: &World, path: &str, role: &str) -> Response<Body> {
    let request = Request::get(path).header("host", "localhost").header("x-api-key", world.key(role));
    world.send(request.body(Body::empty()).unwrap()).await
}

fn number(response: &Response<Body>, name: &str) -> i64 {
    response.headers().get(name).unwrap().to_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_burst_is_served_then_refused_then_refilled() {
    let world = World::start(Tier::Community);
    for left in (0..100).rev() {
        let response = get(&world, "/stats", "analyst").await;
        assert_eq!((response.status().as_u16(), number(&response, "x-ratelimit-remaining")), (200, left));
    }
    let refused = get(&world, "/stats", "analyst").await;
    assert_eq!((refused.status().as_u16(), number(&refused, "retry-after")), (429, 1));
    assert_eq!(number(&refused, "x-ratelimit-limit"), 60);
    assert_eq!(number(&refused, "x-ratelimit-reset"), 1_777_636_800 + 100);
    // Others have their own, and what is exempt costs nothing.
    assert_eq!(get(&world, "/stats", "operator").await.status(), 200);
    let exempt = get(&world, "/health", "analyst").await;
    assert_eq!((exempt.status().as_u16(), number(&exempt, "x-ratelimit-remaining")), (200, 0));
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(get(&world, "/stats", "analyst").await.status(), 200);
    assert_eq!(get(&world, "/stats", "analyst").await.status(), 429);
}

#[tokio::test]
async fn without_limits_the_headers_say_so() {
    let world = World::start(Tier::Enterprise);
    let response = get(&world, "/stats", "admin").await;
    assert_eq!(number(&response, "x-ratelimit-limit"), 2_147_483_647);
    assert_eq!(number(&response, "x-ratelimit-remaining"), 2_147_483_647);
}

async fn health(world: &World) -> Vec<u16> {
    let mut statuses = Vec::new();
    for path in ["/health", "/api/v1/health", "/ready"] {
        statuses.push(get(world, path, "nobody").await.status().as_u16());
    }
    statuses
}

#[tokio::test]
async fn one_dependency_down_is_degraded() {
    let world = World::start(Tier::Community);
    assert_eq!(health(&world).await, [200, 200, 200]);
    world.office.telemetry.health.down(Dependency::Certificates, "expired");
    assert_eq!(health(&world).await, [503, 503, 200]);
    world.office.telemetry.health.down(Dependency::Persistence, "disk full");
    assert_eq!(health(&world).await, [503, 503, 503]);
    Dependency::ALL.into_iter().for_each(|dependency| world.office.telemetry.health.up(dependency));
    assert_eq!(health(&world).await, [200, 200, 200]);
}

#[tokio::test]
async fn a_certificate_that_has_ended_is_degraded() {
    let world = World::start_as(Tier::Community, |office| office.certificates.push(certificate()));
    // It is noon of the 1st of May, and the certificate ends where the 30th of June begins.
    for (days, expected) in [(0, 200), (59, 200), (1, 503)] {
        world.clock.advance(Duration::from_secs(days * 86_400));
        assert_eq!(health(&world).await, [expected, expected, 200], "{days} days later");
    }
    let response = get(&world, "/health", "nobody").await;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let told: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        (&told["status"], &told["dependencies"]["certificates"]),
        (&"degraded".into(), &"down".into())
    );
    let reason = "a certificate that is served has expired, or does not count yet";
    assert_eq!(told["reasons"], serde_json::json!({ "certificates": reason }));
}

#[tokio::test]
async fn a_panic_is_an_answer() {
    let world = World::start(Tier::Community);
    let mut contract: Vec<Route> = routes().into_iter().filter(|route| route.path == "/version").collect();
    contract[0].handler = |_| Box::pin(async { panic!("a defect") });
    let router = edge::router_of(Arc::clone(&world.office), Plane::Management, contract);
    let request = Request::get("/version").header("host", "localhost").body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    assert_eq!(response.status(), 500);
    assert!(response.headers().contains_key("x-ratelimit-limit"));
    assert!(
        world
            .office
            .telemetry
            .metrics
            .render()
            .lines()
            .any(|line| line.starts_with("portcullis_panics") && line.ends_with(" 1"))
    );
}

#[tokio::test]
async fn figures_are_public_only_where_somebody_says_so() {
    for (public, status) in [(false, 401), (true, 200)] {
        let world = World::start_with(Tier::Community, |facts| facts.public_metrics = public);
        for path in ["/metrics", "/api/v1/metrics", "/stats"] {
            assert_eq!(get(&world, path, "nobody").await.status(), status, "{path}");
        }
        assert_eq!(get(&world, "/api/v1/status", "nobody").await.status(), 401);
        let metrics = get(&world, "/metrics", "admin").await;
        assert_eq!(metrics.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
        let text = metrics.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        assert!(text.contains("listener=\"admin\""), "{text}");
        assert!(
            text.lines().filter(|line| !line.starts_with('#')).all(|line| line.starts_with("portcullis_"))
        );
    }
}

#[tokio::test]
async fn request_ids_are_taken_over_where_they_are_sane() {
    let world = World::start(Tier::Community);
    let long = "x".repeat(129);
    for (given, kept) in [("abc-123", true), ("a b", false), ("", false), (long.as_str(), false)] {
        let request = Request::get("/version").header("host", "localhost").header("x-request-id", given);
        let response = world.send(request.body(Body::empty()).unwrap()).await;
        let told = response.headers()["x-request-id"].to_str().unwrap().to_owned();
        assert_eq!(told == given, kept, "{given}");
        assert!(kept || told.len() == 26, "{told}");
    }
}

#[tokio::test]
async fn whoever_knocks_does_not_fill_the_log_whatever_the_tier() {
    let world = World::start(Tier::Enterprise);
    for _ in 0..150 {
        assert_eq!(get(&world, "/stats", "nobody").await.status(), 401);
    }
    let query = Query { event_type: Some("access_denied".to_owned()), ..Query::default() };
    // What was recorded without waiting is before what is waited for.
    let last = AuditEvent { event_type: "login".to_owned(), ..AuditEvent::default() };
    world.office.recorder.record_safely(last).await.unwrap();
    assert_eq!(world.office.audit.query(query).await.unwrap().total, 100);
    let figures = world.office.telemetry.metrics.render();
    assert!(figures.contains("refusals_unrecorded_total 50"), "{figures}");
}

/// A customer of IPv6 has as many addresses as it likes; noise of one kind does not hide who guesses at credentials.
#[tokio::test]
async fn a_network_knocks_as_one_and_does_not_hide_failed_logins() {
    let world = World::start(Tier::Enterprise);
    let send = async |number: u16, mut request: Request<Body>| {
        let address = std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 1, 2, 3, number);
        request.extensions_mut().insert(PeerAddress(Some(address.into())));
        world.send(request).await.status()
    };
    for number in 0..150 {
        let knock = Request::get("/stats").header("host", "localhost").body(Body::empty()).unwrap();
        assert_eq!(send(number, knock).await, 401);
    }
    let guess = Request::post("/login")
        .header("host", "localhost")
        .header("sec-fetch-site", "same-origin")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from("key=pk_wrong&next=/"))
        .unwrap();
    assert_eq!(send(1, guess).await, 401);
    let last = AuditEvent { event_type: "login".to_owned(), ..AuditEvent::default() };
    world.office.recorder.record_safely(last).await.unwrap();
    for (event_type, expected) in [("access_denied", 100), ("login_failed", 1)] {
        let query = Query { event_type: Some(event_type.to_owned()), ..Query::default() };
        assert_eq!(world.office.audit.query(query).await.unwrap().total, expected, "{event_type}");
    }
}

/// Behind a reverse proxy each client pays for itself; who is no such proxy cannot say to be another.
#[tokio::test]
async fn whom_a_trusted_proxy_names_pays_and_nobody_else_is_believed() {
    let world = World::start_with(Tier::Community, |facts| {
        facts.trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()];
    });
    let left = async |peer: [u8; 4], forwarded: &str| {
        let mut request = Request::get("/stats")
            .header("host", "localhost")
            .header("x-forwarded-for", forwarded)
            .body(Body::empty())
            .unwrap();
        request.extensions_mut().insert(PeerAddress(Some(peer.into())));
        number(&world.send(request).await, "x-ratelimit-remaining")
    };
    let (proxy, stranger) = ([10, 0, 0, 1], [203, 0, 113, 7]);
    assert_eq!(left(proxy, "198.51.100.1").await, 99);
    assert_eq!(left(proxy, "198.51.100.2").await, 99, "another client");
    assert_eq!(left(proxy, "198.51.100.3, 198.51.100.1").await, 98, "what it says itself counts for nothing");
    assert_eq!(left(stranger, "198.51.100.4").await, 99);
    assert_eq!(left(stranger, "198.51.100.5").await, 98, "it is the one and the same");
}

/// A licence ends while the gateway runs: everything that it paid for ends with it, at that second.
#[tokio::test]
async fn a_licence_ends_while_the_gateway_runs() {
    let world = World::start(Tier::Professional);
    let told = async |path: &str| {
        let response = get(&world, path, "admin").await;
        let (status, limit) = (response.status().as_u16(), number(&response, "x-ratelimit-limit"));
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, limit, serde_json::from_slice::<serde_json::Value>(&bytes).unwrap())
    };
    let standing = async || {
        let (_, limit, license) = told("/api/v1/license/status").await;
        let (health, _, dependencies) = told("/api/v1/health").await;
        let (trust, ..) = told("/api/v1/trust/sessions").await;
        let license = format!("{} {}", license["valid"], license["tier"]);
        (license, limit, trust, health, dependencies["dependencies"]["license"].clone())
    };
    world.clock.advance(Duration::from_secs(365 * 24 * 3600 - 1));
    assert_eq!(standing().await, ("true \"professional\"".to_owned(), 600, 200, 200, "up".into()));
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(standing().await, ("false \"community\"".to_owned(), 60, 403, 503, "down".into()));
}

/// No limit is no invitation: each knock may cost a hash, or the identity provider a question.
#[tokio::test]
async fn strangers_knock_so_often_whatever_the_tier() {
    let world = World::start(Tier::Enterprise);
    let knock = async |path: &str| {
        let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
        world.send(request).await
    };
    let quota = Tier::Professional.quota().unwrap();
    for _ in 0..quota.burst {
        assert_ne!(knock("/auth/callback?state=x&code=y").await.status(), 429);
    }
    for path in ["/auth/callback?state=x&code=y", "/auth/login", "/login"] {
        let refused = knock(path).await;
        assert_eq!((refused.status().as_u16(), number(&refused, "retry-after")), (429, 1), "{path}");
    }
    // What asks for nothing is not concerned, nor is who shows a key.
    assert_eq!(knock("/version").await.status(), 200);
    assert_eq!(get(&world, "/login", "admin").await.status(), 200);
}

#[tokio::test]
async fn a_caller_has_so_many_calls_under_way_unless_it_has_no_limit() {
    for (tier, expected) in [(Tier::Community, 429), (Tier::Enterprise, 200)] {
        let world = World::start(tier);
        let whoami = get(&world, "/api/v1/auth/whoami", "analyst").await;
        let bytes = whoami.into_body().collect().await.unwrap().to_bytes();
        let id =
            serde_json::from_slice::<serde_json::Value>(&bytes).unwrap()["id"].as_str().unwrap().to_owned();
        let max = world.office.reloader.handle().load().limits.concurrent_requests_per_caller;
        let name = format!("key:{id}");
        let mut under_way: Vec<_> =
            (0..max).map(|_| world.office.concurrency.enter(&name, max).unwrap()).collect();
        let told = get(&world, "/stats", "analyst").await;
        assert_eq!(told.status().as_u16(), expected, "{tier:?}");
        assert_eq!(told.headers().contains_key("retry-after"), expected == 429);
        assert_eq!(get(&world, "/stats", "operator").await.status(), 200, "somebody else is not concerned");
        under_way.pop();
        assert_eq!(get(&world, "/stats", "analyst").await.status(), 200, "{tier:?}");
    }
}

/// The map may say more than the deployment's licence: what is shown is what an agent gets.
#[tokio::test]
async fn an_agents_tier_is_shown_as_far_as_it_is_paid_for() {
    let map = "capabilities:\n  ask:\nagents:\n  planner:\n    capabilities: [ask]\n    tier: professional\n    \
               secrets: [{env: A}]\n";
    for (tier, shown) in [(Tier::Community, "community"), (Tier::Enterprise, "professional")] {
        let world = World::start(tier);
        world.office.guardrails.directory.replace(map, "map.yaml").unwrap();
        let told = get(&world, "/api/v1/guardrails", "operator").await;
        let bytes = told.into_body().collect().await.unwrap().to_bytes();
        let told: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(told["agents"][0]["tier"], shown, "{told}");
    }
}

/// A call that leads nowhere costs whoever makes it what any other does, and tells of their bucket.
#[tokio::test]
async fn what_leads_nowhere_is_paid_for_by_whoever_calls() {
    let world = World::start(Tier::Community);
    let send = async |method: &str, path: &str, role: &str| {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("x-api-key", world.key(role));
        let response = world.send(request.body(Body::empty()).unwrap()).await;
        (response.status().as_u16(), number(&response, "x-ratelimit-remaining"))
    };
    for left in (0..50).map(|spent| 98 - 2 * spent) {
        assert_eq!(send("GET", "/api/v1/nothing", "analyst").await, (404, left + 1));
        assert_eq!(send("DELETE", "/stats", "analyst").await, (405, left));
    }
    assert_eq!(send("GET", "/api/v1/nothing", "analyst").await, (429, 0));
    assert_eq!(send("DELETE", "/stats", "analyst").await, (429, 0));
    assert_eq!(send("DELETE", "/health", "analyst").await, (405, 0), "the path is exempt");
    // Others have their own; who shows no key, or one that is none, pays with the address.
    assert_eq!(send("GET", "/api/v1/nothing", "operator").await, (404, 99));
    assert_eq!(send("GET", "/api/v1/nothing", "nobody").await, (404, 99));
    assert_eq!(send("DELETE", "/stats", "nobody").await, (405, 98));
}
