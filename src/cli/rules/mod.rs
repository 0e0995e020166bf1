//! `portcullis rules`: what is looked for, whether it proves itself, and why.

mod check;
mod explain;

use std::borrow::Cow;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::Subcommand;
use serde_json::Value;
use serde_json::json;

use self::explain::Sheet;
use super::EXIT_CONFIG;
use super::complain;
use super::say;
use crate::document::fault::nearest;
use crate::scan::classifier::card::Learned;
use crate::scan::classifier::shelf::Shelf;
use crate::scan::detector::Detector;
use crate::scan::kind::Kind;
use crate::scan::pack;
use crate::scan::pack::PackFault;
use crate::scan::rule::Rules;
use crate::scan::threat::Layer;

/// What to do about detectors and rules.
#[derive(Debug, Subcommand)]
pub enum RulesCommand {
    /// List all detectors, what models find, and all rules.
    List(Plugins),
    /// Prove detectors and rules by their own examples, whole and in streams, and measure each pattern.
    Check(check::CheckArguments),
    /// Tell all about one of them: why it matters, what it looks for, its examples.
    Explain {
        /// Its type.
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        plugins: Plugins,
    },
}

/// Where plugins are, and how to tell.
#[derive(Clone, Debug, Args)]
pub struct Plugins {
    /// A folder of plugins to lay over the built-in ones.
    #[arg(long, value_name = "FOLDER", default_value = "plugins")]
    plugins: PathBuf,
    /// Print JSON, an object on each line.
    #[arg(long)]
    json: bool,
}

/// All detectors, kinds of models, and rules of a folder of plugins, laid over the built-in ones.
struct Catalogue {
    detectors: Vec<Detector>,
    learned: Vec<Learned>,
    rules: Rules,
}

/// Runs a command and tells by the exit code how it went.
pub fn run(command: &RulesCommand) -> ExitCode {
    match command {
        RulesCommand::List(plugins) => list(plugins),
        RulesCommand::Check(arguments) => check::run(arguments),
        RulesCommand::Explain { id, plugins } => explained(id, plugins),
    }
}

impl Catalogue {
    /// Reads everything, or gathers every fault of every file.
    fn load(plugins: &Path) -> Result<Self, Vec<PackFault>> {
        let (files, mut faults) = pack::read_rules(plugins);
        let detectors = pack::load_dir(plugins).map_err(|found| faults.extend(found)).unwrap_or_default();
        let (models, unreadable) = pack::read_models(plugins);
        faults.extend(unreadable);
        let names: Vec<&str> = detectors.iter().map(|known| known.name.as_str()).collect();
        let shelf = Shelf::read(models, &names)
            .map_err(|found| faults.extend(found.into_iter().map(PackFault::from)))
            .unwrap_or_default();
        let learned = shelf.kinds().to_vec();
        let rules = Rules::compile_beside(files, &detectors, &learned)
            .map_err(|found| faults.extend(found))
            .unwrap_or_default();
        if faults.is_empty() { Ok(Self { detectors, learned, rules }) } else { Err(faults) }
    }

    /// Returns everything, with its layer and its file.
    fn kinds(&self) -> impl Iterator<Item = (Kind<'_>, Layer, Cow<'_, str>)> {
        let detectors = self
            .detectors
            .iter()
            .map(|known| (Kind::from(known), Layer::L1Regex, known.file.as_str().into()));
        let learned = self.learned.iter().map(|kind| (Kind::from(kind), Layer::L3Ml, kind.file().into()));
        let rules = self
            .rules
            .rules()
            .iter()
            .map(|rule| (Kind::from(rule), Layer::L2Rules, rule.file.as_str().into()));
        detectors.chain(learned).chain(rules)
    }

    /// Returns all that is to be told of one of them.
    fn sheet(&self, id: &str) -> Option<Sheet> {
        let detector = self.detectors.iter().find(|known| known.name == id).map(explain::detector);
        let learned = || self.learned.iter().find(|kind| kind.name == id).map(explain::learned);
        let rule = || self.rules.rules().iter().find(|rule| rule.id == id).map(explain::rule);
        detector.or_else(learned).or_else(rule)
    }

    /// Returns the nearest name to one that nothing has, as a question.
    fn suggestion(&self, id: &str) -> String {
        let near = nearest(id, self.kinds().map(|(kind, ..)| kind.name).collect::<Vec<_>>());
        near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
    }
}

fn list(plugins: &Plugins) -> ExitCode {
    let catalogue = match Catalogue::load(&plugins.plugins) {
        Ok(catalogue) => catalogue,
        Err(faults) => return refused(&faults, plugins.json),
    };
    if !plugins.json {
        say(&row(["ID", "CATEGORY", "SEVERITY", "CONFIDENCE", "LAYER", "PACK"]));
    }
    for (kind, layer, file) in catalogue.kinds() {
        if plugins.json {
            say(&described(&kind, layer, &file).to_string());
            continue;
        }
        let pack = format!("{} {}", kind.pack, kind.pack_version);
        let confidence = format!("{}", kind.confidence.as_unit());
        let (category, severity) = (kind.category.as_str(), kind.severity.as_str());
        say(&row([kind.name, category, severity, &confidence, layer.as_str(), &pack]));
    }
    ExitCode::SUCCESS
}

fn explained(id: &str, plugins: &Plugins) -> ExitCode {
    let catalogue = match Catalogue::load(&plugins.plugins) {
        Ok(catalogue) => catalogue,
        Err(faults) => return refused(&faults, plugins.json),
    };
    let Some(sheet) = catalogue.sheet(id) else {
        complain(&format!("there is no detector or rule `{id}`{}", catalogue.suggestion(id)));
        return ExitCode::FAILURE;
    };
    if plugins.json {
        say(&sheet.json().to_string())
    } else {
        say(&sheet.to_string())
    }
    ExitCode::SUCCESS
}

/// Returns what a listing says of one of them.
fn described(kind: &Kind<'_>, layer: Layer, file: &str) -> Value {
    json!({
        "id": kind.name,
        "category": kind.category.as_str(),
        "severity": kind.severity.as_str(),
        "confidence": kind.confidence.as_unit(),
        "layer": layer.as_str(),
        "pack": kind.pack,
        "version": kind.pack_version,
        "techniques": kind.techniques,
        "file": file,
    })
}

/// Tells every fault; nothing that is faulty is half used.
fn refused(faults: &[PackFault], as_json: bool) -> ExitCode {
    for fault in faults {
        if as_json {
            let problem = fault.problem.to_string();
            say(&json!({ "file": fault.file, "line": fault.line, "id": fault.detector, "problem": problem })
                .to_string());
        } else {
            complain(&fault.to_string());
        }
    }
    complain(&counted(faults.len()));
    ExitCode::from(EXIT_CONFIG)
}

/// Returns a number of faults as a sentence.
fn counted(faults: usize) -> String {
    format!("{faults} {}", if faults == 1 { "fault" } else { "faults" })
}

fn row([id, category, severity, confidence, layer, pack]: [&str; 6]) -> String {
    format!("{id:<32} {category:<12} {severity:<8} {confidence:<10} {layer:<8} {pack}")
}
