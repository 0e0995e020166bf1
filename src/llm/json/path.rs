//! How a value is reached from the outside: keys and positions.

use std::borrow::Cow;
use std::fmt;

use smallvec::SmallVec;

use super::Document;
use super::NodeId;
use super::Step;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment<'a> {
    /// Into the member of that name.
    Key(Cow<'a, str>),
    /// Into the element at that position.
    Index(usize),
}

/// The steps to a value, outermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path<'a> {
    /// The steps.
    pub segments: SmallVec<[Segment<'a>; 8]>,
}

/// Writes `messages[0].content`.
impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.segments.iter().enumerate().try_for_each(|(at, segment)| match segment {
            Segment::Key(key) if at == 0 => f.write_str(key),
            Segment::Key(key) => write!(f, ".{key}"),
            Segment::Index(index) => write!(f, "[{index}]"),
        })
    }
}

/// Collects the steps by going up from a node.
pub(super) fn of<'a>(document: &Document, body: &'a [u8], node: NodeId) -> Path<'a> {
    let mut path = Path::default();
    let mut at = document.nodes.get(node.index());
    while let Some(node) = at {
        match node.step {
            Step::Root => break,
            Step::Index(index) => path.segments.push(Segment::Index(index as usize)),
            Step::Key(key) => path.segments.push(Segment::Key(key_text(document, body, key))),
        }
        at = document.nodes.get(node.parent as usize);
    }
    path.segments.reverse();
    path
}

fn key_text<'a>(document: &Document, body: &'a [u8], key: u32) -> Cow<'a, str> {
    let Some(string) = document.strings.get(key as usize) else { return Cow::Borrowed("") };
    match document.text(body, string) {
        Cow::Borrowed(text) => String::from_utf8_lossy(text),
        Cow::Owned(text) => Cow::Owned(String::from_utf8_lossy(&text).into_owned()),
    }
}
