//! Verifies what was shipped, node by node: the same chains that the journals have.
//!
//! Besides what [`crate::govern::audit::verify`] finds: entries that were taken out anywhere, their numbers having no
//! holes; and entries that are found by something else than what they say.

use std::collections::BTreeSet;

use super::stored;
use crate::govern::audit::ClusterCheckpoint;
use crate::govern::audit::chain::ChainCheck;
use crate::govern::audit::chain::Hash;
use crate::govern::audit::verify::Fault;
use crate::govern::audit::verify::Trust;
use crate::govern::audit::verify::Verified;
use crate::govern::audit::verify::Walk;
use crate::id::Ulid;
use crate::store::StoreError;
use crate::store::archive::Archive;
use crate::store::archive::ArchiveHead;
use crate::store::archive::ArchiveRow;

/// How many entries are read at a time.
const ROWS_AT_ONCE: usize = 1000;

/// A node's chain as it was shipped.
#[derive(Debug)]
pub struct ShippedChain {
    /// The node.
    pub node: String,
    /// The number of its newest entry.
    pub sequence: u64,
    /// What was found.
    pub found: Result<Verified, Fault>,
}

/// Verifies the chains of all nodes; each has to meet the checkpoints of all nodes that are `kept`, and none that a
/// checkpoint names may be missing. Blocks for as long as it takes to read them; `None`: `goes_on`, which is asked before
/// each page, said no.
///
/// # Errors
/// The database fails.
pub fn verify_shipped(
    archive: &Archive,
    kept: &[ClusterCheckpoint],
    trust: &Trust,
    goes_on: &dyn Fn() -> bool,
) -> Result<Option<Vec<ShippedChain>>, StoreError> {
    let mut heads = archive.heads()?;
    let known: BTreeSet<String> = heads.iter().map(|head| head.node.clone()).collect();
    heads.extend(named(kept, trust).into_iter().filter(|node| !known.contains(node)).map(lost));
    let verification = Verification { archive, kept, trust, goes_on };
    let mut chains = Vec::new();
    for head in heads {
        match verification.judge(head) {
            Ok(chain) => chains.push(chain),
            Err(Broken::Store(error)) => return Err(error),
            Err(Broken::Off) => return Ok(None),
        }
    }
    Ok(Some(chains))
}

/// Returns the nodes that checkpoints are about.
fn named(kept: &[ClusterCheckpoint], trust: &Trust) -> BTreeSet<String> {
    let anchors = kept.iter().chain(&trust.clusters).flat_map(|checkpoint| &checkpoint.nodes);
    let origins = trust.checkpoints.iter().map(|checkpoint| checkpoint.origin.clone());
    anchors.map(|anchor| anchor.node.clone()).chain(origins).collect()
}

/// Returns the head of a node of which nothing is left.
fn lost(node: String) -> ArchiveHead {
    ArchiveHead { node, sequence: 0, id: Ulid(0), hash: [0; 32], floor: 0, floor_hash: [0; 32] }
}

/// A verification under way.
struct Verification<'a> {
    archive: &'a Archive,
    kept: &'a [ClusterCheckpoint],
    trust: &'a Trust,
    goes_on: &'a dyn Fn() -> bool,
}

/// Why a verification came to no end.
enum Broken {
    Store(StoreError),
    Off,
}

impl From<StoreError> for Broken {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Verification<'_> {
    /// Judges a chain, anew as often as its beginning was dropped meanwhile: what is gone by then is no fault.
    fn judge(&self, mut head: ArchiveHead) -> Result<ShippedChain, Broken> {
        loop {
            let found = self.walk(&head)?;
            // Of a node that has nothing, nothing was dropped; who asks for its head makes one.
            if found.is_err() && head.sequence > 0 {
                let now = self.archive.head(&head.node)?;
                if now.floor > head.floor {
                    head = now;
                    continue;
                }
            }
            return Ok(ShippedChain { node: head.node, sequence: head.sequence, found });
        }
    }

    fn walk(&self, head: &ArchiveHead) -> Result<Result<Verified, Fault>, Broken> {
        let begins = ChainCheck::after(Hash(head.floor_hash));
        let mut walk = match Walk::of_node(begins, &head.node, self.kept, self.trust) {
            Ok(walk) => walk,
            Err(fault) => return Ok(Err(fault)),
        };
        let fault = |sequence, what| Ok(Err(Fault::Shipped { sequence, what }));
        if head.sequence == head.floor {
            return match head.hash == head.floor_hash {
                true => Ok(walk.end_dropped(head.id, Hash(head.hash))),
                false => fault(head.sequence, "not the newest one that was dropped"),
            };
        }
        let mut at = head.floor;
        while at < head.sequence {
            if !(self.goes_on)() {
                return Err(Broken::Off);
            }
            let rows = self.archive.rows(&head.node, at, ROWS_AT_ONCE)?;
            if rows.is_empty() {
                return fault(at + 1, "missing");
            }
            for row in rows.iter().take_while(|row| row.sequence <= head.sequence) {
                if let Err(fault) = step(&mut walk, at + 1, row) {
                    return Ok(Err(fault));
                }
                at += 1;
            }
        }
        if walk.check.last_hash() != Some(Hash(head.hash)) {
            return fault(head.sequence, "not the newest one that was shipped");
        }
        Ok(walk.end(0))
    }
}

fn step(walk: &mut Walk, sequence: u64, row: &ArchiveRow) -> Result<(), Fault> {
    let fault = |what| Fault::Shipped { sequence, what };
    if row.sequence != sequence {
        return Err(fault("missing"));
    }
    let (previous, hash, canonical) = stored::split(&row.payload).map_err(|_| fault("damaged"))?;
    let mut says = stored::row(sequence, &row.payload).map_err(|_| fault("damaged"))?;
    // One that an older release wrote does not tell when, where its id tells another moment.
    if let Some(says) = says.as_mut().filter(|_| row.recorded_ms.is_none()) {
        says.recorded_ms = None;
    }
    // A row that an older release wrote is given its facets later, or some of them.
    match (says.as_mut(), &row.facets) {
        (Some(says), None) => says.facets = None,
        (Some(ArchiveRow { facets: Some(says), .. }), Some(known)) if known.other_categories.is_none() => {
            says.other_categories = None;
        }
        _ => {}
    }
    if says.as_ref() != Some(row) {
        return Err(fault("found by something else than what it says"));
    }
    walk.step(row.id, previous, hash, canonical)
}
