//! `portcullis rules`: what is looked for, whether it proves itself, and why.

mod check;
mod explain;

use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::Subcommand;
use serde_json::Value;
use serde_json::json;

use super::EXIT_CONFIG;
use super::complain;
use super::say;
use crate::document::fault::nearest;
use crate::scan::detector::Detector;
use crate::scan::kind::Kind;
use crate::scan::pack;
use crate::scan::pack::PackFault;
use crate::scan::rule::Rules;
use crate::scan::threat::Layer;

/// What to do about detectors and rules.
#[derive(Debug, Subcommand)]
pub enum RulesCommand {
    /// List all detectors and rules.
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

/// All detectors and rules of a folder of plugins, laid over the built-in ones.
struct Catalogue {
    detectors: Vec<Detector>,
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
        let rules =
            Rules::compile(files, &detectors).map_err(|found| faults.extend(found)).unwrap_or_default();
        if faults.is_empty() { Ok(Self { detectors, rules }) } else { Err(faults) }
    }

    /// Returns everything, with its layer and its file.
    fn kinds(&self) -> impl Iterator<Item = (Kind<'_>, Layer, &str)> {
        let detectors =
            self.detectors.iter().map(|known| (Kind::from(known), Layer::L1Regex, known.file.as_str()));
        let rules =
            self.rules.rules().iter().map(|rule| (Kind::from(rule), Layer::L2Rules, rule.file.as_str()));
        detectors.chain(rules)
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
            say(&described(&kind, layer, file).to_string());
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
    let detector = catalogue.detectors.iter().find(|known| known.name == id).map(explain::detector);
    let rule = || catalogue.rules.rules().iter().find(|rule| rule.id == id).map(explain::rule);
    let Some(sheet) = detector.or_else(rule) else {
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
