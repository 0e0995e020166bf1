//! Budgets that all nodes decide about together, in Redis.
//!
//! Before an exchange of a key with a budget passes, one script adds up what the store says was used, what each node used
//! and has not written yet, and what is reserved at each, and grants the reservation or does not; what waits is asked in
//! one breath. A node tells how things stand with it, numbered, and never what came on top: a word that is said twice
//! counts once, one that comes late counts nothing, and where nobody knows whether it was heard the next one puts it
//! right. What the store has only rises within a day and a month, so the most that any node saw of it holds.
//!
//! A node says every second again what has not come to rest; what was not said for [`LEASE`] lapses, so that a node that
//! died holds nothing for long. Nothing in Redis has to last: where it was lost, each node says its part again within
//! that second, and the store has the rest. Until then what is known there is too little: where it is refused what
//! cannot be told, nothing is granted for [`DOUBTED_FOR`].
//!
//! Days and months begin by Redis' clock, which nodes hear of with every answer: one whose own is ahead takes nobody along,
//! and that Redis' was set back neither refuses anything nor gives anything back. A budget that was taken away and given
//! again goes by another name, and begins with what the node that gave it knows to be used; the old name lapses.
//!
//! What it does not promise: that nobody is refused too early. Between the moment at which a node has written what it
//! used and its next word some of that is counted twice; that is over a few milliseconds later.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::limits::RedisServer;
use super::limits::WhenAway;
use super::millis;
use super::redis::Answer;
use super::rounds::Command;
use super::rounds::Rounds;
use crate::access::budget::Allowance;
use crate::access::budget::Amount;
use crate::access::budget::Budgets;
use crate::access::budget::shared::Question;
use crate::access::budget::shared::Standing;
use crate::access::budget::shared::Told;
use crate::access::secret::NodeSecret;

const SCRIPT: &str = include_str!("budgets.lua");
/// How many questions are asked in one breath, and of how many keys is told.
const ROUND_MAX: usize = 256;
/// How often a node says again what it holds.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a node's word counts.
pub const LEASE: Duration = Duration::from_secs(5);
/// How long a Redis that has lost what it knew is not believed, where it is refused what cannot be told.
pub const DOUBTED_FOR: Duration = Duration::from_secs(2);
/// How long what the store was known to have is kept: nodes that are cut off from the store may not know it.
const KEPT: Duration = Duration::from_secs(86_400);
const PURPOSE: &str = "shared-budget";
/// Since when anything is known; with the hash tag of everything that is shared.
const SINCE: &str = "{portcullis}:budgets";
/// The order in which the script names limits.
const LIMITS: [Allowance; 4] =
    [Allowance::TokensPerDay, Allowance::CostPerDay, Allowance::TokensPerMonth, Allowance::CostPerMonth];
const RESERVED: i64 = -1;
const UNSURE: i64 = -2;

/// Shares the budgets of this node's keys.
pub struct SharedBudgets {
    questions: mpsc::Receiver<Question>,
    budgets: Arc<Budgets>,
    secret: NodeSecret,
    /// This node's name.
    node: String,
    /// The number of its last word.
    said: i64,
    /// The keys that it says again.
    held: BTreeSet<Arc<str>>,
    server: RedisServer,
}

/// What is said of one key.
struct Word {
    key: Arc<str>,
    standing: Standing,
    questions: Vec<Question>,
    command: Command,
}

impl WhenAway {
    /// Returns what is told of a budget while Redis is away.
    fn told_of_budget(self) -> Told {
        match self {
            Self::Local => Told::Unknown,
            Self::Refuse => Told::Refused,
        }
    }
}

impl SharedBudgets {
    /// Lets the budgets of a node of this name be shared, under names that only those know who have the secret.
    pub fn new(budgets: &Arc<Budgets>, secret: NodeSecret, node: String, server: RedisServer) -> Self {
        let questions = budgets.share(server.when_away.told_of_budget(), server.patience());
        // A process that begins anew goes on where the one before it cannot have come to.
        let said = server.clock.now().as_microsecond();
        Self { questions, budgets: Arc::clone(budgets), secret, node, said, held: BTreeSet::new(), server }
    }

    /// Answers and tells until `shutdown` resolves.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let mut rounds = Rounds::new(self.server.clone(), "budgets", SCRIPT);
        let mut again = tokio::time::interval(AGAIN);
        let changed = Arc::clone(self.budgets.changed());
        loop {
            let mut asked = Vec::new();
            let says_again = tokio::select! {
                biased;
                () = &mut shutdown => return,
                () = rounds.found() => true,
                _ = again.tick() => true,
                count = self.questions.recv_many(&mut asked, ROUND_MAX) => match count {
                    0 => return,
                    _ => false,
                },
                () = changed.wait() => false,
            };
            self.round(&mut rounds, asked, says_again).await;
            if says_again {
                // From the end of a round that may have been long: those who ask have their turn in between.
                again.reset();
            }
        }
    }

    async fn round(&mut self, rounds: &mut Rounds, asked: Vec<Question>, says_again: bool) {
        let mut keys: BTreeMap<Arc<str>, Vec<Question>> = BTreeMap::new();
        for question in asked.into_iter().filter(Question::is_open) {
            keys.entry(Arc::clone(question.key())).or_default().push(question);
        }
        let told = self.budgets.changed().take();
        let again = if says_again { std::mem::take(&mut self.held) } else { BTreeSet::new() };
        for key in told.into_iter().chain(again) {
            keys.entry(key).or_default();
        }
        if says_again && keys.is_empty() {
            // So that it is known how long anything is known there.
            let words = || vec![self.node.clone(), String::new()];
            let answers = rounds.ask(|script| vec![said(script, SINCE, words())]).await;
            answers.into_iter().flatten().for_each(|answer| drop(self.codes(answer)));
        }
        while !keys.is_empty() {
            let rest = keys.keys().nth(ROUND_MAX).cloned();
            let later = rest.map(|key| keys.split_off(&key)).unwrap_or_default();
            let now = std::mem::replace(&mut keys, later);
            let words = now.into_iter().filter_map(|(key, questions)| self.word(key, questions)).collect();
            self.say(rounds, words).await;
        }
    }

    /// Returns what is to be said of a key; nothing where it has no budget any more.
    fn word(&mut self, key: Arc<str>, questions: Vec<Question>) -> Option<Word> {
        let now = self.server.clock.now();
        let asked = questions.iter().find_map(|question| question.standing(now));
        let standing = asked.or_else(|| self.budgets.standing(&key, now))?;
        self.said += 1;
        let doubted = match self.server.when_away {
            WhenAway::Local => Duration::ZERO,
            WhenAway::Refuse => DOUBTED_FOR,
        };
        let wants = questions.iter().flat_map(|it| [it.held(), it.wanted()]).flat_map(pair);
        let words = vec![
            self.node.clone(),
            spaced(numbers(self.said, &standing)),
            spaced(limits(&standing)),
            spaced(wants.map(i128::from)),
            spaced([LEASE, KEPT, doubted].map(|time| i128::from(millis(time)))),
        ];
        let name = self.name_of(&key, standing.grant);
        let command = said(&[], &format!("{{portcullis}}:budget:{name}"), words);
        Some(Word { key, standing, questions, command })
    }

    /// Returns what a budget goes by in Redis; one that was taken away and given again is another.
    fn name_of(&self, key: &str, grant: u64) -> String {
        let mut hashed = key.as_bytes().to_vec();
        if grant != 0 {
            hashed.push(0);
            hashed.extend(grant.to_le_bytes());
        }
        self.secret.hash(PURPOSE, &hashed).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    async fn say(&mut self, rounds: &mut Rounds, words: Vec<Word>) {
        let commands = |script: &[u8]| {
            let named = |word: &Word| {
                let mut command = word.command.clone();
                command[1] = script.to_vec();
                command
            };
            words.iter().map(named).collect()
        };
        let Some(answers) = rounds.ask(commands).await else {
            words.into_iter().for_each(|word| self.heard(word, None));
            return;
        };
        for (word, answer) in words.into_iter().zip(answers) {
            let codes = self.codes(answer).filter(|codes| codes.len() == word.questions.len());
            let is_told = codes.as_ref().is_some_and(|codes| !codes.contains(&UNSURE));
            self.server.metrics.shared_limits(if is_told { "told" } else { "away" }, 1);
            self.heard(word, codes);
        }
    }

    /// Returns what the script said to each question, and takes over what time it is there; `None`: it did not run.
    fn codes(&self, answer: Answer) -> Option<Vec<i64>> {
        let Answer::Text(text) = answer else { return None };
        let text = String::from_utf8(text).ok()?;
        let numbers: Option<Vec<i64>> = text.split_whitespace().map(|code| code.parse().ok()).collect();
        let mut codes = numbers?;
        let shown_ms = (!codes.is_empty()).then(|| codes.remove(0))?;
        self.budgets.changed().calendar().follow(shown_ms, self.server.clock.now());
        Some(codes)
    }

    /// Takes over what became of a word; `None`: it was perhaps not heard.
    fn heard(&mut self, word: Word, codes: Option<Vec<i64>>) {
        if codes.is_none() || !word.questions.is_empty() || !word.standing.is_at_rest() {
            self.held.insert(word.key);
        }
        let codes = codes.unwrap_or_else(|| vec![UNSURE; word.questions.len()]);
        for (question, code) in word.questions.into_iter().zip(codes) {
            question.answer(self.told(code));
        }
    }

    fn told(&self, code: i64) -> Told {
        match code {
            0 => Told::Granted,
            RESERVED => Told::Reserved,
            1.. => Told::Exhausted(
                LIMITS
                    .into_iter()
                    .enumerate()
                    .filter(|(at, _)| (code >> at) & 1 == 1)
                    .map(|(_, it)| it)
                    .collect(),
            ),
            _ => self.server.when_away.told_of_budget(),
        }
    }
}

/// Returns a call of the script about something; words that are missing are empty.
fn said(script: &[u8], about: &str, words: Vec<String>) -> Command {
    let begin = [b"EVALSHA".to_vec(), script.to_vec(), b"2".to_vec(), about.into(), SINCE.into()];
    begin.into_iter().chain(words.into_iter().map(String::into_bytes)).collect()
}

fn pair(amount: Amount) -> [u64; 2] {
    [amount.tokens, amount.cost]
}

/// Returns a node's standing as the script reads it.
fn numbers(said: i64, standing: &Standing) -> impl Iterator<Item = i128> {
    let head = [said, standing.day, standing.month].map(i128::from);
    let [stored, fresh] = [standing.stored, standing.fresh].map(|of| of.into_iter().flat_map(pair));
    let amounts = stored.chain(fresh).chain(pair(standing.reserved)).map(i128::from);
    head.into_iter().chain(amounts)
}

fn limits(standing: &Standing) -> impl Iterator<Item = i128> {
    let budget = standing.budget;
    let all = [budget.tokens_per_day, budget.cost_per_day, budget.tokens_per_month, budget.cost_per_month];
    all.into_iter().map(|limit| limit.map_or(-1, i128::from))
}

fn spaced(numbers: impl IntoIterator<Item = i128>) -> String {
    numbers.into_iter().fold(String::new(), |mut text, number| {
        let _ = write!(text, "{number} ");
        text
    })
}

#[cfg(test)]
mod tests;
