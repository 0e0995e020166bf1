use proptest::prelude::*;

use super::*;
use crate::scan::check::Check;

/// A well-formed, random-looking value of each check that repairs.
fn shapes() -> Vec<(Check, String)> {
    let body = "Zk3VtW8xQ1rNb7PyLs5Hd2Gm9Cf4Xj6T";
    let data = "qpzry9x8gf2tvdw0s3jn54khce6mua7lqpzry9x8gf2tvdw0s3jn54khce".to_uppercase();
    vec![
        (Check::Crc32Base62, format!("ghp_{body}ABCD")),
        (Check::Crc32Base36, format!("glpat-{body}.01.0z1234567")),
        (Check::Crc32Hex, format!("ATATT3xFf{body}=01234567")),
        (Check::Crc32HexLittleEndian, format!("glsa_{body}_01234567")),
        (Check::Jwt, format!("eyJhbGci.eyJzdWIi.{body}")),
        (Check::Base64Json, format!("glc_{body}{body}")),
        (Check::Pem, format!("-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----")),
        (Check::BasicAuth, body.to_owned()),
        (Check::UrlCredentials, "user:pass@db.internal.net".to_owned()),
        (Check::DiscordBot, format!("NTEyMzQ1Nzg5MDEyMzQabCdE.GabcdE.{body}")),
        (Check::Bech32, format!("AGE-SECRET-KEY-1{data}")),
        (Check::Base58Check, format!("K{}", "x".repeat(51))),
        (Check::Nkey, format!("SUA{}", "B".repeat(55))),
    ]
}

#[test]
fn a_repaired_value_passes_and_a_changed_one_does_not() {
    for (check, shape) in shapes() {
        let right = check.repair(shape.as_bytes()).unwrap_or_default();
        assert!(check.passes(&right), "{check}");
        assert!(!check.passes(shape.as_bytes()), "{check}: the raw shape is not valid");
    }
}

#[test]
fn checksums_catch_every_single_character() {
    for (check, shape) in shapes() {
        let summed =
            [Check::Crc32Base62, Check::Crc32Base36, Check::Crc32Hex, Check::Bech32, Check::Base58Check];
        if !summed.contains(&check) {
            continue;
        }
        let right = check.repair(shape.as_bytes()).unwrap_or_default();
        for at in shape.find(['_', '-', '1']).map_or(0, |at| at + 1)..right.len() {
            let mut wrong = right.clone();
            wrong[at] = if wrong[at] == b'Z' { b'Y' } else { b'Z' };
            assert!(wrong == right || !check.passes(&wrong), "{check} at {at}");
        }
    }
}

#[test]
fn known_values_of_standards() {
    // BIP-173's own test vectors, an NKEY user seed of zeros made by rule, the CRC catalogue's check value.
    assert!(bech32(b"A12UEL5L") && bech32(b"abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw"));
    assert!(!bech32(b"A12uEL5L") && !bech32(b"1nwldj5"));
    assert!(
        base58check(b"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa")
            && !base58check(b"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb")
    );
    assert_eq!(crc16(b"123456789"), 0x31C3);
    assert_eq!(digits(crc32fast::hash(b"123456789"), BASE36, 7), digits(0xCBF4_3926, BASE36, 7));
    assert_eq!(digits(61, BASE62, 3), b"00z");
}

#[test]
fn structures_that_only_look_right_fail() {
    assert!(!jwt(b"eyJhbGciOiJub25lIn0.not-json.sig") && !jwt(b"eyJ4Ijox.eyJ4Ijox.x"));
    assert!(!basic_auth(LENIENT_STANDARD.encode("user:password").as_bytes()));
    assert!(!basic_auth(b"Zm9vYmFy"));
    for value in [
        "user:pass@host",
        "postgres:postgres@db",
        "u:${PW}aaaa@db",
        "app:opensesame@db.example:5432",
        "nothing",
    ] {
        assert!(!url_credentials(value.as_bytes()), "{value}");
    }
    // On one's own machine, and on hosts that nobody has, manuals are at home; what nobody would make up for one is a password there, too.
    for host in ["localhost:5432", "127.0.0.1", "[::1]:5432", "db.example.com"] {
        assert!(!url_credentials(format!("app:opensesame@{host}").as_bytes()), "{host}");
        assert!(url_credentials(format!("app:kX9vQ2mZ7t@{host}").as_bytes()), "{host}");
    }
    // Digits for letters are how people write passwords, and how nobody names a field.
    assert!(url_credentials(["admin:s3cr3t", "Passw0rd@db.internal"].concat().as_bytes()));
    assert!(!url_credentials(b"admin:db_password1@db.internal"));
    assert!(!aws_access_key(["AKIA", "IOSFODNN7EXAMPLE"].concat().as_bytes()));
    assert!(!aws_access_key(b"AKIA0189018901890189"));
    assert!(aws_access_key(["AKIA", "QYLPMN5HHHFPZAM2"].concat().as_bytes()));
    assert!(!discord_bot(b"aGVsbG8gd29ybGQ.abc.def"));
}

#[test]
fn a_damaged_block_is_unproven_unless_it_is_a_placeholder() {
    let body = "Zk3VtW8xQ1rNb7PyLs5Hd2Gm9Cf4Xj6TZk3VtW8xQ1rNb7PyLs5Hd2Gm9";
    assert!(pem_fails(format!("-----BEGIN PRIVATE KEY-----\n{body}").as_bytes()));
    assert!(!pem_fails(format!("-----BEGIN PRIVATE KEY-----\n{}", "x".repeat(64)).as_bytes()));
    let right = repair_pem(b"-----BEGIN PRIVATE KEY-----").unwrap_or_default();
    assert!(pem(&right) && !pem_fails(&right));
    let escaped = String::from_utf8_lossy(&right).replace('\n', "\\n");
    assert!(pem(escaped.as_bytes()), "line ends may be escaped");
    let other_label = String::from_utf8_lossy(&right).replace("END PRIVATE", "END RSA PRIVATE");
    assert!(!pem(other_label.as_bytes()));
}

proptest! {
    #[test]
    fn any_bytes_are_judged_without_panic(value in proptest::collection::vec(any::<u8>(), 0..120)) {
        for (check, _) in shapes() {
            if let Some(right) = check.repair(&value) {
                let _ = check.passes(&right);
            }
            let _ = check.passes(&value);
        }
    }

    #[test]
    fn base58_reads_what_it_wrote(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        prop_assert_eq!(base58_decode(&base58_encode(&bytes)), Some(bytes));
    }

    #[test]
    fn base32_reads_what_it_wrote(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        prop_assert_eq!(base32_decode(&base32_encode(&bytes)), Some(bytes));
    }
}

#[test]
fn a_token_that_is_meant_for_web_pages_is_no_secret() {
    let token = |payload: &str| {
        let parts = [r#"{"alg":"HS256","typ":"JWT"}"#, payload].map(|part| LENIENT_URL.encode(part));
        let [header, payload] = parts.map(|part| part.trim_end_matches('=').to_owned());
        format!("{header}.{payload}.Zk3VtW8xQ1rNb7PyLs5Hd2Gm9Cf4Xj6T")
    };
    for (payload, expected) in [
        (r#"{"iss":"supabase","ref":"abc","role":"anon","iat":1700000000}"#, false),
        (r#"{"iss":"supabase","ref":"abc","role":"service_role","iat":1700000000}"#, true),
        (r#"{"iss":"elsewhere","role":"anon","sub":"42"}"#, true),
    ] {
        assert_eq!(jwt(token(payload).as_bytes()), expected, "{payload}");
    }
}
