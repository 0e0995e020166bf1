//! All agents, in the store and in memory: observed, scored, attested.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::AGENTS_MAX;
use super::Act;
use super::LISTED_MAX;
use super::Listed;
use super::NAME_BYTES_MAX;
use super::TrustScore;
use super::Verdict;
use super::attestation::Attestation;
use super::profile::Profile;
use super::session::Session;
use super::shelf::Agent;
use super::shelf::Shelf;
use super::statement::Statement;
use crate::access::keyring::Keyring;
use crate::access::signing::KeyRing;
use crate::clock::Clock;
use crate::id::Ulid;
use crate::id::UlidSource;
use crate::store::Batch;
use crate::store::Order;
use crate::store::Store;
use crate::store::StoreError;

/// The most sessions that are kept of an agent, the one under way included.
pub const SESSIONS_MAX: usize = 8;
/// The most attestations that are kept of an agent.
pub const ATTESTATIONS_MAX: usize = 1000;
/// How often what changed is written, and what is due is attested.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// How trust is kept; a change needs a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustConfig {
    /// After so long a pause a session is over.
    pub session_idle: Duration,
    /// How often an agent is attested while it calls.
    pub attest_every: Duration,
    /// How long an attestation counts.
    pub attestation_life: Duration,
}

/// Why trust could not be told.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// Nobody of that name was ever seen.
    #[error("no call of such an agent was seen")]
    UnknownAgent,
    /// There is no such session.
    #[error("there is no such session")]
    UnknownSession,
    /// There is no such attestation.
    #[error("that agent was not attested yet")]
    NoAttestation,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An agent whose verdict changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Which.
    pub agent_id: String,
    /// What it was; none: it is new.
    pub from: Option<Verdict>,
    /// What it is.
    pub to: Verdict,
    /// The score that made it so.
    pub score: f64,
}

/// All agents.
pub struct Trust {
    shelf: Shelf,
    held: Mutex<BTreeMap<String, Held>>,
    /// Agents that had to make room and still lie in the store; one past [`AGENTS_MAX`] lies there until the next start.
    silent: Mutex<BTreeSet<String>>,
    /// Held while agents are written or forgotten, so that nobody who is forgotten is written behind.
    writing: Mutex<()>,
    ring: Arc<KeyRing>,
    ids: UlidSource,
    /// The key that signed when it was last looked whether attestations rest on withdrawn ones.
    signs: Mutex<String>,
    issuer: String,
    config: TrustConfig,
    /// Says up to when what is known fades; without it whoever asks does.
    sure: Option<Arc<dyn Clock>>,
}

/// An agent that is being written.
struct Changed {
    id: String,
    agent: Agent,
    has_turned: bool,
    /// Whether its name has a key, so that it can be written.
    is_kept: bool,
}

struct Held {
    agent: Agent,
    is_dirty: bool,
    /// Whether the verdict changed since the last attestation.
    has_turned: bool,
}

impl Default for TrustConfig {
    fn default() -> Self {
        let hour = Duration::from_secs(3600);
        Self { session_idle: hour / 2, attest_every: hour, attestation_life: hour * 24 }
    }
}

impl Trust {
    /// Reads what is known of all agents, whose names are sealed under the keys of `keyring`. `issuer` names this node in attestations, which the ring signs.
    ///
    /// # Errors
    /// The store failed.
    pub fn open(
        (store, keyring): (&Store, Arc<Keyring>),
        ring: Arc<KeyRing>,
        issuer: String,
        config: TrustConfig,
    ) -> Result<Self, StoreError> {
        let (shelf, known) = Shelf::open(store, keyring)?;
        let held = |(id, agent)| (id, Held { agent, is_dirty: false, has_turned: false });
        Ok(Self {
            shelf,
            held: Mutex::new(known.into_iter().map(held).collect()),
            silent: Mutex::default(),
            writing: Mutex::new(()),
            ring,
            ids: UlidSource::default(),
            signs: Mutex::default(),
            issuer,
            config,
            sure: None,
        })
    }

    /// Returns the same, in which all fades by a clock that surely does not run ahead: what faded by one that jumped would
    /// not come back.
    pub fn aged_by(self, sure: Arc<dyn Clock>) -> Self {
        Self { sure: Some(sure), ..self }
    }

    /// Returns up to when what is known has faded at a moment.
    fn faded_to(&self, now: Timestamp) -> Timestamp {
        self.sure.as_ref().map_or(now, |sure| sure.now().min(now))
    }

    /// Takes an act of an agent into account; returns what that made of it, where the verdict changed.
    ///
    /// Names that cannot be kept are not observed: the guardrails' map has none.
    pub fn observe(&self, agent_id: &str, act: &Act) -> Option<Turn> {
        if agent_id.is_empty() || agent_id.len() > NAME_BYTES_MAX {
            return None;
        }
        let mut all = self.held.lock();
        if !all.contains_key(agent_id) {
            self.make_room(&mut all);
        }
        let held = all.entry(agent_id.to_owned()).or_insert_with(|| Held::new(act.at));
        let faded_to = self.faded_to(act.at);
        self.enter_session(held, act.at, faded_to);
        let agent = &mut held.agent;
        let odd = agent.profile.observe(act, faded_to);
        if let Some(session) = agent.sessions.last_mut() {
            session.track.observe(act, &odd, faded_to);
            session.last_seen = session.last_seen.max(act.at);
        }
        held.is_dirty = true;
        let score = agent.profile.factors(faded_to).0.score();
        let (from, to) = (agent.verdict, Verdict::of(score));
        if from == Some(to) {
            return None;
        }
        agent.verdict = Some(to);
        held.has_turned = true;
        Some(Turn { agent_id: agent_id.to_owned(), from, to, score })
    }

    /// Returns the verdict on an agent; nothing where it was never seen.
    pub fn verdict(&self, agent_id: &str, now: Timestamp) -> Option<Verdict> {
        let held = self.held.lock();
        let profile = &held.get(agent_id)?.agent.profile;
        Some(Verdict::of(profile.factors(self.faded_to(now)).0.score()))
    }

    /// Returns the score of an agent's life.
    ///
    /// # Errors
    /// It was never seen.
    pub fn score(&self, agent_id: &str, now: Timestamp) -> Result<TrustScore, TrustError> {
        let held = self.held.lock();
        let agent = &held.get(agent_id).ok_or(TrustError::UnknownAgent)?.agent;
        Ok(agent.score(agent_id, self.faded_to(now)))
    }

    /// Returns the score of a session.
    ///
    /// # Errors
    /// There is none of that id.
    pub fn session_score(&self, session_id: &str, now: Timestamp) -> Result<TrustScore, TrustError> {
        let held = self.held.lock();
        let found = held.iter().find_map(|(agent_id, held)| {
            let session = held.agent.sessions.iter().find(|session| session.id == session_id)?;
            Some((agent_id, &held.agent.profile, session))
        });
        let (agent_id, profile, session) = found.ok_or(TrustError::UnknownSession)?;
        Ok(session.score(agent_id, profile, self.faded_to(now)))
    }

    /// Returns the sessions of an agent, or of all, the newest first and [`LISTED_MAX`] at most, or only those of
    /// them that go on, or that do not. Takes a while where there are many agents.
    ///
    /// # Errors
    /// The agent was never seen.
    pub fn sessions(
        &self,
        agent_id: Option<&str>,
        active: Option<bool>,
        now: Timestamp,
    ) -> Result<Vec<Listed>, TrustError> {
        let held = self.held.lock();
        if agent_id.is_some_and(|id| !held.contains_key(id)) {
            return Err(TrustError::UnknownAgent);
        }
        let (idle_s, faded_to) = (self.config.session_idle.as_secs() as i64, self.faded_to(now));
        let wanted = held.iter().filter(|(id, _)| agent_id.is_none_or(|wanted| wanted == id.as_str()));
        let listed = wanted.flat_map(|(id, held)| {
            let profile = &held.agent.profile;
            // Only the newest session of an agent can go on.
            let newest = held.agent.sessions.last().map(|session| session.id.as_str());
            held.agent.sessions.iter().map(move |session| {
                let is_active = newest == Some(session.id.as_str()) && session.is_active(idle_s, now);
                (id, profile, session, is_active)
            })
        });
        let mut listed: Vec<_> =
            listed.filter(|(.., is_active)| active.is_none_or(|wanted| wanted == *is_active)).collect();
        listed.sort_by(|one, other| other.2.id.cmp(&one.2.id));
        let listed = listed.into_iter().take(LISTED_MAX).map(|(id, profile, session, is_active)| Listed {
            session: session.clone(),
            is_active,
            score: session.score(id, profile, faded_to),
        });
        Ok(listed.collect())
    }

    /// Returns attestations that were issued at `since` or later, oldest first.
    ///
    /// # Errors
    /// The agent was never seen, or the store failed.
    pub fn attestations(
        &self,
        agent_id: &str,
        since: Option<Timestamp>,
        limit: usize,
    ) -> Result<Vec<Attestation>, TrustError> {
        self.ensure_known(agent_id)?;
        let first = since.map(first_id);
        let found = self.shelf.attestations(agent_id, first, Order::Ascending, ATTESTATIONS_MAX)?;
        let is_wanted = |one: &Attestation| since.is_none_or(|since| one.issued_at >= since);
        Ok(found.into_iter().filter(is_wanted).take(limit).collect())
    }

    /// Returns the newest attestation of an agent.
    ///
    /// # Errors
    /// See [`TrustError`].
    pub fn latest(&self, agent_id: &str) -> Result<Attestation, TrustError> {
        self.ensure_known(agent_id)?;
        let newest = self.shelf.attestations(agent_id, None, Order::Descending, 1)?;
        newest.into_iter().next().ok_or(TrustError::NoAttestation)
    }

    /// Forgets the agents that another node has erased; `is_erased` is told who, and when that agent was first seen.
    ///
    /// # Errors
    /// The store failed.
    pub fn forget_those(&self, is_erased: impl Fn(&str, Timestamp) -> bool) -> Result<(), StoreError> {
        let held = self.held.lock();
        let gone = held.iter().filter(|(id, held)| is_erased(id, held.agent.profile.first_seen));
        let gone: Vec<String> = gone.map(|(id, _)| id.clone()).collect();
        drop(held);
        gone.iter().try_for_each(|id| self.forget(id).map(drop))
    }

    /// Forgets an agent, its sessions and attestations; returns how many records that were. Blocks for the disk.
    ///
    /// # Errors
    /// The store failed.
    pub fn forget(&self, agent_id: &str) -> Result<u64, StoreError> {
        let _writing = self.writing.lock();
        let mut all = self.held.lock();
        let attested = self.shelf.forget(agent_id)?;
        let sessions = all.remove(agent_id).map_or(0, |held| 1 + held.agent.sessions.len());
        Ok((sessions + attested) as u64)
    }

    /// Writes what changed and attests what is due until `shutdown` resolves, and once more then.
    pub async fn run(self: Arc<Self>, shutdown: impl Future<Output = ()>, clock: Arc<dyn Clock>) {
        tokio::pin!(shutdown);
        loop {
            let is_over = tokio::select! {
                () = &mut shutdown => true,
                () = tokio::time::sleep(WRITE_EVERY) => false,
            };
            let (trust, now) = (Arc::clone(&self), clock.now());
            match tokio::task::spawn_blocking(move || trust.flush(now)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%error, "what is known of agents could not be written"),
                Err(_) => tracing::error!("writing what is known of agents panicked"),
            }
            if is_over {
                return;
            }
        }
    }

    /// Writes what changed and attests what is due: agents whose verdict changed, those that called since their last
    /// attestation, when that is old enough, and those whose last attestation a withdrawn key has signed.
    ///
    /// # Errors
    /// The store failed; it is tried again the next time.
    pub fn flush(&self, now: Timestamp) -> Result<(), StoreError> {
        let _writing = self.writing.lock();
        self.renew(now)?;
        let mut changed = self.take_changed();
        let outcome = self.write(&mut changed, now);
        self.settle(&changed, outcome.is_ok());
        outcome?;
        changed.iter().try_for_each(|one| self.shelf.prune(&one.id))?;
        self.forget_silent()
    }

    /// Makes due whoever has an attestation that would still count, had its key not been withdrawn; looked at whenever
    /// another key signs, on whichever node it was made.
    fn renew(&self, now: Timestamp) -> Result<(), StoreError> {
        let (mut looked_with, active) = (self.signs.lock(), self.ring.active().id);
        if *looked_with == active {
            return Ok(());
        }
        let ids: Vec<String> = self.held.lock().keys().cloned().collect();
        for id in ids {
            let newest = self.shelf.attestations(&id, None, Order::Descending, 1)?.pop();
            let is_void = newest.is_some_and(|it| now < it.expires_at && !self.ring.vouches(&it.key_id, now));
            if let Some(held) = self.held.lock().get_mut(&id).filter(|_| is_void) {
                (held.is_dirty, held.agent.attested_at) = (true, None);
            }
        }
        *looked_with = active;
        Ok(())
    }

    /// Forgets who had to make room, unless they are back.
    fn forget_silent(&self) -> Result<(), StoreError> {
        let silent: Vec<String> = {
            let (held, silent) = (self.held.lock(), std::mem::take(&mut *self.silent.lock()));
            silent.into_iter().filter(|id| !held.contains_key(id)).collect()
        };
        let outcome = self.shelf.forget_all(&silent);
        if outcome.is_err() {
            self.silent.lock().extend(silent);
        }
        outcome
    }

    /// Takes what is to be written; nobody waits for the disk with it.
    fn take_changed(&self) -> Vec<Changed> {
        let mut all = self.held.lock();
        let dirty = all.iter_mut().filter(|(_, held)| held.is_dirty);
        let taken = dirty.map(|(id, held)| {
            held.is_dirty = false;
            let has_turned = std::mem::take(&mut held.has_turned);
            Changed { id: id.clone(), agent: held.agent.clone(), has_turned, is_kept: false }
        });
        taken.collect()
    }

    fn write(&self, changed: &mut [Changed], now: Timestamp) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        for Changed { id, agent, has_turned, is_kept } in changed.iter_mut() {
            let is_due = *has_turned || self.is_due(agent, now);
            let attested = is_due.then(|| self.attest(id, agent, now));
            if is_due {
                agent.attested_at = Some(now);
            }
            *is_kept = self.shelf.put_in(&mut batch, (id, agent), attested.as_ref())?;
        }
        if batch.is_empty() {
            return Ok(());
        }
        // A verdict that turned must not be lost with the power; counts may.
        self.shelf.commit(&batch)?;
        if changed.iter().any(|one| one.has_turned) { self.shelf.durable() } else { Ok(()) }
    }

    /// Notes what was written, or that it was not.
    fn settle(&self, changed: &[Changed], is_written: bool) {
        let mut all = self.held.lock();
        for one in changed {
            match all.get_mut(&one.id) {
                Some(held) if is_written && one.is_kept => held.agent.attested_at = one.agent.attested_at,
                Some(held) => (held.is_dirty, held.has_turned) = (true, held.has_turned || one.has_turned),
                // It had to make room meanwhile, and is forgotten next.
                None => {}
            }
        }
    }

    fn is_due(&self, agent: &Agent, now: Timestamp) -> bool {
        let every = self.config.attest_every.as_secs() as i64;
        // One that lies ahead is of a clock that was.
        agent.attested_at.is_none_or(|at| !(0..every).contains(&(now.as_second() - at.as_second())))
    }

    fn attest(&self, agent_id: &str, agent: &Agent, now: Timestamp) -> (Ulid, Attestation) {
        let statements = Statement::all(&agent.score(agent_id, self.faded_to(now)), &agent.profile);
        let ends =
            now.checked_add(self.config.attestation_life.min(self.ring.overlap())).unwrap_or(Timestamp::MAX);
        let id = self.ids.next(now.as_millisecond());
        let names = (agent_id, self.issuer.as_str());
        (id, Attestation::issue(&self.ring, id, names, &statements, (now, ends)))
    }

    /// Forgets the agent that was silent longest, where there is no room for another one; the store is told later.
    fn make_room(&self, all: &mut BTreeMap<String, Held>) {
        if all.len() < AGENTS_MAX {
            return;
        }
        let longest = all.iter().min_by_key(|(_, held)| held.last_to_go()).map(|(id, _)| id.clone());
        let Some(id) = longest else { return };
        all.remove(&id);
        let mut silent = self.silent.lock();
        if silent.len() < AGENTS_MAX {
            silent.insert(id);
        }
    }

    fn ensure_known(&self, agent_id: &str) -> Result<(), TrustError> {
        let is_known = self.held.lock().contains_key(agent_id);
        is_known.then_some(()).ok_or(TrustError::UnknownAgent)
    }

    /// Begins a session where the last one is over; all has faded up to a moment.
    fn enter_session(&self, held: &mut Held, now: Timestamp, faded_to: Timestamp) {
        let idle_s = self.config.session_idle.as_secs() as i64;
        let agent = &mut held.agent;
        if agent.sessions.last().is_some_and(|session| session.is_active(idle_s, now)) {
            return;
        }
        let id = self.ids.next(now.as_millisecond()).to_string();
        if agent.sessions.len() >= SESSIONS_MAX {
            agent.sessions.remove(0);
        }
        agent.sessions.push(Session::begin(id, agent.profile.factors(faded_to).0, now));
    }
}

impl Held {
    fn new(now: Timestamp) -> Self {
        let agent =
            Agent { profile: Profile::new(now), sessions: Vec::new(), verdict: None, attested_at: None };
        Self { agent, is_dirty: true, has_turned: false }
    }

    /// Orders agents by who is forgotten first. One that is blocked does not call, and would soon be silent longest:
    /// forgotten, it would come back as if it were new.
    fn last_to_go(&self) -> (bool, Timestamp) {
        (self.agent.verdict == Some(Verdict::Blocked), self.agent.profile.last_seen)
    }
}

/// Returns the smallest id that is made at a moment.
fn first_id(moment: Timestamp) -> Ulid {
    Ulid((moment.as_millisecond().max(0) as u128) << 80)
}
