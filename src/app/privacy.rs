//! Who is asked when somebody wants to see or to erase what is kept of them.

use std::sync::Arc;

use crate::access::authenticator::Authenticator;
use crate::access::budget::Budgets;
use crate::access::keyring::Keyring;
use crate::clock::Clock;
use crate::govern::analytics::Meter;
use crate::govern::audit::AuditLog;
use crate::govern::privacy::AnalyticsProvider;
use crate::govern::privacy::AuditProvider;
use crate::govern::privacy::DataProvider;
use crate::govern::privacy::HoldsProvider;
use crate::govern::privacy::IocProvider;
use crate::govern::privacy::Privacy;
use crate::govern::privacy::RbacProvider;
use crate::govern::privacy::RevisionsProvider;
use crate::govern::privacy::SessionsProvider;
use crate::govern::privacy::ToolsProvider;
use crate::govern::privacy::TrustProvider;
use crate::govern::trust::Trust;
use crate::policy::pin::Pins;
use crate::policy::reload::Reloader;
use crate::store::Store;
use crate::store::StoreError;

/// Opens holds and erasures, with every provider there is. What may refuse to forget comes first, so that an
/// erasure that is refused has changed nothing.
pub fn open(
    (store, node): (&Store, &str),
    keyring: &Arc<Keyring>,
    log: &AuditLog,
    (authenticator, budgets): (&Authenticator, &Arc<Budgets>),
    (meter, trust, pins): (&Arc<Meter>, &Arc<Trust>, &Arc<Pins>),
    rules: &Arc<Reloader>,
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
        Box::new(ToolsProvider(Arc::clone(pins))),
        Box::new(AnalyticsProvider(Arc::clone(meter))),
        Box::new(IocProvider(log.clone())),
        Box::new(AuditProvider(log.clone())),
        Box::new(HoldsProvider::new(store, Arc::clone(keyring))),
        Box::new(RevisionsProvider(Arc::clone(rules))),
        Box::new(TrustProvider { trust: Arc::clone(trust), clock: Arc::clone(clock) }),
    ];
    let privacy =
        Privacy::open((store, node), Arc::clone(keyring), log.clone(), Arc::clone(clock), providers)?;
    Ok(Arc::new(privacy))
}
