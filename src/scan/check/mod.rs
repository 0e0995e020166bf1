//! The closed set of checks that judge a matched value.
//!
//! In: the bytes a pattern matched. Out: whether they can be what the pattern took them for. A check never
//! allocates without bound, never looks outside the value, and knows nothing of the text around it.
//!
//! `TABLE` holds one row a check, in the order of [`Check`]: a new check is a variant, a row and a function.

use std::fmt;
use std::str::FromStr;

mod encoding;
pub mod identity;
pub mod secret;
pub mod shape;

/// A question asked of a matched value, named in packs by its snake_case name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// Last six characters are the base62 CRC-32 of what follows the prefix (GitHub, npm).
    Crc32Base62,
    /// The same form with a checksum that does not agree.
    Crc32Base62Fails,
    /// Last eight characters are the little-endian hexadecimal CRC-32 of the rest (Grafana).
    Crc32HexLittleEndian,
    /// The same form with a checksum that does not agree.
    Crc32HexLittleEndianFails,
    /// Last eight characters are the hexadecimal CRC-32 of the rest (Atlassian).
    Crc32Hex,
    /// The same form with a checksum that does not agree.
    Crc32HexFails,
    /// Last seven characters are the base36 CRC-32 of the rest (routable tokens of GitLab).
    Crc32Base36,
    /// A JSON web token: header with `alg`, payload, both JSON objects.
    Jwt,
    /// A PEM block whose labels agree and whose body is a key's encoding.
    Pem,
    /// A PEM block that is cut, damaged or of an unknown encoding, yet no placeholder.
    PemFails,
    /// Base64 of `user:password`, neither of them a placeholder.
    BasicAuth,
    /// `user:password@host` with a password someone would want to keep.
    UrlCredentials,
    /// A Discord bot token: its first part is a snowflake in base64.
    DiscordBot,
    /// Base64 of a JSON object after an optional `prefix_`.
    Base64Json,
    /// Bech32 or bech32m with the right checksum.
    Bech32,
    /// Base58 with a double SHA-256 checksum.
    Base58Check,
    /// A NATS key: base32 with CRC-16.
    Nkey,
    /// An AWS access key id: base32 after a known prefix, not one of the documentation.
    AwsAccessKey,
    /// At least 2.5 bits of Shannon entropy a character.
    Entropy2Half,
    /// At least 3 bits of Shannon entropy a character.
    Entropy3,
    /// At least 3.5 bits of Shannon entropy a character.
    Entropy3Half,
    /// At least 4 bits of Shannon entropy a character.
    Entropy4,
    /// Letters and digits in the disorder of a random value, not in that of an identifier.
    MixedClasses,
    /// No example, mask, template, run or sequence.
    NotPlaceholder,
    /// Not a UUID.
    NotUuid,
    /// Not of the form of a hash, a commit or a digest.
    NotHash,
    /// A password of three character classes that is no placeholder.
    StrongPassword,
}

/// No check has this name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("no such check; known: {}", names())]
pub struct UnknownCheck;

struct Row {
    check: Check,
    name: &'static str,
    passes: fn(&[u8]) -> bool,
    repair: fn(&[u8]) -> Option<Vec<u8>>,
}

const fn row(
    check: Check,
    name: &'static str,
    passes: fn(&[u8]) -> bool,
    repair: fn(&[u8]) -> Option<Vec<u8>>,
) -> Row {
    Row { check, name, passes, repair }
}

/// The repair of checks that a random value passes often enough.
fn by_chance(_: &[u8]) -> Option<Vec<u8>> {
    None
}

const TABLE: &[Row] = &[
    row(Check::Crc32Base62, "crc32_base62", secret::crc32_base62, secret::repair_crc32_base62),
    row(Check::Crc32Base62Fails, "crc32_base62_fails", |v| !secret::crc32_base62(v), by_chance),
    row(Check::Crc32HexLittleEndian, "crc32_hex_le", secret::crc32_hex_le, secret::repair_crc32_hex_le),
    row(Check::Crc32HexLittleEndianFails, "crc32_hex_le_fails", |v| !secret::crc32_hex_le(v), by_chance),
    row(Check::Crc32Hex, "crc32_hex", secret::crc32_hex, secret::repair_crc32_hex),
    row(Check::Crc32HexFails, "crc32_hex_fails", |v| !secret::crc32_hex(v), by_chance),
    row(Check::Crc32Base36, "crc32_base36", secret::crc32_base36, secret::repair_crc32_base36),
    row(Check::Jwt, "jwt", secret::jwt, secret::repair_jwt),
    row(Check::Pem, "pem", secret::pem, secret::repair_pem),
    row(Check::PemFails, "pem_fails", secret::pem_fails, by_chance),
    row(Check::BasicAuth, "basic_auth", secret::basic_auth, secret::repair_basic_auth),
    row(Check::UrlCredentials, "url_credentials", secret::url_credentials, secret::repair_url_credentials),
    row(Check::DiscordBot, "discord_bot", secret::discord_bot, secret::repair_discord_bot),
    row(Check::Base64Json, "base64_json", secret::base64_json, secret::repair_base64_json),
    row(Check::Bech32, "bech32", secret::bech32, secret::repair_bech32),
    row(Check::Base58Check, "base58check", secret::base58check, secret::repair_base58check),
    row(Check::Nkey, "nkey", secret::nkey, secret::repair_nkey),
    row(Check::AwsAccessKey, "aws_access_key", secret::aws_access_key, by_chance),
    row(Check::Entropy2Half, "entropy_2_5", |v| shape::entropy(v) >= 2.5, by_chance),
    row(Check::Entropy3, "entropy_3", |v| shape::entropy(v) >= 3.0, by_chance),
    row(Check::Entropy3Half, "entropy_3_5", |v| shape::entropy(v) >= 3.5, by_chance),
    row(Check::Entropy4, "entropy_4", |v| shape::entropy(v) >= 4.0, by_chance),
    row(Check::MixedClasses, "mixed_classes", shape::mixed_classes, by_chance),
    row(Check::NotPlaceholder, "not_placeholder", shape::not_placeholder, by_chance),
    row(Check::NotUuid, "not_uuid", |v| !shape::is_uuid(v), by_chance),
    row(Check::NotHash, "not_hash", |v| !shape::is_hash(v), by_chance),
    row(Check::StrongPassword, "strong_password", shape::strong_password, by_chance),
];

impl Check {
    /// Tells whether `value` stands up to the check.
    pub fn passes(self, value: &[u8]) -> bool {
        (self.row().passes)(value)
    }

    /// Returns a value of the same form that passes, made from a random well-formed one, or `None` where
    /// trying more random values is the better way.
    pub fn repair(self, value: &[u8]) -> Option<Vec<u8>> {
        (self.row().repair)(value)
    }

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().name)
    }
}

impl FromStr for Check {
    type Err = UnknownCheck;

    fn from_str(text: &str) -> Result<Self, UnknownCheck> {
        TABLE.iter().find(|row| row.name == text).map(|row| row.check).ok_or(UnknownCheck)
    }
}

fn names() -> String {
    TABLE.iter().map(|row| row.name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_the_variants() {
        for (at, row) in TABLE.iter().enumerate() {
            assert_eq!(row.check as usize, at, "{}", row.name);
        }
    }

    #[test]
    fn a_name_reads_back_as_its_check() {
        for row in TABLE {
            assert_eq!(row.name.parse(), Ok(row.check));
            assert_eq!(row.check.to_string(), row.name);
        }
        assert_eq!("crc33".parse::<Check>(), Err(UnknownCheck));
    }
}
