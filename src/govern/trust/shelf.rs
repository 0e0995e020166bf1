//! Where agents and what was attested of them lie in the store: under tokens in the place of names, and attestations,
//! which name their agents, sealed. An agent whose key was destroyed is swept out at the next start, and so are
//! attestations whose agent is not kept any more.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;

use super::AGENTS_MAX;
use super::TrustScore;
use super::Verdict;
use super::attestation::Attestation;
use super::book::ATTESTATIONS_MAX;
use super::profile::Profile;
use super::session::Session;
use crate::access::keyring::Keyring;
use crate::access::keyring::Unread;
use crate::access::keyring::sealed::unsealed;
use crate::id::Ulid;
use crate::store::Batch;
use crate::store::Key;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;
use crate::store::prefix_range;

/// How many plain records are sealed at a time.
const SEALED_AT_ONCE: usize = 1000;

/// What is stored of an agent.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Agent {
    pub(super) profile: Profile,
    /// The newest last.
    pub(super) sessions: Vec<Session>,
    pub(super) verdict: Option<Verdict>,
    pub(super) attested_at: Option<Timestamp>,
}

/// An attestation as it is stored.
#[derive(Serialize, Deserialize)]
struct SealedAttestation {
    /// Its JSON, sealed under the key of its agent.
    sealed: String,
}

/// Both tables.
pub(super) struct Shelf {
    agents: Table<String, Agent>,
    attestations: Table<(String, Ulid), SealedAttestation>,
    keyring: Arc<Keyring>,
}

impl Agent {
    /// Returns what is thought of the agent, of whose past all has faded up to a moment.
    pub(super) fn score(&self, agent_id: &str, faded_to: Timestamp) -> TrustScore {
        let (factors, reasons) = self.profile.factors(faded_to);
        let score = factors.score();
        TrustScore {
            agent_id: agent_id.to_owned(),
            session_id: None,
            score,
            verdict: Verdict::of(score),
            factors,
            reasons,
            last_updated: self.profile.last_seen,
        }
    }
}

impl Record for Agent {
    const VERSION: u32 = 1;
}

impl Record for SealedAttestation {
    const VERSION: u32 = 1;
}

impl Shelf {
    /// Opens both tables, and returns the agents.
    pub(super) fn open(
        store: &Store,
        keyring: Arc<Keyring>,
    ) -> Result<(Self, Vec<(String, Agent)>), StoreError> {
        let (agents, attestations) = (store.table("trust.agents"), store.table("trust.attestations"));
        let shelf = Self { agents, attestations, keyring };
        shelf.seal_old(store)?;
        let known = shelf.swept()?;
        Ok((shelf, known))
    }

    /// Adds an agent to a batch, and what is attested of it now; tells whether its name got a key: otherwise it is left
    /// out.
    pub(super) fn put_in(
        &self,
        batch: &mut Batch,
        (id, agent): (&str, &Agent),
        attested: Option<&(Ulid, Attestation)>,
    ) -> Result<bool, StoreError> {
        let Some(token) = self.keyring.listed(id) else { return Ok(false) };
        if let Some((number, attestation)) = attested {
            let sealed = self.sealed(id, attestation)?;
            self.attestations.put_in(batch, &(token.clone(), *number), &sealed)?;
        }
        self.agents.put_in(batch, &token, agent)?;
        Ok(true)
    }

    /// Writes a batch, once the keys it needs would survive a power cut.
    pub(super) fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        self.keyring.flush().map_err(unsealed)?;
        self.agents.store().commit(batch)
    }

    /// Comes back once everything written would survive a power cut.
    pub(super) fn durable(&self) -> Result<(), StoreError> {
        self.agents.store().durable()
    }

    /// Returns attestations of an agent, from an id on.
    pub(super) fn attestations(
        &self,
        agent_id: &str,
        first: Option<Ulid>,
        order: Order,
        limit: usize,
    ) -> Result<Vec<Attestation>, StoreError> {
        let Some(token) = self.token(agent_id) else { return Ok(Vec::new()) };
        let mut range = prefix_range(&token);
        if let Some(first) = first {
            range.start = (token, first).to_bytes();
        }
        let found = self.attestations.list(&range, order, limit)?;
        let open = |stored: SealedAttestation| self.keyring.unwrap_text(&stored.sealed);
        Ok(found.into_iter().filter_map(|(_, stored)| serde_json::from_str(&open(stored)).ok()).collect())
    }

    /// Forgets the oldest attestations of an agent that has too many.
    pub(super) fn prune(&self, agent_id: &str) -> Result<(), StoreError> {
        let Some(token) = self.token(agent_id) else { return Ok(()) };
        let known = self.attestations.list(&prefix_range(&token), Order::Descending, ATTESTATIONS_MAX + 1)?;
        match known.get(ATTESTATIONS_MAX) {
            Some((key, _)) => self.attestations.delete(key),
            None => Ok(()),
        }
    }

    /// Forgets agents that had to make room, and what was attested of them.
    pub(super) fn forget_all(&self, agent_ids: &[String]) -> Result<(), StoreError> {
        for token in agent_ids.iter().filter_map(|id| self.token(id)) {
            let mut batch = Batch::default();
            self.forget_in(&mut batch, &token)?;
            self.agents.store().commit(&batch)?;
        }
        Ok(())
    }

    /// Forgets an agent and what was attested of it; returns how many attestations that were. Blocks for the disk.
    pub(super) fn forget(&self, agent_id: &str) -> Result<usize, StoreError> {
        let Some(token) = self.token(agent_id) else { return Ok(0) };
        let mut batch = Batch::default();
        let attested = self.forget_in(&mut batch, &token)?;
        self.agents.store().commit_durable(&batch)?;
        Ok(attested)
    }

    fn forget_in(&self, batch: &mut Batch, token: &String) -> Result<usize, StoreError> {
        let attested = self.attestations.list(&prefix_range(token), Order::Ascending, usize::MAX)?;
        attested.iter().for_each(|(key, _)| self.attestations.delete_in(batch, key));
        self.agents.delete_in(batch, token);
        Ok(attested.len())
    }

    fn token(&self, agent_id: &str) -> Option<String> {
        self.keyring.known(agent_id).map(|token| token.as_ref().to_owned())
    }

    fn sealed(&self, agent_id: &str, attestation: &Attestation) -> Result<SealedAttestation, StoreError> {
        let unwritable = |source| StoreError::UnwritableRecord { table: self.attestations.name(), source };
        let text = serde_json::to_string(attestation).map_err(unwritable)?;
        Ok(SealedAttestation { sealed: self.keyring.wrap_text(agent_id, &text) })
    }

    /// Returns the agents whose names can be read, and forgets the others.
    fn swept(&self) -> Result<Vec<(String, Agent)>, StoreError> {
        let mut batch = Batch::default();
        let mut known = Vec::new();
        for (token, agent) in self.agents.list(&KeyRange::all(), Order::Ascending, AGENTS_MAX)? {
            match self.keyring.read_name(&token) {
                Ok(Some(name)) => known.push((name, agent)),
                Ok(None) => drop(self.forget_in(&mut batch, &token)?),
                // Nobody can tell: what is kept of it stays.
                Err(Unread) => {}
            }
        }
        self.agents.store().commit(&batch)?;
        self.sweep_attestations()?;
        Ok(known)
    }

    /// Forgets what was attested of agents that are not kept.
    fn sweep_attestations(&self) -> Result<(), StoreError> {
        let mut range = KeyRange::all();
        while let Some(((token, _), _)) = self.attestations.list(&range, Order::Ascending, 1)?.pop() {
            if self.agents.get(&token)?.is_none() {
                let mut batch = Batch::default();
                self.forget_in(&mut batch, &token)?;
                self.agents.store().commit(&batch)?;
            }
            let Some(end) = prefix_range(&token).end else { return Ok(()) };
            range.start = end;
        }
        Ok(())
    }

    /// Moves what lay under plain names to where it lies sealed; what gets no key stays, and is moved at a later start.
    fn seal_old(&self, store: &Store) -> Result<(), StoreError> {
        let agents: Table<String, Agent> = store.table("trust_agents");
        let attestations: Table<(String, Ulid), Attestation> = store.table("trust_attestations");
        loop {
            let mut batch = Batch::default();
            for (id, agent) in agents.list(&KeyRange::all(), Order::Ascending, SEALED_AT_ONCE)? {
                if self.put_in(&mut batch, (&id, &agent), None)? {
                    agents.delete_in(&mut batch, &id);
                }
            }
            for (key, attestation) in attestations.list(&KeyRange::all(), Order::Ascending, SEALED_AT_ONCE)? {
                if let Some(token) = self.keyring.listed(&key.0) {
                    let sealed = self.sealed(&key.0, &attestation)?;
                    self.attestations.put_in(&mut batch, &(token, key.1), &sealed)?;
                    attestations.delete_in(&mut batch, &key);
                }
            }
            if batch.is_empty() {
                return Ok(());
            }
            self.commit(&batch)?;
        }
    }
}
