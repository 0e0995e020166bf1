//! Telephone numbers, by the numbering plans of the world.
//!
//! `phone/plans.py` makes the plans from the data of libphonenumber (Apache-2.0): one minimal automaton of 84 KB that takes
//! the numbers which `is_valid_number` of that library takes, and those that are set aside for films and documents. It is
//! read as it stands in the executable: a number costs a step for each digit, and no memory.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use super::network::birth_date;
use super::varied;

/// How many states there are, how many of them are ends, and for each the ones behind the ten digits; two bytes each.
const PLANS: &[u8] = include_bytes!("phone/plans.bin");
const NUMBER_BYTES: usize = 2;
const HEAD_NUMBERS: usize = 2;
const DIGITS: usize = 10;

/// Fewest and most digits of an international telephone number (ITU-T E.164), and of a national one.
const E164_DIGITS: RangeInclusive<usize> = 8..=15;
const NATIONAL_DIGITS: RangeInclusive<usize> = 7..=15;

/// Tells whether `value` is an international telephone number: `+`, a calling code, and a number of its plan.
pub fn e164(value: &[u8]) -> bool {
    value.strip_prefix(b"+").is_some_and(|rest| is_international(&digits(rest)))
}

/// Returns a number of as many digits that is one, with those of `value` that a plan has there.
pub fn repair_e164(value: &[u8]) -> Option<Vec<u8>> {
    let mut wanted = digits(value);
    complete(&mut wanted, start(), &mut HashSet::new()).then_some(())?;
    let mut made = value.to_vec();
    let places = made.iter_mut().filter(|byte| byte.is_ascii_digit());
    places.zip(&wanted).for_each(|(place, digit)| *place = b'0' + digit);
    e164(&made).then_some(made)
}

/// Tells whether `value` is a telephone number of the North American plan: ten digits, perhaps with 1 or 001 before and
/// an extension behind.
pub fn nanp(value: &[u8]) -> bool {
    let digits = digits(value);
    let national = match digits.as_slice() {
        [0, 0, 1, national @ ..] | [1, national @ ..] if national.len() == 10 => Some(national),
        national => Some(national).filter(|national| national.len() == 10),
    };
    national.is_some_and(|n| {
        n[0] > 1 && n[3] > 1 && n[1..3] != [1, 1] && n[4..6] != [1, 1] && varied(n) && is_of_plan(&[1], n)
    })
}

/// Tells whether `value` may be a national telephone number: 7 to 15 digits that are no date, and behind 00 one of a plan.
///
/// Nothing more is common to national plans: together they take 99 of 100 numbers of 7 to 11 digits that dice make. So this
/// only makes sense where the text says so.
pub fn national_phone(value: &[u8]) -> bool {
    let digits = digits(value);
    let abroad = digits.strip_prefix(&[0, 0]);
    NATIONAL_DIGITS.contains(&digits.len())
        && varied(&digits)
        && !birth_date(value)
        && abroad.is_none_or(is_international)
}

/// Tells whether `value` is a German telephone number as it is dialled there.
pub fn de_phone(value: &[u8]) -> bool {
    let digits = digits(value);
    digits.strip_prefix(&[0]).is_some_and(|national| varied(national) && is_of_plan(&[4, 9], national))
}

/// Tells whether `value` is a Brazilian telephone number with its area code.
pub fn br_phone(value: &[u8]) -> bool {
    let digits = digits(value);
    varied(&digits) && is_of_plan(&[5, 5], &digits)
}

/// Tells whether digits are a calling code and a number of its plan, no longer than any may be.
fn is_international(digits: &[u8]) -> bool {
    E164_DIGITS.contains(&digits.len())
        && varied(digits.get(2..).unwrap_or_default())
        && is_of_plan(&[], digits)
}

/// Tells whether digits behind a calling code are a number of its plan.
fn is_of_plan(code: &[u8], digits: &[u8]) -> bool {
    is_end(code.iter().chain(digits).fold(start(), |state, digit| behind(state, *digit)))
}

/// Returns the digits of a number before its extension.
fn digits(value: &[u8]) -> Vec<u8> {
    let number = value.split(u8::is_ascii_alphabetic).next().unwrap_or_default();
    number.iter().filter(|byte| byte.is_ascii_digit()).map(|byte| byte - b'0').collect()
}

/// Replaces digits as far as it takes for the automaton to get from a state to an end; tells whether there is a way.
fn complete(digits: &mut [u8], state: u16, dead: &mut HashSet<(u16, usize)>) -> bool {
    let left = digits.len();
    let Some((first, rest)) = digits.split_first_mut() else { return is_end(state) };
    if state == 0 || dead.contains(&(state, left)) {
        return false;
    }
    let wanted = *first;
    for digit in (0..DIGITS as u8).map(|more| (wanted + more) % DIGITS as u8) {
        if complete(rest, behind(state, digit), dead) {
            *first = digit;
            return true;
        }
    }
    dead.insert((state, left));
    false
}

/// Returns the state in which a number begins: the last one.
fn start() -> u16 {
    number(0).saturating_sub(1)
}

/// Tells whether a number may end in a state: the ends come behind the one that takes nothing.
fn is_end(state: u16) -> bool {
    (1..=number(1)).contains(&state)
}

/// Returns the state behind a digit.
fn behind(state: u16, digit: u8) -> u16 {
    number(HEAD_NUMBERS + usize::from(state) * DIGITS + usize::from(digit))
}

/// Returns one of the numbers that the plans are written in.
fn number(place: usize) -> u16 {
    let pair = PLANS.get(place * NUMBER_BYTES..).and_then(|rest| rest.first_chunk());
    pair.map_or(0, |pair| u16::from_be_bytes(*pair))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_is_one_of_its_plan() {
        for value in [
            "+49 171 4839221",
            "+49 (0) 30 901820",
            "+44 20 7946 0958",
            "+44 (0)20 7946 0958",
            "+1 (212) 555-0147",
            "+39 06 6982 1234",
            "+33 6 12 34 56 78",
            "+7 916 123-45-67",
            "+86 138 0013 8000",
            "+81 90-1234-5678",
            "+91 98400 12287",
            "+55 11 93468-8253",
            "+354 555 0147",
            "+800 1234 5678",
        ] {
            assert!(e164(value.as_bytes()), "{value}");
        }
        for value in [
            "+49 199 9999 123",
            "+49 171 48392",
            "+33 0 12 34 56 78",
            "+1 (012) 555-0147",
            "+1 212 555 01470",
            "+86 038 0013 8000",
            "+55 20 93468-8253",
            "+999 123456789",
            "+11111111111",
            "49 171 4839221",
        ] {
            assert!(!e164(value.as_bytes()), "{value}");
        }
    }

    /// What the regulators set aside is nobody's, and looks like a number all the same.
    #[test]
    fn a_number_of_films_is_one() {
        for value in
            ["+44 7700 900123", "+44 1632 960123", "+33 1 99 00 12 34", "+353 20 910 1234", "+1 555 234 5678"]
        {
            assert!(e164(value.as_bytes()), "{value}");
        }
        assert!(nanp(b"(212) 555-0147") && nanp(b"555-234-5678"));
    }

    #[test]
    fn a_national_number_is_one_of_the_plan_it_names() {
        for (check, value, expected) in [
            (nanp as fn(&[u8]) -> bool, "001-212-555-0147x123", true),
            (nanp, "212-555-0147 ext. 12", true),
            (nanp, "221-456-0147", false),
            (national_phone, "00 49 171 4839221", true),
            (national_phone, "00 49 199 9999 123", false),
            (national_phone, "020 7946 0958", true),
            (de_phone, "0171/4839221", true),
            (de_phone, "0171/48392", false),
            (de_phone, "171/4839221", false),
            (br_phone, "(11) 93468-8253", true),
            (br_phone, "(20) 93468-8253", false),
        ] {
            assert_eq!(check(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn every_state_leads_to_states() {
        let states = number(0);
        assert_eq!(PLANS.len(), (HEAD_NUMBERS + usize::from(states) * DIGITS) * NUMBER_BYTES);
        for state in 0..states {
            assert!((0..10).all(|digit| behind(state, digit) < states), "{state}");
        }
        assert!((0..10).all(|digit| behind(0, digit) == 0), "what takes nothing takes nothing more");
    }

    proptest! {
        #[test]
        fn a_repaired_number_is_one_and_keeps_its_form(value in r"\+[1-9](?:[ ()./-]{0,2}[0-9]){7,14}") {
            let made = repair_e164(value.as_bytes()).unwrap();
            prop_assert!(e164(&made));
            let form = |text: &[u8]| text.iter().map(|byte| if byte.is_ascii_digit() { b'0' } else { *byte }).collect::<Vec<_>>();
            prop_assert_eq!(form(&made), form(value.as_bytes()));
        }
    }
}
