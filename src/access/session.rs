//! Sessions: what a browser holds once somebody has signed in.
//!
//! A session is known by 256 random bits that only the browser has; kept is their keyed hash. It ends when its
//! holder signs out, when an administrator revokes it, when it was idle for too long, or when it is too old,
//! whatever happened since. One that stands for an API key, or for a local user, is worth what that is worth at
//! the moment: whoever looks it up asks for the holder too. What an identity provider told is kept in the
//! session and nowhere else. The provider's token for signing out there is in memory only.
//!
//! Where nodes share a store each takes over what the others wrote a moment ago, and last uses of the last minute are
//! known to one node alone. Where they share more ([`shared`]) a session that was ended at one node counts at none with
//! the next request, and one is idle that was used at none.

mod known;
pub mod shared;
mod stored;
mod uses;

use std::fmt;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::SignedDuration;
use jiff::Timestamp;
use parking_lot::RwLock;
use serde::Deserialize;
use serde::Serialize;
use subtle::ConstantTimeEq;

use self::known::Known;
use self::shared::Asking;
use super::key::KeyText;
use super::keyring::ERASED;
use super::keyring::Keyring;
use super::keyring::sealed::Opener;
use super::keyring::sealed::Sealed;
use super::keyring::sealed::seal_old;
use super::patience::Patience;
use super::role::Role;
use super::secret::NodeSecret;
use super::token::ISSUED_AHEAD_MAX;
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
/// How often last uses are written down: how much older than the truth those in the store may be.
const NOTED_EVERY: Duration = Duration::from_secs(60);
/// How many last uses are written at once.
const NOTED_AT_ONCE: usize = 1000;
/// How often sessions that have ended are forgotten, in rounds of writing down.
const ROUNDS_TO_FORGET: u32 = 10;
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
    opener: Opener<SessionRecord>,
    secret: NodeSecret,
    config: SessionConfig,
    known: RwLock<Known>,
    /// Says which have surely ended; without it whoever asks does.
    sure: Option<Arc<dyn Clock>>,
    /// Asks all nodes, where they share ends and last uses.
    asking: OnceLock<Asking>,
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

    /// Tells whether it counts: one that a clock began which was ahead, and was set right since, would do so for long.
    fn counts(&self, config: &SessionConfig, now: Timestamp) -> bool {
        let begun_at_the_latest = now.checked_add(ISSUED_AHEAD_MAX).unwrap_or(Timestamp::MAX);
        self.created_at <= begun_at_the_latest && !self.has_ended(config, now)
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
        let opener = Opener::new(Arc::clone(&keyring));
        let known = RwLock::default();
        let asking = OnceLock::new();
        let sessions = Self { table, keyring, opener, secret, config, known, sure: None, asking };
        sessions.table.change(
            |fresh| sessions.take_over(fresh),
            |batch| seal_old(&sessions.table, &sessions.keyring, batch),
        )?;
        Ok(sessions)
    }

    /// Returns the same, which forgets what has ended by a clock that surely does not run ahead, where there is room: what
    /// one forgot that jumped would be over when that is set right.
    pub fn aged_by(self, sure: Arc<dyn Clock>) -> Self {
        Self { sure: Some(sure), ..self }
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
        self.table.catch_up(|fresh| self.take_over(fresh))?;
        self.table.between(|| self.hold(self.opener.again()));
        Ok(())
    }

    fn take_over(&self, fresh: Vec<Fresh<String, Sealed<SessionRecord>>>) {
        // Before anything is locked: a name's key may have to be asked for.
        self.hold(self.opener.opened(fresh));
    }

    fn hold(&self, fresh: Vec<Fresh<String, SessionRecord>>) {
        let (mut known, mut before) = (self.known.write(), Known::default());
        for one in fresh {
            match one {
                Fresh::Anew => before = std::mem::take(&mut *known),
                Fresh::Gone { key } => drop(known.remove(&key)),
                Fresh::Put { record, .. } => known.put(record, &mut before),
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
        patience: &Patience,
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
        let mut past_limit = None;
        self.deciding(|batch| {
            let (gone, idlest) = self.gone_for(&record.holder, now)?;
            gone.iter().chain(&idlest).for_each(|id| self.table.table().delete_in(batch, id));
            past_limit = idlest;
            Ok::<(), SessionError>(self.put_in(batch, &record)?)
        })?;
        self.tell_ends(&past_limit, patience);
        if let Some(live) = self.known.write().by_hash.get_mut(&hash) {
            live.logout_hint = logout_hint.filter(|hint| hint.len() <= LOGOUT_HINT_BYTES_MAX);
        }
        Ok((record, secret))
    }

    /// Returns the session that a cookie's value belongs to, and notes in memory that it was used; `None` for what is
    /// no session, or is one no longer.
    pub fn resume(&self, value: &str, now: Timestamp) -> Option<(SessionRecord, SessionSecret)> {
        let hash = self.hash_of(value)?;
        let found = self.known.read().by_hash.get(&hash).map(|live| live.record.clone())?;
        let same = bool::from(found.hash.ct_eq(&hash));
        if !same || !found.counts(&self.config, now) {
            return None;
        }
        if now.as_second() > found.seen_at.as_second()
            && let Some(live) = self.known.write().by_hash.get_mut(&hash)
        {
            live.record.seen_at = live.record.seen_at.max(now);
        }
        Some((found, SessionSecret(value.to_owned())))
    }

    /// Returns the session of an id where it has not ended, without noting that it was used.
    pub fn of_id(&self, id: &str, now: Timestamp) -> Option<SessionRecord> {
        let known = self.known.read();
        let found = known.of_id(id)?;
        found.record.counts(&self.config, now).then(|| found.record.clone())
    }

    /// Ends the session of a cookie's value; returns it, and the hint for its identity provider.
    ///
    /// # Errors
    /// The store failed; the session goes on.
    pub fn end(
        &self,
        value: &str,
        patience: &Patience,
    ) -> Result<Option<(SessionRecord, Option<String>)>, StoreError> {
        let Some(hash) = self.hash_of(value) else { return Ok(None) };
        self.remove(&hash, patience)
    }

    /// Ends the session of an id; tells whether there was one.
    ///
    /// # Errors
    /// The store failed; the session goes on.
    pub fn revoke(&self, id: &str, patience: &Patience) -> Result<bool, StoreError> {
        let found = self.known.read().of_id(id).map(|live| live.record.hash);
        let Some(hash) = found else { return Ok(false) };
        Ok(self.remove(&hash, patience)?.is_some())
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
        patience: &Patience,
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
        self.end_all(is_meant, patience)
    }

    /// Ends the sessions of somebody whom their identity provider gives this role now, or none, that were begun with
    /// another; returns them.
    ///
    /// # Errors
    /// The store failed; some go on.
    pub fn end_of_other_role(
        &self,
        (issuer, subject): (&str, &str),
        role: Option<Role>,
        patience: &Patience,
    ) -> Result<Vec<SessionRecord>, StoreError> {
        let is_meant = |record: &SessionRecord| match &record.holder {
            Holder::Key { .. } | Holder::User { .. } => false,
            Holder::Sso(identity) => {
                identity.issuer == issuer && identity.subject == subject && Some(identity.role) != role
            }
        };
        self.end_all(is_meant, patience)
    }

    fn end_all(
        &self,
        is_meant: impl Fn(&SessionRecord) -> bool,
        patience: &Patience,
    ) -> Result<Vec<SessionRecord>, StoreError> {
        let meant: Vec<[u8; 32]> = {
            let known = self.known.read();
            let records = known.by_hash.values().map(|live| &live.record);
            records.filter(|record| is_meant(record)).map(|record| record.hash).collect()
        };
        let mut ended = Vec::new();
        for hash in meant {
            ended.extend(self.remove(&hash, patience)?.map(|(record, _)| record));
        }
        Ok(ended)
    }

    /// Returns the sessions that have not ended, oldest first.
    pub fn list(&self, now: Timestamp) -> Vec<SessionRecord> {
        let known = self.known.read();
        let records = known.by_hash.values().map(|live| &live.record);
        let mut found: Vec<SessionRecord> =
            records.filter(|record| record.counts(&self.config, now)).cloned().collect();
        found.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        found
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

    fn remove(
        &self,
        hash: &[u8; 32],
        patience: &Patience,
    ) -> Result<Option<(SessionRecord, Option<String>)>, StoreError> {
        let removed: Option<(SessionRecord, Option<String>)> = self.deciding(|batch| {
            let known = self.known.read();
            let Some(found) = known.by_hash.get(hash) else { return Ok::<_, StoreError>(None) };
            self.table.table().delete_in(batch, &found.record.id);
            Ok(Some((found.record.clone(), found.logout_hint.clone())))
        })?;
        self.tell_ends(removed.as_ref().map(|(record, _)| &record.id), patience);
        Ok(removed)
    }
}

#[cfg(test)]
mod tests;
