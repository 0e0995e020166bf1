//! Names of people: one spelling each, and none that looks like another.
//!
//! A name is brought into one form (NFKC, lower case) before it is kept or looked up, so that how a
//! keyboard writes it does not matter. What could deceive a reader is refused: invisible characters,
//! characters that Unicode's security profile (UTS 39) keeps out of identifiers, letters of several
//! scripts in one name. Two names whose skeletons (UTS 39, section 4) are the same cannot both be users.

use unicode_normalization::UnicodeNormalization;
use unicode_security::GeneralSecurityProfile;
use unicode_security::MixedScript;
use unicode_security::skeleton;

/// The longest name, in characters.
pub const NAME_CHARS_MAX: usize = 64;
/// The longest name that is looked at, in bytes as it was sent.
pub const NAME_BYTES_MAX: usize = 512;

/// Beside letters and digits.
const MARKS: [char; 5] = ['.', '-', '_', '@', '+'];

/// A name in its one form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserName(String);

/// Why a text is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameFault {
    /// It is empty or too long.
    #[error("a user's name has 1 to {NAME_CHARS_MAX} characters")]
    Length,
    /// It holds what a name cannot.
    #[error("a user's name is made of letters, digits and . - _ @ +, and begins with a letter or a digit")]
    Characters,
    /// It mixes scripts.
    #[error("a user's name is written in one script")]
    Scripts,
}

impl UserName {
    /// Reads a name as somebody typed it.
    ///
    /// # Errors
    /// See [`NameFault`].
    pub fn parse(typed: &str) -> Result<Self, NameFault> {
        if typed.len() > NAME_BYTES_MAX {
            return Err(NameFault::Length);
        }
        // Lower case may undo the normal form, and the normal form the case: after two rounds both hold.
        let once: String = typed.nfkc().flat_map(char::to_lowercase).collect();
        let name: String = once.nfkc().flat_map(char::to_lowercase).nfkc().collect();
        if !(1..=NAME_CHARS_MAX).contains(&name.chars().count()) {
            return Err(NameFault::Length);
        }
        let begins_well = name.chars().next().is_some_and(char::is_alphanumeric);
        let fits = |it: char| MARKS.contains(&it) || (it.identifier_allowed() && it != '\'');
        if !begins_well || !name.chars().all(fits) {
            return Err(NameFault::Characters);
        }
        if name.is_single_script() { Ok(Self(name)) } else { Err(NameFault::Scripts) }
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns what the name looks like: the same for names that a reader could take for each other.
    pub fn skeleton(&self) -> String {
        skeleton(&self.0).collect()
    }
}

/// Tells whether a text may be shown as a label: no control characters, and none that cannot be seen or
/// that turn the text around it.
pub fn is_label(text: &str) -> bool {
    let hides = |it: char| {
        matches!(
            it,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
    };
    !text.chars().any(|it| it.is_control() || hides(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_person_has_one_spelling() {
        for (typed, kept) in [
            ("Ada", "ada"),
            ("ada", "ada"),
            ("\u{ff21}da", "ada"),
            ("jose\u{301}", "jos\u{e9}"),
            ("JOS\u{c9}", "jos\u{e9}"),
            ("ada.lovelace+ci@example.com", "ada.lovelace+ci@example.com"),
            ("\u{414}\u{430}\u{440}\u{44c}\u{44f}", "\u{434}\u{430}\u{440}\u{44c}\u{44f}"),
            ("\u{674e}\u{56db}", "\u{674e}\u{56db}"),
        ] {
            assert_eq!(UserName::parse(typed).map(|name| name.0), Ok(kept.to_owned()), "{typed}");
            assert_eq!(UserName::parse(kept).map(|name| name.0), Ok(kept.to_owned()), "{kept}");
        }
    }

    #[test]
    fn what_deceives_is_no_name() {
        let long = "x".repeat(NAME_CHARS_MAX + 1);
        for (typed, fault) in [
            ("", NameFault::Length),
            (long.as_str(), NameFault::Length),
            (" ada", NameFault::Characters),
            ("ada lovelace", NameFault::Characters),
            ("ada\n", NameFault::Characters),
            ("ad\u{200b}a", NameFault::Characters),
            ("\u{202e}ada", NameFault::Characters),
            (".ada", NameFault::Characters),
            ("a/b", NameFault::Characters),
            ("<b>", NameFault::Characters),
            ("\u{1f600}", NameFault::Characters),
            // The first letter is Cyrillic.
            ("\u{430}da", NameFault::Scripts),
        ] {
            assert_eq!(UserName::parse(typed), Err(fault), "{typed:?}");
        }
    }

    #[test]
    fn names_that_look_alike_have_one_skeleton() {
        let skeleton = |name: &str| UserName::parse(name).unwrap().skeleton();
        assert_eq!(skeleton("\u{430}\u{440}\u{440}"), skeleton("app"));
        assert_eq!(skeleton("admin1"), skeleton("adminl"));
        assert_ne!(skeleton("ada"), skeleton("adb"));
    }

    #[test]
    fn a_label_shows_all_it_is() {
        assert!(is_label("CI of caf\u{e9}, \u{674e}\u{56db}"));
        for odd in ["a\nb", "a\u{0}", "a\u{1b}[31m", "a\u{202e}b", "a\u{200b}", "\u{feff}a"] {
            assert!(!is_label(odd), "{odd:?}");
        }
    }
}
