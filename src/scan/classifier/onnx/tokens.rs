//! A text as the numbers that a graph reads: its bytes, or what a tokenizer of its own makes of it.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use tokenizers::ModelWrapper;
use tokenizers::Tokenizer;

use super::fault::OnnxFault;
use super::fault::detail;
use super::guard::Failed;
use super::guard::guarded;
use super::window::Token;

/// The longest file of a tokenizer, in bytes.
pub const TOKENIZER_BYTES_MAX: usize = 32 << 20;

/// A text that every tokenizer makes tokens of.
const PROBE: &str = "a";

/// What cuts a text into tokens.
pub enum Tokens {
    /// Its bytes, by their value.
    Bytes,
    /// A tokenizer, and the tokens it puts around every text.
    Cut {
        /// The tokenizer, which puts none.
        tokenizer: Box<Tokenizer>,
        /// What stands before a text.
        before: Vec<u32>,
        /// What stands behind it.
        behind: Vec<u32>,
    },
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes => f.write_str("Bytes"),
            Self::Cut { .. } => f.debug_struct("Cut").finish_non_exhaustive(),
        }
    }
}

impl Tokens {
    /// Reads a tokenizer in the form of `tokenizer.json`.
    ///
    /// # Errors
    /// It is no tokenizer, is too long, or is not steady.
    pub fn read(file: &str, text: &[u8]) -> Result<Self, OnnxFault> {
        if text.len() > TOKENIZER_BYTES_MAX {
            return Err(OnnxFault::TooLong { file: file.to_owned(), limit: TOKENIZER_BYTES_MAX });
        }
        let fault = |failed: Failed| OnnxFault::Tokenizer { file: file.to_owned(), detail: detail(&failed) };
        let mut tokenizer = guarded(|| Tokenizer::from_bytes(text)).map_err(fault)?;
        let is_steady = match tokenizer.get_model() {
            ModelWrapper::BPE(model) => model.dropout.is_none_or(|chance| chance == 0.0),
            ModelWrapper::Unigram(model) => model.alpha.is_none() && model.nbest_size.is_none(),
            ModelWrapper::WordPiece(_) | ModelWrapper::WordLevel(_) => true,
        };
        if !is_steady {
            return Err(OnnxFault::Chance(file.to_owned()));
        }
        // All of a text is read, a window at a time; and what a text says is never taken for a mark.
        guarded(|| tokenizer.with_truncation(None).map(drop)).map_err(fault)?;
        tokenizer.with_padding(None);
        tokenizer.set_encode_special_tokens(true);
        let encoded = |with_marks: bool| guarded(|| tokenizer.encode(PROBE, with_marks)).map_err(fault);
        let (alone, marked) = (encoded(false)?, encoded(true)?);
        let (alone, marked) = (alone.get_ids(), marked.get_ids());
        let at = marked.windows(alone.len().max(1)).position(|ids| ids == alone).ok_or_else(|| {
            fault(Failed("it makes no tokens of a letter, or others when it marks its ends".to_owned()))
        })?;
        let (before, behind) = (marked[..at].to_vec(), marked[at + alone.len()..].to_vec());
        Ok(Self::Cut { tokenizer: Box::new(tokenizer), before, behind })
    }

    /// Returns how many tokens of a window are none of the text.
    pub fn marks(&self) -> usize {
        match self {
            Self::Bytes => 0,
            Self::Cut { before, behind, .. } => before.len() + behind.len(),
        }
    }

    /// Returns the highest number of a token.
    pub fn highest(&self) -> u32 {
        match self {
            Self::Bytes => u8::MAX.into(),
            Self::Cut { tokenizer, .. } => tokenizer.get_vocab(true).into_values().max().unwrap_or_default(),
        }
    }

    /// Adds the tokens of a part of a text.
    ///
    /// # Errors
    /// The tokenizer fails.
    pub fn push(&self, text: &[u8], part: Range<usize>, ahead: &mut Vec<Token>) -> Result<(), Failed> {
        let bytes = text.get(part.clone()).unwrap_or_default();
        match self {
            Self::Bytes => {
                let tokens = bytes.iter().zip(part);
                ahead.extend(tokens.map(|(byte, at)| Token { id: u32::from(*byte), range: at..at + 1 }));
            }
            Self::Cut { tokenizer, .. } => {
                let encoding = guarded(|| tokenizer.encode(&*legible(bytes), false))?;
                let place = |at: usize| part.start + at.min(bytes.len());
                let tokens = encoding.get_ids().iter().zip(encoding.get_offsets());
                ahead.extend(tokens.map(|(id, (from, until))| Token {
                    id: *id,
                    range: place(*from)..place(*until.max(from)),
                }));
            }
        }
        Ok(())
    }

    /// Returns the numbers of a window, with the marks around them.
    pub fn window(&self, tokens: &[Token]) -> Vec<u32> {
        let ids = tokens.iter().map(|token| token.id);
        match self {
            Self::Bytes => ids.collect(),
            Self::Cut { before, behind, .. } => {
                before.iter().copied().chain(ids).chain(behind.iter().copied()).collect()
            }
        }
    }
}

/// Returns a text with a blank for each byte that is none of a character, so that every byte stays where it is.
fn legible(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(std::iter::repeat_n(' ', chunk.invalid().len()));
    }
    Cow::Owned(text)
}
