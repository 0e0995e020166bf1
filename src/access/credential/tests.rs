use super::*;

type Outcome = Result<Option<String>, CredentialFault>;

const SIGNATURE: &str = "AWS4-HMAC-SHA256 Credential=AKID/20261125/eu-west-1/bedrock/aws4_request, SignedHeaders=host, Signature=1f";

fn given(fields: &[(&'static str, &str)], query: Option<&str>, places: &Places) -> Outcome {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(HeaderName::from_static(name), value.parse().unwrap());
    }
    let found = presented(&headers, query, places)?;
    Ok(found.map(|found| format!("{} {}", found.place, found.credential)))
}

#[test]
fn one_credential_wherever_it_is() {
    type Case<'a> = (&'a [(&'static str, &'a str)], Result<Option<&'a str>, CredentialFault>);
    let cases: &[Case<'_>] = &[
        (&[], Ok(None)),
        (&[("x-api-key", "")], Ok(None)),
        (&[("x-api-key", "k")], Ok(Some("x-api-key k"))),
        (&[("x-api-token", "k")], Ok(Some("x-api-token k"))),
        (&[("authorization", "bearer k")], Ok(Some("authorization k"))),
        (&[("authorization", "Bearer k"), ("x-api-key", "k")], Ok(Some("x-api-key k"))),
        (&[("authorization", "Bearer k"), ("x-api-key", "l")], Err(CredentialFault::Ambiguous)),
        (&[("x-api-key", "k"), ("x-api-key", "l")], Err(CredentialFault::Ambiguous)),
        (&[("x-api-key", "k"), ("x-api-token", "")], Ok(Some("x-api-key k"))),
        (&[("x-api-key", " "), ("authorization", "Bearer k")], Ok(Some("authorization k"))),
        (&[("x-api-key", ""), ("x-api-key", "k")], Ok(Some("x-api-key k"))),
        (&[("authorization", ""), ("x-api-key", "k")], Ok(Some("x-api-key k"))),
        (&[("authorization", "Bearer"), ("x-api-key", "k")], Ok(Some("x-api-key k"))),
        (&[("authorization", "bearer  "), ("x-api-token", "k")], Ok(Some("x-api-token k"))),
        (&[("authorization", "")], Ok(None)),
        (&[("authorization", "Bearer")], Ok(None)),
        (&[("authorization", "Basic"), ("x-api-key", "k")], Err(CredentialFault::Malformed)),
        (&[("authorization", "Basic k")], Err(CredentialFault::Malformed)),
        (&[("x-api-key", "caf\u{e9}")], Err(CredentialFault::Malformed)),
    ];
    for (fields, expected) in cases {
        let expected = expected.map(|found| found.map(str::to_owned));
        assert_eq!(given(fields, None, &OWN_PLACES), expected, "{fields:?}");
    }
    for (name, value) in [
        ("authorization", "Bearer k"),
        ("x-api-key", "k"),
        ("x-goog-api-key", "k"),
        ("api-key", "k"),
        ("x-api-token", "k"),
    ] {
        let found = given(&[(name, value)], Some("alt=sse"), &ALL_PLACES);
        assert_eq!(found, Ok(Some(format!("{name} k"))));
    }
}

#[test]
fn a_page_shows_its_key_as_a_subprotocol() {
    let offered = "realtime, openai-insecure-api-key.k, openai-beta.realtime-v1";
    let found = given(&[(PROTOCOLS, offered)], None, &ALL_PLACES);
    assert_eq!(found, Ok(Some(format!("{PROTOCOLS} k"))));
    assert_eq!(given(&[(PROTOCOLS, offered)], None, &OWN_PLACES), Ok(None));
    let both = [("x-api-key", "l"), (PROTOCOLS, offered)];
    assert_eq!(given(&both, None, &ALL_PLACES), Err(CredentialFault::Ambiguous));
}

#[test]
fn a_key_of_ours_is_known_in_basic_credentials() {
    let key = key::any_text();
    let holds = |pair: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", format!("Basic {}", STANDARD.encode(pair)).parse().unwrap());
        basic_holds_ours(&headers)
    };
    assert!(holds(&format!("a:{key}")) && holds(&format!("{key}:")) && holds(&format!("{key}:x")));
    assert!(!holds("a:b") && !holds("pk_live"));
}

#[test]
fn a_provider_gets_one_credential_too() {
    type Case<'a> =
        (&'a [(&'static str, &'a str)], Option<&'a str>, Result<Option<&'a str>, CredentialFault>);
    let cases: &[Case<'_>] = &[
        (&[], None, Ok(None)),
        (&[("authorization", "Bearer k")], None, Ok(Some("k"))),
        (&[("authorization", "bEARER   k ")], Some("alt=sse"), Ok(Some("k"))),
        (&[("authorization", "Bearer k"), ("x-api-key", "")], None, Ok(Some("k"))),
        (&[("authorization", "Bearer "), ("x-api-key", "k")], None, Ok(Some("k"))),
        (&[("authorization", "Bearer k"), ("api-key", "k")], None, Ok(Some("k"))),
        (&[("authorization", "Basic a, b")], None, Ok(Some("Basic a, b"))),
        // `a:k`, `b:k` and `k:`.
        (&[("authorization", "Basic YTpr")], None, Ok(Some("k"))),
        (&[("authorization", "basic  Yjpr")], None, Ok(Some("k"))),
        (&[("authorization", "Basic azo=")], None, Ok(Some("k"))),
        (&[("authorization", "Basic YTpr"), ("api-key", "junk")], None, Err(CredentialFault::Ambiguous)),
        (&[(PROVIDERS_PLACE, "k"), ("api-key", "junk")], None, Err(CredentialFault::Ambiguous)),
        (&[("authorization", SIGNATURE)], None, Ok(Some("AKID"))),
        (&[("authorization", "aws4-x Credential=AKID/9/r/s/t,Signature=7")], None, Ok(Some("AKID"))),
        (&[("authorization", SIGNATURE)], Some("X-Amz-Credential=AKID%2F9%2Fr"), Ok(Some("AKID"))),
        (&[], Some("X-Amz-Credential=AKID%2F9%2Fr&X-Amz-Signature=8"), Ok(Some("AKID"))),
        (&[("authorization", SIGNATURE)], Some("X-Amz-Credential=B"), Err(CredentialFault::Ambiguous)),
        (&[("authorization", SIGNATURE), ("x-api-key", "k")], None, Err(CredentialFault::Ambiguous)),
        (&[("authorization", "AWS4-HMAC-SHA256 a, b")], None, Err(CredentialFault::Malformed)),
        (
            &[("authorization", "AWS4-HMAC-SHA256 Credential=A/9, Credential=B/9")],
            None,
            Err(CredentialFault::Malformed),
        ),
        (&[(PROTOCOLS, "realtime, openai-insecure-api-key.k")], None, Ok(Some("k"))),
        (
            &[(PROTOCOLS, "realtime, openai-insecure-api-key.k"), ("api-key", "junk")],
            None,
            Err(CredentialFault::Ambiguous),
        ),
        (&[("authorization", "Bearer k")], Some("oauth_token=l"), Err(CredentialFault::Ambiguous)),
        (&[], Some("alt=sse&key=k"), Ok(Some("k"))),
        (&[("x-goog-api-key", "k")], Some("%6Bey=%6B"), Ok(Some("k"))),
        (&[("authorization", "Bearer k"), ("x-api-key", "l")], None, Err(CredentialFault::Ambiguous)),
        (&[("x-api-key", "k"), ("x-api-key", "l")], None, Err(CredentialFault::Ambiguous)),
        (&[("x-goog-api-key", "k"), ("x-api-token", "l")], None, Err(CredentialFault::Ambiguous)),
        (&[("x-api-key", "l")], Some("key=k"), Err(CredentialFault::Ambiguous)),
        (&[], Some("key=k&key=l"), Err(CredentialFault::Ambiguous)),
        (&[("authorization", "Bearer k junk")], None, Err(CredentialFault::Malformed)),
    ];
    for (fields, query, expected) in cases {
        let mut headers = HeaderMap::new();
        for (name, value) in *fields {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        assert_eq!(
            of_provider(&headers, *query).map(|it| it.map(Cow::into_owned)),
            expected.map(|it| it.map(str::to_owned)),
            "{fields:?} {query:?}"
        );
    }
}

#[test]
fn none_in_the_query() {
    for query in ["key=k", "alt=sse&API_KEY=k", "access_token=x", "%6Bey=k", "a=b&ac%63ess_token", "token="] {
        let found = given(&[("x-api-key", "k")], Some(query), &ALL_PLACES);
        assert_eq!(found, Err(CredentialFault::InQuery), "{query}");
    }
    for query in ["", "alt=sse", "monkey=1", "keys=2", "a=key", "%zz=1", "%", "%+1=2"] {
        assert!(given(&[], Some(query), &OWN_PLACES).is_ok(), "{query}");
    }
}

#[test]
fn a_key_of_ours_is_known_in_the_query_under_whatever_name() {
    let key = key::any_text();
    let escaped: String = key.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let queries = [
        format!("foo={key}"),
        format!("a=b&foo=x%20{key}"),
        format!("foo={escaped}&a=b"),
        format!("Authorization=Bearer%20{key}"),
        format!("Authorization=Bearer+{key}"),
        key.clone(),
        format!("{key}=1"),
        format!("foo=pk_{key}"),
    ];
    for query in &queries {
        assert!(holds_ours(query), "{query}");
        for places in [&OWN_PLACES, &ALL_PLACES] {
            let found = given(&[("x-api-key", "k")], Some(query), places);
            assert_eq!(found, Err(CredentialFault::InQuery), "{query}");
        }
    }
    let (last, typo) = (&key[key.len() - 1..], &key[..key.len() - 1]);
    let other = if last == "0" { "1" } else { "0" };
    for query in [format!("foo={typo}{other}"), format!("foo={typo}"), "foo=pk_live_x&b=pk_%c3".to_owned()] {
        assert!(!holds_ours(&query), "{query}");
        assert!(given(&[], Some(&query), &ALL_PLACES).is_ok(), "{query}");
    }
}

#[test]
fn our_own_paths_take_no_parameter_for_a_place() {
    for query in ["Authorization=x", "a=b&auth=x", "BEARER=x", "s%65cret=x"] {
        let found = given(&[("x-api-key", "k")], Some(query), &OWN_PLACES);
        assert_eq!(found, Err(CredentialFault::InQuery), "{query}");
        assert!(given(&[("x-api-key", "k")], Some(query), &ALL_PLACES).is_ok(), "{query}");
    }
}
