//! A policy as an operator writes it, and its compilation against what the scanner can find.
//!
//! ```toml
//! [policies.default]                     # or a file conf/policies/default.toml without this line
//! description  = "…"
//! fail_mode    = "closed"                # closed | open
//! stream_block = "error"                 # error | graceful
//! documents    = "inspect"               # pass | inspect | require: PDFs, office files and archives in bodies
//! credentials  = "monitor"               # the most that is done about a secret where the API takes or hands out one
//! shadow       = "strict"                # decides too, and is only recorded where it differs
//! [policies.default.categories.pii]      # a category that is not named is monitored
//! mode      = "redact"                   # or request = "…" and response = "…"
//! threshold = "medium"                   # low | medium | high
//! only      = "validated_or_high"        # the other detectors of the category are monitored
//! [policies.default.detectors.email]     # stronger than its category
//! mode = "off"
//! mask = "hash"
//! [[policies.default.allow]]             # value | sha256 | regex | caller
//! regex     = 'test-[0-9]+'
//! detectors = ["email"]
//! expires   = "2027-01-01"
//! reason    = "…"
//! ```

use std::collections::BTreeMap;

use serde_json::Map;
use serde_json::Value;

use crate::document::Fault;
use crate::document::Places;
use crate::document::Problem;
use crate::document::fault::nearest;
use crate::document::section::Section;
use crate::policy::FAIL_MODE_DEFAULT;
use crate::policy::allow::AllowFile;
use crate::policy::decision::Decisions;
use crate::policy::decision::DetectorRules;
use crate::policy::decision::DocumentMode;
use crate::policy::decision::FailMode;
use crate::policy::decision::Mode;
use crate::policy::decision::PolicyId;
use crate::policy::decision::Rule;
use crate::policy::decision::StreamBlock;
use crate::scan::check::Check;
use crate::scan::classifier::card::Learned;
use crate::scan::detector::ContextWords;
use crate::scan::detector::Detector;
use crate::scan::detector::MaskKind;
use crate::scan::rule::Rule as Layer2Rule;
use crate::scan::threat::Category;
use crate::scan::threat::Confidence;
use crate::scan::threat::DetectorId;
use crate::scan::threat::Severity;
use crate::scan::threat::UnknownName;

/// What a category does that a policy does not name: its findings are recorded.
pub const CATEGORY_MODE_DEFAULT: Mode = Mode::Monitor;

/// The most that is done about a secret where the provider's API takes or hands out one, where a policy does not say.
pub const CREDENTIALS_DEFAULT: Mode = Mode::Monitor;

/// How sure a finding must be where a policy does not say.
pub const THRESHOLD_DEFAULT: Confidence = Confidence::MEDIUM;

/// What is done about documents where a policy does not say.
pub const DOCUMENTS_DEFAULT: DocumentMode = DocumentMode::Inspect;

/// The most allow-list entries of one policy.
pub const ALLOW_ENTRIES_MAX: usize = 1000;

/// Checks that look at the form or the likeliness of a value, and prove nothing about it.
const FORM_CHECKS: [Check; 30] = [
    Check::Crc32Base62Fails,
    Check::Crc32HexLittleEndianFails,
    Check::Crc32HexFails,
    Check::PemFails,
    Check::UrlCredentials,
    Check::BasicAuth,
    Check::Entropy2Half,
    Check::Entropy3,
    Check::Entropy3Half,
    Check::Entropy4,
    Check::MixedClasses,
    Check::NotPlaceholder,
    Check::NotUuid,
    Check::NotHash,
    Check::StrongPassword,
    Check::Bic,
    Check::Email,
    Check::EmailInternational,
    Check::IpAddress,
    Check::MacAddress,
    Check::E164,
    Check::Nanp,
    Check::BirthDate,
    Check::NationalPhone,
    Check::DePhone,
    Check::BrPhone,
    Check::KrRrnDated,
    Check::CarriesText,
    Check::CarriesWords,
    Check::NotDrawnBySite,
];

/// A policy as it was written; its values fit, its detectors are not looked up yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFile {
    /// Its name in routes and records.
    pub id: PolicyId,
    /// Its name for people.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What happens to what cannot be inspected.
    pub fail_mode: FailMode,
    /// How a blocked stream ends.
    pub stream_block: StreamBlock,
    /// What is done about documents that a body brings.
    pub documents: DocumentMode,
    /// The most that is done about a secret where the provider's API takes one, or hands one out.
    pub credentials: Mode,
    /// A policy that decides beside this one and is only recorded.
    pub shadow: Option<PolicyId>,
    /// What is done about each category it names.
    pub categories: BTreeMap<Category, CategoryRule>,
    /// What is done about single detectors, by their type.
    pub detectors: BTreeMap<String, DetectorOverride>,
    /// What is let through, each entry by its place in the list.
    pub allow: BTreeMap<usize, AllowFile>,
}

/// What a policy does about a category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CategoryRule {
    /// In requests.
    pub request: Mode,
    /// In responses.
    pub response: Mode,
    /// How sure a finding must be for more than recording.
    pub threshold: Confidence,
    /// The detectors it is about; the others of the category are recorded.
    pub only: Option<Only>,
}

/// A part of a category, told by what its detectors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// Those whose values are proven by a check, and those of high or critical severity.
    ValidatedOrHigh,
    /// Those whose values are proven by a check.
    Validated,
    /// Those of high or critical severity.
    High,
}

/// What a policy does about one detector, where it differs from its category.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DetectorOverride {
    /// In requests.
    pub request: Option<Mode>,
    /// In responses.
    pub response: Option<Mode>,
    /// How sure a finding must be for more than recording.
    pub threshold: Option<Confidence>,
    /// How its values are masked.
    pub mask: Option<MaskKind>,
}

/// What policies need to know about a detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetectorFacts<'a> {
    /// Its type.
    pub name: &'a str,
    /// What kind of harm it is about.
    pub category: Category,
    /// How bad a real finding is.
    pub severity: Severity,
    /// Whether a check proves its values.
    pub validated: bool,
    /// Whether it is looked for only where a policy names it.
    pub named_only: bool,
    /// The highest confidence a finding of it can have.
    pub confidence_max: Confidence,
}

impl PolicyFile {
    /// Reads a policy from its table.
    pub fn read(id: PolicyId, section: &mut Section<'_>) -> Self {
        let name = section.text_maybe("name").unwrap_or(id.as_str()).to_owned();
        let file = Self {
            name,
            id,
            description: section.text_maybe("description").unwrap_or_default().to_owned(),
            fail_mode: section.choice_maybe("fail_mode").unwrap_or(FAIL_MODE_DEFAULT),
            stream_block: section.choice_maybe("stream_block").unwrap_or(StreamBlock::Error),
            documents: section.choice_maybe("documents").unwrap_or(DOCUMENTS_DEFAULT),
            credentials: section.choice_maybe("credentials").unwrap_or(CREDENTIALS_DEFAULT),
            shadow: read_shadow(section),
            categories: read_categories(section),
            detectors: read_overrides(section),
            allow: read_allow(section),
        };
        section.finish();
        file
    }

    /// Returns what is done about a category.
    pub fn category(&self, category: Category) -> CategoryRule {
        self.categories.get(&category).copied().unwrap_or(CategoryRule {
            request: CATEGORY_MODE_DEFAULT,
            response: CATEGORY_MODE_DEFAULT,
            threshold: THRESHOLD_DEFAULT,
            only: None,
        })
    }

    /// Returns every name by which it means a detector.
    pub(super) fn names_of_detectors(&self) -> impl Iterator<Item = &String> {
        self.detectors.keys().chain(self.allow.values().flat_map(|entry| &entry.detectors))
    }

    /// Compiles the policy for the detectors of one scanner, in the order of their identifiers.
    /// Those named in `disabled` are off.
    ///
    /// # Errors
    ///
    /// Every name of a detector that the scanner does not have.
    pub fn compile(
        &self,
        facts: &[DetectorFacts<'_>],
        disabled: &[String],
        places: &Places,
    ) -> Result<Decisions, Vec<Fault>> {
        let lookup = Lookup { facts, places };
        let path = format!("policies.{}", self.id);
        let mut faults: Vec<Fault> = Vec::new();
        for name in self.detectors.keys() {
            let found = lookup.find(name, || format!("{path}.detectors.{name}"));
            faults.extend(found.err());
        }
        let mut allowances = Vec::new();
        for (at, entry) in &self.allow {
            let found = entry
                .detectors
                .iter()
                .map(|name| lookup.find(name, || format!("{path}.allow[{at}].detectors")));
            let (known, unknown): (Vec<_>, Vec<_>) = found.partition(Result::is_ok);
            faults.extend(unknown.into_iter().filter_map(Result::err));
            let known = known.into_iter().filter_map(Result::ok).collect();
            allowances.push(entry.compile(known));
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let rules = facts.iter().map(|facts| {
            let off = disabled.iter().any(|name| name == facts.name);
            if off { switched_off(facts) } else { self.rules(facts) }
        });
        Ok(Decisions::new(rules.collect(), allowances))
    }

    fn rules(&self, facts: &DetectorFacts<'_>) -> DetectorRules {
        let category = self.category(facts.category);
        let own = self.detectors.get(facts.name).copied().unwrap_or_default();
        let covered = category.only.is_none_or(|only| only.covers(facts));
        let threshold = own.threshold.unwrap_or(category.threshold);
        let rule = |mode: Mode, own: Option<Mode>| {
            let by_category = match (facts.named_only, covered) {
                (true, _) => Mode::Off,
                (false, true) => mode,
                (false, false) => mode.min(Mode::Monitor),
            };
            Rule { mode: own.unwrap_or(by_category), threshold }
        };
        DetectorRules {
            request: rule(category.request, own.request),
            response: rule(category.response, own.response),
            mask: own.mask,
            confidence_max: facts.confidence_max,
        }
    }
}

impl Only {
    fn covers(self, facts: &DetectorFacts<'_>) -> bool {
        let high = facts.severity >= Severity::High;
        match self {
            Self::ValidatedOrHigh => facts.validated || high,
            Self::Validated => facts.validated,
            Self::High => high,
        }
    }

    /// Returns the name used in policies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ValidatedOrHigh => "validated_or_high",
            Self::Validated => "validated",
            Self::High => "high",
        }
    }
}

impl std::str::FromStr for Only {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let all = [Self::ValidatedOrHigh, Self::Validated, Self::High];
        let expected = "validated_or_high, validated, high";
        all.into_iter().find(|known| known.as_str() == text).ok_or(UnknownName { expected })
    }
}

impl<'a> DetectorFacts<'a> {
    /// Returns a stand-in for what is known by its name alone: names can be looked up by it, and nothing else.
    pub(super) fn of_name(name: &'a str) -> Self {
        Self {
            name,
            category: Category::Custom,
            severity: Severity::Low,
            validated: false,
            named_only: true,
            confidence_max: Confidence::LOW,
        }
    }
}

impl<'a> From<&'a Detector> for DetectorFacts<'a> {
    fn from(detector: &'a Detector) -> Self {
        let raised = detector.context.as_ref().is_some_and(ContextWords::can_raise);
        Self {
            name: &detector.name,
            category: detector.category,
            severity: detector.severity,
            validated: detector.checks.iter().any(|check| !FORM_CHECKS.contains(check)),
            named_only: false,
            confidence_max: if raised { detector.confidence.raised() } else { detector.confidence },
        }
    }
}

impl<'a> From<&'a Learned> for DetectorFacts<'a> {
    fn from(learned: &'a Learned) -> Self {
        Self {
            name: &learned.name,
            category: learned.category,
            severity: learned.severity,
            validated: false,
            named_only: learned.is_named_only(),
            confidence_max: Confidence::HIGH,
        }
    }
}

impl<'a> From<&'a Layer2Rule> for DetectorFacts<'a> {
    fn from(rule: &'a Layer2Rule) -> Self {
        let (category, severity, confidence_max) = (rule.category, rule.severity, rule.confidence);
        Self { name: &rule.id, category, severity, validated: false, named_only: false, confidence_max }
    }
}

/// Makes `mode` in a layer or patch begin afresh: the `request`, `response` and `only` of the layer
/// below go, unless they are written beside it.
///
/// Without this, `mode = "monitor"` over a policy that says `request = "block"` would change nothing.
pub fn expand_modes(root: &mut Map<String, Value>) {
    let policies = root.get_mut("policies").and_then(Value::as_object_mut);
    for policy in policies.into_iter().flat_map(|table| table.values_mut()) {
        for part in ["categories", "detectors"] {
            let rules = policy.get_mut(part).and_then(Value::as_object_mut);
            for rule in rules.into_iter().flat_map(|table| table.values_mut()) {
                expand_mode(rule);
            }
        }
    }
}

fn expand_mode(rule: &mut Value) {
    let Some(table) = rule.as_object_mut() else { return };
    if table.get("mode").is_none_or(Value::is_null) {
        return;
    }
    for key in ["request", "response", "only"] {
        table.entry(key).or_insert(Value::Null);
    }
}

struct Lookup<'a> {
    facts: &'a [DetectorFacts<'a>],
    places: &'a Places,
}

impl Lookup<'_> {
    fn find(&self, name: &str, key: impl Fn() -> String) -> Result<DetectorId, Fault> {
        let found = self.facts.iter().position(|facts| facts.name == name);
        found.map(|at| DetectorId(at as u16)).ok_or_else(|| {
            let suggestion = nearest(name, self.facts.iter().map(|facts| facts.name));
            let key = key();
            let place = self.places.of(&key).cloned();
            Fault { place, key, problem: Problem::Unknown { what: "detector", suggestion } }
        })
    }
}

fn switched_off(facts: &DetectorFacts<'_>) -> DetectorRules {
    let off = Rule { mode: Mode::Off, threshold: THRESHOLD_DEFAULT };
    DetectorRules { request: off, response: off, mask: None, confidence_max: facts.confidence_max }
}

/// Reads the shadow; the empty text stands for none, for files cannot say null.
fn read_shadow(section: &mut Section<'_>) -> Option<PolicyId> {
    let text = section.text_maybe("shadow").filter(|text| !text.is_empty())?;
    let parsed = text.parse::<PolicyId>();
    if let Err(error) = &parsed {
        section.invalid("shadow", error.to_string(), None);
    }
    parsed.ok()
}

fn read_categories(section: &mut Section<'_>) -> BTreeMap<Category, CategoryRule> {
    let mut categories = BTreeMap::new();
    for (name, mut inner) in section.named("categories") {
        let rule = read_category(&mut inner);
        match name.parse::<Category>() {
            Ok(category) => {
                categories.insert(category, rule);
            }
            Err(_) => {
                let suggestion = nearest(name, Category::ALL.map(Category::as_str));
                inner.fault("", Problem::Unknown { what: "category", suggestion });
            }
        }
    }
    categories
}

fn read_category(section: &mut Section<'_>) -> CategoryRule {
    let (request, response) = read_modes(section);
    let rule = CategoryRule {
        request: request.unwrap_or(CATEGORY_MODE_DEFAULT),
        response: response.unwrap_or(CATEGORY_MODE_DEFAULT),
        threshold: section.choice_maybe("threshold").unwrap_or(THRESHOLD_DEFAULT),
        only: section.choice_maybe("only"),
    };
    section.finish();
    rule
}

fn read_overrides(section: &mut Section<'_>) -> BTreeMap<String, DetectorOverride> {
    let mut overrides = BTreeMap::new();
    for (name, mut inner) in section.named("detectors") {
        let (request, response) = read_modes(&mut inner);
        let threshold = inner.choice_maybe("threshold");
        let mask = inner.choice_maybe("mask");
        inner.finish();
        overrides.insert(name.to_owned(), DetectorOverride { request, response, threshold, mask });
    }
    overrides
}

/// Reads `mode` for both directions, and `request` and `response`, which are stronger.
fn read_modes(section: &mut Section<'_>) -> (Option<Mode>, Option<Mode>) {
    let both: Option<Mode> = section.choice_maybe("mode");
    let request = section.choice_maybe("request").or(both);
    let response = section.choice_maybe("response").or(both);
    (request, response)
}

/// Reads the list; a faulty entry keeps its place free.
fn read_allow(section: &mut Section<'_>) -> BTreeMap<usize, AllowFile> {
    let entries = section.list("allow");
    if entries.len() > ALLOW_ENTRIES_MAX {
        section.invalid("allow", format!("expected {ALLOW_ENTRIES_MAX} entries at most"), None);
        return BTreeMap::new();
    }
    let read = |(at, mut entry): (usize, Section<'_>)| Some((at, AllowFile::read(&mut entry)?));
    entries.into_iter().enumerate().filter_map(read).collect()
}

#[cfg(test)]
mod tests;
