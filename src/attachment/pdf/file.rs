//! The objects of a PDF, found wherever they stand: the tables that say where are not asked, for they may say anything.

use std::collections::BTreeMap;
use std::ops::Range;

use memchr::memmem;

use super::crypt::Cipher;
use super::filter;
use super::object::Dict;
use super::object::Lexer;
use super::object::Object;
use super::object::is_blank;
use super::object::is_word_end;
use crate::attachment::Reader;
use crate::attachment::Unread;

/// How many references are followed from one value to another.
const STEPS_MAX: usize = 8;
/// How much one stream may unfold to, in bytes.
const STREAM_BYTES_MAX: usize = 16 << 20;
/// How much the streams of objects may unfold to, in bytes, which are all kept.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// How long a number is at most that tells a length, in bytes, with what stands before it.
const LENGTH_BYTES_MAX: usize = 64;

/// A PDF, with its objects found.
pub(super) struct File<'a> {
    bytes: &'a [u8],
    /// The streams of objects, unfolded.
    packed: Vec<Vec<u8>>,
    /// Every object, those that were replaced later as well.
    places: Vec<Place>,
    /// The last place of each number.
    numbers: BTreeMap<u32, usize>,
    cipher: Option<Cipher>,
    /// What stands at the end of the file, or of each of its versions, and where.
    trailers: Vec<Dict>,
    trailer_spans: Vec<Range<usize>>,
}

/// Where an object is.
#[derive(Clone, Copy)]
struct Place {
    number: u32,
    generation: u16,
    /// The stream of objects that it is in.
    stream: Option<usize>,
    at: usize,
}

/// An object, and the bytes of the stream that it begins.
pub(super) struct Found {
    pub(super) object: Object,
    pub(super) data: Option<Range<usize>>,
    /// Where in the file it stands, unless it is in a stream of objects.
    pub(super) span: Option<Range<usize>>,
    place: Place,
}

impl<'a> File<'a> {
    /// Finds the objects of a file.
    ///
    /// # Errors
    /// It is encrypted by a password, or there are more objects than the bounds let be read.
    pub(super) fn open(bytes: &'a [u8], reader: &mut Reader<'_>) -> Result<Self, Unread> {
        let mut file = Self {
            bytes,
            packed: Vec::new(),
            places: Vec::new(),
            numbers: BTreeMap::new(),
            cipher: None,
            trailers: Vec::new(),
            trailer_spans: Vec::new(),
        };
        reader.spend(bytes.len() / 8)?;
        for at in memmem::find_iter(bytes, b"obj") {
            let Some((number, generation)) = named(bytes.get(..at).unwrap_or_default()) else { continue };
            file.add(Place { number, generation, stream: None, at: at + 3 }, reader)?;
        }
        for at in memmem::find_iter(bytes, b"trailer") {
            let mut lexer = Lexer::new(bytes, at + 7);
            if let Some(Object::Dict(trailer)) = lexer.object() {
                file.trailers.push(trailer);
                file.trailer_spans.push(at..lexer.at());
            }
            reader.spend(lexer.at() - at)?;
        }
        let streams = file.survey(reader)?;
        file.cipher = file.cipher_of(reader)?;
        for stream in streams {
            file.unpack(stream, reader)?;
        }
        Ok(file)
    }

    /// Returns how many objects there are, those that were replaced as well.
    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    /// Returns an object by its place among all.
    pub(super) fn at(&self, index: usize, reader: &mut Reader<'_>) -> Result<Option<Found>, Unread> {
        match self.places.get(index) {
            Some(place) => self.read(*place, reader),
            None => Ok(None),
        }
    }

    /// Returns the place among all of the object of a number that counts.
    pub(super) fn index(&self, number: u32) -> Option<usize> {
        self.numbers.get(&number).copied()
    }

    /// Returns what of the file stands in none of the spans of its objects, nor in what ends it.
    pub(super) fn between(&self, mut spans: Vec<Range<usize>>) -> impl Iterator<Item = &'a [u8]> {
        spans.extend(self.trailer_spans.iter().cloned());
        spans.push(self.bytes.len()..self.bytes.len());
        spans.sort_unstable_by_key(|span| span.start);
        let (bytes, mut end) = (self.bytes, 0);
        spans.into_iter().filter_map(move |span| {
            let gap = bytes.get(end..span.start);
            end = end.max(span.end);
            gap
        })
    }

    /// Returns what a value stands for: what it refers to.
    pub(super) fn value(
        &self,
        value: Option<&Object>,
        reader: &mut Reader<'_>,
    ) -> Result<Option<Object>, Unread> {
        let Some(mut value) = value.cloned() else { return Ok(None) };
        for _ in 0..STEPS_MAX {
            let Object::Ref(number) = value else { return Ok(Some(value)) };
            let Some(index) = self.index(number) else { return Ok(None) };
            let Some(found) = self.at(index, reader)? else { return Ok(None) };
            value = found.object;
        }
        Ok(None)
    }

    /// Returns a dictionary that a value stands for.
    pub(super) fn dict(&self, value: Option<&Object>, reader: &mut Reader<'_>) -> Result<Dict, Unread> {
        match self.value(value, reader)? {
            Some(Object::Dict(dict)) => Ok(dict),
            _ => Ok(Dict::default()),
        }
    }

    /// Returns what the stream holds that a value refers to, if it is one.
    pub(super) fn stream_of(
        &self,
        value: Option<&Object>,
        reader: &mut Reader<'_>,
    ) -> Result<Option<Vec<u8>>, Unread> {
        let Some(Object::Ref(number)) = value else { return Ok(None) };
        let Some(index) = self.index(*number) else { return Ok(None) };
        match self.at(index, reader)? {
            Some(found) => self.unfold(&found, reader),
            None => Ok(None),
        }
    }

    /// Returns what a stream holds; nothing of what is none.
    ///
    /// # Errors
    /// It holds more than what is left.
    pub(super) fn unfold(&self, found: &Found, reader: &mut Reader<'_>) -> Result<Option<Vec<u8>>, Unread> {
        let (Object::Dict(dict), Some(data)) = (&found.object, &found.data) else { return Ok(None) };
        let bytes = self.bytes.get(data.clone()).unwrap_or_default();
        let plain = match &self.cipher {
            Some(cipher) if !dict.is("Type", "XRef") => {
                reader.spend(bytes.len())?;
                cipher.stream(bytes, dict, (found.place.number, found.place.generation))
            }
            _ => bytes.into(),
        };
        let most = STREAM_BYTES_MAX.min(reader.expanded_left);
        let (held, is_whole) = match filter::unpacked(&plain, &self.direct(dict, reader)?, most) {
            Ok(unpacked) => unpacked,
            Err(unread) => {
                reader.skip(unread);
                return Ok(None);
            }
        };
        reader.spend(held.len())?;
        if !is_whole {
            reader.skip(Unread::TooLarge);
        }
        Ok(Some(held))
    }

    /// Returns the dictionary of a stream with how it is packed told within it.
    fn direct(&self, dict: &Dict, reader: &mut Reader<'_>) -> Result<Dict, Unread> {
        let mut direct = Dict::default();
        for (name, value) in &dict.0 {
            if !matches!(name.as_slice(), b"Filter" | b"F" | b"DecodeParms" | b"DP") {
                continue;
            }
            let value = match self.value(Some(value), reader)? {
                Some(Object::Array(items)) => {
                    let items =
                        items.iter().map(|item| Ok(self.value(Some(item), reader)?.unwrap_or(Object::Null)));
                    Object::Array(items.collect::<Result<_, Unread>>()?)
                }
                value => value.unwrap_or(Object::Null),
            };
            direct.0.push((name.clone(), value));
        }
        Ok(direct)
    }

    fn add(&mut self, place: Place, reader: &mut Reader<'_>) -> Result<(), Unread> {
        reader.objects_left = reader.objects_left.checked_sub(1).ok_or(Unread::TooLarge)?;
        self.numbers.insert(place.number, self.places.len());
        self.places.push(place);
        Ok(())
    }

    /// Looks at every object: returns the streams of objects, and notes what tells of the file.
    fn survey(&mut self, reader: &mut Reader<'_>) -> Result<Vec<usize>, Unread> {
        let mut streams = Vec::new();
        for index in 0..self.places.len() {
            let Some(Found { object: Object::Dict(dict), .. }) = self.at(index, reader)? else { continue };
            if dict.is("Type", "ObjStm") {
                streams.push(index);
            } else if dict.is("Type", "XRef") {
                self.trailers.push(dict);
            }
        }
        Ok(streams)
    }

    fn cipher_of(&self, reader: &mut Reader<'_>) -> Result<Option<Cipher>, Unread> {
        let Some(trailer) = self.trailers.iter().find(|trailer| trailer.has("Encrypt")) else {
            return Ok(None);
        };
        let encrypt = self.dict(trailer.get("Encrypt"), reader)?;
        let id = match self.value(trailer.get("ID"), reader)? {
            Some(Object::Array(ids)) => ids.into_iter().next(),
            _ => None,
        };
        let id = match id {
            Some(Object::Text(id)) => id,
            _ => Vec::new(),
        };
        Cipher::open(&encrypt, &id).map(Some).ok_or(Unread::Encrypted)
    }

    /// Finds the objects within a stream of such.
    fn unpack(&mut self, index: usize, reader: &mut Reader<'_>) -> Result<(), Unread> {
        let Some(found) = self.at(index, reader)? else { return Ok(()) };
        let Some(bytes) = self.unfold(&found, reader)? else { return Ok(()) };
        let Object::Dict(dict) = &found.object else { return Ok(()) };
        let kept: usize = self.packed.iter().map(Vec::len).sum();
        if kept + bytes.len() > KEPT_BYTES_MAX {
            return Err(Unread::TooLarge);
        }
        let first = self.value(dict.get("First"), reader)?.and_then(|it| it.count()).unwrap_or(0);
        let mut lexer = Lexer::new(bytes.get(..first).unwrap_or_default(), 0);
        let stream = Some(self.packed.len());
        while let (Some(number), Some(at)) = (lexer.object(), lexer.object()) {
            let (Some(number), Some(at)) = (number.count(), at.count()) else { break };
            let at = first.saturating_add(at);
            self.add(Place { number: number as u32, generation: 0, stream, at }, reader)?;
        }
        self.packed.push(bytes);
        Ok(())
    }

    fn read(&self, place: Place, reader: &mut Reader<'_>) -> Result<Option<Found>, Unread> {
        let bytes = match place.stream {
            None => self.bytes,
            Some(stream) => self.packed.get(stream).map(Vec::as_slice).unwrap_or_default(),
        };
        let mut lexer = Lexer::new(bytes, place.at);
        let object = lexer.object();
        reader.spend(lexer.at().saturating_sub(place.at))?;
        let Some(mut object) = object else { return Ok(None) };
        let data = match (&object, place.stream) {
            (Object::Dict(dict), None) => self.data(dict, &mut lexer, reader)?,
            _ => None,
        };
        if let (Some(cipher), None) = (&self.cipher, place.stream) {
            cipher.strings(&mut object, (place.number, place.generation));
        }
        let end = data.as_ref().map_or(lexer.at(), |data| data.end);
        let span = place.stream.is_none().then_some(place.at..end);
        Ok(Some(Found { object, data, span, place }))
    }

    /// Returns where the bytes of the stream are that a dictionary begins.
    fn data(
        &self,
        dict: &Dict,
        lexer: &mut Lexer<'a>,
        reader: &mut Reader<'_>,
    ) -> Result<Option<Range<usize>>, Unread> {
        lexer.pass_blanks();
        if !is_word_end(lexer.rest(), b"stream") {
            return Ok(None);
        }
        lexer.pass(b"stream".len());
        lexer.pass(match lexer.rest() {
            [b'\r', b'\n', ..] => 2,
            [b'\r' | b'\n', ..] => 1,
            _ => 0,
        });
        let (begin, rest) = (lexer.at(), lexer.rest());
        let told = match dict.get("Length") {
            Some(Object::Ref(number)) => self.length(*number),
            length => length.and_then(Object::count),
        };
        let ends = |length: &usize| {
            let behind = rest.get(*length..).unwrap_or_default();
            let blanks = behind.iter().take_while(|byte| is_blank(**byte)).count();
            behind.get(blanks..).is_some_and(|behind| behind.starts_with(b"endstream"))
        };
        let length = match told.filter(ends) {
            Some(length) => length,
            None => {
                let length = memmem::find(rest, b"endstream").unwrap_or(rest.len());
                reader.spend(length)?;
                length
            }
        };
        Ok(Some(begin..begin + length))
    }

    /// Returns the length of a stream that another object tells.
    fn length(&self, number: u32) -> Option<usize> {
        let place = self.index(number).and_then(|index| self.places.get(index))?;
        let bytes =
            place.stream.map_or(Some(self.bytes), |stream| self.packed.get(stream).map(Vec::as_slice))?;
        Lexer::new(bytes.get(..place.at.saturating_add(LENGTH_BYTES_MAX)).unwrap_or(bytes), place.at)
            .object()?
            .count()
    }
}

/// Returns the numbers that stand before the word that begins an object.
fn named(before: &[u8]) -> Option<(u32, u16)> {
    let (before, generation) = last_number(before)?;
    let (_, number) = last_number(before)?;
    Some((number, generation as u16))
}

/// Returns the number at the end of bytes, and what stands before it.
fn last_number(bytes: &[u8]) -> Option<(&[u8], u32)> {
    let blanks = bytes.iter().rev().take_while(|byte| is_blank(**byte)).count();
    let bytes = bytes.get(..bytes.len() - blanks)?;
    let digits = bytes.iter().rev().take(10).take_while(|byte| byte.is_ascii_digit()).count();
    let (before, digits) = bytes.split_at_checked(bytes.len() - digits)?;
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((before, number))
}
