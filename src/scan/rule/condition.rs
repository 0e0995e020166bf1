//! The only home of the CEL interpreter: conditions, what they may say, and what they are asked about.
//!
//! A condition is compiled once. It is bounded: its source is short, no more than [`DEPTH_MAX`] of its parts stand in one
//! another, it walks lists at most [`NESTING_MAX`] deep, the lists have at most [`FACTS_MAX`](super::fact::FACTS_MAX)
//! entries and the first of each kind, and it has no regular expressions. It sees what was found, never the text it was
//! found in.
//!
//! How deep its parts stand in one another is only known when it has been parsed, and until then every two bytes may have
//! taken the parser further into itself: it has a thread of its own for that, with a stack that its bytes cannot fill.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::LazyLock;
use std::thread;

use cel::Context;
use cel::Env;
use cel::Value;
use cel::common::ast::EntryExpr;
use cel::common::ast::Expr;
use cel::common::ast::IdedExpr;
use cel::objects::Key;
use cel::objects::Map;

use super::Known;
use super::Scene;
use super::fact::CHANNELS;
use super::fact::DIRECTIONS;
use super::fact::Fact;
use crate::scan::score::Evidence;
use crate::scan::score::risk_score;
use crate::scan::threat::Category;
use crate::scan::threat::Severity;

/// The longest condition, in bytes.
pub const CONDITION_BYTES_MAX: usize = 4096;

/// How deep lists may be walked within the walk of a list.
pub const NESTING_MAX: usize = 2;

/// How many parts may stand in one another, those that walks of lists are made of included: each takes room on the stack
/// where it is evaluated, and of a sum every term stands in the one behind it. The deepest take less than half a MiB.
pub const DEPTH_MAX: usize = 128;

/// The stack of the thread that parses: 8 KiB for each byte of a condition. What its brackets take, of which the parser
/// opens no more than [`DEPTH_MAX`], is in that many times over.
const PARSER_STACK_BYTES: usize = CONDITION_BYTES_MAX << 13;

/// What the parser says of brackets, or alternatives by `?`, that stand too deep in one another.
const PARSER_GAVE_UP: &str = "Recursion limit";

/// What a condition may name, beside the variables that it introduces itself.
pub const VARIABLES: [&str; 16] = [
    "findings",
    ASKED,
    "counts",
    "distinct",
    "messages",
    "types",
    "tools",
    "leaked",
    "tainted",
    "risk",
    "direction",
    "dialect",
    "LOW",
    "MEDIUM",
    "HIGH",
    "CRITICAL",
];

/// What was found in the request that a body answers.
const ASKED: &str = "asked";

/// The field of a finding that tells its place in the list.
const INDEX: &str = "index";

/// A CEL expression over the facts of one body: a truth value, or the findings it is about.
#[derive(Debug)]
pub struct Condition {
    source: String,
    expression: IdedExpr,
    looks_back: bool,
}

/// What is wrong with a condition.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConditionFault {
    /// It is longer than [`CONDITION_BYTES_MAX`].
    #[error("is longer than {CONDITION_BYTES_MAX} bytes")]
    TooLong,
    /// It is not CEL.
    #[error("does not parse: {reason}")]
    Syntax {
        /// What the parser says.
        reason: String,
    },
    /// It names something that nobody tells it.
    #[error("names `{name}`; it may name {}", VARIABLES.join(", "))]
    Unknown {
        /// The name.
        name: String,
    },
    /// It walks lists within lists within lists.
    #[error("walks lists more than {NESTING_MAX} deep")]
    TooDeep,
    /// More of its parts stand in one another than [`DEPTH_MAX`].
    #[error(
        "has more than {DEPTH_MAX} parts in one another, as brackets are, and every term of a sum in the next"
    )]
    TooNested,
    /// It could not be parsed, for want of a thread with room for it.
    #[error("could not be parsed: the system gives no thread with a stack of {PARSER_STACK_BYTES} bytes")]
    NoStack,
    /// It could not be evaluated.
    #[error("cannot be evaluated: {reason}")]
    Evaluation {
        /// What the interpreter says.
        reason: String,
    },
    /// Its value is neither a truth value nor a list of findings.
    #[error("must give true, false or a list of findings")]
    NoVerdict,
}

/// What a condition says about a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does not hold.
    Fails,
    /// It holds, for these facts by their places; none where it is about the body as a whole.
    Holds(Vec<usize>),
}

/// The variables of one body.
pub struct Variables {
    context: Context<'static, 'static>,
}

/// The words that bodies have in common.
static WORDS: LazyLock<HashMap<&'static str, Arc<String>>> = LazyLock::new(|| {
    let fields = [
        "",
        INDEX,
        "type",
        "category",
        "severity",
        "confidence",
        "layer",
        "decoded",
        "encodings",
        "channel",
        "turn",
        "age",
        "tool",
        "first",
        "beside",
        "start",
        "end",
        "name",
        "changed",
        "shadowed",
        "l1_regex",
        "l3_ml",
    ];
    let closed = Category::ALL.map(Category::as_str).into_iter().chain(CHANNELS).chain(DIRECTIONS);
    fields.into_iter().chain(closed).map(|word| (word, Arc::new(word.to_owned()))).collect()
});

/// The standard functions of CEL, shared by all evaluations.
static STANDARD: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

impl Condition {
    /// Compiles a condition and proves it bounded.
    ///
    /// # Errors
    /// The first fault found.
    pub fn compile(source: &str) -> Result<Self, ConditionFault> {
        if source.len() > CONDITION_BYTES_MAX {
            return Err(ConditionFault::TooLong);
        }
        thread::scope(|scope| {
            let parser = thread::Builder::new().name("condition".to_owned()).stack_size(PARSER_STACK_BYTES);
            let parsed = parser.spawn_scoped(scope, || Self::parse(source));
            let parsed = parsed.map_err(|_| ConditionFault::NoStack)?.join();
            parsed.unwrap_or_else(|_| Err(ConditionFault::Syntax { reason: "the parser failed".to_owned() }))
        })
    }

    /// Parses a condition of whatever depth; one that goes too deep does not leave the thread it is parsed on.
    fn parse(source: &str) -> Result<Self, ConditionFault> {
        let parser = STANDARD.parser().max_recursion_depth(DEPTH_MAX as u16);
        let expression = parser.parse(source).map_err(|faults| {
            if faults.errors.iter().any(|fault| fault.msg.contains(PARSER_GAVE_UP)) {
                return ConditionFault::TooNested;
            }
            let reason = faults.errors.first().map_or("unknown reason", |fault| fault.msg.as_str());
            ConditionFault::Syntax { reason: reason.to_owned() }
        })?;
        let mut limits = Limits::default();
        limits.check(&expression, 0)?;
        Ok(Self { source: source.to_owned(), expression, looks_back: limits.looks_back })
    }

    /// Tells whether it is about what was found in the request, too, where it is asked about an answer.
    pub fn looks_back(&self) -> bool {
        self.looks_back
    }

    /// Returns the condition as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Evaluates the condition.
    ///
    /// # Errors
    /// It cannot be evaluated, or gives something else than a verdict.
    pub fn judge(&self, variables: &Variables) -> Result<Verdict, ConditionFault> {
        let value = Value::resolve(&self.expression, &variables.context).map_err(|fault| {
            // A fault may quote values; only its beginning, the kind of fault, is told.
            let told = fault.to_string();
            let reason = told.split([':', '(']).next().unwrap_or_default().trim().to_owned();
            ConditionFault::Evaluation { reason }
        })?;
        match value {
            Value::Bool(true) => Ok(Verdict::Holds(Vec::new())),
            Value::Bool(false) => Ok(Verdict::Fails),
            Value::List(list) if list.is_empty() => Ok(Verdict::Fails),
            Value::List(list) => {
                let places: Option<Vec<usize>> = list.iter().map(place_of).collect();
                places.map(Verdict::Holds).ok_or(ConditionFault::NoVerdict)
            }
            _ => Err(ConditionFault::NoVerdict),
        }
    }
}

/// Returns the place of a finding that a condition gave back.
fn place_of(value: &Value) -> Option<usize> {
    let Value::Map(map) = value else { return None };
    match map.map.get(&Key::from(INDEX)) {
        Some(Value::Int(index)) => usize::try_from(*index).ok(),
        _ => None,
    }
}

/// Walks an expression for what it may not say.
#[derive(Default)]
struct Limits {
    own: Vec<String>,
    depth: usize,
    looks_back: bool,
}

impl Limits {
    fn check(&mut self, expression: &IdedExpr, walks: usize) -> Result<(), ConditionFault> {
        if self.depth == DEPTH_MAX {
            return Err(ConditionFault::TooNested);
        }
        self.depth += 1;
        let checked = self.parts(expression, walks);
        self.depth -= 1;
        checked
    }

    fn parts(&mut self, expression: &IdedExpr, walks: usize) -> Result<(), ConditionFault> {
        match &expression.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(name) if self.own.contains(name) => Ok(()),
            Expr::Ident(name) if VARIABLES.contains(&name.as_str()) => {
                self.looks_back |= name == ASKED;
                Ok(())
            }
            Expr::Ident(name) => Err(ConditionFault::Unknown { name: name.clone() }),
            Expr::Call(call) => {
                call.target.iter().try_for_each(|target| self.check(target, walks))?;
                call.args.iter().try_for_each(|arg| self.check(arg, walks))
            }
            Expr::Select(select) => self.check(&select.operand, walks),
            Expr::List(list) => list.elements.iter().try_for_each(|element| self.check(element, walks)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| self.entry(&entry.expr, walks)),
            Expr::Struct(made) => made.entries.iter().try_for_each(|entry| self.entry(&entry.expr, walks)),
            Expr::Comprehension(walk) => {
                if walks == NESTING_MAX {
                    return Err(ConditionFault::TooDeep);
                }
                self.check(&walk.iter_range, walks)?;
                let before = self.own.len();
                self.own.extend([walk.iter_var.clone(), walk.accu_var.clone()]);
                self.own.extend(walk.iter_var2.clone());
                let inner = [&walk.accu_init, &walk.loop_cond, &walk.loop_step, &walk.result];
                let checked = inner.into_iter().try_for_each(|part| self.check(part, walks + 1));
                self.own.truncate(before);
                checked
            }
        }
    }

    fn entry(&mut self, entry: &EntryExpr, walks: usize) -> Result<(), ConditionFault> {
        match entry {
            EntryExpr::StructField(field) => self.check(&field.value, walks),
            EntryExpr::MapEntry(entry) => {
                self.check(&entry.key, walks)?;
                self.check(&entry.value, walks)
            }
        }
    }
}

impl Variables {
    /// Tells conditions about a body; `known` says what its detectors are.
    pub fn of(scene: &Scene<'_>, known: &[Known]) -> Self {
        let mut context = Context::with_env(Arc::clone(&STANDARD));
        let facts = scene.facts.list();
        let beside = beside(facts, known);
        let findings: Vec<Value> =
            facts.iter().enumerate().map(|(at, fact)| finding(Some(at), fact, known, &beside)).collect();
        let tools: Vec<Value> = scene
            .facts
            .tools
            .iter()
            .map(|tool| {
                map([
                    ("name", text(&tool.name)),
                    ("changed", Value::Bool(tool.changed)),
                    ("shadowed", Value::Bool(tool.shadowed)),
                ])
            })
            .collect();
        let evidence = facts.iter().filter_map(|fact| {
            let kind = known.get(usize::from(fact.detector.0))?;
            let (severity, category) = (kind.severity, kind.category);
            Some(Evidence { severity, confidence: fact.confidence, category })
        });
        let risk = Value::Int(i64::from(risk_score(evidence)));
        let [counts, distinct] = counts(scene, known);
        let values = [
            ("findings", list(findings)),
            (ASKED, asked(scene.asked, known)),
            ("counts", counts),
            ("distinct", distinct),
            ("messages", messages(facts, known)),
            ("types", types(facts, known)),
            ("tools", list(tools)),
            ("leaked", Value::Int(i64::from(scene.facts.leaked))),
            ("tainted", Value::Bool(scene.facts.tainted)),
            ("risk", risk),
            ("direction", text(scene.direction)),
            ("dialect", text(scene.dialect)),
            ("LOW", Value::Int(rank(Severity::Low))),
            ("MEDIUM", Value::Int(rank(Severity::Medium))),
            ("HIGH", Value::Int(rank(Severity::High))),
            ("CRITICAL", Value::Int(rank(Severity::Critical))),
        ];
        for (name, value) in values {
            context.add_variable_from_value(name, value);
        }
        Self { context }
    }
}

/// How many findings of each category a message has.
type Beside = HashMap<u32, [usize; Category::ALL.len()]>;

/// Counts the categories of each message.
fn beside(facts: &[Fact], known: &[Known]) -> Beside {
    let mut beside = Beside::new();
    for fact in facts {
        let (Some(turn), Some(kind)) = (fact.place.turn, known.get(usize::from(fact.detector.0))) else {
            continue;
        };
        let counts = beside.entry(turn).or_default();
        Category::ALL
            .iter()
            .zip(counts)
            .filter(|(category, _)| **category == kind.category)
            .for_each(|(_, count)| *count += 1);
    }
    beside
}

/// Returns what was found in the request. A condition cannot give it back: what it is about is in the answer.
fn asked(facts: &[Fact], known: &[Known]) -> Value {
    let beside = beside(facts, known);
    list(facts.iter().map(|fact| finding(None, fact, known, &beside)).collect())
}

/// Returns a finding as conditions see it; one without a place is none of the body's own.
fn finding(at: Option<usize>, fact: &Fact, known: &[Known], all: &Beside) -> Value {
    let kind = known.get(usize::from(fact.detector.0));
    let counts = fact.place.turn.and_then(|turn| all.get(&turn)).copied().unwrap_or_default();
    let own = |category: Category| usize::from(kind.is_some_and(|kind| kind.category == category));
    let beside = Category::ALL.into_iter().zip(counts).filter(|(category, count)| *count > own(*category));
    let number = |place: Option<u32>| Value::Int(place.map_or(-1, i64::from));
    map([
        (INDEX, Value::Int(at.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1))),
        ("type", text(kind.map_or("", |kind| &kind.name))),
        ("category", text(kind.map_or("", |kind| kind.category.as_str()))),
        ("severity", Value::Int(kind.map_or(0, |kind| rank(kind.severity)))),
        ("confidence", Value::Int(i64::from(fact.confidence.percent()))),
        ("layer", text(fact.layer.as_str())),
        ("decoded", Value::Int(fact.decoded.0.len() as i64)),
        ("encodings", list(fact.decoded.0.iter().map(|step| text(step.as_str())).collect())),
        ("channel", text(fact.channel)),
        ("turn", number(fact.place.turn)),
        ("age", number(fact.place.age)),
        ("tool", text(fact.place.tool.as_deref().unwrap_or_default())),
        ("first", Value::Bool(fact.first)),
        ("start", place_in_text(fact.span.start)),
        ("end", place_in_text(fact.span.end)),
        ("beside", list(beside.map(|(category, _)| text(category.as_str())).collect())),
    ])
}

fn place_in_text(at: usize) -> Value {
    Value::Int(i64::try_from(at).unwrap_or(i64::MAX))
}

/// Returns how many findings, and how many different values, each category has; all categories are told.
fn counts(scene: &Scene<'_>, known: &[Known]) -> [Value; 2] {
    let mut all: HashMap<Category, (usize, usize)> =
        Category::ALL.into_iter().map(|category| (category, (0, 0))).collect();
    for (id, count) in scene.facts.counts() {
        let Some(kind) = known.get(usize::from(id.0)) else { continue };
        let sums = all.entry(kind.category).or_default();
        *sums = (sums.0 + count.all, sums.1 + count.distinct);
    }
    let number = |count: usize| Value::Int(i64::try_from(count).unwrap_or(i64::MAX));
    [
        map(all.iter().map(|(category, sums)| (category.as_str(), number(sums.0)))),
        map(all.iter().map(|(category, sums)| (category.as_str(), number(sums.1)))),
    ]
}

/// Returns in how many different messages each category was found; all categories are told.
fn messages(facts: &[Fact], known: &[Known]) -> Value {
    let turns_of = |category: Category| {
        let of_category = |fact: &&Fact| {
            known.get(usize::from(fact.detector.0)).is_some_and(|kind| kind.category == category)
        };
        facts.iter().filter(of_category).filter_map(|fact| fact.place.turn).collect::<BTreeSet<u32>>()
    };
    map(Category::ALL.map(|category| (category.as_str(), Value::Int(turns_of(category).len() as i64))))
}

/// Returns the types that were found, each once.
fn types(facts: &[Fact], known: &[Known]) -> Value {
    let names: BTreeSet<&str> = facts
        .iter()
        .filter_map(|fact| Some(known.get(usize::from(fact.detector.0))?.name.as_str()))
        .collect();
    list(names.into_iter().map(text).collect())
}

/// Returns a severity as a number that can be compared: 1 (low) to 4 (critical).
fn rank(severity: Severity) -> i64 {
    match severity {
        Severity::Low => 1,
        Severity::Medium => 2,
        Severity::High => 3,
        Severity::Critical => 4,
    }
}

fn text(text: &str) -> Value {
    Value::String(word(text))
}

/// Returns a text to share; what every body says is only made once.
fn word(text: &str) -> Arc<String> {
    WORDS.get(text).cloned().unwrap_or_else(|| Arc::new(text.to_owned()))
}

fn list(values: Vec<Value>) -> Value {
    Value::List(Arc::new(values))
}

fn map<'a>(entries: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let map = entries.into_iter().map(|(key, value)| (Key::String(word(key)), value)).collect();
    Value::Map(Map { map: Arc::new(map) })
}

#[cfg(test)]
mod tests;
