use flate2::Compression;
use flate2::write::DeflateEncoder;
use rcgen::CertificateParams;
use rcgen::KeyPair;

use super::canonical::Choice;
use super::canonical::canonical;
use super::document::DocumentFault;
use super::document::is;
use super::document::parse;
use super::key::Algorithm;
use super::key::OwnKey;
use super::key::TrustedKey;
use super::message;
use super::message::Kind;
use super::message::MessageFault;
use super::metadata;
use super::metadata::MetadataFault;
use crate::access::url::Endpoint;

/// Returns the canonical text of the element `n`, with prefixes that are declared in any case.
fn of(xml: &str, inclusive: &str) -> String {
    let document = parse(xml).unwrap();
    let node = document.root().descendants().find(|node| node.tag_name().name() == "n").unwrap();
    String::from_utf8(canonical(node, Choice { without: None, inclusive })).unwrap()
}

#[test]
fn canonical_bytes_are_those_of_the_recommendation() {
    // The example of Exclusive XML Canonicalization 1.0, section 2.2, in both of its surroundings.
    let inner = r#"<n:n xmlns:n="http://n"><n3:stuff xmlns:n3="ftp://n3"></n3:stuff></n:n>"#;
    let first =
        r#"<n0:l xmlns:n0="foo:bar" xmlns:n3="ftp://n3" xmlns:n="http://n"><n:n><n3:stuff/></n:n></n0:l>"#;
    let second = r#"<x xmlns:n3="ftp://n3"><n:n xmlns:n="http://n" ><n3:stuff  ></n3:stuff></n:n></x>"#;
    assert_eq!((of(first, ""), of(second, "")), (inner.to_owned(), inner.to_owned()));
    let cases = [
        // Declarations come by prefix, attributes by namespace and name; those without one first.
        (
            r#"<n b:z="1" a:y='2' w="3" c="4" xmlns:a="u:2" xmlns:b="u:1" xmlns="u:0"/>"#,
            "",
            r#"<n xmlns="u:0" xmlns:a="u:2" xmlns:b="u:1" c="4" w="3" b:z="1" a:y="2"></n>"#,
        ),
        // What is not shown is not declared, unless it is listed, and then once.
        (
            r#"<o xmlns:xs="u:xs" xmlns:q="u:q"><n><m t="xs:string"/></n></o>"#,
            "xs none",
            r#"<n xmlns:xs="u:xs"><m t="xs:string"></m></n>"#,
        ),
        // A default namespace is taken back where an element has none.
        (r#"<n xmlns="u:0"><m xmlns=""><k/></m></n>"#, "", r#"<n xmlns="u:0"><m xmlns=""><k></k></m></n>"#),
        (
            r#"<o xmlns="u:0"><p:n xmlns:p="u:1"/></o>"#,
            "#default",
            r#"<p:n xmlns="u:0" xmlns:p="u:1"></p:n>"#,
        ),
        // A prefix that means something else further in is declared anew, and again on the way back.
        (
            r#"<a:n xmlns:a="u:1"><a:m xmlns:a="u:2"><a:k/></a:m><a:l/></a:n>"#,
            "",
            r#"<a:n xmlns:a="u:1"><a:m xmlns:a="u:2"><a:k></a:k></a:m><a:l></a:l></a:n>"#,
        ),
        // Texts: references and sections become characters, and what has to be escaped is.
        (
            "<n a=\"&lt;&quot;&#9;&#10;&#13;x\t'>\">a&amp;b<![CDATA[<c>]]>&#13;\r\n\"'</n>",
            "",
            "<n a=\"&lt;&quot;&#x9;&#xA;&#xD;x '>\">a&amp;b&lt;c&gt;&#xD;\n\"'</n>",
        ),
        (r#"<n xml:lang="de" xml:id="i"/>"#, "xml", r#"<n xml:id="i" xml:lang="de"></n>"#),
    ];
    for (xml, inclusive, expected) in cases {
        assert_eq!(of(xml, inclusive), expected, "{xml}");
    }
    let document = parse("<n>a<m>b</m>c</n>").unwrap();
    let inner = document.root_element().first_element_child().unwrap();
    let without = Choice { without: Some(inner.id()), inclusive: "" };
    assert_eq!(canonical(document.root_element(), without), b"<n>ac</n>");
}

#[test]
fn what_two_readers_could_take_differently_is_refused() {
    let deep = format!("{}{}", "<a>".repeat(40), "</a>".repeat(40));
    let wide = format!("<a>{}</a>", "<b/>".repeat(10_001));
    let long = format!("<a>{}</a>", "x".repeat(256 * 1024));
    let cases = [
        ("<a><!-- x --></a>", DocumentFault::Aside),
        ("<a>admin<!---->@evil</a>", DocumentFault::Aside),
        ("<?xml version=\"1.0\"?><?x y?><a/>", DocumentFault::Aside),
        ("<!DOCTYPE a><a/>", DocumentFault::Form),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", DocumentFault::Form),
        ("<!DOCTYPE a SYSTEM \"http://evil.example/x\"><a/>", DocumentFault::Form),
        ("<a>&b;</a>", DocumentFault::Form),
        ("<a b='1' b='2'/>", DocumentFault::Form),
        ("<p:a/>", DocumentFault::Form),
        ("<p:a xmlns:p=''/>", DocumentFault::Form),
        ("<a xmlns:p='u'><b xmlns:p=\"\"/></a>", DocumentFault::Form),
        ("<a></b>", DocumentFault::Form),
        ("<a/><a/>", DocumentFault::Form),
        ("", DocumentFault::Form),
        ("<a ID='x'><b ID='x'/></a>", DocumentFault::TwoIds),
        ("<a ID='x'><b id='x'/></a>", DocumentFault::TwoIds),
        ("<a ID='x'><b AssertionID='x'/></a>", DocumentFault::TwoIds),
        (&deep, DocumentFault::TooLarge),
        (&wide, DocumentFault::Form),
        (&long, DocumentFault::TooLarge),
    ];
    for (xml, fault) in cases {
        assert_eq!(parse(xml).err(), Some(fault), "{}", &xml[..xml.len().min(60)]);
    }
    let document = parse("<?xml version='1.0' encoding='UTF-8'?><a xmlns='u'/>").unwrap();
    assert!(is(document.root_element(), "u", "a") && !is(document.root_element(), "v", "a"));
}

fn own() -> OwnKey {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::default().self_signed(&key).unwrap();
    OwnKey::of_pem(key.serialize_pem().as_bytes(), certificate.pem().as_bytes()).unwrap()
}

#[test]
fn a_key_fits_its_own_certificate_and_algorithm_alone() {
    let (own, other) = (own(), own());
    let key = TrustedKey::of_certificate(own.certificate()).unwrap();
    let made = own.sign(b"m").unwrap();
    assert!(key.verifies(Algorithm::EcdsaSha256, b"m", &made));
    assert!(!key.verifies(Algorithm::EcdsaSha256, b"n", &made));
    assert!(!key.verifies(Algorithm::EcdsaSha256, b"m", &other.sign(b"m").unwrap()));
    for algorithm in
        [Algorithm::RsaSha256, Algorithm::RsaSha384, Algorithm::RsaSha512, Algorithm::EcdsaSha384]
    {
        assert!(!key.verifies(algorithm, b"m", &made), "{algorithm:?}");
    }
    for weak in [
        "http://www.w3.org/2000/09/xmldsig#rsa-sha1",
        "http://www.w3.org/2000/09/xmldsig#hmac-sha1",
        "http://www.w3.org/2001/04/xmldsig-more#hmac-sha256",
        "http://www.w3.org/2001/04/xmldsig-more#rsa-md5",
        "",
    ] {
        assert_eq!(Algorithm::of_name(weak), None);
    }
    let key = KeyPair::generate().unwrap().serialize_pem();
    let certificate = CertificateParams::default().self_signed(&KeyPair::generate().unwrap()).unwrap();
    assert!(OwnKey::of_pem(key.as_bytes(), certificate.pem().as_bytes()).is_none());
    assert_eq!(format!("{own:?}"), "OwnKey(***)");
}

#[test]
fn a_message_in_an_address_counts_as_it_was_signed() {
    let (own, other) = (own(), own());
    let keys = [TrustedKey::of_certificate(own.certificate()).unwrap()];
    let place = Endpoint::parse("https://id.example/logout?tenant=1").unwrap();
    let address = |relay| message::address(&place, Kind::Request, "<a/>", relay, Some(&own)).unwrap();
    let query = |address: &str| address.split_once("?tenant=1&").unwrap().1.to_owned();
    let good = query(&address(Some("a b+c&d=e")));
    let read = message::read(&good, &keys).unwrap();
    assert_eq!((read.kind, read.xml.as_str()), (Kind::Request, "<a/>"));
    assert_eq!(read.relay.as_deref(), Some("a b+c&d=e"));
    assert_eq!(message::read(&format!("more=1&{good}"), &keys).unwrap().xml, "<a/>");

    let plain = query(&address(None));
    let foreign = message::address(&place, Kind::Request, "<a/>", None, Some(&other)).unwrap();
    let unsigned = message::address(&place, Kind::Request, "<a/>", None, None).unwrap();
    let weak = plain.replace("ecdsa-sha256", "hmac-sha256");
    let cases = [
        (query(&foreign), MessageFault::Key),
        (query(&unsigned), MessageFault::Unsigned),
        (weak, MessageFault::Unsigned),
        (good.replace("RelayState=a", "RelayState=b"), MessageFault::Key),
        (format!("{plain}&RelayState=x"), MessageFault::Key),
        (plain.replace("SAMLRequest", "SAMLResponse"), MessageFault::Key),
        (format!("{plain}&SAMLRequest=x"), MessageFault::Form),
        (format!("{plain}&SAMLResponse=x"), MessageFault::Form),
        (format!("{plain}&Signature=x"), MessageFault::Form),
        (format!("{plain}&SAMLEncoding=x"), MessageFault::Form),
        (String::new(), MessageFault::Form),
    ];
    for (query, fault) in cases {
        assert_eq!(message::read(&query, &keys).err(), Some(fault), "{query}");
    }
}

#[test]
fn a_small_message_that_unfolds_to_a_large_one_is_refused() {
    use std::io::Write;

    use base64::Engine;
    let own = own();
    let keys = [TrustedKey::of_certificate(own.certificate()).unwrap()];
    let mut deflated = DeflateEncoder::new(Vec::new(), Compression::best());
    deflated.write_all(&vec![b' '; 100 << 20]).unwrap();
    let message = base64::engine::general_purpose::STANDARD.encode(deflated.finish().unwrap());
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("SAMLRequest", &message)
        .append_pair("SigAlg", own.algorithm().name())
        .finish();
    let signature = own.sign(query.as_bytes()).unwrap();
    let signature = base64::engine::general_purpose::STANDARD.encode(signature);
    let signature: String = form_urlencoded::byte_serialize(signature.as_bytes()).collect();
    let read = message::read(&format!("{query}&Signature={signature}"), &keys);
    assert_eq!(read.err(), Some(MessageFault::Form));
}

#[test]
fn a_provider_is_known_by_one_file() {
    use base64::Engine;
    let certificate = base64::engine::general_purpose::STANDARD.encode(own().certificate());
    let key = |uses: &str| {
        format!(
            "<KeyDescriptor{uses}><d:KeyInfo xmlns:d=\"http://www.w3.org/2000/09/xmldsig#\"><d:X509Data>\
             <d:X509Certificate>\n{certificate}\n</d:X509Certificate></d:X509Data></d:KeyInfo></KeyDescriptor>"
        )
    };
    let service = |name: &str, binding: &str, place: &str| {
        format!("<{name} Binding=\"urn:oasis:names:tc:SAML:2.0:bindings:{binding}\" {place}/>")
    };
    let sign_on = service("SingleSignOnService", "HTTP-Redirect", "Location=\"https://id.example/in\"");
    let whole = |inside: &str| {
        format!(
            "<!-- ours --><EntityDescriptor xmlns=\"urn:oasis:names:tc:SAML:2.0:metadata\" entityID=\"https://id\">\
             <IDPSSODescriptor>{inside}</IDPSSODescriptor></EntityDescriptor>"
        )
    };
    let leave = service(
        "SingleLogoutService",
        "HTTP-Redirect",
        "Location=\"https://id.example/out\" ResponseLocation=\"https://id.example/back\"",
    );
    let read = metadata::read(&whole(&format!("{}{}{leave}{sign_on}", key(" use=\"signing\""), key(""))));
    let read = read.unwrap();
    assert_eq!((read.entity_id.as_str(), read.keys.len()), ("https://id", 2));
    assert_eq!(read.sign_on.as_str(), "https://id.example/in");
    let places = read.logout.unwrap();
    assert_eq!(
        (places.request.as_str(), places.response.as_str()),
        ("https://id.example/out", "https://id.example/back")
    );
    let post = service("SingleSignOnService", "HTTP-POST", "Location=\"https://id.example/in\"");
    let clear = service("SingleSignOnService", "HTTP-Redirect", "Location=\"http://id.example/in\"");
    let cases = [
        (whole(&format!("{}{sign_on}", key(" use=\"encryption\""))), MetadataFault::Keys),
        (whole(&sign_on), MetadataFault::Keys),
        (whole(&key("")), MetadataFault::SignOn),
        (whole(&format!("{}{post}", key(""))), MetadataFault::SignOn),
        (whole(&format!("{}{clear}", key(""))), MetadataFault::SignOn),
        ("<a/>".to_owned(), MetadataFault::Form),
        (String::new(), MetadataFault::Form),
    ];
    for (text, fault) in cases {
        assert_eq!(metadata::read(&text).err(), Some(fault), "{text}");
    }
}
