//! The tasks that keep what changes by itself: the store, the audit log, signing keys, counts of A/B tests, trust in
//! agents, erasures.

use std::sync::Arc;

use pingora::server::Server;

use super::task::task;
use crate::access::authenticator::Authenticator;
use crate::access::signing::KeyRing;
use crate::clock::Clock;
use crate::govern::abtest::AbTests;
use crate::govern::audit::AuditLog;
use crate::govern::audit::Notary;
use crate::govern::audit::Writer;
use crate::govern::privacy::Keeper;
use crate::govern::trust::Trust;
use crate::store::Store;
use crate::telemetry::Telemetry;
use crate::telemetry::health::Dependency;

/// What changes by itself.
pub(super) struct Kept {
    /// What of the state is this node's own.
    pub(super) store: Store,
    pub(super) signing: Arc<KeyRing>,
    pub(super) abtests: Arc<AbTests>,
    pub(super) trust: Arc<Trust>,
    pub(super) erasures: Keeper,
}

/// The time, and the moment that has surely come, by which what is old goes.
pub(super) struct Clocks {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) sure: Arc<dyn Clock>,
}

/// Adds a task for each of them.
pub(super) fn add_tasks(server: &mut Server, telemetry: &Arc<Telemetry>, kept: Kept, clocks: Clocks) {
    let Kept { store, signing, abtests, trust, erasures } = kept;
    let Clocks { clock, sure } = clocks;
    let persistence = Some(Dependency::Persistence);
    let time = (Arc::clone(&clock), Arc::clone(&sure));
    server.add_service(task("store", telemetry, persistence, |shutdown| store.run(shutdown)));
    server.add_service(task("signing-keys", telemetry, None, move |shutdown| signing.run(shutdown, time)));
    server.add_service(task("abtest-counts", telemetry, persistence, |shutdown| abtests.run(shutdown)));
    server.add_service(task("trust", telemetry, persistence, |shutdown| trust.run(shutdown, clock)));
    server.add_service(task("erasures", telemetry, None, move |shutdown| erasures.run(sure, shutdown)));
}

/// Adds the tasks that write the audit log, index it and drop what of it is old, and sign where it ends.
pub(super) fn add_journal(
    server: &mut Server,
    telemetry: &Arc<Telemetry>,
    writer: Writer,
    (log, notary): (AuditLog, Notary),
) {
    let persistence = Some(Dependency::Persistence);
    server.add_service(task("audit-writer", telemetry, persistence, move |shutdown| async move {
        if let Err(error) = writer.run(shutdown).await {
            tracing::error!(%error, "the audit writer stopped");
        }
    }));
    server.add_service(task("audit-index", telemetry, persistence, move |shutdown| log.run(shutdown)));
    server.add_service(task("audit-checkpoints", telemetry, None, move |shutdown| notary.run(shutdown)));
}

/// Adds the tasks that forget what has surely ended, and write down what was used.
pub(super) fn add_credentials(
    server: &mut Server,
    telemetry: &Arc<Telemetry>,
    authenticator: Authenticator,
    sure: &Arc<dyn Clock>,
) {
    let Authenticator { keys, tokens, sessions, .. } = authenticator;
    let (of_tokens, of_sessions) = (Arc::clone(sure), Arc::clone(sure));
    server.add_service(task("tokens", telemetry, None, move |shutdown| tokens.run(of_tokens, shutdown)));
    server
        .add_service(task("sessions", telemetry, None, move |shutdown| sessions.run(of_sessions, shutdown)));
    server.add_service(task("key-uses", telemetry, None, move |shutdown| keys.run(shutdown)));
}
