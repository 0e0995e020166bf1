//! Price lists as they are written, and every fault in them.
//!
//! ```toml
//! currency = "USD"
//!
//! [[price]]
//! models       = ["some-model", "some-model-20*"]  # `*`: any characters; the closest pattern counts
//! from         = "2026-01-01"                      # the first day on which it counts; default: always did
//! input        = 2.50                              # for a million tokens, as all of these
//! cached_input = 0.25                              # default: as input
//! cache_write  = 3.125                             # default: as input
//! cache_write_long = 5.00                          # default: as cache_write
//! output       = 10.00
//! reasoning    = 10.00                             # default: as output
//! audio_input  = 32.00                             # default: sound has no price
//! audio_output = 64.00
//! long_prompt  = { tokens = 200000, input = 5.00, output = 15.00 }   # in requests with longer prompts
//! source       = "https://…"                       # the page it was read from
//! seen         = "2026-10-07"                      # when
//! ```

use std::fs::File;
use std::io::Read;
use std::path::Path;

use jiff::civil::Date;

use super::LongPrompt;
use super::PICO_PER_TOKEN;
use super::Price;
use super::PriceList;
use super::Rates;
use crate::document::Fault;
use crate::document::Place;
use crate::document::Problem;
use crate::document::section;
use crate::document::section::Section;
use crate::document::toml;

/// The largest file of prices.
pub const PRICES_BYTES_MAX: usize = 1 << 20;
const PRICES_MAX: usize = 10_000;
/// The highest price of a million tokens.
const RATE_MAX: f64 = 1_000_000.0;
const TOKENS_MAX: u64 = 1_000_000_000;
/// The built-in prices.
const EMBEDDED: (&str, &str) = ("prices.toml", include_str!("../../../../conf/prices.toml"));

/// Reads the built-in prices, and over them the operator's file, where there is one. Blocks on the disk.
///
/// # Errors
/// Every fault, with file and line.
pub fn load(path: Option<&Path>) -> Result<PriceList, Vec<Fault>> {
    let Some(path) = path else { return read(None) };
    let source = path.display().to_string();
    let place = Place { source: source.as_str().into(), line: None, column: None };
    let fault = |problem| vec![Fault { place: Some(place.clone()), key: String::new(), problem }];
    let mut text = String::new();
    let taken =
        File::open(path).and_then(|file| file.take(PRICES_BYTES_MAX as u64 + 1).read_to_string(&mut text));
    taken.map_err(|error| fault(Problem::Unreadable { kind: error.kind() }))?;
    if text.len() > PRICES_BYTES_MAX {
        let reason = format!("expected {PRICES_BYTES_MAX} bytes at most");
        return Err(fault(Problem::Invalid { reason, suggestion: None }));
    }
    read(Some((&source, &text)))
}

/// Reads the built-in prices, and over them the text of an operator's file; `source` names it in faults.
///
/// A price of the file stands in for the built-in ones of the same pattern.
///
/// # Errors
/// Every fault, with file and line.
pub fn read(own: Option<(&str, &str)>) -> Result<PriceList, Vec<Fault>> {
    let (name, text) = EMBEDDED;
    let list = parse(text, name)?;
    if let Some((source, text)) = own {
        let over = parse(text, source)?;
        if over.currency != list.currency {
            // Sums of two currencies mean nothing: the file brings all its prices, or the built-in currency.
            return Ok(over);
        }
        let mut prices = list.prices;
        prices.retain(|price| !over.prices.iter().any(|own| own.pattern == price.pattern));
        prices.extend(over.prices);
        return Ok(PriceList::new(list.currency, prices));
    }
    Ok(list)
}

fn parse(text: &str, source: &str) -> Result<PriceList, Vec<Fault>> {
    let document = toml::parse(text, source)?;
    let read = section::read(&document, |root| {
        let currency = root.text("currency").to_owned();
        if currency.len() != 3 || !currency.bytes().all(|byte| byte.is_ascii_uppercase()) {
            root.invalid("currency", "expected a code of ISO 4217, as in USD", None);
        }
        let mut prices: Vec<Price> = Vec::new();
        for mut written in root.list("price") {
            for price in price(&mut written) {
                let is_same = |other: &Price| other.pattern == price.pattern && other.from == price.from;
                if prices.iter().any(is_same) {
                    written.invalid("models", format!("{} has a price already", price.pattern), None);
                }
                prices.push(price);
            }
        }
        if prices.len() > PRICES_MAX {
            root.invalid("price", format!("expected {PRICES_MAX} at most"), None);
        }
        PriceList::new(currency, prices)
    });
    read.map_err(|faults| faults.into_iter().map(|fault| fault.in_file(source)).collect())
}

/// Reads one price, for each of its patterns.
fn price(section: &mut Section<'_>) -> Vec<Price> {
    let patterns = section.texts("models");
    if patterns.is_empty() {
        section.fault("models", Problem::Missing);
    }
    let from = section.text_maybe("from").map(|text| date(section, "from", text));
    let rates = rates(section);
    let long = section.has("long_prompt").then(|| {
        let mut inner = section.section("long_prompt");
        let long =
            LongPrompt { tokens: inner.number("tokens", 1..=TOKENS_MAX), rates: self::rates(&mut inner) };
        inner.finish();
        long
    });
    let source = section.text("source").to_owned();
    if !source.starts_with("https://") {
        section.invalid("source", "expected the https:// address of the page it was read from", None);
    }
    let seen = section.text("seen");
    let seen = date(section, "seen", seen);
    section.finish();
    let with = |pattern: &str| Price {
        pattern: pattern.to_ascii_lowercase(),
        from,
        rates,
        long,
        source: source.clone(),
        seen,
    };
    patterns.into_iter().map(with).collect()
}

fn rates(section: &mut Section<'_>) -> Rates {
    if !section.has("input") {
        section.fault("input", Problem::Missing);
    }
    let mut rate =
        |key| section.decimal_maybe(key, RATE_MAX).map(|rate| (rate * PICO_PER_TOKEN).round() as u64);
    Rates {
        input: rate("input").unwrap_or_default(),
        cached: rate("cached_input"),
        cache_write: rate("cache_write"),
        cache_write_long: rate("cache_write_long"),
        output: rate("output"),
        reasoning: rate("reasoning"),
        audio_input: rate("audio_input"),
        audio_output: rate("audio_output"),
    }
}

fn date(section: &Section<'_>, key: &str, text: &str) -> Date {
    text.parse().unwrap_or_else(|_| {
        section.invalid(key, "expected a date, as in 2026-10-07", None);
        Date::default()
    })
}
