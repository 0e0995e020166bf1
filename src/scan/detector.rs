//! What a detector is: a bounded pattern, the checks that judge its value and the words that speak for it.
//!
//! Everything here is valid by construction: a [`Pattern`] is bounded, cannot match nothing and means the same
//! to Hyperscan, to the confirming regex and to the hold-back automaton, because all three are built from its
//! one parsed form.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use regex_syntax::ParserBuilder;
use regex_syntax::hir::Capture;
use regex_syntax::hir::Class;
use regex_syntax::hir::ClassBytes;
use regex_syntax::hir::ClassBytesRange;
use regex_syntax::hir::ClassUnicode;
use regex_syntax::hir::Hir;
use regex_syntax::hir::HirKind;
use regex_syntax::hir::Look;
use regex_syntax::hir::Repetition;
use regex_syntax::utf8::Utf8Range;
use regex_syntax::utf8::Utf8Sequence;
use regex_syntax::utf8::Utf8Sequences;

use crate::scan::check::Check;
use crate::scan::edges::Edges;
use crate::scan::threat::Category;
use crate::scan::threat::Confidence;
use crate::scan::threat::Severity;
use crate::scan::threat::UnknownName;

mod context;
mod shown;

pub use context::CONTEXT_BYTES;
pub use context::ContextWords;
pub use context::Voice;
pub use context::behind_cut;
pub use shown::Shown;

/// The widest match a pattern may have, in bytes.
pub const PATTERN_WIDTH_MAX: usize = 131_072;

/// The longest pattern that is read, in bytes of its source.
pub const PATTERN_BYTES_MAX: usize = 4096;

/// The most byte sequences a class of characters is spelt out in.
const SEQUENCES_MAX: usize = 64;

/// How often a class that repeats counts at most.
const COPIES_MAX: usize = 32;

/// How often a pattern is put together anew to get rid of classes of characters.
const LOWERINGS_MAX: usize = 8;

/// A bounded regular expression over bytes, with ASCII classes; cheap to clone.
///
/// It is kept as it was written and parsed anew for whoever builds something from it: the parsed forms of all
/// patterns take more memory than everything that is built from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    source: Arc<str>,
    width_min: usize,
    width_max: usize,
    lead_max: usize,
    places: usize,
    looks_behind_itself: bool,
    has_group: bool,
}

/// What is wrong with a pattern.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PatternFault {
    /// The source is longer than [`PATTERN_BYTES_MAX`].
    #[error("is {bytes} bytes long, {PATTERN_BYTES_MAX} are allowed")]
    TooLong {
        /// The length of the source in bytes.
        bytes: usize,
    },
    /// The source is no regular expression of this dialect.
    #[error("does not parse: {}", reason(.0))]
    Syntax(#[source] Box<regex_syntax::Error>),
    /// A repetition has no upper bound.
    #[error("has a repetition without an upper bound; write {{m,n}}")]
    Unbounded,
    /// A match could be wider than [`PATTERN_WIDTH_MAX`].
    #[error("can match more than {PATTERN_WIDTH_MAX} bytes")]
    TooWide,
    /// It matches the empty text.
    #[error("can match nothing at all")]
    Empty,
    /// It can never match.
    #[error("can never match")]
    Never,
    /// It looks around by other means than `\b` and `\B`.
    #[error("uses a look-around other than \\b and \\B")]
    LookAround,
    /// It has more than one capture group.
    #[error("has more than one capture group; write (?:…)")]
    Groups,
    /// It switches Unicode classes on.
    #[error("uses a Unicode class; classes are ASCII")]
    Unicode,
}

/// How the value of a finding is masked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MaskKind {
    /// `[REDACTED:type]`.
    #[default]
    Label,
    /// Everything but the last four characters.
    KeepLast4,
    /// A keyed hash: equal values stay equal.
    Hash,
    /// A placeholder that can be turned back.
    Token,
}

/// One kind of thing that is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detector {
    /// Its type, in snake case, unique within a scanner.
    pub name: String,
    /// What kind of harm it is about.
    pub category: Category,
    /// How bad a real finding is.
    pub severity: Severity,
    /// What a match is worth without its context.
    pub confidence: Confidence,
    /// The shape of a match; its group, if there is one, is the value.
    pub pattern: Pattern,
    /// A cheaper shape that stands inside every match.
    pub anchor: Option<Pattern>,
    /// How values begin that are known by it where they are turned round, or their letters moved.
    pub heads: Vec<String>,
    /// What may not stand right beside a match.
    pub edges: Edges,
    /// What the value must pass.
    pub checks: Vec<Check>,
    /// Words that raise the confidence or lower it, or without which there is no finding.
    pub context: Option<ContextWords>,
    /// How the value is masked.
    pub mask: MaskKind,
    /// Ids of the techniques it is evidence of (MITRE ATLAS, OWASP).
    pub techniques: Vec<String>,
    /// Why it matters, in one sentence.
    pub why: String,
    /// Where its facts come from.
    pub references: Vec<String>,
    /// Texts in which it must find something.
    pub finds: Vec<String>,
    /// Texts in which it must find nothing.
    pub ignores: Vec<String>,
    /// What values are not for it, though they pass: those that are made to be shown.
    pub shown: Arc<[Shown]>,
    /// The pack it comes from.
    pub pack: String,
    /// The version of that pack.
    pub pack_version: String,
    /// The file it was read from, as a path below the packs' folder.
    pub file: String,
    /// The line of the file it begins at, counted from one.
    pub line: usize,
}

impl Detector {
    /// Tells whether a value passes all checks and is none that is made to be shown.
    pub fn lets(&self, value: &[u8]) -> bool {
        self.checks.iter().all(|check| check.passes(value)) && !self.shown.iter().any(|shown| shown.is(value))
    }
}

impl Pattern {
    /// Reads a pattern and proves it bounded.
    ///
    /// # Errors
    /// The first [`PatternFault`] found.
    pub fn parse(source: &str) -> Result<Self, PatternFault> {
        if source.len() > PATTERN_BYTES_MAX {
            return Err(PatternFault::TooLong { bytes: source.len() });
        }
        let hir = parsed(source)?;
        bounded(&hir)?;
        let facts = hir.properties();
        if facts.explicit_captures_len() > 1 {
            return Err(PatternFault::Groups);
        }
        let width_max = facts.maximum_len().ok_or(PatternFault::Unbounded)?;
        let width_min = facts.minimum_len().ok_or(PatternFault::Never)?;
        match (width_min, width_max) {
            (0, _) => return Err(PatternFault::Empty),
            (_, PATTERN_WIDTH_MAX..) if width_max > PATTERN_WIDTH_MAX => return Err(PatternFault::TooWide),
            _ => {}
        }
        Ok(Self {
            source: source.into(),
            width_min,
            width_max,
            lead_max: lead_max(&hir),
            places: places(&hir),
            looks_behind_itself: !facts.look_set_suffix().is_empty(),
            has_group: facts.explicit_captures_len() == 1,
        })
    }

    /// Returns the pattern as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the parsed form, from which everything that matches is built; takes some microseconds.
    pub fn hir(&self) -> Hir {
        parsed(&self.source).expect("what was parsed once can be parsed again")
    }

    /// Returns the fewest bytes a match has; at least one.
    pub fn width_min(&self) -> usize {
        self.width_min
    }

    /// Returns the most bytes a match has; at most [`PATTERN_WIDTH_MAX`].
    pub fn width_max(&self) -> usize {
        self.width_max
    }

    /// Returns the most bytes of a match that stand before its value.
    pub fn lead_max(&self) -> usize {
        self.lead_max
    }

    /// Returns how many [`places`] the pattern has.
    pub fn places(&self) -> usize {
        self.places
    }

    /// Tells whether whoever reads a match has to see the byte behind it.
    pub fn looks_behind_itself(&self) -> bool {
        self.looks_behind_itself
    }

    /// Tells whether a group marks the value within the match.
    pub fn has_group(&self) -> bool {
        self.has_group
    }
}

impl MaskKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [Self; 4] = [Self::Label, Self::KeepLast4, Self::Hash, Self::Token];

    /// Returns the name used in packs and policies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::KeepLast4 => "keep_last_4",
            Self::Hash => "hash",
            Self::Token => "token",
        }
    }
}

impl fmt::Display for MaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for MaskKind {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let expected = "label, keep_last_4, hash, token";
        Self::ALL.into_iter().find(|known| known.as_str() == text).ok_or(UnknownName { expected })
    }
}

/// Parses a pattern, whatever its bounds.
fn parsed(source: &str) -> Result<Hir, PatternFault> {
    let mut parser = ParserBuilder::new().unicode(false).utf8(false).build();
    let hir = parser.parse(source).map_err(|fault| PatternFault::Syntax(Box::new(fault)))?;
    Ok(over_bytes(hir))
}

/// Returns the same pattern with every class over bytes.
///
/// The parser makes classes of characters of alternatives such as `a|b` and `é|è`, whatever its settings. Putting
/// parts together anew can make some again, so that it is done until none is left; a class of too many characters
/// stays, to be refused.
pub fn over_bytes(hir: Hir) -> Hir {
    let mut hir = hir;
    for _ in 0..LOWERINGS_MAX {
        if !has_characters(&hir) {
            break;
        }
        hir = lowered(&hir);
    }
    hir
}

fn has_characters(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Class(class) => matches!(class, Class::Unicode(_)),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Look(_) => false,
        HirKind::Repetition(repeat) => has_characters(&repeat.sub),
        HirKind::Capture(group) => has_characters(&group.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(has_characters),
    }
}

/// Spells classes of characters out in UTF-8.
fn lowered(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => match class.to_byte_class() {
            Some(bytes) => Hir::class(Class::Bytes(bytes)),
            None => spelt_out(class).unwrap_or_else(|| hir.clone()),
        },
        HirKind::Empty | HirKind::Literal(_) | HirKind::Look(_) | HirKind::Class(Class::Bytes(_)) => {
            hir.clone()
        }
        HirKind::Repetition(repeat) => {
            Hir::repetition(Repetition { sub: Box::new(lowered(&repeat.sub)), ..repeat.clone() })
        }
        HirKind::Capture(group) => {
            Hir::capture(Capture { sub: Box::new(lowered(&group.sub)), ..group.clone() })
        }
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(lowered).collect()),
        HirKind::Alternation(arms) => Hir::alternation(arms.iter().map(lowered).collect()),
    }
}

/// Returns a class as alternatives of byte sequences, unless there are too many.
fn spelt_out(class: &ClassUnicode) -> Option<Hir> {
    let sequences = class.ranges().iter().flat_map(|range| Utf8Sequences::new(range.start(), range.end()));
    let sequences: Vec<Utf8Sequence> = sequences.take(SEQUENCES_MAX + 1).collect();
    let bytes = |range: &Utf8Range| {
        Hir::class(Class::Bytes(ClassBytes::new([ClassBytesRange::new(range.start, range.end)])))
    };
    let arm = |sequence: &Utf8Sequence| Hir::concat(sequence.as_slice().iter().map(bytes).collect());
    (sequences.len() <= SEQUENCES_MAX).then(|| Hir::alternation(sequences.iter().map(arm).collect()))
}

/// Refuses what has no bound or does not mean the same to every engine.
fn bounded(hir: &Hir) -> Result<(), PatternFault> {
    match hir.kind() {
        HirKind::Empty | HirKind::Literal(_) => Ok(()),
        HirKind::Class(Class::Bytes(class)) if class.ranges().is_empty() => Err(PatternFault::Never),
        HirKind::Class(Class::Bytes(_)) => Ok(()),
        HirKind::Class(Class::Unicode(_)) => Err(PatternFault::Unicode),
        HirKind::Look(Look::WordAscii | Look::WordAsciiNegate) => Ok(()),
        HirKind::Look(_) => Err(PatternFault::LookAround),
        HirKind::Repetition(repeat) if repeat.max.is_none() => Err(PatternFault::Unbounded),
        HirKind::Repetition(repeat) => bounded(&repeat.sub),
        HirKind::Capture(group) => bounded(&group.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().try_for_each(bounded),
    }
}

/// Returns how many places a form has for whoever compiles it: one for each byte and class, as often as it may stand there.
///
/// What repeats and may be empty leads from each turn to all others, and counts as often as it may stand there, squared; a
/// class that repeats is counted, not copied.
pub fn places(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(_) => 1,
        HirKind::Capture(group) => places(&group.sub),
        HirKind::Repetition(repeat) => {
            let turns = repeat.max.unwrap_or(repeat.min) as usize;
            let sub = places(&repeat.sub);
            match repeat.sub.properties().minimum_len() {
                Some(1) if sub == 1 => turns.min(COPIES_MAX),
                Some(0) => sub.saturating_mul(turns).saturating_mul(turns),
                _ => sub.saturating_mul(turns),
            }
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(places).fold(0, usize::saturating_add)
        }
    }
}

/// Returns the most bytes that stand before the group of a pattern; none, where it has no group.
fn lead_max(hir: &Hir) -> usize {
    let has_group = |part: &Hir| part.properties().explicit_captures_len() > 0;
    let width = |part: &Hir| part.properties().maximum_len().unwrap_or(PATTERN_WIDTH_MAX);
    match hir.kind() {
        HirKind::Concat(parts) => {
            let at = parts.iter().position(has_group).unwrap_or(0);
            let before: usize = parts.iter().take(at).map(width).sum();
            before + parts.get(at).map_or(0, lead_max)
        }
        HirKind::Alternation(parts) => parts.iter().map(lead_max).max().unwrap_or(0),
        HirKind::Repetition(_) if has_group(hir) => width(hir),
        HirKind::Empty
        | HirKind::Literal(_)
        | HirKind::Class(_)
        | HirKind::Look(_)
        | HirKind::Repetition(_)
        | HirKind::Capture(_) => 0,
    }
}

/// Says in one line why a pattern does not parse.
fn reason(fault: &regex_syntax::Error) -> String {
    match fault {
        regex_syntax::Error::Parse(fault) => fault.kind().to_string(),
        regex_syntax::Error::Translate(fault) => fault.kind().to_string(),
        _ => "unknown reason".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_bounded_or_refused() {
        let fault = |source: &str| Pattern::parse(source).unwrap_err();
        assert_eq!(fault("a+"), PatternFault::Unbounded);
        assert_eq!(fault("(?:ab*c){2}"), PatternFault::Unbounded);
        assert_eq!(fault("a{0,3}"), PatternFault::Empty);
        assert_eq!(fault(r"\b"), PatternFault::Empty);
        assert_eq!(fault("^a"), PatternFault::LookAround);
        assert_eq!(fault(r"a\b{end}"), PatternFault::LookAround);
        assert_eq!(fault("(a)(b)"), PatternFault::Groups);
        assert_eq!(fault(r"(?u:\w)"), PatternFault::Unicode);
        assert_eq!(fault("(?:a{1000}){1000}"), PatternFault::TooWide);
        assert_eq!(fault(&"a".repeat(5000)), PatternFault::TooLong { bytes: 5000 });
        assert!(matches!(fault("("), PatternFault::Syntax(_)));
        assert!(matches!(fault(r"(?=a)b"), PatternFault::Syntax(_)));
    }

    #[test]
    fn a_pattern_knows_its_widths() {
        let widths =
            |source: &str| Pattern::parse(source).map(|it| (it.width_min(), it.width_max())).unwrap();
        assert_eq!(widths(r"\bab{1,3}(c?)\b"), (2, 5));
        assert_eq!(widths("é|abc"), (2, 3));
        assert!(Pattern::parse(&format!("a{{{PATTERN_WIDTH_MAX}}}")).is_ok());
        assert!(Pattern::parse("a(b)").unwrap().has_group());
        let lead = |source: &str| Pattern::parse(source).unwrap().lead_max();
        let leads = [r"\bab{1,3}(c?)\b", "a(b)", "(b)c", "ab", "x(?:ab|c{2,5}(d))", "(?:a(b)){1,3}"];
        assert_eq!(leads.map(lead), [4, 1, 0, 0, 6, 6]);
    }

    #[test]
    fn alternatives_of_characters_are_spelt_out_in_bytes() {
        for source in ["(?i)(?:api|app)", "x(?:é|è|ü)y", "a|b|é", "(?i:dd|de|df)é"] {
            let pattern = Pattern::parse(source).unwrap();
            assert!(!has_characters(&pattern.hir()), "{source}");
            let regex = |hir: &Hir| regex_automata::meta::Builder::new().build_from_hir(hir).unwrap();
            let bytes = regex(&pattern.hir());
            for text in ["api", "ApP", "xéy", "xèy", "xay", "é", "DFé", "dgé"] {
                let same = regex::bytes::RegexBuilder::new(source).build().unwrap();
                assert_eq!(bytes.is_match(text), same.is_match(text.as_bytes()), "{source} in {text}");
            }
        }
    }
}
