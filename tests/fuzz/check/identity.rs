//! Who somebody says they are: tokens, key sets, cookies, agents' headers, calls. None of it counts but what was signed.

use std::fs;
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::Hmac;
use hmac::KeyInit;
use hmac::Mac;
use http::HeaderMap;
use http::HeaderName;
use http::HeaderValue;
use jiff::Timestamp;
use portcullis::access::a2a::claims;
use portcullis::access::a2a::claims::Claim;
use portcullis::access::a2a::claims::Claims;
use portcullis::access::a2a::directory::SharedSecret;
use portcullis::access::a2a::signature::Verification;
use portcullis::access::cookie;
use portcullis::access::cookie::Cookie;
use portcullis::access::cookie::CookieStyle;
use portcullis::access::jose;
use portcullis::access::jose::SigningKey;
use portcullis::access::jose::TOKEN_BYTES_MAX;
use portcullis::access::jose::jwks::JwkSet;
use portcullis::access::jose::jwks::SET_KEYS_MAX;
use portcullis::access::license::License;
use portcullis::access::license::LicenseConfig;
use portcullis::access::license::Licensing;
use portcullis::access::license::Standing;
use portcullis::access::tier::Tier;
use portcullis::llm::jsonrpc;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use sha2::Sha256;

use super::cuttings;

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn key() -> &'static SigningKey {
    static KEY: OnceLock<SigningKey> = OnceLock::new();
    KEY.get_or_init(SigningKey::generate)
}

/// A text that nobody signed is no token; claims that were signed come back, and no change of one letter does.
pub fn token(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let trusted = [key().verifying()];
    assert!(jose::verify::<Value>(text, &trusted).is_err(), "nobody signed it");
    let _ = jose::unverified::<Value>(text);
    let Ok(mut claims) = serde_json::from_str::<Map<String, Value>>(text) else { return };
    // Those that the standard knows have to be of its types.
    claims.retain(|name, _| !["aud", "exp", "iat", "iss", "nbf", "sub"].contains(&name.as_str()));
    let signed = key().sign(&claims, Some("k"));
    if signed.len() > TOKEN_BYTES_MAX {
        return;
    }
    // As it is written, a number may be another one by its last bit.
    let written = serde_json::to_string(&claims).expect("it was read");
    let expected: Map<String, Value> = serde_json::from_str(&written).expect("it was written");
    assert_eq!(jose::verify::<Map<String, Value>>(&signed, &trusted), Ok(expected));
    let at =
        bytes.iter().fold(bytes.len(), |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    let (at, letter) = (at % signed.len(), LETTERS[at / 7 % LETTERS.len()]);
    let mut changed = signed.clone().into_bytes();
    changed[at] = letter;
    let changed = String::from_utf8(changed).expect("letters");
    let is_taken = jose::verify::<Value>(&changed, &trusted).is_ok();
    assert!(!is_taken || changed == signed, "another text than the signed one is taken: {changed}");
}

/// Keys that others publish vouch for none of ours, and keep none of ours from doing so.
pub fn key_set(bytes: &[u8]) {
    let signed = key().sign(&json!({ "sub": "a" }), None);
    let Ok(others) = JwkSet::parse(bytes) else { return };
    assert!(others.verify(&signed).is_err(), "a key of nobody's has signed it");
    let mut set: Value = serde_json::from_slice(bytes).expect("it was read");
    let ours = json!({ "kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(key().public()) });
    let keys = set["keys"].as_array_mut().expect("a list of keys");
    if keys.len() < SET_KEYS_MAX {
        keys.push(ours);
        let set = JwkSet::parse(set.to_string().as_bytes()).expect("it is a set still");
        assert!(set.verify(&signed).is_ok(), "a key beside ours keeps it from being found");
    }
}

/// A licence that nobody signed entitles to nothing, nor does a key that nobody has; one that was signed says the same
/// when it is read, and counts in its time.
pub fn license(bytes: &[u8]) {
    let now = Timestamp::from_second(1_800_000_000).expect("a moment of 2027");
    let ours = key().public_pem();
    assert_community(&standing(bytes, ours.as_bytes(), now));
    let Ok(written) = serde_json::from_slice::<License>(bytes) else {
        let claims = json!({ "sub": "a", "tier": "enterprise", "iat": 1_700_000_000, "exp": 1_900_000_000 });
        let signed = key().sign(&claims, None);
        return assert_community(&standing(signed.as_bytes(), bytes, now));
    };
    // Moments are signed in whole seconds.
    let whole = serde_json::to_value(&written).expect("a licence is JSON");
    let license: License = serde_json::from_value(whole).expect("it was a licence");
    let signed = license.sign(key());
    if signed.len() > TOKEN_BYTES_MAX {
        return;
    }
    assert_eq!(License::unverified(&signed).as_ref(), Ok(&license), "it says something else");
    let standing = standing(signed.as_bytes(), ours.as_bytes(), now);
    let counts = license.agent.is_none() && license.check(now).is_ok();
    assert_eq!(standing.fault.is_none(), counts, "{:?}", standing.fault);
    match counts {
        true => assert_eq!((standing.tier, standing.features), (license.tier, license.features)),
        false => assert_community(&standing),
    }
}

fn assert_community(standing: &Standing) {
    assert!(standing.fault.is_some(), "a licence without a fault");
    assert!(standing.tier == Tier::Community && standing.features.is_empty(), "entitled all the same");
}

/// Returns how a deployment stands with these files.
fn standing(license: &[u8], trusted: &[u8], now: Timestamp) -> Standing {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [file, key] = ["license", "key.pem"].map(|name| folder.path().join(name));
    fs::write(&file, license).expect("the folder is writable");
    fs::write(&key, trusted).expect("the folder is writable");
    Licensing::open(LicenseConfig { file: Some(file), trusted_keys: vec![key] }).standing(now)
}

/// Of cookies that go to a provider none is ours, and none of the others changes again.
pub fn cookies(bytes: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(bytes) else { return };
    let Ok(text) = value.to_str() else { return };
    let Some(kept) = cookie::without_ours(text) else { return };
    assert_eq!(cookie::without_ours(&kept).as_deref(), Some(kept.as_str()), "it has another spelling");
    let mut headers = HeaderMap::new();
    headers.insert(http::header::COOKIE, HeaderValue::from_str(&kept).expect("a part of a header"));
    for which in [Cookie::Session, Cookie::Attempt, Cookie::PostedAttempt] {
        for style in [CookieStyle::Secure, CookieStyle::Loopback] {
            assert_eq!(which.of_headers(style, &headers), None, "a cookie of ours would leave");
        }
    }
}

/// What agents claim is what one header says; a signature is of one body and one time, however they come.
pub fn agent(bytes: &[u8]) {
    let (head, body) =
        bytes.iter().position(|byte| *byte == 0).map_or((bytes, &[][..]), |at| bytes.split_at(at));
    let mut headers = HeaderMap::new();
    for line in head.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) =
            (HeaderName::from_bytes(&line[..colon]), HeaderValue::from_bytes(&line[colon + 1..]));
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    let claimed = Claims::of_headers(&headers);
    for (claim, name) in [
        (&claimed.agent, claims::AGENT_ID),
        (&claimed.capability, claims::CAPABILITY),
        (&claimed.license, claims::LICENSE),
        (&claimed.signature, claims::SIGNATURE),
        (&claimed.timestamp, claims::TIMESTAMP),
    ] {
        let values: Vec<&[u8]> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
        let Claim::Given(text) = claim else { continue };
        assert!(
            matches!(values[..], [value] if value.trim_ascii() == text.as_bytes()),
            "{text} is not said once"
        );
        assert!(!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()));
    }
    let time = claimed.timestamp.given();
    if let Some(moment) = time.and_then(claims::moment) {
        assert_eq!(claims::moment(&moment.to_string()), Some(moment), "a time has another reading");
    }
    signed(body, time.unwrap_or("0"));
}

fn signed(body: &[u8], time: &str) {
    let secret = SharedSecret::of("sesame-sesame-sesame").expect("a secret");
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose()).expect("HMAC takes keys of any length");
    [time.as_bytes(), b".", body].into_iter().for_each(|part| mac.update(part));
    let given: [u8; 32] = mac.finalize().into_bytes().into();
    let secrets = [secret];
    let holds = |time: &str, pieces: &[&[u8]]| {
        let mut verification = Verification::begin(given, &secrets, Some(time), true);
        pieces.iter().for_each(|piece| verification.update(piece));
        verification.holds()
    };
    for cutting in cuttings(body) {
        assert!(holds(time, &cutting), "a signature depends on the cutting");
    }
    assert!(!holds(&format!("{time}0"), &[body]), "a signature is of another time");
    assert!(!holds(time, &[body, b"\n"]), "a signature is of another body");
}

/// The id of a call is the one that the call has, as it is written.
pub fn call(bytes: &[u8]) {
    let Some(id) = jsonrpc::id_of(bytes) else { return };
    // A number past all others is taken over by nobody, and answered as no id.
    let Ok(id) = serde_json::from_str::<Value>(&id) else { return };
    assert!(id.is_string() || id.is_number());
    // What is not asked for is not read as text: a body that is none is refused, under its id.
    if let Ok(call) = serde_json::from_slice::<Value>(bytes) {
        assert_eq!(call["id"], id, "another id");
    }
}
