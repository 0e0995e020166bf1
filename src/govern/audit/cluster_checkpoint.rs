//! Checkpoints of all nodes' chains: one signed sentence that says where each of them was at a moment.
//!
//! One node makes them, from what was shipped, whenever [`super::checkpoint::EVERY`] has gone by with new entries, and
//! at once where another node made the one before, or a node has shipped something that no checkpoint vouches for: else
//! all of it could be taken away meanwhile, and nobody would miss the node. They lie beside what was shipped; copies
//! belong elsewhere.
//!
//! What is signed are lines: a name of the format, the origin, the moment, one line for each node (its name, the number
//! of its newest entry, that entry's id and hash), and the key's name.

use std::io;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::Deserialize;
use serde::Serialize;

use super::chain::Hash;
use super::checkpoint::Checkpoint;
use super::checkpoint::EVERY;
use super::checkpoint::InvalidCheckpoint;
use crate::access::jose::VerifyingKey;
use crate::access::signing::KeyRing;
use crate::clock::Clock;
use crate::id::Ulid;
use crate::store::Batch;
use crate::store::KeyRange;
use crate::store::Order;
use crate::store::Record;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Table;
use crate::store::archive::Archive;
use crate::store::archive::ArchiveHead;

/// The most checkpoints that are kept; the oldest go first.
pub const CHECKPOINTS_MAX: usize = 10_000;

const FORMAT: &str = "portcullis-cluster-checkpoint-v1";
const TABLE: &str = "audit.cluster_checkpoints";

/// Where the chains of all nodes were, signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterCheckpoint {
    /// The node that made it.
    pub origin: String,
    /// When it was signed.
    pub at: Timestamp,
    /// Where each node's chain was, by name of the node.
    pub nodes: Vec<Anchor>,
    /// The name of the key, as in `/.well-known/jwks.json`.
    pub key_id: String,
    /// The public key (`x` of its JWK), so that the signature can be checked once the key has left the set.
    pub public_key: String,
    /// An Ed25519 signature of the statement.
    pub signature: Vec<u8>,
}

/// Where one chain was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The node.
    pub node: String,
    /// The number of the newest entry it had shipped.
    pub sequence: u64,
    /// That entry.
    pub last_id: Ulid,
    /// Its hash.
    pub last_hash: Hash,
}

/// A checkpoint as it is written, for others and in the store.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Written {
    v: u32,
    origin: String,
    at: Timestamp,
    nodes: Vec<WrittenAnchor>,
    key_id: String,
    public_key: String,
    signature: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct WrittenAnchor {
    node: String,
    sequence: u64,
    last_id: String,
    last_hash: String,
}

impl Record for Written {
    const VERSION: u32 = 1;
}

/// Makes and keeps the checkpoints of all nodes' chains. All calls block.
pub struct ClusterNotary {
    table: Table<u64, Written>,
    archive: Archive,
    keys: Arc<KeyRing>,
    clock: Arc<dyn Clock>,
    origin: String,
}

impl ClusterCheckpoint {
    /// Returns the bytes that are signed.
    pub fn statement(&self) -> Vec<u8> {
        let Self { origin, at, nodes, key_id, .. } = self;
        let line = |anchor: &Anchor| {
            let Anchor { node, sequence, last_id, last_hash } = anchor;
            format!("{node} {sequence} {last_id} {last_hash}\n")
        };
        let lines: String = nodes.iter().map(line).collect();
        format!("{FORMAT}\n{origin}\n{at}\n{lines}{key_id}\n").into_bytes()
    }

    /// Tells whether the key it names signed it. Whose key that is, only a list of trusted ones tells.
    pub fn is_signed(&self) -> bool {
        let key = URL_SAFE_NO_PAD.decode(&self.public_key).ok().and_then(|raw| VerifyingKey::from_raw(&raw));
        key.is_some_and(|key| key.verifies(&self.statement(), &self.signature))
    }

    /// Tells whether it vouches for each of some nodes, wherever their chains were then.
    fn names_all(&self, nodes: &[Anchor]) -> bool {
        nodes.iter().all(|anchor| self.nodes.iter().any(|named| named.node == anchor.node))
    }

    /// Returns it as one line of JSON.
    pub fn to_line(&self) -> String {
        serde_json::to_string(&self.written()).expect("texts and numbers always have a JSON form")
    }

    /// Reads one line of JSON.
    ///
    /// # Errors
    /// It is no checkpoint of several chains.
    pub fn from_line(line: &str) -> Result<Self, InvalidCheckpoint> {
        Self::read(serde_json::from_str(line).map_err(|_| InvalidCheckpoint)?)
    }

    fn written(&self) -> Written {
        let anchor = |anchor: &Anchor| WrittenAnchor {
            node: anchor.node.clone(),
            sequence: anchor.sequence,
            last_id: anchor.last_id.to_string(),
            last_hash: anchor.last_hash.to_string(),
        };
        Written {
            v: 1,
            origin: self.origin.clone(),
            at: self.at,
            nodes: self.nodes.iter().map(anchor).collect(),
            key_id: self.key_id.clone(),
            public_key: self.public_key.clone(),
            signature: URL_SAFE_NO_PAD.encode(&self.signature),
        }
    }

    fn read(written: Written) -> Result<Self, InvalidCheckpoint> {
        if written.v != 1 {
            return Err(InvalidCheckpoint);
        }
        let anchor = |anchor: WrittenAnchor| {
            Ok(Anchor {
                node: anchor.node,
                sequence: anchor.sequence,
                last_id: anchor.last_id.parse().map_err(|_| InvalidCheckpoint)?,
                last_hash: anchor.last_hash.parse().map_err(|_| InvalidCheckpoint)?,
            })
        };
        Ok(Self {
            origin: written.origin,
            at: written.at,
            nodes: written.nodes.into_iter().map(anchor).collect::<Result<_, _>>()?,
            key_id: written.key_id,
            public_key: written.public_key,
            signature: URL_SAFE_NO_PAD.decode(written.signature).map_err(|_| InvalidCheckpoint)?,
        })
    }
}

impl ClusterNotary {
    /// Signs for the node `origin` what all nodes shipped to a store; `None`: nothing is shared there.
    pub fn new(store: &Store, keys: Arc<KeyRing>, clock: Arc<dyn Clock>, origin: String) -> Option<Self> {
        Some(Self { table: store.table(TABLE), archive: store.archive()?, keys, clock, origin })
    }

    /// Returns the newest checkpoint that is kept.
    ///
    /// # Errors
    /// When the store fails.
    pub fn newest(&self) -> Result<Option<ClusterCheckpoint>, StoreError> {
        Ok(self.newest_kept()?.and_then(|(_, written)| ClusterCheckpoint::read(written).ok()))
    }

    fn newest_kept(&self) -> Result<Option<(u64, Written)>, StoreError> {
        Ok(self.table.list(&KeyRange::all(), Order::Descending, 1)?.into_iter().next())
    }

    /// Signs and keeps a checkpoint where one is due, as long as tables are at the versions they are `expected` at;
    /// returns it.
    ///
    /// # Errors
    /// When the store fails, or a table has another version.
    pub fn keep(&self, expected: &[(&str, u64)]) -> Result<Option<ClusterCheckpoint>, StoreError> {
        let (last_key, newest) = self.newest_kept()?.unzip();
        let newest = newest.and_then(|written| ClusterCheckpoint::read(written).ok());
        let now = self.clock.now();
        let age = |before: &ClusterCheckpoint| now.duration_since(before.at).unsigned_abs();
        let nodes = self.anchors()?;
        let is_enough = |before: &ClusterCheckpoint| {
            let is_fresh = before.origin == self.origin && age(before) < EVERY;
            before.nodes == nodes || (is_fresh && before.names_all(&nodes))
        };
        if nodes.is_empty() || newest.as_ref().is_some_and(is_enough) {
            return Ok(None);
        }
        let signed = self.seal(nodes);
        let mut batch = Batch::default();
        expected.iter().for_each(|(table, version)| batch.expect(table, *version));
        // The clock of whoever signed before may have been ahead.
        let key = (now.as_millisecond().max(0) as u64).max(last_key.map_or(0, |key| key + 1));
        self.table.put_in(&mut batch, &key, &signed.written())?;
        for (old, _) in
            self.table.list(&KeyRange::all(), Order::Descending, usize::MAX)?.iter().skip(CHECKPOINTS_MAX)
        {
            self.table.delete_in(&mut batch, old);
        }
        batch.quietly();
        self.table.store().commit(&batch)?;
        Ok(Some(signed))
    }

    fn anchors(&self) -> Result<Vec<Anchor>, StoreError> {
        let heads = self.archive.heads()?.into_iter().filter(|head| head.sequence > 0);
        let anchor = |head: ArchiveHead| Anchor {
            node: head.node,
            sequence: head.sequence,
            last_id: head.id,
            last_hash: Hash(head.hash),
        };
        Ok(heads.map(anchor).collect())
    }

    fn seal(&self, nodes: Vec<Anchor>) -> ClusterCheckpoint {
        let active = self.keys.active();
        let unsigned = ClusterCheckpoint {
            origin: self.origin.clone(),
            at: self.clock.now(),
            nodes,
            key_id: active.id,
            public_key: URL_SAFE_NO_PAD.encode(active.key.public()),
            signature: Vec::new(),
        };
        ClusterCheckpoint { signature: active.key.sign_bytes(&unsigned.statement()), ..unsigned }
    }
}

/// Reads a file of checkpoints, of one node's chain and of several's, one JSON object a line; a last line that never
/// became whole is left out.
///
/// # Errors
/// The file cannot be read, or a line of it is no checkpoint.
pub fn checkpoint_lines(path: &Path) -> io::Result<(Vec<Checkpoint>, Vec<ClusterCheckpoint>)> {
    let (mut of_one, mut of_all) = (Vec::new(), Vec::new());
    let text = std::fs::read_to_string(path)?;
    let is_whole = text.ends_with('\n');
    let count = text.lines().count();
    for (number, line) in (1..).zip(text.lines()) {
        match (Checkpoint::from_line(line), ClusterCheckpoint::from_line(line)) {
            (Ok(checkpoint), _) => of_one.push(checkpoint),
            (_, Ok(checkpoint)) => of_all.push(checkpoint),
            _ if number == count && !is_whole => {}
            _ => return Err(io::Error::other(format!("line {number} is no checkpoint"))),
        }
    }
    Ok((of_one, of_all))
}

/// Returns every checkpoint that is kept in a store, oldest first. Blocks.
///
/// # Errors
/// When the store fails.
pub fn kept_checkpoints(store: &Store) -> Result<Vec<ClusterCheckpoint>, StoreError> {
    let table: Table<u64, Written> = store.table(TABLE);
    let all = table.list(&KeyRange::all(), Order::Ascending, usize::MAX)?;
    Ok(all.into_iter().filter_map(|(_, written)| ClusterCheckpoint::read(written).ok()).collect())
}
