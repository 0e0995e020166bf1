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
pub mod password;
pub mod published;
pub mod rarity;
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
    /// Satisfies the Luhn formula (ISO/IEC 7812-1 annex B).
    Luhn,
    /// A card number: issuer range, its length, Luhn.
    Card,
    /// An IBAN: the country's length and ISO/IEC 7064 MOD 97-10.
    Iban,
    /// A legal entity identifier (ISO 17442): MOD 97-10.
    Lei,
    /// An international securities number (ISO 6166): Luhn over its digits.
    Isin,
    /// The structure of a bank identifier code (ISO 9362) with a real country.
    Bic,
    /// A US bank routing number: a Federal Reserve prefix and weights 3-7-1.
    UsAba,
    /// A Mexican bank account number (CLABE): weights 3-7-1.
    MxClabe,
    /// A Bitcoin address: Base58Check of version 0 or 5, or bech32.
    Btc,
    /// A TRON (version 0x41), Litecoin (0x30, 0x32) or Dogecoin (0x1e) address.
    Base58Wallet,
    /// An Ethereum address; mixed case must satisfy EIP-55.
    Eth,
    /// A US social security number the SSA may have issued.
    UsSsn,
    /// A US individual taxpayer number: 9xx and a group the IRS uses.
    UsItin,
    /// A US national provider identifier: Luhn after the prefix 80840.
    UsNpi,
    /// A US drug enforcement registration: two letters, six digits, check.
    UsDea,
    /// The structure of a US Medicare beneficiary identifier.
    UsMbi,
    /// A Canadian social insurance number: Luhn, first digit not 0 or 8.
    CaSin,
    /// A Brazilian CPF: two check digits, weighted mod 11.
    BrCpf,
    /// A numeric Brazilian CNPJ: two check digits, weighted mod 11.
    BrCnpj,
    /// A Chilean RUT of eight or nine symbols: weights 2 to 7 from the right.
    ClRut,
    /// An Argentine CUIT or CUIL: a known kind and mod 11.
    ArCuit,
    /// A Colombian NIT of ten digits: primes as weights, mod 11.
    CoNit,
    /// A Peruvian RUC: a known kind and mod 11.
    PeRuc,
    /// A Mexican CURP: birth date, sex, state and check digit.
    MxCurp,
    /// A Mexican RFC of a person with a real birth date.
    MxRfc,
    /// A French social security number (NIR) with its key.
    FrNir,
    /// A French establishment number (SIRET): Luhn over 9 and over 14 digits.
    FrSiret,
    /// A Belgian national register number: birth date and mod 97.
    BeNrn,
    /// A Dutch citizen service number: the eleven test.
    NlBsn,
    /// An NHS number: weighted mod 11.
    UkNhs,
    /// A UK national insurance number with a prefix HMRC uses.
    UkNino,
    /// A UK unique taxpayer reference: the check digit leads.
    UkUtr,
    /// An Irish PPS number: seven digits, check letter mod 23, further letter.
    IePpsn,
    /// A German tax identifier: digit frequencies and MOD 11,10.
    DeSteuerId,
    /// A German pension insurance number: birth date, letter, check digit.
    DeRvnr,
    /// A German health insurance number: a letter, eight digits, check digit.
    DeKvnr,
    /// An ICAO document number of nine symbols and its check digit (7-3-1).
    IcaoDocument,
    /// An Austrian social insurance number: the fourth digit checks, mod 11.
    AtSvnr,
    /// A Swiss AHV number: country code 756 and EAN-13.
    ChAhv,
    /// A Spanish DNI or NIF of a citizen: eight digits and a letter mod 23.
    EsNif,
    /// A Spanish NIE of a foreigner: X, Y or Z, seven digits, letter mod 23.
    EsNie,
    /// A Portuguese NIF: a kind in use and mod 11.
    PtNif,
    /// An Italian tax code of a person: birth date, place and check letter.
    ItCf,
    /// An Italian VAT number: an office in use and Luhn.
    ItPiva,
    /// A Greek tax number: powers of two as weights, mod 11.
    GrAfm,
    /// A Greek social security number (AMKA): birth date and Luhn.
    GrAmka,
    /// A Turkish identity number: two check digits mod 10.
    TrTckn,
    /// A Finnish personal identity code: birth date, century sign, mod 31.
    FiHetu,
    /// A Swedish personal number of 10 or 12 digits: birth date and Luhn.
    SePersonnummer,
    /// A Swedish organisation number: third digit from 2 and Luhn.
    SeOrgnr,
    /// A Norwegian birth or D number: birth date and two mod 11 digits.
    NoFnr,
    /// The structure of a Danish CPR number with a real birth date.
    DkCpr,
    /// An Icelandic kennitala: birth date, mod 11 and century digit.
    IsKennitala,
    /// An Estonian or Lithuanian personal code: birth date, two-stage mod 11.
    BalticCode,
    /// A Polish PESEL: birth date with the century in its month, mod 10.
    PlPesel,
    /// A Polish tax number (NIP): weighted mod 11.
    PlNip,
    /// A Czech or Slovak birth number of ten digits: birth date and mod 11.
    CzRc,
    /// A Romanian personal code: birth date, county, weighted mod 11.
    RoCnp,
    /// A Bulgarian EGN: birth date with the century in its month, mod 11.
    BgEgn,
    /// A Croatian OIB: MOD 11,10.
    HrOib,
    /// A Yugoslav-style EMŠO or JMBG: birth date and weighted mod 11.
    SiEmso,
    /// A Russian INN of a person (12 digits) or an organisation (10 digits).
    RuInn,
    /// A Russian SNILS: weights 9 to 1, mod 101.
    RuSnils,
    /// A Ukrainian RNOKPP: days since 1900 as birth date, weighted mod 11.
    UaRnokpp,
    /// An Indian Aadhaar number: no leading 0 or 1, no palindrome, Verhoeff.
    InAadhaar,
    /// The structure of an Indian PAN: the fourth letter names the holder's kind.
    InPan,
    /// An Indian GSTIN: state, PAN and check symbol mod 36.
    InGstin,
    /// A Chinese resident identity number: birth date and MOD 11-2.
    CnResidentId,
    /// A Hong Kong identity card number: one or two letters, mod 11.
    HkId,
    /// A Taiwanese identity number: a county letter, sex, mod 10.
    TwId,
    /// A Japanese individual number: weighted mod 11.
    JpMyNumber,
    /// A South Korean resident number with a real birth date.
    KrRrn,
    /// A Singaporean NRIC or FIN: series letter and mod 11.
    SgNric,
    /// A Thai identity number: weights 13 to 2, mod 11.
    ThTnin,
    /// The structure of a Malaysian MyKad: birth date and birth place in use.
    MyNric,
    /// An Israeli identity number of nine digits: Luhn.
    IlId,
    /// An Emirates ID: country code 784, birth year and Luhn.
    AeEmiratesId,
    /// An Australian tax file number: weighted mod 11.
    AuTfn,
    /// An Australian business number: one off the first digit, mod 89.
    AuAbn,
    /// An Australian company number: weights 8 to 1, mod 10.
    AuAcn,
    /// An Australian Medicare number of ten digits: the ninth checks, mod 10.
    AuMedicare,
    /// A New Zealand tax number of nine digits: two-stage mod 11.
    NzIrd,
    /// A South African identity number: birth date, citizenship and Luhn.
    ZaId,
    /// A mobile equipment identity of 15 digits: a reporting body and Luhn.
    Imei,
    /// A SIM card number: the telecom prefix 89 and Luhn.
    Iccid,
    /// A vehicle identification number with the check digit of 49 CFR 565.
    Vin,
    /// The second line of a passport's machine-readable zone (TD3, 44 symbols).
    MrzPassport,
    /// The first two lines of an identity card's zone (TD1, 2 × 30 symbols).
    MrzIdCard,
    /// An e-mail address someone may read.
    Email,
    /// An IP address of one host: not loopback, unspecified, broadcast or multicast.
    IpAddress,
    /// A hardware address of one device: neither all alike nor multicast.
    MacAddress,
    /// An international telephone number: `+`, a calling code, 8 to 15 digits.
    E164,
    /// A telephone number of the North American plan, ten digits or 1 and ten.
    Nanp,
    /// A written date of birth: day, month and year in any common order.
    BirthDate,
    /// An Italian VAT number, with or without the country's letters.
    ItPivaPrefixed,
    /// Seven to fifteen digits that are no date.
    NationalPhone,
    /// The structure of a South Korean resident number: birth date and sex.
    KrRrnDated,
    /// Its characters follow one another by chance, not as in words and identifiers.
    Rare,
    /// No example, mask or template; digits may count up.
    NotMask,
    /// An Austrian UID: U, eight digits, a variant of Luhn.
    AtUid,
    /// A Belgian enterprise number: 97 less the rest by 97.
    BeVat,
    /// A Bulgarian number of an organisation: nine digits, two-stage mod 11.
    BgEik,
    /// A Cypriot number: eight digits and a letter mod 26.
    CyVat,
    /// A Czech number of an organisation: eight digits, weights 8 to 2, mod 11.
    CzDic,
    /// A German USt-IdNr: nine digits, MOD 11,10.
    DeVat,
    /// A Danish CVR number: eight digits, mod 11.
    DkCvr,
    /// An Estonian KMKR number: nine digits, weights 3-7-1.
    EeKmkr,
    /// A Spanish CIF: a letter for the kind, seven digits, a digit or letter by Luhn.
    EsCif,
    /// A Finnish business id: eight digits, mod 11.
    FiYtunnus,
    /// A French SIREN: nine digits, Luhn.
    FrSiren,
    /// A French TVA number: two key digits mod 97 and a SIREN.
    FrTva,
    /// A UK VAT number of nine digits: mod 97, or 42 and 55 off it since 2010.
    GbVat,
    /// A Hungarian ANUM: eight digits, weights 9-7-3-1.
    HuAnum,
    /// A Lithuanian PVM code of nine digits: a 1 in the eighth place, two-stage mod 11.
    LtPvm,
    /// A Luxembourg TVA number: six digits and their rest by 89.
    LuTva,
    /// A Latvian PVN number of an organisation: eleven digits, mod 11 is 3.
    LvPvn,
    /// A Maltese number: eight digits, mod 37.
    MtVat,
    /// A Dutch btw number: nine digits, B, two digits; the eleven test or MOD 97-10.
    NlBtw,
    /// A Polish REGON of 9 or 14 digits: weighted mod 11.
    PlRegon,
    /// A Romanian CUI of six to ten digits: weights 7-5-3-2-1, times ten, mod 11.
    RoCui,
    /// A Slovenian DDV number: eight digits, weights 8 to 2, mod 11.
    SiDdv,
    /// A Slovak DPH number: ten digits, a multiple of 11.
    SkDph,
    /// A Belarusian UNP of nine digits: weights 29 to 3, mod 11.
    ByUnp,
    /// A Swiss UID: CHE, nine digits, mod 11.
    ChUid,
    /// A Chinese unified social credit identifier: 18 symbols mod 31.
    CnUscc,
    /// A Dominican RNC: nine digits, weights 7-9-8-6-5-4-3-2, mod 11.
    DoRnc,
    /// A Guatemalan NIT: 2 to 12 symbols, weights from the right, mod 11, K for ten.
    GtNit,
    /// An Indonesian NPWP of 15 digits: Luhn over nine.
    IdNpwp,
    /// A Japanese corporate number: 13 digits, the first checks, mod 9.
    JpCorporate,
    /// A South Korean business number: ten digits, mod 10.
    KrBrn,
    /// A North Macedonian EDB: 13 digits, weights 7 to 2, mod 11.
    MkEdb,
    /// A Norwegian organisation number: nine digits, mod 11.
    NoOrgnr,
    /// A Paraguayan RUC of six to nine digits: weights from the right, mod 11.
    PyRuc,
    /// A Serbian PIB: nine digits, MOD 11,10.
    RsPib,
    /// A Russian OGRN of 13 or 15 digits: the rest by 11 or 13.
    RuOgrn,
    /// A Turkish tax number (VKN): ten digits, powers of two mod 9.
    TrVkn,
    /// A Taiwanese business number: eight digits, digit sums mod 5.
    TwUbn,
    /// A Uruguayan RUT: twelve digits with 001 before the check digit, mod 11.
    UyRut,
    /// A Venezuelan RIF: V, E, J, P or G, nine digits, mod 11.
    VeRif,
    /// A Vietnamese tax number of ten digits: weights 31 to 3, mod 11.
    VnMst,
    /// An Argentine bank account (CBU): 22 digits in two blocks, weights 3-1-7-9.
    ArCbu,
    /// A Dominican cédula: eleven digits, Luhn.
    DoCedula,
    /// An Ecuadorian cédula: a province, a person's third digit, Luhn.
    EcCi,
    /// A Latvian personal code of the dated kind: birth date, mod 11.
    LvPk,
    /// A Moldovan IDNP or IDNO: 13 digits, weights 7-3-1.
    MdIdno,
    /// A Luxembourg person number: birth date, then a Luhn and a Verhoeff digit.
    LuPerson,
    /// A Kazakh IIN: birth date, century and sex, two-stage mod 11.
    KzIin,
    /// A Saudi identity or residence number: ten digits, first 1 or 2, Luhn.
    SaId,
    /// A Kuwaiti civil number: century, birth date, weighted mod 11.
    KwCivil,
    /// The structure of an Egyptian national number: century, birth date, governorate.
    EgNational,
    /// The structure of an Indonesian NIK: province, birth date (40 more for women), serial.
    IdNik,
    /// The structure of a Pakistani CNIC: a region, thirteen digits.
    PkCnic,
    /// The structure of a US employer number with a prefix of the IRS.
    UsEin,
    /// The structure of a South African passport-free refugee or tax number: ten digits, Luhn.
    ZaTin,
    /// A password someone would want to keep: no example, no mask, no word of manuals.
    KeptPassword,
    /// A password of three classes, or as random as what a machine draws.
    StrongOrRare,
    /// Twelve to 24 words of BIP-39 with the right checksum.
    Bip39,
    /// Not one of the keys that manuals and sample applications print.
    NotPublished,
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
    row(Check::IpAddress, "ip_address", identity::network::ip_address, by_chance),
    row(Check::MacAddress, "mac_address", identity::network::mac_address, by_chance),
    row(Check::E164, "e164", identity::network::e164, |v| identity::repair(v, identity::network::e164)),
    row(Check::Nanp, "nanp", identity::network::nanp, by_chance),
    row(Check::BirthDate, "birth_date", identity::network::birth_date, by_chance),
    row(Check::ItPivaPrefixed, "it_piva_prefixed", identity::south::it_piva_prefixed, |v| {
        identity::repair(v, identity::south::it_piva_prefixed)
    }),
    row(Check::NationalPhone, "national_phone", identity::network::national_phone, by_chance),
    row(Check::KrRrnDated, "kr_rrn_dated", identity::asia::kr_rrn_dated, by_chance),
    row(Check::Rare, "rare", rarity::rare, by_chance),
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
    row(Check::Bip39, "bip39", password::bip39, password::repair_bip39),
    row(Check::NotPublished, "not_published", published::not_published, by_chance),
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
