//! Verifies what was shipped, node by node: the same chains that the journals have.
//!
//! Besides what [`crate::govern::audit::verify`] finds: entries that were taken out anywhere, their numbers having no
//! holes; and entries that are found by something else than what they say.

use super::stored;
use crate::govern::audit::ClusterCheckpoint;
use crate::govern::audit::chain::ChainCheck;
use crate::govern::audit::chain::Hash;
use crate::govern::audit::verify::Fault;
use crate::govern::audit::verify::Trust;
use crate::govern::audit::verify::Verified;
use crate::govern::audit::verify::Walk;
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

/// Verifies the chains of all nodes; each has to meet the checkpoints of all nodes that are `kept`. Blocks for as long
/// as it takes to read them.
///
/// # Errors
/// The database fails.
pub fn verify_shipped(
    archive: &Archive,
    kept: &[ClusterCheckpoint],
    trust: &Trust,
) -> Result<Vec<ShippedChain>, StoreError> {
    let mut chains = Vec::new();
    for head in archive.heads()? {
        let found = verify_node(archive, &head, kept, trust)?;
        chains.push(ShippedChain { node: head.node, sequence: head.sequence, found });
    }
    Ok(chains)
}

fn verify_node(
    archive: &Archive,
    head: &ArchiveHead,
    kept: &[ClusterCheckpoint],
    trust: &Trust,
) -> Result<Result<Verified, Fault>, StoreError> {
    if head.sequence == head.floor {
        // Retention has dropped all of it.
        let nothing = Verified { entries: 0, span: None, last_hash: None, checkpoints: 0, torn_bytes: 0 };
        return Ok(Ok(nothing));
    }
    let mut walk = match Walk::of_node(ChainCheck::after(Hash(head.floor_hash)), &head.node, kept, trust) {
        Ok(walk) => walk,
        Err(fault) => return Ok(Err(fault)),
    };
    let mut at = head.floor;
    while at < head.sequence {
        let rows = archive.rows(&head.node, at, ROWS_AT_ONCE)?;
        if rows.is_empty() {
            return Ok(Err(Fault::Shipped { sequence: at + 1, what: "missing" }));
        }
        for row in rows.iter().take_while(|row| row.sequence <= head.sequence) {
            if let Err(fault) = step(&mut walk, at + 1, row) {
                return Ok(Err(fault));
            }
            at += 1;
        }
    }
    if walk.check.last_hash() != Some(Hash(head.hash)) {
        return Ok(Err(Fault::Shipped {
            sequence: head.sequence,
            what: "not the newest one that was shipped",
        }));
    }
    Ok(walk.end(0))
}

fn step(walk: &mut Walk, sequence: u64, row: &ArchiveRow) -> Result<(), Fault> {
    let fault = |what| Fault::Shipped { sequence, what };
    if row.sequence != sequence {
        return Err(fault("missing"));
    }
    let (previous, hash, canonical) = stored::split(&row.payload).map_err(|_| fault("damaged"))?;
    let says = stored::row(sequence, &row.payload).map_err(|_| fault("damaged"))?;
    if says.as_ref() != Some(row) {
        return Err(fault("found by something else than what it says"));
    }
    walk.step(row.id, previous, hash, canonical)
}
