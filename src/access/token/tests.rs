use serde_json::json;

use super::*;
use crate::access::jose::SigningKey;
use crate::access::jose::TokenFault;
use crate::access::signing::SigningConfig;
use crate::clock::ManualClock;
use crate::clock::sure::SureClock;

const CONFIG: TokenConfig = TokenConfig { ttl: Duration::from_secs(600) };

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn new(id: &str) -> NewToken {
    NewToken {
        id: id.to_owned(),
        subject: "user-1".to_owned(),
        name: "ada".to_owned(),
        role: Role::Auditor,
        tier: None,
        via: Via::Local,
        session: None,
        generation: 3,
        ttl: None,
    }
}

fn open(store: &Store, secret: &NodeSecret) -> Tokens {
    let ring = KeyRing::open(store, secret.clone(), SigningConfig::default(), at(0)).unwrap();
    Tokens::open(store, secret, Arc::new(ring), CONFIG).unwrap()
}

#[test]
fn a_token_counts_until_its_end_and_not_before_it_was_issued() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let tokens = open(&store, &secret);
    let Issued { token, claims } = tokens.issue(new("t1"), at(0));
    assert_eq!((claims.expires_at - claims.issued_at, claims.subject.as_str()), (600, "user-1"));
    for (second, expected) in [
        (-61, Err(TokenRefusal::NotYet)),
        (-60, Ok(())),
        (0, Ok(())),
        (599, Ok(())),
        (600, Err(TokenRefusal::Expired)),
    ] {
        assert_eq!(tokens.verify(&token, at(second)).map(|_| ()), expected, "{second}");
    }
    // Another process of the same deployment takes it, another deployment does not.
    assert_eq!(open(&store, &secret).verify(&token, at(1)), Ok(claims));
    let foreign = open(&Store::in_memory(), &NodeSecret::random());
    assert_eq!(foreign.verify(&token, at(1)), Err(TokenRefusal::Token(TokenFault::Forged)));
    let long = NewToken { ttl: Some(Duration::MAX), ..new("t2") };
    let issued = tokens.issue(long, at(0)).claims;
    assert_eq!(issued.expires_at - issued.issued_at, TTL_MAX.as_secs() as i64);
}

#[test]
fn a_revoked_token_stays_revoked() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let tokens = open(&store, &secret);
    let (one, two) = (tokens.issue(new("t1"), at(0)), tokens.issue(new("t2"), at(0)));
    tokens.revoke("t1", at(1)).unwrap();
    tokens.maintain(at(2)).unwrap();
    let again = open(&store, &secret);
    for tokens in [&tokens, &again] {
        assert_eq!(tokens.verify(&one.token, at(2)), Err(TokenRefusal::Revoked));
        assert!(tokens.verify(&two.token, at(2)).is_ok());
    }
    // It is remembered for as long as any token may count, not for ever.
    again.maintain(at(86_400 + 60)).unwrap();
    assert_eq!(again.revoked.read().len(), 1);
    again.maintain(at(86_400 + 61)).unwrap();
    assert!(again.revoked.read().is_empty());
    for odd in ["", "a b", "../x", &"x".repeat(ID_BYTES_MAX + 1)] {
        assert!(matches!(again.revoke(odd, at(0)), Err(RevokeError::Id)), "{odd}");
    }
}

#[test]
fn nobody_alone_fills_what_is_remembered() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let tokens = open(&store, &secret);
    let revoked = (0..2000).take_while(|n| tokens.revoke_own(&format!("t{n}"), "ada", at(0)).is_ok()).count();
    assert_eq!(revoked, OWN_REVOCATIONS.burst as usize);
    assert!(matches!(tokens.revoke_own("x", "ada", at(0)), Err(RevokeError::TooOften { .. })));
    assert!(tokens.revoke_own("x", "bob", at(0)).is_ok() && tokens.revoke("y", at(0)).is_ok());
    assert!(tokens.revoke_own("z", "ada", at(60)).is_ok());
}

#[test]
fn what_a_token_says_must_fit() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let tokens = open(&store, &secret);
    let mut claims = serde_json::to_value(tokens.issue(new("t1"), at(0)).claims).unwrap();
    let signed = |claims: &serde_json::Value| tokens.verify(&tokens.ring.sign(claims), at(0));
    assert!(signed(&claims).is_ok());
    let cases = [
        ("aud", json!("somebody-else"), TokenRefusal::Foreign),
        ("iss", json!("portcullis:0000000000000000"), TokenRefusal::Foreign),
        ("role", json!("root"), TokenRefusal::Token(TokenFault::Malformed)),
        ("exp", json!("tomorrow"), TokenRefusal::Token(TokenFault::Malformed)),
        ("exp", json!(0), TokenRefusal::Expired),
        ("iat", json!(i64::MAX), TokenRefusal::NotYet),
        ("jti", json!(null), TokenRefusal::Token(TokenFault::Malformed)),
    ];
    for (name, value, expected) in cases {
        let before = claims[name].clone();
        claims[name] = value;
        assert_eq!(signed(&claims), Err(expected), "{name}");
        claims[name] = before;
    }
    let stranger = SigningKey::generate().sign(&claims, Some("k"));
    assert_eq!(tokens.verify(&stranger, at(0)), Err(TokenRefusal::Token(TokenFault::Forged)));
}

#[test]
fn tokens_outlive_the_key_that_signed_them() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let tokens = open(&store, &secret);
    let token = tokens.issue(NewToken { ttl: Some(TTL_MAX), ..new("t1") }, at(0)).token;
    tokens.ring.rotate(at(10)).unwrap();
    tokens.maintain(at(86_399)).unwrap();
    assert!(tokens.verify(&token, at(86_399)).is_ok());
    assert!(tokens.verify(&tokens.issue(new("t2"), at(86_399)).token, at(86_399)).is_ok());
}

/// A revocation that is forgotten does not come back, and the token would count again.
#[test]
fn a_clock_that_jumped_forgets_no_revocation() {
    let (store, secret) = (Store::in_memory(), NodeSecret::random());
    let tokens = Arc::new(open(&store, &secret));
    let token = tokens.issue(new("t1"), at(0)).token;
    tokens.revoke("t1", at(1)).unwrap();
    let clock = Arc::new(ManualClock::new(at(2)));
    let sure = Arc::new(SureClock::since(clock.clone(), None));
    clock.set(at(1_000_000));
    tokens.maintain(sure.now()).unwrap();
    clock.set(at(3));
    assert_eq!(tokens.verify(&token, clock.now()), Err(TokenRefusal::Revoked));
}
