//! `portcullis rules check`: every example, whole and in streams, and every pattern's speed.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::Catalogue;
use super::Plugins;
use super::counted;
use super::refused;
use crate::app::streamed::Streamed;
use crate::app::streamed::replayed;
use crate::cli::EXIT_CONFIG;
use crate::cli::complain;
use crate::cli::say;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::scan::detector::Detector;
use crate::scan::hold::Watch;
use crate::scan::pack::PackFault;
use crate::scan::proof;
use crate::scan::proof::ProofFault;
use crate::scan::rule;
use crate::scan::rule::proof::RuleFault;
use crate::scan::scanner::Scanner;
use crate::scan::threat::DetectorId;

/// How often a pattern is measured that seems too slow: a busy machine is no slow pattern.
const MEASUREMENTS_MAX: usize = 4;
/// What rates are told in.
const GIGABYTE: f64 = 1e9;

/// What to prove.
#[derive(Debug, Args)]
pub struct CheckArguments {
    /// Only these detectors and rules; all where none is named.
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    plugins: Plugins,
    /// How fast each pattern must read alone, in GB/s on one core; 0 measures nothing.
    #[arg(long, value_name = "GB/S", default_value_t = 1.0)]
    min_rate: f64,
}

/// One thing that does not hold.
struct Wrong {
    file: String,
    line: Option<usize>,
    id: String,
    problem: String,
}

/// Proves, and tells every fault with file and line.
pub fn run(arguments: &CheckArguments) -> ExitCode {
    let catalogue = match Catalogue::load(&arguments.plugins.plugins) {
        Ok(catalogue) => catalogue,
        Err(faults) => return refused(&faults, arguments.plugins.json),
    };
    let known: Vec<&str> = catalogue.kinds().map(|(kind, ..)| kind.name).collect();
    if let Some(id) = arguments.ids.iter().find(|id| !known.contains(&id.as_str())) {
        complain(&format!("there is no detector or rule `{id}`{}", catalogue.suggestion(id)));
        return ExitCode::FAILURE;
    }
    if let Some(id) = arguments.ids.iter().find(|id| catalogue.learned.iter().any(|kind| kind.name == **id)) {
        complain(&format!("`{id}` is what a model finds, which was proven where it was trained"));
        return ExitCode::FAILURE;
    }
    let is_asked = |id: &str| arguments.ids.is_empty() || arguments.ids.iter().any(|asked| asked == id);
    let asked = catalogue.detectors.iter().filter(|detector| is_asked(&detector.name)).cloned();
    let detectors: Vec<Detector> = asked.collect();
    let rules = catalogue.rules.rules().iter().filter(|rule| is_asked(&rule.id)).count();
    let mut wrong = prove_detectors(detectors.clone());
    if rules > 0 {
        wrong.extend(prove_rules(&catalogue, &is_asked));
    }
    let mut slowest = None;
    if arguments.min_rate > 0.0 {
        wrong.extend(measure(&detectors, arguments.min_rate, &mut slowest));
    }
    tell(&wrong, [detectors.len(), rules], slowest, arguments.plugins.json)
}

/// Runs the examples of detectors in one piece and cut at every place.
fn prove_detectors(detectors: Vec<Detector>) -> Vec<Wrong> {
    let scanner = match Scanner::compile(detectors) {
        Ok(scanner) => scanner,
        Err(faults) => return faults.into_iter().map(Wrong::from).collect(),
    };
    let streamed = Streamed::default();
    let replay = |scanner: &Scanner, id: DetectorId, text: &[u8], cut: usize| {
        streamed.findings(scanner, id, text, cut)
    };
    proof::prove(&scanner, Some(&replay)).err().into_iter().flatten().map(Wrong::from).collect()
}

/// Acts the scenarios of rules out with all detectors, their texts in one piece and in two.
fn prove_rules(catalogue: &Catalogue, is_asked: &dyn Fn(&str) -> bool) -> Vec<Wrong> {
    let scanner = match Scanner::compile(catalogue.detectors.clone()) {
        Ok(scanner) => scanner,
        Err(faults) => return faults.into_iter().map(Wrong::from).collect(),
    };
    let all = scanner.all();
    let watch = Watch::compile(scanner.detectors(), &all, &all);
    let replay = |scanner: &Scanner, text: &[u8]| replayed(scanner, &watch, text, text.len() / 2);
    let proven = rule::proof::prove(&catalogue.rules, &scanner, Some(&replay));
    let faults = proven.err().into_iter().flatten();
    faults.filter(|fault| is_asked(&fault.rule)).map(Wrong::from).collect()
}

/// Measures each pattern alone, and notes the slowest.
fn measure(detectors: &[Detector], min_rate: f64, slowest: &mut Option<(f64, String)>) -> Vec<Wrong> {
    let now = || SystemClock.monotonic();
    let mut wrong = Vec::new();
    for detector in detectors {
        let mut fastest = 0.0_f64;
        for _ in 0..MEASUREMENTS_MAX {
            match proof::rate::of_detector(detector, &now).map(|rate| rate.bytes_per_second) {
                Ok(rate) => fastest = fastest.max(rate / GIGABYTE),
                Err(fault) => wrong.push(Wrong::of(detector, fault.to_string())),
            }
            if fastest >= min_rate {
                break;
            }
        }
        if fastest < min_rate {
            let problem = format!(
                "reads {fastest:.2} GB/s alone, {min_rate} GB/s are asked for; lead with a literal or give an `anchor`"
            );
            wrong.push(Wrong::of(detector, problem));
        }
        if slowest.as_ref().is_none_or(|(rate, _)| fastest < *rate) {
            *slowest = Some((fastest, detector.name.clone()));
        }
    }
    wrong
}

fn tell(
    wrong: &[Wrong],
    [detectors, rules]: [usize; 2],
    slowest: Option<(f64, String)>,
    as_json: bool,
) -> ExitCode {
    for Wrong { file, line, id, problem } in wrong {
        if as_json {
            say(&json!({ "file": file, "line": line, "id": id, "problem": problem }).to_string());
        } else {
            let line = line.map(|line| format!(":{line}")).unwrap_or_default();
            complain(&format!("{file}{line}: {id}: {problem}"));
        }
    }
    if as_json {
        let slowest = slowest.map(|(rate, id)| json!({ "id": id, "gigabytes_per_second": rate }));
        say(&json!({ "detectors": detectors, "rules": rules, "faults": wrong.len(), "slowest": slowest })
            .to_string());
    } else if wrong.is_empty() {
        let slowest = slowest.map(|(rate, id)| format!("; the slowest pattern, {id}, reads {rate:.1} GB/s"));
        say(&format!(
            "{detectors} detectors and {rules} rules prove themselves{}",
            slowest.unwrap_or_default()
        ));
    } else {
        complain(&counted(wrong.len()));
    }
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_CONFIG) }
}

impl Wrong {
    fn of(detector: &Detector, problem: String) -> Self {
        let Detector { file, line, name, .. } = detector;
        Self { file: file.clone(), line: Some(*line), id: name.clone(), problem }
    }
}

impl From<PackFault> for Wrong {
    fn from(fault: PackFault) -> Self {
        let PackFault { file, line, detector, problem } = fault;
        Self { file, line, id: detector.unwrap_or_default(), problem: problem.to_string() }
    }
}

impl From<ProofFault> for Wrong {
    fn from(fault: ProofFault) -> Self {
        let ProofFault { file, line, detector, problem } = fault;
        Self { file, line: Some(line), id: detector, problem: problem.to_string() }
    }
}

impl From<RuleFault> for Wrong {
    fn from(fault: RuleFault) -> Self {
        let RuleFault { file, line, rule, problem } = fault;
        Self { file, line: Some(line), id: rule, problem: problem.to_string() }
    }
}
