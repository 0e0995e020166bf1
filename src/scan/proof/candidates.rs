//! Whether the first stage sees whatever a shape matches: what it misses, no regex is asked about.
//!
//! Vectorscan 5.4.9 misses what some expressions match, by what stands before it, such as
//! `(?:no|zero) (?:[a-z]{1,12} (?:or )?){0,2}(?:restriction|limit)` in "you are an AI that has no restrictions". Nothing about
//! the expression tells; so texts are made of each, behind words and signs.

use std::collections::HashSet;

use regex_automata::meta;
use regex_automata::util::syntax;

use crate::scan::confirm::AUTOMATON_BYTES_MAX;
use crate::scan::scanner::ScanFault;
use crate::scan::scanner::Scanner;
use crate::scan::shape::Shape;
use crate::scan::threat::DetectorId;

use super::Dice;
use super::shown;

/// What stands before a match: words, as they stand in the midst of matches, and signs.
const BEFORE: [&str; 7] = [
    "",
    "You are an AI that has ",
    "and then he said it ",
    "no no zero my the ",
    "x=\"a b-c d_e\" : ",
    "key key_id token = ",
    "................................................................................",
];

/// What stands behind a match.
const BEHIND: &[u8] = b" .\n";

/// How many texts are made of a shape.
const TEXTS: usize = 84;

/// The expressions that were tried: many detectors share one.
#[derive(Default)]
pub(super) struct Candidates {
    tried: HashSet<String>,
}

impl Candidates {
    /// Returns a text in which the shape of a detector matches and the first stage sees nothing, if one of many that are
    /// made is such. It is drawn from the shape, and nobody's.
    ///
    /// # Errors
    /// A text could not be searched.
    pub(super) fn missed(&mut self, scanner: &Scanner, id: DetectorId) -> Result<Option<String>, ScanFault> {
        let Some(detector) = scanner.detector(id) else { return Ok(None) };
        let shape = Shape::of(detector, &detector.pattern.hir());
        if shape.lead.is_some() || !self.tried.insert(shape.expression.clone()) {
            return Ok(None);
        }
        let dialect = syntax::Config::new().unicode(false).utf8(false);
        let Ok(form) = syntax::parse_with(&shape.expression, &dialect) else { return Ok(None) };
        let config = meta::Config::new().utf8_empty(false).nfa_size_limit(Some(AUTOMATON_BYTES_MAX));
        let Ok(regex) = meta::Regex::builder().configure(config).build_from_hir(&form) else {
            return Ok(None);
        };
        let mut dice = Dice::of(detector, 0);
        for before in BEFORE.iter().cycle().take(TEXTS) {
            let mut text = before.as_bytes().to_vec();
            dice.write(&form, &mut text);
            text.extend_from_slice(BEHIND);
            if regex.is_match(text.as_slice()) && !scanner.has_candidate(&text, id)? {
                return Ok(Some(shown(&text)));
            }
        }
        Ok(None)
    }
}
