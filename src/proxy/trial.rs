//! An exchange's part in an A/B test of the third layer, from its beginning to the count at its end.

use super::Gateway;
use super::context::Exchange;
use crate::govern::abtest::Outcome;
use crate::govern::audit::AuditEvent;
use crate::policy::decision::Action;
use crate::scan::threat::Layer;

/// The event type of a variant that blocked too much.
const TRIPPED: &str = "abtest_guard_rail";

impl Gateway {
    /// Lets the exchange take part in the test that routes traffic, if there is one.
    pub(super) fn enrol(&self, exchange: &mut Exchange) {
        let drawn = exchange.is_named_by_caller.then(|| self.ids.next(self.clock.now().as_millisecond()));
        let drawn = drawn.map(|id| id.to_string());
        let id = drawn.as_deref().unwrap_or(&exchange.request_id);
        exchange.enrolled = self.abtests.enrol(id, &exchange.rules.layer3, &self.clock);
    }

    /// Counts what came of it, where the third layer had something to read.
    pub(super) async fn conclude_trial(&self, exchange: &mut Exchange) {
        let Some(enrolled) = exchange.enrolled.take().filter(|enrolled| enrolled.trial.texts() > 0) else {
            return;
        };
        let seen = exchange.outcome.request.iter().chain(&exchange.outcome.response);
        let of_model = seen.filter(|observation| observation.layer == Layer::L3Ml);
        let strictest = of_model.map(|observation| observation.action).max();
        let outcome = Outcome {
            detected: strictest.is_some(),
            false_positive: false,
            blocked: strictest == Some(Action::Block),
            latency_us: enrolled.trial.took().as_micros() as u64,
        };
        let now = self.clock.now();
        let Some((test, variant, trip)) = self.abtests.observe(&enrolled, &exchange.request_id, outcome, now)
        else {
            return;
        };
        let percent = trip.block_rate * 100.0;
        tracing::warn!(test, variant, percent, "a variant of an A/B test blocks too much and was stopped");
        let event = AuditEvent {
            event_type: TRIPPED.to_owned(),
            action: "block".to_owned(),
            entity: Some(test),
            message: format!("variant {variant} was stopped: it blocked {percent:.1} % of its requests"),
            ..AuditEvent::default()
        };
        if let Err(error) = self.recorder.record(event).await {
            tracing::error!(%error, "a stopped variant could not be recorded in the audit log");
        }
    }
}
