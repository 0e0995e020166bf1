//! The closed set of checks that judge a matched value.
//!
//! In: the bytes a pattern matched. Out: whether they can be what the pattern took them for. A check never
//! allocates without bound, never looks outside the value, and knows nothing of the text around it.
//!
//! `table` holds one row a check, in the order of [`Check`]: a new check is a variant, a row and a function.

use std::fmt;
use std::str::FromStr;

pub mod address;
mod encoding;
pub mod identity;
pub mod mnemonic;
pub mod password;
pub mod published;
pub mod rarity;
pub mod secret;
pub mod shape;
mod strength;
mod table;

use self::table::Row;
use self::table::TABLE;

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
    /// A Brazilian CNPJ, numeric or (from July 2026) with letters: two check digits, weighted mod 11.
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
    /// An e-mail address beyond ASCII.
    EmailInternational,
    /// An IP address of one host: not loopback, unspecified, broadcast or multicast.
    IpAddress,
    /// A hardware address of one device: neither all alike nor multicast.
    MacAddress,
    /// An international telephone number: `+`, a calling code, and a number of its plan.
    E164,
    /// A telephone number of the North American plan, ten digits or 1 and ten, with an area code that is given out.
    Nanp,
    /// A written date of birth: day, month and year in any common order.
    BirthDate,
    /// An Italian VAT number, with or without the country's letters.
    ItPivaPrefixed,
    /// Seven to fifteen digits that are no date; behind 00, an international telephone number.
    NationalPhone,
    /// The structure of a South Korean resident number: birth date and sex.
    KrRrnDated,
    /// Its characters follow one another by chance, not as in words and identifiers.
    Rare,
    /// Sixteen bytes or more, and so random that letters alone, in whatever case, are no words and no identifier.
    Drawn,
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
    /// A password of letters in both cases and signs, in no order that words or code have.
    Jumbled,
    /// Twelve to 24 words of one list of BIP-39, in any of its languages, with the right checksum.
    Bip39,
    /// Not one of the keys that manuals and sample applications print.
    NotPublished,
    /// An address that carries encoded text.
    CarriesText,
    /// An address that carries an encoded sentence.
    CarriesWords,
    /// No address of a site that draws what its address says.
    NotDrawnBySite,
    /// An address of the XRP Ledger: Base58Check in its own order of digits.
    Xrp,
    /// A Litecoin address of segregated witness: bech32 behind `ltc1`.
    LtcSegwit,
    /// A German telephone number as it is dialled there.
    DePhone,
    /// A Brazilian telephone number with its area code.
    BrPhone,
}

/// No check has this name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("no such check; known: {}", names())]
pub struct UnknownCheck;

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
