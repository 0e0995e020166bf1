//! What can be wrong with a pack.

use std::fmt;
use std::io;
use std::str::FromStr;

use crate::scan::classifier::shelf::ModelFault;
use crate::scan::classifier::shelf::ModelProblem;
use crate::scan::detector::Detector;
use crate::scan::detector::PatternFault;
use crate::scan::edges::BEHIND_BYTES_MAX;
use crate::scan::engine::EngineFault;
use crate::scan::pack::DETECTORS_MAX;
use crate::scan::pack::NAME_BYTES_MAX;
use crate::scan::pack::PACKS_MAX;
use crate::scan::rule::condition::ConditionFault;
use crate::scan::shape::SHAPE_PLACES_MAX;

/// One thing that is wrong with a pack.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", Place(.file, *.line, .detector.as_deref()))]
pub struct PackFault {
    /// The file, as a path below the folder of plugins.
    pub file: String,
    /// The line, counted from one, where it is known.
    pub line: Option<usize>,
    /// The detector, where it is about one.
    pub detector: Option<String>,
    /// What is wrong.
    #[source]
    pub problem: PackProblem,
}

/// What can be wrong with a pack.
#[derive(Debug, thiserror::Error)]
pub enum PackProblem {
    /// The file or folder cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// There are more than [`PACKS_MAX`] files.
    #[error("there are more than {PACKS_MAX} packs")]
    TooManyPacks,
    /// There are more than [`DETECTORS_MAX`] detectors.
    #[error("there are more than {DETECTORS_MAX} detectors")]
    TooManyDetectors,
    /// The file is longer than its kind may be.
    #[error("is longer than {0} bytes")]
    TooLong(usize),
    /// It is no TOML, or a field is unknown, missing or of the wrong type.
    #[error("{reason}")]
    Malformed {
        /// What the parser says.
        reason: String,
    },
    /// The type is not snake case, or too long.
    #[error("`type` must be snake_case and at most {NAME_BYTES_MAX} bytes")]
    Name,
    /// The id of a rule is not snake case, or too long.
    #[error("`id` must be snake_case and at most {NAME_BYTES_MAX} bytes")]
    Id,
    /// The condition of a rule is refused.
    #[error("`when` {0}")]
    Condition(#[source] ConditionFault),
    /// Two detectors have the same type.
    #[error("`type` is already used in {other}")]
    Duplicate {
        /// The file of the first one.
        other: String,
    },
    /// A field names no member of its closed set.
    #[error("`{field}` is unknown: {reason}")]
    Unknown {
        /// The field.
        field: &'static str,
        /// What is expected.
        reason: String,
    },
    /// The pattern is refused.
    #[error("`pattern` {0}")]
    Pattern(#[source] PatternFault),
    /// The anchor is refused.
    #[error("`anchor` {0}")]
    Anchor(#[source] PatternFault),
    /// A part of patterns has a name that is none.
    #[error("`parts` have names of small letters, digits and underscores; `{name}` is none")]
    PartName {
        /// The name.
        name: String,
    },
    /// A pattern names a part that the pack does not.
    #[error("`{{{{{name}}}}}` is no part of this pack, or stands in itself")]
    PartUnknown {
        /// The name.
        name: String,
    },
    /// What may not stand beside a match is no class of bytes.
    #[error("`{field}` must be one class of bytes, such as [.:]")]
    Edge {
        /// The field.
        field: &'static str,
    },
    /// What a match may stand behind is not usable.
    #[error("`behind` {0}")]
    Behind(#[source] PatternFault),
    /// What a match may stand behind is not asked for, or not seen whole.
    #[error(
        "`behind` needs `not_before`, and a pattern of at most {BEHIND_BYTES_MAX} bytes without a group, and without \\b at its end"
    )]
    BehindUnseen,
    /// A stream would not wait for the byte behind the match.
    #[error("`not_after` needs a pattern that ends with \\b")]
    EdgeUnseen,
    /// The first stage would take too long to compile.
    #[error(
        "`{field}` has {places} places to be looked for, {SHAPE_PLACES_MAX} are allowed; give an `anchor` of fewer words and counts"
    )]
    ShapePlaces {
        /// The field.
        field: &'static str,
        /// How many places it tells apart.
        places: usize,
    },
    /// A beginning is too short or too long, or not of ASCII.
    #[error("`heads` must be of 4 to 32 signs of ASCII each")]
    Head,
    /// A beginning of values that are made to be shown is too short or too long, or not of ASCII.
    #[error("`begins` must be of 3 to 32 signs of ASCII")]
    Beginning,
    /// A field has too many entries, or one that is too long.
    #[error("`{field}` has more or longer entries than allowed")]
    TooMuch {
        /// The field.
        field: &'static str,
    },
    /// A field that must say something is empty.
    #[error("`{field}` must not be empty")]
    Empty {
        /// The field.
        field: &'static str,
    },
    /// The first stage refuses the pattern as it is.
    #[error("{0}")]
    Engine(#[source] EngineFault),
    /// The second stage needs too large an automaton.
    #[error("`pattern` is too large to confirm: {0}")]
    Confirm(#[source] Box<regex_automata::meta::BuildError>),
    /// A model, or its card.
    #[error("{0}")]
    Model(#[source] Box<ModelProblem>),
}

/// Shows where a fault is.
struct Place<'a>(&'a str, Option<usize>, Option<&'a str>);

impl PackFault {
    /// Makes a fault of a whole detector.
    pub fn about(detector: &Detector, problem: PackProblem) -> Self {
        let Detector { file, line, name, .. } = detector;
        Self { file: file.clone(), line: Some(*line), detector: Some(name.clone()), problem }
    }
}

impl PackProblem {
    /// Reads a member of a closed set.
    ///
    /// # Errors
    /// [`PackProblem::Unknown`] with what is expected.
    pub(in crate::scan) fn member<T>(field: &'static str, written: &str) -> Result<T, Self>
    where
        T: FromStr<Err: fmt::Display>,
    {
        written.parse().map_err(|fault: T::Err| Self::Unknown { field, reason: fault.to_string() })
    }
}

impl From<ModelFault> for PackFault {
    fn from(fault: ModelFault) -> Self {
        let ModelFault { file, problem } = fault;
        Self { file, line: None, detector: None, problem: PackProblem::Model(Box::new(problem)) }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)?;
        if let Some(line) = self.1 {
            write!(f, ":{line}")?;
        }
        if let Some(detector) = self.2 {
            write!(f, ": {detector}")?;
        }
        Ok(())
    }
}
