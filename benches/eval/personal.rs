//! Personal data: what is found of each type, what of that is right, and what of it has a form of its own or has none.
//!
//! A span counts as found where anything is found that overlaps it by half, whatever it is taken for: it is masked either
//! way. What is found counts as right where it overlaps any labelled span, and is counted for the type that it is taken for;
//! only in texts whose source labels everything, or is about that type.

use std::collections::BTreeMap;
use std::ops::Range;

use portcullis::scan::threat::Category;
use serde_json::Value;
use serde_json::json;

use crate::layers::Layers;
use crate::names::label_of;
use crate::report::Report;
use crate::rows::Personal;
use crate::rows::Span;
use crate::spans::Counts;
use crate::spans::found;
use crate::spans::overlaps;

/// Types that only a reader of sentences can find.
const FREE_TEXT: [&str; 14] = [
    "PERSON",
    "NAME",
    "STREET_ADDRESS",
    "ADDRESS",
    "GPE",
    "LOCATION",
    "ORG",
    "ORGANIZATION",
    "NRP",
    "TITLE",
    "AGE",
    "DATE_TIME",
    "DATE",
    "ZIP_CODE",
];

/// How the names of detectors begin, and which types of the rows their findings may be.
const TYPES: [(&str, &[&str]); 62] = [
    ("altcoin_address", &["CRYPTO_WALLET"]),
    ("au_abn", &["AU_ABN"]),
    ("au_acn", &["AU_ACN"]),
    ("au_medicare", &["AU_MEDICARE"]),
    ("bech32_wallet_address", &["CRYPTO_WALLET"]),
    ("bitcoin_address", &["CRYPTO_WALLET"]),
    ("br_cpf", &["BR_CPF"]),
    ("cn_resident_id", &["CN_RESIDENT_ID"]),
    ("date_of_birth", &["DATE"]),
    ("de_commercial_register", &["DE_HANDELSREGISTER"]),
    ("de_driving_licence", &["DE_FUEHRERSCHEIN"]),
    ("de_identity_document", &["DE_ID_CARD", "DE_PASSPORT"]),
    ("de_kvnr", &["DE_HEALTH_INSURANCE"]),
    ("de_lanr", &["DE_LANR"]),
    ("de_postal_code", &["DE_PLZ"]),
    ("de_rvnr", &["DE_SOCIAL_SECURITY"]),
    ("de_steuer_id", &["DE_TAX_NUMBER"]),
    ("de_tax_number", &["DE_TAX_NUMBER"]),
    ("de_vat", &["DE_VAT_ID"]),
    ("driving_licence", &["US_DRIVER_LICENSE"]),
    ("email_address", &["EMAIL"]),
    ("es_passport", &["ES_PASSPORT"]),
    ("ethereum_address", &["CRYPTO_WALLET"]),
    ("fi_hetu", &["FI_PERSONAL_IDENTITY_CODE"]),
    ("fr_nir", &["FR_NIR"]),
    ("iban", &["IBAN"]),
    ("in_aadhaar", &["IN_AADHAAR"]),
    ("in_pan", &["IN_PAN"]),
    ("in_passport", &["IN_PASSPORT"]),
    ("in_voter_id", &["IN_VOTER"]),
    ("ip_address", &["IP_ADDRESS"]),
    ("it_codice_fiscale", &["IT_FISCAL_CODE"]),
    ("it_driving_licence", &["IT_DRIVER_LICENSE"]),
    ("it_identity_card", &["IT_IDENTITY_CARD"]),
    ("it_partita_iva", &["IT_VAT_CODE"]),
    ("it_passport", &["IT_PASSPORT"]),
    ("kr_driving_licence", &["KR_DRIVER_LICENSE"]),
    ("kr_passport", &["KR_PASSPORT"]),
    ("kr_rrn", &["KR_RRN", "KR_FRN"]),
    ("nl_bsn", &["NL_BSN"]),
    ("number_plate_de", &["DE_KFZ"]),
    ("number_plate_in", &["IN_VEHICLE_REGISTRATION"]),
    ("number_plate_ng", &["NG_VEHICLE_REGISTRATION"]),
    ("number_plate_tr", &["TR_LICENSE_PLATE"]),
    ("number_plate_uk", &["UK_VEHICLE_REGISTRATION"]),
    ("payment_card", &["CREDIT_CARD"]),
    ("phone", &["PHONE"]),
    ("pl_pesel", &["PL_PESEL"]),
    ("postcode_uk", &["UK_POSTCODE", "POSTCODE"]),
    ("se_organisationsnummer", &["SE_ORGANISATIONSNUMMER"]),
    ("se_personnummer", &["SE_PERSONNUMMER"]),
    ("sg_nric", &["SG_NRIC"]),
    ("uk_nhs_number", &["UK_NHS"]),
    ("uk_nino", &["UK_NINO"]),
    ("us_bank_account", &["US_BANK_NUMBER"]),
    ("us_bank_routing", &["US_ABA_ROUTING"]),
    ("us_dea_number", &["US_DEA_NUMBER"]),
    ("us_driving_licence", &["US_DRIVER_LICENSE"]),
    ("us_itin", &["US_ITIN"]),
    ("us_passport", &["US_PASSPORT"]),
    ("us_ssn", &["US_SSN"]),
    ("xrp_address", &["CRYPTO_WALLET"]),
];

/// The types of what no row knows.
const UNKNOWN: &[&str] = &[];

/// The set on which others publish how much of everything they find.
const SYNTH: &str = "presidio-research/synth_v2";
const FREE: &str = "free text";
const STRUCTURED: &str = "structured";
const ALL: &str = "all";
const ALL_OF_SYNTH: &str = "all of synth_v2";

/// What is found in a text, and which types of the rows it may be; none where no row knows its type.
struct Found {
    range: Range<usize>,
    types: &'static [&'static str],
}

/// Who looks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seekers {
    Patterns,
    PatternsAndTagger,
}

/// Counts personal data by type, as patterns alone find it and with the tagger.
pub fn measure(layers: &Layers, rows: &[Personal], report: &mut Report) {
    measure_by(layers, rows, report, Seekers::Patterns);
    measure_by(layers, rows, report, Seekers::PatternsAndTagger);
}

/// Returns where a span lies, in bytes.
pub fn bytes(row: &Personal, span: &Span) -> Range<usize> {
    let byte = |at: usize| row.text.char_indices().nth(at).map_or(row.text.len(), |(byte, _)| byte);
    byte(span.start)..byte(span.end)
}

/// Tells whether the source of a row labels all there is in a text.
pub fn is_labelled_whole(row: &Personal) -> bool {
    row.source.starts_with("presidio-research") || row.source.starts_with("synthetic")
}

fn measure_by(layers: &Layers, rows: &[Personal], report: &mut Report, seekers: Seekers) {
    let mut types: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut sums: BTreeMap<&str, Counts> = BTreeMap::new();
    for row in rows {
        let findings = findings(layers, row, seekers);
        let spans: Vec<(Range<usize>, &str)> =
            row.spans.iter().map(|span| (bytes(row, span), span.r#type.as_str())).collect();
        let of_synth = (row.source == SYNTH).then_some(ALL_OF_SYNTH);
        for (span, kind) in &spans {
            let hit = findings.iter().any(|it| overlaps(&it.range, span));
            types.entry(*kind).or_default().recall.note(hit);
            for set in [sum_of(kind), ALL].into_iter().chain(of_synth) {
                sums.entry(set).or_default().recall.note(hit);
            }
        }
        for finding in &findings {
            let met = spans.iter().find(|(span, _)| overlaps(&finding.range, span));
            if let Some(kind) = type_of(row, finding, met.map(|(_, kind)| *kind)) {
                types.entry(kind).or_default().precision.note(met.is_some());
            }
            if is_labelled_whole(row) {
                let sum = finding.types.first().map_or(STRUCTURED, |kind| sum_of(kind));
                for set in [sum, ALL].into_iter().chain(of_synth) {
                    sums.entry(set).or_default().precision.note(met.is_some());
                }
            }
        }
    }
    write(&sums, &types, report, seekers);
}

fn sum_of(kind: &str) -> &'static str {
    if FREE_TEXT.contains(&kind) { FREE } else { STRUCTURED }
}

/// Returns what is found, patterns' findings first.
fn findings(layers: &Layers, row: &Personal, seekers: Seekers) -> Vec<Found> {
    let types = |name: &str| {
        let begins = TYPES.iter().filter(|(start, _)| name.starts_with(start));
        begins.max_by_key(|(start, _)| start.len()).map_or(UNKNOWN, |(_, types)| *types)
    };
    let by_patterns = found(layers, &row.text, Category::Pii).into_iter().map(|finding| {
        let detector = layers.scanner.detector(finding.detector);
        Found { types: detector.map_or(UNKNOWN, |it| types(&it.name)), range: finding.value }
    });
    let mut findings: Vec<Found> = by_patterns.collect();
    if seekers == Seekers::PatternsAndTagger {
        let named = layers.names(&row.text).into_iter();
        findings.extend(named.map(|span| Found { types: label_of(span.tag), range: span.range }));
    }
    findings
}

/// Returns the type that a finding counts for in a row: that of the span it meets where it may be of that type, else its
/// own; none where the row does not tell whether it is right.
fn type_of(row: &Personal, finding: &Found, met: Option<&str>) -> Option<&'static str> {
    let is_met = |kind: &&&str| met == Some(**kind);
    let is_about = |kind: &&&str| {
        is_labelled_whole(row)
            || row.neg_for.as_deref() == Some(**kind)
            || row.spans.iter().any(|span| span.r#type == **kind)
    };
    let mut own = finding.types.iter().filter(is_about);
    finding.types.iter().find(is_met).or_else(|| own.next()).copied()
}

fn write(
    sums: &BTreeMap<&str, Counts>,
    types: &BTreeMap<&str, Counts>,
    report: &mut Report,
    seekers: Seekers,
) {
    let line = |name: String, count: &Counts| [vec![name], count.cells(2.0)].concat();
    let mut lines: Vec<Vec<String>> =
        sums.iter().map(|(sum, count)| line(format!("**{sum}**"), count)).collect();
    lines.extend(types.iter().map(|(kind, count)| line((*kind).to_owned(), count)));
    let values = |counts: &BTreeMap<&str, Counts>| -> BTreeMap<String, Value> {
        counts.iter().map(|(name, count)| ((*name).to_owned(), count.value())).collect()
    };
    report.table(
        match seekers {
            Seekers::Patterns => "Personal data",
            Seekers::PatternsAndTagger => "Personal data, with the tagger on",
        },
        "Percent, with 95 % intervals: spans of medium confidence or more that overlap by half, whatever their type. Precision \
         of a type: of what is taken for it, in the sources that label everything or are about it; of the sums: over the \
         sources that label everything. What is found of types that no source labels counts as structured.",
        &["type", "n", "recall", "findings", "precision", "F2"],
        &lines,
        json!({ "sums": values(sums), "types": values(types) }),
    );
}
