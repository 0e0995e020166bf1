//! What is kept in memory follows what other nodes write.
//!
//! Woken by their word where the database can pass it on, and by itself twice a second. A node that cannot take over
//! what others wrote (the database is away, a record is newer than this program) goes on with what it has, and is out
//! of touch: it counts as ready no more, see [`Members::is_in_touch`].
//!
//! A database that lost its last commits, by a failover to a standby that lagged behind or a restored backup, shows itself by
//! tables that go back: the nodes' own rows are among them, which change all the time. Whatever was read is read anew then.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::Members;
use crate::store::Mark;
use crate::store::Store;
use crate::store::StoreError;

/// How often it is looked whether something was written, whatever was told.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How many looks lie between two times that old deletions are forgotten: an hour, where nobody writes.
const FORGET_EVERY: u64 = 7200;

type Follow = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Something that is kept in memory, and the tables it is made of.
struct Watched {
    name: &'static str,
    tables: &'static [&'static str],
    follow: Follow,
}

/// Lets what is kept in memory follow.
pub struct Follower {
    store: Store,
    members: Arc<Members>,
    watched: Vec<Watched>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Where memory is with the tables that it is made of.
    at: BTreeMap<&'static str, Mark>,
    /// Where all tables were the last time.
    last: BTreeMap<String, Mark>,
    /// What could not follow the last time.
    stuck: BTreeSet<&'static str>,
}

impl Follower {
    /// Returns a follower of a store, of nothing yet; `members` are told that this node keeps up, as long as it does.
    pub fn new(store: Store, members: Arc<Members>) -> Self {
        Self { store, members, watched: Vec::new(), seen: Mutex::default() }
    }

    /// Calls `follow` whenever one of the tables may have changed; in the order in which it was said. `follow` says
    /// why it could not: it is called again then.
    pub fn watch<E: std::fmt::Display>(
        &mut self,
        name: &'static str,
        tables: &'static [&'static str],
        follow: impl Fn() -> Result<(), E> + Send + Sync + 'static,
    ) {
        let follow: Follow = Box::new(move || follow().map_err(|error| error.to_string()));
        self.watched.push(Watched { name, tables, follow });
    }

    /// Looks once what was written, and follows. Blocks.
    ///
    /// # Errors
    /// The store failed; then nothing was followed.
    pub fn look(&self) -> Result<(), StoreError> {
        let moment = self.members.moment();
        let mut seen = self.seen.lock();
        let now = self.store.marks()?;
        if seen.is_lost_at(&now) {
            tracing::error!(
                "the database lost what it had confirmed: all that is kept in memory is read anew"
            );
            self.store.note_loss();
            seen.at.clear();
        }
        for watched in &self.watched {
            seen.follow(watched, &now);
        }
        seen.last = now;
        if seen.stuck.is_empty() {
            self.members.followed(moment);
        }
        Ok(())
    }

    /// Follows until `shutdown` resolves.
    pub async fn run(self: Arc<Self>, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let mut told = self.store.told();
        for looks in 0u64.. {
            let word = async {
                let heard = match &mut told {
                    Some(told) => told.changed().await.is_ok(),
                    None => false,
                };
                // Nobody tells, or nobody any more.
                if !heard {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                () = word => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let follower = Arc::clone(&self);
            let looked = tokio::task::spawn_blocking(move || {
                if looks % FORGET_EVERY == FORGET_EVERY - 1 {
                    follower.store.forget_deletions()?;
                }
                follower.look()
            });
            match looked.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "what other nodes wrote could not be read"),
                Err(_) => tracing::error!("following other nodes panicked"),
            }
        }
    }
}

impl Seen {
    /// Tells whether some table cannot have come from where it was to where it is.
    fn is_lost_at(&self, now: &BTreeMap<String, Mark>) -> bool {
        self.last.iter().any(|(table, was)| was.is_lost_at(now.get(table).copied().unwrap_or_default()))
    }

    /// Lets something follow whose tables are not where memory is; says so once where it cannot, and once it can.
    fn follow(&mut self, watched: &Watched, marks: &BTreeMap<String, Mark>) {
        let now = |table: &str| marks.get(table).copied().unwrap_or_default();
        if watched.tables.iter().all(|table| self.at.get(table) == Some(&now(table))) {
            return;
        }
        let what = watched.name;
        match (watched.follow)() {
            Ok(()) => {
                self.at.extend(watched.tables.iter().map(|table| (*table, now(table))));
                if self.stuck.remove(what) {
                    tracing::info!(what, "other nodes are followed again");
                }
            }
            Err(error) => {
                if self.stuck.insert(what) {
                    tracing::error!(
                        error,
                        what,
                        "other nodes cannot be followed: what is known here grows old"
                    );
                }
            }
        }
    }
}
