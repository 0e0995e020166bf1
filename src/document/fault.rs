//! What is wrong with a document, and where.

use std::fmt;

use crate::document::Place;

/// One thing that is wrong, with its place and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where it was written; `None` where nobody wrote it.
    pub place: Option<Place>,
    /// The key, as in `routes[0].upstream`; empty for the document as a whole.
    pub key: String,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a key or its value. No variant carries the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The text is no TOML or no JSON.
    #[error("{message}")]
    Syntax {
        /// What the parser says.
        message: String,
    },
    /// The file cannot be read.
    #[error("cannot be read: {}", reason(*kind))]
    Unreadable {
        /// Why.
        kind: std::io::ErrorKind,
    },
    /// Nothing has this key.
    #[error("unknown key{}", did_you_mean(suggestion.as_deref()))]
    UnknownKey {
        /// The known key that looks most like it.
        suggestion: Option<String>,
    },
    /// A secret was written into the document.
    #[error("a secret does not belong here; name where it lies with `{key}_file` or `{key}_env`")]
    InlineSecret {
        /// The key without its suffix.
        key: String,
    },
    /// Something needed is not there.
    #[error("missing")]
    Missing,
    /// The value is of another type.
    #[error("expected {expected}")]
    WrongType {
        /// The type that fits.
        expected: &'static str,
    },
    /// The number is too small or too large.
    #[error("expected a number from {min} to {max}")]
    OutOfRange {
        /// The smallest that fits.
        min: u64,
        /// The largest that fits.
        max: u64,
    },
    /// The value is of the right type and still does not fit.
    #[error("{reason}{}", did_you_mean(suggestion.as_deref()))]
    Invalid {
        /// What would fit.
        reason: String,
        /// The known value that looks most like it.
        suggestion: Option<String>,
    },
    /// The value names something that does not exist.
    #[error("there is no such {what}{}", did_you_mean(suggestion.as_deref()))]
    Unknown {
        /// What kind of thing it is.
        what: &'static str,
        /// The known name that looks most like it.
        suggestion: Option<String>,
    },
    /// Two things claim the same.
    #[error("already taken by {other}")]
    Taken {
        /// The key of the first.
        other: String,
    },
    /// Two keys cannot stand together.
    #[error("cannot stand together with `{other}`")]
    Excludes {
        /// The other key.
        other: &'static str,
    },
    /// The key is right, but cannot change while the process runs.
    #[error("changes only with a restart")]
    NeedsRestart,
}

impl Fault {
    /// Returns the line, where there is one.
    pub fn line(&self) -> Option<usize> {
        self.place.as_ref().and_then(|place| place.line)
    }

    /// Returns the fault, placed in a file where it has no place yet: something is missing there, and lies at no line.
    pub fn in_file(self, source: &str) -> Self {
        let file = || Place { source: source.into(), line: None, column: None };
        Self { place: Some(self.place.unwrap_or_else(file)), ..self }
    }

    /// Puts faults into the order of where they were written.
    pub fn sort(faults: &mut [Self]) {
        faults.sort_by_key(|fault| {
            fault.place.as_ref().map(|place| (place.source.clone(), place.line, place.column))
        });
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        self.problem.fmt(f)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        Ok(())
    }
}

/// Returns the known name that looks most like `text`, if one looks like it at all.
pub fn nearest<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    const TEXT_BYTES_MAX: usize = 128;
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let tolerated = |name: &str| (name.len().max(text.len()) / 3).max(1);
    let close = known.into_iter().map(|name| (edits(text, name), name));
    let close = close.filter(|(edits, name)| *edits <= tolerated(name));
    close.min().map(|(_, name)| name.to_owned())
}

/// Counts the insertions, deletions, substitutions and swaps of neighbours between two names.
fn edits(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (line, from) in left.iter().enumerate() {
        let mut row = vec![line + 1];
        for (column, to) in right.iter().enumerate() {
            let cell = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX - 1);
            let substituted = cell(&last, column) + usize::from(from != to);
            let mut best = substituted.min(cell(&last, column + 1) + 1).min(cell(&row, column) + 1);
            let crossed = line > 0
                && column > 0
                && left.get(line - 1) == Some(to)
                && right.get(column - 1) == Some(from);
            if crossed {
                best = best.min(cell(&before_last, column - 1) + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// Says in plain words what keeps a file from being read.
fn reason(kind: std::io::ErrorKind) -> String {
    match kind {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        kind => kind.to_string(),
    }
}
