//! The certificates of both planes: read again, and watched for their end.
//!
//! One that ends soon, or does not count, is logged when that begins and every day anew.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use pingora::server::Server;

use super::Served;
use super::task::task;
use crate::clock::Clock;
use crate::telemetry::Telemetry;
use crate::telemetry::health::Dependency;
use crate::tls::facts::CertificateFacts;
use crate::tls::facts::Validity;

/// How long it may go unnoticed that a certificate ends.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(1);
/// How often it is told again.
const TOLD_EVERY_S: i64 = 86_400;

/// Reads every certificate again; one that cannot be read stays as it was.
pub(super) fn reload_certificates(certificates: &Served, telemetry: &Telemetry) {
    let faults: Vec<String> =
        certificates.iter().filter_map(|(_, it)| it.reload().err()).map(|error| error.to_string()).collect();
    tell_expiry(certificates, telemetry);
    match faults.is_empty() {
        true => telemetry.health.up(Dependency::Certificates),
        false => telemetry.health.down(Dependency::Certificates, faults.join("; ")),
    }
    for error in &faults {
        tracing::error!(error, "a certificate could not be reloaded, the old one is still served");
    }
}

/// Shows until when each certificate counts.
pub(super) fn tell_expiry(certificates: &Served, telemetry: &Telemetry) {
    for (listener, store) in certificates {
        if let Some(facts) = store.facts() {
            telemetry.metrics.certificate_ends(listener, facts.not_after.as_second());
        }
    }
}

/// Adds the task that watches the certificates for their end.
pub(super) fn add_task(
    server: &mut Server,
    telemetry: &Arc<Telemetry>,
    certificates: &Served,
    clock: &Arc<dyn Clock>,
) {
    if certificates.is_empty() {
        return;
    }
    let (certificates, clock) = (certificates.clone(), Arc::clone(clock));
    server.add_service(task("certificates", telemetry, None, move |shutdown| async move {
        follow(&certificates, &*clock, shutdown).await;
    }));
}

/// Looks at the certificates again and again until `shutdown` resolves.
async fn follow(certificates: &Served, clock: &dyn Clock, shutdown: impl Future<Output = ()>) {
    let (mut shutdown, mut told) = (pin!(shutdown), Told::default());
    let mut tick = tokio::time::interval(LOOKED_AT_EVERY);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => return,
            _ = tick.tick() => {}
        }
        let now = clock.now();
        for (listener, store) in certificates {
            if let Some(facts) = store.facts().filter(|facts| told.is_due(listener, facts, now)) {
                tell(listener, &facts, now);
            }
        }
    }
}

/// When what was told of each listener.
#[derive(Default)]
struct Told(BTreeMap<&'static str, (Timestamp, Validity, i64)>);

impl Told {
    /// Tells whether there is something to tell of a certificate that was not told today, and takes it as told.
    fn is_due(&mut self, listener: &'static str, facts: &CertificateFacts, now: Timestamp) -> bool {
        let validity = facts.validity(now);
        if validity == Validity::Valid {
            self.0.remove(listener);
            return false;
        }
        let what = (facts.not_after, validity, now.as_second().div_euclid(TOLD_EVERY_S));
        self.0.insert(listener, what) != Some(what)
    }
}

fn tell(listener: &str, facts: &CertificateFacts, now: Timestamp) {
    let (subject, ends, days_left) = (&facts.subject, facts.not_after, facts.days_left(now));
    match facts.validity(now) {
        Validity::Valid => {}
        Validity::Expiring => {
            tracing::warn!(listener, subject, %ends, days_left, "a certificate will expire soon");
        }
        Validity::Expired => tracing::error!(listener, subject, %ends, "a certificate has expired"),
        Validity::NotYetValid => {
            tracing::error!(listener, subject, begins = %facts.not_before, "a certificate does not count yet");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_when_it_comes_near_and_once_a_day() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let of = |not_after| CertificateFacts {
            subject: String::new(),
            issuer: String::new(),
            sans: Vec::new(),
            not_before: at("2026-01-01T00:00:00Z"),
            not_after: at(not_after),
        };
        let (old, new) = (of("2026-05-03T12:00:00Z"), of("2027-05-03T12:00:00Z"));
        let mut told = Told::default();
        for (facts, now, is_due) in [
            (&old, "2026-03-01T00:00:00Z", false),
            (&old, "2026-05-01T10:00:00Z", true),
            (&old, "2026-05-01T23:59:59Z", false),
            (&old, "2026-05-02T00:00:00Z", true),
            (&old, "2026-05-03T11:59:59Z", true),
            (&old, "2026-05-03T12:00:00Z", true),
            (&old, "2026-05-03T12:00:01Z", false),
            (&new, "2026-05-03T12:00:02Z", false),
            (&old, "2026-05-03T12:00:03Z", true),
        ] {
            assert_eq!(told.is_due("proxy", facts, at(now)), is_due, "{now}");
        }
    }
}
