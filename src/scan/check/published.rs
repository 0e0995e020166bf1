//! Keys that manuals, quick starts and sample applications print: everybody's, so nobody's secret.
//!
//! Only the first eight bytes of their SHA-256 stand here. Sources: the documentation of AWS, Stripe, FastAPI and
//! jwt.io, Azure's emulators of its storage and of Cosmos DB, RFC 7617, the key URI format of one-time codes, and the
//! sample keys of Google's client libraries that public scanners pass over.

use sha2::Digest;
use sha2::Sha256;

/// The first eight bytes of the SHA-256 of each, in ascending order.
const PUBLISHED: [u64; 31] = [
    0x0011_cc25_eb43_2071,
    0x051d_093c_4bde_dbf2,
    0x0b47_6bdf_9acf_2123,
    0x1a5d_44a2_dca1_9669,
    0x2037_abca_ffb2_b777,
    0x27a9_a429_31df_f7eb,
    0x2caf_c097_0149_a84f,
    0x2d1f_7723_aabc_5c7a,
    0x37f8_f09b_df12_c2f2,
    0x3a8b_61d0_f636_b007,
    0x3f37_0c9d_d822_5c63,
    0x49f7_77db_995e_8260,
    0x4c98_242d_cadc_8b29,
    0x570d_ad43_de1a_f4c9,
    0x73f7_1af0_93fd_f154,
    0x7831_4b11_be2e_5815,
    0x7f75_367e_7881_2551,
    0x8731_261c_b72d_8626,
    0x8be5_d113_c087_1ce1,
    0xa19f_89ab_3555_eac1,
    0xa6c8_14bc_555a_e62c,
    0xaa65_4743_9583_c3a2,
    0xc794_fa6d_20c6_4efb,
    0xcf4d_418e_d3de_92d7,
    0xda81_6f9f_2c16_e6c5,
    0xdc0f_cf04_6c61_640c,
    0xe4a5_542b_b7fd_7b67,
    0xea9b_b108_2cf9_5663,
    0xeb54_0d2b_6ee2_a0a4,
    0xf2d6_ca16_5150_33e5,
    0xf56e_3234_94a6_ffc2,
];

/// Tells whether `value` is no key that is printed in a manual.
pub fn not_published(value: &[u8]) -> bool {
    let digest = Sha256::digest(value);
    let first = digest.first_chunk().copied().map_or(0, u64::from_be_bytes);
    PUBLISHED.binary_search(&first).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_manuals_are_known() {
        let manual = ["AKIA", "IOSFODNN7EXAMPLE"].concat();
        assert!(!not_published(manual.as_bytes()));
        assert!(not_published(b"AKIAIOSFODNN7EXAMPLF"));
        assert!(!not_published(["JBSWY3DP", "EHPK3PXP"].concat().as_bytes()));
        assert!(PUBLISHED.is_sorted());
    }
}
