//! Rules prove themselves: every scenario of every rule is acted out before the rule is used.

use super::Rule;
use super::Rules;
use super::Scene;
use super::condition::ConditionFault;
use super::condition::Variables;
use super::condition::Verdict;
use super::fact::Facts;
use super::needs::Seen;
use super::scenario::Scenario;
use super::scenario::ScenarioProblem;
use super::scenario::Search;
use crate::scan::scanner::Scanner;
use crate::scan::threat::Finding;

/// The dialect of scenarios.
const DIALECT: &str = "generic";

/// Finds what is in a text that comes in two pieces, cut in the middle, as a stream would.
pub type Replay<'a> = dyn Fn(&Scanner, &[u8]) -> Vec<Finding> + 'a;

/// A scenario that a rule does not live up to.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}: {rule}: {problem}")]
pub struct RuleFault {
    /// The file of the rule.
    pub file: String,
    /// The line at which the rule begins.
    pub line: usize,
    /// The rule.
    pub rule: String,
    /// What does not hold.
    #[source]
    pub problem: RuleProblem,
}

/// What does not hold. Scenarios are counted from one; their text is never told.
#[derive(Debug, thiserror::Error)]
pub enum RuleProblem {
    /// It must fire and does not.
    #[error("`finds` example {example} does not fire{}", if *.streamed { " when its texts are streamed" } else { "" })]
    Silent {
        /// The number of the scenario.
        example: usize,
        /// Whether the texts came in pieces.
        streamed: bool,
    },
    /// It must not fire and does.
    #[error("`ignores` example {example} fires{}", if *.streamed { " when its texts are streamed" } else { "" })]
    Fires {
        /// The number of the scenario.
        example: usize,
        /// Whether the texts came in pieces.
        streamed: bool,
    },
    /// Its condition holds, but it needs something that is not there.
    #[error("`finds` example {example} does not have what `needs` asks for")]
    Unneeded {
        /// The number of the scenario.
        example: usize,
    },
    /// Its condition cannot be evaluated.
    #[error("`when` {fault} (`{list}` example {example})")]
    Condition {
        /// The list the scenario stands in.
        list: &'static str,
        /// The number of the scenario.
        example: usize,
        /// Why.
        #[source]
        fault: ConditionFault,
    },
    /// A scenario cannot be acted out.
    #[error("`{list}` example {example}: {problem}")]
    Scenario {
        /// The list it stands in.
        list: &'static str,
        /// The number of the scenario.
        example: usize,
        /// Why.
        #[source]
        problem: ScenarioProblem,
    },
}

/// Acts out every scenario of every rule with its texts in one piece and, with `replay`, in pieces.
///
/// # Errors
/// Every scenario that does not hold.
pub fn prove(rules: &Rules, scanner: &Scanner, replay: Option<&Replay<'_>>) -> Result<(), Vec<RuleFault>> {
    let all = scanner.all();
    let whole = |scanner: &Scanner, text: &[u8]| {
        let unjudged =
            |fault: crate::scan::scanner::ScanFault| ScenarioProblem::Unjudged { reason: fault.to_string() };
        scanner.scan(text, &all).map_err(unjudged)
    };
    let pieces =
        |scanner: &Scanner, text: &[u8]| Ok(replay.map_or_else(Vec::new, |replay| replay(scanner, text)));
    let mut faults = Vec::new();
    for rule in rules.rules() {
        for (list, scenarios) in [("finds", &rule.finds), ("ignores", &rule.ignores)] {
            for (at, scenario) in scenarios.iter().enumerate() {
                let trial = Trial { rules, rule, list, example: at + 1, scenario, scanner };
                let mut problem = trial.run(&whole, false).err();
                if problem.is_none() && replay.is_some() {
                    problem = trial.run(&pieces, true).err();
                }
                faults.extend(problem.map(|problem| fault(rule, problem)));
            }
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

fn fault(rule: &Rule, problem: RuleProblem) -> RuleFault {
    RuleFault { file: rule.file.clone(), line: rule.line, rule: rule.id.clone(), problem }
}

/// One scenario under trial.
struct Trial<'a> {
    rules: &'a Rules,
    rule: &'a Rule,
    list: &'static str,
    example: usize,
    scenario: &'a Scenario,
    scanner: &'a Scanner,
}

impl Trial<'_> {
    fn run(&self, search: &Search<'_>, streamed: bool) -> Result<(), RuleProblem> {
        let (list, example) = (self.list, self.example);
        let told = |problem| RuleProblem::Scenario { list, example, problem };
        let direction = self.scenario.way().map_err(told)?;
        let facts: Facts = self.scenario.act(self.scanner, search).map_err(told)?;
        let asked = self.scenario.act_asked(self.scanner, search).map_err(told)?;
        let scene = Scene { direction, dialect: DIALECT, facts: &facts, asked: &asked };
        let variables = Variables::of(&scene, self.rules.known());
        let verdict = self.rule.when.judge(&variables);
        let verdict = verdict.map_err(|fault| RuleProblem::Condition { list, example, fault })?;
        let seen = Seen::of(&scene, self.rules.known());
        let seen = if self.rule.when.looks_back() { seen.and(&asked, self.rules.known()) } else { seen };
        let needed = self.rule.needs.met_by(&seen);
        match (verdict, list) {
            (Verdict::Holds(_), "finds") if !needed => Err(RuleProblem::Unneeded { example }),
            (Verdict::Fails, "finds") => Err(RuleProblem::Silent { example, streamed }),
            (Verdict::Holds(_), "ignores") if needed => Err(RuleProblem::Fires { example, streamed }),
            (Verdict::Holds(_) | Verdict::Fails, _) => Ok(()),
        }
    }
}
