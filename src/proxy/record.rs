//! The one record of an exchange: metrics, statistics and the audit event, written at its end.
//!
//! Where the log is to be waited for, the event is written before the end of the answer leaves: what a caller has
//! as a whole is on the disk. Of an answer that leaves piece by piece, an entry tells before its first byte does.

use std::collections::BTreeSet;
use std::time::Duration;

use http::StatusCode;
use pingora::proxy::Session;

use super::Gateway;
use super::contain::counted;
use super::context::Exchange;
use super::context::Outcome;
use super::reject::Rejection;
use super::trace;
use crate::govern::audit::AuditEvent;
use crate::govern::audit::AuditFinding;
use crate::govern::audit::AuditForeseen;
use crate::govern::audit::AuditShadow;
use crate::govern::audit::Health;
use crate::govern::audit::RecordError;
use crate::policy::decision::Action;
use crate::policy::inspect::Observation;
use crate::policy::ruleset::Policy;
use crate::scan::kind::Kind;
use crate::telemetry::metrics::AGENT_GRANTED;
use crate::telemetry::metrics::Example;
use crate::telemetry::metrics::Finished;

/// The event type of exchanges with providers.
const EXCHANGE: &str = "exchange";
/// The event types of agents' calls: those that the guardrails let pass, and the others.
const GRANTED: &str = "a2a_granted";
const DENIED: &str = "a2a_denied";
/// The event type of answers that begin to leave piece by piece.
const BEGUN: &str = "exchange_begun";
/// The event type of exchanges that were refused because the log did not say in time that it has their entry.
const UNCONFIRMED: &str = "exchange_unconfirmed";
/// Findings listed in one event; past it they are only counted.
const FINDINGS_MAX: usize = 100;
/// Parts of documents named in one event.
const PLACES_MAX: usize = 5;
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
        if exchange.is_in_doubt {
            return Err(Rejection::Unrecorded);
        }
        let took = self.clock.monotonic().saturating_sub(exchange.began);
        let written = self.recorder.record(self.event(exchange, took)).await;
        exchange.is_in_doubt = written == Err(RecordError::TimedOut);
        let kept = self.judge(written, exchange);
        exchange.is_recorded = kept.is_ok();
        kept
    }

    /// As [`Gateway::keep`], for an answer whose end is not known yet: an entry says that it begins to leave.
    pub(super) async fn keep_begin(&self, exchange: &Exchange) -> Result<(), Rejection> {
        if !self.recorder.waits() {
            return Ok(());
        }
        let took = self.clock.monotonic().saturating_sub(exchange.began);
        self.write_down(begun(self.event(exchange, took)), exchange).await
    }

    async fn write_down(&self, event: AuditEvent, exchange: &Exchange) -> Result<(), Rejection> {
        let written = self.recorder.record(event).await;
        self.judge(written, exchange)
    }

    /// Tells whether an exchange may go on whose event was written, or was not.
    fn judge(&self, written: Result<(), RecordError>, exchange: &Exchange) -> Result<(), Rejection> {
        let Err(error) = written else { return Ok(()) };
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
        if is_local {
            return;
        }
        self.trace(session, exchange, took);
        self.meter(exchange, took);
        if exchange.is_recorded {
            return;
        }
        let event = self.event(exchange, took);
        // Once it is on its way, it is not written again, whatever happens after.
        exchange.is_recorded = true;
        if let Err(error) = self.recorder.record(event).await {
            tracing::error!(%error, request_id = exchange.request_id, "an exchange could not be recorded");
        }
    }

    /// Writes the audit event of an exchange about which a defect kept everything else from being written down.
    pub(super) async fn record_rest(&self, exchange: &mut Exchange) {
        tracing::error!(
            request_id = exchange.request_id,
            "a defect of the gateway met while an exchange was written down"
        );
        exchange.reserved = None;
        if exchange.outcome.is_local || exchange.is_recorded {
            return;
        }
        let took = self.clock.monotonic().saturating_sub(exchange.began);
        let written = async { self.write_down(self.event(exchange, took), exchange).await };
        let _ = counted(Box::pin(written), &self.telemetry.metrics).await;
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
        let (provider, route) = match (&exchange.passage, exchange.outcome.is_local) {
            (_, true) => (NO_ROUTE, OWN_PATH),
            (Some(passage), false) => (trace::provider(exchange), passage.route().name.as_str()),
            (None, false) => (NO_ROUTE, NO_ROUTE),
        };
        let code = exchange.outcome.status.map_or(CODE_GONE, |status| status.as_u16());
        let example = self.example(exchange);
        metrics.finished(Finished { listener: "proxy", provider, route, code, took, example });
        metrics.upstream(route, *upstream, example);
        metrics.first_byte(route, *first_byte, example);
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
        if let Some((shadow, foreseen)) = foreseen(exchange) {
            let decided = action.unwrap_or(Action::Allow).as_str();
            metrics.foreseen(shadow.id.as_str(), foreseen.as_str(), decided);
        }
        let is_blocked = *action == Some(Action::Block);
        self.telemetry.today.count(self.clock.now(), took.as_micros() as u64, is_blocked);
    }

    /// Returns the exchange as an example of those that took as long, where its trace is sent.
    fn example(&self, exchange: &Exchange) -> Option<Example> {
        let trace = exchange.trace.as_ref().filter(|_| !exchange.outcome.is_local)?;
        Some(Example { trace_id: trace.sampled()?, unix_ms: self.clock.now().as_millisecond() })
    }

    /// Returns what was found, with what each finding is of.
    pub(super) fn findings<'e>(
        &self,
        exchange: &'e Exchange,
    ) -> impl Iterator<Item = (&'e Observation, Kind<'e>)> {
        let all = exchange.outcome.request.iter().chain(&exchange.outcome.response);
        all.filter_map(|found| Some((found, exchange.rules.kind(found.detector)?)))
    }

    /// Returns the event of an exchange as it is now; where one before may stand in the log after all, one that
    /// counts nothing again.
    fn event(&self, exchange: &Exchange, took: Duration) -> AuditEvent {
        let event = self.whole_event(exchange, took);
        if exchange.is_in_doubt { unconfirmed(event) } else { event }
    }

    fn whole_event(&self, exchange: &Exchange, took: Duration) -> AuditEvent {
        // By what it is, not by what was done about it: what is only monitored is no less grave for that.
        let gravest =
            self.findings(exchange).max_by_key(|(found, detector)| (detector.severity, found.action));
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
            is_accepted: is_accepted(&exchange.outcome),
            route: exchange.passage.as_ref().map(|passage| passage.route().name.clone()),
            request_id: Some(exchange.request_id.clone()),
            message: self.message(exchange),
            findings: self.findings(exchange).take(FINDINGS_MAX).map(finding).collect(),
            techniques,
            policy: exchange.passage.as_ref().map(|passage| passage.policy.id.as_str().to_owned()),
            shadow: shadow(exchange),
            revision: exchange.passage.as_ref().map(|_| exchange.rules.revision),
            latency_us: Some(took.as_micros() as u64),
        }
    }

    /// Says in one sentence what happened, without content.
    fn message(&self, exchange: &Exchange) -> String {
        let Outcome { status, reason, request, response, .. } = &exchange.outcome;
        let status = status.map_or("no answer".to_owned(), |status| format!("status {}", status.as_u16()));
        let mut message = match reason {
            Some(reason) => format!("refused ({reason}), {status}"),
            None => status,
        };
        if let Some(call) = &exchange.agent {
            // Who called stands in the entity alone, where an erasure reaches it.
            let capability = call.capability.as_deref().unwrap_or("unknown");
            message = format!("capability {capability}: {message}");
            if let Some(cause) = call.cause {
                message.push_str(&format!(", {}", cause.as_str()));
            }
        }
        let found = (request.len(), response.len());
        if found != (0, 0) {
            message.push_str(&format!(", findings: {} in the request, {} in the response", found.0, found.1));
        }
        message.push_str(&places(request.iter().chain(response)));
        if exchange.is_distrusted {
            message.push_str(", the agent is not trusted");
        }
        if let Some((_, foreseen)) = foreseen(exchange) {
            message.push_str(&format!(", the shadow policy would {}", foreseen.as_str()));
        }
        message
    }
}

/// Says in which parts of documents something was found.
fn places<'o>(observations: impl Iterator<Item = &'o Observation>) -> String {
    let places: BTreeSet<&str> = observations.filter_map(|found| found.within.as_deref()).collect();
    let told: Vec<&str> = places.iter().take(PLACES_MAX).copied().collect();
    let more = if told.len() < places.len() { " and elsewhere" } else { "" };
    if told.is_empty() { String::new() } else { format!(", in {}{more}", told.join(", ")) }
}

/// Returns the shadow policy and what it would have done; only where it would have decided otherwise.
fn foreseen(exchange: &Exchange) -> Option<(&Policy, Action)> {
    let shadow = exchange.rules.shadow_of(&exchange.passage.as_ref()?.policy)?;
    let decided = exchange.outcome.action.unwrap_or(Action::Allow);
    Some((shadow, exchange.outcome.shadow.otherwise(decided)?))
}

fn shadow(exchange: &Exchange) -> Option<AuditShadow> {
    let (policy, action) = foreseen(exchange)?;
    let differing = exchange.outcome.shadow.differing.iter();
    let findings = differing.filter_map(|(detector, action)| {
        let detector = exchange.rules.kind(*detector)?.name.to_owned();
        Some(AuditForeseen { detector, action: action.as_str().to_owned() })
    });
    Some(AuditShadow {
        policy: policy.id.as_str().to_owned(),
        action: action.as_str().to_owned(),
        findings: findings.take(FINDINGS_MAX).collect(),
    })
}

/// Returns what the audit log and the answer say was done: who was refused before a policy could decide was not allowed
/// anything.
pub(super) fn recorded_action(outcome: &Outcome) -> Action {
    let decided = outcome.action.unwrap_or(Action::Allow);
    if outcome.is_denied { Action::Block } else { decided }
}

/// Returns the event of an answer that begins to leave, of an exchange as it is then. It has no category and no
/// severity, by which findings are counted and alerts are made: those are the ones of the event at the end, which has
/// all findings. That of a process that dies in between is the only one, so it keeps what was found in the request.
fn begun(event: AuditEvent) -> AuditEvent {
    AuditEvent {
        event_type: BEGUN.to_owned(),
        category: None,
        severity: None,
        message: "an answer begins to leave".to_owned(),
        ..event
    }
}

/// Returns the event of an exchange that was refused because the log did not say in time that it has the event before:
/// that one was taken, and is written unless the disk never comes back. So this one tells of the refusal, and has nothing
/// that would count twice.
fn unconfirmed(event: AuditEvent) -> AuditEvent {
    AuditEvent {
        event_type: UNCONFIRMED.to_owned(),
        category: None,
        severity: None,
        action: Action::Block.as_str().to_owned(),
        message: format!("{}; the entry before was not safe in time", event.message),
        findings: Vec::new(),
        techniques: Vec::new(),
        shadow: None,
        ..event
    }
}

/// Tells whether the provider took the caller's credential, as far as its answer tells.
fn is_accepted(outcome: &Outcome) -> bool {
    let takes = |status: StatusCode| status.is_success() || status == StatusCode::SWITCHING_PROTOCOLS;
    outcome.upstream.is_some() && outcome.status.is_some_and(takes)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::threat::Category;
    use crate::scan::threat::Severity;

    fn whole() -> AuditEvent {
        let finding = AuditFinding {
            detector: "github_token".to_owned(),
            category: Category::Secrets,
            severity: Severity::Critical,
            confidence: 99,
            action: "monitor".to_owned(),
            redacted: "ghp_***".to_owned(),
        };
        AuditEvent {
            event_type: EXCHANGE.to_owned(),
            category: Some(Category::Secrets),
            severity: Some(Severity::Critical),
            action: "monitor".to_owned(),
            entity: Some("caller_1".to_owned()),
            request_id: Some("request".to_owned()),
            message: "status 200".to_owned(),
            findings: vec![finding],
            techniques: vec!["LLM02".to_owned()],
            ..AuditEvent::default()
        }
    }

    #[test]
    fn what_begins_counts_for_nothing_and_loses_nothing() {
        let (event, whole) = (begun(whole()), whole());
        assert_eq!((event.event_type.as_str(), event.category, event.severity), (BEGUN, None, None));
        assert_eq!((&event.findings, &event.request_id), (&whole.findings, &whole.request_id));
        assert!(!event.is_alert() && !event.found(Category::Secrets));
        assert!(whole.is_alert() && whole.found(Category::Secrets));
    }

    #[test]
    fn an_exchange_whose_entry_is_in_doubt_counts_once() {
        let event = unconfirmed(whole());
        assert_eq!((event.event_type.as_str(), event.action.as_str()), (UNCONFIRMED, "block"));
        assert_eq!((event.category, event.severity, event.findings.len()), (None, None, 0));
        assert_eq!((event.entity, event.request_id), (whole().entity, whole().request_id));
    }
}
