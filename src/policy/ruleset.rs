//! Everything an exchange is judged by, in one immutable value.
//!
//! In: what an operator wrote ([`RulesFile`]), a scanner and the dialects. Out: a [`Ruleset`] that
//! is pinned by an exchange for its whole life. Building compiles every policy against the
//! scanner's detectors and collects all faults; nothing half-built ever exists.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::document::Fault;
use crate::document::Places;
use crate::document::Problem;
use crate::document::fault::nearest;
use crate::document::section::Section;
use crate::llm::dialect::Channel;
use crate::llm::dialect::Dialects;
use crate::policy::a2a::A2aSettings;
use crate::policy::build::DialectFiles;
use crate::policy::decision::Action;
use crate::policy::decision::CallerId;
use crate::policy::decision::Decisions;
use crate::policy::decision::Direction;
use crate::policy::decision::DocumentMode;
use crate::policy::decision::FailMode;
use crate::policy::decision::Mode;
use crate::policy::decision::PolicyId;
use crate::policy::decision::StreamBlock;
use crate::policy::file::DetectorFacts;
use crate::policy::file::PolicyFile;
use crate::policy::inspect::prompt::Prompts;
use crate::policy::limits::Limits;
use crate::policy::memo::Memo;
use crate::policy::route::ROUTES_MAX;
use crate::policy::route::Route;
use crate::policy::watches::Awaited;
use crate::policy::watches::Watches;
use crate::scan::classifier::card::Learned;
use crate::scan::classifier::shelf::Shelf;
use crate::scan::detector::MaskKind;
use crate::scan::hold::Watch;
use crate::scan::kind::Kind;
use crate::scan::rule::Rules;
use crate::scan::scanner::Scanner;
use crate::scan::threat::Category;
use crate::scan::threat::Confidence;
use crate::scan::threat::DetectorId;
use crate::scan::threat::DetectorSet;

/// The most policies of a configuration.
pub const POLICIES_MAX: usize = 1000;

/// Everything an exchange is judged by; immutable, swapped whole.
pub struct Ruleset {
    /// The number that decisions name.
    pub revision: u64,
    /// What can be found.
    pub scanner: Arc<Scanner>,
    /// The models of the third layer.
    pub layer3: Arc<Shelf>,
    /// The rules over what is found.
    pub layer2: Arc<Rules>,
    /// The shapes of bodies.
    pub dialects: Arc<Dialects>,
    /// The files that overlay the embedded dialects; tells a reload whether they changed.
    pub dialect_files: DialectFiles,
    /// The policies by name.
    pub policies: BTreeMap<PolicyId, Arc<Policy>>,
    /// The routes, the closest first.
    pub routes: Arc<[Route]>,
    /// The limits.
    pub limits: Limits,
    /// The texts that were clean under this ruleset.
    pub memo: Memo,
    /// The system prompts that came last, by their fingerprints.
    pub prompts: Prompts,
    /// How calls between agents are judged.
    pub a2a: A2aSettings,
    /// Automata of earlier rulesets, the latest first.
    pub(super) spare_watches: Vec<Arc<Awaited>>,
}

/// One policy, compiled for the detectors of one scanner.
pub struct Policy {
    /// Its name in routes and records.
    pub id: PolicyId,
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
    /// The policy as it was written.
    pub file: PolicyFile,
    decisions: Decisions,
    looked_for: [DetectorSet; 2],
    pub(super) awaited: [Arc<Awaited>; 2],
}

/// What a ruleset is built from.
pub struct Parts<'a> {
    /// The number it gets.
    pub revision: u64,
    /// What an operator wrote.
    pub rules: &'a RulesFile,
    /// Where it was written.
    pub places: &'a Places,
    /// What can be found.
    pub scanner: Arc<Scanner>,
    /// The models that go with that scanner.
    pub layer3: Arc<Shelf>,
    /// The rules that go with that scanner and these models.
    pub layer2: Arc<Rules>,
    /// The shapes of bodies.
    pub dialects: Arc<Dialects>,
    /// The files that overlay the embedded dialects; tells a reload whether they changed.
    pub dialect_files: DialectFiles,
}

/// The part of a configuration that changes without a restart, as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct RulesFile {
    /// The routes, the closest first.
    pub routes: Vec<Route>,
    /// The policies by name.
    pub policies: BTreeMap<PolicyId, PolicyFile>,
    /// The limits.
    pub limits: Limits,
    /// How calls between agents are judged.
    pub a2a: A2aSettings,
    /// Detectors that are off in every policy, by type.
    pub disabled: Vec<String>,
}

/// The top-level keys that change without a restart.
pub const RELOADABLE_KEYS: [&str; 6] = ["routes", "policies", "limits", "detectors", "a2a", SINKS_KEY];
/// The key of where the audit log is forwarded to: part of a revision, and read by others.
pub const SINKS_KEY: &str = "siem";

impl Ruleset {
    /// Tells whether another ruleset was built of the same packs, rules, models and dialects.
    pub fn is_of_the_packs_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.scanner, &other.scanner)
            && Arc::ptr_eq(&self.layer2, &other.layer2)
            && Arc::ptr_eq(&self.layer3, &other.layer3)
            && Arc::ptr_eq(&self.dialects, &other.dialects)
    }

    /// Compiles every policy against the scanner. Takes time; keep it off the request threads.
    ///
    /// # Errors
    ///
    /// Every detector that a policy or `[detectors]` names and the scanner does not have.
    pub fn build(parts: Parts<'_>) -> Result<Self, Vec<Fault>> {
        Self::build_beside(None, parts)
    }

    /// Does the same, and takes automata over from the ruleset in force where they would be the same.
    ///
    /// # Errors
    ///
    /// As [`Ruleset::build`].
    pub fn build_beside(running: Option<&Self>, parts: Parts<'_>) -> Result<Self, Vec<Fault>> {
        let facts = facts_of(&parts.scanner, &parts.layer3, &parts.layer2);
        let mut faults = unknown_disabled(parts.rules, parts.places, &facts);
        let mut watches = Watches::of(&parts, running);
        let mut compiled = BTreeMap::new();
        for (id, file) in &parts.rules.policies {
            match file.compile(&facts, &parts.rules.disabled, parts.places) {
                Ok(decisions) => drop(compiled.insert(id, (file, decisions))),
                Err(unknown) => faults.extend(unknown),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let policy = |(id, (file, decisions)): (&&PolicyId, &(&PolicyFile, Decisions))| {
            let shadow = file.shadow.as_ref().and_then(|shadow| compiled.get(shadow));
            let policy = Policy::new(file, decisions, shadow.map(|(_, shadow)| shadow), &mut watches);
            ((*id).clone(), Arc::new(policy))
        };
        let policies: BTreeMap<PolicyId, Arc<Policy>> = compiled.iter().map(policy).collect();
        for policy in parts.rules.routes.iter().filter_map(|route| policies.get(route.policy.as_str())) {
            // What the first exchange would wait for.
            policy.watch(Direction::Response);
            Direction::ALL.iter().for_each(|way| parts.layer3.prepare(policy.looked_for(*way)));
        }
        let spare_watches = watches.spare();
        Ok(Self {
            revision: parts.revision,
            scanner: parts.scanner,
            layer2: parts.layer2,
            layer3: parts.layer3,
            dialects: parts.dialects,
            dialect_files: parts.dialect_files,
            policies,
            routes: parts.rules.routes.clone().into(),
            limits: parts.rules.limits.clone(),
            memo: Memo::default(),
            prompts: Prompts::default(),
            a2a: parts.rules.a2a.clone(),
            spare_watches,
        })
    }

    /// Returns what a finding of an id is of: a detector, a kind of a model, or a rule.
    pub fn kind(&self, id: DetectorId) -> Option<Kind<'_>> {
        let learned = || self.layer3.kind(id).map(Kind::from);
        let rule = || self.layer2.rule(id).map(Kind::from);
        self.scanner.detector(id).map(Kind::from).or_else(learned).or_else(rule)
    }

    /// Tells whether what an id stands for is looked for only where somebody names it.
    pub fn is_named_only(&self, id: DetectorId) -> bool {
        self.layer3.kind(id).is_some_and(Learned::is_named_only)
    }

    /// Returns the ids of all detectors, kinds of models, and rules.
    pub fn all(&self) -> DetectorSet {
        self.scanner.all().iter().chain(self.layer3.ids()).chain(self.layer2.ids()).collect()
    }

    /// Returns the closest route for a host (lower case, no port) and a normalised path.
    pub fn route(&self, host: Option<&str>, path: &str) -> Option<&Route> {
        closest_route(&self.routes, host, path)
    }

    /// Returns the place of the closest route in [`Ruleset::routes`], and the policy that decides there.
    pub fn passage(&self, host: Option<&str>, path: &str) -> Option<(usize, Arc<Policy>)> {
        let at = self.routes.iter().position(|route| route.fits(host, path))?;
        let policy = self.policy(self.routes.get(at)?.policy.as_str())?;
        Some((at, Arc::clone(policy)))
    }

    /// Returns the policy that decides beside `policy` and is only recorded.
    pub fn shadow_of(&self, policy: &Policy) -> Option<&Policy> {
        self.policy(policy.shadow.as_ref()?.as_str()).map(|shadow| &**shadow)
    }

    /// Returns a policy by its name; every name in a route or a `shadow` has one.
    pub fn policy(&self, id: &str) -> Option<&Arc<Policy>> {
        self.policies.get(id)
    }
}

impl Policy {
    fn new(
        file: &PolicyFile,
        decisions: &Decisions,
        shadow: Option<&Decisions>,
        watches: &mut Watches<'_>,
    ) -> Self {
        // What the shadow looks for is looked for too, and is only reported.
        let looked_for = Direction::ALL.map(|way| {
            let own = decisions.wanted(way);
            shadow.map_or_else(|| own.clone(), |shadow| own.union(shadow.wanted(way)))
        });
        let awaited = Direction::ALL.map(|way| {
            let enforced = watches.awaited(decisions, way);
            watches.find(&enforced, &looked_for[way.index()])
        });
        Self {
            id: file.id.clone(),
            fail_mode: file.fail_mode,
            stream_block: file.stream_block,
            documents: file.documents,
            credentials: file.credentials,
            shadow: file.shadow.clone(),
            file: file.clone(),
            decisions: decisions.clone(),
            looked_for,
            awaited,
        }
    }

    /// Returns the detectors whose findings are looked for.
    pub fn wanted(&self, direction: Direction) -> &DetectorSet {
        self.decisions.wanted(direction)
    }

    /// Returns the detectors that run: those whose findings are wanted here or by the shadow.
    pub fn looked_for(&self, direction: Direction) -> &DetectorSet {
        &self.looked_for[direction.index()]
    }

    /// Returns the detectors whose findings can change or stop a body.
    pub fn enforced(&self, direction: Direction) -> &DetectorSet {
        self.decisions.enforced(direction)
    }

    /// Returns the automaton that tells what of a stream must wait.
    pub fn watch(&self, direction: Direction) -> &Watch {
        let [request, response] = &self.awaited;
        match direction {
            Direction::Request => request.watch(),
            Direction::Response => response.watch(),
        }
    }

    /// Returns what is done about one finding; see [`Decisions::judge`].
    pub fn judge(
        &self,
        direction: Direction,
        detector: DetectorId,
        confidence: Confidence,
        value: &[u8],
        caller: Option<&CallerId>,
        now: Timestamp,
    ) -> Action {
        self.decisions.judge(direction, detector, confidence, value, caller, now)
    }

    /// Returns what is done about a finding of a category in a channel that would else have `action` done about it:
    /// about a secret in a credential's own place no more than the policy's `credentials`.
    pub fn spared(&self, of: (Category, Channel), action: Action) -> Action {
        match of {
            (Category::Secrets, Channel::Credential) => action.min(self.credentials.at_most()),
            _ => action,
        }
    }

    /// Returns how values of a detector are masked under this policy; `own` is the detector's way.
    pub fn mask(&self, id: DetectorId, own: MaskKind) -> MaskKind {
        self.decisions.mask(id).unwrap_or(own)
    }

    /// Returns the compiled tables.
    pub fn decisions(&self) -> &Decisions {
        &self.decisions
    }
}

impl RulesFile {
    /// Reads the reloadable keys of a document's root.
    pub fn read(root: &mut Section<'_>) -> Self {
        let limits = Limits::read(&mut root.section("limits"));
        let policies = read_policies(root);
        let (routes, for_agents) = read_routes(root, &policies);
        let mut detectors = root.section("detectors");
        let disabled = detectors.texts("disabled").into_iter().map(str::to_owned).collect();
        detectors.finish();
        let a2a = A2aSettings::read(&mut root.section("a2a"), for_agents.as_deref());
        Self { routes, policies, limits, a2a, disabled }
    }

    /// Returns every name by which a policy or `[detectors]` means a detector.
    pub(super) fn names_of_detectors(&self) -> impl Iterator<Item = &str> {
        self.policies
            .values()
            .flat_map(PolicyFile::names_of_detectors)
            .chain(&self.disabled)
            .map(String::as_str)
    }
}

/// Returns the routes ordered so that the first that fits is the closest.
pub fn order_routes(mut routes: Vec<Route>) -> Vec<Route> {
    routes.sort_by_cached_key(Route::closeness);
    routes
}

/// Returns the closest of ordered routes for a host (lower case, no port) and a normalised path.
pub fn closest_route<'a>(routes: &'a [Route], host: Option<&str>, path: &str) -> Option<&'a Route> {
    routes.iter().find(|route| route.fits(host, path))
}

fn read_policies(root: &mut Section<'_>) -> BTreeMap<PolicyId, PolicyFile> {
    let mut policies = BTreeMap::new();
    let mut shadows = Vec::new();
    let named = root.named("policies");
    if named.len() > POLICIES_MAX {
        root.invalid("policies", format!("expected {POLICIES_MAX} policies at most"), None);
        return policies;
    }
    for (name, mut inner) in named {
        match name.parse::<PolicyId>() {
            Ok(id) => {
                let policy = PolicyFile::read(id.clone(), &mut inner);
                shadows.extend(policy.shadow.clone().map(|shadow| (id.clone(), shadow, inner)));
                policies.insert(id, policy);
            }
            Err(error) => inner.invalid("", error.to_string(), None),
        }
    }
    for (id, shadow, inner) in shadows {
        if !policies.contains_key(&shadow) {
            inner.fault("shadow", unknown_policy(&shadow, &policies));
        } else if is_own_shadow(&id, &policies) {
            inner.invalid("shadow", "leads back to this policy: beside it another one decides", None);
        }
    }
    policies
}

/// Tells whether who goes from a policy to its shadow, and on, comes back to it.
fn is_own_shadow(id: &PolicyId, policies: &BTreeMap<PolicyId, PolicyFile>) -> bool {
    let next = |id: &PolicyId| policies.get(id)?.shadow.as_ref();
    std::iter::successors(next(id), |id| next(id)).take(policies.len()).any(|shadow| shadow == id)
}

/// Reads the routes, and the path of the key that makes the first of those for agents one.
fn read_routes(
    root: &mut Section<'_>,
    policies: &BTreeMap<PolicyId, PolicyFile>,
) -> (Vec<Route>, Option<String>) {
    let sections = root.list("routes");
    if sections.len() > ROUTES_MAX {
        root.invalid("routes", format!("expected {ROUTES_MAX} routes at most"), None);
        return (Vec::new(), None);
    }
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let mut ways: BTreeMap<(Option<String>, String), String> = BTreeMap::new();
    let (mut routes, mut for_agents) = (Vec::new(), None);
    for mut section in sections {
        let route = Route::read(&mut section);
        let path = section.path().to_owned();
        if route.is_for_agents() {
            for_agents.get_or_insert_with(|| format!("{path}.auth"));
        }
        if let Some(other) = names.insert(route.name.clone(), path.clone()).filter(|_| !route.name.is_empty())
        {
            section.fault("name", Problem::Taken { other });
        }
        if let Some(other) = ways.insert((route.host.clone(), route.path_prefix.clone()), path) {
            section.fault("path_prefix", Problem::Taken { other });
        }
        if !policies.contains_key(&route.policy) {
            section.fault("policy", unknown_policy(&route.policy, policies));
        }
        routes.push(route);
    }
    (order_routes(routes), for_agents)
}

/// Returns what policies need to know of all that can be found, in the order of its identifiers.
pub(super) fn facts_of<'a>(
    scanner: &'a Scanner,
    layer3: &'a Shelf,
    layer2: &'a Rules,
) -> Vec<DetectorFacts<'a>> {
    let learned = layer3.kinds().iter().map(DetectorFacts::from);
    let rules = layer2.rules().iter().map(DetectorFacts::from);
    scanner.detectors().iter().map(DetectorFacts::from).chain(learned).chain(rules).collect()
}

/// Returns every name of a detector in some rules that nothing has.
pub(super) fn unknown_detectors(
    rules: &RulesFile,
    places: &Places,
    facts: &[DetectorFacts<'_>],
) -> Vec<Fault> {
    let mut faults = unknown_disabled(rules, places, facts);
    let unknown = |file: &PolicyFile| file.compile(facts, &rules.disabled, places).err();
    faults.extend(rules.policies.values().filter_map(unknown).flatten());
    faults
}

fn unknown_disabled(rules: &RulesFile, places: &Places, facts: &[DetectorFacts<'_>]) -> Vec<Fault> {
    let is_known = |name: &&String| facts.iter().any(|facts| facts.name == **name);
    let unknown = rules.disabled.iter().filter(|name| !is_known(name));
    let fault = |name: &String| {
        let key = "detectors.disabled".to_owned();
        let suggestion = nearest(name, facts.iter().map(|facts| facts.name));
        let place = places.of(&key).cloned();
        Fault { place, key, problem: Problem::Unknown { what: "detector", suggestion } }
    };
    unknown.map(fault).collect()
}

fn unknown_policy(id: &PolicyId, policies: &BTreeMap<PolicyId, PolicyFile>) -> Problem {
    let suggestion = nearest(id.as_str(), policies.keys().map(PolicyId::as_str));
    Problem::Unknown { what: "policy", suggestion }
}
