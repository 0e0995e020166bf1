//! Ends and last uses of sessions that all nodes know with the next request.
//!
//! In: lookups and ends at this node. Out: questions, for whoever shares them; while nobody can answer, the deployment's
//! configuration says whether the node goes by what it knows. What leaves is a keyed hash of a session's id, and moments:
//! neither what the browser holds, nor anything made of it, nor a name.

use std::collections::HashSet;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::sync::oneshot;

use super::NOTED_EVERY;
use super::SessionConfig;
use super::SessionRecord;
use super::SessionSecret;
use super::SessionStore;
use crate::access::patience::Patience;

/// How many questions wait at the most; more are answered as if nobody could.
pub const QUESTIONS_MAX: usize = 4096;
/// How much longer than its idle time a session is kept whose last use another node may not have written yet.
const UNWRITTEN_FOR: Duration = Duration::from_secs(2 * NOTED_EVERY.as_secs());
/// How many ends wait at the most until they can be told; the oldest are forgotten before, and heard from the store.
const UNSAID_MAX: usize = 65_536;
/// Of how many sessions the last use is asked for at once.
const ASKED_AT_ONCE: usize = 256;
const PURPOSE: &str = "shared-session";

/// What stands for a session.
pub type Name = [u8; 32];

/// What is asked of a session, or told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Its last use, as far as it is known here.
    LastUse(Timestamp),
    /// The same; and it is used now, unless it was idle for too long at all nodes.
    Use {
        /// The last use that is known here.
        seen: Timestamp,
        /// The moment.
        now: Timestamp,
        /// How long it may be idle.
        idle: Duration,
    },
    /// It has ended.
    End,
}

/// Asks about one session.
#[derive(Debug)]
pub struct Question {
    /// What stands for it.
    pub name: Name,
    /// What is asked.
    pub asked: Asked,
    /// How long the answer to others is kept: what is left of the session's life, at the least.
    pub kept_for: Duration,
    /// Takes the answer.
    pub answer: oneshot::Sender<Told>,
}

/// What all nodes know of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It has ended.
    Ended,
    /// It has not, and was last used then.
    Seen(Timestamp),
    /// Nobody can tell, and the node goes by what it knows itself.
    Unknown,
    /// Nobody can tell, and what cannot be told does not count.
    Refused,
}

/// Ends that the other nodes are still to be told of: what stands for their sessions, oldest first.
#[derive(Debug, Default)]
pub struct Unsaid {
    names: Mutex<VecDeque<Name>>,
}

/// What comes out where sessions are shared.
pub struct Shared {
    /// What is asked.
    pub questions: mpsc::Receiver<Question>,
    /// What could not be told yet.
    pub unsaid: Arc<Unsaid>,
    /// How long a session may live, and how long it is kept that one has ended.
    pub lifetime: Duration,
}

/// Whether a session has ended nobody can tell at the moment, and what cannot be told does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("whether this session goes on cannot be told at the moment")]
pub struct Untold;

/// Asks.
pub(super) struct Asking {
    questions: mpsc::Sender<Question>,
    alone: Told,
    /// How long a request waits, all in all.
    in_all: Duration,
    unsaid: Arc<Unsaid>,
}

impl Unsaid {
    /// Keeps ends that could not be told.
    pub fn keep(&self, names: impl IntoIterator<Item = Name>) {
        let mut kept = self.names.lock();
        kept.extend(names);
        let past_limit = kept.len().saturating_sub(UNSAID_MAX);
        kept.drain(..past_limit);
    }

    /// Returns up to `limit` of them, as told now.
    pub fn take(&self, limit: usize) -> Vec<Name> {
        let mut kept = self.names.lock();
        let count = kept.len().min(limit);
        kept.drain(..count).collect()
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.lock().is_empty()
    }
}

impl Asking {
    fn put(&self, name: Name, asked: Asked, kept_for: Duration) -> Option<oneshot::Receiver<Told>> {
        let (answer, answered) = oneshot::channel();
        self.questions.try_send(Question { name, asked, kept_for, answer }).ok().map(|()| answered)
    }

    async fn ask(&self, (name, asked): (Name, Asked), kept_for: Duration, patience: &Patience) -> Told {
        match self.put(name, asked, kept_for) {
            Some(answered) => {
                patience.wait(self.in_all, answered).await.and_then(Result::ok).unwrap_or(self.alone)
            }
            None => self.alone,
        }
    }
}

impl SessionStore {
    /// Lets ends and last uses be shared from now on, and returns where the questions come out; a request that has
    /// waited for so long, all in all, is answered with `alone`.
    pub fn share(&self, alone: Told, in_all: Duration) -> Shared {
        let (asked, questions) = mpsc::channel(QUESTIONS_MAX);
        let unsaid = Arc::<Unsaid>::default();
        let asking = Asking { questions: asked, alone, in_all, unsaid: Arc::clone(&unsaid) };
        let is_first = self.asking.set(asking).is_ok();
        debug_assert!(is_first, "sessions are shared once");
        Shared { questions, unsaid, lifetime: self.config.lifetime }
    }

    /// Returns what [`SessionStore::resume`] does, by what all nodes know.
    ///
    /// # Errors
    /// Nobody can tell, of one that goes on as far as it is known here.
    pub async fn resume_with_all(
        &self,
        value: &str,
        now: Timestamp,
        patience: &Patience,
    ) -> Result<Option<(SessionRecord, SessionSecret)>, Untold> {
        let Some(asking) = self.asking.get() else { return Ok(self.resume(value, now)) };
        let Some((found, left)) = self.living(value, now) else { return Ok(None) };
        let asked = Asked::Use { seen: found.seen_at, now, idle: self.config.idle };
        let told = asking.ask((self.name_of(&found.id), asked), left, patience).await;
        Ok(if self.take_told(&found.id, told)? { self.resume(value, now) } else { None })
    }

    /// Returns a session that is not too old, and how long it has; it may have been idle for too long.
    fn living(&self, value: &str, now: Timestamp) -> Option<(SessionRecord, Duration)> {
        let hash = self.hash_of(value)?;
        let found = self.known.read().by_hash.get(&hash).map(|live| live.record.clone())?;
        let left = Duration::try_from(found.expires_at.duration_since(now)).ok()?;
        Some((found, left))
    }

    /// Tells whether a session goes on by what all nodes know, without noting that it was used; true for one that is not
    /// known here.
    ///
    /// # Errors
    /// Nobody can tell.
    pub async fn goes_on(&self, id: &str, patience: &Patience) -> Result<bool, Untold> {
        let Some(asking) = self.asking.get() else { return Ok(true) };
        let seen = self.known.read().of_id(id).map(|live| live.record.seen_at);
        let Some(seen) = seen else { return Ok(true) };
        let asked = (self.name_of(id), Asked::LastUse(seen));
        let told = asking.ask(asked, self.config.lifetime, patience).await;
        self.take_told(id, told)
    }

    /// Takes over what was told of a session; tells whether it goes on.
    fn take_told(&self, id: &str, told: Told) -> Result<bool, Untold> {
        match told {
            Told::Ended => Ok(false),
            Told::Refused => Err(Untold),
            Told::Unknown => Ok(true),
            Told::Seen(at) => {
                self.known.write().note_use(id, at);
                Ok(true)
            }
        }
    }

    /// Tells all nodes that sessions have ended, which the store knows by now, and waits until they know, as far as the
    /// request has patience. Those that cannot be told hear it from the store, and as soon as they can be told. Blocks.
    pub(super) fn tell_ends<'a>(&self, ids: impl IntoIterator<Item = &'a String>, patience: &Patience) {
        let Some(asking) = self.asking.get() else { return };
        let tell = |id: &String| {
            let name = self.name_of(id);
            let told = asking.put(name, Asked::End, self.config.lifetime);
            if told.is_none() {
                asking.unsaid.keep([name]);
            }
            told
        };
        let told: Vec<_> = ids.into_iter().map(tell).collect();
        let answers = told.into_iter().map(|told| patience.block(asking.in_all, told?)?.ok());
        let untold = answers.filter(|answer| *answer != Some(Told::Ended)).count();
        if untold > 0 {
            tracing::warn!(
                untold,
                "other nodes hear from the store that sessions have ended, and are told later"
            );
        }
    }

    /// Returns how long sessions are kept: what other nodes know of their last use may not be written yet.
    pub(super) fn kept_for(&self) -> SessionConfig {
        let more = if self.table.table().store().is_shared() { UNWRITTEN_FOR } else { Duration::ZERO };
        SessionConfig { idle: self.config.idle.saturating_add(more), ..self.config }
    }

    /// Returns the sessions that are not to be kept, where `idle` are those that all nodes say are idle: a node may be cut
    /// off from the store, and sessions be used there. Without it, what is known here counts.
    pub(super) fn unkept(&self, idle: Option<&HashSet<String>>, now: Timestamp) -> HashSet<String> {
        let known = self.known.read();
        let mut ended = known.ended(&self.kept_for(), now);
        if let Some(idle) = idle {
            let old = known.ended(&SessionConfig { idle: Duration::MAX, ..self.config }, now);
            ended.retain(|id| idle.contains(id) || old.contains(id));
        }
        ended
    }

    /// Asks all nodes about the sessions that are idle here, and returns those of which they say so as well, or that they
    /// have ended; `None`: nodes share nothing but the store. Those that nobody could tell of in time are idle nowhere.
    /// Blocks.
    pub(super) fn idle_at_all(&self, now: Timestamp, patience: &Patience) -> Option<HashSet<String>> {
        let asking = self.asking.get()?;
        let seen: Vec<(String, Timestamp)> = {
            let known = self.known.read();
            let ended = known.ended(&self.kept_for(), now).into_iter();
            ended.filter_map(|id| known.of_id(&id).map(|live| (id.clone(), live.record.seen_at))).collect()
        };
        let mut told = HashSet::new();
        for some in seen.chunks(ASKED_AT_ONCE) {
            let ask = |(id, seen): &(String, Timestamp)| {
                asking.put(self.name_of(id), Asked::LastUse(*seen), self.config.lifetime)
            };
            let asked: Vec<_> = some.iter().map(ask).collect();
            for ((id, _), answered) in some.iter().zip(asked) {
                let answer = answered.and_then(|answered| patience.block(asking.in_all, answered)?.ok());
                if let Some(answer @ (Told::Seen(_) | Told::Ended)) = answer
                    && self.take_told(id, answer).is_ok()
                {
                    told.insert(id.clone());
                }
            }
        }
        Some(told)
    }

    fn name_of(&self, id: &str) -> Name {
        self.secret.hash(PURPOSE, id.as_bytes())
    }
}

impl Asked {
    /// Returns the last use that is known here, the moment of another one, and how long a session may be idle, in
    /// milliseconds; `None` for an end.
    pub fn millis(self) -> Option<(i64, Option<(i64, i64)>)> {
        match self {
            Self::End => None,
            Self::LastUse(seen) => Some((seen.as_millisecond(), None)),
            Self::Use { seen, now, idle } => {
                let idle = SignedDuration::try_from(idle).unwrap_or(SignedDuration::MAX);
                let idle = i64::try_from(idle.as_millis()).unwrap_or(i64::MAX);
                Some((seen.as_millisecond(), Some((now.as_millisecond(), idle))))
            }
        }
    }
}
