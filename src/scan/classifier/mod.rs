//! Layer 3: a trained model that tells orders to a model from everything else, in microseconds.

pub mod feature;
pub mod lexicon;
pub mod normal;
pub mod pool;
pub mod stack;

/// Where a text comes from, as far as the model cares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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

impl Origin {
    /// Tells whether strangers may have written the text.
    pub fn is_untrusted(self) -> bool {
        matches!(self, Self::Tool | Self::Definition)
    }
}
