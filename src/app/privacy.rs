//! Who is asked when somebody wants to see or to erase what is kept of them.

use std::sync::Arc;

use crate::access::authenticator::Authenticator;
use crate::access::budget::Budgets;
use crate::clock::Clock;
use crate::govern::analytics::Meter;
use crate::govern::audit::AuditLog;
use crate::govern::audit::Recorder;
use crate::govern::keyring::Keyring;
use crate::govern::privacy::AnalyticsProvider;
use crate::govern::privacy::AuditProvider;
use crate::govern::privacy::DataProvider;
use crate::govern::privacy::IocProvider;
use crate::govern::privacy::Privacy;
use crate::govern::privacy::RbacProvider;
use crate::govern::privacy::SessionsProvider;
use crate::govern::privacy::TrustProvider;
use crate::govern::trust::Trust;
use crate::store::Store;
use crate::store::StoreError;

/// Opens holds and erasures, with every provider there is. What may refuse to forget comes first, so that an
/// erasure that is refused has changed nothing.
pub fn open(
    (store, node): (&Store, &str),
    keyring: &Arc<Keyring>,
    log: &AuditLog,
    (authenticator, budgets): (&Authenticator, &Arc<Budgets>),
    (meter, trust): (&Arc<Meter>, &Arc<Trust>),
    clock: &Arc<dyn Clock>,
) -> Result<Arc<Privacy>, StoreError> {
    let providers: Vec<Box<dyn DataProvider>> = vec![
        Box::new(RbacProvider {
            authenticator: authenticator.clone(),
            budgets: Arc::clone(budgets),
            clock: Arc::clone(clock),
        }),
        Box::new(SessionsProvider {
            sessions: Arc::clone(&authenticator.sessions),
            clock: Arc::clone(clock),
            keyring: Arc::clone(keyring),
        }),
        Box::new(AnalyticsProvider(Arc::clone(meter))),
        Box::new(IocProvider(log.clone())),
        Box::new(AuditProvider(log.clone())),
        Box::new(TrustProvider { trust: Arc::clone(trust), clock: Arc::clone(clock) }),
    ];
    let privacy =
        Privacy::open((store, node), Arc::clone(keyring), log.clone(), Arc::clone(clock), providers)?;
    Ok(Arc::new(privacy))
}

/// Finishes the erasures that the last process did not, and records them.
pub fn resume(privacy: &Privacy, recorder: &Recorder) {
    let finished = match privacy.resume() {
        Ok(finished) => finished,
        Err(error) => return tracing::error!(%error, "an erasure that was cut short could not be finished"),
    };
    for erased in finished {
        tracing::warn!("an erasure that was cut short was finished");
        let recorded = recorder.record_soon(erased.event());
        if let Err(error) = recorded
            .map_err(|error| error.to_string())
            .and_then(|()| privacy.settle(&erased).map_err(|error| error.to_string()))
        {
            tracing::error!(error, "an erasure could not be recorded; it will be at the next start");
        }
    }
}
