//! Layer 3: a trained model that tells orders to a model from everything else, in microseconds.
//!
//! In: a text, where it comes from and what the other layers saw in it. Out: findings of the kinds that the
//! model's card declares, at the window that speaks loudest. A text is judged in its canonical view and in what
//! is encoded in it ([`reading`]). The usual model is [`linear`]: hashed n-grams of characters ([`feature`]), of
//! words and of what words mean ([`lexicon`]), summed over windows ([`pool`]) and weighed ([`stack`]). One of somebody
//! else's may take its place or stand beside it ([`onnx`]). Models are folders of `plugins/models` ([`shelf`]).
//!
//! A model is never certain. It reports what the texts it learnt from make likely, and its card says how often it
//! was wrong on texts it did not learn from.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use crate::scan::spelling::Readings;
use crate::scan::threat::Confidence;

pub mod card;
pub mod choice;
pub mod citation;
mod disguise;
pub mod errand;
pub mod feature;
pub mod format;
pub mod known;
pub mod lexicon;
pub mod linear;
pub mod litany;
pub mod normal;
pub mod onnx;
pub mod pool;
pub mod reading;
mod sentence;
pub mod shelf;
pub mod stack;

/// Where a text comes from, as far as a model cares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The person in front of the model, or nobody knows.
    #[default]
    User,
    /// The operator's own instructions.
    System,
    /// The model.
    Assistant,
    /// Whoever wrote what a tool gave back: pages, mails, files.
    Tool,
    /// Whoever describes a tool.
    Definition,
}

/// What a text is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Head {
    /// Orders to drop, to show or to do something else.
    Override,
    /// A persona without rules.
    Persona,
}

/// What is known of a text from elsewhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signals {
    /// Findings of injection of medium confidence.
    pub medium: usize,
    /// Findings of injection of high confidence.
    pub high: usize,
    /// Log odds that whoever asks adds to what the model says.
    pub bias: f32,
    /// What of it is read in other spellings as well.
    pub spellings: Spellings,
}

/// What of a text a model reads in other spellings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Spellings {
    /// Nothing: the text still grows, or nothing in it has another spelling.
    #[default]
    Unread,
    /// What stands in it, and what is encoded in it.
    All,
    /// The same, of which the readings of what stands in it were made already.
    Made(Arc<Readings>),
}

/// What a model says of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The log odds that it is an attack.
    pub odds: f32,
    /// What it would be.
    pub head: Head,
    /// The window that speaks loudest, in bytes of the text.
    pub window: Range<usize>,
    /// How sure the model is, where it reports the text at all.
    pub confidence: Option<Confidence>,
}

/// Why a model did not judge a text. What it would have said, nobody knows: that is for the policy to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unjudged {
    /// The time for it is over.
    #[error("the time for a text is over")]
    Late,
    /// The model fails at it.
    #[error("the model gave no answer")]
    Failed,
}

/// Something that judges texts; immutable, to be shared between threads.
pub trait Classifier: Debug + Send + Sync {
    /// Judges a text in its canonical view, for as long as there is time; who needs microseconds need not ask.
    ///
    /// # Errors
    /// The text was not judged, or not all of it.
    fn judge(
        &self,
        text: &[u8],
        origin: Origin,
        signals: &Signals,
        expired: &(dyn Fn() -> bool + Sync),
    ) -> Result<Verdict, Unjudged>;

    /// Tells whether a short text may take it milliseconds.
    fn is_slow(&self) -> bool {
        false
    }
}

impl Verdict {
    /// Returns the probability that the text is an attack.
    pub fn probability(&self) -> f32 {
        stack::probability(self.odds)
    }
}

impl Head {
    /// Every head.
    pub const ALL: [Self; 2] = [Self::Override, Self::Persona];

    /// Returns the name used in cards.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Override => "override",
            Self::Persona => "persona",
        }
    }
}

impl Origin {
    /// Every origin, in the order of models' tables.
    pub const ALL: [Self; 5] = [Self::User, Self::System, Self::Assistant, Self::Tool, Self::Definition];

    /// Returns its place in [`Origin::ALL`].
    pub fn index(self) -> usize {
        match self {
            Self::User => 0,
            Self::System => 1,
            Self::Assistant => 2,
            Self::Tool => 3,
            Self::Definition => 4,
        }
    }

    /// Tells whether strangers may have written the text.
    pub fn is_untrusted(self) -> bool {
        matches!(self, Self::Tool | Self::Definition)
    }
}
