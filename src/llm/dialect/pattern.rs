//! Paths with gaps: `messages[*].content.**`, and globs over request paths.

use std::borrow::Cow;
use std::str::FromStr;

use smallvec::SmallVec;

use crate::llm::json::Document;
use crate::llm::json::NodeId;
use crate::llm::json::StepView;

/// One step of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// That member.
    Key(String),
    /// Any element; its position tells texts apart.
    Each,
    /// Any element; all of them continue one text.
    Run,
    /// Any member.
    AnyKey,
    /// Anything below, the value itself included. Only at the end.
    Below,
}

/// A path with gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PathPattern {
    pub(super) steps: Vec<Wanted>,
}

/// A value and all it sits in, outermost first.
pub(super) struct Ancestry {
    nodes: SmallVec<[NodeId; 12]>,
}

/// Values that a pattern leads to: hardly ever many.
type Places = SmallVec<[NodeId; 4]>;

/// A path pattern that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MalformedPattern;

impl Ancestry {
    /// Returns the way to a value; the document itself is its first stop.
    pub(super) fn of(doc: &Document, node: NodeId) -> Self {
        let mut nodes: SmallVec<[NodeId; 12]> =
            std::iter::successors(Some(node), |node| doc.parent(*node)).collect();
        nodes.reverse();
        Self { nodes }
    }

    /// Returns the way from the innermost value on it that is a whole body in another; all of it, where there is none.
    pub(super) fn within(self, envelopes: &[PathPattern], body: &[u8], doc: &Document) -> Self {
        let around = envelopes.iter().filter(|envelope| envelope.leads_to(body, doc, &self));
        match around.map(|envelope| envelope.steps.len()).max() {
            Some(steps) => Self { nodes: self.nodes.get(steps..).unwrap_or_default().into() },
            None => self,
        }
    }

    /// Returns the value that many steps in.
    pub(super) fn node_at(&self, steps: usize) -> NodeId {
        self.nodes.get(steps).or(self.nodes.last()).copied().unwrap_or(NodeId::ROOT)
    }

    /// Returns the values behind each step.
    pub(super) fn steps(&self) -> &[NodeId] {
        self.nodes.get(1..).unwrap_or_default()
    }

    /// Returns the innermost key on the way.
    pub(super) fn last_key<'a>(&self, body: &'a [u8], doc: &Document) -> Option<Cow<'a, [u8]>> {
        self.nodes.iter().rev().find_map(|node| match doc.step(body, *node) {
            StepView::Key(key) => Some(key),
            StepView::Index(_) | StepView::Root => None,
        })
    }
}

impl PathPattern {
    /// Tells whether a way leads where the pattern points.
    pub(super) fn matches(&self, body: &[u8], doc: &Document, way: &Ancestry) -> bool {
        let steps = way.steps();
        let (exact, open) = match self.steps.split_last() {
            Some((Wanted::Below, exact)) => (exact, true),
            _ => (self.steps.as_slice(), false),
        };
        let fits = if open { steps.len() >= exact.len() } else { steps.len() == exact.len() };
        fits && exact.iter().zip(steps).all(|(wanted, node)| wanted.fits(body, doc, *node))
    }

    /// Tells whether its last step is into the member of a name.
    pub(super) fn ends_in(&self, name: &[u8]) -> bool {
        matches!(self.steps.last(), Some(Wanted::Key(key)) if key.as_bytes() == name)
    }

    /// Tells whether a way leads through where the pattern points, or ends there.
    fn leads_to(&self, body: &[u8], doc: &Document, way: &Ancestry) -> bool {
        let steps = way.steps();
        let fits = |(wanted, node): (&Wanted, &NodeId)| wanted.fits(body, doc, *node);
        steps.len() >= self.steps.len() && self.steps.iter().zip(steps).all(fits)
    }

    /// Returns the values that the pattern points to, in the order of the body.
    pub(super) fn places(&self, body: &[u8], doc: &Document) -> impl Iterator<Item = NodeId> {
        let into = |places: Places, wanted: &Wanted| -> Places {
            places.into_iter().flat_map(|node| wanted.children(body, doc, node)).collect()
        };
        self.steps.iter().fold(Places::from_slice(&[NodeId::ROOT]), into).into_iter()
    }
}

impl Wanted {
    /// Returns the values of one that a step leads to.
    fn children(&self, body: &[u8], doc: &Document, node: NodeId) -> Places {
        match self {
            Self::Key(key) => doc.child(body, node, key).into_iter().collect(),
            Self::Each | Self::Run => doc.children(node).filter(|_| doc.is_array(node)).collect(),
            Self::AnyKey => doc.children(node).filter(|_| doc.is_object(node)).collect(),
            Self::Below => Places::from_slice(&[node]),
        }
    }

    fn fits(&self, body: &[u8], doc: &Document, node: NodeId) -> bool {
        match (self, doc.step(body, node)) {
            (Self::Key(wanted), StepView::Key(key)) => wanted.as_bytes() == &*key,
            (Self::AnyKey, StepView::Key(_)) | (Self::Each | Self::Run, StepView::Index(_)) => true,
            (Self::Below, _) => true,
            (Self::Key(_) | Self::AnyKey, StepView::Index(_) | StepView::Root) => false,
            (Self::Each | Self::Run, StepView::Key(_) | StepView::Root) => false,
        }
    }
}

/// Reads `choices[*].delta.content`, `[+]` for a run, `*` for any key, `**` at the end for all below.
impl FromStr for PathPattern {
    type Err = MalformedPattern;

    fn from_str(text: &str) -> Result<Self, MalformedPattern> {
        let mut steps = Vec::new();
        for part in text.split('.').filter(|_| !text.is_empty()) {
            let (key, brackets) = part.split_at(part.find('[').unwrap_or(part.len()));
            match key {
                "**" => steps.push(Wanted::Below),
                "*" => steps.push(Wanted::AnyKey),
                "" if !brackets.is_empty() && steps.is_empty() => {}
                "" => return Err(MalformedPattern),
                key => steps.push(Wanted::Key(key.to_string())),
            }
            let mut rest = brackets;
            while !rest.is_empty() {
                let (bracket, tail) = rest.split_at_checked(3).ok_or(MalformedPattern)?;
                steps.push(match bracket {
                    "[*]" => Wanted::Each,
                    "[+]" => Wanted::Run,
                    _ => return Err(MalformedPattern),
                });
                rest = tail;
            }
        }
        let below_inside = steps.iter().rev().skip(1).any(|step| *step == Wanted::Below);
        if below_inside { Err(MalformedPattern) } else { Ok(Self { steps }) }
    }
}

/// Tells whether a text fits a glob, whose `*` stands for any run of characters.
pub(super) fn glob(pattern: &str, text: &str) -> bool {
    // Most do not, and end otherwise: that is told by a byte or two.
    let end = pattern.bytes().rev().take_while(|byte| *byte != b'*');
    if end.zip(text.bytes().rev()).any(|(wanted, byte)| wanted != byte) {
        return false;
    }
    let Some((first, after)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let (middle, last) = after.rsplit_once('*').map_or(("", after), |(middle, last)| (middle, last));
    let Some(before) = rest.strip_suffix(last) else { return false };
    rest = before;
    for part in middle.split('*').filter(|part| !part.is_empty()) {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_fit_whole_paths() {
        let cases = [
            ("*/chat/completions", "/v1/chat/completions", true),
            ("*/chat/completions", "/v1/chat/completions/x", false),
            ("*:generateContent", "/v1beta/models/g:generateContent", true),
            ("/api/chat", "/api/chat", true),
            ("/api/chat", "/api/chatter", false),
            ("*/a/*/c", "/x/a/b/c", true),
            ("*/a/*/c", "/x/b/a/c", false),
            ("*", "", true),
            ("/a*a", "/a", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(glob(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn patterns_are_read_or_refused() {
        let steps = |text: &str| text.parse::<PathPattern>().map(|pattern| pattern.steps);
        let key = |key: &str| Wanted::Key(key.to_string());
        assert_eq!(
            steps("a[*].b[+][*].**"),
            Ok(vec![key("a"), Wanted::Each, key("b"), Wanted::Run, Wanted::Each, Wanted::Below])
        );
        assert_eq!(steps(""), Ok(vec![]));
        assert_eq!(steps("[*].x"), Ok(vec![Wanted::Each, key("x")]));
        for malformed in ["a..b", "a[", "a[1]", "**.a", "a.", ".a"] {
            assert_eq!(steps(malformed), Err(MalformedPattern), "{malformed}");
        }
    }
}
