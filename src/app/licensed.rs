//! The standing of the deployment, followed: a licence that ends, comes or goes while the process runs is logged and
//! recorded when it happens.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use pingora::server::Server;

use super::state::tell_standing;
use super::task::task;
use crate::access::license::Licensing;
use crate::access::license::Standing;
use crate::clock::Clock;
use crate::govern::audit::AuditEvent;
use crate::govern::audit::Recorder;
use crate::telemetry::Telemetry;

/// How long a change may go unnoticed.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(1);

/// Adds the task that follows the standing.
pub(super) fn add_task(
    server: &mut Server,
    telemetry: &Arc<Telemetry>,
    licensing: &Arc<Licensing>,
    (recorder, clock): (&Recorder, &Arc<dyn Clock>),
) {
    let (licensing, recorder, clock) = (Arc::clone(licensing), recorder.clone(), Arc::clone(clock));
    server.add_service(task("licence", telemetry, None, move |shutdown| async move {
        follow(&licensing, &recorder, &*clock, shutdown).await;
    }));
}

/// Looks at the standing again and again until `shutdown` resolves, and tells each change.
async fn follow(
    licensing: &Licensing,
    recorder: &Recorder,
    clock: &dyn Clock,
    shutdown: impl Future<Output = ()>,
) {
    let mut shutdown = pin!(shutdown);
    let mut known = licensing.standing(clock.now());
    let mut tick = tokio::time::interval(LOOKED_AT_EVERY);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => return,
            _ = tick.tick() => {}
        }
        let standing = licensing.standing(clock.now());
        if standing == known {
            continue;
        }
        tell_standing(licensing, clock);
        if let Err(error) = recorder.record_soon(changed(&standing)) {
            tracing::error!(%error, "a change of the licence could not be recorded in the audit log");
        }
        known = standing;
    }
}

/// Returns what is recorded of a standing that is new.
fn changed(standing: &Standing) -> AuditEvent {
    let tier = standing.tier.as_str();
    let message = match (standing.fault.or(standing.unread), standing.expires_at) {
        (Some(fault), _) => format!("{fault}: the tier is {tier}"),
        (None, Some(end)) => format!("a licence counts until {end}: the tier is {tier}"),
        (None, None) => format!("there is no licence: the tier is {tier}"),
    };
    AuditEvent {
        event_type: "license_changed".to_owned(),
        action: if standing.fault.is_some() { "block" } else { "allow" }.to_owned(),
        message,
        ..AuditEvent::default()
    }
}
