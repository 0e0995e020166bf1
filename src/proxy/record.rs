//! The one record of an exchange: metrics, statistics and the audit event, written at its end.
//!
//! Where the log is to be waited for, the event is written before the end of the answer leaves: what a caller has
//! as a whole is on the disk. Of an answer that leaves piece by piece, an entry tells before its first byte does.

use std::time::Duration;

use pingora::proxy::Session;

use super::Gateway;
use super::context::Exchange;
use super::context::Outcome;
use super::reject::Rejection;
use crate::govern::audit::AuditEvent;
use crate::govern::audit::AuditFinding;
use crate::govern::audit::Health;
use crate::policy::decision::Action;
use crate::policy::inspect::Observation;
use crate::scan::kind::Kind;
use crate::telemetry::metrics::AGENT_GRANTED;
use crate::telemetry::metrics::Finished;

/// The event type of exchanges with providers.
const EXCHANGE: &str = "exchange";
/// The event types of agents' calls: those that the guardrails let pass, and the others.
const GRANTED: &str = "a2a_granted";
const DENIED: &str = "a2a_denied";
/// The event type of answers that begin to leave piece by piece.
const BEGUN: &str = "exchange_begun";
/// Findings listed in one event; past it they are only counted.
const FINDINGS_MAX: usize = 100;
const NO_ROUTE: &str = "none";
const OWN_PATH: &str = "own";
/// The code of an exchange whose caller left before the answer (nginx's 499).
const CODE_GONE: u16 = 499;

impl Gateway {
    /// Tells whether exchanges can be recorded, or may go on without it.
    pub(super) fn records(&self) -> bool {
        let is_writable = match self.recorder.health() {
            Health::Sound => true,
            Health::Degraded(trouble) => trouble.writable(),
        };
        is_writable || self.without_record
    }

    /// Comes back once the event of an exchange is on the disk, where that is to be waited for; the rest of its
    /// answer may leave then.
    ///
    /// # Errors
    /// It could not be recorded, and nobody said that answers go on without it.
    pub(super) async fn keep(&self, exchange: &mut Exchange) -> Result<(), Rejection> {
        if !self.recorder.waits() || exchange.is_recorded {
            return Ok(());
        }
        let took = self.clock.monotonic().saturating_sub(exchange.began);
        let kept = self.write_down(self.event(exchange, took), exchange).await;
        exchange.is_recorded = kept.is_ok();
        kept
    }

    /// As [`Gateway::keep`], for an answer whose end is not known yet: an entry says that it begins to leave.
    pub(super) async fn keep_begin(&self, exchange: &Exchange) -> Result<(), Rejection> {
        if !self.recorder.waits() {
            return Ok(());
        }
        let took = self.clock.monotonic().saturating_sub(exchange.began);
        let event = AuditEvent {
            event_type: BEGUN.to_owned(),
            message: "an answer begins to leave".to_owned(),
            ..self.event(exchange, took)
        };
        self.write_down(event, exchange).await
    }

    async fn write_down(&self, event: AuditEvent, exchange: &Exchange) -> Result<(), Rejection> {
        let Err(error) = self.recorder.record(event).await else { return Ok(()) };
        tracing::error!(%error, request_id = exchange.request_id, "an exchange could not be recorded");
        if self.without_record { Ok(()) } else { Err(Rejection::Unrecorded) }
    }

    /// Writes down what is known of an exchange.
    pub(super) async fn record(&self, session: &Session, exchange: &mut Exchange) {
        self.weigh(session, exchange);
        let until_now = self.clock.monotonic().saturating_sub(exchange.began);
        let took = exchange.outcome.switched.unwrap_or(until_now);
        let is_local = exchange.outcome.is_local;
        self.measure(exchange, took);
        self.conclude_trial(exchange).await;
        self.observe_agent(exchange).await;
        exchange.reserved = None;
        self.telemetry.metrics.buffered(self.budget.used());
        if is_local {
            return;
        }
        self.trace(session, exchange, took);
        self.meter(exchange, took);
        if exchange.is_recorded {
            return;
        }
        let event = self.event(exchange, took);
        if let Err(error) = self.recorder.record(event).await {
            tracing::error!(%error, request_id = exchange.request_id, "an exchange could not be recorded");
        }
    }

    /// Completes what is known of an agent's call: how it ended, and how much was said.
    fn weigh(&self, session: &Session, exchange: &mut Exchange) {
        let Some(call) = &mut exchange.agent else { return };
        call.request_bytes = session.body_bytes_read() as u64;
        call.response_bytes = session.body_bytes_sent() as u64;
        let code = match (call.denied, call.is_granted) {
            (Some(code), _) => code.as_str(),
            (None, true) => AGENT_GRANTED,
            // The body never came to its end.
            (None, false) => return,
        };
        self.telemetry.metrics.agent_called(code);
    }

    fn measure(&self, exchange: &Exchange, took: Duration) {
        let Outcome { action, usage, upstream, first_byte, scanning, reason, .. } = &exchange.outcome;
        let metrics = &self.telemetry.metrics;
        let route = match (&exchange.passage, exchange.outcome.is_local) {
            (_, true) => OWN_PATH,
            (Some(passage), false) => passage.route().name.as_str(),
            (None, false) => NO_ROUTE,
        };
        let code = exchange.outcome.status.map_or(CODE_GONE, |status| status.as_u16());
        metrics.ended();
        metrics.finished(Finished { listener: "proxy", route, code, took });
        metrics.upstream(route, *upstream, *first_byte);
        metrics.tokens(usage.prompt_tokens, usage.completion_tokens);
        if !scanning.is_zero() {
            metrics.scanned(*scanning);
        }
        if let Some(code) = reason {
            metrics.rejected(code);
        }
        if let Some(reason) = exchange.outcome.provider_failure() {
            metrics.provider_failed(reason);
        }
        for (observation, detector) in self.findings(exchange) {
            let (category, severity) = (detector.category.as_str(), detector.severity.as_str());
            metrics.detected(category, severity, observation.action.as_str());
        }
        let is_blocked = *action == Some(Action::Block);
        self.telemetry.today.count(self.clock.now(), took.as_micros() as u64, is_blocked);
    }

    /// Returns what was found, with what each finding is of.
    pub(super) fn findings<'e>(
        &self,
        exchange: &'e Exchange,
    ) -> impl Iterator<Item = (&'e Observation, Kind<'e>)> {
        let all = exchange.outcome.request.iter().chain(&exchange.outcome.response);
        all.filter_map(|found| Some((found, exchange.rules.kind(found.detector)?)))
    }

    fn event(&self, exchange: &Exchange, took: Duration) -> AuditEvent {
        let gravest =
            self.findings(exchange).max_by_key(|(found, detector)| (found.action, detector.severity));
        let mut techniques: Vec<String> =
            self.findings(exchange).flat_map(|(_, detector)| detector.techniques.iter().cloned()).collect();
        techniques.sort();
        techniques.dedup();
        let caller = exchange.caller.as_ref().map(|caller| caller.as_str().to_owned());
        AuditEvent {
            event_type: event_type(exchange).to_owned(),
            category: gravest.map(|(_, detector)| detector.category),
            severity: gravest.map(|(_, detector)| detector.severity),
            action: recorded_action(&exchange.outcome).as_str().to_owned(),
            actor: caller.clone(),
            entity: caller,
            route: exchange.passage.as_ref().map(|passage| passage.route().name.clone()),
            request_id: Some(exchange.request_id.clone()),
            message: self.message(exchange),
            findings: self.findings(exchange).take(FINDINGS_MAX).map(finding).collect(),
            techniques,
            policy: exchange.passage.as_ref().map(|passage| passage.policy.id.as_str().to_owned()),
            revision: exchange.passage.as_ref().map(|_| exchange.rules.revision),
            latency_us: Some(took.as_micros() as u64),
        }
    }

    /// Says in one sentence what happened, without content.
    fn message(&self, exchange: &Exchange) -> String {
        let Outcome { status, reason, shadow, action, request, response, .. } = &exchange.outcome;
        let status = status.map_or("no answer".to_owned(), |status| format!("status {}", status.as_u16()));
        let mut message = match reason {
            Some(reason) => format!("refused ({reason}), {status}"),
            None => status,
        };
        if let Some(call) = &exchange.agent {
            // Who called stands in the entity alone, where an erasure reaches it.
            let capability = call.capability.as_deref().unwrap_or("unknown");
            message = format!("capability {capability}: {message}");
        }
        let found = (request.len(), response.len());
        if found != (0, 0) {
            message.push_str(&format!(", findings: {} in the request, {} in the response", found.0, found.1));
        }
        if exchange.is_distrusted {
            message.push_str(", the agent is not trusted");
        }
        // A shadow policy is only worth a word where it would have decided otherwise.
        if let Some(shadow) = shadow.filter(|shadow| *shadow != action.unwrap_or(Action::Allow)) {
            message.push_str(&format!(", the shadow policy would {}", shadow.as_str()));
        }
        message
    }
}

/// Returns what the audit log says was done: who was refused before a policy could decide was not allowed anything.
fn recorded_action(outcome: &Outcome) -> Action {
    let decided = outcome.action.unwrap_or(Action::Allow);
    if outcome.is_denied { Action::Block } else { decided }
}

fn event_type(exchange: &Exchange) -> &'static str {
    match &exchange.agent {
        None => EXCHANGE,
        Some(call) if call.is_granted => GRANTED,
        Some(_) => DENIED,
    }
}

fn finding((found, detector): (&Observation, Kind<'_>)) -> AuditFinding {
    AuditFinding {
        detector: detector.name.to_owned(),
        category: detector.category,
        severity: detector.severity,
        confidence: found.confidence.percent(),
        action: found.action.as_str().to_owned(),
        redacted: found.sample.clone(),
    }
}
