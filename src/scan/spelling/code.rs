//! Codes that stand for the bytes of a text: Base32, base85, quoted-printable, what is packed, Morse, Braille, rows of
//! numbers.

use std::ops::Range;

use super::Origin;
use super::Spelt;
use super::base85;
use super::braille;
use super::deflate;
use super::excerpt;
use super::excerpt::Excerpt;
use super::group;
use super::group::Row;
use super::gzip;
use super::gzip::Budget;
use super::gzip::Unpacked;
use super::numbers;
use super::same;
use super::viewed;
use super::wide;
use crate::scan::decode::Utf8;
use crate::scan::scanner::ScanFault;
use crate::scan::threat::Spelling;
use crate::scan::view::View;

/// The shortest run of Base32, in characters.
const BASE32_BYTES_MIN: usize = 24;
/// How many bytes are looked at together to tell where codes of letters and digits may be.
const WINDOW_BYTES: usize = 32;
/// How many of these are digits or capitals behind another letter or digit where one is.
const DENSE_PAIRS_MIN: u8 = 4;
/// How much around them may belong to it, in bytes.
const AROUND_BYTES: usize = 96;
/// The fewest `=XX` that make a text quoted-printable.
const QUOTED_MIN: usize = 3;
/// The fewest signs of Morse code that are read.
const MORSE_MIN: usize = 10;
/// The share of what can be read from which decoded bytes are a text, in percent.
const TEXT_PERCENT_MIN: usize = 75;
/// The shortest stretch that is read among bytes that are no text, in bytes.
pub(super) const LINE_BYTES_MIN: usize = 12;
/// The share of letters and spaces from which numbers are text, in percent.
pub(super) const LETTERS_PERCENT_MIN: usize = 75;

/// Returns what the codes in a text say: a reading for each code that occurs.
///
/// # Errors
/// There is more to unpack than a text may have.
pub(super) fn readings(text: &[u8]) -> Result<Vec<Spelt>, ScanFault> {
    let mut found = Vec::new();
    base32(text, &mut found);
    let regions = regions(text);
    base85::read(text, &regions, &mut found);
    let rows = group::rows(text, &regions);
    let mut packed = unpacked(text, &rows)?;
    packed.sort_by_key(|(spelling, _)| *spelling);
    packed.into_iter().for_each(|(spelling, it)| add(spelling, it.bytes, it.run, &mut found));
    found.extend(group::said(&rows));
    wide::read(text, &mut found);
    found.extend(quoted_printable(text).map(|view| viewed(Spelling::QuotedPrintable, view)));
    if found.last().is_none_or(|last| last.spelling != Spelling::QuotedPrintable) {
        let bare = |view| Spelt { is_bare: true, ..viewed(Spelling::QuotedPrintable, view) };
        found.extend(unwrapped(text).map(bare));
    }
    morse(text, &mut found);
    braille::read(text, &mut found);
    numbers::read(text, &mut found);
    Ok(joined(found))
}

/// Returns the stretches of a text around what may be code: prose has next to none.
pub(super) fn regions(text: &[u8]) -> Vec<Range<usize>> {
    let mut regions: Vec<Range<usize>> = Vec::new();
    let (windows, rest) = text.as_chunks::<WINDOW_BYTES>();
    let mut last = [0; WINDOW_BYTES];
    last.iter_mut().zip(rest).for_each(|(to, byte)| *to = *byte);
    for (at, _) in windows.iter().chain([&last]).enumerate().filter(|(_, window)| is_dense(window)) {
        let start = (at * WINDOW_BYTES).saturating_sub(AROUND_BYTES);
        let end = text.len().min((at + 1) * WINDOW_BYTES + AROUND_BYTES);
        match regions.last_mut().filter(|last| start <= last.end) {
            Some(last) => last.end = end,
            None => regions.push(start..end),
        }
    }
    regions
}

/// Tells whether some digits or capitals stand behind letters or digits, as in code but hardly in words.
fn is_dense(window: &[u8; WINDOW_BYTES]) -> bool {
    let (mut pairs, mut before) = (0, [0; WINDOW_BYTES]);
    before[1..].copy_from_slice(&window[..WINDOW_BYTES - 1]);
    // Without a branch, so that many bytes are looked at together.
    for (before, byte) in before.iter().zip(window) {
        let is_letter = (before | 0x20).wrapping_sub(b'a') < 26;
        let is_digit = before.wrapping_sub(b'0') < 10;
        let is_drawn = (byte.wrapping_sub(b'0') < 10) | (byte.wrapping_sub(b'A') < 26);
        pairs += u8::from((is_letter | is_digit) & is_drawn);
    }
    pairs >= DENSE_PAIRS_MIN
}

/// Returns what is packed into the base64 of a text and of its rows: of what says the same from the same place on, what takes
/// least of the text.
fn unpacked(text: &[u8], rows: &[Row]) -> Result<Vec<(Spelling, Unpacked)>, ScanFault> {
    let mut found = unpacked_of(text, &mut Default::default())?;
    // What is unpacked in each of the variants is one text.
    let mut budgets: [[Budget; 2]; group::VARIANTS_MAX] = Default::default();
    for row in rows {
        for ((from, signs), budgets) in row.variants().zip(&mut budgets) {
            for (spelling, packed) in unpacked_of(signs, budgets)? {
                let run = row.source(packed.run.start + from..packed.run.end + from);
                let is_same = |(other, known): &(Spelling, Unpacked)| {
                    (*other, known.run.start, &known.bytes) == (spelling, run.start, &packed.bytes)
                };
                if !found.iter().any(is_same) {
                    found.push((spelling, Unpacked { run, ..packed }));
                }
            }
        }
    }
    Ok(found)
}

/// Returns what is packed into the base64 of a text; each kind has a budget.
fn unpacked_of(
    text: &[u8],
    [files, streams]: &mut [Budget; 2],
) -> Result<Vec<(Spelling, Unpacked)>, ScanFault> {
    let files = gzip::files(text, files)?.into_iter().map(|file| (Spelling::Gzip, file));
    let streams = deflate::streams(text, streams)?.into_iter().map(|stream| (Spelling::Deflate, stream));
    Ok(files.chain(streams).collect())
}

/// Makes one reading of the stretches in one code, each on a line, so that their number does not matter.
fn joined(found: Vec<Spelt>) -> Vec<Spelt> {
    let mut readings: Vec<Spelt> = Vec::new();
    for next in found {
        match readings.last_mut() {
            Some(last) if (last.spelling, last.is_bare) == (next.spelling, next.is_bare) => {
                last.append(&next)
            }
            _ => readings.push(next),
        }
    }
    readings
}

impl Spelt {
    /// Appends another reading in the same code.
    fn append(&mut self, next: &Self) {
        let (Origin::Runs(runs), Origin::Runs(others)) = (&mut self.origin, &next.origin) else { return };
        let before = self.view.bytes().len();
        self.view.append(b"\n", before, 1, 1);
        self.view.append(next.view.bytes(), before + 1, 1, 1);
        runs.extend(others.iter().map(|(end, run)| (end + before + 1, run.clone())));
    }
}

/// Adds a reading that comes from one stretch, if it can be read.
pub(super) fn add(spelling: Spelling, bytes: Vec<u8>, run: Range<usize>, found: &mut Vec<Spelt>) {
    let mut bytes = narrow(bytes);
    if clean(&mut bytes) {
        let origin = Origin::Runs(vec![(bytes.len(), run)]);
        found.push(Spelt { origin, ..same(spelling, bytes) });
    }
}

/// Leaves out the NUL of each letter that is written in two bytes, as UTF-16 has it.
pub(super) fn narrow(bytes: Vec<u8>) -> Vec<u8> {
    if memchr::memchr(0, &bytes).is_none() {
        return bytes;
    }
    let is_nul = |at: Option<usize>| at.and_then(|at| bytes.get(at)) == Some(&0);
    let is_half = |at: usize| {
        let is_alone = !is_nul(at.checked_sub(1)) && !is_nul(Some(at + 1));
        is_alone && (is_nul(at.checked_sub(2)) || is_nul(Some(at + 2)))
    };
    let kept = bytes.iter().enumerate().filter(|(at, byte)| **byte != 0 || !is_half(*at));
    kept.map(|(_, byte)| *byte).collect()
}

/// Returns the stretches that can be read among bytes that are no text, each on a line.
pub(super) fn lines_within(bytes: &[u8]) -> Vec<u8> {
    let stretches = texts_within(bytes).into_iter().filter_map(|stretch| bytes.get(stretch));
    stretches.flat_map(|stretch| stretch.iter().copied().chain([b'\n'])).collect()
}

/// Returns where these stretches are.
pub(super) fn texts_within(bytes: &[u8]) -> Vec<Range<usize>> {
    let (mut found, mut stretch, mut utf8) = (Vec::new(), 0..0, Utf8::default());
    let mut keep = |stretch: Range<usize>| {
        if stretch.len() >= LINE_BYTES_MIN {
            found.push(stretch);
        }
    };
    for (at, byte) in bytes.iter().enumerate() {
        if !utf8.step(*byte) {
            keep(stretch);
            // What breaks a character off may begin another.
            utf8 = Utf8::default();
            stretch = if utf8.step(*byte) { at..at } else { at + 1..at + 1 };
        }
        if utf8.missing == 0 && at >= stretch.start {
            stretch.end = at + 1;
        }
    }
    keep(stretch);
    found
}

/// Makes a space of each byte that is no text; false if there are too many of them to call the rest a text.
///
/// A few may have been put there so that all of it is taken for none; with NUL archives are filled.
pub(super) fn clean(bytes: &mut [u8]) -> bool {
    let mut text: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    for chunk in bytes.utf8_chunks() {
        text.push(at..at + chunk.valid().len());
        at += chunk.valid().len() + chunk.invalid().len();
    }
    let (mut count, mut fill, mut end) = (0, 0, 0);
    for range in text {
        bytes.get_mut(end..range.start).unwrap_or_default().fill(b' ');
        end = range.end;
        for byte in bytes.get_mut(range).unwrap_or_default() {
            match *byte {
                b'\n' | b'\r' | b'\t' => count += 1,
                0 => (*byte, fill) = (b' ', fill + 1),
                0..b' ' | 0x7f => *byte = b' ',
                _ => count += 1,
            }
        }
    }
    bytes.get_mut(end..).unwrap_or_default().fill(b' ');
    count > 0 && count * 100 >= (bytes.len() - fill) * TEXT_PERCENT_MIN
}

/// Returns the stretches of a text whose bytes all `fit`, from a length on.
///
/// A stretch so long covers one of the places that lie `least` bytes apart: only these are looked at in prose.
pub(super) fn stretches<'t>(
    text: &'t [u8],
    least: usize,
    fit: impl Fn(u8) -> bool + 't,
) -> impl Iterator<Item = Range<usize>> + 't {
    let mut at = 0;
    std::iter::from_fn(move || {
        let mut probe = at + least - 1;
        while let Some(byte) = text.get(probe) {
            if !fit(*byte) {
                probe += least;
                continue;
            }
            let before = text.get(at..probe).unwrap_or_default();
            let start = probe - before.iter().rev().take_while(|byte| fit(**byte)).count();
            let behind = text.get(probe..).unwrap_or_default();
            at = probe + behind.iter().take_while(|byte| fit(**byte)).count();
            if at - start >= least {
                return Some(start..at);
            }
            probe = at + least - 1;
        }
        None
    })
}

fn base32(text: &[u8], found: &mut Vec<Spelt>) {
    for run in stretches(text, BASE32_BYTES_MIN, |byte| matches!(byte, b'A'..=b'Z' | b'2'..=b'7')) {
        add_base32(text, run, found);
    }
    for run in stretches(text, BASE32_BYTES_MIN, |byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7')) {
        // Long words have none, but next to all that is encoded.
        if text.get(run.clone()).is_some_and(|run| run.iter().any(u8::is_ascii_digit)) {
            add_base32(text, run, found);
        }
    }
}

fn add_base32(text: &[u8], run: Range<usize>, found: &mut Vec<Spelt>) {
    let (mut bits, mut held, mut bytes) = (0_u32, 0_u32, Vec::new());
    for byte in text.get(run.clone()).unwrap_or_default() {
        let value = if byte.is_ascii_digit() { byte - b'2' + 26 } else { (byte | 0x20) - b'a' };
        bits = bits << 5 & 0xffff | u32::from(value);
        held += 5;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 0xff) as u8);
        }
    }
    add(Spelling::Base32, bytes, run, found);
}

/// Undoes `=XX` and soft line ends, where there are some; leaves out what is far from all of them.
pub(super) fn quoted_printable(text: &[u8]) -> Option<View> {
    let signs = || memchr::memchr_iter(b'=', text);
    if signs().filter(|at| quoted(text, *at).is_some()).take(QUOTED_MIN).count() < QUOTED_MIN {
        return None;
    }
    let mut excerpt = Excerpt::of(text, excerpt::AROUND_BYTES);
    for at in signs() {
        let behind = text.get(at + 1..).unwrap_or_default();
        if let Some(meant) = quoted(text, at) {
            excerpt.begin(at..at + 3);
            excerpt.write(&[meant], at, 3);
        } else if let Some(end) = line_end(behind) {
            excerpt.begin(at..at + 1 + end);
        }
    }
    excerpt.read()
}

/// Undoes soft line ends within words in a text that is not quoted-printable otherwise. Of assignments of nothing, one a
/// line, it makes words that nobody wrote.
fn unwrapped(text: &[u8]) -> Option<View> {
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let mut excerpt = Excerpt::of(text, excerpt::AROUND_BYTES);
    for at in memchr::memchr_iter(b'=', text) {
        let behind = text.get(at + 1..).unwrap_or_default();
        let Some(end) = line_end(behind).filter(|end| behind.get(*end).is_some_and(is_of_word)) else {
            continue;
        };
        if at.checked_sub(1).and_then(|before| text.get(before)).is_some_and(is_of_word) {
            excerpt.begin(at..at + 1 + end);
        }
    }
    excerpt.read()
}

/// Returns how long the end of a line is that a text begins with.
fn line_end(text: &[u8]) -> Option<usize> {
    let ends: [&[u8]; 2] = [b"\n", b"\r\n"];
    ends.into_iter().find(|end| text.starts_with(end)).map(<[u8]>::len)
}

/// Returns the byte that `=XX` stands for at a place.
fn quoted(text: &[u8], at: usize) -> Option<u8> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    };
    match text.get(at..at + 3) {
        Some([b'=', high, low]) => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    }
}

fn morse(text: &[u8], found: &mut Vec<Spelt>) {
    let fit = |byte| matches!(byte, b'.' | b'-' | b' ' | b'/' | b'|' | b'\n');
    let mut capitals = Vec::new();
    for run in stretches(text, MORSE_MIN * 3, fit) {
        let signs = String::from_utf8_lossy(text.get(run.clone()).unwrap_or_default());
        let words = signs.replace("   ", "/").replace(['|', '\n', '/'], " / ");
        let letters: Vec<Option<u8>> =
            words.split(' ').filter(|sign| !sign.is_empty()).map(morse_letter).collect();
        let known: Vec<u8> = letters.iter().map(|letter| letter.unwrap_or(b'?')).collect();
        let count = letters.iter().flatten().count();
        if count >= MORSE_MIN && count * 100 >= letters.len() * LETTERS_PERCENT_MIN {
            // The letters of a number are capitals.
            if known.iter().any(u8::is_ascii_digit) {
                add(Spelling::Morse, known.to_ascii_uppercase(), run.clone(), &mut capitals);
            }
            add(Spelling::Morse, known, run, found);
        }
    }
    capitals.iter_mut().for_each(|spelt| spelt.is_bare = true);
    found.extend(capitals);
}

/// Returns the character of a sign (ITU-R M.1677-1, with the signs in common use beside it); a space between words.
fn morse_letter(sign: &str) -> Option<u8> {
    const SIGNS: [(&str, &[u8]); 2] = [
        (
            ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --..",
            b"abcdefghijklmnopqrstuvwxyz",
        ),
        (
            "----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----. .-.-.- --..-- ..--.. .----. -.-.-- -..-. -.--. \
             -.--.- .-... ---... -.-.-. -...- .-.-. -....- ..--.- .-..-. ...-..- .--.-.",
            b"0123456789.,?'!/()&:;=+-_\"$@",
        ),
    ];
    if sign == "/" {
        return Some(b' ');
    }
    SIGNS.iter().find_map(|(signs, characters)| {
        characters.get(signs.split_ascii_whitespace().position(|known| known == sign)?).copied()
    })
}
