//! What is wrong with a model in the form of ONNX.

use super::settings::CLASSES_MAX;
use super::settings::WINDOW_TOKENS_MAX;
use super::settings::WINDOW_TOKENS_MIN;

/// How much of another library's explanation is repeated, in bytes.
const DETAIL_BYTES_MAX: usize = 240;

/// What is wrong with a model in the form of ONNX.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum OnnxFault {
    /// The window has no good length.
    #[error("`onnx.window`: expected {WINDOW_TOKENS_MIN} to {WINDOW_TOKENS_MAX} tokens")]
    Window,
    /// The windows would leave something out, or not go on.
    #[error("`onnx.stride`: expected a number from 1 to as many tokens as fit in a window beside its marks")]
    Stride,
    /// Nobody knows what the output means.
    #[error("`onnx.scores`: expected one of softmax, sigmoid, probabilities")]
    Scores,
    /// A class is none of a closed set.
    #[error("`onnx.classes`: `{0}` is none of benign, override, persona")]
    Class(String),
    /// The classes do not tell attacks from the rest.
    #[error(
        "`onnx.classes`: expected 1 to {CLASSES_MAX}, some of them not `benign`, and one of them `benign` unless each \
         has a score of its own"
    )]
    Classes,
    /// The model reports something that the card does not declare.
    #[error("`onnx.classes`: no `[[finding]]` has the head `{0}`")]
    Undeclared(&'static str),
    /// The thresholds are in no order.
    #[error("`onnx.levels`: expected 0 < watch <= sure < 1")]
    Levels,
    /// The tokenizer is not there.
    #[error("`onnx.tokenizer`: the file `{0}` is not there")]
    NoTokenizer(String),
    /// The tokenizer is too long.
    #[error("`{file}` has more than {limit} bytes")]
    TooLong {
        /// The file.
        file: String,
        /// The most bytes it may have.
        limit: usize,
    },
    /// The tokenizer cannot be read.
    #[error("`{file}` cannot be read as a tokenizer: {detail}")]
    Tokenizer {
        /// The file.
        file: String,
        /// Why.
        detail: String,
    },
    /// The tokenizer drops tokens, or chooses them, by chance.
    #[error("`{0}` cuts the same text in different ways (dropout or sampling); switch that off")]
    Chance(String),
    /// The graph draws lots.
    #[error("`{0}` gave different numbers for the same text")]
    Unsteady(String),
    /// The file is no model.
    #[error("`{file}` cannot be read as an ONNX model: {detail}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        detail: String,
    },
    /// Some of the model lies elsewhere.
    #[error("`{0}` keeps weights in other files; save it as one file")]
    External(String),
    /// The model needs what is not known.
    #[error("`{file}` needs operators that are not known: {operators}")]
    Operators {
        /// The file.
        file: String,
        /// The operators.
        operators: String,
    },
    /// The card names an input that is not there.
    #[error("`{file}` has no input `{input}`; it has {known}")]
    NoInput {
        /// The file.
        file: String,
        /// The input.
        input: String,
        /// The inputs that are there.
        known: String,
    },
    /// The model wants more than the card gives.
    #[error("`{file}` has an input `{input}` that the card gives nothing for")]
    Input {
        /// The file.
        file: String,
        /// The input.
        input: String,
    },
    /// An input is no list of token numbers.
    #[error("`{file}`: its input `{input}` takes no whole numbers of shape [1, tokens]")]
    Shape {
        /// The file.
        file: String,
        /// The input.
        input: String,
    },
    /// The length of an input is another one than that of a window.
    #[error("`{file}`: its input `{input}` takes {tokens} tokens, unlike `onnx.window`")]
    Length {
        /// The file.
        file: String,
        /// The input.
        input: String,
        /// How many tokens it takes.
        tokens: i64,
    },
    /// The card names an output that is not there.
    #[error("`{file}` has no output `{output}`; it has {known}")]
    NoOutput {
        /// The file.
        file: String,
        /// The output.
        output: String,
        /// The outputs that are there.
        known: String,
    },
    /// The output has another number of classes than the card.
    #[error("`{file}` gives {found} numbers for a text; the card has {expected} classes")]
    Outputs {
        /// The file.
        file: String,
        /// How many numbers it gives.
        found: usize,
        /// How many classes there are.
        expected: usize,
    },
    /// It cannot be made ready, or did not judge a text that it was tried on.
    #[error("`{file}` cannot be run: {detail}")]
    Run {
        /// The file.
        file: String,
        /// Why.
        detail: String,
    },
    /// It said something that is no number.
    #[error("`{0}` gave a number that is none, or no probability, for a harmless text")]
    NotFinite(String),
}

/// Returns as much of an explanation as is repeated, on one line.
pub(super) fn detail(error: &dyn std::fmt::Display) -> String {
    let mut text = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    if text.len() > DETAIL_BYTES_MAX {
        text.truncate(text.floor_char_boundary(DETAIL_BYTES_MAX));
        text.push('…');
    }
    text
}
