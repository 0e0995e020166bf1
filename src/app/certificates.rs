//! The certificates of both planes: read again, and watched for their end.

use std::sync::Arc;

use crate::telemetry::Telemetry;
use crate::telemetry::health::Dependency;
use crate::tls::CertificateStore;
use crate::tls::facts::CertificateFacts;

/// Reads every certificate again; one that cannot be read stays as it was.
pub(super) fn reload_certificates(
    certificates: &[(&'static str, Arc<CertificateStore>)],
    telemetry: &Telemetry,
) {
    let faults: Vec<String> =
        certificates.iter().filter_map(|(_, it)| it.reload().err()).map(|error| error.to_string()).collect();
    for error in &faults {
        tracing::error!(error, "a certificate could not be reloaded, the old one is still served");
    }
    tell_expiry(certificates, telemetry);
    match faults.is_empty() {
        true => telemetry.health.up(Dependency::Certificates),
        false => telemetry.health.down(Dependency::Certificates, faults.join("; ")),
    }
}

/// Shows until when each certificate counts.
pub(super) fn tell_expiry(certificates: &[(&'static str, Arc<CertificateStore>)], telemetry: &Telemetry) {
    for (listener, store) in certificates {
        if let Some(facts) = store.leaf().and_then(|leaf| CertificateFacts::of(&leaf)) {
            telemetry.metrics.certificate_ends(listener, facts.not_after.as_second());
        }
    }
}
