//! `/api/v1/compliance`: how the deployment stands against frameworks of controls, from live evidence.
//!
//! Facts are gathered at most once a second, whoever asks; reports are made from them. `format` chooses JSON, a page to
//! be printed (`html`), or OSCAL assessment results (`oscal`). `evidence` shows what one check goes by.

pub mod evidence;
mod facts;
mod html;
pub mod oscal;
mod parties;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::admin::call::Answer;
use crate::admin::call::Call;
use crate::admin::call::ok;
use crate::admin::error::ApiError;
use crate::clock::rfc3339;
use crate::govern::compliance::check::Evidence;
use crate::govern::compliance::facts::Facts;
use crate::govern::compliance::report::Assessed;
use crate::govern::compliance::report::Report;
use crate::govern::compliance::report::Status;

/// What may be asked by.
pub const PARAMETERS: [&str; 2] = ["framework", "format"];

/// A report; without a framework named, the frameworks there are; or assessment results of OSCAL.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum ComplianceAnswer {
    /// A report.
    Report(Box<ComplianceReport>),
    /// The frameworks there are.
    Frameworks(FrameworkList),
    /// The report as a document of OSCAL.
    Oscal(OscalDocument),
}

/// A document of NIST's OSCAL, whose own specification says what is in it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct OscalDocument {
    /// The results of an assessment.
    #[schema(value_type = Object)]
    pub assessment_results: Value,
}

/// How the deployment stands against one framework.
#[derive(Serialize, ToSchema)]
pub struct ComplianceReport {
    /// The framework's id.
    pub framework: String,
    /// Its name.
    pub name: String,
    /// Its edition.
    pub version: String,
    /// Where its controls come from.
    pub source: String,
    /// As the worst control that was assessed: `pass`, `partial`, `fail`, or `not_assessed`.
    pub status: &'static str,
    /// Of the controls that were assessed, the share that passes, in percent; 0 where none was.
    pub score: f64,
    /// The share of controls that were assessed, in percent.
    pub coverage: f64,
    /// How many controls stand how.
    pub summary: BTreeMap<&'static str, usize>,
    /// Every control.
    pub controls: Vec<ControlEntry>,
    /// When it was judged.
    pub generated_at: String,
}

/// One control.
#[derive(Serialize, ToSchema)]
pub struct ControlEntry {
    /// Its id in the framework.
    pub id: String,
    /// What it asks for.
    pub title: String,
    /// `pass`, `partial` (it is met in part, or not all could be answered), `fail`, or `not_assessed`.
    pub status: &'static str,
    /// Why.
    pub evidence: Vec<EvidenceEntry>,
}

/// What a check saw.
#[derive(Serialize, ToSchema)]
pub struct EvidenceEntry {
    /// The check.
    pub check: &'static str,
    /// What it asks.
    pub question: &'static str,
    /// `met`, `partial`, `unmet` or `unknown`.
    pub result: &'static str,
    /// What was seen.
    pub observed: String,
    /// The figure it rests on.
    pub figure: Option<f64>,
    /// The calls that show it again; a figure with several is the sum of theirs.
    pub links: Vec<String>,
}

/// The frameworks there are.
#[derive(Serialize, ToSchema)]
pub struct FrameworkList {
    /// Each with how the deployment stands.
    pub frameworks: BTreeMap<String, Standing>,
    /// The names that may be asked for.
    pub valid_names: Vec<String>,
    /// When it was judged.
    pub generated_at: String,
}

/// How the deployment stands against all frameworks at this moment.
#[derive(Serialize, ToSchema)]
pub struct LiveCompliance {
    /// When it was judged: at most a second ago.
    pub timestamp: String,
    /// All frameworks together.
    pub summary: LiveSummary,
    /// Each framework.
    pub frameworks: BTreeMap<String, Standing>,
}

/// All frameworks together.
#[derive(Serialize, ToSchema)]
pub struct LiveSummary {
    /// How many frameworks.
    pub frameworks: usize,
    /// How many controls.
    pub controls: usize,
    /// How many of them stand how.
    pub by_status: BTreeMap<&'static str, usize>,
    /// Of those that were assessed, the share that passes, in percent.
    pub score: f64,
    /// The share that was assessed, in percent.
    pub coverage: f64,
}

/// How the deployment stands against a framework, in short.
#[derive(Serialize, ToSchema)]
pub struct Standing {
    /// Its name.
    pub name: String,
    /// Its edition.
    pub version: String,
    /// As the worst control that was assessed.
    pub status: &'static str,
    /// Of the controls that were assessed, the share that passes, in percent.
    pub score: f64,
    /// The share of controls that were assessed, in percent.
    pub coverage: f64,
    /// How many controls stand how.
    pub summary: BTreeMap<&'static str, usize>,
    /// The controls that fail.
    pub failing: Vec<String>,
}

/// The query as it was written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    framework: Option<String>,
    format: Option<String>,
}

/// `GET /api/v1/compliance`.
pub async fn report(call: Call) -> Answer {
    let Asked { framework, format } = call.query()?;
    let frameworks = call.office.compliance.frameworks();
    let valid_names: Vec<String> = frameworks.keys().cloned().collect();
    let Some(id) = framework else {
        if format.is_some() {
            return Err(ApiError::Invalid("format: expected with a framework".to_owned()));
        }
        let facts = facts(&call).await?;
        let standings = frameworks.iter().map(|(id, it)| (id.clone(), standing(&Report::of(it, &facts))));
        let frameworks = standings.collect();
        return ok(&FrameworkList { frameworks, valid_names, generated_at: rfc3339(facts.at) });
    };
    let Some(framework) = frameworks.get(&id) else {
        let message = "framework: there is no such framework".to_owned();
        return Err(ApiError::UnknownName { message, key: "valid_frameworks", known: valid_names });
    };
    let report = Report::of(framework, &*facts(&call).await?);
    match format.as_deref() {
        None | Some("json") => ok(&show(&report)),
        Some("oscal") => ok(&oscal::document(&report, &call.office.facts.node_id)),
        Some("html") => html::answer(&report),
        Some(_) => Err(ApiError::Invalid("format: expected one of json, html, oscal".to_owned())),
    }
}

/// `GET /api/v1/compliance/live`.
pub async fn live(call: Call) -> Answer {
    let facts = facts(&call).await?;
    let frameworks = call.office.compliance.frameworks();
    let reports: Vec<Report> = frameworks.values().map(|framework| Report::of(framework, &facts)).collect();
    let by_status: BTreeMap<&'static str, usize> = Status::ALL
        .into_iter()
        .map(|status| (status.as_str(), reports.iter().map(|report| report.count(status)).sum()))
        .collect();
    let of = |status: Status| by_status.get(status.as_str()).copied().unwrap_or_default();
    let controls: usize = by_status.values().sum();
    let assessed = controls - of(Status::NotAssessed);
    let percent = |part: usize, whole: usize| match whole {
        0 => 0.0,
        whole => (part as f64 * 1000.0 / whole as f64).floor() / 10.0,
    };
    ok(&LiveCompliance {
        timestamp: rfc3339(facts.at),
        summary: LiveSummary {
            frameworks: reports.len(),
            controls,
            score: percent(of(Status::Pass), assessed),
            coverage: percent(assessed, controls),
            by_status,
        },
        frameworks: reports.iter().map(|report| (report.framework.clone(), standing(report))).collect(),
    })
}

async fn facts(call: &Call) -> Result<Arc<Facts>, ApiError> {
    call.office.compliance.facts(facts::gather(&call.office)).await
}

fn summary(report: &Report) -> BTreeMap<&'static str, usize> {
    Status::ALL.into_iter().map(|status| (status.as_str(), report.count(status))).collect()
}

fn standing(report: &Report) -> Standing {
    let failing = report.controls.iter().filter(|control| control.status == Status::Fail);
    Standing {
        name: report.name.clone(),
        version: report.version.clone(),
        status: report.status().as_str(),
        score: report.score,
        coverage: report.coverage,
        summary: summary(report),
        failing: failing.map(|control| control.id.clone()).collect(),
    }
}

fn show(report: &Report) -> ComplianceReport {
    let control = |control: &Assessed| ControlEntry {
        id: control.id.clone(),
        title: control.title.clone(),
        status: control.status.as_str(),
        evidence: control.evidence.iter().map(evidence).collect(),
    };
    ComplianceReport {
        framework: report.framework.clone(),
        name: report.name.clone(),
        version: report.version.clone(),
        source: report.source.clone(),
        status: report.status().as_str(),
        score: report.score,
        coverage: report.coverage,
        summary: summary(report),
        controls: report.controls.iter().map(control).collect(),
        generated_at: rfc3339(report.at),
    }
}

fn evidence(evidence: &Evidence) -> EvidenceEntry {
    EvidenceEntry {
        check: evidence.check,
        question: evidence.asks,
        result: evidence.verdict.as_str(),
        observed: evidence.seen.clone(),
        figure: evidence.figure,
        links: evidence.links.clone(),
    }
}
