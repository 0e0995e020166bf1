//! Saying no: the answer to a refused exchange, in the shape that its caller understands.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header;
use pingora::http::ResponseHeader;
use pingora::protocols::http::HttpTask;
use pingora::proxy::Session;

use super::Gateway;
use super::a2a;
use super::admit::stranger;
use super::bound_for;
use super::context::Exchange;
use super::reject::Answer;
use super::reject::Rejection;
use crate::llm::dialect::Detected;
use crate::llm::dialect::Wire;
use crate::llm::refusal::Refusal;

/// How much of an unread request body is drained before a refusal, and for how long: a caller that is
/// still writing would otherwise see a reset instead of the answer.
const DRAIN_DEADLINE: Duration = Duration::from_millis(500);

/// Tells whether a head has left: that of an answer, or of a switch to another protocol.
pub(super) fn has_answered(session: &Session) -> bool {
    let is_final =
        |status: StatusCode| !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS;
    session.response_written().is_some_and(|head| is_final(head.status))
}

/// In whose words a refusal is written.
#[derive(Clone, Copy)]
enum Shape {
    /// As the guardrails write their denials.
    Agent,
    /// As an SDK reads errors.
    Sdk(Wire),
    /// As the management plane writes them.
    Plain,
}

impl Gateway {
    /// Returns the words for a refusal: agents that speak no API that is known get those of the guardrails.
    ///
    /// A head that is refused led nowhere yet; its path as it stands only tells whose words are understood there.
    fn shape(&self, session: &Session, exchange: &Exchange, rejection: &Rejection) -> Shape {
        let of = |is_for_agents: bool, detected: &Detected| match detected.wire {
            Wire::Generic if is_for_agents => Shape::Agent,
            wire => Shape::Sdk(wire),
        };
        if let Some(detected) = &exchange.detected {
            let is_for_agents =
                exchange.passage.as_ref().is_some_and(|passage| passage.route().is_for_agents());
            return of(is_for_agents, detected);
        }
        let path = session.req_header().uri.path();
        if !matches!(rejection, Rejection::Head(_) | Rejection::Path(_)) || self.own.contains(path) {
            return Shape::Plain;
        }
        match bound_for(session, exchange, path) {
            Some((passage, detected)) => of(passage.route().is_for_agents(), &detected),
            None => Shape::Plain,
        }
    }

    /// Answers a refused exchange in the caller's shape; does nothing once a head has left.
    pub(super) async fn refuse(
        &self,
        session: &mut Session,
        exchange: &mut Exchange,
        rejection: &Rejection,
    ) -> pingora::Result<()> {
        if has_answered(session) {
            return Ok(());
        }
        let internal = a2a::internal_error(rejection, exchange);
        let rejection = internal.as_ref().unwrap_or(rejection);
        let answer = rejection.answer();
        exchange.limit.get_or_insert_with(|| self.limit_of_address(session));
        exchange.outcome.reason = Some(answer.code);
        exchange.outcome.is_denied = rejection.is_denial();
        exchange.outcome.status = Some(answer.status);
        exchange.refused(rejection);
        let shape = self.shape(session, exchange, rejection);
        let body = match (rejection, shape) {
            (Rejection::A2a(_), _) => a2a::body(&answer),
            (_, Shape::Agent) => {
                a2a::body_of_other(&self.refusal(&answer, exchange), exchange.agent.as_ref())
            }
            (_, Shape::Sdk(wire)) => self.refusal(&answer, exchange).error_body(wire),
            (_, Shape::Plain) => serde_json::json!({ "error": answer.message }).to_string().into_bytes(),
        };
        let mut head = ResponseHeader::build(answer.status, Some(14))?;
        head.insert_header(header::CONTENT_TYPE, "application/json")?;
        head.insert_header(header::CONTENT_LENGTH, body.len())?;
        if let Some(seconds) = answer.retry_after_s {
            head.insert_header(header::RETRY_AFTER, seconds)?;
        }
        let is_of_provider = matches!(rejection, Rejection::UpgradeFailed(_));
        if answer.status == StatusCode::UNAUTHORIZED && !is_of_provider {
            head.insert_header(header::WWW_AUTHENTICATE, "Bearer realm=\"portcullis\"")?;
        }
        if !answer.may_retry {
            // OpenAI's and Anthropic's SDKs obey it, whatever the status.
            head.insert_header("x-should-retry", "false")?;
        }
        if matches!(shape, Shape::Sdk(Wire::Anthropic)) {
            // Anthropic's own name for what everybody else calls `x-request-id`.
            head.insert_header("request-id", &exchange.request_id)?;
        }
        self.bound_record(session, exchange, rejection);
        // A refusal is one, recorded or not; the recorder counts what is lost.
        if !matches!(rejection, Rejection::Unrecorded) && !exchange.outcome.is_local {
            let _ = self.keep(exchange).await;
        }
        self.decorate(&mut head, exchange)?;
        self.drain(session).await;
        if rejection.leaves_framing_open() {
            // Where the request ends nobody knows: what follows must not be read as another one.
            session.set_keepalive(None);
        }
        let silent = session.req_header().method == http::Method::HEAD;
        let mut tasks = vec![HttpTask::Header(Box::new(head), silent)];
        if !silent {
            tasks.push(HttpTask::Body(Some(Bytes::from(body)), true));
        }
        session.as_downstream_mut().response_duplex_vec(tasks).await?;
        Ok(())
    }

    /// Lets a refusal that says little be counted only, where such come too often: nobody fills the audit log, or
    /// pushes evidence out of it, by knocking.
    fn bound_record(&self, session: &Session, exchange: &mut Exchange, rejection: &Rejection) {
        let caller = exchange.caller.as_ref().map(|caller| caller.as_str().to_owned());
        if !rejection.is_knock(caller.is_some()) || exchange.is_recorded {
            return;
        }
        let whom = caller.unwrap_or_else(|| stranger(session));
        if !self.refusals.admit(&whom, self.clock.now()) {
            self.telemetry.metrics.refusal_unrecorded();
            exchange.is_recorded = true;
        }
    }

    /// Reads what is left of a request body, within bounds; past them the connection is closed.
    async fn drain(&self, session: &mut Session) {
        if session.as_downstream_mut().is_body_done() {
            return;
        }
        let drained =
            tokio::time::timeout(DRAIN_DEADLINE, session.as_downstream_mut().drain_request_body()).await;
        if !matches!(drained, Ok(Ok(()))) {
            session.set_keepalive(None);
        }
    }

    /// Names the types of what was found, never the value: who is refused can then mend the request.
    pub(super) fn refusal(&self, answer: &Answer, exchange: &Exchange) -> Refusal {
        let found = exchange.blocked_for();
        let message = match found.as_slice() {
            [] => answer.message.clone(),
            found => format!("{} ({})", answer.message, found.join(", ")),
        };
        Refusal {
            status: answer.status.as_u16(),
            code: answer.code,
            message,
            request_id: exchange.request_id.clone(),
            call_id: exchange.call_id.clone(),
        }
    }
}
