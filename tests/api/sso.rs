//! Single sign-on against a provider that does everything wrong, one thing at a time.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::Hmac;
use hmac::KeyInit;
use hmac::Mac;
use portcullis::access::authenticator::Authenticator;
use portcullis::access::jose::SigningKey;
use portcullis::access::patience::Patience;
use portcullis::access::role::Role;
use portcullis::access::secret::NodeSecret;
use portcullis::access::sso::ClientSecretPlace;
use portcullis::access::sso::Hidden;
use portcullis::access::sso::IdentityProvider;
use portcullis::access::sso::Mapping;
use portcullis::access::sso::OidcConfig;
use portcullis::access::sso::fetch::Fetcher;
use portcullis::access::sso::oidc::OidcClient;
use portcullis::access::tier::Tier;
use portcullis::access::url::Endpoint;
use portcullis::clock::Clock;
use serde_json::Value;
use serde_json::json;
use sha2::Sha256;

use crate::browser::Browser;
use crate::browser::Shown;
use crate::provider::Provider;
use crate::provider::merge;
use crate::provider::modulus;
use crate::world::World;

const SESSION: &str = "portcullis-session";
const SECRET: &str = "s:cret&more";

struct Stage {
    world: World,
    provider: Provider,
}

fn config(issuer: &str) -> OidcConfig {
    OidcConfig {
        issuer: Endpoint::parse(issuer).unwrap(),
        client_id: "gate".to_owned(),
        client_secret: Some(ClientSecretPlace::Environment("unused".to_owned())),
        scopes: vec!["openid".to_owned(), "email".to_owned()],
        redirect_url: Endpoint::parse("https://gate.example/auth/callback").unwrap(),
        signed_out_url: Some("https://gate.example/login".to_owned()),
        mapping: Mapping {
            name: "email".to_owned(),
            role: "groups".to_owned(),
            role_map: vec![("bosses".to_owned(), Role::Admin), ("readers".to_owned(), Role::Auditor)],
            default_role: None,
        },
        ca_file: None,
    }
}

impl Stage {
    async fn set() -> Self {
        let provider = Provider::start().await;
        let config = config(&provider.issuer);
        let world = World::start_as(Tier::Enterprise, |office| {
            let read = Box::new(|| Some(Hidden(SECRET.to_owned())));
            let fetcher = Fetcher::new(None).unwrap();
            let client = OidcClient::new(config, fetcher, read, NodeSecret::random(), office.clock.clone());
            office.authenticator.provider = Some(IdentityProvider::Oidc(std::sync::Arc::new(client)));
        });
        Self { world, provider }
    }

    fn claims(&self, nonce: &str, change: Value) -> Value {
        let now = self.world.clock.now().as_second();
        let mut claims = json!({
            "iss": self.provider.issuer, "aud": "gate", "sub": "u1", "nonce": nonce, "iat": now, "exp": now + 300,
            "email": "u1@people.example", "groups": ["readers"],
        });
        merge(&mut claims, change);
        claims
    }

    /// Goes to the provider and back with a code; `token` makes the provider's token from the nonce.
    async fn sign_in(&self, browser: &mut Browser<'_>, token: impl FnOnce(&str) -> String) -> Shown {
        let left = browser.get("/auth/login").await;
        assert_eq!(left.status, 303, "{}", left.text);
        self.provider.gives(&token(&left.parameter("nonce").unwrap()));
        let state = left.parameter("state").unwrap();
        browser.get(&format!("/auth/callback?code=c0de&state={state}")).await
    }

    fn signed(&self, claims: &Value) -> String {
        self.provider.key.sign(claims, Some("k1"))
    }

    /// Goes there and back with a token whose claims differ, and expects to be let in or not.
    async fn claim(&self, change: Value) -> Shown {
        let mut browser = Browser::open(&self.world);
        let shown = self.sign_in(&mut browser, |nonce| self.signed(&self.claims(nonce, change))).await;
        assert_eq!(shown.status == 303, browser.jar.contains_key(SESSION));
        shown
    }
}

/// Returns what a page says went wrong.
fn alert(shown: &Shown) -> String {
    let after = shown.text.split("role=\"alert\">").nth(1).unwrap_or_default();
    after.split('<').next().unwrap_or_default().replace("&#39;", "'")
}

fn raw(head: &Value, claims: &Value, signature: &[u8]) -> String {
    let encode = |text: String| URL_SAFE_NO_PAD.encode(text);
    format!(
        "{}.{}.{}",
        encode(head.to_string()),
        encode(claims.to_string()),
        URL_SAFE_NO_PAD.encode(signature)
    )
}

/// Signs as if a public key were a shared secret.
fn with_hmac(head: &Value, claims: &Value, key: &[u8]) -> String {
    let unsigned = raw(head, claims, b"");
    let message = unsigned.trim_end_matches('.');
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(message.as_bytes());
    raw(head, claims, &mac.finalize().into_bytes())
}

#[tokio::test]
async fn the_way_there_and_back() {
    let stage = Stage::set().await;
    let mut browser = Browser::open(&stage.world);
    let left = browser.get("/auth/login?next=/openapi.json").await;
    assert!(left.location().starts_with(&format!("{}/authorize?tenant=1&", stage.provider.issuer)));
    for (name, value) in [
        ("response_type", "code"),
        ("client_id", "gate"),
        ("redirect_uri", "https://gate.example/auth/callback"),
        ("scope", "openid email"),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(left.parameter(name).as_deref(), Some(value));
    }
    let nonce = left.parameter("nonce").unwrap();
    stage.provider.gives(&stage.signed(&stage.claims(&nonce, json!({}))));
    stage.provider.take();
    let state = left.parameter("state").unwrap();
    let back = browser.get(&format!("/auth/callback?code=c0de&state={state}&session_state=x")).await;
    assert_eq!((back.status, back.location()), (303, "/openapi.json"), "{}", back.text);
    assert_eq!(browser.jar.keys().collect::<Vec<_>>(), [SESSION]);

    let asked = stage.provider.take();
    let bought = asked.iter().find(|asked| asked.path == "/token").unwrap();
    let form: Vec<(String, String)> = form_urlencoded::parse(bought.body.as_bytes()).into_owned().collect();
    let of = |name: &str| form.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    assert_eq!((of("grant_type"), of("code")), (Some("authorization_code"), Some("c0de")));
    let challenge = URL_SAFE_NO_PAD.encode(<Sha256 as sha2::Digest>::digest(of("code_verifier").unwrap()));
    assert_eq!(left.parameter("code_challenge"), Some(challenge));
    let basic = STANDARD.encode("gate:s%3Acret%26more");
    assert!(bought.head.contains(&format!("authorization: Basic {basic}\r\n")), "{}", bought.head);
    assert!(!bought.body.contains("secret"));

    // The session is a principal with the role of its groups.
    assert_eq!(browser.get("/api/v1/audit").await.status, 200);
    assert_eq!(browser.get("/api/v1/config").await.status, 403);
    assert!(browser.get("/").await.text.contains("u1@people.example"));
    let mut admin = Browser::open(&stage.world);
    admin.sign_in("admin").await;
    let listed: Value = serde_json::from_str(&admin.get("/api/v1/sessions").await.text).unwrap();
    let entry = listed["sessions"].as_array().unwrap().iter().find(|entry| entry["method"] == "sso").unwrap();
    assert_eq!((&entry["actor"], &entry["issuer"]), (&json!("sso:u1"), &json!(stage.provider.issuer)));

    let left = browser.get("/auth/logout").await;
    assert!(left.location().starts_with(&format!("{}/end?", stage.provider.issuer)), "{}", left.location());
    assert_eq!(left.parameter("post_logout_redirect_uri").as_deref(), Some("https://gate.example/login"));
    assert_eq!(left.parameter("id_token_hint").unwrap().split('.').count(), 3);
    assert_eq!(browser.get("/api/v1/audit").await.status, 401);
}

#[tokio::test]
async fn tokens_that_lie_open_nothing() {
    let stage = Stage::set().await;
    let now = stage.world.clock.now().as_second();
    let cases = [
        (json!({ "iss": "https://evil.example" }), "another issuer's"),
        (json!({ "iss": format!("{}/", stage.provider.issuer) }), "another issuer's"),
        (json!({ "aud": "other" }), "meant for another client"),
        (json!({ "aud": ["other", "third"] }), "meant for another client"),
        (json!({ "aud": ["gate", "other"] }), "given to another client"),
        (json!({ "aud": ["gate", "other"], "azp": "other" }), "given to another client"),
        (json!({ "azp": "other" }), "given to another client"),
        (json!({ "exp": now - 61 }), "has expired"),
        (json!({ "exp": null }), "has expired"),
        (json!({ "iat": now + 120 }), "not valid yet"),
        (json!({ "nbf": now + 120 }), "not valid yet"),
        (json!({ "nonce": "old" }), "another sign-in"),
        (json!({ "nonce": null }), "another sign-in"),
        (json!({ "sub": null }), "names nobody"),
        (json!({ "groups": ["Bosses", "bosses "] }), "has a role here"),
        (json!({ "groups": [] }), "has a role here"),
    ];
    for (change, why) in cases {
        let shown = stage.claim(change.clone()).await;
        assert!(alert(&shown).contains(why), "{change}: {} {}", shown.status, alert(&shown));
    }
    assert_eq!(stage.claim(json!({ "groups": ["readers", "bosses"] })).await.status, 303);
    assert_eq!(stage.claim(json!({ "aud": ["gate"], "azp": "gate", "exp": now - 30 })).await.status, 303);
}

#[tokio::test]
async fn tokens_that_nobody_signed_open_nothing() {
    let stage = Stage::set().await;
    let other = SigningKey::generate();
    let key = stage.provider.key.public().to_vec();
    let bare = modulus();
    type Forge<'a> = Box<dyn Fn(&Value) -> String + 'a>;
    let forged: Vec<(&str, Forge<'_>, &str)> = vec![
        ("none", Box::new(|claims| raw(&json!({ "alg": "none" }), claims, b"")), "way that is taken"),
        (
            "None, with a key",
            Box::new(|claims| raw(&json!({ "alg": "None", "kid": "k1" }), claims, b"")),
            "way that is taken",
        ),
        (
            "HS256, modulus",
            Box::new(|claims| with_hmac(&json!({ "alg": "HS256", "kid": "rsa" }), claims, bare.as_bytes())),
            "way that is taken",
        ),
        (
            "HS256, bytes of the modulus",
            Box::new(|claims| with_hmac(&json!({ "alg": "HS256", "kid": "rsa" }), claims, &[0xc5; 256])),
            "way that is taken",
        ),
        (
            "HS256, Ed25519 key",
            Box::new(|claims| with_hmac(&json!({ "alg": "HS256", "kid": "k1" }), claims, &key)),
            "way that is taken",
        ),
        (
            "RS256 named, other kind of key",
            Box::new(|claims| raw(&json!({ "alg": "RS256", "kid": "k1" }), claims, &[1; 256])),
            "not published",
        ),
        (
            "RS256, a wrong signature",
            Box::new(|claims| raw(&json!({ "alg": "RS256", "kid": "rsa" }), claims, &[1; 256])),
            "signature is wrong",
        ),
        ("somebody else's key", Box::new(|claims| other.sign(claims, Some("k1"))), "signature is wrong"),
        ("a key that is not published", Box::new(|claims| other.sign(claims, Some("k2"))), "not published"),
        (
            "its own key in the header",
            Box::new(|claims| {
                let own =
                    json!({ "kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(other.public()) });
                let signed = other.sign(claims, None);
                let parts: Vec<&str> = signed.split('.').collect();
                let head = URL_SAFE_NO_PAD.encode(json!({ "alg": "EdDSA", "jwk": own }).to_string());
                format!("{head}.{}.{}", parts[1], parts[2])
            }),
            "signature is wrong",
        ),
        (
            "claims changed after signing",
            Box::new(|claims| {
                let signed = stage.signed(claims);
                let mut parts: Vec<String> = signed.split('.').map(str::to_owned).collect();
                let mut changed = claims.clone();
                changed["groups"] = json!(["bosses"]);
                parts[1] = URL_SAFE_NO_PAD.encode(changed.to_string());
                parts.join(".")
            }),
            "signature is wrong",
        ),
        (
            "no signature",
            Box::new(|claims| stage.signed(claims).rsplit_once('.').unwrap().0.to_owned()),
            "malformed",
        ),
        (
            "an empty signature",
            Box::new(|claims| format!("{}.", stage.signed(claims).rsplit_once('.').unwrap().0)),
            "wrong",
        ),
        (
            "an unknown extension",
            Box::new(|claims| {
                raw(&json!({ "alg": "EdDSA", "crit": ["b64"], "b64": false }), claims, &[0; 64])
            }),
            "malformed",
        ),
        (
            "too long",
            Box::new(|claims| {
                let mut long = claims.clone();
                long["padding"] = json!("x".repeat(20_000));
                stage.signed(&long)
            }),
            "no usable token",
        ),
        ("nothing", Box::new(|_| String::new()), "malformed"),
    ];
    for (name, forge, why) in forged {
        let mut browser = Browser::open(&stage.world);
        let shown = stage.sign_in(&mut browser, |nonce| forge(&stage.claims(nonce, json!({})))).await;
        assert_eq!(shown.status, 502, "{name}");
        assert!(alert(&shown).contains(why) && browser.jar.is_empty(), "{name}: {}", alert(&shown));
    }
}

#[tokio::test]
async fn an_answer_belongs_to_one_browser_and_counts_once() {
    let stage = Stage::set().await;
    let mut browser = Browser::open(&stage.world);
    let left = browser.get("/auth/login").await;
    let (state, nonce) = (left.parameter("state").unwrap(), left.parameter("nonce").unwrap());
    stage.provider.gives(&stage.signed(&stage.claims(&nonce, json!({}))));
    let back = format!("/auth/callback?code=c0de&state={state}");
    let kept = browser.jar.clone();

    // Somebody else's answer is brought to this browser, and this browser's to somebody else.
    let mut victim = Browser::open(&stage.world);
    assert!(alert(&victim.get(&back).await).contains("no sign-in is under way") || victim.jar.is_empty());
    victim.get("/auth/login").await;
    assert!(alert(&victim.get(&back).await).contains("belongs to another sign-in"));
    assert!(!victim.jar.contains_key(SESSION));

    for odd in [
        "/auth/callback",
        "/auth/callback?code=c0de",
        &format!("/auth/callback?code=c0de&state={}x", &state[1..]),
        &format!("{back}&state={state}"),
        &format!("/auth/callback?state={state}&code=a&code=b"),
        &format!("/auth/callback?state={state}"),
        &format!("/auth/callback?state={state}&code="),
        &format!("/auth/callback?state={state}&error=a&error=b"),
    ] {
        let mut browser = Browser::open(&stage.world);
        browser.jar.clone_from(&kept);
        let shown = browser.get(odd).await;
        assert_eq!((shown.status, browser.jar.is_empty()), (400, true), "{odd}");
    }

    assert_eq!(browser.get(&back).await.status, 303);
    let mut replayed = Browser::open(&stage.world);
    replayed.jar.clone_from(&kept);
    let shown = replayed.get(&back).await;
    assert!(alert(&shown).contains("completed already"), "{}", alert(&shown));

    // A token of an earlier sign-in fits no later one.
    let old = stage.signed(&stage.claims(&nonce, json!({})));
    let mut later = Browser::open(&stage.world);
    let shown = stage.sign_in(&mut later, |_| old).await;
    assert!(alert(&shown).contains("another sign-in"), "{}", alert(&shown));

    let mut late = Browser::open(&stage.world);
    let left = late.get("/auth/login").await;
    stage.world.clock.advance(Duration::from_secs(600));
    let back = format!("/auth/callback?code=c0de&state={}", left.parameter("state").unwrap());
    assert!(alert(&late.get(&back).await).contains("took too long"));

    // A provider that says no, in whatever words, gets our sentence.
    let mut refused = Browser::open(&stage.world);
    let left = refused.get("/auth/login").await;
    let state = left.parameter("state").unwrap();
    let no = format!("/auth/callback?error=%3Cscript%3E&error_description=%3Cb%3E&state={state}&code=c0de");
    let shown = refused.get(&no).await;
    assert_eq!((shown.status, alert(&shown).as_str()), (403, "The identity provider refused the sign-in."));
    assert!(!shown.text.contains("script"));
}

/// Who is to do something: the user, whoever runs the gateway, or whoever runs the provider.
#[tokio::test]
async fn why_a_provider_signs_nobody_in_is_told_by_the_names_of_the_standard() {
    let stage = Stage::set().await;
    let cases = [
        ("access_denied", 403, "The identity provider refused the sign-in."),
        ("login_required", 403, "The identity provider refused the sign-in."),
        ("server_error", 502, "at the moment (server_error)"),
        ("temporarily_unavailable", 502, "at the moment (temporarily_unavailable)"),
        ("invalid_scope", 502, "requests (invalid_scope): whoever runs it"),
    ];
    for (error, status, why) in cases {
        let mut browser = Browser::open(&stage.world);
        let state = browser.get("/auth/login").await.parameter("state").unwrap();
        let shown = browser.get(&format!("/auth/callback?error={error}&state={state}")).await;
        assert_eq!((shown.status, browser.jar.is_empty()), (status, true), "{error}");
        assert!(alert(&shown).contains(why), "{error}: {}", alert(&shown));
        // Nobody is believed about that who did not begin the sign-in.
        let mut other = Browser::open(&stage.world);
        other.get("/auth/login").await;
        let shown = other.get(&format!("/auth/callback?error={error}&state={state}")).await;
        assert!(alert(&shown).contains("another sign-in"), "{error}: {}", alert(&shown));
    }
    for (body, status, why) in [
        (r#"{"error":"invalid_grant"}"#, 403, "refused the sign-in"),
        (r#"{"error":"invalid_client","error_description":"<b>"}"#, 502, "requests (invalid_client)"),
        (r#"{"error":"<script>"}"#, 403, "refused the sign-in"),
        ("<html>", 403, "refused the sign-in"),
    ] {
        stage.provider.says("/token", 401, body);
        let mut browser = Browser::open(&stage.world);
        let state = browser.get("/auth/login").await.parameter("state").unwrap();
        let shown = browser.get(&format!("/auth/callback?code=c&state={state}")).await;
        assert_eq!(shown.status, status, "{body}");
        assert!(alert(&shown).contains(why) && !shown.text.contains("<b>"), "{body}: {}", alert(&shown));
    }
}

#[tokio::test]
async fn keys_are_exchanged_without_a_herd() {
    let stage = Stage::set().await;
    assert_eq!(stage.claim(json!({})).await.status, 303);
    let asked = stage.provider.take();
    assert_eq!(asked.iter().filter(|asked| asked.path == "/keys").count(), 1);

    // Another key signs: the set is fetched again, though not more often than every ten seconds.
    let (new, newer) = (SigningKey::generate(), SigningKey::generate());
    let sign_in = async |key: &SigningKey, id: &str| {
        let mut browser = Browser::open(&stage.world);
        stage.sign_in(&mut browser, |nonce| key.sign(&stage.claims(nonce, json!({})), Some(id))).await.status
    };
    stage.provider.has_keys(&[("k1", &stage.provider.key), ("k2", &new)]);
    assert_eq!(sign_in(&new, "k2").await, 502, "fetched a moment ago");
    stage.world.clock.advance(Duration::from_secs(10));
    assert_eq!(sign_in(&new, "k2").await, 303);
    stage.provider.take();
    for _ in 0..5 {
        assert_eq!(sign_in(&newer, "k3").await, 502);
    }
    assert!(stage.provider.take().iter().all(|asked| asked.path != "/keys"));

    // A key that is published no more stops counting, within the hour.
    stage.provider.has_keys(&[("k2", &new)]);
    stage.world.clock.advance(Duration::from_secs(3600));
    assert_eq!(stage.claim(json!({})).await.status, 502);
    assert_eq!(sign_in(&new, "k2").await, 303);

    // A provider that is away for a moment does not undo what is known of it, but keys are not kept for ever.
    stage.provider.says("/.well-known/openid-configuration", 500, "");
    assert_eq!(sign_in(&new, "k2").await, 303);
    stage.world.clock.advance(Duration::from_secs(3600));
    assert_eq!(sign_in(&new, "k2").await, 303);
    stage.provider.says("/keys", 500, "");
    stage.world.clock.advance(Duration::from_secs(3600));
    assert_eq!(sign_in(&new, "k2").await, 502);
}

#[tokio::test]
async fn a_provider_that_misbehaves_is_told_and_bounded() {
    let huge = "x".repeat(300 * 1024);
    let issuer_of_others = json!({ "issuer": "https://evil.example" });
    for (name, break_it) in [
        ("another's metadata", issuer_of_others),
        ("no endpoints", json!({ "token_endpoint": null })),
        ("a script", json!({ "authorization_endpoint": "javascript:alert(1)" })),
        ("in the clear", json!({ "token_endpoint": "http://10.0.0.1/token" })),
        ("with a user", json!({ "jwks_uri": "https://a:b@id.example/keys" })),
        ("too long", json!({ "padding": huge })),
    ] {
        let stage = Stage::set().await;
        stage.provider.publishes(break_it);
        let shown = Browser::open(&stage.world).get("/auth/login").await;
        assert_eq!(shown.status, 502, "{name}");
        assert!(shown.cookies().is_empty(), "{name}");
    }

    let stage = Stage::set().await;
    let elsewhere = Provider::start().await;
    elsewhere.says("/token", 200, "{}");
    type Break<'a> = Box<dyn Fn() + 'a>;
    let broken: Vec<(&str, Break<'_>, u16)> = vec![
        (
            "no code for us",
            Box::new(|| stage.provider.says("/token", 400, r#"{"error":"invalid_grant"}"#)),
            403,
        ),
        ("failing", Box::new(|| stage.provider.says("/token", 500, "")), 502),
        (
            "leading elsewhere",
            Box::new(|| stage.provider.leads("/token", 307, &format!("{}/token", elsewhere.issuer))),
            502,
        ),
        ("too long", Box::new(|| stage.provider.says("/token", 200, "x".repeat(300 * 1024))), 502),
        ("no JSON", Box::new(|| stage.provider.says("/token", 200, "<html>")), 502),
        ("no token", Box::new(|| stage.provider.says("/token", 200, r#"{"access_token":"a"}"#)), 502),
        (
            "keys that lead elsewhere",
            Box::new(|| stage.provider.leads("/keys", 302, &format!("{}/keys", elsewhere.issuer))),
            502,
        ),
        ("keys too long", Box::new(|| stage.provider.says("/keys", 200, "x".repeat(300 * 1024))), 502),
    ];
    for (name, break_it, status) in broken {
        let mut browser = Browser::open(&stage.world);
        let left = browser.get("/auth/login").await;
        let nonce = left.parameter("nonce").unwrap();
        stage.provider.gives(&stage.signed(&stage.claims(&nonce, json!({}))));
        break_it();
        let back = format!("/auth/callback?code=c&state={}", left.parameter("state").unwrap());
        let shown = browser.get(&back).await;
        assert_eq!((shown.status, browser.jar.is_empty()), (status, true), "{name}");
    }
    assert!(elsewhere.take().is_empty(), "a redirect was followed");
}

#[tokio::test]
async fn what_only_userinfo_tells_counts_where_it_is_about_the_same_user() {
    let stage = Stage::set().await;
    let told = |body: Value| stage.provider.says("/userinfo", 200, body.to_string());
    told(
        json!({ "sub": "u1", "groups": ["bosses"], "email": "u1@x.example", "iss": "https://evil.example" }),
    );
    assert_eq!(stage.claim(json!({ "groups": null, "email": null })).await.status, 303);
    let asked = stage.provider.take();
    let question = asked.iter().find(|asked| asked.path == "/userinfo").unwrap();
    assert!(question.head.contains("authorization: Bearer access\r\n"));
    // The token's own claims win.
    assert_eq!(stage.claim(json!({ "groups": ["nobodies"], "email": null })).await.status, 403);
    told(json!({ "sub": "u2", "groups": ["bosses"] }));
    let shown = stage.claim(json!({ "groups": null })).await;
    assert!(alert(&shown).contains("another user"), "{}", alert(&shown));
    told(json!({ "groups": ["bosses"] }));
    assert_eq!(stage.claim(json!({ "groups": null })).await.status, 502);
    stage.provider.says("/userinfo", 404, "");
    assert_eq!(stage.claim(json!({ "groups": null })).await.status, 403);
}

#[tokio::test]
async fn answers_name_their_provider_where_it_promises_so() {
    let stage = Stage::set().await;
    let back = async |more: &str| {
        let mut browser = Browser::open(&stage.world);
        let left = browser.get("/auth/login").await;
        stage.provider.gives(&stage.signed(&stage.claims(&left.parameter("nonce").unwrap(), json!({}))));
        let state = left.parameter("state").unwrap();
        browser.get(&format!("/auth/callback?code=c&state={state}{more}")).await.status
    };
    let own = format!("&iss={}", stage.provider.issuer);
    assert_eq!((back("").await, back(&own).await), (303, 303));
    assert_eq!(back("&iss=https://evil.example").await, 502);
    stage.provider.publishes(json!({ "authorization_response_iss_parameter_supported": true }));
    stage.world.clock.advance(Duration::from_secs(3600));
    assert_eq!((back("").await, back(&own).await), (502, 303));
}

#[tokio::test]
async fn the_page_that_asks_lets_its_form_lead_to_the_provider() {
    let stage = Stage::set().await;
    let mut browser = Browser::open(&stage.world);
    let shown = stage.sign_in(&mut browser, |nonce| stage.signed(&stage.claims(nonce, json!({})))).await;
    assert_eq!(shown.status, 303);
    browser.site = Some("cross-site");
    let asks = browser.get("/auth/logout").await;
    let policy = asks.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.ends_with(&format!("form-action 'self' {}", stage.provider.issuer)), "{policy}");
    browser.site = Some("same-origin");
    // A session that a key began is no business of the provider's.
    let mut keyed = Browser::open(&stage.world);
    keyed.sign_in("admin").await;
    assert_eq!(keyed.get("/auth/logout").await.location(), "/login");
}

#[tokio::test]
async fn a_logout_token_ends_what_it_names_once() {
    let stage = Stage::set().await;
    let sessions = async || {
        let mut admin = Browser::open(&stage.world);
        admin.sign_in("admin").await;
        let listed: Value = serde_json::from_str(&admin.get("/api/v1/sessions").await.text).unwrap();
        admin.get("/auth/logout").await;
        listed["sessions"].as_array().unwrap().iter().filter(|it| it["method"] == "sso").count()
    };
    let signed_in = async |sid: &str| {
        let mut browser = Browser::open(&stage.world);
        let shown = stage
            .sign_in(&mut browser, |nonce| stage.signed(&stage.claims(nonce, json!({ "sid": sid }))))
            .await;
        assert_eq!(shown.status, 303);
        browser
    };
    let mut first = signed_in("s1").await;
    signed_in("s2").await;
    let event = "http://schemas.openid.net/event/backchannel-logout";
    let token = |change: Value| {
        let now = stage.world.clock.now().as_second();
        let mut claims = json!({
            "iss": stage.provider.issuer, "aud": "gate", "iat": now, "exp": now + 120, "jti": "t1", "sub": "u1",
            "sid": "s1", "events": { event: {} },
        });
        merge(&mut claims, change);
        claims
    };
    let send = async |token: &str| {
        let mut browser = Browser::open(&stage.world);
        browser.site = None;
        browser.post("/auth/backchannel-logout", &[("logout_token", token)]).await
    };
    let now = stage.world.clock.now().as_second();
    for (change, why) in [
        (json!({ "iss": "https://evil.example" }), "another issuer"),
        (json!({ "aud": "other" }), "another client"),
        (json!({ "iat": now - 700 }), "expired"),
        (json!({ "iat": null }), "not valid yet"),
        (json!({ "exp": now - 60 }), "expired"),
        (json!({ "nonce": "n" }), "no logout token"),
        (json!({ "events": {} }), "no logout token"),
        (json!({ "events": { event: true } }), "no logout token"),
        (json!({ "jti": null }), "no logout token"),
        (json!({ "sub": null, "sid": null }), "names nobody"),
    ] {
        let told = send(&stage.signed(&token(change.clone()))).await;
        assert!(told.status == 400 && told.text.contains(why), "{change}: {}", told.text);
    }
    let forged = SigningKey::generate().sign(&token(json!({})), Some("k1"));
    for wrong in ["", "x", &forged] {
        assert_eq!(send(wrong).await.status, 400, "{wrong}");
    }
    assert_eq!(send(&"x".repeat(20_000)).await.status, 400);
    // Somebody else's name, or another session, is none of theirs.
    for other in [json!({ "jti": "t2", "sub": "u2" }), json!({ "jti": "t3", "sid": "s9" })] {
        assert_eq!(send(&stage.signed(&token(other))).await.status, 200);
    }
    assert_eq!(sessions().await, 2);
    let told = send(&stage.signed(&token(json!({})))).await;
    assert_eq!((told.status, told.text.as_str()), (200, ""));
    assert_eq!(told.headers["cache-control"], "no-store");
    assert_eq!((sessions().await, first.get("/api/v1/audit").await.status), (1, 401));
    signed_in("s1").await;
    assert!(send(&stage.signed(&token(json!({})))).await.text.contains("used already"));
    assert_eq!(sessions().await, 2);
    // Without a session, all of the user's end.
    assert_eq!(send(&stage.signed(&token(json!({ "jti": "t4", "sid": null })))).await.status, 200);
    assert_eq!(sessions().await, 0);
}

/// What a session is worth follows the configuration: it says today what a provider's words mean.
#[tokio::test]
async fn a_session_counts_as_long_as_its_words_would_mean_the_same() {
    let stage = Stage::set().await;
    let mut browser = Browser::open(&stage.world);
    let shown = stage.sign_in(&mut browser, |nonce| stage.signed(&stage.claims(nonce, json!({})))).await;
    assert_eq!(shown.status, 303, "{}", alert(&shown));
    let granted: Value =
        serde_json::from_str(&browser.call("POST", "/api/v1/auth/token", "").await.text).unwrap();
    let token = granted["access_token"].as_str().unwrap();
    let (now, office) = (stage.world.clock.now(), &stage.world.office);
    let [session] = &office.authenticator.sessions.list(now)[..] else { panic!("one session") };
    let as_configured = |change: &dyn Fn(&mut OidcConfig)| {
        let mut config = config(&stage.provider.issuer);
        change(&mut config);
        let read = Box::new(|| None);
        let client = OidcClient::new(
            config,
            Fetcher::new(None).unwrap(),
            read,
            NodeSecret::random(),
            office.clock.clone(),
        );
        let provider = Some(IdentityProvider::Oidc(std::sync::Arc::new(client)));
        Authenticator { provider, ..office.authenticator.clone() }
    };
    let counts = async |authenticator: Authenticator| {
        let holder = authenticator.holder(session, now);
        let program = authenticator.authenticate(token, now, &Patience::default()).await.unwrap();
        assert_eq!(holder.is_some(), program.is_some());
        holder.map(|holder| holder.role)
    };
    assert_eq!(counts(as_configured(&|_| {})).await, Some(Role::Auditor));
    assert_eq!(
        counts(as_configured(&|config| config.mapping.name = "sub".to_owned())).await,
        Some(Role::Auditor)
    );
    let changes: [&dyn Fn(&mut OidcConfig); 5] = [
        &|config| config.mapping.role_map.truncate(1),
        &|config| config.mapping.role_map[1].1 = Role::Analyst,
        &|config| config.mapping.role = "teams".to_owned(),
        &|config| config.mapping.default_role = Some(Role::Agent),
        &|config| config.issuer = Endpoint::parse("https://elsewhere.example").unwrap(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        assert_eq!(counts(as_configured(change)).await, None, "change {number}");
    }
    assert_eq!(counts(Authenticator { provider: None, ..office.authenticator.clone() }).await, None);
}

/// Somebody whom the provider gives another role, or none any more, does not go on with the old one elsewhere.
#[tokio::test]
async fn what_a_provider_said_last_of_somebody_counts_in_all_their_sessions() {
    let stage = Stage::set().await;
    let signed_in = async |subject: &str, groups: Value| {
        let mut browser = Browser::open(&stage.world);
        let change = json!({ "sub": subject, "groups": groups });
        stage.sign_in(&mut browser, |nonce| stage.signed(&stage.claims(nonce, change))).await;
        browser
    };
    let status = async |browser: &mut Browser<'_>| browser.get("/api/v1/sessions").await.status;
    let mut other = signed_in("u2", json!(["bosses"])).await;
    let (mut first, mut second) =
        (signed_in("u1", json!(["bosses"])).await, signed_in("u1", json!(["bosses", "staff"])).await);
    assert_eq!(
        (status(&mut first).await, status(&mut second).await),
        (200, 200),
        "the same role is no other"
    );
    let mut third = signed_in("u1", json!(["readers"])).await;
    assert_eq!((status(&mut first).await, status(&mut second).await), (401, 401));
    assert_eq!(third.get("/api/v1/audit").await.status, 200);
    let fourth = signed_in("u1", json!(["staff"])).await;
    assert!(!fourth.jar.contains_key(SESSION), "no role is no session");
    assert_eq!(third.get("/api/v1/audit").await.status, 401);
    assert_eq!(status(&mut other).await, 200, "somebody else goes on");
    let told = other.get("/api/v1/audit?event_type=logout").await.text;
    for (why, times) in [("gives another role now", 2), ("gives no role any more", 1)] {
        assert_eq!(told.matches(why).count(), times, "{told}");
    }
}
