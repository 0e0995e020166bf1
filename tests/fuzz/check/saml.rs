//! Messages of identity providers: XML has one canonical form, and nothing counts that no trusted key has signed.

use std::sync::OnceLock;

use portcullis::access::sso::saml::canonical::Choice;
use portcullis::access::sso::saml::canonical::canonical;
use portcullis::access::sso::saml::document::parse;
use portcullis::access::sso::saml::key::OwnKey;
use portcullis::access::sso::saml::key::TrustedKey;
use portcullis::access::sso::saml::logout;
use portcullis::access::sso::saml::message;
use portcullis::access::sso::saml::message::Kind;
use portcullis::access::sso::saml::message::MessageFault;
use portcullis::access::sso::saml::message::RELAY_BYTES_MAX;
use portcullis::access::sso::saml::metadata;
use portcullis::access::sso::saml::response;
use portcullis::access::sso::saml::response::Expected;
use portcullis::access::url::Endpoint;
use rcgen::CertificateParams;
use rcgen::KeyPair;

const PROVIDER: &str = "https://idp.example";
const PLACE: &str = "https://gateway.example/saml";
const NOW: &str = "2026-05-01T12:00:00Z";

fn own() -> &'static OwnKey {
    static OWN: OnceLock<OwnKey> = OnceLock::new();
    OWN.get_or_init(|| {
        let key = KeyPair::generate().expect("a key");
        let certificate = CertificateParams::default().self_signed(&key).expect("a certificate");
        OwnKey::of_pem(key.serialize_pem().as_bytes(), certificate.pem().as_bytes()).expect("they fit")
    })
}

fn trusted() -> TrustedKey {
    TrustedKey::of_certificate(own().certificate()).expect("a key of a kind that is taken")
}

/// The canonical form of a message is one message, in the same form; whatever else it says, nobody has signed it.
pub fn response(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(document) = parse(text) {
        let once = canonical(document.root_element(), Choice::default());
        let written = String::from_utf8(once).expect("it was made of text");
        let again = parse(&written).unwrap_or_else(|fault| panic!("{fault}: {written}"));
        let twice = canonical(again.root_element(), Choice::default());
        assert_eq!(String::from_utf8_lossy(&twice), written, "the canonical form has another");
    }
    let now = NOW.parse().expect("a moment");
    let keys = [trusted()];
    let expected =
        Expected { issuer: PROVIDER, keys: &keys, audience: PLACE, place: PLACE, question: "q", now };
    assert!(response::judge(text, &expected).is_err(), "nobody signed it");
    let _ = logout::read_request(text, PROVIDER, PLACE, now);
    let _ = logout::read_response(text, PROVIDER, PLACE);
    let _ = metadata::read(text);
}

/// A query that nobody signed carries no message; one that was signed comes back as it was.
pub fn address(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let keys = [trusted()];
    assert!(message::read(text, &keys).is_err(), "nobody signed it");
    let place = Endpoint::parse(PLACE).expect("an address");
    let relay = Some(text).filter(|text| text.len() <= RELAY_BYTES_MAX);
    for kind in [Kind::Request, Kind::Response] {
        let query = |key| {
            let address = message::address(&place, kind, text, relay, key).expect("it can be written");
            address.split_once('?').map(|(_, query)| query.to_owned()).expect("a query")
        };
        let read = message::read(&query(Some(own())), &keys).expect("it is signed");
        assert_eq!((read.kind, read.xml.as_str(), read.relay.as_deref()), (kind, text, relay));
        assert_eq!(message::read(&query(None), &keys).err(), Some(MessageFault::Unsigned));
        assert_eq!(message::read(&query(Some(own())), &[]).err(), Some(MessageFault::Key));
    }
}
