//! What a trace tells of an exchange.

use std::time::Duration;
use std::time::SystemTime;

use pingora::http::RequestHeader;
use pingora::proxy::Session;

use super::Gateway;
use super::context::Exchange;
use super::context::Outcome;
use super::meter::is_told_in;
use super::signed;
use crate::admin::head;
use crate::llm::dialect::Channel;
use crate::otlp::Facts;
use crate::policy::decision::Action;
use crate::policy::inspect::Observation;

/// The headers of the W3C's trace context.
const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";
/// Who is asked where no dialect is known.
const UNKNOWN: &str = "unknown";

/// Returns who is asked, by the dialect that is spoken.
pub(super) fn provider(exchange: &Exchange) -> &str {
    exchange.detected.as_ref().map_or(UNKNOWN, |detected| detected.dialect.provider())
}

/// Tells the provider its place in the trace, where traces are sent. What the caller signed stays as it is.
pub(super) fn tell(head: &mut RequestHeader, exchange: &Exchange) -> pingora::Result<()> {
    let Some(trace) = &exchange.trace else { return Ok(()) };
    if [PARENT, STATE].iter().any(|name| signed::covers_header(head, name)) {
        return Ok(());
    }
    let mut told = http::HeaderMap::new();
    trace.tell(&mut told);
    for name in [PARENT, STATE] {
        head.remove_header(name);
        if let Some(value) = told.remove(name) {
            head.insert_header(name, value)?;
        }
    }
    Ok(())
}

impl Gateway {
    /// Tells the collector what is known of an exchange.
    pub(super) fn trace(&self, session: &Session, exchange: &Exchange, took: Duration) {
        let Some(otlp) = &self.otlp else { return };
        let Outcome {
            status, reason, action, request, response, usage, asked, scanning, asked_after, ..
        } = &exchange.outcome;
        let detected = exchange.detected.as_ref().map(|detected| &detected.dialect);
        let route = exchange.passage.as_ref().map(|passage| passage.route());
        let path = route.map(|route| route.forwarded(&exchange.path));
        // What names a model may be a secret as well: of a body in whose metadata something was found, none is told.
        let is_clean = |found: &[Observation]| found.iter().all(|seen| seen.channel != Channel::Metadata);
        let (asked_for, answered) = (is_clean(request), is_clean(response));
        let outside = || exchange.models.first().filter(|name| !is_told_in(exchange, name));
        let asked = asked.model.as_deref().or_else(|| outside().map(String::as_str));
        let method = &session.req_header().method;
        let facts = Facts {
            method: Some(method).filter(|method| head::is_known(method)).map(http::Method::as_str),
            route: route.map(|route| route.name.as_str()),
            status: status.map(|status| status.as_u16()),
            reason: *reason,
            request_id: &exchange.request_id,
            decided_by: exchange.decided_by(),
            action: action.unwrap_or(Action::Allow).as_str(),
            findings: (request.len(), response.len()),
            provider: provider(exchange),
            operation: detected.zip(path).and_then(|(dialect, path)| dialect.operation(path)),
            request_model: asked.filter(|_| asked_for),
            response_model: usage.model.as_deref().filter(|_| asked_for && answered),
            input_tokens: usage.prompt_tokens,
            output_tokens: usage.completion_tokens,
            ended: SystemTime::from(self.clock.now()),
            took,
            asked_after: *asked_after,
            scanning: *scanning,
        };
        otlp.end(exchange.trace.as_ref(), &facts);
    }
}
