//! Every code of the contract, and what a granted call is worth.

use rcgen::ExtendedKeyUsagePurpose;
use rcgen::date_time_ymd;
use serde_json::json;
use tokio::runtime::Runtime;

use super::*;
use crate::upstream::Upstream;

#[test]
fn each_bad_certificate_is_told_in_json_on_an_established_connection() {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = deployment.start(upstream.address, UNPACED);
    let (good, foreign) = (&deployment.authority, Authority::make());
    let odd = |change: fn(&mut rcgen::CertificateParams)| Some(good.issue(change));
    let cases = [
        ("none", None, "A2A_AUTH_NO_CERT"),
        ("no name", odd(|it| it.distinguished_name = pki::named(&[])), "A2A_AUTH_MISSING_CN"),
        ("an empty name", odd(|it| it.distinguished_name = pki::named(&[""])), "A2A_AUTH_MISSING_CN"),
        ("two names", odd(|it| it.distinguished_name = pki::named(&["planner", "other"])), "A2A_AUTH_FAILED"),
        ("another's", Some(good.agent("busy")), "A2A_AUTH_FAILED"),
        ("a look-alike", Some(good.agent("pl\u{430}nner")), "A2A_AUTH_FAILED"),
        ("a foreign authority's", Some(foreign.agent("planner")), "A2A_AUTH_FAILED"),
        ("self-signed", Some(Identity::self_signed("planner")), "A2A_AUTH_FAILED"),
        ("expired", odd(|it| it.not_after = date_time_ymd(2021, 1, 1)), "A2A_AUTH_FAILED"),
        ("not valid yet", odd(|it| it.not_before = date_time_ymd(2189, 1, 1)), "A2A_AUTH_FAILED"),
        (
            "for servers",
            odd(|it| it.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]),
            "A2A_AUTH_FAILED",
        ),
    ];
    let at = (gateway.proxy, &deployment.server);
    Runtime::new().expect("a runtime").block_on(async {
        for (what, identity, code) in &cases {
            for protocol in ["h2", "http/1.1"] {
                let told = call(at, identity.as_ref(), protocol, "/agents/x", &sound()).await;
                assert_eq!((told.status, &told.body["code"]), (403, &json!(code)), "{what} {protocol}");
                assert!(told.headers.contains_key("x-ratelimit-limit"), "{what}");
                assert_eq!(told.headers["x-portcullis-action"], "block", "{what}");
                assert_eq!(told.body.as_object().map(|it| it.len()), Some(2), "{what}: {}", told.body);
            }
        }
        // RFC 5280: a certificate that names no purpose is for all of them.
        let any = good.issue(|it| it.extended_key_usages = Vec::new());
        assert_eq!(call(at, Some(&any), "h2", "/agents/x", &sound()).await.status, 200);
        // The same connections are nobody's business on other routes.
        let foreign = foreign.agent("planner");
        assert_eq!(call(at, Some(&foreign), "h2", "/x", &[]).await.status, 200);
    });
    assert!(upstream.take().iter().all(|it| !String::from_utf8_lossy(&it.bytes).contains("A2A_")));
}

#[test]
fn each_code_behind_the_certificate_has_its_cause() {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = deployment.start(upstream.address, UNPACED);
    let (planner, stranger) = (deployment.authority.agent("planner"), deployment.authority.agent("stranger"));
    let paid = |license: &str| {
        let mut headers = but("a2a-capability", "pay");
        headers.push(("x-a2a-license-key", license.to_owned()));
        headers
    };
    let twice = |name: &'static str, value: &str| [sound(), vec![(name, value.to_owned())]].concat();
    let license = |tier, agent, expires: &str| paid(&deployment.license(tier, agent, expires));
    let (past, future) = ("2021-01-01T00:00:00Z", "2190-01-01T00:00:00Z");
    let cases: Vec<(&Identity, Headers, &str)> = vec![
        (&planner, but("x-a2a-agent-id", ""), "A2A_AUTH_FAILED"),
        (&planner, but("x-a2a-agent-id", "busy"), "A2A_AUTH_FAILED"),
        (&planner, twice("x-a2a-agent-id", "planner"), "A2A_AUTH_FAILED"),
        (&stranger, but("x-a2a-agent-id", "stranger"), "A2A_CAP_UNKNOWN_AGENT"),
        (&planner, but("a2a-capability", "pay"), "A2A_LICENSE_MISSING"),
        (&planner, paid("no.licence.atall"), "A2A_LICENSE_INVALID"),
        (&planner, license(Tier::Professional, None, past), "A2A_LICENSE_INVALID"),
        (&planner, license(Tier::Developer, None, future), "A2A_LICENSE_INVALID"),
        (&planner, license(Tier::Enterprise, Some("busy"), future), "A2A_LICENSE_INVALID"),
        (&planner, paid(&"a".repeat(20_000)), "A2A_LICENSE_INVALID"),
        (&planner, but("a2a-capability", ""), "A2A_CAP_MISSING"),
        (&planner, but("a2a-capability", "fly"), "A2A_CAP_DENIED"),
        (&planner, but("a2a-capability", "nothing"), "A2A_CAP_DENIED"),
        (&planner, twice("a2a-capability", "ask"), "A2A_CAP_DENIED"),
        (&planner, but("a2a-signature", ""), "A2A_INTEGRITY_MISSING"),
        (&planner, but("a2a-signature", "sesame!"), "A2A_INTEGRITY_MALFORMED"),
        (&planner, but("a2a-signature", "c2VzYW1l"), "A2A_INTEGRITY_MALFORMED"),
        (&planner, twice("a2a-signature", &sign(SECRET, &[BODY.as_bytes()])), "A2A_INTEGRITY_MALFORMED"),
        (&planner, but("a2a-signature", &sign(SECRET, &[b"{}"])), "A2A_INTEGRITY_INVALID"),
        (
            &planner,
            but("a2a-signature", &sign("somebody else's secret", &[BODY.as_bytes()])),
            "A2A_INTEGRITY_INVALID",
        ),
    ];
    let at = (gateway.proxy, &deployment.server);
    Runtime::new().expect("a runtime").block_on(async {
        for (identity, headers, code) in &cases {
            for protocol in ["h2", "http/1.1"] {
                let told = call(at, Some(identity), protocol, "/agents/x", headers).await;
                assert_eq!((told.status, &told.body["code"]), (403, &json!(code)), "{protocol} {headers:?}");
                let message = told.body["message"].as_str().unwrap_or_default();
                assert!(message.starts_with("agent ") && message.contains("capability "), "{message}");
            }
        }
        assert!(upstream.take().is_empty(), "a denied call reached the upstream");
        for headers in [
            sound(),
            but("a2a-signature", &sign(NEXT_SECRET, &[BODY.as_bytes()])),
            license(Tier::Professional, Some("planner"), future),
        ] {
            assert_eq!(call(at, Some(&planner), "h2", "/agents/x", &headers).await.status, 200);
        }
    });
    let report = ask(&gateway, "/api/v1/guardrails");
    assert_eq!(report["counters"]["granted"], 3, "{report}");
    assert_eq!(report["counters"]["denied"]["A2A_CAP_DENIED"], 6);
    assert_eq!((&report["enabled"], &report["mtls"]["required"]), (&json!(true), &json!(true)));
    assert_eq!(report["integrity"]["algorithm"], "HMAC-SHA256");
    assert_eq!(report["capabilities"]["pay"]["min_tier"], "professional");
    assert_eq!(report["agents"][1]["capabilities"], json!(["ask", "pay"]));
    assert_eq!(report["rate_limits"]["professional"], json!({"requests_per_minute": 120, "burst": 20}));
    let counts = |query: &str| ask(&gateway, &format!("/api/v1/audit?event_type={query}"))["total"].clone();
    until("each call is recorded", || counts("a2a_granted&entity=planner") == 3);
    until("each denial is recorded", || counts("a2a_denied") == 2 * cases.len());
    let denied = ask(&gateway, "/api/v1/audit?event_type=a2a_denied&limit=1");
    assert_eq!(denied["entries"][0]["action"], "block", "who was denied was allowed nothing: {denied}");
    let told = report.to_string() + &gateway.log() + &ask(&gateway, "/api/v1/audit").to_string();
    assert!(!told.contains(SECRET) && !told.contains("planner.secret"), "{told}");
}

#[test]
fn an_agent_is_paced_by_itself_and_told_how_long() {
    for protocol in ["h2", "http/1.1"] {
        an_agent_is_paced_in(protocol);
    }
}

fn an_agent_is_paced_in(protocol: &str) {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = deployment.start(upstream.address, "");
    let (planner, busy) = (deployment.authority.agent("planner"), deployment.authority.agent("busy"));
    let at = (gateway.proxy, &deployment.server);
    Runtime::new().expect("a runtime").block_on(async {
        let mut passed = 0;
        let told = loop {
            let told = call(at, Some(&planner), protocol, "/agents/x", &sound()).await;
            if told.status != 200 {
                break told;
            }
            assert_eq!(told.headers["x-ratelimit-limit"], "30");
            passed += 1;
        };
        // The burst of the community tier, and what came back meanwhile: one in two seconds.
        assert!((5..=10).contains(&passed), "{passed}");
        assert_eq!((told.status, &told.body["code"]), (429, &json!("A2A_RATE_LIMITED")));
        assert!(told.headers.contains_key("retry-after") && told.headers["x-ratelimit-remaining"] == "0");
        let other = but("x-a2a-agent-id", "busy");
        assert_eq!(call(at, Some(&busy), protocol, "/agents/x", &other).await.status, 200);
    });
}

#[test]
fn a_restart_refills_no_agent() {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let slowly =
        "[a2a.tiers.community]\nrequests_per_minute = 1\nburst = 20\n[proxy]\nshutdown_notice_ms = 0\n";
    let mut gateway = deployment.start(upstream.address, slowly);
    let planner = deployment.authority.agent("planner");
    let runtime = Runtime::new().expect("a runtime");
    let left = |gateway: &Gateway| {
        let at = (gateway.proxy, &deployment.server);
        let told = runtime.block_on(call(at, Some(&planner), "h2", "/agents/x", &sound()));
        told.headers["x-ratelimit-remaining"].to_str().ok().and_then(|it| it.parse::<u32>().ok())
    };
    for _ in 0..9 {
        left(&gateway).expect("a number");
    }
    let before = left(&gateway).expect("a number");
    gateway.end_and_restart();
    // One comes back each minute.
    assert!(left(&gateway).is_some_and(|left| left <= before + 1), "more than {before}");
}

/// A key of ours is no other agent's business: what would go on with it is refused, as on other routes.
#[test]
fn our_keys_reach_no_agent() {
    let deployment = Deployment::make();
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = deployment.start(upstream.address, UNPACED);
    let planner = deployment.authority.agent("planner");
    let at = (gateway.proxy, &deployment.server);
    let key = gateway.admin_key();
    let basic = |pair: &str| ("authorization", format!("Basic {}", STANDARD.encode(pair)));
    let plain = [sound(), vec![basic("planner:its own password")]].concat();
    Runtime::new().expect("a runtime").block_on(async {
        for (path, headers, status, code) in [
            (format!("/agents/x?foo={key}"), sound(), 400, "credential_in_query"),
            (format!("/agents/x?{}", key.replace("pk_", "%70k_")), sound(), 400, "credential_in_query"),
            (
                "/agents/x".to_owned(),
                [sound(), vec![basic(&format!("a:{key}"))]].concat(),
                401,
                "invalid_api_key",
            ),
            (
                "/agents/x".to_owned(),
                [sound(), vec![basic(&format!("{key}:"))]].concat(),
                401,
                "invalid_api_key",
            ),
        ] {
            let told = call(at, Some(&planner), "h2", &path, &headers).await;
            assert_eq!((told.status, &told.body["code"]), (status, &json!(code)), "{}", told.body);
            assert!(!told.body.to_string().contains(&key));
        }
        assert!(upstream.take().is_empty(), "an agent was shown a key of ours");
        assert_eq!(call(at, Some(&planner), "h2", "/agents/x?foo=pk_live", &plain).await.status, 200);
    });
}

#[test]
fn the_upstream_hears_of_agents_from_the_gateway_alone() {
    let deployment = Deployment::make();
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-portcullis-verdict: trusted\r\n\
                  x-a2a-agent-id: root\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
    let upstream = Upstream::start(vec![
        crate::upstream::Step::Send(answer.as_bytes().to_vec()),
        crate::upstream::Step::Close,
    ]);
    let gateway = deployment.start(upstream.address, UNPACED);
    let planner = deployment.authority.agent("planner");
    let at = (gateway.proxy, &deployment.server);
    let forged = [
        ("x-a2a-role", "root".to_owned()),
        ("x-portcullis-action", "allow".to_owned()),
        ("x-a2a-extensions", "urn:x".to_owned()),
        ("x-a2a-license-key", deployment.license(Tier::Developer, None, "2190-01-01T00:00:00Z")),
    ];
    let (granted, other) = Runtime::new().expect("a runtime").block_on(async {
        let headers = [sound(), forged.to_vec()].concat();
        let ours = [("authorization", format!("Bearer {}", gateway.admin_key()))];
        let of_agent = [headers.clone(), ours.to_vec()].concat();
        let granted = call(at, Some(&planner), "http/1.1", "/agents/x", &of_agent).await;
        let granted = (granted, upstream.take());
        (granted, (call(at, Some(&planner), "http/1.1", "/x", &headers).await, upstream.take()))
    });
    for ((told, received), expected) in [(granted, true), (other, false)] {
        assert_eq!(told.status, 200);
        assert!(
            !told.headers.contains_key("x-portcullis-verdict")
                && !told.headers.contains_key("x-a2a-agent-id")
        );
        let received = String::from_utf8_lossy(&received[0].bytes).to_ascii_lowercase();
        assert_eq!(received.contains("x-a2a-agent-id: planner\r\n"), expected, "{received}");
        assert_eq!(received.contains("a2a-capability: ask\r\n"), expected, "{received}");
        assert!(received.contains("x-a2a-extensions: urn:x\r\n"), "{received}");
        for gone in ["x-a2a-role", "x-portcullis", "license", "a2a-signature", "authorization"] {
            assert!(!received.contains(gone), "{gone}: {received}");
        }
    }
}
