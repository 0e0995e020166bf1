//! Keeps what is known of the clock ([`SureClock`]) over restarts.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use pingora::server::Server;

use super::task::task;
use crate::clock::Clock;
use crate::clock::sure::Kept;
use crate::clock::sure::SureClock;
use crate::govern::audit::AuditLog;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;
use crate::telemetry::Telemetry;

/// How often the clock is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How many looks lie between two times that it is written down what is known: ten minutes.
const KEEP_EVERY: u64 = 10;
/// The key of the one record.
const ONLY: &str = "sure";

impl Record for Kept {
    const VERSION: u32 = 1;
}

/// Returns the sure time of a clock, as far as this node's store tells of it; where it does not yet, the newest entry of
/// the log tells of a moment that has come.
///
/// # Errors
/// The store failed.
pub(super) fn open(
    local: &Store,
    log: &AuditLog,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<SureClock>, StoreError> {
    let kept = table(local).get(&ONLY.to_owned())?;
    let clock = Arc::clone(clock);
    Ok(Arc::new(match kept {
        Some(kept) => SureClock::resume(clock, kept),
        None => SureClock::since(clock, log.last_written()),
    }))
}

/// Adds the task that looks at the clock, and writes down what is known of it.
pub(super) fn add_task(
    server: &mut Server,
    telemetry: &Arc<Telemetry>,
    local: &Store,
    sure: &Arc<SureClock>,
) {
    let (local, sure) = (local.clone(), Arc::clone(sure));
    server.add_service(task("sure-time", telemetry, None, move |shutdown| follow(local, sure, shutdown)));
}

async fn follow(local: Store, sure: Arc<SureClock>, shutdown: impl Future<Output = ()>) {
    let mut shutdown = pin!(shutdown);
    for looks in 0_u64.. {
        let is_over = tokio::select! {
            () = &mut shutdown => true,
            () = tokio::time::sleep(LOOK_EVERY) => false,
        };
        let (local, kept) = (local.clone(), sure.kept());
        if !is_over && !looks.is_multiple_of(KEEP_EVERY) {
            continue;
        }
        let written = tokio::task::spawn_blocking(move || table(&local).put(&ONLY.to_owned(), &kept)).await;
        if !matches!(written, Ok(Ok(()))) {
            tracing::warn!("what is known of the clock could not be written down");
        }
        if is_over {
            return;
        }
    }
}

fn table(local: &Store) -> Table<String, Kept> {
    local.table("clock")
}
