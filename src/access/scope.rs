//! What a key may be used for, beside what its role allows: routes, models and tools, by name.
//!
//! A list that is empty allows everything. A name may be a glob, whose `*` stands for any run of
//! characters. Names are compared letter by letter: what is written otherwise is not allowed.

use serde::Deserialize;
use serde::Serialize;

/// The most entries of one list.
pub const ENTRIES_MAX: usize = 100;
/// The longest entry, in bytes.
pub const ENTRY_BYTES_MAX: usize = 128;

/// The lists of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// The provider routes it may use.
    #[serde(default)]
    pub routes: Vec<String>,
    /// The models it may ask for.
    #[serde(default)]
    pub models: Vec<String>,
    /// The tools it may offer a model, or call.
    #[serde(default)]
    pub tools: Vec<String>,
}

/// The lists cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{list}: at most {ENTRIES_MAX} names, each of 1 to {ENTRY_BYTES_MAX} bytes, without control characters"
)]
pub struct ScopeFault {
    /// Which one.
    pub list: &'static str,
}

impl Scope {
    /// Tells whether the lists are within bounds.
    ///
    /// # Errors
    /// They are not.
    pub fn check(&self) -> Result<(), ScopeFault> {
        let fits = |entry: &String| {
            (1..=ENTRY_BYTES_MAX).contains(&entry.len()) && !entry.chars().any(char::is_control)
        };
        for (list, entries) in [("routes", &self.routes), ("models", &self.models), ("tools", &self.tools)] {
            if entries.len() > ENTRIES_MAX || !entries.iter().all(fits) {
                return Err(ScopeFault { list });
            }
        }
        Ok(())
    }

    /// Tells whether a route may be used.
    pub fn allows_route(&self, name: &str) -> bool {
        allows(&self.routes, name)
    }

    /// Tells whether a model may be asked for.
    pub fn allows_model(&self, name: &str) -> bool {
        allows(&self.models, name)
    }

    /// Tells whether a tool may be offered or called.
    pub fn allows_tool(&self, name: &str) -> bool {
        allows(&self.tools, name)
    }

    /// Tells whether what a request asks for has to be looked at.
    pub fn reads_requests(&self) -> bool {
        !self.models.is_empty() || !self.tools.is_empty()
    }
}

fn allows(list: &[String], name: &str) -> bool {
    list.is_empty() || list.iter().any(|pattern| glob(pattern, name))
}

/// Tells whether a name fits a glob; in time that is their lengths multiplied, at most.
fn glob(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut read) = (0, 0);
    // Where the last star was, and up to where it has eaten.
    let mut star: Option<(usize, usize)> = None;
    while read < name.len() {
        match (pattern.get(at), star) {
            (Some(b'*'), _) => {
                star = Some((at, read));
                at += 1;
            }
            (Some(byte), _) if name.get(read) == Some(byte) => {
                at += 1;
                read += 1;
            }
            (_, Some((back, eaten))) => {
                star = Some((back, eaten + 1));
                (at, read) = (back + 1, eaten + 1);
            }
            (_, None) => return false,
        }
    }
    pattern.get(at..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_globs() {
        for (pattern, name, expected) in [
            ("gpt-4o", "gpt-4o", true),
            ("gpt-4o", "gpt-4o-mini", false),
            ("gpt-4o*", "gpt-4o-mini", true),
            ("*mini", "gpt-4o-mini", true),
            ("gpt-*-mini", "gpt-4o-mini", true),
            ("gpt-*-mini", "gpt-4o-maxi", false),
            ("*", "", true),
            ("*", "anything", true),
            ("a*b*c", "abbbc", true),
            ("a*b*c", "acb", false),
            ("gpt-4o", "GPT-4o", false),
            ("caf\u{e9}*", "caf\u{e9}s", true),
            ("**a**", "bab", true),
            ("", "a", false),
        ] {
            assert_eq!(glob(pattern, name), expected, "{pattern} {name}");
        }
        let hostile = "*a".repeat(60);
        assert!(!glob(&hostile, &"a".repeat(59)) && glob(&hostile, &"a".repeat(5000)));
    }

    #[test]
    fn an_empty_list_allows_everything() {
        let scope = Scope { models: vec!["m*".to_owned()], ..Scope::default() };
        assert!(scope.allows_route("any") && scope.allows_tool("any"));
        assert!(scope.allows_model("m1") && !scope.allows_model("x") && scope.reads_requests());
        assert!(!Scope::default().reads_requests());
    }

    #[test]
    fn lists_have_bounds() {
        let tools = |tools: Vec<String>| Scope { tools, ..Scope::default() }.check();
        assert!(tools(vec!["t".to_owned(); ENTRIES_MAX]).is_ok());
        for odd in [
            vec!["t".to_owned(); ENTRIES_MAX + 1],
            vec![String::new()],
            vec!["x".repeat(ENTRY_BYTES_MAX + 1)],
            vec!["a\nb".to_owned()],
        ] {
            assert_eq!(tools(odd), Err(ScopeFault { list: "tools" }));
        }
    }
}
