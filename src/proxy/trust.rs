//! What an exchange tells of the agent that made it, and what trust in the agent does to the exchange.

use super::Gateway;
use super::a2a::deny;
use super::context::Exchange;
use super::reject::Rejection;
use super::request::aside;
use crate::access::a2a::denial::Cause;
use crate::access::a2a::denial::Code;
use crate::govern::audit::AuditEvent;
use crate::govern::trust::Act;
use crate::govern::trust::Found;
use crate::govern::trust::Sizes;
use crate::govern::trust::Turn;
use crate::govern::trust::Verdict;
use crate::llm::json;
use crate::llm::tools;
use crate::policy::a2a::TrustMode;
use crate::policy::inspect::Observation;

/// The event type of a verdict that turned.
const TURNED: &str = "trust_verdict";

impl Gateway {
    /// Keeps an agent out that nobody trusts, where that is enforced.
    pub(super) fn ensure_trusted(&self, exchange: &mut Exchange) -> Result<(), Rejection> {
        let Some(call) = exchange.agent.as_mut().filter(|_| exchange.rules.a2a.trust == TrustMode::Enforce)
        else {
            return Ok(());
        };
        let verdict = call.agent.as_deref().and_then(|agent| self.trust.verdict(agent, self.clock.now()));
        if verdict != Some(Verdict::Blocked) {
            return Ok(());
        }
        let denial = deny(call, Code::CapDenied).because(Cause::Distrusted);
        exchange.is_distrusted = true;
        Err(denial.into())
    }

    /// Notes the tools that an agent's message calls.
    pub(super) fn note_tools(&self, exchange: &mut Exchange, body: &[u8]) {
        if exchange.agent.is_some() {
            let document = aside(body.len(), || json::walk(body, &exchange.rules.limits.json()));
            exchange.tools = document.map(|document| tools::called(body, &document)).unwrap_or_default();
        }
    }

    /// Takes an agent's exchange into account. What was refused for want of trust alone is not held against it.
    pub(super) async fn observe_agent(&self, exchange: &Exchange) {
        let Some(call) = exchange.agent.as_ref().filter(|_| !exchange.is_distrusted) else { return };
        let Some(agent) = &call.agent else { return };
        // The body of a call that is neither granted nor denied never came to its end.
        if !call.is_granted && call.denied.is_none() {
            return;
        }
        let found = |found: &Observation| {
            let kind = exchange.rules.kind(found.detector)?;
            Some(Found { category: kind.category, severity: kind.severity, action: found.action })
        };
        let sizes = Sizes { request_bytes: call.request_bytes, response_bytes: call.response_bytes };
        let act = Act {
            at: self.clock.now(),
            capability: call.capability.clone(),
            tools: exchange.tools.iter().cloned().collect(),
            denied: call.denied.map(Code::as_str),
            cause: call.cause,
            sizes: call.is_granted.then_some(sizes),
            findings: exchange.outcome.request.iter().filter_map(found).collect(),
        };
        let Some(turn) = self.trust.observe(agent, &act) else { return };
        let event = turned(&turn, &exchange.request_id);
        if let Err(error) = self.recorder.record(event).await {
            tracing::error!(%error, "a verdict that turned could not be recorded in the audit log");
        }
    }
}

fn turned(turn: &Turn, request_id: &str) -> AuditEvent {
    let from = turn.from.map_or("new", Verdict::as_str);
    AuditEvent {
        event_type: TURNED.to_owned(),
        action: if turn.to == Verdict::Blocked { "block" } else { "monitor" }.to_owned(),
        actor: Some(turn.agent_id.clone()),
        entity: Some(turn.agent_id.clone()),
        request_id: Some(request_id.to_owned()),
        message: format!(
            "trust in the agent went from {from} to {}, score {:.1}",
            turn.to.as_str(),
            turn.score
        ),
        ..AuditEvent::default()
    }
}
