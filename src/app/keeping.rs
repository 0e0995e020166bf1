//! The tasks that keep what changes by itself: the store, signing keys, counts of A/B tests, trust in
//! agents, erasures.

use std::sync::Arc;

use pingora::server::Server;

use super::task::task;
use crate::access::authenticator::Authenticator;
use crate::access::signing::KeyRing;
use crate::clock::Clock;
use crate::govern::abtest::AbTests;
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
    pub(super) clock: Arc<dyn Clock>,
}

/// Adds a task for each of them.
pub(super) fn add_tasks(server: &mut Server, telemetry: &Arc<Telemetry>, kept: Kept) {
    let Kept { store, signing, abtests, trust, erasures, clock } = kept;
    let persistence = Some(Dependency::Persistence);
    let time = Arc::clone(&clock);
    server.add_service(task("store", telemetry, persistence, |shutdown| store.run(shutdown)));
    server.add_service(task("signing-keys", telemetry, None, |shutdown| signing.run(shutdown, time)));
    server.add_service(task("abtest-counts", telemetry, persistence, |shutdown| abtests.run(shutdown)));
    server.add_service(task("trust", telemetry, persistence, |shutdown| trust.run(shutdown, clock)));
    server.add_service(task("erasures", telemetry, None, |shutdown| erasures.run(shutdown)));
}

/// Adds the tasks that forget what has ended, and write down what was used.
pub(super) fn add_credentials(
    server: &mut Server,
    telemetry: &Arc<Telemetry>,
    authenticator: Authenticator,
    clock: &Arc<dyn Clock>,
) {
    let Authenticator { keys, tokens, sessions, .. } = authenticator;
    let (of_tokens, of_sessions) = (Arc::clone(clock), Arc::clone(clock));
    server.add_service(task("tokens", telemetry, None, move |shutdown| tokens.run(of_tokens, shutdown)));
    server
        .add_service(task("sessions", telemetry, None, move |shutdown| sessions.run(of_sessions, shutdown)));
    server.add_service(task("key-uses", telemetry, None, move |shutdown| keys.run(shutdown)));
}
