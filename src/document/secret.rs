//! Where a secret lies that no document holds.

use std::fmt;
use std::path::PathBuf;

use crate::document::section::Section;

/// Where a secret lies that no configuration holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretPlace {
    /// The one line of a file.
    File(PathBuf),
    /// A variable of the process's environment.
    Environment(String),
}

impl fmt::Display for SecretPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "the file {}", path.display()),
            Self::Environment(name) => write!(f, "the variable {name}"),
        }
    }
}

impl SecretPlace {
    /// Reads the place from two keys of a table, of which one may be there.
    pub fn read(section: &mut Section<'_>, file: &'static str, variable: &'static str) -> Option<Self> {
        let path = section.path_maybe(file);
        let name = section.text_maybe(variable).filter(|name| !name.is_empty());
        match (path, name) {
            (Some(_), Some(_)) => {
                section.invalid(variable, format!("expected one of {file} and {variable}"), None);
                None
            }
            (Some(path), None) => Some(Self::File(path)),
            (None, Some(name)) => Some(Self::Environment(name.to_owned())),
            (None, None) => None,
        }
    }
}
