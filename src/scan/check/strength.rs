//! How much it says of a value that it passes a check.

use super::Check;

impl Check {
    /// Tells whether next to nothing passes that was not made to: what a checksum of two digits or more proves, or one
    /// beside an issuer, a place or a date.
    pub fn is_proof(self) -> bool {
        matches!(
            self,
            Self::Crc32Base62
                | Self::Crc32HexLittleEndian
                | Self::Crc32Hex
                | Self::Crc32Base36
                | Self::Jwt
                | Self::Pem
                | Self::Bech32
                | Self::Base58Check
                | Self::Nkey
                | Self::Bip39
                | Self::Card
                | Self::Iban
                | Self::Lei
                | Self::Btc
                | Self::Base58Wallet
                | Self::Eth
                | Self::Xrp
                | Self::LtcSegwit
                | Self::MxCurp
                | Self::FrNir
                | Self::BeNrn
                | Self::ItCf
                | Self::NoFnr
                | Self::RoCnp
                | Self::CnResidentId
                | Self::AeEmiratesId
                | Self::LuPerson
        )
    }

    /// Tells whether it judges the number of a person, an account or a document by its digits; many pass by chance.
    pub fn is_of_number(self) -> bool {
        (Self::Luhn..=Self::MrzIdCard).contains(&self)
            || matches!(self, Self::ItPivaPrefixed | Self::KrRrnDated)
            || (Self::AtUid..=Self::ZaTin).contains(&self)
    }
}

#[cfg(test)]
mod tests {
    use crate::scan::check::table::TABLE;

    use super::*;

    /// How many numbers are drawn, and of which of them a proof lets one pass at most.
    const DRAWN: u64 = 4000;
    const PASSING_SHARE: usize = 30;

    /// A number of 8 to 22 digits, another one for each seed (splitmix64).
    fn drawn(seed: u64) -> Vec<u8> {
        let digit = |at: u64| {
            let mixed = (seed * 32 + at).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            b'0' + ((mixed ^ mixed >> 31) % 10) as u8
        };
        (0..8 + seed % 15).map(digit).collect()
    }

    #[test]
    fn next_to_no_number_passes_a_proof_by_chance() {
        let numbers: Vec<Vec<u8>> = (0..DRAWN).map(drawn).collect();
        for row in TABLE.iter().filter(|row| row.check.is_proof()) {
            let passing = numbers.iter().filter(|number| row.check.passes(number)).count();
            assert!(passing * PASSING_SHARE <= numbers.len(), "{}: {passing}", row.name);
        }
    }

    #[test]
    fn what_judges_words_judges_no_number() {
        for check in [Check::Luhn, Check::UsSsn, Check::Imei, Check::UsEin, Check::NlBsn, Check::DeVat] {
            assert!(check.is_of_number() && !check.is_proof(), "{check}");
        }
        for check in [
            Check::Entropy3,
            Check::NotPlaceholder,
            Check::StrongPassword,
            Check::Email,
            Check::NationalPhone,
            Check::BirthDate,
            Check::Rare,
            Check::NotMask,
            Check::KeptPassword,
            Check::NotPublished,
        ] {
            assert!(!check.is_of_number() && !check.is_proof(), "{check}");
        }
    }
}
