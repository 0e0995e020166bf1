//! The card of a model: what it is, and the kinds of findings it reports.

use std::str::FromStr;

use serde::Deserialize;

use super::Head;
use super::errand::ErrandFault;
use super::errand::ErrandFile;
use super::onnx::settings::OnnxFile;
use crate::scan::pack::MODELS_FOLDER;
use crate::scan::pack::NAME_BYTES_MAX;
use crate::scan::tagger::chain::Tag;
use crate::scan::threat::Category;
use crate::scan::threat::Severity;
use crate::scan::threat::UnknownName;

/// What a card is called in the folder of its model.
pub const CARD: &str = "card.toml";
/// The most kinds of findings of one model.
pub const KINDS_MAX: usize = 16;

/// A card as it is written in `card.toml`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// The model itself.
    pub model: About,
    /// How the file is used, where it is a graph in the form of ONNX.
    pub onnx: Option<OnnxFile>,
    /// The kinds of findings it reports.
    #[serde(rename = "finding")]
    pub findings: Vec<FindingFile>,
    /// What it is not to be sure of alone; see [`errand`](super::errand).
    #[serde(default, rename = "errand")]
    pub errands: Vec<ErrandFile>,
}

/// What a card says of its model.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// The name, which is that of its folder.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The file beside the card that holds it.
    pub file: String,
    /// Whether it judges where nobody asks for another.
    #[serde(default)]
    pub default: bool,
}

/// A kind of finding as it is written.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct FindingFile {
    /// Its type, in snake case, unique over detectors and rules.
    pub r#type: String,
    /// The part of the model that reports it.
    pub head: String,
    /// What kind of harm it is about.
    pub category: String,
    /// How bad a real finding is.
    pub severity: String,
    /// Ids of the techniques it is evidence of.
    #[serde(default)]
    pub techniques: Vec<String>,
    /// Why it matters, in one sentence.
    pub why: String,
    /// Where its facts come from.
    #[serde(default)]
    pub references: Vec<String>,
}

/// The part of a model that reports a kind of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A head of a classifier.
    Head(Head),
    /// A tag of a tagger.
    Tag(Tag),
}

/// A kind of finding, valid by construction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learned {
    /// Its type.
    pub name: String,
    /// The part of the model that reports it.
    pub part: Part,
    /// What kind of harm it is about.
    pub category: Category,
    /// How bad a real finding is.
    pub severity: Severity,
    /// Ids of the techniques it is evidence of (MITRE ATLAS, OWASP).
    pub techniques: Vec<String>,
    /// Why it matters, in one sentence.
    pub why: String,
    /// Where its facts come from.
    pub references: Vec<String>,
    /// The model it comes from.
    pub model: String,
    /// The version of that model.
    pub version: String,
}

/// What is wrong with a card.
#[derive(Debug, thiserror::Error)]
pub enum CardFault {
    /// It is not TOML of this form.
    #[error("{}", .0.message())]
    Malformed(#[from] toml::de::Error),
    /// It is no text.
    #[error("is not UTF-8")]
    NotText,
    /// Its name is not that of its folder.
    #[error("the model is named `{0}`, unlike its folder")]
    Name(String),
    /// A type is no snake case name.
    #[error("`{0}` is no snake case name of at most {NAME_BYTES_MAX} bytes")]
    Type(String),
    /// A value is none of a closed set.
    #[error("`{field}` of `{kind}`: expected one of {expected}")]
    Unknown {
        /// The type it stands at.
        kind: String,
        /// The field.
        field: &'static str,
        /// What is known.
        expected: &'static str,
    },
    /// One of its errands.
    #[error(transparent)]
    Errand(#[from] ErrandFault),
    /// There are too many kinds, or none.
    #[error("declares {0} kinds of findings; 1 to {KINDS_MAX} are allowed")]
    Kinds(usize),
}

impl Part {
    /// Returns the name used in cards.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Head(head) => head.as_str(),
            Self::Tag(tag) => tag.as_str(),
        }
    }
}

impl FromStr for Part {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let heads = Head::ALL.map(Self::Head);
        let mut all = heads.into_iter().chain(Tag::ALL.map(Self::Tag));
        let expected = "override, persona, person, address, location, organization";
        all.find(|known| known.as_str() == text).ok_or(UnknownName { expected })
    }
}

impl Learned {
    /// Tells whether it is looked for only where a policy names it: what people write about every day.
    pub fn is_named_only(&self) -> bool {
        matches!(self.part, Part::Tag(_))
    }

    /// Returns the card that declares it, as a path below the folder of plugins.
    pub fn file(&self) -> String {
        format!("{MODELS_FOLDER}{}/{CARD}", self.model)
    }

    /// Tells whether it has the type or the part of another kind.
    pub fn meets(&self, other: &Self) -> bool {
        self.name == other.name || self.part == other.part
    }

    /// Tells whether it is the same as another kind, whatever model it comes from.
    pub fn means(&self, other: &Self) -> bool {
        let of = |kind: &Self| (kind.part, kind.category, kind.severity);
        self.name == other.name && of(self) == of(other)
    }
}

impl Card {
    /// Reads the card in the folder `folder`, and what it declares.
    ///
    /// # Errors
    /// The first fault.
    pub fn read(text: &[u8], folder: &str) -> Result<(Self, Vec<Learned>), CardFault> {
        let text = std::str::from_utf8(text).map_err(|_| CardFault::NotText)?;
        let card: Self = toml::from_str(text)?;
        if card.model.name != folder {
            return Err(CardFault::Name(card.model.name));
        }
        if card.findings.is_empty() || card.findings.len() > KINDS_MAX {
            return Err(CardFault::Kinds(card.findings.len()));
        }
        let learned =
            card.findings.iter().map(|finding| finding.learned(&card.model)).collect::<Result<_, _>>()?;
        Ok((card, learned))
    }
}

impl FindingFile {
    fn learned(&self, model: &About) -> Result<Learned, CardFault> {
        let snake = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let begins = self.r#type.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
        if !begins || self.r#type.len() > NAME_BYTES_MAX || !self.r#type.bytes().all(snake) {
            return Err(CardFault::Type(self.r#type.clone()));
        }
        Ok(Learned {
            name: self.r#type.clone(),
            part: Part::from_str(&self.head).map_err(|unknown| self.unknown("head", unknown.expected))?,
            category: Category::from_str(&self.category)
                .map_err(|unknown| self.unknown("category", unknown.expected))?,
            severity: Severity::from_str(&self.severity)
                .map_err(|unknown| self.unknown("severity", unknown.expected))?,
            techniques: self.techniques.clone(),
            why: self.why.clone(),
            references: self.references.clone(),
            model: model.name.clone(),
            version: model.version.clone(),
        })
    }

    fn unknown(&self, field: &'static str, expected: &'static str) -> CardFault {
        CardFault::Unknown { kind: self.r#type.clone(), field, expected }
    }
}
