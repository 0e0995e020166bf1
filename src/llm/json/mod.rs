//! Reads a JSON body as the strictest decoder would, and remembers where every string sits.
//!
//! Two decoders that disagree about a body are a hole in a gateway: one reads what was judged, the other what was
//! meant. So [`walk`] accepts only what every decoder reads alike (I-JSON, RFC 7493, and a little less) and yields
//! all strings, keys included, with their byte ranges, so that an edit can be spliced into the original bytes.

pub mod escape;
mod extent;
pub mod fault;
mod keys;
pub mod path;
mod walk;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

pub use self::escape::HALF_BYTES;
pub use self::escape::Halves;
pub use self::escape::RawCursor;
pub use self::escape::escape_into;
pub use self::escape::escaped;
pub use self::escape::raw_range;
pub use self::fault::JsonFault;
pub use self::fault::JsonProblem;
pub(crate) use self::keys::fold;
pub(crate) use self::keys::folded_hash;
pub use self::path::Path;
pub use self::path::Segment;
pub use self::walk::walk;
pub use self::walk::walk_event;

/// How much of a body the walker puts up with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonLimits {
    /// Objects and arrays inside one another.
    pub depth_max: usize,
    /// Strings, keys included.
    pub strings_max: usize,
    /// Members, and array elements that are strings, objects or arrays.
    pub nodes_max: usize,
}

impl JsonLimits {
    /// The limits of a request or response body.
    pub const STRICT: Self = Self { depth_max: 64, strings_max: 100_000, nodes_max: 400_000 };
}

/// Numbers of so many digits before the point may name somebody, a card or an account.
pub const LONG_DIGITS_MIN: usize = 9;

/// A number that may name somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongNumber {
    /// Its place in the document.
    pub node: NodeId,
    /// All of it, in bytes of the body.
    pub raw: Range<usize>,
    /// Its digits behind a sign and before a point or an exponent.
    pub digits: Range<usize>,
}

/// A value's place in its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// The outermost value.
    pub const ROOT: Self = Self(0);

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// One string of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonString {
    /// Its bytes in the body, between the quotes.
    pub raw: Range<usize>,
    /// Whether it has escapes, so that its text differs from its bytes.
    pub escaped: bool,
    /// Whether it names a member.
    pub key: bool,
    /// The value it is, or, for a key, the value it names.
    pub node: NodeId,
}

/// The last step to a value.
pub(crate) enum StepView<'a> {
    /// None: it is the outermost.
    Root,
    /// Into a member.
    Key(Cow<'a, [u8]>),
    /// Into an element.
    Index(u32),
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Object,
    Array,
    /// Its place among the strings.
    String(u32),
    /// Its bytes in the body.
    Number(u32, u32),
    Bool(bool),
    Null,
}

/// How a value is reached from its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Root,
    /// The key's place among the strings.
    Key(u32),
    Index(u32),
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) parent: u32,
    /// The first node after this one and everything in it.
    pub(crate) end: u32,
    pub(crate) step: Step,
    pub(crate) value: Value,
}

/// A body that was read to its end: all strings in order, and the values that hold them.
///
/// Booleans, nulls and numbers directly in an array are checked but not kept, long whole numbers aside: nothing asks for
/// them.
#[derive(Clone, Debug)]
pub struct Document {
    /// Every string, in the order of the body.
    pub strings: Vec<JsonString>,
    pub(crate) nodes: Vec<Node>,
}

impl Document {
    /// Returns a string's text: its bytes, or a copy with the escapes undone.
    pub fn text<'a>(&self, body: &'a [u8], string: &JsonString) -> Cow<'a, [u8]> {
        escape::unescaped(body, string)
    }

    /// Returns the value reached by keys, and by positions in arrays (`["choices", "0", "delta"]`).
    pub fn find(&self, body: &[u8], path: &[&str]) -> Option<NodeId> {
        path.iter().try_fold(NodeId::ROOT, |node, step| self.child(body, node, step))
    }

    /// Returns the member of that name, or the element at that position.
    pub fn child(&self, body: &[u8], node: NodeId, step: &str) -> Option<NodeId> {
        self.children(node).find(|child| match self.nodes.get(child.index()).map(|node| node.step) {
            Some(Step::Key(key)) => {
                self.strings.get(key as usize).is_some_and(|key| self.text(body, key) == step.as_bytes())
            }
            Some(Step::Index(index)) => step.parse() == Ok(index),
            Some(Step::Root) | None => false,
        })
    }

    /// Returns the values directly in an object or array, in order.
    pub fn children(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let end = self.nodes.get(node.index()).map_or(0, |node| node.end);
        let mut next = node.0.saturating_add(1);
        std::iter::from_fn(move || {
            let child = (next < end).then_some(NodeId(next))?;
            next = self.nodes.get(child.index())?.end;
            Some(child)
        })
    }

    /// Returns the object or array that holds a value.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.nodes.get(node.index()).filter(|node| node.step != Step::Root).map(|node| NodeId(node.parent))
    }

    /// Tells whether a value is an object.
    pub fn is_object(&self, node: NodeId) -> bool {
        self.value(node) == Some(Value::Object)
    }

    /// Tells whether a value is an array.
    pub fn is_array(&self, node: NodeId) -> bool {
        self.value(node) == Some(Value::Array)
    }

    /// Tells whether a value is a number, a truth value or `null`: it holds no text.
    pub fn is_textless(&self, node: NodeId) -> bool {
        matches!(self.value(node), Some(Value::Number(..) | Value::Bool(_) | Value::Null))
    }

    /// Tells whether a value is there and is not `null`.
    pub fn is_set(&self, node: NodeId) -> bool {
        self.value(node).is_some_and(|value| value != Value::Null)
    }

    /// Returns the string that a value is.
    pub fn string(&self, node: NodeId) -> Option<&JsonString> {
        match self.value(node)? {
            Value::String(index) => self.strings.get(index as usize),
            Value::Object | Value::Array | Value::Number(..) | Value::Bool(_) | Value::Null => None,
        }
    }

    /// Returns the text that a value is.
    pub fn str_of<'a>(&self, body: &'a [u8], node: NodeId) -> Option<Cow<'a, str>> {
        match self.text(body, self.string(node)?) {
            Cow::Borrowed(text) => std::str::from_utf8(text).ok().map(Cow::Borrowed),
            Cow::Owned(text) => String::from_utf8(text).ok().map(Cow::Owned),
        }
    }

    /// Returns the number that a value is, as it is written.
    pub fn number_text<'a>(&self, body: &'a [u8], node: NodeId) -> Option<&'a str> {
        match self.value(node)? {
            Value::Number(start, end) => std::str::from_utf8(body.get(start as usize..end as usize)?).ok(),
            Value::Object | Value::Array | Value::String(_) | Value::Bool(_) | Value::Null => None,
        }
    }

    /// Returns the numbers of at least [`LONG_DIGITS_MIN`] digits before the point, in order.
    pub fn long_numbers<'a>(&'a self, body: &'a [u8]) -> impl Iterator<Item = LongNumber> + 'a {
        let nodes = self.nodes.iter().enumerate();
        let numbers = nodes.filter_map(|(at, node)| match node.value {
            Value::Number(start, end) => Some((NodeId(at as u32), start as usize..end as usize)),
            Value::Object | Value::Array | Value::String(_) | Value::Bool(_) | Value::Null => None,
        });
        numbers.filter_map(|(node, raw)| {
            let digits = long_digits(body.get(raw.clone())?)?;
            let digits = raw.start + digits.start..raw.start + digits.end;
            Some(LongNumber { node, raw, digits })
        })
    }

    /// Returns the truth value that a value is.
    pub fn bool_of(&self, node: NodeId) -> Option<bool> {
        match self.value(node)? {
            Value::Bool(truth) => Some(truth),
            Value::Object | Value::Array | Value::String(_) | Value::Number(..) | Value::Null => None,
        }
    }

    /// Returns the text at a path.
    pub fn str_at<'a>(&self, body: &'a [u8], path: &[&str]) -> Option<Cow<'a, str>> {
        self.str_of(body, self.find(body, path)?)
    }

    /// Returns the truth value at a path.
    pub fn bool_at(&self, body: &[u8], path: &[&str]) -> Option<bool> {
        self.bool_of(self.find(body, path)?)
    }

    /// Returns the number at a path.
    pub fn number_at(&self, body: &[u8], path: &[&str]) -> Option<f64> {
        self.number_text(body, self.find(body, path)?)?.parse().ok()
    }

    /// Returns the whole number, zero or more, at a path.
    pub fn u64_at(&self, body: &[u8], path: &[&str]) -> Option<u64> {
        self.number_text(body, self.find(body, path)?)?.parse().ok()
    }

    /// Returns the name of the member that a value is.
    pub fn key_of<'a>(&self, body: &'a [u8], node: NodeId) -> Option<Cow<'a, str>> {
        match self.step(body, node) {
            StepView::Key(Cow::Borrowed(key)) => std::str::from_utf8(key).ok().map(Cow::Borrowed),
            StepView::Key(Cow::Owned(key)) => String::from_utf8(key).ok().map(Cow::Owned),
            StepView::Root | StepView::Index(_) => None,
        }
    }

    /// Returns how a value is reached, outermost step first.
    pub fn path<'a>(&self, body: &'a [u8], node: NodeId) -> Path<'a> {
        path::of(self, body, node)
    }

    /// Returns the last step to a value.
    pub(crate) fn step<'a>(&self, body: &'a [u8], node: NodeId) -> StepView<'a> {
        match self.nodes.get(node.index()).map_or(Step::Root, |node| node.step) {
            Step::Root => StepView::Root,
            Step::Index(index) => StepView::Index(index),
            Step::Key(key) => match self.strings.get(key as usize) {
                Some(key) => StepView::Key(self.text(body, key)),
                None => StepView::Root,
            },
        }
    }

    fn value(&self, node: NodeId) -> Option<Value> {
        self.nodes.get(node.index()).map(|node| node.value)
    }
}

/// Returns where a number, as it is written, has its digits before the point, if it has [`LONG_DIGITS_MIN`] there.
fn long_digits(number: &[u8]) -> Option<Range<usize>> {
    let start = usize::from(number.first() == Some(&b'-'));
    let count = number.iter().skip(start).take_while(|byte| byte.is_ascii_digit()).count();
    (count >= LONG_DIGITS_MIN).then_some(start..start + count)
}
