//! Layer 2: conditions over what was found, where it stood and what it stood beside.
//!
//! A rule is data (`plugins/rules/*.toml`): a condition in CEL ([`condition`]) over the facts of one body
//! ([`fact`]), proven by its own scenarios ([`proof`]). A rule that fires is a finding of its own kind; its id comes
//! after those of all detectors, so that policies, records and answers treat it as they treat a detector.

pub mod condition;
pub mod fact;
mod file;
mod needs;
pub mod proof;
mod scenario;

use std::collections::BTreeMap;

pub use self::file::SCENARIOS_MAX;
pub use self::scenario::Part;
pub use self::scenario::Scenario;
pub use self::scenario::Told;

use self::condition::Condition;
use self::condition::Variables;
use self::condition::Verdict;
use self::fact::Fact;
use self::fact::Facts;
use self::fact::Place;
use self::fact::value_key;
use self::needs::Needs;
use self::needs::Seen;
use crate::scan::classifier::card::Learned;
use crate::scan::detector::Detector;
use crate::scan::pack::PackFault;
use crate::scan::pack::PackProblem;
use crate::scan::pack::PluginFiles;
use crate::scan::threat::Category;
use crate::scan::threat::Confidence;
use crate::scan::threat::DetectorId;
use crate::scan::threat::DetectorSet;
use crate::scan::threat::Finding;
use crate::scan::threat::Layer;
use crate::scan::threat::Severity;

/// The most rules of a scanner.
pub const RULES_MAX: usize = 1024;

/// What a text is taken for that comes without a body around it.
const USER: &str = "user";
const REQUEST: &str = "request";
const GENERIC: &str = "generic";

/// One rule, valid by construction.
#[derive(Debug)]
pub struct Rule {
    /// Its type, in snake case, unique over rules and detectors.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// What kind of harm it is about.
    pub category: Category,
    /// How bad it is when it is right.
    pub severity: Severity,
    /// How sure it is.
    pub confidence: Confidence,
    /// What a body must have for the condition to be asked at all.
    pub needs: Needs,
    /// When it fires.
    pub when: Condition,
    /// Ids of the techniques it is evidence of (MITRE ATLAS, OWASP).
    pub techniques: Vec<String>,
    /// What it saw and why that matters, in one sentence without content.
    pub why: String,
    /// Where its facts come from.
    pub references: Vec<String>,
    /// Scenarios in which it must fire.
    pub finds: Vec<Scenario>,
    /// Scenarios in which it must not.
    pub ignores: Vec<Scenario>,
    /// The pack it comes from.
    pub pack: String,
    /// The version of that pack.
    pub pack_version: String,
    /// The file it was read from, as a path below the folder of plugins.
    pub file: String,
    /// The line of the file it begins at, counted from one.
    pub line: usize,
}

/// The rules that go with the detectors of one scanner.
#[derive(Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    known: Vec<Known>,
    files: PluginFiles,
}

/// What conditions know of a detector, or of a kind of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its type.
    pub name: String,
    /// What kind of harm it is about.
    pub category: Category,
    /// How bad a real finding is.
    pub severity: Severity,
}

/// A body as conditions see it.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// `request` or `response`.
    pub direction: &'static str,
    /// The name of the dialect.
    pub dialect: &'a str,
    /// What was found.
    pub facts: &'a Facts,
    /// What was found in the request that a body answers.
    pub asked: &'a [Fact],
}

/// A rule that fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    /// The rule, by its id beside the detectors.
    pub id: DetectorId,
    /// The facts it is about, by their places; none where it is about the body as a whole.
    pub facts: Vec<usize>,
}

impl Rules {
    /// Reads rules from texts by their paths, to go with the detectors of a scanner and no model.
    ///
    /// # Errors
    /// Every fault of every file.
    pub fn compile(files: PluginFiles, detectors: &[Detector]) -> Result<Self, Vec<PackFault>> {
        Self::compile_beside(files, detectors, &[])
    }

    /// Does the same for detectors and the kinds of models, whose ids come after theirs.
    ///
    /// # Errors
    /// Every fault of every file.
    pub fn compile_beside(
        files: PluginFiles,
        detectors: &[Detector],
        learned: &[Learned],
    ) -> Result<Self, Vec<PackFault>> {
        let mut rules = file::parse_all(&files)?;
        let known = detectors.iter().map(|known| (known.name.as_str(), known.file.as_str()));
        let of_models = learned.iter().map(|kind| (kind.name.as_str(), "a model"));
        let mut names: BTreeMap<&str, &str> = known.chain(of_models).collect();
        let mut faults = Vec::new();
        for (at, rule) in rules.iter().enumerate() {
            let problem = match names.insert(&rule.id, &rule.file) {
                Some(other) => Some(PackProblem::Duplicate { other: other.to_owned() }),
                None => (at == RULES_MAX).then_some(PackProblem::TooManyDetectors),
            };
            faults.extend(problem.map(|problem| rule.fault(problem)));
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        rules.shrink_to_fit();
        let known = detectors.iter().map(Known::from).chain(learned.iter().map(Known::from)).collect();
        Ok(Self { rules, known, files })
    }

    /// Returns the rules in the order of their ids.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns the files that the rules were read from, by path.
    pub fn files(&self) -> &PluginFiles {
        &self.files
    }

    /// Returns the rule of an id; `None` for the ids of detectors.
    pub fn rule(&self, id: DetectorId) -> Option<&Rule> {
        self.rules.get(usize::from(id.0).checked_sub(self.known.len())?)
    }

    /// Returns the id of a rule by its place.
    pub fn id(&self, at: usize) -> DetectorId {
        DetectorId((self.known.len() + at) as u16)
    }

    /// Returns the ids of all rules.
    pub fn ids(&self) -> impl Iterator<Item = DetectorId> + '_ {
        (0..self.rules.len()).map(|at| self.id(at))
    }

    /// Returns the id of the rule of a name.
    pub fn find(&self, name: &str) -> Option<DetectorId> {
        self.rules.iter().position(|rule| rule.id == name).map(|at| self.id(at))
    }

    /// Tells whether one of some rules is about what came out of a system prompt.
    pub fn guard_prompts(&self, wanted: &DetectorSet) -> bool {
        self.any_needs(wanted, Needs::guards_prompts)
    }

    /// Tells whether one of some rules is about what tools are called with.
    pub fn follow_taint(&self, wanted: &DetectorSet) -> bool {
        self.any_needs(wanted, Needs::follows_taint)
    }

    fn any_needs(&self, wanted: &DetectorSet, are_about: fn(Needs) -> bool) -> bool {
        let mut rules = self.rules.iter().enumerate();
        rules.any(|(at, rule)| are_about(rule.needs) && wanted.contains(self.id(at)))
    }

    /// Returns the detectors that conditions know, in the order of their ids.
    pub fn known(&self) -> &[Known] {
        &self.known
    }

    /// Returns the `wanted` rules that fire, but for those that did `before`.
    ///
    /// Costs nothing where no rule has what it needs. A condition that cannot be evaluated does not hold.
    pub fn judge(&self, scene: &Scene<'_>, wanted: &DetectorSet, before: &DetectorSet) -> Vec<Fired> {
        let seen = Seen::of(scene, &self.known);
        let seen_before = seen.and(scene.asked, &self.known);
        let mut variables = None;
        let mut fired = Vec::new();
        for (at, rule) in self.rules.iter().enumerate() {
            let id = self.id(at);
            let seen = if rule.when.looks_back() { &seen_before } else { &seen };
            if !rule.needs.met_by(seen) || !wanted.contains(id) || before.contains(id) {
                continue;
            }
            let variables = variables.get_or_insert_with(|| Variables::of(scene, &self.known));
            if let Ok(Verdict::Holds(facts)) = rule.when.judge(variables) {
                fired.push(Fired { id, facts });
            }
        }
        fired
    }
}

impl Rules {
    /// Returns what the `wanted` rules find over the findings of one text of a person, as findings of their own.
    ///
    /// Each stands where the first finding stands that it is about.
    pub fn over(&self, text: &[u8], findings: &[Finding], wanted: &DetectorSet) -> Vec<Finding> {
        let mut facts = Facts::default();
        let place = Place { turn: Some(0), age: Some(0), tool: None };
        let mut shown = Vec::new();
        for found in findings {
            let value = value_key(text.get(found.value.clone()).unwrap_or_default());
            if facts.push(Fact::of(found, USER, place.clone()), value).is_some() {
                shown.push(found);
            }
        }
        let scene = Scene { direction: REQUEST, dialect: GENERIC, facts: &facts, asked: &[] };
        let fired = self.judge(&scene, wanted, &DetectorSet::default());
        let finding = |fired: Fired| {
            let about = fired.facts.first().and_then(|first| shown.get(*first));
            Some(Finding {
                detector: fired.id,
                span: about.map_or(0..0, |about| about.span.clone()),
                value: about.map_or(0..0, |about| about.value.clone()),
                confidence: self.rule(fired.id)?.confidence,
                layer: Layer::L2Rules,
                decoded_from: about.map(|about| about.decoded_from.clone()).unwrap_or_default(),
            })
        };
        fired.into_iter().filter_map(finding).collect()
    }
}

impl Rule {
    fn fault(&self, problem: PackProblem) -> PackFault {
        PackFault { file: self.file.clone(), line: Some(self.line), detector: Some(self.id.clone()), problem }
    }
}

impl From<&Learned> for Known {
    fn from(learned: &Learned) -> Self {
        let Learned { name, category, severity, .. } = learned;
        Self { name: name.clone(), category: *category, severity: *severity }
    }
}

impl From<&Detector> for Known {
    fn from(detector: &Detector) -> Self {
        let Detector { name, category, severity, .. } = detector;
        Self { name: name.clone(), category: *category, severity: *severity }
    }
}

#[cfg(test)]
mod tests;
