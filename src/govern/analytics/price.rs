//! What models cost, as data: `conf/prices.toml`, built in, and an operator's file over it.
//!
//! A price is for a pattern of model names, for a million tokens of each kind, with the page it was read from
//! and the day. Sums are whole numbers of millionths of a millionth of the currency, so that nothing is lost
//! to rounding: a price of 0.000001 for a million tokens is the smallest there is.
//!
//! A model that fits no pattern has no price, and none is guessed: its tokens are counted as unpriced. The
//! same holds for a kind of tokens that a price does not name and that nothing stands in for: cached tokens
//! cost what fresh ones do where nothing else is said, and thinking what other output does; sound has to be
//! named.

mod file;

use std::cmp::Reverse;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

pub use self::file::PRICES_BYTES_MAX;
pub use self::file::load;
pub use self::file::read;

use super::figures::Tokens;

/// Prices of a currency's millionths of a millionth for one token: prices for a million, times a million.
const PICO_PER_TOKEN: f64 = 1e6;
/// How many of the sums' units make one of the currency.
pub const PICO_PER_UNIT: f64 = 1e12;

/// All prices in force.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceList {
    /// The currency of all of them, as in ISO 4217.
    pub currency: String,
    /// The prices, the closest pattern first, of the same pattern the latest first.
    prices: Vec<Price>,
    /// What the pattern of each begins with, side by side: most models are told from most patterns by that.
    begins: Vec<Option<u8>>,
}

/// What a model costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    /// The model's name; `*` stands for any characters.
    pub pattern: String,
    /// The first day on which it counts; `None`: always did.
    pub from: Option<Date>,
    /// What tokens cost.
    pub rates: Rates,
    /// What they cost in requests with longer prompts.
    pub long: Option<LongPrompt>,
    /// The page it was read from.
    pub source: String,
    /// When.
    pub seen: Date,
}

/// Other prices for requests whose prompt is longer than some tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LongPrompt {
    /// The prompt's length in tokens, past which they count.
    pub tokens: u64,
    /// What all tokens of such a request cost.
    pub rates: Rates,
}

/// What one token of each kind costs, in millionths of a millionth of the currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Read.
    pub input: u64,
    /// Read from the provider's cache.
    pub cached: Option<u64>,
    /// Put into the cache.
    pub cache_write: Option<u64>,
    /// Put into the cache to stay for long.
    pub cache_write_long: Option<u64>,
    /// Written.
    pub output: Option<u64>,
    /// Written while thinking.
    pub reasoning: Option<u64>,
    /// Sound that is read.
    pub audio_input: Option<u64>,
    /// Sound that is written.
    pub audio_output: Option<u64>,
}

/// What tokens cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// In millionths of a millionth of the currency.
    pub pico: u64,
    /// Tokens that have no price.
    pub unpriced_tokens: u64,
}

impl PriceList {
    /// Returns the price of a model at a moment, where it has one.
    ///
    /// What stands before the last `/` of a name is whose it is, and does not count: `openai/gpt-4o`.
    pub fn of(&self, model: &str, now: Timestamp) -> Option<&Price> {
        let model = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
        let today = now.to_zoned(TimeZone::UTC).date();
        let begin = model.bytes().next();
        let may_fit = |known: &Option<u8>| *known == begin || *known == Some(b'*');
        let near = self.prices.iter().zip(&self.begins).filter(|(_, known)| may_fit(known));
        near.map(|(price, _)| price)
            .find(|price| price.from.is_none_or(|from| from <= today) && fits(&price.pattern, &model))
    }

    /// Returns what tokens of a model cost at a moment.
    pub fn cost(&self, model: Option<&str>, tokens: &Tokens, now: Timestamp) -> Cost {
        match model.and_then(|model| self.of(model, now)) {
            Some(price) => price.cost(tokens),
            None => Cost { pico: 0, unpriced_tokens: tokens.total },
        }
    }

    /// Returns every price, the closest pattern first.
    pub fn prices(&self) -> &[Price] {
        &self.prices
    }

    /// Returns prices in the order in which they are asked.
    fn new(currency: String, mut prices: Vec<Price>) -> Self {
        let closeness = |price: &Price| {
            let literal = price.pattern.bytes().filter(|byte| *byte != b'*').count();
            (Reverse((!price.pattern.contains('*'), literal)), price.pattern.clone(), Reverse(price.from))
        };
        prices.sort_by_cached_key(closeness);
        let begins = prices.iter().map(|price| price.pattern.bytes().next()).collect();
        Self { currency, prices, begins }
    }
}

impl Price {
    /// Returns what tokens cost.
    pub fn cost(&self, tokens: &Tokens) -> Cost {
        let long = self.long.filter(|long| tokens.prompt > long.tokens);
        long.map_or(self.rates, |long| long.rates).cost(tokens)
    }
}

impl Rates {
    fn cost(&self, tokens: &Tokens) -> Cost {
        let mut fresh = tokens.prompt;
        let part = |count: u64, of: &mut u64| {
            let part = count.min(*of);
            *of -= part;
            part
        };
        let cached = part(tokens.cached, &mut fresh);
        let mut written = part(tokens.cache_write, &mut fresh);
        let written_long = part(tokens.cache_write_long, &mut written);
        let heard = part(tokens.audio_prompt, &mut fresh);
        let mut plain = tokens.completion;
        let spoken = part(tokens.audio_completion, &mut plain);
        let thought = part(tokens.reasoning, &mut plain);
        let other = tokens.total.saturating_sub(tokens.prompt.saturating_add(tokens.completion));
        let input = Some(self.input);
        let short = self.cache_write.or(input);
        let priced = [
            (fresh, input),
            (cached, self.cached.or(input)),
            (written, short),
            (written_long, self.cache_write_long.or(short)),
            (heard, self.audio_input),
            (plain, self.output),
            (thought, self.reasoning.or(self.output)),
            (spoken, self.audio_output),
            (other, None),
        ];
        priced.into_iter().fold(Cost::default(), |sum, (count, rate)| match rate {
            Some(rate) => Cost { pico: sum.pico.saturating_add(count.saturating_mul(rate)), ..sum },
            None => Cost { unpriced_tokens: sum.unpriced_tokens.saturating_add(count), ..sum },
        })
    }
}

/// Tells whether a name fits a pattern in which `*` stands for any characters.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut read) = (0, 0);
    // Behind the last `*`, and how much of the name was taken for it.
    let mut star: Option<(usize, usize)> = None;
    while let Some(byte) = name.get(read) {
        match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                star = Some((at, read));
            }
            Some(wanted) if wanted == byte => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((behind, taken)) = star else { return false };
                star = Some((behind, taken + 1));
                (at, read) = (behind, taken + 1);
            }
        }
    }
    pattern.get(at..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests;
