//! What an exchange used, for analytics and budgets: the provider's own counts, else an estimate, marked as one.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use http::StatusCode;
use pingora::http::RequestHeader;

use super::Gateway;
use super::context::Due;
use super::context::Exchange;
use super::context::Outcome;
use super::context::Passage;
use super::context::Service;
use super::reject::Rejection;
use super::request::aside;
use crate::access::budget::Amount;
use crate::access::budget::BudgetFault;
use crate::access::patience::Patience;
use crate::govern::analytics::Cost;
use crate::govern::analytics::Finding;
use crate::govern::analytics::Tokens;
use crate::govern::analytics::Use;
use crate::govern::analytics::Verdict;
use crate::llm::asked::Asked;
use crate::llm::media::Media;
use crate::llm::usage::Usage;
use crate::llm::usage::estimate;
use crate::policy::decision::Action;
use crate::policy::decision::CallerId;

/// Why an exchange ended early when its caller wanted no more: that is no failure.
const GONE: &str = "caller_gone";

/// Headers by which some providers take a request for one of another method.
const OVERRIDES: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];

/// What is reserved of a budget for an answer, in tokens, where the request sets no limit.
const ANSWER_TOKENS: u64 = 4096;

/// What a model is called in whose name something was found.
const REDACTED: &str = "redacted";

impl Gateway {
    /// Tells whether the exchange is paid from a budget.
    pub(super) fn is_budgeted(&self, exchange: &Exchange) -> bool {
        paying_key(exchange).is_some_and(|key| self.budgets.of(key, self.clock.now()).is_some())
    }

    /// Reserves what the exchange is likely to use, where its key has a budget, instead of what it reserved before.
    pub(super) async fn reserve(&self, exchange: &mut Exchange) -> Result<(), Rejection> {
        if exchange.is_unmetered && self.is_budgeted(exchange) {
            return Err(BudgetFault::Unmetered.into());
        }
        let asked = &exchange.outcome.asked;
        let prompt = estimate(asked.text_bytes);
        let answers = asked.answers.unwrap_or(1).max(1);
        let completion = asked.completion_tokens_max.unwrap_or(ANSWER_TOKENS).saturating_mul(answers);
        let total = prompt.saturating_add(completion);
        let tokens = Tokens { prompt, completion, total, ..Tokens::default() };
        let wanted = |exchange: &Exchange| match exchange.is_free {
            true => (0, Some(0)),
            false => (total, self.cost_as_asked(exchange, &tokens)),
        };
        self.hold(exchange, wanted).await
    }

    /// Makes sure that the key's budget has something left and can pay for the model that is asked for; nothing is
    /// reserved until there is something to pay.
    pub(super) async fn stand_by(&self, exchange: &mut Exchange) -> Result<(), Rejection> {
        self.hold(exchange, |exchange| (0, self.cost_as_asked(exchange, &Tokens::default()))).await
    }

    /// Reserves for what was said on a socket since it was last paid.
    ///
    /// # Errors
    /// The budget is used up, or does not pay for it.
    pub(super) async fn pay(&self, exchange: &mut Exchange) -> Result<(), Rejection> {
        let Some(due) = exchange.due.take() else { return Ok(()) };
        // Each is a request of its own.
        exchange.patience = Patience::default();
        match due {
            Due::Standing => self.stand_by(exchange).await,
            Due::Answer => {
                self.reserve(exchange).await?;
                // What was asked for is paid, until its answer tells what it used.
                exchange.outcome.service = Service::Untold;
                Ok(())
            }
        }
    }

    /// Holds tokens, and what they cost, where the exchange's key has a budget, instead of what it held before.
    async fn hold(
        &self,
        exchange: &mut Exchange,
        wanted: impl FnOnce(&Exchange) -> (u64, Option<u64>),
    ) -> Result<(), Rejection> {
        let held = exchange.reservation.take();
        let is_first = held.is_none();
        let held = held.or_else(|| self.budgets.hold(paying_key(exchange)?));
        let Some(held) = held else { return Ok(()) };
        let wanted = wanted(exchange);
        let (held, told) = self.budgets.change(held, wanted, self.clock.now(), &exchange.patience).await;
        exchange.reservation = Some(held).filter(|_| told.is_ok() || !is_first);
        told.map_err(|fault| {
            if fault == BudgetFault::Away {
                self.telemetry.metrics.rate_limited();
            }
            fault.into()
        })
    }

    /// Counts an exchange, unless it led nowhere, and settles what it reserved.
    pub(super) fn meter(&self, exchange: &mut Exchange, took: Duration) {
        let is_redacted = exchange.outcome.action == Some(Action::Redact);
        let (redacted, findings) = (is_redacted, self.found(exchange));
        let verdict = verdict(&exchange.outcome);
        self.account(exchange, Use { verdict, redacted, findings, took, ..Use::default() });
    }

    /// Counts an answer on a socket as a request of its own, and settles what was reserved for it. What the next one
    /// may use, or that anything is left, is due then: `text_bytes` of text were sent that it did not answer.
    pub(super) fn meter_answer(
        &self,
        exchange: &mut Exchange,
        usage: Usage,
        took: Duration,
        (service, text_bytes): (Service, u64),
    ) {
        self.telemetry.metrics.tokens(usage.prompt_tokens, usage.completion_tokens);
        let model = usage.model.clone();
        exchange.outcome.usage = usage;
        exchange.outcome.service = Service::Told;
        self.account(exchange, Use { took, ..Use::default() });
        exchange.outcome.usage = Usage { model, ..Usage::default() };
        exchange.outcome.asked.text_bytes = text_bytes;
        exchange.outcome.service = service;
        // Another one may end before anything is reserved for it.
        exchange.reservation = paying_key(exchange).and_then(|key| self.budgets.hold(key));
        exchange.due = Some(match service {
            Service::Untold => Due::Answer,
            Service::Nothing | Service::Told => Due::Standing,
        });
    }

    /// Counts what was used, and settles what was reserved for it.
    fn account(&self, exchange: &mut Exchange, used: Use) {
        let Some(passage) = &exchange.passage else { return };
        let model = self.model(exchange);
        let used = Use {
            caller: exchange.caller.as_ref().map(|caller| caller.as_str().to_owned()),
            tokens: self.used_tokens(exchange, model.is_some()),
            model,
            route: Some(passage.route().name.clone()),
            ..used
        };
        let cost = self.meter.note(&used);
        if let Some(reservation) = exchange.reservation.take() {
            let paid = self.paid(exchange, &used, cost, reservation.amount());
            reservation.settle(paid, self.clock.now());
        }
    }

    /// Returns the tokens that count: of what is read again, none.
    fn used_tokens(&self, exchange: &Exchange, asks_model: bool) -> Tokens {
        let told = tokens(&exchange.outcome, asks_model && !exchange.is_free);
        let caller = exchange.caller.as_ref().map_or("", CallerId::as_str);
        let is_again = exchange.is_free && told.total > 0 && !self.read_back.is_first(caller, &exchange.path);
        if is_again { Tokens::default() } else { told }
    }

    /// Returns what was found, each detector once, with the strictest that was done about it.
    fn found(&self, exchange: &Exchange) -> Vec<Finding> {
        let mut found: BTreeMap<&str, Finding> = BTreeMap::new();
        for (seen, kind) in self.findings(exchange) {
            let known = found.entry(kind.name).or_insert_with(|| Finding {
                category: kind.category,
                detector: kind.name.to_owned(),
                action: seen.action,
            });
            known.action = known.action.max(seen.action);
        }
        found.into_values().collect()
    }

    /// Returns what a budget pays.
    ///
    /// What answers under a name without a price costs what was asked for. An answer that nobody read (the caller
    /// left, the provider took too long, it is no text) may be as long as the request lets it.
    fn paid(&self, exchange: &Exchange, used: &Use, cost: Cost, reserved: Amount) -> Amount {
        let model = used.model.as_deref();
        let is_priced = model.is_some_and(|model| self.meter.prices().of(model, self.clock.now()).is_some());
        let cost = match is_priced {
            true => cost.pico,
            // A price may go while an exchange is under way.
            false => self.cost_as_asked(exchange, &used.tokens).unwrap_or(reserved.cost),
        };
        let Outcome { service, usage, is_stream, .. } = &exchange.outcome;
        // What a stream tells as it begins is not all that it used.
        let is_told = !is_stream && usage.total().is_some();
        let is_unknown = *service == Service::Untold && !is_told && model.is_some();
        let counted = Amount { tokens: used.tokens.total, cost };
        match is_unknown {
            true => counted.at_least(reserved),
            false => counted,
        }
    }

    /// Returns what tokens cost at the dearest model that is asked for; `None` where none has a price.
    fn cost_as_asked(&self, exchange: &Exchange, tokens: &Tokens) -> Option<u64> {
        let (prices, now) = (self.meter.prices(), self.clock.now());
        asked(exchange).filter_map(|model| Some(prices.of(model, now)?.cost(tokens).pico)).max()
    }

    /// Returns the model that answered, else the one that was asked for, in the body or beside it; another name for
    /// one that tells what is not to be kept.
    ///
    /// Providers answer with the name of a release, which may be newer than its price: then the name that was
    /// asked for, which it begins with, says what it costs.
    fn model(&self, exchange: &Exchange) -> Option<String> {
        let answered = exchange.outcome.usage.model.as_deref().filter(|model| !model.is_empty());
        let (prices, now) = (self.meter.prices(), self.clock.now());
        let is_priced = |model: &&str| prices.of(model, now).is_some();
        // A body that nothing was found in tells nothing by its model's name either.
        let has_findings = self.findings(exchange).next().is_some();
        let may_tell = |name: &str| has_findings || exchange.models.iter().any(|outside| outside == name);
        let is_release = |asked: &&str| answered.is_some_and(|answered| answered.starts_with(*asked));
        match answered.filter(|answered| !is_priced(answered)) {
            Some(unpriced) => asked(exchange).filter(is_release).find(is_priced).or(Some(unpriced)),
            None => answered.or_else(|| asked(exchange).next()),
        }
        .map(|name| match may_tell(name) && !is_priced(&name) && is_told_in(exchange, name) {
            true => REDACTED.to_owned(),
            false => name.to_owned(),
        })
    }
}

/// Tells whether something is found in the name of a model.
pub(super) fn is_told_in(exchange: &Exchange, name: &str) -> bool {
    let scanner = &exchange.rules.scanner;
    scanner.scan(name.as_bytes(), &scanner.all()).map_or(true, |found| !found.is_empty())
}

/// Notes the models that a request names elsewhere than in JSON, and whether it asks any at all.
pub(super) fn note_models(
    head: &RequestHeader,
    exchange: &mut Exchange,
    passage: &Passage,
    body: &[u8],
    media: Option<&Media>,
) {
    let path = passage.route().forwarded(&exchange.path);
    let reads_or_removes = head.method.is_safe() || head.method == Method::DELETE;
    let reads_or_removes = reads_or_removes && !OVERRIDES.iter().any(|name| head.headers.contains_key(*name));
    exchange.is_free = reads_or_removes || exchange.rules.dialects.is_free(path);
    if exchange.is_free {
        return;
    }
    let dialects = &exchange.rules.dialects;
    exchange.is_unmetered = dialects.is_unmetered(path) || dialects.goes_past(path, !body.is_empty());
    let mut asked = Asked::default();
    asked.in_target(path, head.uri.query());
    if let Some(Media::Multipart { boundary }) = media {
        // What cannot be read names no model here; a limited key was refused for it.
        let limits = exchange.rules.limits.json();
        let _ = aside(body.len(), || asked.in_form(body, boundary, &limits));
    }
    exchange.models = asked.models;
}

/// Notes the models that a socket is opened with; what is said on it may name another.
pub(super) fn note_socket_models(head: &RequestHeader, exchange: &mut Exchange, passage: &Passage) {
    let mut asked = Asked::default();
    asked.in_target(passage.route().forwarded(&exchange.path), head.uri.query());
    exchange.models = asked.models;
}

/// Returns the models that an exchange asks for: the one in its body first.
fn asked(exchange: &Exchange) -> impl Iterator<Item = &str> {
    let in_body = exchange.outcome.asked.model.as_deref();
    let all = in_body.into_iter().chain(exchange.models.iter().map(String::as_str));
    all.filter(|model| !model.is_empty())
}

/// Returns the key that pays for an exchange: on routes that take ours.
fn paying_key(exchange: &Exchange) -> Option<&str> {
    exchange.presented.as_ref()?;
    exchange.caller.as_ref().map(CallerId::as_str)
}

fn verdict(outcome: &Outcome) -> Verdict {
    let is_good = outcome.status.is_some_and(|status| status < StatusCode::BAD_REQUEST);
    match (outcome.action, outcome.reason) {
        (Some(Action::Block), _) => Verdict::Blocked,
        (_, None | Some(GONE)) if is_good => Verdict::Answered,
        _ => Verdict::Failed,
    }
}

/// Returns the tokens of an exchange.
///
/// Where the provider told none and a model was at work, both sides are estimated from their texts; so is
/// what it wrote where the exchange ended before the provider's last count.
fn tokens(outcome: &Outcome, asks_model: bool) -> Tokens {
    let Outcome { usage: told, asked, reason, service, .. } = outcome;
    let has_worked = asks_model && *service != Service::Nothing;
    let part = |count: Option<u64>| count.unwrap_or_default();
    let mut tokens = Tokens {
        prompt: part(told.prompt_tokens),
        completion: part(told.completion_tokens),
        cached: part(told.cached_tokens),
        cache_write: part(told.cache_write_tokens),
        cache_write_long: part(told.cache_write_long_tokens),
        reasoning: part(told.reasoning_tokens),
        audio_prompt: part(told.audio_prompt_tokens),
        audio_completion: part(told.audio_completion_tokens),
        ..Tokens::default()
    };
    let is_whole = told.total_tokens.is_some();
    if has_worked && !is_whole && told.prompt_tokens.is_none() {
        tokens.prompt = estimate(asked.text_bytes);
        tokens.estimated += tokens.prompt;
    }
    let wrote = estimate(told.text_bytes);
    let is_cut = reason.is_some() && wrote > tokens.completion;
    if has_worked && (is_cut || !is_whole && told.completion_tokens.is_none()) {
        tokens.completion = wrote;
        tokens.estimated += wrote;
    }
    tokens.total = part(told.total_tokens).max(tokens.prompt.saturating_add(tokens.completion));
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_taken_and_what_was_not_is_estimated() {
        let asked = Usage { text_bytes: 40, ..Usage::default() };
        let told = |prompt, completion, total, text_bytes| Usage {
            prompt_tokens: prompt,
            completion_tokens: completion,
            total_tokens: total,
            text_bytes,
            ..Usage::default()
        };
        // (what the provider told, why it ended early, [prompt, completion, total, estimated])
        let cases = [
            (told(Some(3), Some(4), Some(7), 100), None, [3, 4, 7, 0]),
            (told(Some(3), Some(4), None, 100), None, [3, 4, 7, 0]),
            (told(None, None, Some(9), 100), None, [0, 0, 9, 0]),
            (told(None, None, None, 100), None, [10, 25, 35, 35]),
            // It has not spoken, and has read all the same.
            (told(None, None, None, 0), None, [10, 0, 10, 10]),
            // A stream that ended before its last count: Anthropic tells one token at its begin.
            (told(Some(12), Some(1), None, 100), Some(GONE), [12, 25, 37, 25]),
            (told(Some(12), Some(30), None, 100), Some("content_blocked"), [12, 30, 42, 0]),
            // Tokens of thinking that is not shown are told, and never estimated away.
            (told(Some(12), Some(300), None, 100), None, [12, 300, 312, 0]),
        ];
        for (usage, reason, expected) in cases {
            let mut outcome =
                Outcome { usage: usage.clone(), asked: asked.clone(), reason, ..Outcome::default() };
            outcome.service = Service::Untold;
            let found = tokens(&outcome, true);
            let found = [found.prompt, found.completion, found.total, found.estimated];
            assert_eq!(found, expected, "{usage:?} {reason:?}");
            if usage.prompt_tokens.is_none() && usage.total_tokens.is_none() {
                assert_eq!(tokens(&outcome, false), Tokens::default());
                outcome.service = Service::Nothing;
                assert_eq!(tokens(&outcome, true), Tokens::default());
            }
        }
    }

    #[test]
    fn a_block_is_no_failure_and_neither_is_a_caller_who_has_enough() {
        let outcome = |status: u16, action, reason| Outcome {
            status: StatusCode::from_u16(status).ok(),
            action: Some(action),
            reason,
            ..Outcome::default()
        };
        let cases = [
            (outcome(200, Action::Allow, None), Verdict::Answered),
            (outcome(200, Action::Monitor, Some(GONE)), Verdict::Answered),
            (outcome(200, Action::Redact, Some("upstream_reset")), Verdict::Failed),
            (outcome(403, Action::Block, Some("content_blocked")), Verdict::Blocked),
            (outcome(429, Action::Allow, None), Verdict::Failed),
            (outcome(0, Action::Allow, Some(GONE)), Verdict::Failed),
        ];
        for (outcome, expected) in cases {
            assert_eq!(verdict(&outcome), expected, "{:?} {:?}", outcome.status, outcome.reason);
        }
    }
}
