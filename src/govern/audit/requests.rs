//! Finds the blocks a request id may be in.
//!
//! A request id is told by a checksum of four bytes. Those of a block lie together as long as the block is young;
//! [`GROUP_BLOCKS`] blocks are then sorted into a group of [`PARTS`] keys, by the checksum's first byte, so that a
//! question reads one small key a group instead of every block's checksums.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;

use crate::id::Ulid;
use crate::store::Batch;
use crate::store::Key;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;

/// The checksums of a young block's request ids, by its first id.
const YOUNG: &str = "audit_block_requests";
/// The blocks of a group, by the first one's first id.
const GROUPS: &str = "audit_request_groups";
/// A group's checksums with the same first byte, by that byte and the group's key.
const SORTED: &str = "audit_requests";
/// The tables request ids are found in.
pub(super) const REQUEST_TABLES: [&str; 3] = [YOUNG, GROUPS, SORTED];

/// How many blocks make a group; a place in it fits a byte.
const GROUP_BLOCKS: usize = 128;
/// How many keys a group's checksums lie in.
const PARTS: usize = 256;

/// The checksum of a request id.
pub(super) type Print = [u8; 4];

/// Returns the checksum of a request id.
pub(super) fn print_of(request: &str) -> Print {
    crc32fast::hash(request.as_bytes()).to_be_bytes()
}

/// The blocks of a group, by their first ids, in order.
#[derive(Serialize, Deserialize)]
struct Group(Vec<u128>);

impl Record for Group {
    const VERSION: u32 = 1;
}

/// Where request ids lie. All calls may block on the disk.
pub(super) struct Requests {
    store: Store,
    groups: Table<Ulid, Group>,
    /// The blocks that are in no group yet.
    young: Mutex<BTreeSet<Ulid>>,
}

impl Requests {
    /// Opens what the store holds.
    pub(super) fn open(store: Store) -> Result<Self, StoreError> {
        let mut young = BTreeSet::new();
        store.scan(YOUNG, &KeyRange::all(), Order::Ascending, &mut |key, _| {
            young.extend(Ulid::from_bytes(key));
            ControlFlow::Continue(())
        })?;
        Ok(Self { groups: store.table(GROUPS), young: Mutex::new(young), store })
    }

    /// Adds a block's checksums to a batch.
    pub(super) fn put_in(&self, batch: &mut Batch, first: Ulid, prints: Vec<u8>) {
        if !prints.is_empty() {
            batch.put(YOUNG, first.to_bytes(), prints);
            self.young.lock().insert(first);
        }
    }

    /// Makes groups of the oldest young blocks, as long as there are enough; what was put is in the store by now.
    pub(super) fn gather(&self) -> Result<(), StoreError> {
        loop {
            let oldest: Vec<Ulid> = {
                let young = self.young.lock();
                if young.len() < GROUP_BLOCKS {
                    return Ok(());
                }
                young.iter().take(GROUP_BLOCKS).copied().collect()
            };
            let mut batch = Batch::default();
            let mut parts = vec![Vec::new(); PARTS];
            for (place, first) in oldest.iter().enumerate() {
                let prints = self.store.get(YOUNG, &first.to_bytes())?.unwrap_or_default();
                for [part, rest @ ..] in prints.as_chunks::<4>().0 {
                    let Some(part) = parts.get_mut(usize::from(*part)) else { continue };
                    part.extend_from_slice(rest);
                    part.push(place as u8);
                }
                batch.delete(YOUNG, first.to_bytes());
            }
            let Some(group) = oldest.first() else { return Ok(()) };
            for (part, sorted) in (0..=u8::MAX).zip(parts).filter(|(_, sorted)| !sorted.is_empty()) {
                batch.put(SORTED, part_key(part, *group), sorted);
            }
            self.groups.put_in(&mut batch, group, &Group(oldest.iter().map(|first| first.0).collect()))?;
            self.store.commit(&batch)?;
            self.young.lock().retain(|first| !oldest.contains(first));
        }
    }

    /// Returns the blocks that may hold a request, by their first ids.
    pub(super) fn blocks(&self, request: &str) -> Result<BTreeSet<Ulid>, StoreError> {
        let print = print_of(request);
        // Young blocks come first: those that are sorted into a group meanwhile are then found twice, not never.
        let mut found = BTreeSet::new();
        self.store.scan(YOUNG, &KeyRange::all(), Order::Ascending, &mut |key, prints| {
            let is_there = prints.as_chunks::<4>().0.contains(&print);
            found.extend(Ulid::from_bytes(key).filter(|_| is_there));
            ControlFlow::Continue(())
        })?;
        let [part, rest @ ..] = print;
        let mut places = Vec::new();
        self.store.scan(SORTED, &KeyRange::prefix(&[part]), Order::Ascending, &mut |key, sorted| {
            let group = key.get(1..).and_then(Ulid::from_bytes);
            let here = sorted.as_chunks::<4>().0.iter().filter(|[known @ .., _]| *known == rest);
            places.extend(here.filter_map(|[.., place]| Some((group?, usize::from(*place)))));
            ControlFlow::Continue(())
        })?;
        for (group, place) in places {
            let blocks = self.groups.get(&group)?;
            found.extend(blocks.and_then(|Group(blocks)| blocks.get(place).copied()).map(Ulid));
        }
        Ok(found)
    }

    /// Forgets the request ids of all blocks before `oldest`; a group goes with its last block.
    pub(super) fn forget_before(&self, oldest: Ulid) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        let gone: Vec<Ulid> = self.young.lock().range(..oldest).copied().collect();
        gone.iter().for_each(|first| batch.delete(YOUNG, first.to_bytes()));
        let before = KeyRange { start: Vec::new(), end: Some(oldest.to_bytes()) };
        for (group, Group(blocks)) in self.groups.list(&before, Order::Ascending, usize::MAX)? {
            if blocks.last().is_none_or(|last| Ulid(*last) < oldest) {
                (0..=u8::MAX).for_each(|part| batch.delete(SORTED, part_key(part, group)));
                self.groups.delete_in(&mut batch, &group);
            }
        }
        self.store.commit(&batch)?;
        self.young.lock().retain(|first| *first >= oldest);
        Ok(())
    }

    /// Forgets which blocks are young, after the tables were emptied.
    pub(super) fn clear(&self) {
        self.young.lock().clear();
    }
}

fn part_key(part: u8, group: Ulid) -> Vec<u8> {
    let mut key = vec![part];
    key.extend(group.to_bytes());
    key
}
