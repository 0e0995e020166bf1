//! XML that others wrote, read with nothing in it that two readers could take differently.
//!
//! In: text. Out: a tree in which every element has one place and every text is whole. What messages may not have
//! is refused before anybody looks for anything in them. The tree is `roxmltree`'s, which knows no external
//! entities and refuses document types.

use std::collections::HashSet;

use jiff::Timestamp;
use roxmltree::Document;
use roxmltree::Node;
use roxmltree::ParsingOptions;

/// The longest message that is read, in bytes, once it is decoded.
pub const DOCUMENT_BYTES_MAX: usize = 256 * 1024;
/// The most nodes it has.
pub const NODES_MAX: u32 = 10_000;
/// How deep it goes.
pub const DEPTH_MAX: usize = 32;
/// How many declarations of namespaces its elements see, all together.
const DECLARED_MAX: usize = 100_000;
/// Attributes that some reader or other takes for an id.
const ID_NAMES: [&str; 4] = ["ID", "Id", "id", "AssertionID"];

/// Why a text is no message that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentFault {
    /// It is longer, larger or deeper than any honest one.
    #[error("the message is too large")]
    TooLarge,
    /// It is no XML with namespaces, or has a document type.
    #[error("the message is not well-formed XML, or has a document type")]
    Form,
    /// It has a comment or a processing instruction, which readers pass over in different ways.
    #[error("the message has a comment or a processing instruction")]
    Aside,
    /// An id is there twice.
    #[error("the message has an id twice")]
    TwoIds,
    /// An element is missing, is there twice, or is where it must not be.
    #[error("the message has not the one shape that is taken")]
    Shape,
    /// An assertion is encrypted.
    #[error(
        "the assertion is encrypted, which is not taken; have the provider sign it, and send it over HTTPS"
    )]
    Encrypted,
}

/// Reads a message of somebody else's.
///
/// # Errors
/// See [`DocumentFault`].
pub fn parse(text: &str) -> Result<Document<'_>, DocumentFault> {
    let document = parse_file(text)?;
    let root = document.root();
    if root.descendants().any(|node| node.is_comment() || node.is_pi()) {
        return Err(DocumentFault::Aside);
    }
    let mut ids = HashSet::new();
    for attribute in root.descendants().flat_map(|node| node.attributes()) {
        if ID_NAMES.contains(&attribute.name()) && !ids.insert(attribute.value()) {
            return Err(DocumentFault::TwoIds);
        }
    }
    Ok(document)
}

/// Reads a file that the operator chose, which may have comments.
///
/// # Errors
/// See [`DocumentFault`].
pub fn parse_file(text: &str) -> Result<Document<'_>, DocumentFault> {
    if text.len() > DOCUMENT_BYTES_MAX {
        return Err(DocumentFault::TooLarge);
    }
    let options = ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|_| DocumentFault::Form)?;
    ensure_declared(&document)?;
    let is_deep = |node: Node<'_, '_>| node.ancestors().nth(DEPTH_MAX).is_some();
    if document.root().descendants().any(is_deep) { Err(DocumentFault::TooLarge) } else { Ok(document) }
}

/// Refuses prefixes that stand for nothing (Namespaces in XML 1.0, section 2.2): one reader finds elements of no namespace
/// behind them, another no XML at all.
fn ensure_declared(document: &Document<'_>) -> Result<(), DocumentFault> {
    let mut seen = 0;
    for element in document.root().descendants().filter(Node::is_element) {
        for namespace in element.namespaces() {
            seen += 1;
            if seen > DECLARED_MAX {
                return Err(DocumentFault::TooLarge);
            }
            if namespace.name().is_some() && namespace.uri().is_empty() {
                return Err(DocumentFault::Form);
            }
        }
    }
    Ok(())
}

/// Tells whether a node is the element of a name in a namespace.
pub fn is(node: Node<'_, '_>, namespace: &str, name: &str) -> bool {
    node.is_element() && node.tag_name().namespace() == Some(namespace) && node.tag_name().name() == name
}

/// Returns the elements in an element; text beside them is not looked at but must be white space.
///
/// # Errors
/// There is text.
pub fn elements<'a, 'i>(parent: Node<'a, 'i>) -> Result<Vec<Node<'a, 'i>>, DocumentFault> {
    let is_text = |node: &Node<'_, '_>| node.is_text() && !node.text().unwrap_or_default().trim().is_empty();
    if parent.children().any(|node| is_text(&node)) {
        return Err(DocumentFault::Shape);
    }
    Ok(parent.children().filter(Node::is_element).collect())
}

/// Returns the one element of a name in an element, and `None` where there is none.
///
/// # Errors
/// There are two.
pub fn at_most_one<'a, 'i>(
    parent: Node<'a, 'i>,
    namespace: &str,
    name: &str,
) -> Result<Option<Node<'a, 'i>>, DocumentFault> {
    let mut found = parent.children().filter(|node| is(*node, namespace, name));
    let first = found.next();
    if found.next().is_some() { Err(DocumentFault::Shape) } else { Ok(first) }
}

/// Returns the one element of a name in an element.
///
/// # Errors
/// There is none, or two.
pub fn one<'a, 'i>(parent: Node<'a, 'i>, namespace: &str, name: &str) -> Result<Node<'a, 'i>, DocumentFault> {
    at_most_one(parent, namespace, name)?.ok_or(DocumentFault::Shape)
}

/// Returns the text of an element, all of it, without the white space around it.
///
/// # Errors
/// There are elements in it.
pub fn text(node: Node<'_, '_>) -> Result<String, DocumentFault> {
    let mut text = String::new();
    for child in node.children() {
        match child.text().filter(|_| child.is_text()) {
            Some(part) => text.push_str(part),
            None => return Err(DocumentFault::Shape),
        }
    }
    Ok(text.trim().to_owned())
}

/// Returns an attribute of no namespace that has to be there.
///
/// # Errors
/// It is not.
pub fn attribute<'a>(node: Node<'a, '_>, name: &str) -> Result<&'a str, DocumentFault> {
    node.attribute(name).ok_or(DocumentFault::Shape)
}

/// Returns the moment that an attribute names, where it is there.
///
/// # Errors
/// It names none.
pub fn moment(node: Node<'_, '_>, name: &str) -> Result<Option<Timestamp>, DocumentFault> {
    node.attribute(name).map(|text| text.parse().map_err(|_| DocumentFault::Shape)).transpose()
}
