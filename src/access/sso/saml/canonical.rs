//! Exclusive XML canonicalization 1.0, without comments: the bytes that a signature is over.
//!
//! In: an element of a document that has neither comments nor processing instructions. Out: its bytes, one element
//! left out where a signature stands in what it signs. Names are written with the prefixes of the source, which is
//! why that is asked for them.

use std::collections::BTreeMap;

use roxmltree::Node;

/// The prefix that is bound without a declaration.
const XML: &str = "xml";
/// How a list of prefixes names the default namespace.
const DEFAULT: &str = "#default";

/// What is left out, and what is declared though nothing shows that it is used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice<'a> {
    /// The element that is left out, with all that is in it.
    pub without: Option<roxmltree::NodeId>,
    /// The prefixes of `InclusiveNamespaces`, separated by white space.
    pub inclusive: &'a str,
}

/// Returns the canonical bytes of an element.
pub fn canonical(element: Node<'_, '_>, choice: Choice<'_>) -> Vec<u8> {
    let mut writer = Writer { choice, declared: Vec::new(), out: Vec::new() };
    writer.element(element);
    writer.out
}

struct Writer<'a> {
    choice: Choice<'a>,
    /// What the elements around have declared in the output, innermost last.
    declared: Vec<(String, String)>,
    out: Vec<u8>,
}

impl Writer<'_> {
    fn element(&mut self, node: Node<'_, '_>) {
        let name = qualified(node);
        let before = self.declared.len();
        self.push("<");
        self.push(name);
        self.namespaces(node, name);
        self.attributes(node);
        self.push(">");
        for child in node.children() {
            if child.is_text() {
                self.escaped(child.text().unwrap_or_default(), TEXT);
            } else if child.is_element() && Some(child.id()) != self.choice.without {
                self.element(child);
            }
        }
        self.push("</");
        self.push(name);
        self.push(">");
        self.declared.truncate(before);
    }

    /// Declares the namespaces that the element and its attributes show, and those of the list, where the output
    /// around does not say the same already.
    fn namespaces(&mut self, node: Node<'_, '_>, name: &str) {
        let mut shown: BTreeMap<&str, &str> = BTreeMap::new();
        shown.insert(prefix(name), node.tag_name().namespace().unwrap_or_default());
        for attribute in node.attributes() {
            let prefix = prefix(source(node, attribute.range_qname()));
            if !prefix.is_empty() {
                shown.insert(prefix, attribute.namespace().unwrap_or_default());
            }
        }
        for listed in self.choice.inclusive.split_ascii_whitespace() {
            let (prefix, wanted) = if listed == DEFAULT { ("", None) } else { (listed, Some(listed)) };
            match node.lookup_namespace_uri(wanted) {
                Some(namespace) => drop(shown.entry(prefix).or_insert(namespace)),
                None if prefix.is_empty() => drop(shown.entry(prefix).or_insert("")),
                None => {}
            }
        }
        for (prefix, namespace) in shown {
            let known = self.declared.iter().rev().find(|(declared, _)| declared == prefix);
            let known = known.map_or("", |(_, namespace)| namespace.as_str());
            if prefix == XML || known == namespace {
                continue;
            }
            let name = if prefix.is_empty() { " xmlns=\"".to_owned() } else { format!(" xmlns:{prefix}=\"") };
            self.push(&name);
            self.escaped(namespace, ATTRIBUTE);
            self.push("\"");
            self.declared.push((prefix.to_owned(), namespace.to_owned()));
        }
    }

    fn attributes(&mut self, node: Node<'_, '_>) {
        let mut attributes: Vec<_> = node.attributes().collect();
        attributes.sort_by_key(|attribute| (attribute.namespace().unwrap_or_default(), attribute.name()));
        for attribute in attributes {
            self.push(" ");
            self.push(source(node, attribute.range_qname()));
            self.push("=\"");
            self.escaped(attribute.value(), ATTRIBUTE);
            self.push("\"");
        }
    }

    fn push(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn escaped(&mut self, text: &str, escapes: &[(char, &str)]) {
        for c in text.chars() {
            match escapes.iter().find(|(escaped, _)| *escaped == c) {
                Some((_, written)) => self.push(written),
                None => self.push(c.encode_utf8(&mut [0; 4])),
            }
        }
    }
}

const TEXT: &[(char, &str)] = &[('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('\r', "&#xD;")];
const ATTRIBUTE: &[(char, &str)] =
    &[('&', "&amp;"), ('<', "&lt;"), ('"', "&quot;"), ('\t', "&#x9;"), ('\n', "&#xA;"), ('\r', "&#xD;")];

/// Returns the name of an element as it is written in the source.
fn qualified<'a>(node: Node<'a, '_>) -> &'a str {
    let written = source(node, node.range());
    let written = written.strip_prefix('<').unwrap_or(written);
    let ends = |c: char| c.is_ascii_whitespace() || c == '>' || c == '/';
    written.split(ends).next().unwrap_or_default()
}

fn source<'a>(node: Node<'a, '_>, range: std::ops::Range<usize>) -> &'a str {
    node.document().input_text().get(range).unwrap_or_default()
}

fn prefix(name: &str) -> &str {
    name.split_once(':').map_or("", |(prefix, _)| prefix)
}
