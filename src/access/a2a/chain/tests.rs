use std::time::Duration;

use hmac::Hmac;
use hmac::KeyInit;
use hmac::Mac;
use sha2::Sha256;

use super::*;
use crate::access::a2a::directory::ReadSecret;
use crate::access::a2a::replay::Replays;
use crate::access::a2a::shared::Asking;
use crate::access::jose::SigningKey;
use crate::access::license::License;
use crate::access::license::LicenseConfig;
use crate::access::limit::Buckets;
use crate::access::tier::Quota;
use crate::store::Store;

const NEW: &str = "the-new-secret-of-planner";
const OLD: &str = "the-old-secret-of-planner";
const BODY: &[u8] = br#"{"jsonrpc":"2.0","method":"message/send"}"#;
const NOW: i64 = 1_700_000_000;
const MAP: &str = "
capabilities:
  ask:
  pay: {min_tier: professional}
agents:
  planner:
    capabilities: [ask, pay]
    secrets: [{env: NEW}, {env: OLD}]
  idle:
    secrets: [{env: NEW}]
";

struct World {
    guardrails: Guardrails,
    licensing: Licensing,
    key: SigningKey,
    rules: Rules,
    now: Timestamp,
    keys: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = SigningKey::generate();
        let file = folder.path().join("trusted.pem");
        std::fs::write(&file, key.public_pem()).unwrap();
        let licensing = Licensing::open(LicenseConfig { file: None, trusted_keys: vec![file] });
        let secrets: ReadSecret = Box::new(|place| {
            let is_new = *place == crate::document::secret::SecretPlace::Environment("NEW".to_owned());
            Some(if is_new { NEW } else { OLD }.to_owned())
        });
        let quota = |requests_per_minute, burst| Some(Quota { requests_per_minute, burst });
        let quotas = [quota(30, 5), quota(60, 10), quota(120, 20), None];
        let guardrails = Guardrails::new(Arc::new(Buckets::new(quotas)), Replays::default(), secrets);
        guardrails.directory.replace(MAP, "map.yaml").unwrap();
        let rules = Rules { replay_window_s: 0, signed_timestamp: false };
        let now = Timestamp::from_second(NOW).unwrap();
        Self { guardrails, licensing, key, rules, now, keys: folder }
    }

    fn license(&self, tier: Tier, agent: Option<&str>, expires: i64) -> Claim {
        let license = License {
            subject: "Northwind".to_owned(),
            tier,
            issued_at: self.now,
            not_before: None,
            expires_at: Timestamp::from_second(NOW + expires).unwrap(),
            agent: agent.map(str::to_owned),
            features: Vec::new(),
        };
        given(&license.sign(&self.key))
    }

    fn call(&self, certificate: Certificate, claims: &Claims, body: &[u8]) -> Result<Grant, Denial> {
        let World { guardrails, licensing, rules, now, .. } = self;
        let chain = Chain { guardrails, licensing, rules: *rules, now: *now };
        let mut pending = chain.admit(certificate, claims).verdict?;
        body.chunks(3).for_each(|piece| pending.update(piece));
        pending.complete(guardrails, *now)
    }

    /// Makes a call, and asks what the nodes know together.
    async fn call_together(&self, claims: &Claims) -> Result<Grant, Code> {
        self.call_after(&Patience::default(), claims).await
    }

    /// Makes a call that has waited before.
    async fn call_after(&self, patience: &Patience, claims: &Claims) -> Result<Grant, Code> {
        let grant = self.call(planner(), claims, BODY).map_err(|denial| denial.code)?;
        grant.confirmed(&self.guardrails, patience).await.map_err(|denial| denial.code)
    }

    fn code(&self, change: impl FnOnce(&mut Claims)) -> Option<Code> {
        let mut claims = claims();
        change(&mut claims);
        self.call(planner(), &claims, BODY).err().map(|denial| denial.code)
    }
}

fn given(text: &str) -> Claim {
    Claim::Given(text.to_owned())
}

fn planner() -> Certificate {
    Certificate::Named("planner".to_owned())
}

fn mac(secret: &str, parts: &[&[u8]]) -> Claim {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    given(&STANDARD.encode(mac.finalize().into_bytes()))
}

fn claims() -> Claims {
    Claims {
        agent: given("planner"),
        capability: given("ask"),
        license: Claim::Absent,
        signature: mac(NEW, &[BODY]),
        timestamp: Claim::Absent,
    }
}

#[test]
fn a_call_in_order_is_granted_with_either_secret() {
    let world = World::new();
    let grant = world.call(planner(), &claims(), BODY).unwrap();
    assert_eq!((grant.agent(), grant.capability()), ("planner", "ask"));
    assert_eq!(world.code(|claims| claims.signature = mac(OLD, &[BODY])), None);
}

/// Whoever signs badly learns nothing of times but that one is missing; whoever signs well learns what else is wrong.
#[test]
fn a_denial_tells_replays_and_times_once_the_signature_is_right() {
    let mut world = World::new();
    world.rules = Rules { replay_window_s: 300, signed_timestamp: false };
    let timed =
        |secret: &str, timestamp: Claim| Claims { timestamp, signature: mac(secret, &[BODY]), ..claims() };
    let cause = |world: &World, claims: &Claims| {
        let denial = world.call(planner(), claims, BODY).expect_err("it is denied");
        assert_eq!(denial.code, Code::IntegrityInvalid);
        denial.cause
    };
    let (now, past) = (given(&NOW.to_string()), given(&(NOW - 301).to_string()));
    assert_eq!(cause(&world, &timed(NEW, Claim::Absent)), Some(Cause::Untimed));
    assert_eq!(cause(&world, &timed(NEW, given("soon"))), Some(Cause::Untimed));
    assert_eq!(cause(&world, &timed(NEW, past.clone())), Some(Cause::Stale));
    world.call(planner(), &timed(NEW, now.clone()), BODY).expect("it is the first");
    assert_eq!(cause(&world, &timed(NEW, now.clone())), Some(Cause::Replayed));
    // As many as the agent may have at once, and a little later some more.
    world.now = Timestamp::from_second(NOW + 60).unwrap();
    for timestamp in [past, now] {
        assert_eq!(cause(&world, &timed("another", timestamp)), None);
    }
    world.rules.signed_timestamp = true;
    for timestamp in [Claim::Absent, given("soon")] {
        assert_eq!(cause(&world, &timed("another", timestamp)), Some(Cause::Untimed));
    }
}

#[test]
fn who_cannot_be_verified_is_not_said_to_have_shown_nothing() {
    let denial = World::new().call(Certificate::Unverifiable, &claims(), BODY).expect_err("it is denied");
    assert_eq!((denial.code, denial.cause), (Code::AuthFailed, Some(Cause::Unverifiable)));
}

#[test]
fn each_code_has_its_cause() {
    let world = World::new();
    let of = |certificate| world.call(certificate, &claims(), BODY).unwrap_err().code;
    assert_eq!(of(Certificate::Absent), Code::AuthNoCert);
    assert_eq!(of(Certificate::Refused), Code::AuthFailed);
    assert_eq!(of(Certificate::Nameless), Code::AuthMissingCn);
    assert_eq!(of(Certificate::Named("other".to_owned())), Code::AuthFailed);
    assert_eq!(world.code(|claims| claims.agent = Claim::Absent), Some(Code::AuthFailed));
    assert_eq!(world.code(|claims| claims.agent = Claim::Unusable), Some(Code::AuthFailed));
    let stranger = Claims { agent: given("stranger"), ..claims() };
    let denial = world.call(Certificate::Named("stranger".to_owned()), &stranger, BODY).unwrap_err();
    assert_eq!(denial.code, Code::CapUnknownAgent);
    assert!(denial.to_string().starts_with("agent `stranger`, capability `ask`: "), "{denial}");
    assert_eq!(world.code(|claims| claims.capability = Claim::Absent), Some(Code::CapMissing));
    assert_eq!(world.code(|claims| claims.capability = Claim::Unusable), Some(Code::CapDenied));
    assert_eq!(world.code(|claims| claims.capability = given("fly")), Some(Code::CapDenied));
    let world = World::new();
    assert_eq!(world.code(|claims| claims.signature = Claim::Absent), Some(Code::IntegrityMissing));
    for text in ["?", "c2hvcnQ=", "AAAA"] {
        assert_eq!(world.code(|claims| claims.signature = given(text)), Some(Code::IntegrityMalformed));
    }
    let world = World::new();
    let wrong = mac("another secret of somebody", &[BODY]);
    assert_eq!(world.code(|claims| claims.signature = wrong), Some(Code::IntegrityInvalid));
    assert_eq!(world.call(planner(), &claims(), b"{}").unwrap_err().code, Code::IntegrityInvalid);
    world.guardrails.directory.clear();
    assert_eq!(world.code(|_| {}), Some(Code::CapCheckFailed));
}

/// Two faults in one call: the earlier step tells its own, and whoever fails before the rate pays nobody's quota.
#[test]
fn the_steps_have_their_order() {
    let world = World::new();
    let left = |world: &World| world.guardrails.buckets.peek("planner", Tier::Community, world.now).remaining;
    let code =
        |certificate: Certificate, claims: &Claims| world.call(certificate, claims, BODY).unwrap_err().code;
    let stranger = Claims { agent: given("stranger"), license: given("a.b.c"), ..claims() };
    let cases = [
        (Certificate::Refused, stranger.clone(), Code::AuthFailed),
        (Certificate::Absent, Claims { capability: given("pay"), ..stranger.clone() }, Code::AuthNoCert),
        (planner(), stranger.clone(), Code::AuthFailed),
        (Certificate::Named("stranger".to_owned()), stranger, Code::CapUnknownAgent),
        (
            planner(),
            Claims { capability: given("pay"), signature: Claim::Absent, ..claims() },
            Code::LicenseMissing,
        ),
        (
            planner(),
            Claims { capability: Claim::Absent, license: given("a.b.c"), ..claims() },
            Code::LicenseInvalid,
        ),
    ];
    for (certificate, claims, expected) in cases {
        assert_eq!(code(certificate, &claims), expected, "{claims:?}");
        assert_eq!(left(&world), 5, "{expected:?} took from the agent's quota");
    }
    let cases = [
        (Claims { capability: given("fly"), signature: Claim::Absent, ..claims() }, Code::CapDenied),
        (Claims { capability: Claim::Absent, signature: given("?"), ..claims() }, Code::CapMissing),
        (Claims { signature: given("?"), ..claims() }, Code::IntegrityMalformed),
    ];
    for (taken, (claims, expected)) in (1..).zip(cases) {
        assert_eq!((code(planner(), &claims), left(&world)), (expected, 5 - taken));
    }
    // With an empty bucket: what comes before the rate still tells its own, what comes behind is not asked.
    while world.code(|_| {}).is_none() {}
    assert_eq!(left(&world), 0);
    let unlicensed = Claims { capability: given("pay"), ..claims() };
    assert_eq!(code(planner(), &unlicensed), Code::LicenseMissing);
    let denied = Claims { capability: given("fly"), signature: Claim::Absent, ..claims() };
    assert_eq!(code(planner(), &denied), Code::RateLimited);
}

#[test]
fn a_paid_capability_needs_a_licence_that_counts() {
    let world = World::new();
    let paid = |license: Claim| {
        let claims = Claims { capability: given("pay"), license, ..claims() };
        world.call(planner(), &claims, BODY).err().map(|denial| denial.code)
    };
    assert_eq!(paid(Claim::Absent), Some(Code::LicenseMissing));
    assert_eq!(paid(Claim::Unusable), Some(Code::LicenseInvalid));
    assert_eq!(paid(given("a.b.c")), Some(Code::LicenseInvalid));
    assert_eq!(paid(world.license(Tier::Professional, None, 0)), Some(Code::LicenseInvalid));
    assert_eq!(paid(world.license(Tier::Developer, None, 60)), Some(Code::LicenseInvalid));
    assert_eq!(paid(world.license(Tier::Professional, Some("other"), 60)), Some(Code::LicenseInvalid));
    assert_eq!(paid(World::new().license(Tier::Professional, None, 60)), Some(Code::LicenseInvalid));
    assert_eq!(paid(world.license(Tier::Professional, Some("planner"), 60)), None);
    assert_eq!(paid(world.license(Tier::Enterprise, None, 60)), None);
    // What is presented must count even where nothing is to be paid.
    assert_eq!(world.code(|claims| claims.license = given("a.b.c")), Some(Code::LicenseInvalid));
}

#[test]
fn each_agent_has_the_bucket_of_its_tier() {
    let mut world = World::new();
    let passed = |world: &World, license: Claim| {
        (0..40).filter(|_| world.code(|claims| claims.license = license.clone()).is_none()).count()
    };
    assert_eq!(passed(&world, Claim::Absent), 5);
    let mut denial = world.call(planner(), &claims(), BODY).unwrap_err();
    assert_eq!((denial.code, denial.retry_after.take()), (Code::RateLimited, Some(Duration::from_secs(2))));
    world.now += Duration::from_secs(3600);
    assert_eq!(passed(&world, world.license(Tier::Professional, None, 7200)), 20);
    assert_eq!(passed(&world, Claim::Absent), 0, "one bucket an agent, whatever it presents");
    assert_eq!(passed(&world, world.license(Tier::Enterprise, None, 7200)), 40);
}

/// Returns the claims of a call that was signed so many seconds from now.
fn at(seconds: i64) -> Claims {
    let timestamp = (NOW + seconds).to_string();
    let signature = mac(NEW, &[timestamp.as_bytes(), b".", BODY]);
    Claims { timestamp: given(&timestamp), signature, ..claims() }
}

#[test]
fn a_recorded_request_is_taken_once() {
    let mut world = World::new();
    world.rules = Rules { replay_window_s: 30, signed_timestamp: false };
    let code = |world: &World, claims: &Claims| world.call(planner(), claims, BODY).err().map(|it| it.code);
    assert_eq!(code(&world, &claims()), Some(Code::IntegrityInvalid), "without a time");
    assert_eq!(code(&world, &at(-31)), Some(Code::IntegrityInvalid), "too old");
    assert_eq!(code(&world, &at(31)), Some(Code::IntegrityInvalid), "from the future");
    world.now += Duration::from_secs(20);
    assert_eq!(code(&world, &at(0)), None);
    assert_eq!(code(&world, &at(0)), Some(Code::IntegrityInvalid), "a second time");
    world.now += Duration::from_secs(20);
    // With another time the signature is another, unless it does not cover the time.
    let moved = Claims { timestamp: given(&(NOW + 40).to_string()), ..at(0) };
    assert_eq!(code(&world, &moved), Some(Code::IntegrityInvalid));
    let bare = Claims { timestamp: given(&(NOW + 40).to_string()), ..claims() };
    assert_eq!(code(&world, &bare), None);
    assert_eq!(code(&world, &bare), Some(Code::IntegrityInvalid));
    world.now += Duration::from_secs(600);
    world.rules.signed_timestamp = true;
    let bare = Claims { timestamp: given(&(NOW + 640).to_string()), ..claims() };
    assert_eq!(code(&world, &bare), Some(Code::IntegrityInvalid), "the time must be signed");
    assert_eq!(code(&world, &at(640)), None);
}

#[tokio::test]
async fn who_is_asked_to_come_back_may() {
    let mut world = World::new();
    world.rules = Rules { replay_window_s: 30, signed_timestamp: true };
    let (asking, mut questions) = Asking::channel(Told::Refused, Duration::from_secs(5));
    world.guardrails.share(asking);
    let answers = [Told::Refused, Told::Seen(Seen::Full), Told::Seen(Seen::First)];
    tokio::spawn(async move {
        for told in answers {
            questions.recv().await.unwrap().answer.send(told).unwrap();
        }
    });
    for _ in 0..2 {
        assert_eq!(world.call_together(&at(0)).await, Err(Code::RateLimited));
    }
    assert!(world.call_together(&at(0)).await.is_ok());
    assert_eq!(world.call_together(&at(0)).await, Err(Code::IntegrityInvalid), "it came");
}

#[tokio::test]
async fn where_nobody_can_tell_a_node_goes_by_what_it_knows_and_by_no_more() {
    let mut world = World::new();
    world.rules = Rules { replay_window_s: 30, signed_timestamp: true };
    world.guardrails.replays = Replays::open(&Store::in_memory(), world.now);
    let (asking, questions) = Asking::channel(Told::Unknown, Duration::from_secs(5));
    world.guardrails.share(asking);
    // Nobody answers.
    drop(questions);
    assert_eq!(world.call_together(&at(0)).await, Err(Code::IntegrityInvalid), "it may have come before");
    assert!(world.call_together(&at(1)).await.is_ok());
    assert_eq!(world.call_together(&at(1)).await, Err(Code::IntegrityInvalid));
}

#[tokio::test]
async fn a_call_that_has_waited_for_something_else_waits_no_more() {
    let mut world = World::new();
    world.rules = Rules { replay_window_s: 30, signed_timestamp: true };
    let (asking, _nobody_answers) = Asking::channel(Told::Refused, Duration::from_secs(86_400));
    world.guardrails.share(asking);
    assert_eq!(world.call_after(&Patience::spent(), &at(0)).await.err(), Some(Code::RateLimited));
}

#[test]
fn what_is_under_way_ends_with_the_licence_that_let_it_begin() {
    let world = World::new();
    let standing = |license: Claim, seconds: u64| {
        let grant = world.call(planner(), &Claims { license, ..claims() }, BODY).unwrap();
        let then = world.now + Duration::from_secs(seconds);
        let rests_on = (&world.guardrails, &world.licensing);
        grant.ensure_standing(&planner(), rests_on, then).map_err(|denial| denial.code)
    };
    let license = || world.license(Tier::Professional, None, 60);
    assert_eq!(standing(license(), 59), Ok(()));
    assert_eq!(standing(license(), 60), Err(Code::LicenseInvalid));
    assert_eq!(standing(Claim::Absent, 3600), Ok(()), "it rests on none");
    // So it does with the trust in the key that signed it.
    let grant = world.call(planner(), &Claims { license: license(), ..claims() }, BODY).unwrap();
    std::fs::remove_file(world.keys.path().join("trusted.pem")).unwrap();
    world.licensing.reload(world.now);
    let denial = grant.ensure_standing(&planner(), (&world.guardrails, &world.licensing), world.now);
    assert_eq!(denial.map_err(|denial| denial.code), Err(Code::LicenseInvalid));
}
