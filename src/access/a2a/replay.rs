//! What agents have signed lately, so that a recorded request is not taken a second time.
//!
//! Each agent has a share of its own: one that signs without end locks out nobody but itself. What is remembered is
//! written down when the process ends, and known to the next one. A process that was killed could not write it down:
//! the next one takes nothing that was signed before itself began, for nobody can tell then, nor of an agent what was
//! signed as far ahead of the clock as the newest of its own that was taken: one whose clock runs ahead makes no other
//! wait. How far that is is written down while the process runs, off the way of requests; what an agent signs further
//! ahead than it did before, less than about a second before a crash, may not be covered.
//!
//! A store that holds nothing of this, such as that of a first start, or a new one at every start, is no different: it
//! may have been taken away. So a first start refuses what was signed before it ended, or in that very second; whoever
//! signs anew is served. Nor does a restored backup count as everything ([`distrust`]).
//!
//! The window may be widened while all this runs, or between two processes: see `window`.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;
use sha2::Digest;
use sha2::Sha256;
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::store::Batch;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;

mod window;

use window::Narrower;
use window::Windows;

/// The bytes of an HMAC-SHA256.
pub const MAC_BYTES: usize = 32;
/// The most signatures of one agent that are remembered at a time.
pub const REMEMBERED_MAX: usize = 65_536;
/// The most signatures of all agents that are written down; where there are more, none is.
pub const KEPT_MAX: usize = 1 << 18;

const TABLE: &str = "a2a_signed";
/// The key of the record that tells whether the others are all there is.
const WHOLE: u64 = 0;
/// How many signatures one record holds.
const RECORD_MAX: usize = 10_000;
/// How many seconds beyond the newest signature are written down, so that steady callers ask for it seldom.
const NOTED_AHEAD_S: i64 = 2;
/// The most agents of which it is written down one by one how far ahead of the clock they sign; what more of them sign
/// counts as signed by everybody.
const AHEAD_MAX: usize = 10_000;

/// What stands for an agent and one of its signatures.
pub type Name = [u8; 32];

/// The signatures of one agent, and until when each is remembered, in Unix seconds.
type Signed = HashMap<[u8; MAC_BYTES], i64>;

/// What agents have signed lately.
#[derive(Default)]
pub struct Replays {
    memory: Mutex<Memory>,
    known: Known,
    /// Told when something is newer than what is written down.
    newer: Notify,
    /// Says what need not be remembered any more; without it whoever asks does.
    sure: Option<Arc<dyn Clock>>,
}

#[derive(Default)]
struct Memory {
    agents: HashMap<String, Signed>,
    /// What the process before knew.
    inherited: HashMap<Name, i64>,
    /// When the newest was signed that was taken and was not ahead of the clock.
    newest: Newest,
    /// The newest of each agent that signed further ahead than `newest` covers, by what stands for the agent.
    ahead: HashMap<Name, Newest>,
    windows: Windows,
    /// What of that is written down.
    noted_windows: Windows,
}

/// When something was signed last, in Unix seconds.
#[derive(Clone, Copy, Default)]
struct Newest {
    signed: i64,
    /// Up to when that is written down.
    noted: i64,
}

/// Since when everything is known, in Unix seconds.
#[derive(Default)]
struct Known {
    /// Of everybody, where that is not for ever.
    since: Option<i64>,
    /// Of agents whose clocks ran ahead, by what stands for them.
    ahead: HashMap<Name, i64>,
}

/// Signatures as they are stored; one record tells whether they are all.
#[derive(Default, Serialize, Deserialize)]
struct SignedRecord {
    is_whole: bool,
    /// Since when, where that is not for ever.
    known_since: Option<i64>,
    /// Since when of single agents, where that is later; an earlier release did not tell them apart.
    #[serde(default)]
    known_ahead: Vec<(String, i64)>,
    /// No later than then everything was signed that was taken, in Unix seconds; an earlier release did not say.
    #[serde(default)]
    newest: i64,
    /// No later than then everything was signed but by those in `ahead`; without it, that is `newest`.
    #[serde(default)]
    newest_of_most: Option<i64>,
    /// What stands for agents whose clocks run ahead, in base 64, and no later than when all of theirs was signed.
    #[serde(default)]
    ahead: Vec<(String, i64)>,
    /// For how long signatures were remembered last, in seconds; an earlier release did not say.
    #[serde(default)]
    window_s: Option<u64>,
    /// Up to when what was signed is judged by a narrower window, and by which.
    #[serde(default)]
    narrower: Vec<Narrower>,
    /// Names, in base 64, and until when each is remembered, in Unix seconds.
    signed: Vec<(String, i64)>,
}

impl Record for SignedRecord {
    const VERSION: u32 = 1;
}

impl SignedRecord {
    fn windows(&self) -> Windows {
        Windows { last: self.window_s, narrower: self.narrower.clone() }
    }
}

/// What is known of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It comes for the first time, and is remembered now.
    First,
    /// It came before.
    Before,
    /// Nobody can tell whether it came before: it was made before what is remembered begins.
    Unknown,
    /// The agent's share is used up.
    Full,
}

/// When something was signed, in Unix seconds, and how long that is remembered.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    /// When it was signed, as the agent says.
    pub signed: i64,
    /// When it is asked for.
    pub now: i64,
    /// For how many seconds after it was signed it is remembered, the last one among them.
    pub window_s: u64,
}

impl Replays {
    /// Returns what the process before has left in a store. Blocks for a disk sync.
    pub fn open(store: &Store, now: Timestamp) -> Self {
        let table: Table<u64, SignedRecord> = store.table(TABLE);
        let now = now.as_second();
        let (memory, known) = inherited(&table, now).unwrap_or_else(|error| {
            tracing::error!(%error, "what agents signed before cannot be read");
            let since = Some(unknown_until(now, 0));
            let memory = Memory { windows: Windows::unknown_until(now), ..Memory::default() };
            (memory, Known { since, ..Known::default() })
        });
        Self { memory: Mutex::new(memory), known, newer: Notify::new(), sure: None }
    }

    /// Returns the same, which forgets by a clock that surely does not run ahead, where there is room: what one forgot that
    /// jumped, it would take again.
    pub fn aged_by(self, sure: Arc<dyn Clock>) -> Self {
        Self { sure: Some(sure), ..self }
    }

    /// Returns before when what was remembered until then is forgotten, in Unix seconds.
    fn come(&self, now: i64) -> i64 {
        self.sure.as_ref().map_or(now, |sure| sure.now().as_second().min(now))
    }

    /// Comes back once something was signed later than is written down.
    pub async fn is_newer(&self) {
        self.newer.notified().await;
    }

    /// Writes down how late the newest was signed, where that is not written down yet. Blocks for a disk sync.
    ///
    /// # Errors
    /// The store failed.
    pub fn note(&self, store: &Store) -> Result<(), StoreError> {
        let head = {
            let mut memory = self.memory.lock();
            if !memory.is_newer() {
                return Ok(());
            }
            memory.forget_overtaken();
            memory.head(NOTED_AHEAD_S)
        };
        let (table, mut batch) = (store.table(TABLE), Batch::default());
        table.put_in(&mut batch, &WHOLE, &head)?;
        store.commit_durable(&batch)?;
        self.memory.lock().noted(&head);
        Ok(())
    }

    /// Writes down what is remembered, for the next process. Blocks for a disk sync.
    ///
    /// # Errors
    /// The store failed.
    pub fn save(&self, store: &Store, now: Timestamp) -> Result<(), StoreError> {
        let (table, mut batch) = (store.table(TABLE), Batch::default());
        let now = now.as_second();
        let (kept, head) = {
            let memory = self.memory.lock();
            let all = memory.kept(self.come(now));
            (if all.len() > KEPT_MAX { memory.kept(now) } else { all }, memory.head(0))
        };
        if kept.len() > KEPT_MAX {
            tracing::warn!(max = KEPT_MAX, "more was signed lately than is written down");
            return self.note(store);
        }
        for (at, signed) in (WHOLE + 1..).zip(kept.chunks(RECORD_MAX)) {
            let record = SignedRecord { signed: signed.to_vec(), ..SignedRecord::default() };
            table.put_in(&mut batch, &at, &record)?;
        }
        let known_ahead = self.known.ahead.iter().map(|(agent, since)| (written(agent), *since)).collect();
        let head = SignedRecord { is_whole: true, known_since: self.known.since, known_ahead, ..head };
        table.put_in(&mut batch, &WHOLE, &head)?;
        store.commit_durable(&batch)
    }

    /// Tells whether what an agent signed at a moment, in Unix seconds, would be known had it come before.
    pub fn is_known(&self, agent: &str, signed_at: i64) -> bool {
        let Known { since, ahead } = &self.known;
        let is_since = |since: &i64| signed_at >= *since;
        since.as_ref().is_none_or(is_since)
            && (ahead.is_empty() || ahead.get(&stands_for(agent)).is_none_or(is_since))
    }

    /// Takes note that a request was let pass whose time nobody looks at: no signature is remembered now.
    pub fn pass(&self, now: Timestamp) {
        self.see(&mut self.memory.lock(), 0, now.as_second());
    }

    fn see(&self, memory: &mut Memory, window_s: u64, now: i64) {
        if memory.windows.last != Some(window_s) {
            memory.windows.see(window_s, now);
            self.newer.notify_one();
        }
    }

    /// Forgets a signature that was remembered for a request which was not let pass after all.
    pub fn forget(&self, agent: &str, mac: &[u8; MAC_BYTES]) {
        if let Some(signed) = self.memory.lock().agents.get_mut(agent) {
            signed.remove(mac);
        }
    }

    /// Remembers a signature. Where nodes remember together (`is_shared`), what this one cannot know the others do.
    pub fn remember(&self, agent: &str, mac: [u8; MAC_BYTES], at: Moments, is_shared: bool) -> Seen {
        let Moments { signed: signed_at, now, window_s } = at;
        let until = signed_at.saturating_add_unsigned(window_s);
        if !is_shared && !self.is_known(agent, signed_at) {
            return Seen::Unknown;
        }
        let mut memory = self.memory.lock();
        let memory = &mut *memory;
        self.see(memory, window_s, now);
        if !memory.windows.cover(at) {
            return Seen::Unknown;
        }
        let come = self.come(now);
        if memory.inherited.get(&name(agent, &mac)).is_some_and(|until| *until >= come) {
            return Seen::Before;
        }
        if !memory.agents.contains_key(agent) {
            memory.agents.retain(|_, signed| signed.values().any(|until| *until >= come));
            memory.inherited.retain(|_, until| *until >= come);
        }
        let signed = memory.agents.entry(agent.to_owned()).or_default();
        if signed.get(&mac).is_some_and(|until| *until >= come) {
            return Seen::Before;
        }
        for over in [come, now] {
            if signed.len() >= REMEMBERED_MAX {
                signed.retain(|_, until| *until >= over);
            }
        }
        if signed.len() >= REMEMBERED_MAX {
            return Seen::Full;
        }
        signed.insert(mac, until);
        if memory.is_signed(agent, signed_at, now) {
            self.newer.notify_one();
        }
        Seen::First
    }
}

impl Memory {
    /// Notes when something was signed; tells whether that is later than is written down.
    fn is_signed(&mut self, agent: &str, signed: i64, now: i64) -> bool {
        let newest = match signed {
            _ if signed <= now => &mut self.newest,
            // Covered already; and whoever is a little ahead does not move that on.
            _ if signed <= self.newest.noted => return false,
            _ => self.ahead.entry(stands_for(agent)).or_default(),
        };
        newest.signed = newest.signed.max(signed);
        newest.signed > newest.noted
    }

    fn is_newer(&self) -> bool {
        self.windows != self.noted_windows || self.all_newest().any(|newest| newest.signed > newest.noted)
    }

    fn all_newest(&self) -> impl Iterator<Item = &Newest> {
        std::iter::once(&self.newest).chain(self.ahead.values())
    }

    /// Forgets of single agents what holds for everybody by now.
    fn forget_overtaken(&mut self) {
        let Newest { signed, noted } = self.newest;
        let holds_for_all = signed.max(noted);
        self.ahead.retain(|_, newest| newest.signed.max(newest.noted) > holds_for_all);
    }

    /// Returns how late everything was signed, and a little more, as it is stored.
    fn head(&self, more: i64) -> SignedRecord {
        let late = |newest: &Newest| newest.noted.max(newest.signed.saturating_add(more));
        let mut ahead: Vec<(&Name, i64)> =
            self.ahead.iter().map(|(agent, newest)| (agent, late(newest))).collect();
        ahead.sort_unstable_by_key(|(_, late)| std::cmp::Reverse(*late));
        let (newest, over) = (self.all_newest().map(late).max(), ahead.split_off(ahead.len().min(AHEAD_MAX)));
        let of_most = over.first().map_or(0, |(_, late)| *late).max(late(&self.newest));
        SignedRecord {
            newest: newest.unwrap_or(0),
            newest_of_most: Some(of_most),
            ahead: ahead.into_iter().map(|(agent, late)| (written(agent), late)).collect(),
            window_s: self.windows.last,
            narrower: self.windows.narrower.clone(),
            ..SignedRecord::default()
        }
    }

    /// Takes note that a head is written down.
    fn noted(&mut self, head: &SignedRecord) {
        let of_most = head.newest_of_most.unwrap_or(head.newest);
        self.noted_windows = head.windows();
        self.newest.noted = self.newest.noted.max(of_most);
        for (agent, until) in named(&head.ahead) {
            if let Some(newest) = self.ahead.get_mut(&agent) {
                newest.noted = newest.noted.max(until);
            }
        }
        for newest in self.ahead.values_mut() {
            newest.noted = newest.noted.max(of_most);
        }
    }

    /// Returns what is still remembered, as it is stored.
    fn kept(&self, now: i64) -> Vec<(String, i64)> {
        let own = self
            .agents
            .iter()
            .flat_map(|(agent, signed)| signed.iter().map(move |(mac, until)| (name(agent, mac), *until)));
        let all = own.chain(self.inherited.iter().map(|(name, until)| (*name, *until)));
        all.filter(|(_, until)| *until >= now).map(|(name, until)| (written(&name), until)).collect()
    }
}

/// Returns what stands for an agent.
fn stands_for(agent: &str) -> Name {
    Sha256::digest(agent).into()
}

fn written(name: &Name) -> String {
    URL_SAFE_NO_PAD.encode(name)
}

/// Returns names as they were written, and what stands beside each; one that is none is passed over.
fn named(written: &[(String, i64)]) -> impl Iterator<Item = (Name, i64)> {
    let read = |name: &String| URL_SAFE_NO_PAD.decode(name).ok()?.try_into().ok();
    written.iter().filter_map(move |(name, until)| Some((read(name)?, *until)))
}

/// Returns what stands for an agent and one of its signatures.
pub fn name(agent: &str, mac: &[u8; MAC_BYTES]) -> Name {
    // Neither contains the other's end: a MAC is always as long.
    Sha256::new().chain_update(mac).chain_update(agent).finalize().into()
}

/// Takes what the process before has left; returns it, and since when that is everything.
fn inherited(table: &Table<u64, SignedRecord>, now: i64) -> Result<(Memory, Known), StoreError> {
    let left = table.list(&KeyRange::all(), Order::Ascending, usize::MAX)?;
    let head = left.iter().find(|(key, _)| *key == WHOLE).map(|(_, head)| head);
    let mut memory = Memory::default();
    for (name, until) in left.iter().flat_map(|(_, record)| named(&record.signed)) {
        memory.inherited.insert(name, until);
    }
    // Nothing is remembered for less long than until it was signed.
    let remembered = left.iter().flat_map(|(_, record)| &record.signed).map(|(_, until)| *until).max();
    let earlier = |head: &SignedRecord| (head.newest > 0).then_some(head.newest);
    let told = head.and_then(|head| head.newest_of_most.or_else(|| earlier(head)));
    let newest = told.or(remembered).unwrap_or(0);
    memory.newest = Newest { signed: newest, noted: newest };
    memory.windows = head.map_or_else(|| Windows::unknown_until(now), SignedRecord::windows);
    memory.noted_windows = memory.windows.clone();
    let ahead = head.map_or(&[][..], |head| &head.ahead);
    let ahead = named(ahead).filter(|(_, newest)| *newest >= now);
    memory.ahead = ahead.map(|(agent, newest)| (agent, Newest { signed: newest, noted: newest })).collect();
    let known = match head {
        Some(head) if head.is_whole => {
            Known { since: head.known_since, ahead: named(&head.known_ahead).collect() }
        }
        Some(_) | None => Known {
            since: Some(unknown_until(now, newest)),
            ahead: memory
                .ahead
                .iter()
                .map(|(agent, newest)| (*agent, unknown_until(now, newest.signed)))
                .collect(),
        },
    };
    let mut batch = Batch::default();
    left.iter().for_each(|(key, _)| table.delete_in(&mut batch, key));
    // Until this process ends well, nobody knows everything.
    table.put_in(&mut batch, &WHOLE, &memory.head(0))?;
    table.store().commit_durable(&batch)?;
    Ok((memory, known))
}

/// Takes note that what a store says is not everything: it was restored, and more may have been signed since.
///
/// # Errors
/// The store failed.
pub fn distrust(store: &Store) -> Result<(), StoreError> {
    let table: Table<u64, SignedRecord> = store.table(TABLE);
    let Some(head) = table.get(&WHOLE)? else { return Ok(()) };
    let mut batch = Batch::default();
    table.put_in(&mut batch, &WHOLE, &SignedRecord { is_whole: false, ..head })?;
    store.commit_durable(&batch)
}

/// Returns the first second that neither has begun nor was signed for, as far as anybody knows: in the same one, more
/// may have been.
fn unknown_until(now: i64, newest: i64) -> i64 {
    now.max(newest).saturating_add(1)
}

#[cfg(test)]
mod tests;
