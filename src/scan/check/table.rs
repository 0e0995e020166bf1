//! The table of checks: one row each, in the order of [`Check`].

use super::Check;
use super::address;
use super::identity;
use super::mnemonic;
use super::password;
use super::published;
use super::rarity;
use super::secret;
use super::shape;

/// A check by name: how it judges, and how a value is made that it lets through.
pub(super) struct Row {
    pub(super) check: Check,
    pub(super) name: &'static str,
    pub(super) passes: fn(&[u8]) -> bool,
    pub(super) repair: fn(&[u8]) -> Option<Vec<u8>>,
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

/// All of them; a row stands where its variant does.
pub(super) const TABLE: &[Row] = &[
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
    row(Check::Luhn, "luhn", identity::luhn, |v| identity::repair(v, identity::luhn)),
    row(Check::Card, "card", identity::bank::card, |v| identity::repair(v, identity::bank::card)),
    row(Check::Iban, "iban", identity::bank::iban, identity::bank::repair_iban),
    row(Check::Lei, "lei", identity::bank::lei, |v| identity::repair(v, identity::bank::lei)),
    row(Check::Isin, "isin", identity::bank::isin, |v| identity::repair(v, identity::bank::isin)),
    row(Check::Bic, "bic", identity::bank::bic, by_chance),
    row(Check::UsAba, "us_aba", identity::bank::us_aba, |v| identity::repair(v, identity::bank::us_aba)),
    row(Check::MxClabe, "mx_clabe", identity::bank::mx_clabe, |v| {
        identity::repair(v, identity::bank::mx_clabe)
    }),
    row(Check::Btc, "btc", identity::wallet::btc, identity::wallet::repair_btc),
    row(
        Check::Base58Wallet,
        "base58_wallet",
        identity::wallet::base58_wallet,
        identity::wallet::repair_base58,
    ),
    row(Check::Eth, "eth", identity::wallet::eth, identity::wallet::repair_eth),
    row(Check::UsSsn, "us_ssn", identity::america::us_ssn, by_chance),
    row(Check::UsItin, "us_itin", identity::america::us_itin, by_chance),
    row(Check::UsNpi, "us_npi", identity::america::us_npi, |v| {
        identity::repair(v, identity::america::us_npi)
    }),
    row(Check::UsDea, "us_dea", identity::america::us_dea, |v| {
        identity::repair(v, identity::america::us_dea)
    }),
    row(Check::UsMbi, "us_mbi", identity::america::us_mbi, by_chance),
    row(Check::CaSin, "ca_sin", identity::america::ca_sin, |v| {
        identity::repair(v, identity::america::ca_sin)
    }),
    row(Check::BrCpf, "br_cpf", identity::america::br_cpf, |v| {
        identity::repair(v, identity::america::br_cpf)
    }),
    row(Check::BrCnpj, "br_cnpj", identity::america::br_cnpj, |v| {
        identity::repair(v, identity::america::br_cnpj)
    }),
    row(Check::ClRut, "cl_rut", identity::america::cl_rut, |v| {
        identity::repair(v, identity::america::cl_rut)
    }),
    row(Check::ArCuit, "ar_cuit", identity::america::ar_cuit, |v| {
        identity::repair(v, identity::america::ar_cuit)
    }),
    row(Check::CoNit, "co_nit", identity::america::co_nit, |v| {
        identity::repair(v, identity::america::co_nit)
    }),
    row(Check::PeRuc, "pe_ruc", identity::america::pe_ruc, |v| {
        identity::repair(v, identity::america::pe_ruc)
    }),
    row(Check::MxCurp, "mx_curp", identity::america::mx_curp, |v| {
        identity::repair(v, identity::america::mx_curp)
    }),
    row(Check::MxRfc, "mx_rfc", identity::america::mx_rfc, by_chance),
    row(Check::FrNir, "fr_nir", identity::west::fr_nir, |v| identity::repair(v, identity::west::fr_nir)),
    row(Check::FrSiret, "fr_siret", identity::west::fr_siret, |v| {
        identity::repair(v, identity::west::fr_siret)
    }),
    row(Check::BeNrn, "be_nrn", identity::west::be_nrn, |v| identity::repair(v, identity::west::be_nrn)),
    row(Check::NlBsn, "nl_bsn", identity::west::nl_bsn, |v| identity::repair(v, identity::west::nl_bsn)),
    row(Check::UkNhs, "uk_nhs", identity::west::uk_nhs, |v| identity::repair(v, identity::west::uk_nhs)),
    row(Check::UkNino, "uk_nino", identity::west::uk_nino, by_chance),
    row(Check::UkUtr, "uk_utr", identity::west::uk_utr, |v| identity::repair(v, identity::west::uk_utr)),
    row(Check::IePpsn, "ie_ppsn", identity::west::ie_ppsn, |v| identity::repair(v, identity::west::ie_ppsn)),
    row(Check::DeSteuerId, "de_steuer_id", identity::german::de_steuer_id, |v| {
        identity::repair(v, identity::german::de_steuer_id)
    }),
    row(Check::DeRvnr, "de_rvnr", identity::german::de_rvnr, |v| {
        identity::repair(v, identity::german::de_rvnr)
    }),
    row(Check::DeKvnr, "de_kvnr", identity::german::de_kvnr, |v| {
        identity::repair(v, identity::german::de_kvnr)
    }),
    row(Check::IcaoDocument, "icao_document", identity::german::icao_document, |v| {
        identity::repair(v, identity::german::icao_document)
    }),
    row(Check::AtSvnr, "at_svnr", identity::german::at_svnr, |v| {
        identity::repair(v, identity::german::at_svnr)
    }),
    row(Check::ChAhv, "ch_ahv", identity::german::ch_ahv, |v| identity::repair(v, identity::german::ch_ahv)),
    row(Check::EsNif, "es_nif", identity::south::es_nif, |v| identity::repair(v, identity::south::es_nif)),
    row(Check::EsNie, "es_nie", identity::south::es_nie, |v| identity::repair(v, identity::south::es_nie)),
    row(Check::PtNif, "pt_nif", identity::south::pt_nif, |v| identity::repair(v, identity::south::pt_nif)),
    row(Check::ItCf, "it_cf", identity::south::it_cf, |v| identity::repair(v, identity::south::it_cf)),
    row(Check::ItPiva, "it_piva", identity::south::it_piva, |v| {
        identity::repair(v, identity::south::it_piva)
    }),
    row(Check::GrAfm, "gr_afm", identity::south::gr_afm, |v| identity::repair(v, identity::south::gr_afm)),
    row(Check::GrAmka, "gr_amka", identity::south::gr_amka, |v| {
        identity::repair(v, identity::south::gr_amka)
    }),
    row(Check::TrTckn, "tr_tckn", identity::south::tr_tckn, |v| {
        identity::repair(v, identity::south::tr_tckn)
    }),
    row(Check::FiHetu, "fi_hetu", identity::north::fi_hetu, |v| {
        identity::repair(v, identity::north::fi_hetu)
    }),
    row(Check::SePersonnummer, "se_personnummer", identity::north::se_personnummer, |v| {
        identity::repair(v, identity::north::se_personnummer)
    }),
    row(Check::SeOrgnr, "se_orgnr", identity::north::se_orgnr, |v| {
        identity::repair(v, identity::north::se_orgnr)
    }),
    row(Check::NoFnr, "no_fnr", identity::north::no_fnr, |v| identity::repair(v, identity::north::no_fnr)),
    row(Check::DkCpr, "dk_cpr", identity::north::dk_cpr, by_chance),
    row(Check::IsKennitala, "is_kennitala", identity::north::is_kennitala, |v| {
        identity::repair(v, identity::north::is_kennitala)
    }),
    row(Check::BalticCode, "baltic_code", identity::north::baltic_code, |v| {
        identity::repair(v, identity::north::baltic_code)
    }),
    row(Check::PlPesel, "pl_pesel", identity::east::pl_pesel, |v| {
        identity::repair(v, identity::east::pl_pesel)
    }),
    row(Check::PlNip, "pl_nip", identity::east::pl_nip, |v| identity::repair(v, identity::east::pl_nip)),
    row(Check::CzRc, "cz_rc", identity::east::cz_rc, |v| identity::repair(v, identity::east::cz_rc)),
    row(Check::RoCnp, "ro_cnp", identity::east::ro_cnp, |v| identity::repair(v, identity::east::ro_cnp)),
    row(Check::BgEgn, "bg_egn", identity::east::bg_egn, |v| identity::repair(v, identity::east::bg_egn)),
    row(Check::HrOib, "hr_oib", identity::east::hr_oib, |v| identity::repair(v, identity::east::hr_oib)),
    row(Check::SiEmso, "si_emso", identity::east::si_emso, |v| identity::repair(v, identity::east::si_emso)),
    row(Check::RuInn, "ru_inn", identity::east::ru_inn, |v| identity::repair(v, identity::east::ru_inn)),
    row(Check::RuSnils, "ru_snils", identity::east::ru_snils, |v| {
        identity::repair(v, identity::east::ru_snils)
    }),
    row(Check::UaRnokpp, "ua_rnokpp", identity::east::ua_rnokpp, |v| {
        identity::repair(v, identity::east::ua_rnokpp)
    }),
    row(Check::InAadhaar, "in_aadhaar", identity::asia::in_aadhaar, |v| {
        identity::repair(v, identity::asia::in_aadhaar)
    }),
    row(Check::InPan, "in_pan", identity::asia::in_pan, by_chance),
    row(Check::InGstin, "in_gstin", identity::asia::in_gstin, |v| {
        identity::repair(v, identity::asia::in_gstin)
    }),
    row(Check::CnResidentId, "cn_resident_id", identity::asia::cn_resident_id, |v| {
        identity::repair(v, identity::asia::cn_resident_id)
    }),
    row(Check::HkId, "hk_id", identity::asia::hk_id, |v| identity::repair(v, identity::asia::hk_id)),
    row(Check::TwId, "tw_id", identity::asia::tw_id, |v| identity::repair(v, identity::asia::tw_id)),
    row(Check::JpMyNumber, "jp_my_number", identity::asia::jp_my_number, |v| {
        identity::repair(v, identity::asia::jp_my_number)
    }),
    row(Check::KrRrn, "kr_rrn", identity::asia::kr_rrn, |v| identity::repair(v, identity::asia::kr_rrn)),
    row(Check::SgNric, "sg_nric", identity::asia::sg_nric, |v| identity::repair(v, identity::asia::sg_nric)),
    row(Check::ThTnin, "th_tnin", identity::asia::th_tnin, |v| identity::repair(v, identity::asia::th_tnin)),
    row(Check::MyNric, "my_nric", identity::asia::my_nric, |v| identity::repair(v, identity::asia::my_nric)),
    row(Check::IlId, "il_id", identity::asia::il_id, |v| identity::repair(v, identity::asia::il_id)),
    row(Check::AeEmiratesId, "ae_emirates_id", identity::asia::ae_emirates_id, |v| {
        identity::repair(v, identity::asia::ae_emirates_id)
    }),
    row(Check::AuTfn, "au_tfn", identity::oceania::au_tfn, |v| {
        identity::repair(v, identity::oceania::au_tfn)
    }),
    row(Check::AuAbn, "au_abn", identity::oceania::au_abn, |v| {
        identity::repair(v, identity::oceania::au_abn)
    }),
    row(Check::AuAcn, "au_acn", identity::oceania::au_acn, |v| {
        identity::repair(v, identity::oceania::au_acn)
    }),
    row(Check::AuMedicare, "au_medicare", identity::oceania::au_medicare, |v| {
        identity::repair(v, identity::oceania::au_medicare)
    }),
    row(Check::NzIrd, "nz_ird", identity::oceania::nz_ird, |v| {
        identity::repair(v, identity::oceania::nz_ird)
    }),
    row(Check::ZaId, "za_id", identity::africa::za_id, |v| identity::repair(v, identity::africa::za_id)),
    row(Check::Imei, "imei", identity::device::imei, |v| identity::repair(v, identity::device::imei)),
    row(Check::Iccid, "iccid", identity::device::iccid, |v| identity::repair(v, identity::device::iccid)),
    row(Check::Vin, "vin", identity::device::vin, |v| identity::repair(v, identity::device::vin)),
    row(
        Check::MrzPassport,
        "mrz_passport",
        identity::device::mrz_passport,
        identity::device::repair_mrz_passport,
    ),
    row(Check::MrzIdCard, "mrz_id_card", identity::device::mrz_id_card, |v| {
        identity::repair(v, identity::device::mrz_id_card)
    }),
    row(Check::Email, "email", identity::network::email, by_chance),
    row(Check::EmailInternational, "email_international", identity::network::email_international, by_chance),
    row(Check::IpAddress, "ip_address", identity::network::ip_address, by_chance),
    row(Check::MacAddress, "mac_address", identity::network::mac_address, by_chance),
    row(Check::E164, "e164", identity::phone::e164, identity::phone::repair_e164),
    row(Check::Nanp, "nanp", identity::phone::nanp, by_chance),
    row(Check::BirthDate, "birth_date", identity::network::birth_date, by_chance),
    row(Check::ItPivaPrefixed, "it_piva_prefixed", identity::south::it_piva_prefixed, |v| {
        identity::repair(v, identity::south::it_piva_prefixed)
    }),
    row(Check::NationalPhone, "national_phone", identity::phone::national_phone, by_chance),
    row(Check::KrRrnDated, "kr_rrn_dated", identity::asia::kr_rrn_dated, by_chance),
    row(Check::Rare, "rare", rarity::rare, by_chance),
    row(Check::Drawn, "drawn", rarity::drawn, by_chance),
    row(Check::NotMask, "not_mask", shape::not_mask, by_chance),
    row(Check::AtUid, "at_uid", identity::vat::at_uid, |v| identity::repair(v, identity::vat::at_uid)),
    row(Check::BeVat, "be_vat", identity::vat::be_vat, |v| identity::repair(v, identity::vat::be_vat)),
    row(Check::BgEik, "bg_eik", identity::vat::bg_eik, |v| identity::repair(v, identity::vat::bg_eik)),
    row(Check::CyVat, "cy_vat", identity::vat::cy_vat, |v| identity::repair(v, identity::vat::cy_vat)),
    row(Check::CzDic, "cz_dic", identity::vat::cz_dic, |v| identity::repair(v, identity::vat::cz_dic)),
    row(Check::DeVat, "de_vat", identity::vat::de_vat, |v| identity::repair(v, identity::vat::de_vat)),
    row(Check::DkCvr, "dk_cvr", identity::vat::dk_cvr, |v| identity::repair(v, identity::vat::dk_cvr)),
    row(Check::EeKmkr, "ee_kmkr", identity::vat::ee_kmkr, |v| identity::repair(v, identity::vat::ee_kmkr)),
    row(Check::EsCif, "es_cif", identity::vat::es_cif, |v| identity::repair(v, identity::vat::es_cif)),
    row(Check::FiYtunnus, "fi_ytunnus", identity::vat::fi_ytunnus, |v| {
        identity::repair(v, identity::vat::fi_ytunnus)
    }),
    row(Check::FrSiren, "fr_siren", identity::vat::fr_siren, |v| {
        identity::repair(v, identity::vat::fr_siren)
    }),
    row(Check::FrTva, "fr_tva", identity::vat::fr_tva, |v| identity::repair(v, identity::vat::fr_tva)),
    row(Check::GbVat, "gb_vat", identity::vat::gb_vat, |v| identity::repair(v, identity::vat::gb_vat)),
    row(Check::HuAnum, "hu_anum", identity::vat::hu_anum, |v| identity::repair(v, identity::vat::hu_anum)),
    row(Check::LtPvm, "lt_pvm", identity::vat::lt_pvm, |v| identity::repair(v, identity::vat::lt_pvm)),
    row(Check::LuTva, "lu_tva", identity::vat::lu_tva, |v| identity::repair(v, identity::vat::lu_tva)),
    row(Check::LvPvn, "lv_pvn", identity::vat::lv_pvn, |v| identity::repair(v, identity::vat::lv_pvn)),
    row(Check::MtVat, "mt_vat", identity::vat::mt_vat, |v| identity::repair(v, identity::vat::mt_vat)),
    row(Check::NlBtw, "nl_btw", identity::vat::nl_btw, |v| identity::repair(v, identity::vat::nl_btw)),
    row(Check::PlRegon, "pl_regon", identity::vat::pl_regon, |v| {
        identity::repair(v, identity::vat::pl_regon)
    }),
    row(Check::RoCui, "ro_cui", identity::vat::ro_cui, |v| identity::repair(v, identity::vat::ro_cui)),
    row(Check::SiDdv, "si_ddv", identity::vat::si_ddv, |v| identity::repair(v, identity::vat::si_ddv)),
    row(Check::SkDph, "sk_dph", identity::vat::sk_dph, |v| identity::repair(v, identity::vat::sk_dph)),
    row(Check::ByUnp, "by_unp", identity::company::by_unp, |v| {
        identity::repair(v, identity::company::by_unp)
    }),
    row(Check::ChUid, "ch_uid", identity::company::ch_uid, |v| {
        identity::repair(v, identity::company::ch_uid)
    }),
    row(Check::CnUscc, "cn_uscc", identity::company::cn_uscc, |v| {
        identity::repair(v, identity::company::cn_uscc)
    }),
    row(Check::DoRnc, "do_rnc", identity::company::do_rnc, |v| {
        identity::repair(v, identity::company::do_rnc)
    }),
    row(Check::GtNit, "gt_nit", identity::company::gt_nit, |v| {
        identity::repair(v, identity::company::gt_nit)
    }),
    row(Check::IdNpwp, "id_npwp", identity::company::id_npwp, |v| {
        identity::repair(v, identity::company::id_npwp)
    }),
    row(Check::JpCorporate, "jp_corporate", identity::company::jp_corporate, |v| {
        identity::repair(v, identity::company::jp_corporate)
    }),
    row(Check::KrBrn, "kr_brn", identity::company::kr_brn, |v| {
        identity::repair(v, identity::company::kr_brn)
    }),
    row(Check::MkEdb, "mk_edb", identity::company::mk_edb, |v| {
        identity::repair(v, identity::company::mk_edb)
    }),
    row(Check::NoOrgnr, "no_orgnr", identity::company::no_orgnr, |v| {
        identity::repair(v, identity::company::no_orgnr)
    }),
    row(Check::PyRuc, "py_ruc", identity::company::py_ruc, |v| {
        identity::repair(v, identity::company::py_ruc)
    }),
    row(Check::RsPib, "rs_pib", identity::company::rs_pib, |v| {
        identity::repair(v, identity::company::rs_pib)
    }),
    row(Check::RuOgrn, "ru_ogrn", identity::company::ru_ogrn, |v| {
        identity::repair(v, identity::company::ru_ogrn)
    }),
    row(Check::TrVkn, "tr_vkn", identity::company::tr_vkn, |v| {
        identity::repair(v, identity::company::tr_vkn)
    }),
    row(Check::TwUbn, "tw_ubn", identity::company::tw_ubn, |v| {
        identity::repair(v, identity::company::tw_ubn)
    }),
    row(Check::UyRut, "uy_rut", identity::company::uy_rut, |v| {
        identity::repair(v, identity::company::uy_rut)
    }),
    row(Check::VeRif, "ve_rif", identity::company::ve_rif, |v| {
        identity::repair(v, identity::company::ve_rif)
    }),
    row(Check::VnMst, "vn_mst", identity::company::vn_mst, |v| {
        identity::repair(v, identity::company::vn_mst)
    }),
    row(Check::ArCbu, "ar_cbu", identity::company::ar_cbu, |v| {
        identity::repair(v, identity::company::ar_cbu)
    }),
    row(Check::DoCedula, "do_cedula", identity::resident::do_cedula, |v| {
        identity::repair(v, identity::resident::do_cedula)
    }),
    row(Check::EcCi, "ec_ci", identity::resident::ec_ci, |v| identity::repair(v, identity::resident::ec_ci)),
    row(Check::LvPk, "lv_pk", identity::resident::lv_pk, |v| identity::repair(v, identity::resident::lv_pk)),
    row(Check::MdIdno, "md_idno", identity::resident::md_idno, |v| {
        identity::repair(v, identity::resident::md_idno)
    }),
    row(Check::LuPerson, "lu_person", identity::resident::lu_person, |v| {
        identity::repair(v, identity::resident::lu_person)
    }),
    row(Check::KzIin, "kz_iin", identity::resident::kz_iin, |v| {
        identity::repair(v, identity::resident::kz_iin)
    }),
    row(Check::SaId, "sa_id", identity::resident::sa_id, |v| identity::repair(v, identity::resident::sa_id)),
    row(Check::KwCivil, "kw_civil", identity::resident::kw_civil, |v| {
        identity::repair(v, identity::resident::kw_civil)
    }),
    row(Check::EgNational, "eg_national", identity::resident::eg_national, |v| {
        identity::repair(v, identity::resident::eg_national)
    }),
    row(Check::IdNik, "id_nik", identity::resident::id_nik, |v| {
        identity::repair(v, identity::resident::id_nik)
    }),
    row(Check::PkCnic, "pk_cnic", identity::resident::pk_cnic, |v| {
        identity::repair(v, identity::resident::pk_cnic)
    }),
    row(Check::UsEin, "us_ein", identity::resident::us_ein, |v| {
        identity::repair(v, identity::resident::us_ein)
    }),
    row(Check::ZaTin, "za_tin", identity::resident::za_tin, |v| {
        identity::repair(v, identity::resident::za_tin)
    }),
    row(Check::KeptPassword, "kept_password", password::kept, by_chance),
    row(Check::StrongOrRare, "strong_or_rare", password::strong_or_rare, by_chance),
    row(Check::Jumbled, "jumbled", password::jumbled, by_chance),
    row(Check::Bip39, "bip39", mnemonic::bip39, mnemonic::repair_bip39),
    row(Check::NotPublished, "not_published", published::not_published, by_chance),
    row(Check::CarriesText, "carries_text", address::carries_text, by_chance),
    row(Check::CarriesWords, "carries_words", address::carries_words, by_chance),
    row(Check::NotDrawnBySite, "not_drawn_by_site", address::not_drawn_by_site, by_chance),
    row(Check::Xrp, "xrp", identity::wallet::xrp, identity::wallet::repair_xrp),
    row(Check::LtcSegwit, "ltc_segwit", identity::wallet::ltc_segwit, identity::wallet::repair_ltc_segwit),
    row(Check::DePhone, "de_phone", identity::phone::de_phone, by_chance),
    row(Check::BrPhone, "br_phone", identity::phone::br_phone, by_chance),
];
