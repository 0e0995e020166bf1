//! Last uses of sessions, which are written down from time to time, and ends that are forgotten.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;

use jiff::Timestamp;

use super::Holder;
use super::NOTED_AT_ONCE;
use super::NOTED_EVERY;
use super::ROUNDS_TO_FORGET;
use super::SessionError;
use super::SessionRecord;
use super::SessionStore;
use super::known::Live;
use crate::access::patience::Patience;
use crate::clock::Clock;
use crate::store::StoreError;

impl SessionStore {
    /// Returns every session of which anything is kept, also those that have ended by themselves.
    pub fn kept(&self) -> Vec<SessionRecord> {
        self.known.read().by_hash.values().map(|live| live.record.clone()).collect()
    }

    /// Writes down which sessions were used since the last time, so that an idle time outlives a restart, and is known
    /// to other nodes. Blocks.
    ///
    /// # Errors
    /// The store failed; a session whose use is not noted ends earlier after a restart, nothing worse.
    pub fn note_uses(&self) -> Result<(), StoreError> {
        // One that another node has ended meanwhile does not come back.
        let round = || -> Result<bool, StoreError> {
            self.table.note(
                |fresh| self.take_over(fresh),
                |batch| {
                    let used = self.used();
                    used.iter().try_for_each(|record| self.put_in(batch, record))?;
                    Ok(used.len() == NOTED_AT_ONCE)
                },
            )
        };
        while round()? {}
        Ok(())
    }

    /// Returns sessions whose last use the store does not have, some of them where there are many.
    fn used(&self) -> Vec<SessionRecord> {
        let known = self.known.read();
        let is_used = |live: &&Live| live.record.seen_at > live.stored_seen_at && !live.record.is_erased();
        let used = known.by_hash.values().filter(is_used).take(NOTED_AT_ONCE);
        used.map(|live| live.record.clone()).collect()
    }

    /// Returns the sessions that have ended where another one of a holder begins, and the one that ends for it.
    pub(super) fn gone_for(
        &self,
        holder: &Holder,
        now: Timestamp,
    ) -> Result<(HashSet<String>, Option<String>), SessionError> {
        // Of those that are idle there is no time to ask all nodes here.
        let asked = self.asking.get().map(|_| HashSet::new());
        let come = self.sure.as_ref().map_or(now, |sure| sure.now().min(now));
        let mut gone = self.unkept(asked.as_ref(), come);
        if self.known.read().by_hash.len() - gone.len() >= self.config.sessions_max {
            gone = self.unkept(asked.as_ref(), now);
        }
        let known = self.known.read();
        let ended = known.ended(&self.config, now);
        let idlest = known.oldest_past_limit(&holder.id()).filter(|id| !ended.contains(id));
        if known.by_hash.len() - ended.len() - usize::from(idlest.is_some()) >= self.config.sessions_max {
            return Err(SessionError::TooMany);
        }
        Ok((gone, idlest))
    }

    /// Forgets the sessions that have ended, those that are idle where all nodes say so. Blocks.
    ///
    /// # Errors
    /// The store failed; what is left ends all the same.
    pub fn forget_ended(&self, now: Timestamp, patience: &Patience) -> Result<(), StoreError> {
        let idle = self.idle_at_all(now, patience);
        self.deciding(|batch| {
            let ended = self.unkept(idle.as_ref(), now);
            ended.iter().for_each(|id| self.table.table().delete_in(batch, id));
            Ok(())
        })
    }

    /// Does [`SessionStore::note_uses`] every minute and when `shutdown` resolves, and [`SessionStore::forget_ended`]
    /// from time to time.
    pub async fn run(self: Arc<Self>, clock: Arc<dyn Clock>, shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        let (mut round, mut is_over) = (0_u32, false);
        while !is_over {
            tokio::select! {
                () = &mut shutdown => is_over = true,
                () = tokio::time::sleep(NOTED_EVERY) => {}
            }
            round = round.wrapping_add(1);
            let (sessions, now) = (Arc::clone(&self), clock.now());
            let forgets = round.is_multiple_of(ROUNDS_TO_FORGET);
            let kept = tokio::task::spawn_blocking(move || {
                sessions.note_uses()?;
                if forgets { sessions.forget_ended(now, &Patience::default()) } else { Ok(()) }
            });
            match kept.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::error!(%error, "the uses and ends of sessions could not be stored")
                }
                Err(_) => tracing::error!("storing the uses and ends of sessions panicked"),
            }
        }
    }
}
