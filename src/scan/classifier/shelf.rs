//! All models there are, and the kinds of findings they report.
//!
//! In: the files below `plugins/models`, a folder for each model with its `card.toml` and what the card names.
//! Out: a [`Shelf`] from which a model is asked for by its name. Kinds of the same type in several cards are one, and
//! have to be: one part of a model reports one type, which means the same in every card. The first card, by name, says
//! why it matters. Their ids come after those of all detectors.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::Classifier;
use super::Head;
use super::Origin;
use super::Signals;
use super::Unjudged;
use super::card::CARD;
use super::card::Card;
use super::card::CardFault;
use super::card::Learned;
use super::card::Part;
use super::errand::Errands;
use super::errand::Spared;
use super::format;
use super::linear::Judge;
use super::onnx;
use super::onnx::Onnx;
use super::onnx::fault::OnnxFault;
use super::reading;
use super::reading::Told;
use crate::scan::numbers::FormatFault;
use crate::scan::pack;
use crate::scan::tagger;
use crate::scan::tagger::late::LateTagger;
use crate::scan::tagger::names::Names;
use crate::scan::threat::Category;
use crate::scan::threat::Confidence;
use crate::scan::threat::DetectorId;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Finding;
use crate::scan::threat::Layer;

/// The most models there may be.
pub const MODELS_MAX: usize = 16;

/// The files of all models, by path below the folder of plugins.
pub type ModelFiles = BTreeMap<String, Bytes>;

/// Models, ready to be asked.
#[derive(Debug, Default)]
pub struct Shelf {
    /// The id of the first kind.
    first: u16,
    kinds: Vec<Learned>,
    models: BTreeMap<String, Arc<dyn Classifier>>,
    default: Option<String>,
    tagger: Option<Box<LateTagger>>,
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
    /// There is a tagger already.
    #[error("there is a second tagger; one folder can only take the place of another of its name")]
    Taggers,
    /// The card declares kinds that a model of its form cannot report.
    #[error("the model cannot report `{0}`")]
    Part(&'static str),
    /// It is no model in the form of ONNX that can be run.
    #[error(transparent)]
    Onnx(#[from] OnnxFault),
    /// The card says how to use a graph, and names none, or the other way round.
    #[error("a card has an `[onnx]` table if, and only if, its `file` ends in `.onnx`")]
    Form,
    /// Two models are to judge where nobody asks for another.
    #[error("`{0}` has `default = true`, too; only one model can judge where nobody asks for another")]
    Defaults(String),
    /// A type is that of a detector.
    #[error(
        "`{0}` is the type of a detector, too, and what a policy says of it would be said of both; \
         give the detector another name, or the finding one in a card of your own in place of this one"
    )]
    Taken(String),
    /// Another card, or this one, says otherwise what a type is, or what its part reports.
    #[error(
        "`{kind}` of `{part}` and `{known}` of `{known_part}`, in the card of `{model}`, do not go together; \
         one part reports one type, with the same category and severity in every card"
    )]
    Torn {
        /// The type.
        kind: String,
        /// The part that reports it.
        part: &'static str,
        /// The type that was declared before.
        known: String,
        /// The part that reports that.
        known_part: &'static str,
        /// The model whose card declares it.
        model: String,
    },
}

impl Shelf {
    /// Reads models, to go with the detectors of a scanner.
    ///
    /// # Errors
    /// Every fault of every model.
    pub fn read(files: ModelFiles, detectors: &[&str]) -> Result<Self, Vec<ModelFault>> {
        let mut shelf = Self { first: detectors.len() as u16, ..Self::default() };
        let mut faults = Vec::new();
        let mut defaults = Vec::new();
        for (path, text) in &files {
            let Some(folder) = folder_of(path) else { continue };
            let fault = |problem: ModelProblem| ModelFault { file: path.clone(), problem };
            if shelf.models.len() == MODELS_MAX {
                faults.push(fault(ModelProblem::TooMany));
                break;
            }
            match read_model(&files, folder, text) {
                Ok((card, kinds, model)) => {
                    match model {
                        Model::Classifier(model) => {
                            if card.model.default {
                                defaults.push((path.as_str(), card.model.name.clone()));
                            }
                            shelf.models.insert(card.model.name, model);
                        }
                        Model::Tagger(_) if shelf.tagger.is_some() => {
                            faults.push(fault(ModelProblem::Taggers));
                        }
                        Model::Tagger(tagger) => shelf.tagger = Some(tagger),
                    }
                    for kind in kinds {
                        if detectors.contains(&kind.name.as_str()) {
                            faults.push(fault(ModelProblem::Taken(kind.name)));
                            continue;
                        }
                        match shelf.kinds.iter().find(|known| known.meets(&kind)) {
                            Some(known) if known.means(&kind) => {}
                            Some(known) => faults.push(fault(torn(&kind, known))),
                            None => shelf.kinds.push(kind),
                        }
                    }
                }
                Err(problem) => faults.push(fault(problem)),
            }
        }
        let default = usual(defaults, &files, &mut faults);
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

    /// Returns the ids of the kinds that classifiers report, of a text as a whole.
    pub fn judged(&self) -> impl Iterator<Item = DetectorId> + '_ {
        self.ids().zip(&self.kinds).filter(|(_, kind)| !kind.is_named_only()).map(|(id, _)| id)
    }

    /// Returns the tagger, with the kinds it reports that are wanted; none where nobody wants any.
    pub fn tagger(&self, wanted: &DetectorSet) -> Option<Names<'_>> {
        let late = self.tagger.as_ref()?;
        let kinds = self.ids().zip(&self.kinds).filter(|(id, _)| wanted.contains(*id));
        let mut named = kinds.filter_map(|(id, kind)| match kind.part {
            Part::Tag(tag) => Some((tag, id)),
            Part::Head(_) => None,
        });
        let first = named.next()?;
        let mut names = Names::new(late.tagger());
        std::iter::once(first).chain(named).for_each(|(tag, id)| names.want(tag, id));
        Some(names)
    }

    /// Unpacks the tagger if one of its kinds is wanted, so that no text waits for it.
    pub fn prepare(&self, wanted: &DetectorSet) {
        let _ = self.tagger(wanted);
    }

    /// Returns the names of all classifiers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.models.keys().map(String::as_str)
    }

    /// Returns a classifier by its name, or the usual one.
    pub fn model(&self, name: Option<&str>) -> Option<&dyn Classifier> {
        let name = name.or(self.default.as_deref())?;
        self.models.get(name).map(|model| &**model)
    }

    /// Returns what the usual model finds in a text, if that is wanted.
    ///
    /// `seen` is what the first layer found in it. One finding at most, at the window that speaks loudest.
    ///
    /// # Errors
    /// The text was not judged.
    pub fn find(
        &self,
        text: &[u8],
        origin: Origin,
        seen: &Signals,
        wanted: &DetectorSet,
        expired: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Finding>, Unjudged> {
        match self.model(None) {
            Some(model) => self.find_by(model, text, origin, seen, wanted, expired),
            None => Ok(None),
        }
    }

    /// Does the same with a model of one's choice.
    ///
    /// # Errors
    /// The text was not judged.
    pub fn find_by(
        &self,
        model: &dyn Classifier,
        text: &[u8],
        origin: Origin,
        seen: &Signals,
        wanted: &DetectorSet,
        expired: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Finding>, Unjudged> {
        if !self.judged().any(|id| wanted.contains(id)) {
            return Ok(None);
        }
        let told = reading::judge(model, text, origin, seen, expired)?;
        Ok(told.and_then(|told| self.finding(told, wanted)))
    }

    /// Returns what is reported of what a model told, if anything.
    fn finding(&self, told: Told, wanted: &DetectorSet) -> Option<Finding> {
        let confidence = told.verdict.confidence?;
        let at = self.kinds.iter().position(|kind| kind.part == Part::Head(told.verdict.head))?;
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
    /// Counts findings of injection, each kind once: what is said again is no other sign. `category` tells what a finding is
    /// about.
    pub fn of(findings: &[Finding], category: impl Fn(DetectorId) -> Option<Category>) -> Self {
        let mut signals = Self::default();
        let is_sign = |it: &&Finding| {
            it.confidence >= Confidence::MEDIUM && category(it.detector) == Some(Category::Injection)
        };
        let mut seen: Vec<(DetectorId, bool)> = Vec::new();
        for finding in findings.iter().filter(is_sign) {
            let sign = (finding.detector, finding.confidence >= Confidence::HIGH);
            if seen.contains(&sign) {
                continue;
            }
            seen.push(sign);
            let (_, is_high) = sign;
            signals.high += usize::from(is_high);
            signals.medium += usize::from(!is_high);
        }
        signals
    }
}

fn torn(kind: &Learned, known: &Learned) -> ModelProblem {
    ModelProblem::Torn {
        kind: kind.name.clone(),
        part: kind.part.as_str(),
        known: known.name.clone(),
        known_part: known.part.as_str(),
        model: known.model.clone(),
    }
}

/// Returns the model that judges where nobody asks for another, of those whose cards say that they do: an operator's
/// takes the place of a shipped one.
fn usual(
    mut defaults: Vec<(&str, String)>,
    files: &ModelFiles,
    faults: &mut Vec<ModelFault>,
) -> Option<String> {
    if defaults.len() > 1 {
        let shipped = pack::builtin_models();
        defaults.retain(|(path, _)| shipped.get(*path) != files.get(*path));
    }
    if let [(_, first), (path, _), ..] = &*defaults {
        let problem = ModelProblem::Defaults(first.clone());
        faults.push(ModelFault { file: (*path).to_owned(), problem });
    }
    defaults.pop().map(|(_, name)| name)
}

/// Returns the folder of a card.
fn folder_of(path: &str) -> Option<&str> {
    let folder = path.strip_suffix(CARD)?.strip_suffix('/')?;
    folder.rsplit('/').next()
}

/// A model of either form.
enum Model {
    Classifier(Arc<dyn Classifier>),
    Tagger(Box<LateTagger>),
}

fn read_model(
    files: &ModelFiles,
    folder: &str,
    card: &[u8],
) -> Result<(Card, Vec<Learned>, Model), ModelProblem> {
    let (card, kinds) = Card::read(card, folder)?;
    let beside = |name: &str| file_of(files, folder, name);
    let file = beside(&card.model.file).ok_or_else(|| ModelProblem::Missing(card.model.file.clone()))?;
    let is_graph = card.model.file.ends_with(onnx::EXTENSION);
    let is_tagger = !is_graph && file.starts_with(tagger::format::MAGIC);
    if let Some(other) = kinds.iter().find(|kind| matches!(kind.part, Part::Tag(_)) != is_tagger) {
        return Err(ModelProblem::Part(other.part.as_str()));
    }
    let errands = Errands::read(&card.errands).map_err(CardFault::from)?;
    let model = match (&card.onnx, is_graph) {
        (Some(settings), true) => {
            let model =
                Onnx::read(settings, (&card.model.file, file), |name| beside(name).map(|file| &**file))?;
            ensure_declared(&model, &kinds)?;
            Model::Classifier(Arc::new(Spared::new(model, errands)))
        }
        (None, false) if is_tagger => Model::Tagger(Box::new(LateTagger::read(file.clone())?)),
        (None, false) => Model::Classifier(Arc::new(Spared::new(Judge::new(format::read(file)?), errands))),
        (Some(_), false) | (None, true) => return Err(ModelProblem::Form),
    };
    Ok((card, kinds, model))
}

/// Returns a file in the folder of a model.
fn file_of<'f>(files: &'f ModelFiles, folder: &str, name: &str) -> Option<&'f Bytes> {
    let is_named = |path: &str| {
        path.strip_suffix(name)
            .and_then(|rest| rest.strip_suffix('/'))
            .is_some_and(|rest| rest.rsplit('/').next() == Some(folder))
    };
    files.iter().find(|(path, _)| is_named(path)).map(|(_, file)| file)
}

/// Makes sure that a card declares what its model reports, and nothing else.
fn ensure_declared(model: &Onnx, kinds: &[Learned]) -> Result<(), ModelProblem> {
    let is_declared = |head: Head| kinds.iter().any(|kind| kind.part == Part::Head(head));
    if let Some(head) = model.heads().find(|head| !is_declared(*head)) {
        return Err(OnnxFault::Undeclared(head.as_str()).into());
    }
    let is_reported = |kind: &&Learned| model.heads().any(|head| kind.part == Part::Head(head));
    match kinds.iter().find(|kind| !is_reported(kind)) {
        Some(kind) => Err(ModelProblem::Part(kind.part.as_str())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
