//! A framework judged by the facts of a moment.

use jiff::Timestamp;

use super::check::Check;
use super::check::Evidence;
use super::check::Verdict;
use super::facts::Facts;
use super::framework::Framework;

/// How a control stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Nothing of it can be seen from here.
    NotAssessed,
    /// Everything that can be seen of it is as it should be.
    Pass,
    /// What can be seen is as it should be, but only in part, or not all its checks could be answered.
    Partial,
    /// Something is not as it should be.
    Fail,
}

/// How a deployment stands against a framework.
#[derive(Clone, Debug)]
pub struct Report {
    /// The framework's id.
    pub framework: String,
    /// Its name.
    pub name: String,
    /// Its edition.
    pub version: String,
    /// Where its controls come from.
    pub source: String,
    /// Of the controls that were assessed, the share that passes, in percent; 0 where none was.
    pub score: f64,
    /// The share of controls that were assessed, in percent.
    pub coverage: f64,
    /// Every control.
    pub controls: Vec<Assessed>,
    /// Since when events are counted.
    pub since: Timestamp,
    /// When it was judged.
    pub at: Timestamp,
}

/// A control, judged.
#[derive(Clone, Debug)]
pub struct Assessed {
    /// Its id.
    pub id: String,
    /// What it asks for.
    pub title: String,
    /// How it stands.
    pub status: Status,
    /// Why.
    pub evidence: Vec<Evidence>,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Pass, Self::Partial, Self::Fail, Self::NotAssessed];

    /// Returns the name used in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotAssessed => "not_assessed",
            Self::Pass => "pass",
            Self::Partial => "partial",
            Self::Fail => "fail",
        }
    }

    fn of(evidence: &[Evidence]) -> Self {
        let has = |verdict| evidence.iter().any(|it| it.verdict == verdict);
        let is_in_part = has(Verdict::Partial) || (has(Verdict::Met) && has(Verdict::Unknown));
        match (has(Verdict::Unmet), is_in_part, has(Verdict::Met)) {
            (true, ..) => Self::Fail,
            (false, true, _) => Self::Partial,
            (false, false, true) => Self::Pass,
            (false, false, false) => Self::NotAssessed,
        }
    }
}

impl Report {
    /// Judges a framework.
    pub fn of(framework: &Framework, facts: &Facts) -> Self {
        let assess = |control: &super::framework::Control| {
            let named = Some(control.techniques.as_slice()).filter(|ids| !ids.is_empty());
            let techniques = named.map(|ids| Check::techniques(facts, ids));
            let evidence: Vec<Evidence> =
                control.checks.iter().map(|check| check.run(facts)).chain(techniques).collect();
            let status = Status::of(&evidence);
            Assessed { id: control.id.clone(), title: control.title.clone(), status, evidence }
        };
        let controls: Vec<Assessed> = framework.controls.iter().map(assess).collect();
        let count = |status: Status| controls.iter().filter(|control| control.status == status).count();
        let assessed = controls.len() - count(Status::NotAssessed);
        Self {
            framework: framework.id.clone(),
            name: framework.name.clone(),
            version: framework.version.clone(),
            source: framework.source.clone(),
            score: percent(count(Status::Pass), assessed),
            coverage: percent(assessed, controls.len()),
            controls,
            since: facts.since,
            at: facts.at,
        }
    }

    /// Returns how many controls have a status.
    pub fn count(&self, status: Status) -> usize {
        self.controls.iter().filter(|control| control.status == status).count()
    }

    /// Returns how the framework stands: as its worst control does, of those that were assessed.
    pub fn status(&self) -> Status {
        self.controls.iter().map(|control| control.status).max().unwrap_or(Status::NotAssessed)
    }
}

/// Returns a share in percent with one decimal, rounded down: 100 is all.
fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 * 1000.0 / whole as f64).floor() / 10.0 }
}

#[cfg(test)]
mod tests;
