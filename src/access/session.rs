//! Sessions: what a browser holds once somebody has signed in.
//!
//! A session is known by 256 random bits that only the browser has; kept is their keyed hash. It ends when its
//! holder signs out, when an administrator revokes it, when it was idle for too long, or when it is too old,
//! whatever happened since. One that stands for an API key, or for a local user, is worth what that is worth at
//! the moment: whoever looks it up asks for the holder too. What an identity provider told is kept in the
//! session and nowhere else. The provider's token for signing out there is in memory only.

mod stored;

use std::collections::HashMap;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::SignedDuration;
use jiff::Timestamp;
use parking_lot::RwLock;
use serde::Deserialize;
use serde::Serialize;
use subtle::ConstantTimeEq;

use super::key::KeyText;
use super::keyring::ERASED;
use super::keyring::Keyring;
use super::keyring::sealed::Sealed;
use super::keyring::sealed::seal_old;
use super::role::Role;
use super::secret::NodeSecret;
use crate::clock::Clock;
use crate::store::Batch;
use crate::store::Followed;
use crate::store::Fresh;
use crate::store::Store;
use crate::store::StoreError;

const PURPOSE: &str = "session";
/// What goes before the name of those for whom an identity provider vouches, in records.
pub const SSO_PREFIX: &str = "sso:";
const FORM_PURPOSE: &str = "session-form";
const SECRET_BYTES: usize = 32;
const SECRET_CHARS: usize = 43;
/// The most sessions that one holder has; beginning another ends the one that was idle longest.
pub const SESSIONS_PER_HOLDER_MAX: usize = 32;
/// The most sessions that a configuration may allow.
pub const SESSIONS_MAX: usize = 1_000_000;
/// How much older than the truth the moment of last use in the store may be.
const SEEN_KEPT_EVERY: Duration = Duration::from_secs(60);
/// How often sessions that have ended are forgotten.
const FORGOTTEN_EVERY: Duration = Duration::from_secs(600);
/// The longest token for signing out at the provider that is held, in bytes.
const LOGOUT_HINT_BYTES_MAX: usize = 4096;

/// How long sessions live, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// Without a request.
    pub idle: Duration,
    /// In all.
    pub lifetime: Duration,
    /// The most at once.
    pub sessions_max: usize,
}

/// Whom a session stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Holder {
    /// Whoever presented an API key.
    Key {
        /// The key's id.
        id: String,
        /// The text that was presented; the session ends when that no longer counts.
        #[serde(default)]
        text: KeyText,
    },
    /// A local user who gave a password.
    User {
        /// The user's id.
        id: String,
        /// The state of the user that the session was begun in; any change of it ends the session.
        generation: u64,
    },
    /// Somebody an identity provider vouches for; known for as long as the session.
    Sso(Identity),
}

/// What an identity provider tells of somebody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The provider.
    pub issuer: String,
    /// The name it has for them, which never changes.
    pub subject: String,
    /// A name for people.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// The session at the provider, where it names one (`sid`, `SessionIndex`): it may end that by itself.
    #[serde(default)]
    pub session: Option<String>,
    /// When the session here ends at the latest, where the provider says so.
    #[serde(default)]
    pub until: Option<Timestamp>,
    /// What the role follows from: the digest of the mapping by which it was found, see
    /// [`Mapping::digest`](super::sso::Mapping::digest). Empty: it is not known, and the session counts no more.
    #[serde(default)]
    pub mapped_by: String,
}

/// What is kept of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Its id, which may be shown.
    pub id: String,
    /// Whom it stands for.
    pub holder: Holder,
    /// When it began.
    pub created_at: Timestamp,
    /// When it was last used.
    pub seen_at: Timestamp,
    /// When it ends, whatever happens.
    pub expires_at: Timestamp,
    /// The keyed hash of what the browser holds.
    hash: [u8; 32],
}

/// What a browser holds: 256 random bits in base 64.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionSecret(String);

/// Why a session was not begun or ended.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// There are as many as may be.
    #[error("there are too many sessions")]
    TooMany,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Every session, in the store and in memory.
pub struct SessionStore {
    table: Followed<String, Sealed<SessionRecord>>,
    keyring: Arc<Keyring>,
    secret: NodeSecret,
    config: SessionConfig,
    live: RwLock<HashMap<[u8; 32], Live>>,
}

/// A session, and what is known of it in memory alone.
struct Live {
    record: SessionRecord,
    /// The moment of last use that the store has.
    stored_seen_at: Timestamp,
    logout_hint: Option<String>,
}

impl SessionSecret {
    /// Returns what is put into the cookie.
    pub fn expose(&self) -> &str {
        &self.0
    }

    fn generate() -> Self {
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        Self(URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl fmt::Debug for SessionSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionSecret(***)")
    }
}

impl Holder {
    /// Returns the name used in records.
    pub fn id(&self) -> String {
        match self {
            Self::Key { id, .. } | Self::User { id, .. } => id.clone(),
            Self::Sso(identity) => format!("{SSO_PREFIX}{}", identity.subject),
        }
    }
}

impl SessionRecord {
    /// Tells whether nobody knows any more whose it is.
    fn is_erased(&self) -> bool {
        matches!(&self.holder, Holder::Sso(identity) if identity.subject == ERASED)
    }

    fn has_ended(&self, config: &SessionConfig, now: Timestamp) -> bool {
        let idle = SignedDuration::try_from(config.idle).unwrap_or(SignedDuration::MAX);
        self.expires_at <= now || now.duration_since(self.seen_at) >= idle || self.is_erased()
    }
}

impl SessionStore {
    /// Reads the sessions of a store; what identity providers told is sealed under the keys of a ring.
    ///
    /// # Errors
    /// The store failed.
    pub fn open(
        store: &Store,
        secret: NodeSecret,
        keyring: Arc<Keyring>,
        config: SessionConfig,
    ) -> Result<Self, StoreError> {
        let table = Followed::new(store.table("sessions"));
        let sessions = Self { table, keyring, secret, config, live: RwLock::default() };
        sessions.table.change(
            |fresh| sessions.take_over(fresh),
            |batch| seal_old(&sessions.table, &sessions.keyring, batch),
        )?;
        Ok(sessions)
    }

    /// Returns how long sessions live, and how many there may be.
    pub fn config(&self) -> SessionConfig {
        self.config
    }

    /// Takes over what became of sessions on other nodes. Blocks.
    ///
    /// # Errors
    /// The store failed.
    pub fn follow(&self) -> Result<(), StoreError> {
        self.table.catch_up(|fresh| self.take_over(fresh))
    }

    fn take_over(&self, fresh: Vec<Fresh<String, Sealed<SessionRecord>>>) {
        let mut live = self.live.write();
        // What is read anew is still known: uses and hints are kept here alone.
        let mut known = HashMap::new();
        for one in fresh {
            match one {
                Fresh::Anew => known = std::mem::take(&mut *live),
                Fresh::Gone { key } => live.retain(|_, known| known.record.id != key),
                Fresh::Put { record, .. } => {
                    let mut record = record.open(&self.keyring);
                    let known = live.remove(&record.hash).or_else(|| known.remove(&record.hash));
                    let stored_seen_at = record.seen_at;
                    let logout_hint = known.and_then(|known| {
                        record.seen_at = record.seen_at.max(known.record.seen_at);
                        known.logout_hint
                    });
                    live.insert(record.hash, Live { stored_seen_at, record, logout_hint });
                }
            }
        }
    }

    /// Changes sessions by what all nodes know of them.
    fn deciding<T, E: From<StoreError>>(
        &self,
        decide: impl FnMut(&mut Batch) -> Result<T, E>,
    ) -> Result<T, E> {
        self.table.change(|fresh| self.take_over(fresh), decide)
    }

    fn put_in(&self, batch: &mut Batch, record: &SessionRecord) -> Result<(), StoreError> {
        self.table.table().put_in(batch, &record.id, &Sealed::seal(record, &self.keyring)?)
    }

    /// Begins a session under an id, and returns what the browser shall hold. `logout_hint` is what the identity
    /// provider wants to see when its user signs out there.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn begin(
        &self,
        id: String,
        holder: Holder,
        logout_hint: Option<String>,
        now: Timestamp,
    ) -> Result<(SessionRecord, SessionSecret), SessionError> {
        let secret = SessionSecret::generate();
        let hash = self.secret.hash(PURPOSE, secret.0.as_bytes());
        let told = match &holder {
            Holder::Sso(identity) => identity.until,
            Holder::Key { .. } | Holder::User { .. } => None,
        };
        let expires_at = now.checked_add(self.config.lifetime).unwrap_or(Timestamp::MAX);
        let expires_at = told.map_or(expires_at, |told| told.min(expires_at));
        let record = SessionRecord { id, holder, created_at: now, seen_at: now, expires_at, hash };
        self.deciding(|batch| {
            let live = self.live.read();
            let ended = self.ended(&live, now);
            let displaced = oldest_past_limit(&live, &record.holder);
            let gone: HashSet<String> = ended.into_iter().chain(displaced).collect();
            if live.len() - gone.len() >= self.config.sessions_max {
                return Err(SessionError::TooMany);
            }
            gone.iter().for_each(|id| self.table.table().delete_in(batch, id));
            Ok(self.put_in(batch, &record)?)
        })?;
        if let Some(live) = self.live.write().get_mut(&hash) {
            live.logout_hint = logout_hint.filter(|hint| hint.len() <= LOGOUT_HINT_BYTES_MAX);
        }
        Ok((record, secret))
    }

    /// Returns the session that a cookie's value belongs to, and notes that it was used; `None` for what is no
    /// session, or is one no longer.
    pub fn resume(&self, value: &str, now: Timestamp) -> Option<(SessionRecord, SessionSecret)> {
        let hash = self.hash_of(value)?;
        let found = self.live.read().get(&hash).map(|live| live.record.clone())?;
        let same = bool::from(found.hash.ct_eq(&hash));
        if !same || found.has_ended(&self.config, now) {
            return None;
        }
        if now.as_second() > found.seen_at.as_second() {
            self.note_use(&hash, now);
        }
        Some((found, SessionSecret(value.to_owned())))
    }

    /// Returns the session of an id where it has not ended, without noting that it was used.
    pub fn of_id(&self, id: &str, now: Timestamp) -> Option<SessionRecord> {
        let live = self.live.read();
        let found = live.values().find(|live| live.record.id == id)?;
        (!found.record.has_ended(&self.config, now)).then(|| found.record.clone())
    }

    /// Ends the session of a cookie's value; returns it, and the hint for its identity provider.
    ///
    /// # Errors
    /// The store failed; the session goes on.
    pub fn end(&self, value: &str) -> Result<Option<(SessionRecord, Option<String>)>, StoreError> {
        let Some(hash) = self.hash_of(value) else { return Ok(None) };
        self.remove(&hash)
    }

    /// Ends the session of an id; tells whether there was one.
    ///
    /// # Errors
    /// The store failed; the session goes on.
    pub fn revoke(&self, id: &str) -> Result<bool, StoreError> {
        let found = self.live.read().values().find(|live| live.record.id == id).map(|live| live.record.hash);
        let Some(hash) = found else { return Ok(false) };
        Ok(self.remove(&hash)?.is_some())
    }

    /// Ends the sessions that an identity provider ends: those of a subject there, of sessions there, or of both;
    /// returns them. A provider that names neither ends none.
    ///
    /// # Errors
    /// The store failed; some go on.
    pub fn end_at_provider(
        &self,
        issuer: &str,
        subject: Option<&str>,
        sessions: &[String],
    ) -> Result<Vec<SessionRecord>, StoreError> {
        let is_meant = |record: &SessionRecord| match &record.holder {
            Holder::Key { .. } | Holder::User { .. } => false,
            Holder::Sso(identity) => {
                let session = identity.session.as_ref();
                identity.issuer == issuer
                    && (subject.is_some() || !sessions.is_empty())
                    && subject.is_none_or(|subject| subject == identity.subject)
                    && (sessions.is_empty() || session.is_some_and(|session| sessions.contains(session)))
            }
        };
        let meant: Vec<[u8; 32]> = {
            let live = self.live.read();
            live.values().filter(|live| is_meant(&live.record)).map(|live| live.record.hash).collect()
        };
        let mut ended = Vec::new();
        for hash in meant {
            ended.extend(self.remove(&hash)?.map(|(record, _)| record));
        }
        Ok(ended)
    }

    /// Returns the sessions that have not ended, oldest first.
    pub fn list(&self, now: Timestamp) -> Vec<SessionRecord> {
        let live = self.live.read();
        let records = live.values().map(|live| &live.record);
        let mut found: Vec<SessionRecord> =
            records.filter(|record| !record.has_ended(&self.config, now)).cloned().collect();
        found.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        found
    }

    /// Forgets the sessions that have ended.
    ///
    /// # Errors
    /// The store failed; what is left ends all the same.
    pub fn forget_ended(&self, now: Timestamp) -> Result<(), StoreError> {
        self.deciding(|batch| {
            let ended = self.ended(&self.live.read(), now);
            ended.iter().for_each(|id| self.table.table().delete_in(batch, id));
            Ok(())
        })
    }

    /// Does [`SessionStore::forget_ended`] from time to time until `shutdown` resolves.
    pub async fn run(self: Arc<Self>, clock: Arc<dyn Clock>, shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => return,
                () = tokio::time::sleep(FORGOTTEN_EVERY) => {}
            }
            let (sessions, now) = (Arc::clone(&self), clock.now());
            match tokio::task::spawn_blocking(move || sessions.forget_ended(now)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%error, "ended sessions could not be forgotten"),
                Err(_) => tracing::error!("forgetting ended sessions panicked"),
            }
        }
    }

    /// Returns what a form of ours carries, so that a form of somebody else's is known.
    pub fn form_token(&self, secret: &SessionSecret) -> String {
        URL_SAFE_NO_PAD.encode(self.secret.hash(FORM_PURPOSE, secret.0.as_bytes()))
    }

    /// Tells whether a form carries this session's token.
    pub fn is_form_token(&self, secret: &SessionSecret, given: &str) -> bool {
        self.form_token(secret).as_bytes().ct_eq(given.as_bytes()).into()
    }

    fn hash_of(&self, value: &str) -> Option<[u8; 32]> {
        (value.len() == SECRET_CHARS).then(|| self.secret.hash(PURPOSE, value.as_bytes()))
    }

    /// Notes the use in memory, and now and then in the store, so that an idle time outlives a restart, and is
    /// known to other nodes.
    fn note_use(&self, hash: &[u8; 32], now: Timestamp) {
        let mut live = self.live.write();
        let Some(found) = live.get_mut(hash) else { return };
        found.record.seen_at = found.record.seen_at.max(now);
        let age = now.duration_since(found.stored_seen_at);
        if age < SignedDuration::try_from(SEEN_KEPT_EVERY).unwrap_or(SignedDuration::ZERO) {
            return;
        }
        found.stored_seen_at = now;
        drop(live);
        // One that another node has ended meanwhile does not come back.
        let noted: Result<(), StoreError> = self.table.note(
            |fresh| self.take_over(fresh),
            |batch| {
                let live = self.live.read();
                let Some(found) = live.get(hash) else { return Ok(()) };
                self.put_in(batch, &found.record)
            },
        );
        // A session whose use could not be noted ends earlier after a restart, nothing worse.
        if let Err(error) = noted {
            tracing::warn!(%error, "the use of a session could not be stored");
        }
    }

    fn remove(&self, hash: &[u8; 32]) -> Result<Option<(SessionRecord, Option<String>)>, StoreError> {
        self.deciding(|batch| {
            let live = self.live.read();
            let Some(found) = live.get(hash) else { return Ok(None) };
            self.table.table().delete_in(batch, &found.record.id);
            Ok(Some((found.record.clone(), found.logout_hint.clone())))
        })
    }

    /// Returns the ids of the sessions that have ended.
    fn ended(&self, live: &HashMap<[u8; 32], Live>, now: Timestamp) -> Vec<String> {
        let ended = live.values().filter(|live| live.record.has_ended(&self.config, now));
        ended.map(|live| live.record.id.clone()).collect()
    }
}

/// Returns the session of a holder who has as many as may be, the one that was idle longest.
fn oldest_past_limit(live: &HashMap<[u8; 32], Live>, holder: &Holder) -> Option<String> {
    let own = |live: &&Live| live.record.holder.id() == holder.id();
    if live.values().filter(own).count() < SESSIONS_PER_HOLDER_MAX {
        return None;
    }
    live.values().filter(own).min_by_key(|live| live.record.seen_at).map(|live| live.record.id.clone())
}

#[cfg(test)]
mod tests;
