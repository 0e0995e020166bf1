//! Where a dialect's answers tell tokens and model: as it is written, and as it is read.

use serde::Deserialize;

use super::file::keys;

/// Where tokens and model are told: alternatives of sums of paths.
#[derive(Debug)]
pub(crate) struct UsagePaths {
    pub(crate) prompt: Vec<Vec<Vec<String>>>,
    pub(crate) completion: Vec<Vec<Vec<String>>>,
    pub(crate) total: Vec<Vec<Vec<String>>>,
    pub(crate) cached: Vec<Vec<Vec<String>>>,
    pub(crate) cache_write: Vec<Vec<Vec<String>>>,
    pub(crate) cache_write_long: Vec<Vec<Vec<String>>>,
    pub(crate) reasoning: Vec<Vec<Vec<String>>>,
    pub(crate) audio_prompt: Vec<Vec<Vec<String>>>,
    pub(crate) audio_completion: Vec<Vec<Vec<String>>>,
    pub(crate) completion_max: Vec<Vec<Vec<String>>>,
    pub(crate) answers: Vec<Vec<Vec<String>>>,
    pub(crate) model: Vec<Vec<String>>,
}

/// The table `[usage]` of a dialect's file: alternatives, each a sum of dotted paths.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UsageFile {
    #[serde(default)]
    prompt: Vec<Vec<String>>,
    #[serde(default)]
    completion: Vec<Vec<String>>,
    #[serde(default)]
    total: Vec<Vec<String>>,
    #[serde(default)]
    model: Vec<String>,
    #[serde(default)]
    cached: Vec<Vec<String>>,
    #[serde(default)]
    cache_write: Vec<Vec<String>>,
    #[serde(default)]
    cache_write_long: Vec<Vec<String>>,
    #[serde(default)]
    reasoning: Vec<Vec<String>>,
    #[serde(default)]
    audio_prompt: Vec<Vec<String>>,
    #[serde(default)]
    audio_completion: Vec<Vec<String>>,
    #[serde(default)]
    completion_max: Vec<Vec<String>>,
    #[serde(default)]
    answers: Vec<Vec<String>>,
}

impl UsageFile {
    /// Returns where use is told.
    pub(super) fn paths(&self) -> UsagePaths {
        UsagePaths {
            prompt: sums(&self.prompt),
            completion: sums(&self.completion),
            total: sums(&self.total),
            cached: sums(&self.cached),
            cache_write: sums(&self.cache_write),
            cache_write_long: sums(&self.cache_write_long),
            reasoning: sums(&self.reasoning),
            audio_prompt: sums(&self.audio_prompt),
            audio_completion: sums(&self.audio_completion),
            completion_max: sums(&self.completion_max),
            answers: sums(&self.answers),
            model: self.model.iter().map(|path| keys(path)).collect(),
        }
    }
}

fn sums(written: &[Vec<String>]) -> Vec<Vec<Vec<String>>> {
    written.iter().map(|sum| sum.iter().map(|path| keys(path)).collect()).collect()
}
