//! Identifiers of Africa.

use super::checksum::luhn_sum;
use super::digits;
use super::is_short_date;
use super::number;

/// Tells whether `value` is a South African identity number: birth date, citizenship and Luhn.
pub fn za_id(value: &[u8]) -> bool {
    digits::<13>(value).is_some_and(|id| {
        is_short_date(number(&id[..2]), number(&id[2..4]), number(&id[4..6]))
            && id[10] < 3
            && luhn_sum(&id).is_multiple_of(10)
    })
}
