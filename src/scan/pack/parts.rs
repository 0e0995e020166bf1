//! Parts of patterns that a pack names once and uses in several: `{{address}}`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::PackProblem;
use crate::scan::detector::PATTERN_BYTES_MAX;

/// The most parts a pack may name.
const PARTS_MAX: usize = 128;
/// How deep parts may stand in parts.
const DEPTH_MAX: usize = 8;

/// What stands around the name of a part.
const OPENS: &str = "{{";
const CLOSES: &str = "}}";

/// The parts of a pack, by name.
#[derive(Debug, Default)]
pub(super) struct Parts(pub(super) BTreeMap<String, String>);

impl Parts {
    /// Returns what is wrong with them: there are too many, or one has a name that is none.
    pub(super) fn problem(&self) -> Option<PackProblem> {
        if self.0.len() > PARTS_MAX {
            return Some(PackProblem::TooMuch { field: "parts" });
        }
        let is_of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let is_name = |name: &str| !name.is_empty() && name.bytes().all(is_of_name);
        let odd = self.0.keys().find(|name| !is_name(name))?;
        Some(PackProblem::PartName { name: odd.clone() })
    }

    /// Returns a pattern with a group in the place of each part that it names.
    ///
    /// # Errors
    /// One is not named in the pack, or stands in itself.
    pub(super) fn fill<'p>(&self, pattern: &'p str) -> Result<Cow<'p, str>, PackProblem> {
        match pattern.contains(OPENS) {
            true => {
                let mut filled = String::new();
                self.fill_into(&mut filled, pattern, DEPTH_MAX)?;
                Ok(Cow::Owned(filled))
            }
            false => Ok(Cow::Borrowed(pattern)),
        }
    }

    fn fill_into(&self, filled: &mut String, pattern: &str, depth: usize) -> Result<(), PackProblem> {
        let mut rest = pattern;
        // What is longer is refused as a pattern.
        while filled.len() <= PATTERN_BYTES_MAX
            && let Some((before, behind)) = rest.split_once(OPENS)
            && let Some((name, after)) = behind.split_once(CLOSES)
        {
            let part = self.0.get(name).filter(|_| depth > 0);
            let part = part.ok_or_else(|| PackProblem::PartUnknown { name: name.to_owned() })?;
            filled.push_str(before);
            filled.push_str("(?:");
            self.fill_into(filled, part, depth - 1)?;
            filled.push(')');
            rest = after;
        }
        filled.push_str(rest);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(list: &[(&str, &str)]) -> Parts {
        Parts(list.iter().map(|(name, part)| ((*name).to_owned(), (*part).to_owned())).collect())
    }

    #[test]
    fn a_part_stands_as_a_group_wherever_it_is_named() {
        let parts = parts(&[("host", "a|b{2,3}"), ("address", r"\w{1,9}@{{host}}")]);
        assert!(parts.problem().is_none());
        for (pattern, expected) in [
            ("x{2}[}]{1,2}", "x{2}[}]{1,2}"),
            ("{{host}}{0,2}", "(?:a|b{2,3}){0,2}"),
            ("to {{address}} or {{host}}", r"to (?:\w{1,9}@(?:a|b{2,3})) or (?:a|b{2,3})"),
            ("{{ ", "{{ "),
        ] {
            assert_eq!(parts.fill(pattern).unwrap(), expected, "{pattern}");
        }
        assert!(matches!(parts.fill("{{hosts}}"), Err(PackProblem::PartUnknown { name }) if name == "hosts"));
    }

    #[test]
    fn parts_have_an_end() {
        let knot = parts(&[("a", "x{{b}}"), ("b", "y{{a}}")]);
        assert!(matches!(knot.fill("{{a}}"), Err(PackProblem::PartUnknown { .. })));
        let tenfold: Vec<(String, String)> =
            (1..8).map(|at| (format!("p{at}"), format!("{{{{p{}}}}}", at - 1).repeat(10))).collect();
        let mut list = vec![("p0", "0123456789")];
        list.extend(tenfold.iter().map(|(name, part)| (name.as_str(), part.as_str())));
        let filled = parts(&list).fill("{{p7}}").unwrap().len();
        assert!((PATTERN_BYTES_MAX..2 * PATTERN_BYTES_MAX).contains(&filled), "{filled}");
        for name in ["A", "", "a-b"] {
            assert!(matches!(parts(&[(name, "x")]).problem(), Some(PackProblem::PartName { .. })), "{name}");
        }
        let many: Vec<String> = (0..=PARTS_MAX).map(|at| format!("p{at}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "x")).collect();
        assert!(matches!(parts(&many).problem(), Some(PackProblem::TooMuch { field: "parts" })));
    }
}
