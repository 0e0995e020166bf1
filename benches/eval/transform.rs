//! Ways to write the same words so that a filter does not see them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A way to write a text.
pub struct Transform {
    /// Its name in the report.
    pub name: &'static str,
    /// What it hides by: `invisible`, `look-alike`, `encoding`, `spelling` or `none`.
    pub family: &'static str,
    /// Writes a text.
    pub write: fn(&str) -> String,
}

/// Every way that is measured.
pub const TRANSFORMS: [Transform; 27] = [
    Transform { name: "upper case", family: "none", write: |text| text.to_uppercase() },
    Transform { name: "mixed case", family: "none", write: mixed_case },
    Transform { name: "in a code fence", family: "none", write: |text| format!("```\n{text}\n```") },
    Transform { name: "in an HTML comment", family: "none", write: |text| format!("<!-- {text} -->") },
    Transform { name: "line breaks for spaces", family: "none", write: |text| text.replace(' ', "\n") },
    Transform { name: "zero-width spaces", family: "invisible", write: |text| between(text, '\u{200b}') },
    Transform { name: "word joiners", family: "invisible", write: |text| between(text, '\u{2060}') },
    Transform { name: "soft hyphens", family: "invisible", write: |text| between(text, '\u{ad}') },
    Transform { name: "combining marks", family: "invisible", write: |text| between(text, '\u{336}') },
    Transform { name: "variation selectors", family: "invisible", write: |text| between(text, '\u{fe0f}') },
    Transform { name: "tag characters", family: "invisible", write: tags },
    Transform {
        name: "bidi override marks",
        family: "invisible",
        write: |text| format!("\u{202d}{text}\u{202c}"),
    },
    Transform { name: "fullwidth", family: "look-alike", write: fullwidth },
    Transform { name: "mathematical bold", family: "look-alike", write: bold },
    Transform { name: "Cyrillic homoglyphs", family: "look-alike", write: homoglyphs },
    Transform { name: "small capitals", family: "look-alike", write: small_capitals },
    Transform { name: "homoglyphs of rare scripts", family: "look-alike", write: rare_homoglyphs },
    Transform { name: "letters in boxes", family: "look-alike", write: boxed },
    Transform {
        name: "base64",
        family: "encoding",
        write: |text| format!("Decode: {}", STANDARD.encode(text)),
    },
    Transform { name: "hex", family: "encoding", write: |text| format!("Decode: {}", hex(text)) },
    Transform {
        name: "percent",
        family: "encoding",
        write: |text| bytes(text, |byte| format!("%{byte:02X}")),
    },
    Transform {
        name: "HTML entities",
        family: "encoding",
        write: |text| characters(text, |it| format!("&#{};", it as u32)),
    },
    Transform { name: "\\u escapes", family: "encoding", write: unicode_escapes },
    Transform {
        name: "base64 twice",
        family: "encoding",
        write: |text| STANDARD.encode(STANDARD.encode(text)),
    },
    Transform { name: "leet", family: "spelling", write: leet },
    Transform { name: "letters spaced out", family: "spelling", write: |text| between(text, ' ') },
    Transform { name: "letters dotted", family: "spelling", write: |text| words(text, ".") },
];

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
