//! One valid value and one near miss of every check, compared with a second implementation when written.

use proptest::prelude::*;

use super::keccak::keccak256;
use super::luhn;
use super::repair;
use crate::scan::check::Check;

/// Name of the check, a value that passes, a value that does not.
#[rustfmt::skip]
const VECTORS: &[(&str, &str, &str)] = &[
    ("luhn", "2601815908309", "2601815908300"),
    ("card", "4242424242424242", "4242424242424243"),
    ("iban", "NO4031860913909", "NO4031860913900"),
    ("lei", "HWUPKR0MPOU8FGXBT394", "HWUPKR0MPOU8FGXBT395"),
    ("isin", "JPZDOC9IS0J0", "JPZDOC9IS0J1"),
    ("bic", "DEUTDEFF500", "DEUTQQFF"),
    ("us_aba", "104821994", "104821995"),
    ("mx_clabe", "032180000118359719", "032180000118359710"),
    ("btc", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "1A1zP1eP5QGefi2DMPTfTL5SLmv8DivfNa"),
    ("xrp", "rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh", "rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTi"),
    ("ltc_segwit", "ltc1qwnsemn2uam8mnu2hnldrcsagglel45qualsd50", "ltc1qwnsemn2uam8mnu2hnldrcsagglel45qualsd5q"),
    ("base58_wallet", "TE42CQRkDxomRWUEbMh854yH7s7T9PuJVz", "T111111111111111111111111111111111"),
    ("eth", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD"),
    ("us_ssn", "518190937", "666123456"),
    ("us_itin", "986579754", "912661234"),
    ("us_npi", "1231948757", "3234567893"),
    ("us_dea", "AB1234563", "AB1234564"),
    ("us_mbi", "1EG4TE5MK73", "1SG4TE5MK73"),
    ("ca_sin", "491186250", "491186251"),
    ("br_cpf", "76018955997", "76018955998"),
    ("br_cnpj", "97114710497429", "97114710497420"),
    ("br_cnpj", "12.ABC.345/01DE-35", "12.ABC.345/01DE-36"),
    ("cl_rut", "075291701", "075291702"),
    ("ar_cuit", "30236671271", "30236671272"),
    ("co_nit", "8426846560", "8426846561"),
    ("pe_ruc", "15122330793", "15122330794"),
    ("mx_curp", "IJAE530912MDFVYZD6", "IJAE530912MDFVYZD7"),
    ("mx_rfc", "GODE561231GR8", "GODE561331GR8"),
    ("fr_nir", "266071760313021", "266071760313022"),
    ("fr_siret", "59080928159013", "59080928159014"),
    ("be_nrn", "28070545957", "28070545958"),
    ("nl_bsn", "117777419", "117777410"),
    ("uk_nhs", "1547280387", "1547280388"),
    ("uk_nino", "AB123456C", "GB123456A"),
    ("uk_utr", "2808414852", "2808414854"),
    ("ie_ppsn", "5388853DA", "5388854DA"),
    ("de_steuer_id", "36338750146", "36338750147"),
    ("de_rvnr", "65170839J003", "65170839J004"),
    ("de_kvnr", "A123456780", "A123456781"),
    ("icao_document", "L898902C36", "L898902C37"),
    ("at_svnr", "4395121250", "4395121251"),
    ("ch_ahv", "7565131373537", "7565131373538"),
    ("es_nif", "99075116V", "99075117V"),
    ("es_nie", "Z3726516S", "Z3726517S"),
    ("pt_nif", "612220290", "612220291"),
    ("it_cf", "ZUETTP52P70E001B", "ZUETTP52P70E002B"),
    ("it_piva", "26330430385", "26330430386"),
    ("gr_afm", "395486200", "395486201"),
    ("gr_amka", "22081498689", "22081498680"),
    ("tr_tckn", "82880729622", "82880729623"),
    ("fi_hetu", "200818A180T", "200818A181T"),
    ("se_personnummer", "870917-8712", "870917-8713"),
    ("se_orgnr", "7334018780", "7334018781"),
    ("no_fnr", "15029750898", "15029750899"),
    ("dk_cpr", "2110625629", "2113625629"),
    ("is_kennitala", "0912257860", "0912257861"),
    ("baltic_code", "48909294833", "48909294834"),
    ("pl_pesel", "17070467510", "17070467511"),
    ("pl_nip", "6134125243", "6134125244"),
    ("cz_rc", "2308081677", "2308081678"),
    ("ro_cnp", "2201214336569", "2201214336560"),
    ("bg_egn", "4506035057", "4506035058"),
    ("hr_oib", "77065894819", "77065894810"),
    ("si_emso", "2904017114402", "2904017114403"),
    ("ru_inn", "264628897584", "264628897585"),
    ("ru_snils", "02614014196", "02614014197"),
    ("ua_rnokpp", "1417058644", "1417058645"),
    ("in_aadhaar", "208312402346", "208312402347"),
    ("in_pan", "QYGGO8245Z", "ACUDA7085R"),
    ("in_gstin", "02IBAPA8838PBZ2", "02IBAPA8838PBZ3"),
    ("cn_resident_id", "110101198411147861", "110101198411147862"),
    ("hk_id", "G123456(A)", "G123457(A)"),
    ("tw_id", "A123456789", "A123456780"),
    ("jp_my_number", "433532650201", "433532650202"),
    ("kr_rrn", "8012294620162", "9710139019903"),
    ("sg_nric", "S1234567D", "S1234568D"),
    ("th_tnin", "4934072247043", "4934072247044"),
    ("my_nric", "230618530435", "771305021234"),
    ("il_id", "205617483", "205617484"),
    ("ae_emirates_id", "784-1984-1234567-4", "784-1984-1234567-5"),
    ("au_tfn", "380141264", "380141265"),
    ("au_abn", "16044319829", "16044319820"),
    ("au_acn", "657249208", "657249209"),
    ("au_medicare", "2123456701", "2123456700"),
    ("nz_ird", "082889094", "082889095"),
    ("nz_ird", "49091850", "49091851"),
    ("za_id", "1001022516089", "1001022516080"),
    ("imei", "358374071881814", "358374071881815"),
    ("iccid", "8991101200003204514", "8991101200003204515"),
    ("vin", "1M8GDM9AXKP042788", "1M8GDM9AXKP042789"),
    ("mrz_passport", "L898902C36UTO7408122F1204159ZE184226B<<<<<10", "L898902C36UTO7408122F1204159ZE184226B<<<<<11"),
    ("mrz_id_card", "I<UTOD231458907<<<<<<<<<<<<<<<\n7408122F1204159UTO<<<<<<<<<<<6", "I<UTOD231458907<<<<<<<<<<<<<<<\n7408122F1204150UTO<<<<<<<<<<<6"),
    ("email", "jane.doe@example.com", "git@github.com"),
    ("email_international", "post@xn--e1afmkfd.xn--p1ai", "jane.doe@example.com"),
    ("email_international", "иван@пример.рф", "иван@при»мер.рф"),
    ("ip_address", "192.0.2.17", "120.0.0.0"),
    ("ip_address", "684d:1111:222:3333:4444:5555:6:77", "123:456:789:012:345:678:901:234"),
    ("mac_address", "00:1a:2b:3c:4d:5e", "ff:ff:ff:ff:ff:ff"),
    ("e164", "+442079460958", "+999123456789"),
    ("e164", "+491714839221", "+491999999123"),
    ("nanp", "(212) 555-0147", "123-456-7890"),
    ("de_phone", "0171/4839221", "0199/9999123"),
    ("br_phone", "(11) 93468-8253", "(20) 93468-8253"),
    ("birth_date", "1984-07-12", "1984-02-30"),
    ("it_piva_prefixed", "IT07643520567", "IT07643520568"),
    ("national_phone", "020 7946 0958", "2024-11-21"),
    ("kr_rrn_dated", "971013-1019902", "971313-1019902"),
];

fn named(name: &str) -> Check {
    name.parse().unwrap()
}

#[test]
fn every_check_tells_a_value_from_its_near_miss() {
    for &(name, valid, broken) in VECTORS {
        assert!(named(name).passes(valid.as_bytes()), "{name}: {valid}");
        assert!(!named(name).passes(broken.as_bytes()), "{name}: {broken}");
        assert!(!named(name).passes(b""), "{name}: nothing");
    }
}

#[test]
fn a_repaired_value_passes_and_keeps_its_length() {
    for &(name, valid, broken) in VECTORS {
        let Some(fixed) = named(name).repair(broken.as_bytes()) else { continue };
        assert!(named(name).passes(&fixed), "{name}: {broken}");
        assert!(name.starts_with("b") || fixed.len() == valid.len(), "{name}: {broken}");
    }
}

#[test]
fn keccak_has_the_digest_of_nothing_that_ethereum_publishes() {
    let digest: String = keccak256(b"").iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470");
}

proptest! {
    #[test]
    fn luhn_notices_every_single_wrong_digit(body in "[0-9]{14}[1-9][0-8]", at in 0_usize..16, step in 1_u8..10) {
        let fixed = repair(body.as_bytes(), luhn).unwrap();
        let mut broken = fixed.clone();
        broken[at] = b'0' + (broken[at] - b'0' + step) % 10;
        prop_assert!(luhn(&fixed));
        prop_assert!(!luhn(&broken));
    }

    #[test]
    fn no_check_fails_on_arbitrary_bytes(value in proptest::collection::vec(any::<u8>(), 0..60)) {
        for &(name, ..) in VECTORS {
            let _ = named(name).passes(&value);
        }
    }

    #[test]
    fn no_check_fails_on_arbitrary_symbols(value in "[A-Z0-9<+@.:/ -]{0,46}") {
        for &(name, ..) in VECTORS {
            let _ = named(name).passes(value.as_bytes());
        }
    }
}
