//! Where names, request ids and detectors occur in a group.
//!
//! A name, an id or a detector is told by the first eight bytes of a SHA-256, its role within the hash. Those of a group are sorted
//! by them into [`PARTS`] values: what is asked for is read from one small value a group, and what is recorded costs
//! the store some values a group, not one an entry. Beside each print lie the kinds of its entries, so that matches are
//! counted without a look at the entries.

use sha2::Digest;
use sha2::Sha256;

use super::kinds::KindNumber;
use super::kinds::KindSet;
use crate::access::keyring::Keyring;
use crate::govern::audit::query::Query;
use crate::govern::audit::stored::Outline;
use crate::id::Ulid;

/// The postings of a group, by the first byte of their prints and by the group.
pub(super) const POSTINGS: &str = "audit_postings";

/// How many values the postings of a group lie in at most.
const PARTS: u64 = 256;

/// The place of an entry in its group.
pub(super) type Place = u16;

/// Says that an entry has a name, an id or a detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Posting {
    print: u64,
    kind: KindNumber,
    place: Place,
}

/// What an entry has a text as.
#[derive(Clone, Copy)]
enum Role {
    /// Whom or what it is about.
    About,
    /// Who did it, where that is somebody else.
    By,
    Request,
    /// What found something.
    Detector,
}

/// What a query asks of names, ids and detectors: of each of these, one of the prints.
pub(super) struct Asked(Vec<Vec<u64>>);

impl Posting {
    /// Returns what an entry is found by.
    pub(super) fn of_entry(
        entry: &Outline<'_>,
        keyring: &Keyring,
        kind: KindNumber,
        place: Place,
    ) -> impl Iterator<Item = Self> {
        let (entity, actor) = (entry.entity(keyring), entry.actor(keyring));
        let by = actor.as_deref().filter(|by| Some(*by) != entity.as_deref());
        let prints = [
            entity.as_deref().map(|token| print_of(Role::About, token)),
            by.map(|token| print_of(Role::By, token)),
            entry.request_id().map(|id| print_of(Role::Request, id)),
        ];
        let mut detectors: Vec<u64> =
            entry.detectors().map(|detector| print_of(Role::Detector, detector)).collect();
        detectors.sort_unstable();
        detectors.dedup();
        let prints = prints.into_iter().flatten().chain(detectors);
        prints.map(move |print| Self { print, kind, place })
    }
}

impl Asked {
    /// Returns what is asked for by a query whose names are tokens.
    pub(super) fn by(query: &Query) -> Self {
        let entity = query.entity.as_deref().map(|token| vec![print_of(Role::About, token)]);
        let subject = query
            .subject
            .as_deref()
            .map(|token| [Role::About, Role::By].map(|role| print_of(role, token)).to_vec());
        let request = query.request_id.as_deref().map(|id| vec![print_of(Role::Request, id)]);
        let detector = query.detector.as_deref().map(|name| vec![print_of(Role::Detector, name)]);
        Self([request, entity, subject, detector].into_iter().flatten().collect())
    }

    /// Returns the prints of each thing that is asked for, one of which an entry must have.
    pub(super) fn all_of(&self) -> &[Vec<u64>] {
        &self.0
    }
}

/// Returns the key of the part of a group in which a print lies.
pub(super) fn key(print: u64, group: Ulid) -> Vec<u8> {
    part_key(part_of(print), group)
}

/// Returns the keys of all parts of a group.
pub(super) fn keys(group: Ulid) -> impl Iterator<Item = Vec<u8>> {
    (0..PARTS).map(move |part| part_key(part as u8, group))
}

/// Returns the parts of a group that are not empty, by their keys: of each print and kind the places, ascending, behind
/// their number.
pub(super) fn parts(group: Ulid, mut postings: Vec<Posting>) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    postings.sort_unstable();
    let parts = postings.chunk_by(|one, next| part_of(one.print) == part_of(next.print));
    let parts: Vec<_> = parts
        .map(|part| {
            let mut bytes = Vec::new();
            for run in part.chunk_by(|one, next| (one.print, one.kind) == (next.print, next.kind)) {
                let Some(Posting { print, kind, .. }) = run.first() else { continue };
                bytes.extend_from_slice(&print.to_be_bytes());
                bytes.extend_from_slice(&kind.to_le_bytes());
                bytes.extend_from_slice(&(run.len() as u16).to_le_bytes());
                run.iter().for_each(|posting| bytes.extend_from_slice(&posting.place.to_le_bytes()));
            }
            let print = part.first().map_or(0, |posting| posting.print);
            (key(print, group), bytes)
        })
        .collect();
    parts.into_iter()
}

/// Counts the entries with a print in the part it lies in; `None`: it cannot be read.
pub(super) fn count(part: &[u8], print: u64, kinds: &KindSet) -> Option<u64> {
    let mut count = 0;
    each_run(part, print, |kind, places| count += if kinds.has(kind) { places.len() as u64 } else { 0 })?;
    Some(count)
}

/// Adds the places of the entries with a print; `None`: the part cannot be read.
pub(super) fn push_places(part: &[u8], print: u64, kinds: &KindSet, found: &mut Vec<Place>) -> Option<()> {
    each_run(part, print, |kind, places| {
        if kinds.has(kind) {
            found.extend(places.iter().map(|place| Place::from_le_bytes(*place)));
        }
    })
}

/// Adds the places of the entries with a print that are not in the store yet.
pub(super) fn push_growing(postings: &[Posting], print: u64, kinds: &KindSet, found: &mut Vec<Place>) {
    let same = postings.iter().filter(|posting| posting.print == print && kinds.has(posting.kind));
    found.extend(same.map(|posting| posting.place));
}

fn print_of(role: Role, text: &str) -> u64 {
    let role = match role {
        Role::About => b"a",
        Role::By => b"b",
        Role::Request => b"r",
        Role::Detector => b"d",
    };
    let hash = Sha256::new().chain_update(role).chain_update(text).finalize();
    hash.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

fn part_of(print: u64) -> u8 {
    let [part, ..] = print.to_be_bytes();
    part
}

fn part_key(part: u8, group: Ulid) -> Vec<u8> {
    [[part].as_slice(), &group.0.to_be_bytes()].concat()
}

/// Shows the runs of a print: the kind, and the bytes of each place.
fn each_run(part: &[u8], print: u64, mut visit: impl FnMut(KindNumber, &[[u8; 2]])) -> Option<()> {
    let mut rest = part;
    while let Some((&[a, b, c, d, e, f, g, h, kind_low, kind_high, low, high], after)) =
        rest.split_first_chunk::<12>()
    {
        let count = usize::from(u16::from_le_bytes([low, high]));
        let (places, after) = after.split_at_checked(count * 2)?;
        rest = after;
        let here = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        if here == print {
            visit(KindNumber::from_le_bytes([kind_low, kind_high]), places.as_chunks::<2>().0);
        }
        if here > print {
            return Some(());
        }
    }
    rest.is_empty().then_some(())
}
