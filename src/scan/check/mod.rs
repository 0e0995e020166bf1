//! The closed set of checks that judge a matched value.

use std::fmt;
use std::str::FromStr;

pub mod identity;
pub mod secret;

/// A question asked of a matched value, named in packs by its snake_case name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// The last digit is the Luhn digit of the others.
    Luhn,
}

/// No check has this name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("no such check")]
pub struct UnknownCheck;

impl Check {
    /// Tells whether `value` stands up to the check.
    pub fn passes(self, value: &[u8]) -> bool {
        let digits = value.iter().filter(|byte| byte.is_ascii_digit()).map(|byte| u32::from(byte - b'0'));
        let digits: Vec<u32> = digits.collect();
        let doubled = |digit: u32| if digit > 4 { digit * 2 - 9 } else { digit * 2 };
        let sum: u32 = digits
            .iter()
            .rev()
            .enumerate()
            .map(|(at, digit)| if at % 2 == 1 { doubled(*digit) } else { *digit })
            .sum();
        !digits.is_empty() && sum.is_multiple_of(10)
    }

    /// Returns a value of the same form that passes, or `None` where trying is the better way.
    pub fn repair(self, _value: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("luhn")
    }
}

impl FromStr for Check {
    type Err = UnknownCheck;

    fn from_str(text: &str) -> Result<Self, UnknownCheck> {
        if text == "luhn" { Ok(Self::Luhn) } else { Err(UnknownCheck) }
    }
}
