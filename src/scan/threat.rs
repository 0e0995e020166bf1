//! The nouns of a scan: what was found, where, how bad, how sure.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use smallvec::SmallVec;

/// What kind of harm a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// Credentials of people and machines.
    Secrets,
    /// Personal data.
    Pii,
    /// Prompt injection and jailbreaks.
    Injection,
    /// Ways for data to leave: links, images, canaries.
    Exfiltration,
    /// Whatever an operator's own packs look for.
    Custom,
}

/// How bad it is when a finding is real.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing.
    Low,
    /// Worth acting on.
    Medium,
    /// Harm is likely.
    High,
    /// Harm is immediate.
    Critical,
}

/// How sure a detector is, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Confidence(u8);

/// The layer of the scanner that fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// Patterns and checks.
    L1Regex,
    /// Rules over findings.
    L2Rules,
    /// The trained model.
    L3Ml,
}

/// One step that was undone before a match was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encoding {
    /// Escapes, invisible characters and look-alikes.
    Canonical,
    /// Base64 or base64url.
    Base64,
    /// Hexadecimal.
    Hex,
    /// Another way to spell a text, one that only whole texts are read in.
    Spelt(Spelling),
}

/// A way to spell a text so that a person or a model reads it and a filter does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Spelling {
    /// Base32 of RFC 4648.
    Base32,
    /// Base85: Ascii85 with its marks or without, and the alphabet of RFC 1924.
    Ascii85,
    /// Quoted-printable of RFC 2045.
    QuotedPrintable,
    /// Base64 of a gzip file.
    Gzip,
    /// Base64 of what is deflated, bare or as zlib writes it.
    Deflate,
    /// Base64 or hexadecimal in short lines or groups.
    Grouped,
    /// Base64 of UTF-16, as PowerShell takes its commands.
    Utf16,
    /// Letters moved along the alphabet, ROT13 among them.
    Caesar,
    /// From the end to the beginning.
    Reversed,
    /// One letter at a time, with something between.
    Spaced,
    /// Digits and signs for letters.
    Leet,
    /// Morse code.
    Morse,
    /// Braille.
    Braille,
    /// Characters that show as nothing but have a width, in the place of spaces.
    Fillers,
    /// The numbers of characters: binary, octal, decimal or hexadecimal.
    Numbers,
    /// Strings that a program puts together.
    Joined,
}

/// The steps that were undone, outermost first; empty for plain text.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decoded(pub SmallVec<[Encoding; 3]>);

/// A detector's place in its scanner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DetectorId(pub u16);

/// A set of detectors of one scanner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetectorSet {
    words: Vec<u64>,
}

/// One match that stood up to its checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Who found it.
    pub detector: DetectorId,
    /// The whole match, in bytes of the scanned text.
    pub span: Range<usize>,
    /// The part that matters: what is checked, masked and reported; within `span`.
    pub value: Range<usize>,
    /// How sure the detector is, context included.
    pub confidence: Confidence,
    /// The layer that fired.
    pub layer: Layer,
    /// What had to be undone to see it.
    pub decoded_from: Decoded,
}

impl Finding {
    /// Returns the finding as seen from a place within the text that was scanned, if its value begins there: what of it
    /// lies behind the place is left out.
    pub fn within(self, place: &Range<usize>) -> Option<Self> {
        let inside = place.contains(&self.value.start);
        let seen = |range: &Range<usize>| {
            range.start.max(place.start) - place.start..range.end.min(place.end) - place.start
        };
        inside.then(|| Self { span: seen(&self.span), value: seen(&self.value), ..self })
    }

    /// Leaves out of the value what stands before an offset.
    pub(super) fn begin_at(&mut self, start: usize) {
        self.value.start = self.value.start.max(start).min(self.value.end);
    }
}

/// The text names no member of a closed set.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected one of {expected}")]
pub struct UnknownName {
    /// The names that are known, separated by commas.
    pub expected: &'static str,
}

impl Category {
    /// Every category, in the order of reports.
    pub const ALL: [Self; 5] = [Self::Secrets, Self::Pii, Self::Injection, Self::Exfiltration, Self::Custom];

    /// Returns the name used in packs, policies and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Secrets => "secrets",
            Self::Pii => "pii",
            Self::Injection => "injection",
            Self::Exfiltration => "exfiltration",
            Self::Custom => "custom",
        }
    }
}

impl FromStr for Category {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let expected = "secrets, pii, injection, exfiltration, custom";
        Self::ALL.into_iter().find(|known| known.as_str() == text).ok_or(UnknownName { expected })
    }
}

impl Severity {
    /// Every severity, mildest first.
    pub const ALL: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Critical];

    /// Returns the name used in packs, policies and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

impl FromStr for Severity {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let expected = "low, medium, high, critical";
        Self::ALL.into_iter().find(|known| known.as_str() == text).ok_or(UnknownName { expected })
    }
}

impl Confidence {
    /// What a match is worth that anything could look like.
    pub const LOW: Self = Self(30);
    /// What a match is worth that is usually right.
    pub const MEDIUM: Self = Self(60);
    /// What a match is worth that is next to never wrong.
    pub const HIGH: Self = Self(90);

    /// Returns a confidence of `percent`, cut at 100.
    pub fn from_percent(percent: u8) -> Self {
        Self(percent.min(100))
    }

    /// Returns the confidence in percent.
    pub fn percent(self) -> u8 {
        self.0
    }

    /// Returns the confidence between 0 and 1.
    pub fn as_unit(self) -> f64 {
        f64::from(self.0) / 100.0
    }

    /// Returns the confidence after its context spoke for it: one step up.
    pub fn raised(self) -> Self {
        match self {
            low if low < Self::MEDIUM => Self::MEDIUM,
            medium if medium < Self::HIGH => Self::HIGH,
            high => high,
        }
    }
}

impl FromStr for Confidence {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "low" => Ok(Self::LOW),
            "medium" => Ok(Self::MEDIUM),
            "high" => Ok(Self::HIGH),
            _ => Err(UnknownName { expected: "low, medium, high" }),
        }
    }
}

impl Layer {
    /// Returns the name used in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::L1Regex => "l1_regex",
            Self::L2Rules => "l2_rules",
            Self::L3Ml => "l3_ml",
        }
    }
}

impl Encoding {
    /// Returns the name used in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Canonical => "canonical",
            Self::Base64 => "base64",
            Self::Hex => "hex",
            Self::Spelt(spelling) => spelling.as_str(),
        }
    }
}

impl Spelling {
    /// Returns the name used in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Base32 => "base32",
            Self::Ascii85 => "ascii85",
            Self::QuotedPrintable => "quoted_printable",
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Grouped => "grouped",
            Self::Utf16 => "utf16",
            Self::Caesar => "caesar",
            Self::Reversed => "reversed",
            Self::Spaced => "spaced",
            Self::Leet => "leet",
            Self::Morse => "morse",
            Self::Braille => "braille",
            Self::Fillers => "fillers",
            Self::Numbers => "numbers",
            Self::Joined => "joined",
        }
    }

    /// Tells whether it stands for the bytes of a text, so that any detector may find something in it.
    ///
    /// What only plays with letters is read for orders, and turned letters for keys with a known beginning: it makes words of
    /// what has none.
    pub fn is_exact(self) -> bool {
        match self {
            Self::Base32 | Self::Ascii85 | Self::QuotedPrintable | Self::Numbers => true,
            Self::Gzip | Self::Deflate | Self::Grouped | Self::Utf16 | Self::Braille => true,
            Self::Fillers | Self::Joined => true,
            Self::Caesar | Self::Reversed | Self::Spaced | Self::Leet | Self::Morse => false,
        }
    }
}

impl fmt::Display for Decoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|step| step.as_str()).collect();
        f.write_str(&names.join("+"))
    }
}

impl DetectorSet {
    /// Returns the set as bits, the lowest id first.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Adds a detector.
    pub fn insert(&mut self, id: DetectorId) {
        let word = usize::from(id.0 / 64);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (id.0 % 64);
    }

    /// Tells whether a detector is in the set.
    pub fn contains(&self, id: DetectorId) -> bool {
        self.words.get(usize::from(id.0 / 64)).is_some_and(|word| word >> (id.0 % 64) & 1 == 1)
    }

    /// Tells whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Returns what is in either set.
    pub fn union(&self, other: &Self) -> Self {
        let length = self.words.len().max(other.words.len());
        let word = |set: &Self, at: usize| set.words.get(at).copied().unwrap_or(0);
        Self { words: (0..length).map(|at| word(self, at) | word(other, at)).collect() }
    }

    /// Returns what is in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        Self { words: self.words.iter().zip(&other.words).map(|(one, other)| one & other).collect() }
    }

    /// Returns the members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = DetectorId> + '_ {
        (0..self.words.len() * 64).map(|at| DetectorId(at as u16)).filter(|id| self.contains(*id))
    }
}

impl FromIterator<DetectorId> for DetectorSet {
    fn from_iter<I: IntoIterator<Item = DetectorId>>(ids: I) -> Self {
        let mut set = Self::default();
        ids.into_iter().for_each(|id| set.insert(id));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in() {
        let set: DetectorSet = [3, 64, 200].map(DetectorId).into_iter().collect();
        let other: DetectorSet = [4].map(DetectorId).into_iter().collect();
        let members: Vec<u16> = set.union(&other).iter().map(|id| id.0).collect();
        assert_eq!(members, [3, 4, 64, 200]);
        let few: DetectorSet = [4, 64].map(DetectorId).into_iter().collect();
        let members: Vec<u16> = set.intersection(&few).iter().map(|id| id.0).collect();
        assert_eq!(members, [64]);
        assert!(!set.contains(DetectorId(63)) && !set.contains(DetectorId(999)));
    }

    #[test]
    fn context_raises_by_one_step() {
        let steps = [Confidence::LOW.raised(), Confidence::MEDIUM.raised(), Confidence::HIGH.raised()];
        assert_eq!(steps, [Confidence::MEDIUM, Confidence::HIGH, Confidence::HIGH]);
    }
}
