//! All models there are, and the kinds of findings they report.
//!
//! In: the files below `plugins/models`, a folder for each model with its `card.toml` and what the card names.
//! Out: a [`Shelf`] from which a model is asked for by its name. Kinds of the same type in several cards are one:
//! the first card, by name, says what it means. Their ids come after those of all detectors.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Classifier;
use super::Origin;
use super::Signals;
use super::card::Card;
use super::card::CardFault;
use super::card::Learned;
use super::format;
use super::format::FormatFault;
use super::linear::Judge;
use super::reading;
use crate::scan::threat::Category;
use crate::scan::threat::Confidence;
use crate::scan::threat::DetectorId;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Finding;
use crate::scan::threat::Layer;

/// The most models there may be.
pub const MODELS_MAX: usize = 16;

/// Where the card lies in the folder of a model.
const CARD: &str = "card.toml";

/// The files of all models, by path below the folder of plugins.
pub type ModelFiles = BTreeMap<String, Arc<[u8]>>;

/// Models, ready to be asked.
#[derive(Debug, Default)]
pub struct Shelf {
    /// The id of the first kind.
    first: u16,
    kinds: Vec<Learned>,
    models: BTreeMap<String, Arc<dyn Classifier>>,
    default: Option<String>,
    files: ModelFiles,
}

/// What is wrong with a model.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {problem}")]
pub struct ModelFault {
    /// The file, as a path below the folder of plugins.
    pub file: String,
    /// What is wrong.
    pub problem: ModelProblem,
}

/// What can be wrong with a model.
#[derive(Debug, thiserror::Error)]
pub enum ModelProblem {
    /// Its card.
    #[error(transparent)]
    Card(#[from] CardFault),
    /// Its file.
    #[error(transparent)]
    Format(#[from] FormatFault),
    /// The card names a file that is not there.
    #[error("the file `{0}` that the card names is not there")]
    Missing(String),
    /// There are too many models.
    #[error("there are more than {MODELS_MAX} models")]
    TooMany,
    /// A type is that of a detector.
    #[error("`{0}` is the type of a detector, too")]
    Taken(String),
}

impl Shelf {
    /// Reads models, to go with the detectors of a scanner.
    ///
    /// # Errors
    /// Every fault of every model.
    pub fn read(files: ModelFiles, detectors: &[&str]) -> Result<Self, Vec<ModelFault>> {
        let mut shelf = Self { first: detectors.len() as u16, ..Self::default() };
        let mut faults = Vec::new();
        let mut default = None;
        for (path, text) in &files {
            let Some(folder) = folder_of(path) else { continue };
            let fault = |problem: ModelProblem| ModelFault { file: path.clone(), problem };
            if shelf.models.len() == MODELS_MAX {
                faults.push(fault(ModelProblem::TooMany));
                break;
            }
            match read_model(&files, folder, text) {
                Ok((card, kinds, model)) => {
                    if card.model.default {
                        default = Some(card.model.name.clone());
                    }
                    shelf.models.insert(card.model.name, model);
                    for kind in kinds {
                        if detectors.contains(&kind.name.as_str()) {
                            faults.push(fault(ModelProblem::Taken(kind.name)));
                        } else if !shelf.kinds.iter().any(|known| known.name == kind.name) {
                            shelf.kinds.push(kind);
                        }
                    }
                }
                Err(problem) => faults.push(fault(problem)),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        shelf.default = default.or_else(|| shelf.models.keys().next().cloned());
        shelf.files = files;
        Ok(shelf)
    }

    /// Returns the files that the models were read from.
    pub fn files(&self) -> &ModelFiles {
        &self.files
    }

    /// Returns the kinds of findings, in the order of their ids.
    pub fn kinds(&self) -> &[Learned] {
        &self.kinds
    }

    /// Returns the kind of an id, if it is one of a model.
    pub fn kind(&self, id: DetectorId) -> Option<&Learned> {
        self.kinds.get(usize::from(id.0.checked_sub(self.first)?))
    }

    /// Returns the ids of all kinds.
    pub fn ids(&self) -> impl Iterator<Item = DetectorId> + '_ {
        (0..self.kinds.len()).map(|at| DetectorId(self.first + at as u16))
    }

    /// Returns the names of all models.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.models.keys().map(String::as_str)
    }

    /// Returns a model by its name, or the usual one.
    pub fn model(&self, name: Option<&str>) -> Option<&dyn Classifier> {
        let name = name.or(self.default.as_deref())?;
        self.models.get(name).map(|model| &**model)
    }

    /// Returns what the usual model finds in a text, if that is wanted.
    ///
    /// `seen` is what the first layer found in it. One finding at most, at the window that speaks loudest.
    pub fn find(&self, text: &[u8], origin: Origin, seen: &Signals, wanted: &DetectorSet) -> Option<Finding> {
        self.find_by(self.model(None)?, text, origin, seen, wanted)
    }

    /// Does the same with a model of one's choice.
    pub fn find_by(
        &self,
        model: &dyn Classifier,
        text: &[u8],
        origin: Origin,
        seen: &Signals,
        wanted: &DetectorSet,
    ) -> Option<Finding> {
        if !self.ids().any(|id| wanted.contains(id)) {
            return None;
        }
        let told = reading::judge(model, text, origin, seen)?;
        let confidence = told.verdict.confidence?;
        let at = self.kinds.iter().position(|kind| kind.head == told.verdict.head)?;
        let detector = DetectorId(self.first + at as u16);
        wanted.contains(detector).then(|| Finding {
            detector,
            span: told.verdict.window.clone(),
            value: told.verdict.window,
            confidence,
            layer: Layer::L3Ml,
            decoded_from: told.decoded_from,
        })
    }
}

impl Signals {
    /// Counts findings of injection; `category` tells what a finding is about.
    pub fn of(findings: &[Finding], category: impl Fn(DetectorId) -> Option<Category>) -> Self {
        let mut signals = Self::default();
        for finding in findings.iter().filter(|it| category(it.detector) == Some(Category::Injection)) {
            signals.high += usize::from(finding.confidence >= Confidence::HIGH);
            let is_medium = (Confidence::MEDIUM..Confidence::HIGH).contains(&finding.confidence);
            signals.medium += usize::from(is_medium);
        }
        signals
    }
}

/// Returns the folder of a card.
fn folder_of(path: &str) -> Option<&str> {
    let folder = path.strip_suffix(CARD)?.strip_suffix('/')?;
    folder.rsplit('/').next()
}

type Model = (Card, Vec<Learned>, Arc<dyn Classifier>);

fn read_model(files: &ModelFiles, folder: &str, card: &[u8]) -> Result<Model, ModelProblem> {
    let (card, kinds) = Card::read(card, folder)?;
    let named = files.iter().find(|(path, _)| {
        path.strip_suffix(card.model.file.as_str())
            .and_then(|rest| rest.strip_suffix('/'))
            .is_some_and(|rest| rest.rsplit('/').next() == Some(folder))
    });
    let (_, file) = named.ok_or_else(|| ModelProblem::Missing(card.model.file.clone()))?;
    let model = Judge::new(format::read(file)?);
    Ok((card, kinds, Arc::new(model)))
}

#[cfg(test)]
mod tests;
