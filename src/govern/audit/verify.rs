//! Verifies a journal or an export without the gateway, and without its keys: whoever has a copy can.
//!
//! What is found: entries that were edited, taken out, put in or moved (the chain), bytes that were changed anywhere
//! (sums of frames; of an export its signature), an end that was cut off and a history that was written anew (both only
//! against a checkpoint: the ones kept beside the journal, one that seals an export, or one from elsewhere).
//!
//! What is not: a history that was cut or written anew together with every checkpoint there is. Whether a checkpoint
//! was signed by *this* gateway only a set of trusted keys tells.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::io::BufRead;
use std::os::unix::fs::FileExt;
use std::path::Path;

use jiff::Timestamp;
use sha2::Digest;
use sha2::Sha256;

use super::chain::ChainCheck;
use super::chain::ChainFault;
use super::chain::Hash;
use super::checkpoint::CHECKPOINTS_FILE;
use super::checkpoint::Checkpoint;
use super::cluster_checkpoint::ClusterCheckpoint;
use super::export::ExportHead;
use super::export::Line;
use super::segment;
use super::segment::HEADER_BYTES;
use super::segment::Header;
use super::segment::Step;
use super::stored;
use crate::id::Ulid;

/// The longest line of an export, in bytes.
const LINE_BYTES_MAX: u64 = 4 << 20;
const SEALED: &str = "{\"checkpoint\":";

/// What may sign checkpoints, and which ones the copy has to hold to.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// The public keys (`x` of their JWKs); empty: every signature that is one counts.
    pub keys: Vec<String>,
    /// Checkpoints from elsewhere.
    pub checkpoints: Vec<Checkpoint>,
    /// Checkpoints of several nodes' chains from elsewhere.
    pub clusters: Vec<ClusterCheckpoint>,
}

/// What was found sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// How many entries.
    pub entries: u64,
    /// The first and the last one.
    pub span: Option<(Ulid, Ulid)>,
    /// The hash of the last one.
    pub last_hash: Option<Hash>,
    /// How many checkpoints agree.
    pub checkpoints: usize,
    /// Bytes at the end of a journal that are no whole entry: what a crash leaves, or a gateway that is writing.
    pub torn_bytes: u64,
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It cannot be read: nothing is said about it.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// It is neither a journal nor an export.
    #[error("it is neither a journal nor an export of one")]
    Foreign,
    /// The chain is broken.
    #[error(transparent)]
    Chain(#[from] ChainFault),
    /// A segment of the journal is damaged, or was taken out.
    #[error("segment {sequence} is {what}")]
    Segment {
        /// Which one.
        sequence: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// An entry that was shipped is damaged, or was taken out.
    #[error("entry {sequence} of what was shipped is {what}")]
    Shipped {
        /// Its number.
        sequence: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// One of several nodes' chains is at fault.
    #[error("the chain of node {node}: {fault}")]
    Node {
        /// The node.
        node: String,
        /// What is wrong.
        fault: Box<Fault>,
    },
    /// A line of an export is damaged.
    #[error("line {0} is not what was written")]
    Line(u64),
    /// The end is missing.
    #[error("the end is missing: it was cut off, or never written")]
    Truncated,
    /// A checkpoint names an entry that should be there.
    #[error("it ends before entry {0}, which a checkpoint names: the end was cut off")]
    EndsBefore(Ulid),
    /// It begins after every entry that a checkpoint from elsewhere names.
    #[error("it begins after entry {0}, the newest that a given checkpoint names: give a younger one")]
    BeginsAfter(Ulid),
    /// A checkpoint and the chain tell different histories.
    #[error("a checkpoint names entry {0} with another hash: the history was written anew")]
    Forked(Ulid),
    /// A checkpoint is not signed, or by a key that is not trusted.
    #[error("the checkpoint of entry {0} is not signed by a trusted key")]
    Unsigned(Ulid),
    /// A checkpoint of several chains is not signed, or by a key that is not trusted.
    #[error("the cluster checkpoint of {0} is not signed by a trusted key")]
    UnsignedCluster(Timestamp),
}

/// Verifies a journal's directory (or the state directory above it) or the file of an export.
///
/// # Errors
/// The first fault.
pub fn verify(path: &Path, trust: &Trust) -> Result<Verified, Fault> {
    if !path.is_dir() {
        return export(path, trust);
    }
    match segment::list(path)?.is_empty() {
        true if path.join("audit").is_dir() => journal(&path.join("audit"), trust),
        true => Err(Fault::Foreign),
        false => journal(path, trust),
    }
}

/// A chain as it is gone through, and the checkpoints it has to meet.
pub(super) struct Walk {
    pub(super) check: ChainCheck,
    first: Option<Ulid>,
    last: Option<Ulid>,
    wanted: BTreeMap<Ulid, Hash>,
    /// The entries that checkpoints from elsewhere name, as long as none of these was met.
    elsewhere: BTreeSet<Ulid>,
    met: usize,
}

impl Walk {
    fn begin(check: ChainCheck, checkpoints: &[Checkpoint], trust: &Trust) -> Result<Self, Fault> {
        let mut anchors = Vec::new();
        for checkpoint in checkpoints.iter().chain(&trust.checkpoints) {
            ensure_trusted(checkpoint, trust)?;
            anchors.push((checkpoint.last_id, checkpoint.last_hash));
        }
        let elsewhere = trust.checkpoints.iter().map(|checkpoint| checkpoint.last_id).collect();
        Self::meeting(check, &anchors, elsewhere)
    }

    /// Begins the chain of one of several nodes, which has to meet the given checkpoints that are about it, and those
    /// of all nodes that are `kept`.
    pub(super) fn of_node(
        check: ChainCheck,
        node: &str,
        kept: &[ClusterCheckpoint],
        trust: &Trust,
    ) -> Result<Self, Fault> {
        let (mut anchors, mut elsewhere) = (Vec::new(), BTreeSet::new());
        for checkpoint in trust.checkpoints.iter().filter(|checkpoint| checkpoint.origin == node) {
            ensure_trusted(checkpoint, trust)?;
            anchors.push((checkpoint.last_id, checkpoint.last_hash));
            elsewhere.insert(checkpoint.last_id);
        }
        for (checkpoint, is_elsewhere) in
            kept.iter().map(|it| (it, false)).chain(trust.clusters.iter().map(|it| (it, true)))
        {
            let is_known = trust.keys.is_empty() || trust.keys.contains(&checkpoint.public_key);
            if !is_known || !checkpoint.is_signed() {
                return Err(Fault::UnsignedCluster(checkpoint.at));
            }
            for anchor in checkpoint.nodes.iter().filter(|anchor| anchor.node == node) {
                anchors.push((anchor.last_id, anchor.last_hash));
                elsewhere.extend(is_elsewhere.then_some(anchor.last_id));
            }
        }
        Self::meeting(check, &anchors, elsewhere)
    }

    fn meeting(
        check: ChainCheck,
        anchors: &[(Ulid, Hash)],
        elsewhere: BTreeSet<Ulid>,
    ) -> Result<Self, Fault> {
        let mut wanted = BTreeMap::new();
        for (id, hash) in anchors {
            if wanted.insert(*id, *hash).is_some_and(|other| other != *hash) {
                return Err(Fault::Forked(*id));
            }
        }
        Ok(Self { check, first: None, last: None, wanted, elsewhere, met: 0 })
    }

    pub(super) fn step(
        &mut self,
        id: Ulid,
        previous: Hash,
        hash: Hash,
        canonical: &[u8],
    ) -> Result<(), Fault> {
        self.check.push(id, previous, hash, canonical)?;
        if self.first.is_none() {
            // What was dropped by retention is no part of the copy.
            self.wanted = self.wanted.split_off(&id);
        }
        self.first.get_or_insert(id);
        self.last = Some(id);
        while let Some((wanted, expected)) = self.wanted.first_key_value().map(|(id, hash)| (*id, *hash)) {
            if wanted > id {
                break;
            }
            if wanted < id || expected != hash {
                return Err(Fault::Forked(wanted));
            }
            self.wanted.remove(&wanted);
            if self.elsewhere.contains(&wanted) {
                self.elsewhere.clear();
            }
            self.met += 1;
        }
        Ok(())
    }

    /// Ends a chain of which retention has dropped everything, up to that entry.
    pub(super) fn end_dropped(mut self, last: Ulid, hash: Hash) -> Result<Verified, Fault> {
        self.wanted = self.wanted.split_off(&last);
        match self.wanted.remove(&last) {
            Some(expected) if expected != hash => return Err(Fault::Forked(last)),
            Some(_) => {
                self.elsewhere.clear();
                self.met += 1;
            }
            None => {}
        }
        self.end(0)
    }

    pub(super) fn end(self, torn_bytes: u64) -> Result<Verified, Fault> {
        if let Some(missing) = self.wanted.keys().next() {
            return Err(Fault::EndsBefore(*missing));
        }
        if let Some(newest) = self.elsewhere.last() {
            return Err(Fault::BeginsAfter(*newest));
        }
        Ok(Verified {
            entries: self.check.entries(),
            span: self.first.zip(self.last),
            last_hash: self.check.last_hash().filter(|_| self.last.is_some()),
            checkpoints: self.met,
            torn_bytes,
        })
    }
}

fn ensure_trusted(checkpoint: &Checkpoint, trust: &Trust) -> Result<(), Fault> {
    let is_known = trust.keys.is_empty() || trust.keys.contains(&checkpoint.public_key);
    if is_known && checkpoint.is_signed() { Ok(()) } else { Err(Fault::Unsigned(checkpoint.last_id)) }
}

fn journal(directory: &Path, trust: &Trust) -> Result<Verified, Fault> {
    let kept = directory.join(CHECKPOINTS_FILE);
    let checkpoints = if kept.exists() { Checkpoint::read_all(&kept)? } else { Vec::new() };
    let sequences = segment::list(directory)?;
    let mut walk: Option<Walk> = None;
    let mut torn_bytes = 0;
    for (at, sequence) in sequences.iter().enumerate() {
        let fault = |what| Fault::Segment { sequence: *sequence, what };
        let file = File::open(segment::path(directory, *sequence))?;
        let header = segment::read_header(&file)?.filter(|header| header.sequence == *sequence);
        let header = header.ok_or_else(|| fault("damaged in its header"))?;
        let end = match sequences.get(at + 1) {
            Some(next) if *next != sequence + 1 => return Err(fault("not followed by the next one")),
            Some(next) => {
                let next_file = File::open(segment::path(directory, *next))?;
                let header = segment::read_header(&next_file)?;
                Some(header.ok_or_else(|| fault("not followed by a whole one"))?.previous_end)
            }
            None => None,
        };
        let walk = match &mut walk {
            Some(walk) => {
                if walk.check.last_hash().is_some_and(|last| last != header.previous_hash) {
                    return Err(fault("not the one that followed"));
                }
                walk
            }
            none => none.insert(Walk::begin(ChainCheck::after(header.previous_hash), &checkpoints, trust)?),
        };
        torn_bytes = frames(&file, &header, end, walk)?;
    }
    walk.ok_or(Fault::Foreign)?.end(torn_bytes)
}

/// Goes through the frames of one segment up to its end; returns how many bytes of the last one are left over.
fn frames(file: &File, header: &Header, end: Option<u64>, walk: &mut Walk) -> Result<u64, Fault> {
    let fault = |what| Fault::Segment { sequence: header.sequence, what };
    let length = file.metadata()?.len();
    let until = end.unwrap_or(length);
    if until > length {
        return Err(fault("shorter than it was"));
    }
    let size = usize::try_from(until.saturating_sub(HEADER_BYTES)).map_err(|_| fault("too large"))?;
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, HEADER_BYTES)?;
    let mut rest = bytes.as_slice();
    while let Step::Frame { payload, bytes } = segment::step(rest) {
        let (previous, hash, canonical) = stored::split(payload).map_err(|_| fault("damaged"))?;
        let id = stored::outline(payload).map_err(|_| fault("damaged"))?.id;
        walk.step(id, previous, hash, canonical)?;
        rest = rest.get(bytes..).unwrap_or_default();
    }
    match (rest.is_empty(), end) {
        (true, _) => Ok(0),
        (false, Some(_)) => Err(fault("damaged")),
        // A crash tears the last frame; a whole one behind the damage was not written by one.
        (false, None) if has_frame(rest) => Err(fault("damaged")),
        (false, None) => Ok(rest.len() as u64),
    }
}

/// Tells whether a whole frame begins anywhere behind the first byte.
fn has_frame(bytes: &[u8]) -> bool {
    let tails = (1..bytes.len()).filter_map(|from| bytes.get(from..));
    tails.into_iter().any(|tail| matches!(segment::step(tail), Step::Frame { .. }))
}

fn export(path: &Path, trust: &Trust) -> Result<Verified, Fault> {
    let mut reader = io::BufReader::new(File::open(path)?);
    let (mut line, mut number, mut digest) = (Vec::new(), 1, Sha256::new());
    read_line(&mut reader, &mut line)?;
    let head: ExportHead = serde_json::from_slice(&line).map_err(|_| Fault::Foreign)?;
    if !(1..=2).contains(&head.portcullis_audit_export) || line.last() != Some(&b'\n') {
        return Err(Fault::Foreign);
    }
    let mut walks = Walks::of(&head, trust)?;
    loop {
        digest.update(&line);
        number += 1;
        if read_line(&mut reader, &mut line)? == 0 {
            return Err(Fault::Truncated);
        }
        if line.starts_with(SEALED.as_bytes()) {
            break;
        }
        let wrong = || Fault::Line(number);
        let read: Line<'_> = serde_json::from_slice(&line).map_err(|_| wrong())?;
        let (previous, hash) = read.hashes().ok_or_else(wrong)?;
        let canonical = read.record.get().as_bytes();
        let id = stored::id_of(canonical).map_err(|_| wrong())?;
        walks.step(read.node.as_deref(), (id, previous, hash), canonical)?;
    }
    let seal =
        std::str::from_utf8(&line).ok().and_then(|text| text.strip_prefix(SEALED)?.strip_suffix("}\n"));
    let seal = seal.ok_or(Fault::Truncated)?;
    let seal = Checkpoint::from_line(seal).map_err(|_| Fault::Line(number))?;
    ensure_trusted(&seal, trust)?;
    if read_line(&mut reader, &mut line)? != 0 || seal.origin != head.origin {
        return Err(Fault::Line(number + 1));
    }
    if seal.sha256 != Some(Hash(digest.finalize().into())) {
        return Err(Fault::Line(number));
    }
    let mut verified = walks.end()?;
    verified.checkpoints += 1;
    Ok(verified)
}

/// The chains of an export: one, or one for each node.
struct Walks<'a> {
    head: &'a ExportHead,
    trust: &'a Trust,
    by_node: BTreeMap<String, Walk>,
}

impl<'a> Walks<'a> {
    fn of(head: &'a ExportHead, trust: &'a Trust) -> Result<Self, Fault> {
        let mut by_node = BTreeMap::new();
        if head.portcullis_audit_export == 1 {
            by_node.insert(String::new(), Walk::begin(ChainCheck::default(), &[], trust)?);
        }
        Ok(Self { head, trust, by_node })
    }

    fn step(
        &mut self,
        node: Option<&str>,
        (id, previous, hash): (Ulid, Hash, Hash),
        canonical: &[u8],
    ) -> Result<(), Fault> {
        let node = if self.head.portcullis_audit_export == 1 { "" } else { node.ok_or(Fault::Foreign)? };
        if !self.by_node.contains_key(node) {
            let walk = Walk::of_node(ChainCheck::default(), node, &[], self.trust)?;
            self.by_node.insert(node.to_owned(), walk);
        }
        let Some(walk) = self.by_node.get_mut(node) else { return Err(Fault::Foreign) };
        if self.head.filtered {
            walk.check.skip();
        }
        walk.step(id, previous, hash, canonical).map_err(|fault| of_node(node, fault))
    }

    fn end(self) -> Result<Verified, Fault> {
        let mut all = Verified { entries: 0, span: None, last_hash: None, checkpoints: 0, torn_bytes: 0 };
        for (node, walk) in self.by_node {
            let one = walk.end(0).map_err(|fault| of_node(&node, fault))?;
            all.entries += one.entries;
            all.checkpoints += one.checkpoints;
            let newest = all.span.zip(one.span).is_none_or(|(known, found)| found.1 > known.1);
            all.last_hash = if newest { one.last_hash } else { all.last_hash };
            all.span = match (all.span, one.span) {
                (Some(known), Some(found)) => Some((known.0.min(found.0), known.1.max(found.1))),
                (known, found) => known.or(found),
            };
        }
        Ok(all)
    }
}

/// Names the node whose chain is at fault, where there are several.
fn of_node(node: &str, fault: Fault) -> Fault {
    match node.is_empty() {
        true => fault,
        false => Fault::Node { node: node.to_owned(), fault: Box::new(fault) },
    }
}

fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    line.clear();
    let read = io::Read::take(reader, LINE_BYTES_MAX).read_until(b'\n', line)?;
    Ok(read)
}

#[cfg(test)]
mod tests;
