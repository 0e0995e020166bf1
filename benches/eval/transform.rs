//! Ways to write the same words so that a filter does not see them.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

/// A way to write a text.
pub struct Transform {
    /// Its name in the report.
    pub name: &'static str,
    /// What it hides by: `invisible`, `look-alike`, `encoding`, `spelling`, `cipher` or `none`.
    pub family: &'static str,
    /// Whether every letter comes back as it was, so that a key stays the same key.
    pub is_exact: bool,
    /// Tells whether it has signs for all letters of a text.
    pub carries: fn(&str) -> bool,
    /// Writes a text.
    pub write: fn(&str) -> String,
}

/// Every way that is measured.
pub const TRANSFORMS: [Transform; 41] = [
    lossy("upper case", "none", |text| text.to_uppercase()),
    lossy("mixed case", "none", mixed_case),
    exact("in a code fence", "none", |text| format!("```\n{text}\n```")),
    exact("in an HTML comment", "none", |text| format!("<!-- {text} -->")),
    exact("in a Markdown comment", "none", |text| format!("[//]: # ({})", text.replace('\n', " "))),
    exact("in hidden HTML", "none", |text| format!("<p style=\"display:none\">{text}</p>")),
    lossy("line breaks for spaces", "none", |text| text.replace(' ', "\n")),
    exact("zero-width spaces", "invisible", |text| between(text, '\u{200b}')),
    exact("word joiners", "invisible", |text| between(text, '\u{2060}')),
    exact("soft hyphens", "invisible", |text| between(text, '\u{ad}')),
    exact("combining marks", "invisible", |text| between(text, '\u{336}')),
    exact("variation selectors", "invisible", |text| between(text, '\u{fe0f}')),
    exact("tag characters", "invisible", tags),
    exact("bidi override marks", "invisible", |text| format!("\u{202d}{text}\u{202c}")),
    exact("fullwidth", "look-alike", fullwidth),
    exact("mathematical bold", "look-alike", bold),
    exact("Cyrillic homoglyphs", "look-alike", homoglyphs),
    lossy("small capitals", "look-alike", small_capitals),
    exact("homoglyphs of rare scripts", "look-alike", rare_homoglyphs),
    lossy("letters in boxes", "look-alike", boxed),
    exact("base64", "encoding", |text| format!("Decode: {}", STANDARD.encode(text))),
    exact("base64url", "encoding", |text| format!("Decode: {}", URL_SAFE_NO_PAD.encode(text))),
    exact("hex", "encoding", |text| format!("Decode: {}", hex(text))),
    exact("percent", "encoding", |text| bytes(text, |byte| format!("%{byte:02X}"))),
    exact("HTML entities", "encoding", |text| characters(text, |it| format!("&#{};", it as u32))),
    exact("\\u escapes", "encoding", unicode_escapes),
    exact("\\x escapes", "encoding", |text| bytes(text, |byte| format!("\\x{byte:02x}"))),
    exact("base64 twice", "encoding", |text| STANDARD.encode(STANDARD.encode(text))),
    exact("base32", "encoding", |text| format!("Decode: {}", base32(text.as_bytes()))),
    exact("Ascii85", "encoding", |text| format!("Decode: <~{}~>", ascii85(text.as_bytes()))),
    exact("quoted-printable", "encoding", quoted_printable),
    exact("gzip and base64", "encoding", gzip),
    exact("binary", "encoding", |text| bytes(text, |byte| format!("{byte:08b} "))),
    lossy("leet", "spelling", leet),
    exact("letters spaced out", "spelling", |text| between(text, ' ')),
    exact("letters dotted", "spelling", |text| words(text, ".")),
    exact("split over variables", "spelling", variables),
    exact("ROT13", "cipher", |text| caesar(text, 13)),
    exact("Caesar by three", "cipher", |text| caesar(text, 3)),
    Transform { carries: str::is_ascii, ..lossy("Morse", "cipher", morse) },
    exact("reversed", "cipher", |text| text.chars().rev().collect()),
];

const fn exact(name: &'static str, family: &'static str, write: fn(&str) -> String) -> Transform {
    Transform { name, family, is_exact: true, carries: |_| true, write }
}

const fn lossy(name: &'static str, family: &'static str, write: fn(&str) -> String) -> Transform {
    Transform { name, family, is_exact: false, carries: |_| true, write }
}

fn characters(text: &str, write: impl Fn(char) -> String) -> String {
    text.chars().map(write).collect()
}

fn bytes(text: &str, write: impl Fn(u8) -> String) -> String {
    text.bytes().map(write).collect()
}

fn hex(text: &str) -> String {
    bytes(text, |byte| format!("{byte:02x}"))
}

fn between(text: &str, sign: char) -> String {
    let letters: Vec<String> = text.chars().map(String::from).collect();
    letters.join(&sign.to_string())
}

fn words(text: &str, sign: &str) -> String {
    let spell = |word: &str| word.chars().map(String::from).collect::<Vec<_>>().join(sign);
    text.split(' ').map(spell).collect::<Vec<_>>().join(" ")
}

fn mixed_case(text: &str) -> String {
    let case = |(at, letter): (usize, char)| match at % 2 {
        0 => letter.to_ascii_uppercase(),
        _ => letter.to_ascii_lowercase(),
    };
    text.chars().enumerate().map(case).collect()
}

fn shifted(text: &str, shift: impl Fn(char) -> Option<u32>) -> String {
    text.chars().map(|letter| shift(letter).and_then(char::from_u32).unwrap_or(letter)).collect()
}

fn tags(text: &str) -> String {
    shifted(text, |letter| letter.is_ascii().then_some(0xe0000 + letter as u32))
}

fn fullwidth(text: &str) -> String {
    shifted(text, |letter| letter.is_ascii_graphic().then_some(letter as u32 + 0xfee0))
}

fn bold(text: &str) -> String {
    shifted(text, |letter| match letter {
        'a'..='z' => Some(0x1d41a + letter as u32 - 'a' as u32),
        'A'..='Z' => Some(0x1d400 + letter as u32 - 'A' as u32),
        _ => None,
    })
}

fn swapped(text: &str, pairs: &[(char, char)]) -> String {
    let swap = |letter: char| pairs.iter().find(|(from, _)| *from == letter).map_or(letter, |(_, to)| *to);
    text.chars().map(swap).collect()
}

fn homoglyphs(text: &str) -> String {
    swapped(text, &[('a', 'а'), ('e', 'е'), ('o', 'о'), ('p', 'р'), ('c', 'с'), ('x', 'х'), ('y', 'у')])
}

/// Lisu, Cherokee, Armenian and phonetic letters, none of them in a table of the scanner.
fn rare_homoglyphs(text: &str) -> String {
    let pairs = [
        ('a', 'ɑ'),
        ('g', 'ɡ'),
        ('i', 'ꭵ'),
        ('o', 'օ'),
        ('s', 'ꮪ'),
        ('v', 'ꮩ'),
        ('w', 'ꮃ'),
        ('z', 'ꮓ'),
        ('u', 'ս'),
    ];
    swapped(text, &pairs)
}

fn small_capitals(text: &str) -> String {
    const LETTERS: [char; 26] = [
        'ᴀ', 'ʙ', 'ᴄ', 'ᴅ', 'ᴇ', 'ꜰ', 'ɢ', 'ʜ', 'ɪ', 'ᴊ', 'ᴋ', 'ʟ', 'ᴍ', 'ɴ', 'ᴏ', 'ᴘ', 'ꞯ', 'ʀ', 'ꜱ', 'ᴛ',
        'ᴜ', 'ᴠ', 'ᴡ', 'x', 'ʏ', 'ᴢ',
    ];
    characters(text, |letter| lettered(letter, |at| LETTERS[at]))
}

fn boxed(text: &str) -> String {
    let boxed = |at: usize| char::from_u32(0x1f170 + at as u32).unwrap_or(' ');
    characters(text, |letter| lettered(letter, boxed))
}

/// Writes a letter by its place in the alphabet, anything else as it is.
fn lettered(letter: char, write: impl Fn(usize) -> char) -> String {
    let at = u8::try_from(letter.to_ascii_lowercase()).ok().filter(u8::is_ascii_lowercase);
    at.map_or(letter, |at| write(usize::from(at - b'a'))).to_string()
}

fn leet(text: &str) -> String {
    swapped(text, &[('a', '4'), ('e', '3'), ('i', '1'), ('o', '0'), ('s', '5'), ('t', '7')])
}

fn unicode_escapes(text: &str) -> String {
    let mut units = [0; 2];
    let write = |letter: char| -> String {
        letter.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect()
    };
    text.chars().map(write).collect()
}

/// Base32 of RFC 4648, padded.
fn base32(text: &[u8]) -> String {
    const DIGITS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut written = String::new();
    for group in text.chunks(5) {
        let value = (0..5).fold(0u64, |value, at| value << 8 | u64::from(*group.get(at).unwrap_or(&0)));
        let count = (group.len() * 8).div_ceil(5);
        let digit = |at: usize| char::from(DIGITS[(value >> (35 - 5 * at) & 31) as usize]);
        written.extend((0..8).map(|at| if at < count { digit(at) } else { '=' }));
    }
    written
}

/// Ascii85 without its marks, and with `z` for four zeros.
fn ascii85(text: &[u8]) -> String {
    let mut written = String::new();
    for group in text.chunks(4) {
        let value = (0..4).fold(0u32, |value, at| value << 8 | u32::from(*group.get(at).unwrap_or(&0)));
        if value == 0 && group.len() == 4 {
            written.push('z');
            continue;
        }
        let digit = |at: u32| char::from(b'!' + (value / 85u32.pow(4 - at) % 85) as u8);
        written.extend((0..=group.len() as u32).map(digit));
    }
    written
}

/// Quoted-printable of RFC 2045, every byte of it quoted.
fn quoted_printable(text: &str) -> String {
    let lines = text.as_bytes().chunks(25);
    let line = |line: &[u8]| line.iter().map(|byte| format!("={byte:02X}")).collect::<String>();
    lines.map(line).collect::<Vec<_>>().join("=\r\n")
}

/// Base64 of a gzip file; the same bytes each time, for it holds no time.
fn gzip(text: &str) -> String {
    let mut file = GzEncoder::new(Vec::new(), Compression::default());
    let written = file.write_all(text.as_bytes()).and_then(|()| file.finish());
    STANDARD.encode(written.expect("nothing fails that writes to memory"))
}

fn caesar(text: &str, places: u32) -> String {
    let moved = |letter: char, first: char| Some((letter as u32 - first as u32 + places) % 26 + first as u32);
    shifted(text, |letter| match letter {
        'a'..='z' => moved(letter, 'a'),
        'A'..='Z' => moved(letter, 'A'),
        _ => None,
    })
}

/// Writes a program that puts a text together from three parts, and asks for its outcome.
fn variables(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let part = |part: &[char]| Value::from(part.iter().collect::<String>()).to_string();
    let parts: Vec<String> = letters.chunks(letters.len().div_ceil(3).max(1)).map(part).collect();
    let names = ["a", "b", "c"];
    let lines = names.iter().zip(&parts).map(|(name, part)| format!("{name} = {part}\n")).collect::<String>();
    format!("{lines}print({})", names[..parts.len()].join(" + "))
}

/// Morse code of letters and digits, words parted by a slash; there is none of anything else.
fn morse(text: &str) -> String {
    const LETTERS: [&str; 26] = [
        ".-", "-...", "-.-.", "-..", ".", "..-.", "--.", "....", "..", ".---", "-.-", ".-..", "--", "-.",
        "---", ".--.", "--.-", ".-.", "...", "-", "..-", "...-", ".--", "-..-", "-.--", "--..",
    ];
    const DIGITS: [&str; 10] =
        ["-----", ".----", "..---", "...--", "....-", ".....", "-....", "--...", "---..", "----."];
    let code = |letter: char| match letter.to_ascii_lowercase() {
        letter @ 'a'..='z' => Some(LETTERS[letter as usize - 'a' as usize]),
        digit @ '0'..='9' => Some(DIGITS[digit as usize - '0' as usize]),
        _ => None,
    };
    let word = |word: &str| word.chars().filter_map(code).collect::<Vec<_>>().join(" ");
    text.split_whitespace().map(word).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" / ")
}
