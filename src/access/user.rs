//! Local users: people who log in with a name and a password, and get a bearer token.
//!
//! Users live in the store and in memory. Every change of one (role, tier, password, disabled) makes a
//! new *generation* of it, and a token counts only for the generation it was issued in: whoever is
//! changed, disabled or deleted is out at once.
//!
//! A login costs the same, and is answered the same, whether there is such a user, whether it is
//! disabled, and whatever the password was. Hashing happens off the workers, a few at a time
//! ([`HASHES_MAX`]) with a bounded queue ([`WAITING_MAX`]), so that logins can neither starve the
//! process nor fill its memory; guessing is slowed by [`super::throttle`].

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::RwLock;
use serde::Deserialize;
use serde::Serialize;
use tokio::sync::Semaphore;

use super::keyring::Keyring;
use super::keyring::sealed::Named;
use super::keyring::sealed::Opener;
use super::keyring::sealed::Part;
use super::keyring::sealed::Sealed;
use super::keyring::sealed::seal_old;
use super::name::NameFault;
use super::name::UserName;
use super::password::Cost;
use super::password::Password;
use super::password::PasswordFault;
use super::password::PasswordHash;
use super::role::Role;
use super::secret::NodeSecret;
use super::throttle::LockedOut;
use super::throttle::Throttle;
use super::tier::Tier;
use crate::store::Batch;
use crate::store::Followed;
use crate::store::Fresh;
use crate::store::Store;
use crate::store::StoreError;

/// The most users of a deployment.
pub const USERS_MAX: usize = 10_000;
/// Passwords that are hashed at the same time; each takes what [`Cost`] says.
pub const HASHES_MAX: usize = 2;
/// Logins that may wait for their turn.
pub const WAITING_MAX: usize = 64;

/// What is kept of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserRecord {
    /// The user's id, which never changes.
    pub id: String,
    /// The name it logs in with, in its one form.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// How much it is entitled to; none: as much as the deployment.
    pub tier: Option<Tier>,
    /// Whether it may log in.
    pub disabled: bool,
    /// Counts its changes.
    pub generation: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// When it last logged in.
    pub last_login_at: Option<Timestamp>,
    password: PasswordHash,
}

impl Named for UserRecord {
    fn entity(&self) -> Option<String> {
        Some(self.id.clone())
    }

    fn parts(&mut self) -> Vec<Part<'_>> {
        vec![Part::Name(&mut self.name)]
    }
}

/// What a new user is to be.
#[derive(Clone, Debug)]
pub struct NewUser {
    /// The name as it was typed.
    pub name: String,
    /// The password as it was typed.
    pub password: String,
    /// What it may do.
    pub role: Role,
    /// How much it is entitled to; none: as much as the deployment.
    pub tier: Option<Tier>,
}

/// What is to be different; what is absent stays.
#[derive(Clone, Debug, Default)]
pub struct UserChange {
    /// Another password, as it was typed.
    pub password: Option<String>,
    /// Another role.
    pub role: Option<Role>,
    /// Another tier; an inner none: as much as the deployment.
    pub tier: Option<Option<Tier>>,
    /// Whether it may log in.
    pub disabled: Option<bool>,
}

/// Why a user was not made or changed.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// The name cannot be one.
    #[error(transparent)]
    Name(#[from] NameFault),
    /// The password cannot be one.
    #[error(transparent)]
    Password(#[from] PasswordFault),
    /// Another user has the name, or one that looks like it.
    #[error("a user of this name, or of one that looks like it, is there already")]
    Taken,
    /// There are too many.
    #[error("there are {USERS_MAX} users already")]
    TooMany,
    /// Nobody has this id.
    #[error("there is no such user")]
    Unknown,
    /// Too many passwords are being hashed.
    #[error("too many passwords are being checked at the moment")]
    Busy,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a login failed.
#[derive(Debug, thiserror::Error)]
pub enum LoginFault {
    /// Name and password do not fit, or the user may not log in.
    #[error("the name or the password is wrong, or the user is disabled")]
    Wrong,
    /// Too many failures came before.
    #[error(transparent)]
    LockedOut(#[from] LockedOut),
    /// Too many passwords are being hashed.
    #[error("too many passwords are being checked at the moment")]
    Busy,
}

/// Who wants in.
#[derive(Clone, Debug)]
pub struct Login {
    /// The name as it was typed.
    pub name: String,
    /// The password as it was typed.
    pub password: String,
    /// Where from.
    pub address: Option<IpAddr>,
}

/// A moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// On the wall.
    pub wall: Timestamp,
    /// Since the process began.
    pub monotonic: Duration,
}

/// Every user, in the store and in memory.
pub struct Users {
    table: Followed<String, Sealed<UserRecord>>,
    keyring: Arc<Keyring>,
    opener: Opener<UserRecord>,
    secret: NodeSecret,
    cost: Cost,
    users: RwLock<Directory>,
    throttle: Throttle,
    hashing: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

/// The users by id, and their ids by name: finding a name takes as long as not finding it.
#[derive(Default)]
struct Directory {
    by_id: HashMap<String, UserRecord>,
    by_name: HashMap<String, String>,
}

impl Users {
    /// Reads the users of a store, whose names are sealed under the keys of a ring; new passwords are hashed at `cost`.
    ///
    /// # Errors
    /// The store failed.
    pub fn open(
        store: &Store,
        secret: NodeSecret,
        keyring: Arc<Keyring>,
        cost: Cost,
    ) -> Result<Self, StoreError> {
        let users = Self {
            table: Followed::new(store.table("users")),
            opener: Opener::new(Arc::clone(&keyring)),
            keyring,
            cost,
            secret,
            users: RwLock::default(),
            throttle: Throttle::default(),
            hashing: Arc::new(Semaphore::new(HASHES_MAX)),
            waiting: Arc::new(Semaphore::new(HASHES_MAX + WAITING_MAX)),
        };
        users
            .table
            .change(|fresh| users.take_over(fresh), |batch| seal_old(&users.table, &users.keyring, batch))?;
        Ok(users)
    }

    /// Takes over what other nodes changed. Blocks.
    ///
    /// # Errors
    /// The store failed.
    pub fn follow(&self) -> Result<(), StoreError> {
        self.table.catch_up(|fresh| self.take_over(fresh))?;
        self.table.between(|| self.hold(self.opener.again()));
        Ok(())
    }

    fn take_over(&self, fresh: Vec<Fresh<String, Sealed<UserRecord>>>) {
        // Before anything is locked: a name's key may have to be asked for.
        self.hold(self.opener.opened(fresh));
    }

    fn hold(&self, fresh: Vec<Fresh<String, UserRecord>>) {
        let mut known = self.users.write();
        for one in fresh {
            match one {
                Fresh::Anew => *known = Directory::default(),
                Fresh::Put { record, .. } => known.add(record),
                Fresh::Gone { key } => known.remove(&key),
            }
        }
    }

    /// Changes users by what all nodes know of them.
    fn deciding<T>(&self, decide: impl FnMut(&mut Batch) -> Result<T, UserError>) -> Result<T, UserError> {
        self.table.change(|fresh| self.take_over(fresh), decide)
    }

    fn put_in(&self, batch: &mut Batch, record: &UserRecord) -> Result<(), StoreError> {
        self.table.table().put_in(batch, &record.id, &Sealed::seal(record, &self.keyring)?)
    }

    /// Returns every user, oldest first.
    pub fn list(&self) -> Vec<UserRecord> {
        let mut users: Vec<UserRecord> = self.users.read().by_id.values().cloned().collect();
        users.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        users
    }

    /// Tells whether there is no user.
    pub fn is_empty(&self) -> bool {
        self.users.read().by_id.is_empty()
    }

    /// Returns one user.
    pub fn get(&self, id: &str) -> Option<UserRecord> {
        self.users.read().by_id.get(id).cloned()
    }

    /// Returns the id of the user whom somebody typed the name of, in whatever spelling.
    pub fn id_of(&self, typed: &str) -> Option<String> {
        let name = UserName::parse(typed).ok()?;
        self.named(name.as_str()).map(|user| user.id)
    }

    /// Returns a user as long as it is in the state that a token was issued in.
    pub fn in_generation(&self, id: &str, generation: u64) -> Option<UserRecord> {
        self.get(id).filter(|user| user.generation == generation && !user.disabled)
    }

    /// Makes a user.
    ///
    /// # Errors
    /// See [`UserError`].
    pub async fn create(
        self: &Arc<Self>,
        id: String,
        new: NewUser,
        now: Timestamp,
    ) -> Result<UserRecord, UserError> {
        let name = UserName::parse(&new.name)?;
        let password = Password::chosen(&new.password, name.as_str())?;
        self.users.read().ensure_free(&name)?;
        self.hashing(move |users| {
            let password = PasswordHash::new(&password, users.cost, &users.secret);
            let record = UserRecord {
                id,
                name: name.as_str().to_owned(),
                role: new.role,
                tier: new.tier,
                disabled: false,
                generation: 1,
                created_at: now,
                updated_at: now,
                last_login_at: None,
                password,
            };
            users.deciding(|batch| {
                users.users.read().ensure_free(&name)?;
                Ok(users.put_in(batch, &record)?)
            })?;
            Ok(record)
        })
        .await
        .unwrap_or(Err(UserError::Busy))
    }

    /// Changes a user; tokens that were issued to it count no more.
    ///
    /// # Errors
    /// See [`UserError`].
    pub async fn change(
        self: &Arc<Self>,
        id: &str,
        change: UserChange,
        now: Timestamp,
    ) -> Result<UserRecord, UserError> {
        let before = self.get(id).ok_or(UserError::Unknown)?;
        let UserChange { password, role, tier, disabled } = change;
        let password = password.map(|text| Password::chosen(&text, &before.name)).transpose()?;
        let hashes = password.is_some();
        let work = move |users: &Self| {
            let password = password.map(|it| PasswordHash::new(&it, users.cost, &users.secret));
            users.deciding(|batch| {
                let mut changed = users.get(&before.id).ok_or(UserError::Unknown)?;
                changed.password = password.clone().unwrap_or(changed.password);
                changed.role = role.unwrap_or(changed.role);
                changed.tier = tier.unwrap_or(changed.tier);
                changed.disabled = disabled.unwrap_or(changed.disabled);
                changed.generation += 1;
                changed.updated_at = now;
                users.put_in(batch, &changed)?;
                Ok(changed)
            })
        };
        // Whoever has to go is not kept by a flood of logins.
        let done = if hashes { self.hashing(work).await } else { self.apart(work, ()).await };
        done.unwrap_or(Err(UserError::Busy))
    }

    /// Removes a user; tells whether there was one. Blocks for a disk sync.
    ///
    /// # Errors
    /// The store failed.
    pub fn delete(&self, id: &str) -> Result<bool, UserError> {
        self.deciding(|batch| {
            let Some(user) = self.get(id) else { return Ok(false) };
            self.table.table().delete_in(batch, &user.id);
            Ok(true)
        })
    }

    /// Returns the user that a name and a password stand for.
    ///
    /// # Errors
    /// See [`LoginFault`].
    pub async fn login(self: &Arc<Self>, login: Login, now: Moment) -> Result<UserRecord, LoginFault> {
        let Login { name, password, address } = login;
        let name = UserName::parse(&name).ok();
        // What cannot be a name is counted as one name, which nobody has.
        let counted = name.as_ref().map_or("", UserName::as_str);
        let attempt = self.throttle.attempt(counted, address, now.monotonic)?;
        let known = name.and_then(|name| self.named(name.as_str()));
        let checked = self.hashing(move |users| users.check(known, &password, now.wall)).await;
        let Some(checked) = checked else {
            self.throttle.gave_up(&attempt);
            return Err(LoginFault::Busy);
        };
        let user = checked.ok_or(LoginFault::Wrong)?;
        self.throttle.succeeded(&attempt, now.monotonic);
        Ok(user)
    }

    /// Does the work of a login, which is the same for everybody.
    fn check(&self, known: Option<UserRecord>, password: &str, now: Timestamp) -> Option<UserRecord> {
        // A password that is too long is hashed as none.
        let typed = Password::typed(password).or_else(|_| Password::typed("")).ok()?;
        let mut is_right = false;
        for hash in self.tried(known.as_ref()) {
            is_right |= hash.is_of(&typed, &self.secret);
        }
        let user = known.filter(|user| is_right && !user.disabled)?;
        let renewed = user.password.is_outdated(self.cost);
        let renewed = renewed.then(|| PasswordHash::new(&typed, self.cost, &self.secret));
        self.note_login(user, renewed, now)
    }

    /// Returns the hashes that a password is tried against: one of each cost that any user's has, the user's own among
    /// them. So the time tells neither whether there is a user, nor whether it has logged in since the cost was changed.
    fn tried(&self, known: Option<&UserRecord>) -> Vec<PasswordHash> {
        let mut costs: BTreeSet<Cost> =
            self.users.read().by_id.values().map(|user| user.password.cost()).collect();
        costs.insert(self.cost);
        // Changed since it was looked up, say.
        costs.extend(known.map(|user| user.password.cost()));
        let own = |cost: Cost| known.map(|user| &user.password).filter(|own| own.cost() == cost);
        let of_cost =
            |cost| own(cost).cloned().unwrap_or_else(|| PasswordHash::of_nobody(cost, &self.secret));
        costs.into_iter().map(of_cost).collect()
    }

    /// Keeps when a user logged in; `None` where it was changed meanwhile.
    fn note_login(
        &self,
        user: UserRecord,
        renewed: Option<PasswordHash>,
        now: Timestamp,
    ) -> Option<UserRecord> {
        let noted = |kept: UserRecord| {
            let password = renewed.clone().unwrap_or(kept.password);
            UserRecord { last_login_at: Some(now), password, ..kept }
        };
        let kept: Result<_, StoreError> = self.table.note(
            |fresh| self.take_over(fresh),
            |batch| {
                let kept = self.in_generation(&user.id, user.generation).map(noted);
                if let Some(kept) = &kept {
                    self.put_in(batch, kept)?;
                }
                Ok(kept)
            },
        );
        kept.unwrap_or_else(|error| {
            tracing::warn!(%error, user = user.id, "the time of a login could not be kept");
            self.in_generation(&user.id, user.generation).map(noted)
        })
    }

    fn named(&self, name: &str) -> Option<UserRecord> {
        let known = self.users.read();
        known.by_name.get(name).and_then(|id| known.by_id.get(id)).cloned()
    }

    /// Runs work that hashes passwords off the workers, a few at a time; `None` where too many wait.
    async fn hashing<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Option<T> {
        let place = Arc::clone(&self.waiting).try_acquire_owned().ok()?;
        let turn = Arc::clone(&self.hashing).acquire_owned().await.ok()?;
        self.apart(work, (place, turn)).await
    }

    /// Runs work off the workers and keeps what it may go on with until it is over: whoever leaves
    /// meanwhile does not make room.
    async fn apart<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
        leave: impl Send + 'static,
    ) -> Option<T> {
        let users = Arc::clone(self);
        let work = move || {
            let done = work(&users);
            drop(leave);
            done
        };
        tokio::task::spawn_blocking(work).await.ok()
    }
}

impl Directory {
    fn remove(&mut self, id: &str) {
        if let Some(user) = self.by_id.remove(id) {
            self.by_name.remove(&user.name);
        }
    }

    fn add(&mut self, user: UserRecord) {
        self.by_name.insert(user.name.clone(), user.id.clone());
        self.by_id.insert(user.id.clone(), user);
    }

    fn ensure_free(&self, name: &UserName) -> Result<(), UserError> {
        let skeleton = name.skeleton();
        let looks_like =
            |other: &String| UserName::parse(other).is_ok_and(|other| other.skeleton() == skeleton);
        if self.by_name.contains_key(name.as_str()) || self.by_name.keys().any(looks_like) {
            return Err(UserError::Taken);
        }
        if self.by_id.len() >= USERS_MAX { Err(UserError::TooMany) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
