//! Single sign-on by SAML, against a provider that does everything wrong, one thing at a time, and people in between
//! who rewrite what an honest one has signed.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use portcullis::access::sso::saml::SamlFault;
use portcullis::access::sso::saml::client::Posted;
use portcullis::access::sso::saml::key::TrustedKey;
use portcullis::access::sso::saml::message;
use portcullis::access::sso::saml::message::Kind;
use portcullis::access::sso::saml::metadata;
use portcullis::access::sso::saml::response::Expected;
use portcullis::access::sso::saml::response::Vouched;
use portcullis::access::sso::saml::response::judge;
use portcullis::access::url::Endpoint;
use portcullis::clock::Clock;
use proptest::prelude::*;
use serde_json::Value;
use serde_json::json;

use crate::browser::Browser;
use crate::browser::Shown;
use crate::forger::CALLBACK;
use crate::forger::ENTITY;
use crate::forger::Forger;
use crate::forger::LOGOUT;
use crate::forger::OURS;
use crate::forger::Said;
use crate::forger::Way;
use crate::forger::inflated;
use crate::forger::with_signature;
use crate::stage::Stage;
use crate::stage::bring;
use crate::stage::question;
use crate::world::World;

const SESSION: &str = "portcullis-session";
const NOW: i64 = 1_780_000_000;
const STATUS: &str = "urn:oasis:names:tc:SAML:2.0:status:";

/// A provider, the question it was asked, and the honest answer.
struct Scene {
    forger: Forger,
    keys: Vec<TrustedKey>,
    said: Said,
}

impl Scene {
    fn new() -> Self {
        let forger = Forger::new();
        let keys = metadata::read(&forger.metadata).unwrap().keys;
        let now = jiff::Timestamp::from_second(NOW).unwrap();
        Self { forger, keys, said: Said::honestly("_question", now) }
    }

    fn judge(&self, xml: &str) -> Result<Vouched, SamlFault> {
        let expected = Expected {
            issuer: ENTITY,
            keys: &self.keys,
            audience: OURS,
            place: CALLBACK,
            question: "_question",
            now: jiff::Timestamp::from_second(NOW).unwrap(),
        };
        judge(xml, &expected)
    }

    /// What somebody in between would like to say.
    fn evil(&self) -> String {
        let evil = Said { subject: "root".to_owned(), groups: "bosses".to_owned(), ..self.said.clone() };
        Said { id: "_evil".to_owned(), ..evil }.assertion()
    }

    fn fault(&self, xml: &str) -> String {
        self.judge(xml)
            .map_or_else(|fault| fault.to_string(), |vouched| format!("taken: {}", vouched.name.value))
    }
}

fn alert(shown: &Shown) -> String {
    let after = shown.text.split("role=\"alert\">").nth(1).unwrap_or_default();
    after.split('<').next().unwrap_or_default().replace("&#39;", "'")
}

#[test]
fn what_an_honest_provider_says_is_taken() {
    let scene = Scene::new();
    let (forger, said) = (&scene.forger, &scene.said);
    let outside = forger.signed(&said.response(&said.assertion()));
    let both = forger.signed(&said.response(&forger.signed(&said.assertion())));
    for xml in [forger.response(said), outside, both] {
        let vouched = scene.judge(&xml).unwrap();
        assert_eq!((vouched.name.value.as_str(), vouched.session.as_deref()), ("u1", Some("s1")));
        assert_eq!(vouched.claims["groups"], json!(["readers", "others"]));
        assert_eq!((&vouched.claims["sub"], vouched.id.as_str()), (&json!("u1"), "_a_question"));
    }
    // Written otherwise, it says the same: a declaration, single quotes, another order, white space in tags.
    let otherwise = forger
        .response(said)
        .replace("<saml:NameID>", "<saml:NameID\n >")
        .replace("Version=\"2.0\"><saml:Issuer>", "Version='2.0' ><saml:Issuer>");
    let otherwise = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{otherwise}\n");
    assert_eq!(scene.judge(&otherwise).unwrap().name.value, "u1");
}

/// The eight wrappings of "On Breaking SAML" (Somorovsky and others, USENIX Security 2012), as penetration testers
/// number them, and some more.
#[test]
fn a_signature_wrapped_around_somebody_elses_words_is_refused() {
    let scene = Scene::new();
    let (forger, said, evil) = (&scene.forger, &scene.said, scene.evil());
    let plain = said.assertion();
    let (signed, signature) = (forger.signed(&plain), forger.signature(&plain, &Way::default()));
    let whole = said.response(&plain);
    let whole_signature = forger.signature(&whole, &Way::default());
    let evil_response = said.response(&evil).replace("ID=\"_r1\"", "ID=\"_r2\"");
    let inside = |outer: &str, more: &str, end: &str| outer.replacen(end, &format!("{more}{end}"), 1);
    let object = |content: &str| {
        format!("<ds:Object xmlns:ds=\"http://www.w3.org/2000/09/xmldsig#\">{content}</ds:Object>")
    };
    let in_signature = |content: &str| inside(&signature, content, "</ds:Signature>");
    let extensions = |content: &str| format!("<samlp:Extensions>{content}</samlp:Extensions>");
    let wrapped = [
        ("XSW1", with_signature(&evil_response, &inside(&whole_signature, &whole, "</ds:Signature>"))),
        ("XSW2", with_signature(&evil_response, &format!("{whole}{whole_signature}"))),
        ("XSW3", said.response(&format!("{evil}{signed}"))),
        ("XSW4", said.response(&inside(&evil, &signed, "</saml:Assertion>"))),
        ("XSW5", said.response(&format!("{}{plain}", with_signature(&evil, &signature)))),
        ("XSW6", said.response(&with_signature(&evil, &in_signature(&plain)))),
        (
            "XSW7",
            said.response(&signed).replacen(
                "<samlp:Status>",
                &format!("{}<samlp:Status>", extensions(&evil)),
                1,
            ),
        ),
        ("XSW8", said.response(&with_signature(&evil, &in_signature(&object(&plain))))),
        ("the other way about", said.response(&format!("{signed}{evil}"))),
        ("with the same id", said.response(&format!("{}{signed}", evil.replace("_evil", &said.id)))),
        (
            "in the advice",
            said.response(&inside(
                &evil,
                &format!("<saml:Advice>{signed}</saml:Advice>"),
                "<saml:AuthnStatement",
            )),
        ),
        (
            "in the signature of the response",
            with_signature(&evil_response, &inside(&whole_signature, &object(&whole), "</ds:Signature>")),
        ),
        (
            "a response in a response",
            evil_response.replacen("<samlp:Status>", &format!("{}<samlp:Status>", forger.signed(&whole)), 1),
        ),
        (
            "two signatures",
            said.response(&with_signature(
                &with_signature(&evil, &signature),
                &forger.signature(&evil, &Way::default()),
            )),
        ),
        (
            "in the key info",
            said.response(&with_signature(
                &evil,
                &forger.signature(
                    &plain,
                    &Way { more: format!("<ds:KeyInfo>{plain}</ds:KeyInfo>"), ..Way::default() },
                ),
            )),
        ),
        ("an assertion elsewhere", format!("<a xmlns=\"u\">{}</a>", forger.response(said))),
    ];
    for (name, xml) in wrapped {
        assert!(xml.contains("root") || name == "an assertion elsewhere", "{name} says nothing evil");
        let found = scene.fault(&xml);
        assert!(!found.starts_with("taken"), "{name}: {found}");
    }
}

#[test]
fn a_signature_counts_in_one_shape_alone() {
    let scene = Scene::new();
    let (forger, said) = (&scene.forger, &scene.said);
    let plain = said.assertion();
    let of = |way: Way| said.response(&forger.signed_in(&plain, &way));
    let other = Forger::new();
    let transforms = |list: &[&str]| {
        list.iter().map(|it| format!("<ds:Transform Algorithm=\"{it}\"></ds:Transform>")).collect::<String>()
    };
    let enveloped = "http://www.w3.org/2000/09/xmldsig#enveloped-signature";
    let exclusive = "http://www.w3.org/2001/10/xml-exc-c14n#";
    let listing = |prefixes: usize| {
        let list = (0..prefixes).map(|number| format!("p{number}")).collect::<Vec<_>>().join(" ");
        format!(
            "{}<ds:Transform Algorithm=\"{exclusive}\"><ec:InclusiveNamespaces xmlns:ec=\"{exclusive}\" \
             PrefixList=\"{list}\"></ec:InclusiveNamespaces></ds:Transform>",
            transforms(&[enveloped])
        )
    };
    let own_key = format!(
        "<ds:KeyInfo><ds:X509Data><ds:X509Certificate>{}</ds:X509Certificate></ds:X509Data></ds:KeyInfo>",
        STANDARD.encode(other.key.certificate())
    );
    let algorithm = |name: &str| Way { algorithm: name.to_owned(), ..Way::default() };
    let signed = forger.signed(&plain);
    let cases = [
        ("none", said.response(&plain), "not signed"),
        ("another's", said.response(&other.signed(&plain)), "none of the provider's keys"),
        ("another's, with its key", said.response(&other.signed_in(&plain, &Way { more: own_key, ..Way::default() })), "none of the provider's keys"),
        ("SHA-1", of(algorithm("http://www.w3.org/2000/09/xmldsig#rsa-sha1")), "a way that is not taken"),
        ("HMAC", of(algorithm("http://www.w3.org/2001/04/xmldsig-more#hmac-sha256")), "a way that is not taken"),
        ("another kind", of(algorithm("http://www.w3.org/2001/04/xmldsig-more#rsa-sha256")), "none of the provider's keys"),
        ("a weak digest", of(Way { digest_method: "http://www.w3.org/2000/09/xmldsig#sha1".to_owned(), ..Way::default() }), "a way that is not taken"),
        ("inclusive", of(Way { canonicalization: "http://www.w3.org/TR/2001/REC-xml-c14n-20010315".to_owned(), ..Way::default() }), "a way that is not taken"),
        ("with comments", of(Way { canonicalization: format!("{exclusive}WithComments"), ..Way::default() }), "a way that is not taken"),
        ("the whole document", of(Way { uri: Some(String::new()), ..Way::default() }), "about another element"),
        ("another id", of(Way { uri: Some("#_r1".to_owned()), ..Way::default() }), "about another element"),
        ("elsewhere", of(Way { uri: Some("https://evil.example/#x".to_owned()), ..Way::default() }), "about another element"),
        ("a pointer", of(Way { uri: Some("#xpointer(id('x'))".to_owned()), ..Way::default() }), "about another element"),
        ("no transform", of(Way { transforms: String::new(), ..Way::default() }), "one shape"),
        ("XSLT", of(Way { transforms: transforms(&[enveloped, "http://www.w3.org/TR/1999/REC-xslt-19991116"]), ..Way::default() }), "a way that is not taken"),
        ("XPath first", of(Way { transforms: transforms(&["http://www.w3.org/TR/1999/REC-xpath-19991116", exclusive]), ..Way::default() }), "one shape"),
        ("three transforms", of(Way { transforms: transforms(&[enveloped, exclusive, exclusive]), ..Way::default() }), "one shape"),
        ("two references", of(Way { second_reference: true, ..Way::default() }), "one shape"),
        ("an object", of(Way { more: "<ds:Object></ds:Object>".to_owned(), ..Way::default() }), "one shape"),
        ("changed", said.response(&signed.replace(">readers<", ">bosses<")), "was changed"),
        ("another's, and changed", said.response(&other.signed(&plain).replace(">readers<", ">bosses<")), "none of the provider's keys"),
        ("prefixes", of(Way { transforms: listing(32), ..Way::default() }), "taken: u1"),
        ("too many prefixes", of(Way { transforms: listing(33), ..Way::default() }), "one shape"),
        ("more in it", said.response(&signed.replace("<saml:NameID>", "<saml:NameID Format=\"x\">")), "was changed"),
        ("white space", said.response(&signed.replace("<saml:Subject>", "<saml:Subject> ")), "was changed"),
        ("a comment", said.response(&signed.replace(">u1<", ">u<!-- -->1<")), "comment"),
        ("a comment outside", format!("{}<!---->", said.response(&signed)), "comment"),
        ("an instruction", said.response(&signed.replace(">u1<", ">u<?x?>1<")), "processing instruction"),
        ("an entity", format!("<!DOCTYPE a [<!ENTITY e \"u1\">]>{}", said.response(&signed.replace(">u1<", ">&e;<"))), "document type"),
        ("an encrypted one", said.response("<saml:EncryptedAssertion xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion\"></saml:EncryptedAssertion>"), "encrypted"),
        ("at the end", said.response(&plain.replace("</saml:Assertion>", &format!("{}</saml:Assertion>", forger.signature(&plain, &Way::default())))), "one shape"),
        ("of the response, wrong", with_signature(&said.response(&signed), &other.signature(&said.response(&signed), &Way::default())), "none of the provider's keys"),
    ];
    for (name, xml, why) in cases {
        let found = scene.fault(&xml);
        assert!(found.contains(why), "{name}: {found}");
    }
    // A name with a comment in it was cut short by some: here a comment is the end of the message, whoever signed it.
    let cut = Said { subject: "root<!-- -->@evil.example".to_owned(), ..said.clone() };
    assert!(scene.fault(&forger.response(&cut)).contains("comment"));
}

#[test]
fn what_is_signed_has_to_be_meant_for_us_and_now() {
    let scene = Scene::new();
    let at = |seconds: i64| jiff::Timestamp::from_second(NOW + seconds).unwrap().to_string();
    type Change<'a> = Box<dyn Fn(&mut Said) + 'a>;
    let cases: Vec<(&str, Change<'_>, &str)> = vec![
        ("issuer", Box::new(|it| it.issuer = "https://evil.example".to_owned()), "another issuer"),
        ("audience", Box::new(|it| it.audience = "https://other.example".to_owned()), "another gateway"),
        ("audience, longer", Box::new(|it| it.audience = format!("{OURS}/")), "another gateway"),
        ("recipient", Box::new(|it| it.recipient = "https://other.example".to_owned()), "not confirmed"),
        ("destination", Box::new(|it| it.destination = "https://other.example".to_owned()), "another place"),
        ("no destination", Box::new(|it| it.destination = String::new()), "another place"),
        ("question", Box::new(|it| it.question = "_other".to_owned()), "another sign-in"),
        ("unasked", Box::new(|it| it.question = String::new()), "another sign-in"),
        ("over", Box::new(|it| it.until = at(-60)), "expired"),
        ("confirmation over", Box::new(|it| it.confirmed_until = at(-60)), "expired"),
        ("session over", Box::new(|it| it.session_until = at(-60)), "expired"),
        ("no time", Box::new(|it| it.until = String::new()), "one shape"),
        ("too early", Box::new(|it| it.from = at(61)), "not valid yet"),
        (
            "another confirmation",
            Box::new(|it| it.confirmation = "urn:oasis:names:tc:SAML:2.0:cm:sender-vouches".to_owned()),
            "not confirmed",
        ),
        (
            "unknown condition",
            Box::new(|it| it.conditions = "<saml:Condition></saml:Condition>".to_owned()),
            "condition",
        ),
        (
            "two audiences",
            Box::new(|it| {
                it.conditions =
                    "<saml:AudienceRestriction><saml:Audience>x</saml:Audience></saml:AudienceRestriction>"
                        .to_owned()
            }),
            "another gateway",
        ),
        ("nobody", Box::new(|it| it.subject = " ".to_owned()), "names nobody"),
        ("an element for a name", Box::new(|it| it.subject = "<saml:X></saml:X>u1".to_owned()), "one shape"),
        ("refused", Box::new(|it| it.status = "Other".to_owned()), "refused"),
    ];
    for (name, change, why) in cases {
        let mut said = scene.said.clone();
        change(&mut said);
        let found = scene.fault(&scene.forger.response(&said));
        assert!(found.contains(why), "{name}: {found}");
    }
    // Within a minute, clocks may differ.
    for (from, until) in [(60, 300), (-5, -59)] {
        let said = Said { from: at(from), until: at(until), ..scene.said.clone() };
        assert_eq!(scene.fault(&scene.forger.response(&said)), "taken: u1");
    }
    let once = Said { conditions: "<saml:OneTimeUse></saml:OneTimeUse>".to_owned(), ..scene.said.clone() };
    assert_eq!(scene.fault(&scene.forger.response(&once)), "taken: u1");
}

/// Who is to do something: the user, whoever runs the gateway, or whoever runs the provider.
#[test]
fn why_a_provider_signs_nobody_in_is_told_by_its_status() {
    let scene = Scene::new();
    let below = |outer: &str, inner: &str| {
        let said = Said { status: format!("{STATUS}{outer}"), ..scene.said.clone() };
        let xml = said.response(&said.assertion());
        let inner =
            format!("><samlp:StatusCode Value=\"{STATUS}{inner}\"></samlp:StatusCode></samlp:StatusCode>");
        scene.fault(&xml.replacen("></samlp:StatusCode>", &inner, 1))
    };
    for (outer, inner, why) in [
        ("Responder", "AuthnFailed", "refused the sign-in"),
        ("Requester", "RequestDenied", "refused the sign-in"),
        ("Requester", "RequestUnsupported", "gateway's requests"),
        ("VersionMismatch", "x", "gateway's requests"),
        ("Responder", "ProxyCountExceeded", "at the moment"),
        ("AuthnFailed", "x", "refused the sign-in"),
    ] {
        let found = below(outer, inner);
        assert!(found.contains(why), "{outer}/{inner}: {found}");
    }
    assert!(below("Success", "AuthnFailed").contains("not signed"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever is done to the bytes of an honest answer, nothing else than what was signed is taken from it.
    #[test]
    fn no_change_of_bytes_makes_it_say_something_else(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4u8, any::<u8>()), 1..4),
        whole in any::<bool>(),
    ) {
        let scene = Scene::new();
        let honest = match whole {
            true => scene.forger.signed(&scene.said.response(&scene.said.assertion())),
            false => scene.forger.response(&scene.said),
        };
        let wanted = scene.judge(&honest).unwrap();
        let mut bytes = honest.into_bytes();
        for (at, to, kind, byte) in edits {
            let (at, to) = (at.index(bytes.len()), to.index(bytes.len()));
            let range = at.min(to)..at.max(to).min(at.min(to) + 600);
            match kind {
                0 => bytes[at] ^= byte.max(1),
                1 => drop(bytes.drain(range)),
                2 => { let piece = bytes[range].to_vec(); bytes.splice(at..at, piece); }
                _ => bytes.insert(at, byte),
            }
            if bytes.is_empty() { break; }
        }
        if let Ok(text) = String::from_utf8(bytes)
            && let Ok(found) = scene.judge(&text)
        {
            prop_assert_eq!(found, wanted);
        }
    }
}

#[tokio::test]
async fn the_way_there_and_back() {
    let stage = Stage::set();
    let mut browser = Browser::open(&stage.world);
    let left = browser.get("/auth/login?next=/openapi.json").await;
    assert!(
        left.location().starts_with("https://id.example/in?tenant=1&SAMLRequest="),
        "{}",
        left.location()
    );
    let cookie = left.cookies()[0];
    assert!(
        cookie.contains("portcullis-saml=") && cookie.contains("; SameSite=None; Secure; Max-Age=600"),
        "{cookie}"
    );
    let request = inflated(&left.parameter("SAMLRequest").unwrap());
    for part in [
        "Destination=\"https://id.example/in?tenant=1\"",
        &format!("AssertionConsumerServiceURL=\"{CALLBACK}\""),
        &format!(">{OURS}</saml:Issuer>"),
        "HTTP-POST\"",
    ] {
        assert!(request.contains(part), "{part}: {request}");
    }
    // The request is signed with the key of our metadata.
    let ours = browser.get("/auth/saml/metadata").await;
    assert_eq!(ours.headers["content-type"], "application/samlmetadata+xml");
    let certificate = ours.text.split("X509Certificate>").nth(1).unwrap().split('<').next().unwrap();
    let keys = [TrustedKey::of_certificate(&STANDARD.decode(certificate).unwrap()).unwrap()];
    let query = left.location().split_once("?tenant=1&").unwrap().1;
    assert_eq!(message::read(query, &keys).unwrap().xml, request);
    assert!(ours.text.contains("WantAssertionsSigned=\"true\"") && ours.text.contains(LOGOUT));

    let said = Said::honestly(&question(&left), stage.world.clock.now());
    let xml = stage.forger.response(&said);
    let relay = left.parameter("RelayState").unwrap();
    let back = bring(&mut browser, &xml, &relay).await;
    assert_eq!((back.status, back.location()), (303, "/openapi.json"), "{}", alert(&back));
    assert_eq!(browser.jar.keys().collect::<Vec<_>>(), [SESSION]);
    assert_eq!(browser.get("/api/v1/audit").await.status, 200);
    assert_eq!(browser.get("/api/v1/config").await.status, 403);
    assert!(browser.get("/").await.text.contains("u1@people.example"));
    let listed = sessions(&stage.world).await;
    assert_eq!((&listed[0]["actor"], &listed[0]["issuer"]), (&json!("sso:u1"), &json!(ENTITY)));

    // What the session gives programs says where its holder comes from, and ends with it.
    let granted: Value =
        serde_json::from_str(&browser.call("POST", "/api/v1/auth/token", "").await.text).unwrap();
    let mut program = Browser::open(&stage.world);
    program.fields.push(("authorization", format!("Bearer {}", granted["access_token"].as_str().unwrap())));
    let who: Value = serde_json::from_str(&program.get("/api/v1/auth/whoami").await.text).unwrap();
    assert_eq!((&who["credential"], &who["role"]), (&json!("saml"), &json!("auditor")), "{who}");

    // Signing out leads there, with a signed request that names the session.
    let left = browser.get("/auth/logout").await;
    let query = left.location().strip_prefix("https://id.example/out?").unwrap();
    let request = message::read(query, &keys).unwrap().xml;
    assert!(request.contains(">u1</saml:NameID><samlp:SessionIndex>s1<"), "{request}");
    assert!(sessions(&stage.world).await.is_empty() && browser.jar.is_empty());
    assert_eq!(program.get("/api/v1/auth/whoami").await.status, 401);
    let answer = format!(
        "<p:LogoutResponse xmlns:p=\"urn:oasis:names:tc:SAML:2.0:protocol\" ID=\"_x\" Version=\"2.0\" \
         Destination=\"{LOGOUT}\"><Issuer xmlns=\"urn:oasis:names:tc:SAML:2.0:assertion\">{ENTITY}</Issuer><p:Status>\
         <p:StatusCode Value=\"urn:oasis:names:tc:SAML:2.0:status:Success\"/></p:Status></p:LogoutResponse>"
    );
    let back = browser.get(&leads(&stage, Kind::Response, &answer, None)).await;
    assert_eq!((back.status, back.location()), (303, "/login"), "{}", alert(&back));
    let partly = answer.replace("status:Success", "status:PartialLogout");
    assert!(alert(&browser.get(&leads(&stage, Kind::Response, &partly, None)).await).contains("everywhere"));
}

async fn sessions(world: &World) -> Vec<Value> {
    let mut admin = Browser::open(world);
    admin.sign_in("admin").await;
    let listed: Value = serde_json::from_str(&admin.get("/api/v1/sessions").await.text).unwrap();
    admin.get("/auth/logout").await;
    listed["sessions"].as_array().unwrap().iter().filter(|it| it["method"] == "sso").cloned().collect()
}

/// Returns the path by which the provider sends a browser here with a message.
fn leads(stage: &Stage, kind: Kind, xml: &str, relay: Option<&str>) -> String {
    let place = Endpoint::parse(LOGOUT).unwrap();
    let address = message::address(&place, kind, xml, relay, Some(&stage.forger.key)).unwrap();
    address.strip_prefix("https://gate.example").unwrap().to_owned()
}

#[tokio::test]
async fn an_answer_belongs_to_one_browser_and_counts_once() {
    let stage = Stage::set();
    let mut browser = Browser::open(&stage.world);
    let left = browser.get("/auth/login").await;
    let (relay, kept) = (left.parameter("RelayState").unwrap(), browser.jar.clone());
    let said = Said::honestly(&question(&left), stage.world.clock.now());
    let xml = stage.forger.response(&said);

    let mut victim = Browser::open(&stage.world);
    assert!(alert(&bring(&mut victim, &xml, &relay).await).contains("no sign-in") || victim.jar.is_empty());
    let own = victim.get("/auth/login").await;
    assert!(alert(&bring(&mut victim, &xml, &relay).await).contains("another sign-in"));
    // With a relay state of its own, the answer is to another question still.
    victim.get("/auth/login").await;
    let own = own.parameter("RelayState").unwrap();
    assert!(alert(&bring(&mut victim, &xml, &own).await).contains("another sign-in"));
    assert!(!victim.jar.contains_key(SESSION));

    assert_eq!(bring(&mut browser, &xml, &relay).await.status, 303);
    let mut replayed = Browser::open(&stage.world);
    replayed.jar.clone_from(&kept);
    assert!(alert(&bring(&mut replayed, &xml, &relay).await).contains("completed already"));

    // Another node, or the process after a restart, has not seen the browser come back; it knows all the same.
    let brought = |xml: &str| {
        let cookie = kept.iter().find(|(name, _)| name.ends_with("portcullis-saml"));
        let (cookie, response) = (cookie.map(|(_, value)| value.as_str()), STANDARD.encode(xml));
        let posted = Posted { cookie, relay: Some(&relay), response: &response };
        stage.other.complete(&posted).err()
    };
    assert!(matches!(brought(&xml), Some(SamlFault::Replayed)));
    // Nor does the sign-in let anybody in with another assertion.
    let fresh = Said { id: "_another".to_owned(), ..said.clone() };
    assert!(matches!(brought(&stage.forger.response(&fresh)), Some(SamlFault::Replayed)));

    // An assertion that was used is not taken for another question either, whoever signed it again.
    let mut again = Browser::open(&stage.world);
    let shown =
        stage.sign_in(&mut again, |it| stage.forger.response(&Said { id: said.id.clone(), ..it })).await;
    assert!(alert(&shown).contains("used already"), "{}", alert(&shown));

    let mut late = Browser::open(&stage.world);
    let left = late.get("/auth/login").await;
    stage.world.clock.advance(Duration::from_secs(600));
    let said = Said::honestly(&question(&left), stage.world.clock.now());
    let shown = bring(&mut late, &stage.forger.response(&said), &left.parameter("RelayState").unwrap()).await;
    assert!(alert(&shown).contains("took too long"), "{}", alert(&shown));

    // Whoever has no role is told so, and nothing of what was sent is repeated.
    let mut stranger = Browser::open(&stage.world);
    let shown = stage
        .sign_in(&mut stranger, |it| stage.forger.response(&Said { groups: "&lt;b&gt;".to_owned(), ..it }))
        .await;
    assert_eq!((shown.status, alert(&shown).as_str()), (403, "None of the user's groups has a role here."));
    let shown = stage.sign_in(&mut stranger, |it| it.response("<script/>")).await;
    assert!(shown.status == 400 && !shown.text.contains("script"), "{}", shown.text);

    for (form, status) in [("", 400), ("SAMLResponse=%FF", 400), ("RelayState=x", 400)] {
        let shown = Browser::open(&stage.world).call("POST", "/auth/callback", form).await;
        assert_eq!(shown.status, status, "{form}");
    }
    // The provider of OpenID's way in is none here, and other pages of ours take no forms from elsewhere.
    assert_eq!(browser.get("/auth/callback?code=c&state=s").await.status, 404);
    browser.fields.push(("origin", "https://id.example".to_owned()));
    assert_eq!(browser.post("/login", &[("key", "x")]).await.status, 403);
}

#[tokio::test]
async fn a_provider_ends_its_own_sessions() {
    let stage = Stage::set();
    let mut browser = Browser::open(&stage.world);
    assert_eq!(stage.sign_in(&mut browser, |said| stage.forger.response(&said)).await.status, 303);
    let request = |issuer: &str, at: i64, subject: &str, index: &str| {
        let at = jiff::Timestamp::from_second(stage.world.clock.now().as_second() + at).unwrap();
        format!(
            "<p:LogoutRequest xmlns:p=\"urn:oasis:names:tc:SAML:2.0:protocol\" ID=\"_q\" Version=\"2.0\" \
             IssueInstant=\"{at}\" Destination=\"{LOGOUT}\"><Issuer xmlns=\"urn:oasis:names:tc:SAML:2.0:assertion\">\
             {issuer}</Issuer><NameID xmlns=\"urn:oasis:names:tc:SAML:2.0:assertion\">{subject}</NameID>\
             <p:SessionIndex>{index}</p:SessionIndex></p:LogoutRequest>"
        )
    };
    let honest = request(ENTITY, 0, "u1", "s1");
    let signed = leads(&stage, Kind::Request, &honest, Some("r1"));
    let unsigned = signed.split("&SigAlg").next().unwrap().to_owned();
    let mut elsewhere = Browser::open(&stage.world);
    for (name, path) in [
        ("unsigned", unsigned),
        ("another relay state", signed.replace("RelayState=r1", "RelayState=r2")),
        ("another issuer", leads(&stage, Kind::Request, &request("https://x", 0, "u1", "s1"), None)),
        ("old", leads(&stage, Kind::Request, &request(ENTITY, -400, "u1", "s1"), None)),
        ("another place", leads(&stage, Kind::Request, &honest.replace(LOGOUT, "https://x.example"), None)),
        ("nothing", "/auth/saml/logout".to_owned()),
    ] {
        let shown = elsewhere.get(&path).await;
        assert_eq!(shown.status, 400, "{name}");
        assert_eq!(sessions(&stage.world).await.len(), 1, "{name}");
    }
    // What names another session, or somebody else, ends nothing of this one's.
    for other in [request(ENTITY, 0, "u1", "s2"), request(ENTITY, 0, "u2", "s1")] {
        assert_eq!(elsewhere.get(&leads(&stage, Kind::Request, &other, None)).await.status, 303);
        assert_eq!(sessions(&stage.world).await.len(), 1);
    }
    // It comes by another way than the session's own cookie, and is answered with a signature.
    let shown = elsewhere.get(&signed).await;
    let query = shown.location().strip_prefix("https://id.example/out?").unwrap();
    let ours = elsewhere.get("/auth/saml/metadata").await.text;
    let certificate = ours.split("X509Certificate>").nth(1).unwrap().split('<').next().unwrap();
    let keys = [TrustedKey::of_certificate(&STANDARD.decode(certificate).unwrap()).unwrap()];
    let answer = message::read(query, &keys).unwrap();
    assert_eq!((answer.kind, answer.relay.as_deref()), (Kind::Response, Some("r1")));
    assert!(answer.xml.contains("InResponseTo=\"_q\"") && answer.xml.contains("status:Success"));
    assert!(sessions(&stage.world).await.is_empty());
    assert_eq!(browser.get("/api/v1/audit").await.status, 401);

    // Nor does a session outlive what the provider said of its own.
    let end = jiff::Timestamp::from_second(stage.world.clock.now().as_second() + 120).unwrap().to_string();
    let short = |said: Said| stage.forger.response(&Said { session_until: end.clone(), ..said });
    assert_eq!(stage.sign_in(&mut browser, short).await.status, 303);
    stage.world.clock.advance(Duration::from_secs(119));
    assert_eq!(browser.get("/api/v1/audit").await.status, 200);
    stage.world.clock.advance(Duration::from_secs(1));
    assert_eq!(browser.get("/api/v1/audit").await.status, 401);
}

#[tokio::test]
async fn the_providers_keys_change_with_its_file() {
    let stage = Stage::set();
    let next = Forger::new();
    let mut browser = Browser::open(&stage.world);
    let shown = stage.sign_in(&mut browser, |said| next.response(&said)).await;
    assert!(alert(&shown).contains("of the provider's keys"), "{}", alert(&shown));
    std::fs::write(stage.folder.path().join("idp.xml"), &next.metadata).unwrap();
    assert_eq!(stage.sign_in(&mut browser, |said| next.response(&said)).await.status, 303);
    let mut late = Browser::open(&stage.world);
    let shown = stage.sign_in(&mut late, |said| stage.forger.response(&said)).await;
    assert_eq!(shown.status, 400);
    std::fs::write(stage.folder.path().join("idp.xml"), "<half").unwrap();
    assert_eq!(late.get("/auth/login").await.status, 500);
}
