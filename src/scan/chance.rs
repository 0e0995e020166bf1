//! Matches that chance makes: among the signs of a picture or an archive in base64 each short pattern stands sooner or later.
//!
//! In: a text, where a match begins in it, and the pattern. Out: whether base64 goes on there, and how rare the pattern is
//! among its signs. Keys of four megabytes of base64 that are none are one or two otherwise.

use regex_syntax::hir::Class;
use regex_syntax::hir::Hir;
use regex_syntax::hir::HirKind;

use crate::scan::detector::CONTEXT_BYTES;

/// How many signs in a row are base64, and what follows at once is, too: with the ends of the lines that they may stand in no
/// more than what is known before a match, however a stream is cut.
const SIGNS: usize = CONTEXT_BYTES - 8;
/// The shortest line of base64 that is written in lines.
const LINE_BYTES_MIN: usize = 60;
/// How rare a match must be to be none of chance: one in two to the power of so many signs.
pub const BITS_MIN: f64 = 36.0;
/// How many bits a sign tells.
const SIGN_BITS: f64 = 6.0;
/// How many bits something tells that no base64 holds.
const FOREIGN_BITS: f64 = 64.0;

/// The signs that base64 is written in, beside letters and digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    /// `+` and `/`.
    Usual,
    /// `-` and `_`, as in addresses.
    OfAddresses,
}

/// Tells whether base64 stands right before a place of a text, so that it may go on there: a long row of signs, capital and
/// small letters and digits among them.
pub fn base64_before(text: &[u8], at: usize) -> Option<Alphabet> {
    let (mut signs, mut line, mut kinds, mut is_broken) = (0, 0, [false; 3], false);
    let (mut has_usual, mut has_others) = (false, false);
    for byte in text.get(..at).unwrap_or_default().iter().rev() {
        match byte {
            b'A'..=b'Z' => kinds[0] = true,
            b'a'..=b'z' => kinds[1] = true,
            b'0'..=b'9' => kinds[2] = true,
            b'+' | b'/' => has_usual = true,
            b'-' | b'_' => has_others = true,
            b'\n' if line >= LINE_BYTES_MIN || signs > 0 && !is_broken => (line, is_broken) = (0, true),
            b'\r' if is_broken && line == 0 => {}
            _ => return None,
        }
        if !matches!(byte, b'\n' | b'\r') {
            (signs, line) = (signs + 1, line + 1);
        }
        if signs == SIGNS {
            break;
        }
    }
    let is_one = signs == SIGNS && kinds == [true; 3] && !(has_usual && has_others);
    is_one.then_some(if has_others { Alphabet::OfAddresses } else { Alphabet::Usual })
}

impl Alphabet {
    /// Returns how rare the matches of a pattern are among signs that are drawn by chance, in bits.
    pub fn bits(self, pattern: &Hir) -> f64 {
        match pattern.kind() {
            HirKind::Empty | HirKind::Look(_) => 0.0,
            HirKind::Literal(literal) => {
                literal.0.iter().map(|byte| bits_of(u32::from(self.has(*byte)))).sum()
            }
            HirKind::Class(Class::Bytes(class)) => {
                let bytes = class.ranges().iter().flat_map(|range| range.start()..=range.end());
                bits_of(bytes.filter(|byte| self.has(*byte)).count() as u32)
            }
            HirKind::Class(Class::Unicode(_)) => FOREIGN_BITS,
            HirKind::Capture(group) => self.bits(&group.sub),
            HirKind::Repetition(repeat) => self.bits(&repeat.sub) * f64::from(repeat.min),
            HirKind::Concat(parts) => parts.iter().map(|part| self.bits(part)).sum(),
            HirKind::Alternation(branches) => {
                let chances = branches.iter().map(|branch| (-self.bits(branch)).exp2());
                -chances.sum::<f64>().min(1.0).log2()
            }
        }
    }

    fn has(self, byte: u8) -> bool {
        let others = match self {
            Self::Usual => b"+/",
            Self::OfAddresses => b"-_",
        };
        byte.is_ascii_alphanumeric() || others.contains(&byte)
    }
}

/// Returns what one of so many signs tells.
fn bits_of(signs: u32) -> f64 {
    match signs {
        0 => FOREIGN_BITS,
        signs => SIGN_BITS - f64::from(signs).log2(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::detector::Pattern;

    #[test]
    fn base64_goes_on_behind_a_long_row_of_its_signs() {
        let row = "aZ3+9kQx/T".repeat(20);
        let lines = row.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap());
        let (unix, windows) =
            (lines.clone().collect::<Vec<_>>().join("\n"), lines.collect::<Vec<_>>().join("\r\n"));
        let at_end = |text: &str| base64_before(text.as_bytes(), text.len()).is_some();
        assert!(
            at_end(&row)
                && at_end(&unix)
                && at_end(&windows)
                && at_end(&row.replace('+', "-").replace('/', "_"))
        );
        let short = &row[..SIGNS - 1];
        for other in [
            short,
            &format!("{row} "),
            &format!("{row}\n"),
            &format!("{row}=\n{short}"),
            &format!("see {short}"),
            &"aZ3kQxT9\n".repeat(40),
            &"abcdefghij".repeat(20),
            &"usr/share/Documentation/".repeat(9),
        ] {
            assert!(!at_end(other), "{other}");
        }
    }

    #[test]
    fn rare_patterns_are_told_from_those_that_chance_makes() {
        let of = |pattern: &str| Alphabet::Usual.bits(&Pattern::parse(pattern).unwrap().hir());
        let rare =
            [r"\bAKIA[A-Z2-7]{16}\b", "ghp_[A-Za-z0-9]{36}", "sk-ant-[a-z]{3}", "(?i:secret|password)[=:]"];
        assert!(rare.iter().all(|pattern| of(pattern) >= BITS_MIN), "{:?}", rare.map(of));
        let common = [
            "AQE[A-Za-z0-9]{20,400}",
            r"\b[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}\b",
            "(?i:key|pwd|pin)[A-Za-z0-9+/]{16,200}",
            "(?:AKIA|[a-z]{9})",
        ];
        assert!(common.iter().all(|pattern| of(pattern) < BITS_MIN), "{:?}", common.map(of));
        assert_eq!(of("(?:[A-Z]|[a-z])"), of("(?i:[a-z])"));
        let token = Pattern::parse("ghp_[A-Za-z0-9]{36}").unwrap().hir();
        assert!(Alphabet::OfAddresses.bits(&token) < BITS_MIN);
    }
}
