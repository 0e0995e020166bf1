//! The `[onnx]` table of a card: how texts become what a graph reads, and how what it says becomes a verdict.

use std::str::FromStr;

use serde::Deserialize;

use super::fault::OnnxFault;
use crate::scan::classifier::Head;
use crate::scan::classifier::Origin;
use crate::scan::classifier::linear::Levels;
use crate::scan::classifier::stack;

/// The longest window, in tokens.
pub const WINDOW_TOKENS_MAX: usize = 8192;
/// The shortest window, in tokens.
pub const WINDOW_TOKENS_MIN: usize = 8;
/// The most classes of a model.
pub const CLASSES_MAX: usize = 64;

/// The tokenizer whose tokens are bytes.
pub const BYTES: &str = "bytes";
const BENIGN: &str = "benign";

/// The table as it is written.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct OnnxFile {
    /// `bytes`, or the file beside the card that says how to cut a text into tokens.
    pub tokenizer: String,
    /// How many tokens the graph reads at once, with the marks at both ends.
    pub window: usize,
    /// How many tokens there are from the beginning of one window to that of the next.
    pub stride: usize,
    /// The token that fills up a window of a graph of fixed length.
    #[serde(default)]
    pub pad: u32,
    /// The input for the tokens.
    #[serde(default = "ids")]
    pub ids: String,
    /// The input that tells tokens from what fills up a window; without a name, the usual one if the graph has it.
    pub mask: Option<String>,
    /// The input that tells a first text from a second; without a name, the usual one if the graph has it.
    pub types: Option<String>,
    /// The output; without a name, the first one.
    pub output: Option<String>,
    /// What the numbers of the output are.
    pub scores: String,
    /// What each of them speaks for, in order: `benign`, or a head.
    pub classes: Vec<String>,
    /// From which probability on a text is reported.
    pub levels: LevelsFile,
}

/// From which probability on a text is reported.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LevelsFile {
    /// With medium confidence, wherever it comes from.
    pub watch: f32,
    /// With high confidence.
    pub sure: f32,
    /// For what the person says.
    pub user: Option<LevelFile>,
    /// For the operator's own instructions.
    pub system: Option<LevelFile>,
    /// For what the model says.
    pub assistant: Option<LevelFile>,
    /// For what a tool gives back.
    pub tool: Option<LevelFile>,
    /// For how a tool is described.
    pub definition: Option<LevelFile>,
}

/// The same for one origin.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LevelFile {
    /// With medium confidence.
    pub watch: f32,
    /// With high confidence.
    pub sure: f32,
}

/// What the numbers of an output are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scores {
    /// Logits of which one is right.
    Softmax,
    /// Logits each of which may be right.
    Sigmoid,
    /// Probabilities that add up to one, or a single one.
    Probabilities,
}

/// The table, valid by construction.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How many tokens the graph reads at once, with the marks at both ends.
    pub window: usize,
    /// How many tokens there are from the beginning of one window to that of the next.
    pub stride: usize,
    /// The token that fills up a window.
    pub pad: u32,
    /// What the numbers of the output are.
    pub scores: Scores,
    /// What each of them speaks for; none: that there is nothing.
    pub classes: Vec<Option<Head>>,
    /// From which log odds on a text is reported.
    pub levels: Levels,
}

fn ids() -> String {
    "input_ids".to_owned()
}

impl FromStr for Scores {
    type Err = OnnxFault;

    fn from_str(text: &str) -> Result<Self, OnnxFault> {
        match text {
            "softmax" => Ok(Self::Softmax),
            "sigmoid" => Ok(Self::Sigmoid),
            "probabilities" => Ok(Self::Probabilities),
            _ => Err(OnnxFault::Scores),
        }
    }
}

impl OnnxFile {
    /// Judges what is written.
    ///
    /// # Errors
    /// The first fault.
    pub fn settings(&self) -> Result<Settings, OnnxFault> {
        if !(WINDOW_TOKENS_MIN..=WINDOW_TOKENS_MAX).contains(&self.window) {
            return Err(OnnxFault::Window);
        }
        if self.stride == 0 || self.stride > self.window {
            return Err(OnnxFault::Stride);
        }
        let scores = self.scores.parse()?;
        Ok(Settings {
            window: self.window,
            stride: self.stride,
            pad: self.pad,
            scores,
            classes: self.classes(scores)?,
            levels: self.levels.levels()?,
        })
    }

    fn classes(&self, scores: Scores) -> Result<Vec<Option<Head>>, OnnxFault> {
        let class = |name: &String| match name.as_str() {
            BENIGN => Ok(None),
            name => Head::ALL
                .into_iter()
                .find(|head| head.as_str() == name)
                .map(Some)
                .ok_or_else(|| OnnxFault::Class(name.to_owned())),
        };
        let classes = self.classes.iter().map(class).collect::<Result<Vec<_>, _>>()?;
        let has_benign = classes.contains(&None);
        let is_told_apart = match scores {
            Scores::Softmax => has_benign,
            Scores::Sigmoid => true,
            Scores::Probabilities => has_benign || classes.len() == 1,
        };
        let has_attack = classes.iter().any(Option::is_some);
        match is_told_apart && has_attack && classes.len() <= CLASSES_MAX {
            true => Ok(classes),
            false => Err(OnnxFault::Classes),
        }
    }
}

impl LevelsFile {
    fn levels(&self) -> Result<Levels, OnnxFault> {
        let all = LevelFile { watch: self.watch, sure: self.sure };
        let written = Origin::ALL.map(|origin| {
            let own = match origin {
                Origin::User => self.user,
                Origin::System => self.system,
                Origin::Assistant => self.assistant,
                Origin::Tool => self.tool,
                Origin::Definition => self.definition,
            };
            own.unwrap_or(all)
        });
        let is_right = |it: &LevelFile| 0.0 < it.watch && it.watch <= it.sure && it.sure < 1.0;
        if !written.iter().chain([&all]).all(is_right) {
            return Err(OnnxFault::Levels);
        }
        Ok(Levels {
            watch: written.map(|it| stack::log_odds(it.watch)),
            sure: written.map(|it| stack::log_odds(it.sure)),
        })
    }
}
