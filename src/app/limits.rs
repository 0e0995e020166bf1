//! What is kept of limits outside of the rules: the quotas of callers, and the room for bytes that wait.
//!
//! Both are those of the rules in force, from the start: these may be a stored revision, not the files.

use std::sync::Arc;

use pingora::server::Server;

use super::state::State;
use super::task::task;
use crate::access::limit::Buckets;
use crate::access::limit::Kind;
use crate::access::limit::Quotas;
use crate::access::tier::Quota;
use crate::access::tier::Tier;
use crate::clock::Clock;
use crate::policy::limits::TierLimit;
use crate::policy::reload::Reloader;
use crate::proxy::gate::ByteBudget;
use crate::store::Store;
use crate::telemetry::Telemetry;
use crate::telemetry::metrics::Metrics;

/// Returns what callers have left, under quotas that follow the rules.
pub(super) fn buckets(state: &State, clock: &dyn Clock) -> Arc<Buckets> {
    let rules = state.reloader.handle();
    let in_force = move || quotas(&rules.load().limits.tiers, Tier::quota);
    let buckets =
        Arc::new(Buckets::open(Kind::Callers, in_force(), state.secret.clone(), &state.local, clock.now()));
    let followed = Arc::clone(&buckets);
    state.reloader.subscribe(move |_| followed.set_quotas(in_force()));
    buckets
}

/// Lets what callers and agents have left be written down when the process ends.
pub(super) fn add_tasks(
    server: &mut Server,
    telemetry: &Arc<Telemetry>,
    all: [&Arc<Buckets>; 2],
    store: &Store,
    clock: &Arc<dyn Clock>,
) {
    for buckets in all {
        let name = match buckets.kind() {
            Kind::Callers => "quotas",
            Kind::Agents => "agent-quotas",
        };
        let (buckets, store, time) = (Arc::clone(buckets), store.clone(), Arc::clone(clock));
        server.add_service(task(name, telemetry, None, move |shutdown| buckets.run(store, time, shutdown)));
    }
}

/// Returns the room for bytes that wait, which follows the rules, and is measured.
pub(super) fn room(reloader: &Reloader, metrics: &Metrics) -> Arc<ByteBudget> {
    let rules = reloader.handle();
    let in_force = move |room: &ByteBudget| {
        let rules = rules.load();
        room.resize(rules.limits.buffered_bytes_total);
        room.share_out(rules.limits.buffered_bytes_per_caller);
    };
    let room = ByteBudget::new(0);
    in_force(&room);
    let followed = Arc::clone(&room);
    reloader.subscribe(move |_| in_force(&followed));
    let measured = Arc::clone(&room);
    metrics.follow_buffered(move || measured.used());
    room
}

/// Returns the quota of each tier: the one of the rules, else the usual one.
pub(super) fn quotas(limits: &[TierLimit], usual: fn(Tier) -> Option<Quota>) -> Quotas {
    Tier::ALL.map(|tier| {
        let Some(limit) = limits.iter().find(|limit| limit.tier == tier.as_str()) else {
            return usual(tier);
        };
        let requests_per_minute = limit.requests_per_minute?;
        Some(Quota { requests_per_minute, burst: limit.burst.unwrap_or(requests_per_minute) })
    })
}
