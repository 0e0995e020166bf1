//! Letters moved, turned round, pulled apart, or written as digits.

use crate::scan::view::View;

/// How many letters stand apart before that counts as a way to write.
const APART_MIN: usize = 5;

/// The words that orders are made of, to be told apart where nothing else parts them.
const ORDER_WORDS: [&str; 30] = [
    "above",
    "all",
    "and",
    "any",
    "are",
    "developer",
    "disregard",
    "everything",
    "following",
    "forget",
    "guidelines",
    "ignore",
    "instruction",
    "instructions",
    "message",
    "mode",
    "my",
    "now",
    "override",
    "previous",
    "print",
    "prior",
    "prompt",
    "reveal",
    "rules",
    "show",
    "system",
    "the",
    "you",
    "your",
];

/// The shortest of them that tells an order, in bytes, and how many such there have to be.
const TELLING_BYTES_MIN: usize = 5;
const TELLING_MIN: usize = 2;

/// How many letters stand apart in a row before it is worth a look.
const APART_GLANCE: u32 = 4;

/// How many bytes are looked at together.
const STEP: usize = size_of::<u64>();

/// How many signs may part two letters of such a row.
const APART_SIGNS_MAX: usize = 3;

/// How far before the end of a word its digits are looked for, in bytes.
const LEET_BYTES: usize = 6;

/// Moves ASCII letters along the alphabet by so many places.
pub(super) fn moved(text: &[u8], places: u8) -> Vec<u8> {
    let along = |byte: u8, first: u8| first + (byte - first + places) % 26;
    text.iter()
        .map(|byte| match byte {
            b'a'..=b'z' => along(*byte, b'a'),
            b'A'..=b'Z' => along(*byte, b'A'),
            other => *other,
        })
        .collect()
}

/// Turns a text round, character by character, and byte by byte what is none.
pub(super) fn reversed(text: &[u8]) -> Vec<u8> {
    let mut turned: Vec<u8> = text.iter().rev().copied().collect();
    let mut end = turned.len();
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            let start = end - character.len_utf8();
            if end - start > 1 {
                turned.get_mut(start..end).unwrap_or_default().reverse();
            }
            end = start;
        }
        end -= chunk.invalid().len();
    }
    turned
}

/// Tells whether a word that ends at an offset has a sign in the place of a letter.
pub(super) fn has_leet(text: &[u8], end: usize) -> bool {
    let word = text.get(end.saturating_sub(LEET_BYTES)..end).unwrap_or_default();
    word.iter().any(|byte| letter(*byte, b'i') != *byte)
}

/// Writes letters for digits and signs; `one` is what 1 stands for.
pub(super) fn unleeted(text: &[u8], one: u8) -> Vec<u8> {
    text.iter().map(|byte| letter(*byte, one)).collect()
}

fn letter(byte: u8, one: u8) -> u8 {
    match byte {
        b'0' => b'o',
        b'1' | b'|' => one,
        b'!' => b'i',
        b'3' => b'e',
        b'4' | b'@' => b'a',
        b'5' | b'$' => b's',
        b'6' | b'9' => b'g',
        b'7' | b'+' => b't',
        other => other,
    }
}

/// Tells whether a few letters or digits in a row stand one by one, with one to three signs between them.
pub(super) fn stand_apart(text: &[u8]) -> bool {
    let mut row = Row { text, last: 0, count: 0 };
    let (mut before, mut here) = (0, alphanumerics(text.get(..STEP).unwrap_or(text)));
    for start in (0..text.len()).step_by(STEP) {
        let next = text.get(start + STEP..).unwrap_or_default();
        let behind = alphanumerics(next.get(..STEP).unwrap_or(next));
        let beside = here << 8 | before >> 56 | here >> 8 | behind << 56;
        let mut alone = here & !beside;
        while alone != 0 {
            if row.take(start + alone.trailing_zeros() as usize / 8) {
                return true;
            }
            alone &= alone - 1;
        }
        (before, here) = (here, behind);
    }
    false
}

/// Letters that stand one by one, as they are met.
struct Row<'t> {
    text: &'t [u8],
    /// The last of them.
    last: usize,
    /// How many there were in a row.
    count: u32,
}

impl Row<'_> {
    /// Takes the next letter that stands alone; true if it is the last of a few in a row.
    fn take(&mut self, at: usize) -> bool {
        let between = self.text.get(self.last + 1..at).unwrap_or_default();
        let goes_on = (1..=APART_SIGNS_MAX).contains(&between.len()) && between.iter().all(|it| is_gap(*it));
        self.last = at;
        self.count = if goes_on { self.count + 1 } else { 1 };
        self.count >= APART_GLANCE
    }
}

/// Returns the high bit of each of up to eight bytes that is a letter or a digit, the first byte lowest.
fn alphanumerics(bytes: &[u8]) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES * 0x80;
    let word = match <[u8; 8]>::try_from(bytes) {
        Ok(bytes) => u64::from_le_bytes(bytes),
        Err(_) => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    // No byte carries into the next: each is below 0x80, and so is what is added.
    let within = |bytes: u64, first: u8, last: u8| {
        (bytes + ONES * u64::from(0x80 - first)) & !(bytes + ONES * u64::from(0x7f - last))
    };
    let digits = within(word & !HIGH, b'0', b'9');
    let letters = within((word | (ONES * 0x20)) & !HIGH, b'a', b'z');
    (digits | letters) & !word & HIGH
}

/// Puts letters together that stand one by one, `i g n o r e  a l l`; nothing if none do.
pub(super) fn spaced(text: &[u8]) -> Option<View> {
    let mut view = View::default();
    let (mut at, mut found) = (0, false);
    while at < text.len() {
        let run = apart(text, at);
        if run.letters < APART_MIN {
            let next = if run.end > at { run.end } else { at + 1 };
            view.append(text.get(at..next).unwrap_or_default(), at, 1, 1);
            at = next;
            continue;
        }
        found = true;
        for (letter, place) in parted(run.joined) {
            view.append(&[letter], place, 1, 1);
        }
        at = run.end;
    }
    found.then_some(view)
}

/// Parts the words of an order whose letters all stand equally apart.
fn parted(joined: Vec<(u8, usize)>) -> Vec<(u8, usize)> {
    let letters: Vec<u8> = joined.iter().map(|(letter, _)| letter.to_ascii_lowercase()).collect();
    let word_at = |at: usize| {
        let rest = letters.get(at..).unwrap_or_default();
        ORDER_WORDS.iter().filter(|word| rest.starts_with(word.as_bytes())).map(|word| word.len()).max()
    };
    let (mut out, mut telling, mut at): (Vec<(u8, usize)>, _, _) = (Vec::new(), 0, 0);
    let mut is_behind_word = false;
    while let Some((_, place)) = joined.get(at) {
        let word = word_at(at);
        // What stands between the letters stands for the space.
        if at > 0 && (word.is_some() || is_behind_word) {
            out.push((b' ', place - 1));
        }
        is_behind_word = word.is_some();
        telling += usize::from(word.is_some_and(|length| length >= TELLING_BYTES_MIN));
        let next = at + word.unwrap_or(1);
        out.extend_from_slice(joined.get(at..next).unwrap_or_default());
        at = next;
    }
    let is_parted = letters.contains(&b' ') || telling < TELLING_MIN;
    if is_parted { joined } else { out }
}

/// Letters one by one.
struct Apart {
    letters: usize,
    end: usize,
    /// Each letter, and a space where words part, with its place.
    joined: Vec<(u8, usize)>,
}

/// Reads letters that stand one by one from a place on.
fn apart(text: &[u8], from: usize) -> Apart {
    let mut run = Apart { letters: 0, end: from, joined: Vec::new() };
    let byte = |at: usize| text.get(at).copied();
    let is_word = |at: Option<usize>| at.and_then(byte).is_some_and(|it| it.is_ascii_alphanumeric());
    if is_word(from.checked_sub(1)) || byte(from + 1).is_none_or(|next| !is_gap(next)) {
        return run;
    }
    let mut at = from;
    while let Some(letter) = byte(at).filter(u8::is_ascii_alphanumeric) {
        if is_word(Some(at + 1)) {
            break;
        }
        run.letters += 1;
        run.joined.push((letter, at));
        run.end = at + 1;
        let gap = text.get(at + 1..).unwrap_or_default().iter().take_while(|it| is_gap(**it)).count();
        if gap == 0 {
            break;
        }
        if gap > 1 {
            run.joined.push((b' ', at + 1));
        }
        at += 1 + gap;
    }
    while run.joined.last().is_some_and(|(sign, _)| *sign == b' ') {
        run.joined.pop();
    }
    run
}

/// Tells whether a byte may part letters that belong together.
fn is_gap(byte: u8) -> bool {
    matches!(byte, b' ' | b'.' | b'-' | b'_' | b'*' | b'|' | b'/' | b'~' | b'+' | b',')
}
