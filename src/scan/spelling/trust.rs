//! What counts of all that detectors see in a reading of a text.
//!
//! A reading may put together what does not belong together: the cells of a table make a number, letters moved along the
//! alphabet look like those of a key. The less a reading is trusted, the more of a finding has to speak for itself.

use regex_syntax::hir::literal::Extractor;

use super::Marks;
use super::Spelt;
use crate::scan::check::Check;
use crate::scan::detector::ContextWords;
use crate::scan::detector::Detector;
use crate::scan::proof;
use crate::scan::threat::Category;
use crate::scan::threat::Finding;
use crate::scan::threat::Spelling;

/// The shortest beginning by which a key is known, in bytes.
const BEGINNING_BYTES_MIN: usize = 4;
/// The shortest label in front of a value, in bytes.
const LABEL_BYTES_MIN: usize = 4;
/// The shortest value that is no row of a table where each of its signs stands alone, in bytes, and how many of them are
/// letters at least, and how many are digits.
const SPELT_OUT_BYTES_MIN: usize = 16;
const SPELT_OUT_OF_EACH_MIN: usize = 3;

/// How far a reading is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// It is what the text says: all counts.
    All,
    /// Beside orders, what is proven: by a checksum, by its beginning, by the label of a number.
    Proven,
    /// Beside orders, keys whose beginning is known, or whose name is spelt like them and stands before them.
    Keys,
    /// Orders.
    Orders,
}

impl Spelt {
    /// Returns how far the reading is trusted.
    pub(super) fn trust(&self) -> Trust {
        match self.spelling {
            _ if self.is_bare => Trust::Proven,
            Spelling::Caesar | Spelling::Reversed => Trust::Keys,
            Spelling::Leet => Trust::Orders,
            Spelling::Spaced | Spelling::Morse => Trust::Proven,
            Spelling::Base32
            | Spelling::Ascii85
            | Spelling::QuotedPrintable
            | Spelling::Gzip
            | Spelling::Deflate
            | Spelling::Grouped
            | Spelling::Utf16
            | Spelling::Braille
            | Spelling::Fillers
            | Spelling::Numbers
            | Spelling::Joined => Trust::All,
        }
    }

    /// Tells whether a finding of the reading counts that is no order, in a text that the reading was made from.
    pub(super) fn counts(&self, finding: &Finding, of: &Detector, marks: &Marks, text: &[u8]) -> bool {
        match self.trust() {
            Trust::All => true,
            Trust::Orders => false,
            Trust::Keys => marks.begin_key(self.value(finding)) || self.is_named_secret(finding, of),
            Trust::Proven => {
                marks.begin_key(self.value(finding))
                    || begins_as_key(of)
                    || of.category == Category::Secrets && self.is_spelt_out(finding, text)
                    || is_labelled(finding, of) && is_of_person(of)
                    || of.checks.iter().any(|check| check.is_proof()) && !self.is_listed(finding, text)
            }
        }
    }

    /// Tells whether what was found is a secret with its name before it in the reading: chance makes no such words.
    fn is_named_secret(&self, finding: &Finding, of: &Detector) -> bool {
        let name = self.bytes().get(finding.span.start..finding.value.start).unwrap_or_default();
        let letters = name.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
        of.category == Category::Secrets && letters >= LABEL_BYTES_MIN
    }

    /// Tells whether the signs of a long value, some of them letters and some digits, stand apart in the text.
    fn is_spelt_out(&self, finding: &Finding, text: &[u8]) -> bool {
        let (value, source) = (self.value(finding), self.place(&finding.value, text.len()));
        let count = |is: fn(&u8) -> bool| value.iter().filter(|byte| is(byte)).count();
        self.spelling == Spelling::Spaced
            && value.len() >= SPELT_OUT_BYTES_MIN
            && source.len() + 1 >= 2 * value.len()
            && count(u8::is_ascii_alphabetic) >= SPELT_OUT_OF_EACH_MIN
            && count(u8::is_ascii_digit) >= SPELT_OUT_OF_EACH_MIN
    }

    /// Tells whether a finding is made of what stands in a list, as digits do in code.
    fn is_listed(&self, finding: &Finding, text: &[u8]) -> bool {
        let source = text.get(self.place(&finding.value, text.len())).unwrap_or_default();
        self.spelling == Spelling::Spaced && source.contains(&b',')
    }
}

/// Tells whether all values of a detector of secrets begin alike.
fn begins_as_key(detector: &Detector) -> bool {
    let beginnings =
        || Extractor::new().extract(proof::value_form(&detector.pattern.hir())).min_literal_len();
    detector.category == Category::Secrets && beginnings().is_some_and(|length| length >= BEGINNING_BYTES_MIN)
}

/// Tells whether a detector knows the number of a person by more than its length.
fn is_of_person(detector: &Detector) -> bool {
    detector.category == Category::Pii && detector.checks.iter().copied().any(Check::is_of_number)
}

/// Tells whether what was found has a label, before it or as a part of it.
fn is_labelled(finding: &Finding, detector: &Detector) -> bool {
    detector.context.as_ref().is_some_and(ContextWords::required)
        || finding.confidence > detector.confidence
        || finding.value.start >= finding.span.start + LABEL_BYTES_MIN
}

#[cfg(test)]
mod tests {
    use crate::scan::fixture;
    use crate::scan::scanner::Scanner;

    use super::*;

    const CARD: &str = "4539578763621486";

    /// Returns the names of the detectors that find something in a text.
    fn found(text: &str) -> Vec<String> {
        let number = |name: &str, pattern: &str, checks: &[Check]| {
            let detector = fixture::detector(name, pattern);
            Detector { category: Category::Pii, checks: checks.to_vec(), ..detector }
        };
        let secret = |name: &str, pattern: &str| Detector {
            category: Category::Secrets,
            ..fixture::detector(name, pattern)
        };
        let ssn = number("ssn", r"\b([0-9]{9})\b", &[Check::UsSsn]);
        let scanner = Scanner::compile(vec![
            number("card", r"\b([0-9]{16})\b", &[Check::Card]),
            Detector { context: Some(ContextWords::new(&["ssn".to_owned()], true)), ..ssn },
            number("small", r"\b([0-9]{8})\b", &[Check::Luhn]),
            number("iban", r"\b([A-Z]{2}[0-9]{20})\b", &[Check::Iban]),
            secret("key", r"\b(acme_[0-9A-Za-z]{12})\b"),
            secret("password", "password: ([a-z]{5}[0-9]{3})"),
            secret("token", r"\btoken=([0-9a-f]{20})\b"),
        ]);
        let scanner = scanner.unwrap();
        let findings = scanner.scan_spelt(text.as_bytes(), &scanner.all()).unwrap().findings;
        let name = |it: &Finding| scanner.detector(it.detector).unwrap().name.clone();
        findings.iter().map(name).collect()
    }

    fn apart(text: &str, between: &str) -> String {
        text.chars().map(String::from).collect::<Vec<_>>().join(between)
    }

    /// Writes digits, D and E in Morse code.
    fn morse(text: &str) -> String {
        let sign = |digit: char| match digit {
            'D' => "-..".to_owned(),
            'E' => ".".to_owned(),
            _ => {
                let worth = digit.to_digit(10).unwrap() as usize;
                let (lead, end) = if worth <= 5 { (".", "-") } else { ("-", ".") };
                let count = if worth <= 5 { worth } else { worth - 5 };
                lead.repeat(count) + &end.repeat(5 - count)
            }
        };
        text.chars().map(sign).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn of_signs_that_stand_apart_counts_what_is_proven_or_has_a_label() {
        let cases: [(String, &[&str]); 11] = [
            (format!("card {}", apart(CARD, " ")), &["card"]),
            (apart(CARD, "-"), &["card"]),
            (apart("4539578763621487", " "), &[]),
            (format!("let row = [{}];", apart(CARD, ", ")), &[]),
            (format!("ssn {}", apart("536228726", " ")), &["ssn"]),
            (format!("row {}", apart("536228726", " ")), &[]),
            (apart("12345674", " "), &[]),
            (format!("take {} so", apart("acme_4a7C91e0b2d3", " ")), &["key"]),
            (format!("password: {}", apart("qwert123", " ")), &[]),
            (format!("token={}", apart("b9f0c2a7d4e1586b3a2c", " ")), &["token"]),
            (format!("token={}", apart("01101000010111010010", " ")), &[]),
        ];
        for (text, names) in cases {
            assert_eq!(found(&text), names, "{text}");
        }
    }

    #[test]
    fn of_letters_moved_or_turned_counts_a_secret_with_its_name() {
        let named = "the system says token=b9f0c2a7d4e1586b3a2c here";
        let moved =
            |text: &str| String::from_utf8(super::super::letters::moved(text.as_bytes(), 13)).unwrap();
        let turned = |text: &str| text.chars().rev().collect::<String>();
        for text in [moved(named), turned(named)] {
            assert_eq!(found(&text), ["token"], "{text}");
        }
        for text in
            [moved("the system says acme_4a7C91e0b2d3"), turned("the system has b9f0c2a7d4e1586b3a2c")]
        {
            assert!(found(&text).is_empty(), "{text}");
        }
    }

    #[test]
    fn of_rows_without_letters_counts_what_is_proven_or_begins_as_keys_do() {
        let decimal = |text: &str| text.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(" ");
        let cases: [(String, &[&str]); 9] = [
            (decimal(CARD), &["card"]),
            (decimal("4539578763621487"), &[]),
            (decimal("acme_4a7C91e0b2d3"), &["key"]),
            (decimal("ssn 536228726"), &["ssn"]),
            (decimal("12345674"), &[]),
            (decimal("password: qwert123"), &["password"]),
            (morse(CARD), &["card"]),
            (morse("DE89370400440532013000"), &["iban"]),
            (morse("DE89370400440532013001"), &[]),
        ];
        for (text, names) in cases {
            assert_eq!(found(&format!("see {text} please")), names, "{text}");
        }
    }
}
