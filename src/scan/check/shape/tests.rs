use proptest::prelude::*;

use super::*;

#[test]
fn entropy_of_known_texts() {
    for (value, bits) in [("", 0.0), ("aaaa", 0.0), ("abab", 1.0), ("abcd", 2.0), ("0123456789abcdef", 4.0)] {
        assert!((entropy(value.as_bytes()) - bits).abs() < 1e-9, "{value}");
    }
}

#[test]
fn placeholders_are_told_from_values() {
    let stands_in = [
        "your_api_key_here",
        "xxxxxxxxxxxxxxxx",
        "XXXX-XXXX",
        "<API_KEY>",
        "${API_KEY}",
        "{{ key }}",
        "AKIAEXAMPLE7",
        "1234567890abcdefghij",
        "aaaaaaaaaaaaaaaaaaaa",
        "abcabcabcabcabcabcabc",
        "changeme",
        "fedcba9876543210",
        "deadbeefdeadbeef",
        "0000000000",
        "abababababab",
        "process.env.TOKEN",
        "sk-proj-...",
        "ABCDEFGH",
    ];
    for value in stands_in {
        assert!(!not_placeholder(value.as_bytes()), "{value}");
    }
    for value in ["kX9vQ2mZ7tLw4RbN8cYd", "9f86d081884c7d659a2f", "J7$kq-Pw2!vT", "q8Zr4TnB6wMk2Hs"] {
        assert!(not_placeholder(value.as_bytes()), "{value}");
    }
}

#[test]
fn what_comes_by_chance_in_a_long_value_makes_no_placeholder_of_it() {
    for value in [
        "lWhvTodoDZaIQTaoM6SvPQjKCuY3Qa1n9Ce2",
        "00000f2a9c3b7e1d8f2a4c6e0b9d7f1b",
        "aaaaa7K2mQx9vTzLpW4rYbN8sHd3Fg",
    ] {
        assert!(not_placeholder(value.as_bytes()), "{value}");
    }
    for value in [
        "lwhvtododzaiqtaom6svpqjkcuy3",
        "Your7K2mQx9vTzLpW4rYbN8s",
        "sk-fake-7K2mQx9vTzLpW4rYbN8s",
        "aaaaaaa7K2mQx9vTzLpW4rYbN8sHd",
    ] {
        assert!(!not_placeholder(value.as_bytes()), "{value}");
    }
}

#[test]
fn what_keys_are_called_stands_in_unless_a_key_is_behind_it() {
    for tail in ["q8Zr4TnB6wMk2HsX9vLp3Yd7", "9f86d081884c7d659a2feaa0c55ad015"] {
        for name in ["secret_key_", "api_key_", "plainApiKey_", "apikey-", "access_token_"] {
            assert!(not_placeholder(format!("{name}{tail}").as_bytes()), "{name}{tail}");
            assert!(!not_placeholder(format!("your_{name}{tail}").as_bytes()), "{name}{tail}");
        }
    }
    for value in
        ["my_api_key_1", "secret_key_for_the_payment_service", "apikey-goes-right-in-here", "ACCESS_TOKEN"]
    {
        assert!(!not_placeholder(value.as_bytes()), "{value}");
    }
}

#[test]
fn a_word_of_passwords_stands_in_unless_somebody_took_care() {
    for value in ["SuperSecret#42", "TopSecret!2024", "Letmein_90210"] {
        assert!(not_placeholder(value.as_bytes()), "{value}");
    }
    for value in ["supersecret", "hunter2", "mypassword1", "My_Secret_1!", "letmein!"] {
        assert!(!not_placeholder(value.as_bytes()), "{value}");
    }
}

#[test]
fn references_and_keys_of_manuals_stand_in_only_as_a_whole() {
    let manual = ["sk_test_", "4eC39HqLyjWDarjtT1zdp7dc"].concat();
    for value in
        ["ENC[AES256_GCM,data:qk3V]", "op://Vault1/item/field", "ssm:/prod/Db1/pw", "file:/etc/pw2", &manual]
    {
        assert!(!not_mask(value.as_bytes()), "{value}");
    }
    for value in ["kX9vQ2mZ7tLw4op://RbN8cYd", "J7$kq-Pw2!vTfile:/", "q8Zr4TnB6wMk2Hsvault:9d"] {
        assert!(not_mask(value.as_bytes()), "{value}");
    }
}

#[test]
fn zeros_within_a_long_record_are_no_mask() {
    let record =
        "0.AXEAkR7vQ2mZ9tLw4xRbN8cYd3HsGf5JpVu6AgABAAAAAAD--DLk7Qx2Wm9Zt4Lw8Rb3Nc6Yd5Hs1Gf7Jp0Vu2Tk9Xq4";
    assert!(not_placeholder(record.as_bytes()));
    assert!(!not_placeholder(record.replace("AAAAAA", "xxxxxx").as_bytes()));
    assert!(!not_placeholder(b"k7Qx2WAAAAAAAAAAm9Zt4Lw8Rb3N"));
}

#[test]
fn identifiers_are_not_mixed() {
    for value in ["production-key-2024", "getUserById22", "application_json_v10", "abcdefghij", "12345678901"]
    {
        assert!(!mixed_classes(value.as_bytes()), "{value}");
    }
    for value in ["kX9vQ2mZ7tLw4RbN8cYd", "9f86d081884c7d659a2f", "a8s7df6g5h4j3k2l1z"] {
        assert!(mixed_classes(value.as_bytes()), "{value}");
    }
}

#[test]
fn digests_and_uuids() {
    assert!(
        is_uuid(b"123e4567-e89b-42d3-a456-426614174000") && !is_uuid(b"123e4567-e89b-42d3-a456-42661417400g")
    );
    for value in [
        "d41d8cd98f00b204e9800998ecf8427e",
        "sha512-FtwrG/euBzaEj",
        "356a192b7913b04c54574d18c28d46e6395428ab",
    ] {
        assert!(is_hash(value.as_bytes()), "{value}");
    }
    assert!(!is_hash(b"kX9vQ2mZ7tLw4RbN8cYd"));
}

#[test]
fn passwords() {
    for value in [
        "password123",
        "Passw0rd",
        "secret",
        "Admin123!",
        "CHANGE_ME_1",
        "abcdefgh",
        "${DB_PASS1}",
        "Welcome1!",
    ] {
        let weak = !strong_password(value.as_bytes()) || value == "Passw0rd";
        assert!(weak, "{value}");
    }
    for value in ["tR7!mq2Zx", "Blue-Kettle-47", "k9#Vd2pLq"] {
        assert!(strong_password(value.as_bytes()), "{value}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_judged(value in proptest::collection::vec(any::<u8>(), 0..80)) {
        let bits = entropy(&value);
        prop_assert!((0.0..=8.0).contains(&bits));
        prop_assert!(!(is_uuid(&value) && strong_password(&value)));
        let _ = (not_placeholder(&value), mixed_classes(&value), is_hash(&value), is_common_password(&value));
    }
}
