//! PDF: the text of its pages, of what lies on them, and of whatever else in it says something.
//!
//! Readers differ in which of the objects of a file they take for it, so all of them are read: those that its tables lead
//! to, those that were replaced later, and those that nothing leads to. Nothing is drawn: what stands behind a picture, in
//! white or outside the page is text like any other.

mod cmap;
mod content;
mod crypt;
mod file;
mod filter;
mod font;
mod object;
mod strings;

use std::collections::BTreeSet;
use std::rc::Rc;

use self::content::Fonts;
use self::content::Painter;
use self::content::Resources;
use self::content::Shown;
use self::file::File;
use self::file::Found;
use self::object::Dict;
use self::object::Object;
use super::Form;
use super::HEAD_BYTES;
use super::PDF_MARK;
use super::Place;
use super::Reader;
use super::TAIL_BYTES;
use super::Unread;
use super::markup;
use super::text;

/// How far up what a page inherits is looked for.
const PARENTS_MAX: usize = 32;
/// The kinds of streams that hold no text.
const TEXTLESS: &[&str] = &["ObjStm", "XRef", "CMap", "Pattern", "Mask"];
const TEXTLESS_SUBTYPES: &[&str] = &["Image", "Type1C", "CIDFontType0C", "OpenType"];
/// Names that only streams have that hold no text: programs of fonts, functions, shadings, colours.
const TEXTLESS_NAMES: &[&str] =
    &["Length1", "FunctionType", "ShadingType", "PatternType", "Alternate", "CMapName"];
/// Operators that show text.
const SHOWING: &[&[u8]] = &[b"Tj", b"TJ", b"'", b"\""];

/// What is read of a file, beside its text.
struct Walk<'f, 'a> {
    file: &'f File<'a>,
    place: &'f Place,
    fonts: Fonts,
    /// The objects that pages led to.
    seen: BTreeSet<usize>,
}

impl Reader<'_> {
    /// Reads a PDF.
    pub(super) fn pdf(&mut self, bytes: &[u8], place: &Place) -> Result<(), Unread> {
        let file = File::open(bytes, self)?;
        if file.count() == 0 {
            self.is_other = !bytes.starts_with(PDF_MARK);
            return if self.is_other { Ok(()) } else { Err(Unread::Damaged) };
        }
        let mut walk = Walk { file: &file, place, fonts: Fonts::default(), seen: BTreeSet::new() };
        for (number, index) in walk.pages(self)?.into_iter().enumerate() {
            walk.page(index, number + 1, self)?;
        }
        walk.others(self)
    }
}

impl Walk<'_, '_> {
    /// Returns the pages, those first that the tree of pages leads to, in its order.
    fn pages(&self, reader: &mut Reader<'_>) -> Result<Vec<usize>, Unread> {
        let (mut pages, mut roots, mut in_tree) = (Vec::new(), Vec::new(), BTreeSet::new());
        for index in 0..self.file.count() {
            let Some(Found { object: Object::Dict(dict), .. }) = self.file.at(index, reader)? else {
                continue;
            };
            if dict.is("Type", "Catalog") {
                roots.extend(self.index(dict.get("Pages")));
            } else if dict.is("Type", "Page") || dict.has("Contents") && dict.has("MediaBox") {
                pages.push(index);
            }
        }
        let mut ordered = Vec::new();
        while let Some(index) = roots.pop() {
            if !in_tree.insert(index) {
                continue;
            }
            let Some(Found { object: Object::Dict(dict), .. }) = self.file.at(index, reader)? else {
                continue;
            };
            match self.file.value(dict.get("Kids"), reader)? {
                Some(Object::Array(kids)) => {
                    roots.extend(kids.iter().rev().filter_map(|kid| self.index(Some(kid))))
                }
                _ => ordered.push(index),
            }
        }
        ordered.extend(pages.into_iter().filter(|index| !in_tree.contains(index)));
        Ok(ordered)
    }

    fn index(&self, value: Option<&Object>) -> Option<usize> {
        match value {
            Some(Object::Ref(number)) => self.file.index(*number),
            _ => None,
        }
    }

    fn page(&mut self, index: usize, number: usize, reader: &mut Reader<'_>) -> Result<(), Unread> {
        let Some(Found { object: Object::Dict(page), .. }) = self.file.at(index, reader)? else {
            return Ok(());
        };
        let resources = self.resources(page.clone(), reader)?;
        let contents = match page.get("Contents") {
            Some(Object::Ref(number)) => match self.file.value(page.get("Contents"), reader)? {
                Some(Object::Array(parts)) => parts,
                _ => vec![Object::Ref(*number)],
            },
            Some(Object::Array(parts)) => parts.clone(),
            _ => Vec::new(),
        };
        let mut content = Vec::new();
        for part in &contents {
            self.seen.extend(self.index(Some(part)));
            content.extend(self.file.stream_of(Some(part), reader)?.unwrap_or_default());
            content.push(b'\n');
        }
        self.draw(&content, &resources, &format!("page {number}"), reader)
    }

    /// Returns the resources of a page, or what it inherits of those above it.
    fn resources(&mut self, page: Dict, reader: &mut Reader<'_>) -> Result<Resources, Unread> {
        let mut node = page;
        for _ in 0..PARENTS_MAX {
            if node.has("Resources") {
                let dict = self.file.dict(node.get("Resources"), reader)?;
                return Resources::read(self.file, &dict, &mut self.fonts, reader);
            }
            if !node.has("Parent") {
                break;
            }
            node = self.file.dict(node.get("Parent"), reader)?;
        }
        Ok(Resources::default())
    }

    fn draw(
        &mut self,
        content: &[u8],
        resources: &Resources,
        name: &str,
        reader: &mut Reader<'_>,
    ) -> Result<(), Unread> {
        let mut painter =
            Painter { file: self.file, fonts: &mut self.fonts, reader, shown: Shown::default() };
        let drawn = painter.draw(content, resources);
        let Shown { text, aside, forms, is_unreadable, .. } = painter.shown;
        self.seen.extend(forms);
        if is_unreadable {
            reader.skip(Unread::Format);
        }
        reader.take(self.place.of(name), text)?;
        reader.take(self.place.of(name), aside)?;
        drawn
    }

    /// Reads what no page leads to: notes, fields, properties, files that are attached, content of any other kind, and what
    /// stands between the objects.
    fn others(&mut self, reader: &mut Reader<'_>) -> Result<(), Unread> {
        let (mut notes, mut spans) = (String::new(), Vec::new());
        for index in 0..self.file.count() {
            let Some(found) = self.file.at(index, reader)? else { continue };
            spans.extend(found.span.clone());
            if let Object::Dict(dict) = &found.object
                && dict.is("Filter", "Standard")
            {
                continue;
            }
            strings::gather(&found.object, &mut notes);
            if found.data.is_some() && !self.seen.contains(&index) {
                self.stream(&found, index, reader)?;
            }
            if notes.len() > reader.text_left {
                break;
            }
        }
        reader.take(self.place.of("notes"), notes)?;
        let mut passed_over = String::new();
        self.file.between(spans).for_each(|gap| strings::gather_lines(gap, &mut passed_over));
        reader.take(self.place.of("between objects"), passed_over)
    }

    fn stream(&mut self, found: &Found, index: usize, reader: &mut Reader<'_>) -> Result<(), Unread> {
        let Object::Dict(dict) = &found.object else { return Ok(()) };
        let is_textless = TEXTLESS.iter().any(|kind| dict.is("Type", kind))
            || TEXTLESS_SUBTYPES.iter().any(|kind| dict.is("Subtype", kind))
            || TEXTLESS_NAMES.iter().any(|name| dict.has(name));
        if is_textless {
            return Ok(());
        }
        let Some(bytes) = self.file.unfold(found, reader)? else { return Ok(()) };
        let name = format!("object {index}");
        let head = bytes.get(..HEAD_BYTES).unwrap_or(&bytes);
        let tail = bytes.get(bytes.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default();
        if let Some(form) = Form::of(&bytes, tail) {
            return match reader.file(&bytes, form, &self.place.within(&name)) {
                Err(unread @ (Unread::Damaged | Unread::Encrypted | Unread::Format)) => {
                    reader.skip(unread);
                    Ok(())
                }
                read => read,
            };
        }
        if dict.is("Subtype", "XML") || dict.is("Type", "Metadata") {
            let said = markup::read(&text::of(&bytes));
            reader.take(self.place.of("properties"), said.text)?;
            return reader.take(self.place.of("properties"), said.aside);
        }
        if shows_text(&bytes) {
            let own = self.file.dict(dict.get("Resources"), reader)?;
            let mut resources = Resources::read(self.file, &own, &mut self.fonts, reader)?;
            reader.spend(self.fonts.named.len())?;
            for (name, font) in &self.fonts.named {
                resources.fonts.entry(name.clone()).or_insert_with(|| Rc::clone(font));
            }
            return self.draw(&bytes, &resources, &name, reader);
        }
        // A file that is attached, or a script.
        match text::begins(head) && !is_program(head) {
            true => reader.take(self.place.of(&name), text::of(&bytes)),
            false => Ok(()),
        }
    }
}

/// Tells whether some of the words of content show text.
fn shows_text(content: &[u8]) -> bool {
    memchr::memmem::find(content, b"BT").is_some()
        && SHOWING.iter().any(|operator| memchr::memmem::find(content, operator).is_some())
}

/// Tells whether a stream is a map of codes or a program of a font.
fn is_program(head: &[u8]) -> bool {
    head.starts_with(b"%!")
        || memchr::memmem::find(head, b"begincmap").is_some()
        || head.starts_with(b"/CIDInit")
}
