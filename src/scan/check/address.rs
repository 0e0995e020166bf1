//! What the address of a link or a picture carries away.
//!
//! In: an address, as a text holds it. Out: whether readable text stands in it in base64, base32 or hexadecimal: in
//! its path, its query, its fragment or the labels of its host. Random tokens, digests and signatures do not decode
//! to text; that is what tells data from them. What decodes to an address is looked into again, for redirectors and
//! proxies of pictures hold one. What is encrypted or packed is not recognised here.

use crate::scan::check::encoding::BASE32;

/// Decoded bytes from which text says something.
const TEXT_BYTES_MIN: usize = 12;
/// Decoded bytes of one place that are looked at.
const TEXT_BYTES_MAX: usize = 512;
/// Readable bytes that are decoded of an address and of those within it. One that holds more has readable text at place
/// after place, which is what is looked for.
const READ_BYTES_MAX: usize = 1 << 15;
/// Words from which text is a sentence, no name or key of a page.
const WORDS_MIN: usize = 3;
/// Characters of a script without spaces that make a sentence.
const CHARACTERS_MIN: usize = 8;
/// Where scripts that are written without spaces begin: Thai, and behind it those of East Asia.
const SPACELESS_FIRST: char = '\u{0e00}';
/// Bytes of a host's label from which it may be a piece of data.
const LABEL_BYTES_MIN: usize = 8;
/// Bytes of the longest scheme before an address within an address.
const SCHEME_BYTES_MAX: usize = 8;
/// Times an address is unescaped, and times an address within an address is looked into.
const DEPTH_MAX: usize = 3;
/// Marks a byte that is no digit.
const NO_DIGIT: u8 = u8::MAX;
/// What each byte stands for in base64, usual and of addresses.
const BASE64_DIGITS: [u8; 256] = {
    let mut digits = digits_of(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
    digits[b'-' as usize] = 62;
    digits[b'_' as usize] = 63;
    digits
};
/// What each byte stands for in base32, in whichever case.
const BASE32_DIGITS: [u8; 256] = either_case(digits_of(BASE32));
/// What each byte stands for in hexadecimal, in whichever case.
const HEX_DIGITS: [u8; 256] = either_case(digits_of(b"0123456789ABCDEF"));
/// What ends the name of a host; browsers take a backslash for a slash.
const HOST_ENDS: &[u8] = b"/?#\\";
/// Sites whose addresses hold the drawing or the program that they show.
const SHOWN_BY: &[&str] = &["mermaid.ink", "mermaid.live", "plantuml.com", "play.vuejs.org"];
/// Sites that draw the words, the formula or the figures that their addresses hold, for whoever asks, and show nobody who did.
const DRAWN_BY: &[&str] = &[
    "badgen.net",
    "chart.googleapis.com",
    "codecogs.com",
    "dummyimage.com",
    "kroki.io",
    "og-image.vercel.app",
    "placehold.co",
    "placehold.jp",
    "placeholder.com",
    "pollinations.ai",
    "qrserver.com",
    "quickchart.io",
    "shields.io",
];

/// Tells whether the address is none of a site that draws what its address says.
pub fn not_drawn_by_site(value: &[u8]) -> bool {
    let start = memchr::memmem::find(value, b"//").map_or(0, |at| at + 2);
    let rest = value.get(start..).unwrap_or_default();
    let end = rest.iter().position(|byte| HOST_ENDS.contains(byte)).unwrap_or(rest.len());
    !is_of(rest.get(..end).unwrap_or_default(), DRAWN_BY)
}

/// Tells whether the address carries encoded text: no other address, no signed token, no key of a store of pictures.
pub fn carries_text(value: &[u8]) -> bool {
    is_carrier(value, DEPTH_MAX, &mut 0, |text| !text.starts_with(['{', '[']) || is_sentence(text))
}

/// Tells whether the address carries an encoded sentence.
pub fn carries_words(value: &[u8]) -> bool {
    is_carrier(value, DEPTH_MAX, &mut 0, is_sentence)
}

/// `so_far` counts the readable bytes of all places.
fn is_carrier(address: &[u8], depth: usize, so_far: &mut usize, says_enough: fn(&str) -> bool) -> bool {
    let plain = unescaped(address);
    let start = memchr::memmem::find(&plain, b"//").map_or(0, |at| at + 2);
    let rest = plain.get(start..).unwrap_or_default();
    let (host, tail) =
        rest.split_at(rest.iter().position(|byte| HOST_ENDS.contains(byte)).unwrap_or(rest.len()));
    if is_of(host, SHOWN_BY) {
        return false;
    }
    let labels = host.split(|byte| *byte == b'.').filter(|label| label.len() >= LABEL_BYTES_MIN);
    let joined: Vec<u8> = labels.flatten().copied().collect();
    let mut carries = |text: String| {
        *so_far += text.len();
        match is_address(&text) {
            _ if *so_far > READ_BYTES_MAX => true,
            true => depth > 1 && is_carrier(text.as_bytes(), depth - 1, so_far, says_enough),
            false => !is_signed(&text) && !is_drawn(&text) && says_enough(&text),
        }
    };
    places(host).chain([&joined[..]]).chain(places(tail)).any(|place| readings(place).any(&mut carries))
}

/// Tells whether a host is one of some sites, or belongs to one. A name before an `@`, or a port, makes it none.
fn is_of(host: &[u8], sites: &[&str]) -> bool {
    let lower = host.to_ascii_lowercase();
    sites.iter().any(|site| {
        let front = lower.strip_suffix(site.as_bytes());
        front.is_some_and(|front| front.is_empty() || front.ends_with(b"."))
    })
}

fn is_sentence(text: &str) -> bool {
    text.split_whitespace().count() >= WORDS_MIN
        || text.chars().filter(|sign| *sign >= SPACELESS_FIRST).count() >= CHARACTERS_MIN
}

fn is_address(text: &str) -> bool {
    let scheme = text.find("://").is_some_and(|at| at <= SCHEME_BYTES_MAX);
    scheme && !text.contains(char::is_whitespace)
}

/// Tells whether the text is a part of a web token, which is signed and names a bearer.
fn is_signed(text: &str) -> bool {
    text.starts_with("{\"") && ["\"alg\":", "\"exp\":", "\"iat\":"].iter().any(|claim| text.contains(claim))
}

/// Tells whether the text is a picture, as badges hold their logo.
fn is_drawn(text: &str) -> bool {
    text.starts_with("<svg") || text.starts_with("<?xml")
}

/// Returns what each byte stands for as a digit of an alphabet.
const fn digits_of(alphabet: &[u8]) -> [u8; 256] {
    let mut digits = [NO_DIGIT; 256];
    let mut value = 0;
    while value < alphabet.len() {
        digits[alphabet[value] as usize] = value as u8;
        value += 1;
    }
    digits
}

/// Has small letters stand for what capitals do.
const fn either_case(mut digits: [u8; 256]) -> [u8; 256] {
    let mut byte = b'A';
    while byte <= b'Z' {
        digits[byte.to_ascii_lowercase() as usize] = digits[byte as usize];
        byte += 1;
    }
    digits
}

/// Undoes percent escapes, also those of escapes.
fn unescaped(address: &[u8]) -> Vec<u8> {
    let mut plain = address.to_vec();
    for _ in 0..DEPTH_MAX {
        if !plain.contains(&b'%') {
            break;
        }
        let mut next = Vec::with_capacity(plain.len());
        let mut rest = &plain[..];
        while let [first, tail @ ..] = rest {
            let digit = |byte: u8| Some(HEX_DIGITS[usize::from(byte)]).filter(|value| *value != NO_DIGIT);
            let escaped = match rest {
                [b'%', high, low, ..] => digit(*high).zip(digit(*low)),
                _ => None,
            };
            next.push(escaped.map_or(*first, |(high, low)| high << 4 | low));
            rest = if escaped.is_some() { rest.get(3..).unwrap_or_default() } else { tail };
        }
        plain = next;
    }
    plain
}

/// Returns what follows each place where an encoded value may begin.
fn places(part: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_digit = move |at: usize| BASE64_DIGITS[usize::from(part[at])] != NO_DIGIT;
    let begins = move |at: usize| {
        is_digit(at) && at.checked_sub(1).is_none_or(|before| part[before] == b'/' || !is_digit(before))
    };
    (0..part.len()).filter(move |at| begins(*at)).map(|at| &part[at..])
}

/// Returns what a place says in each encoding, as far as it can be read, where that is enough to say something.
fn readings(place: &[u8]) -> impl Iterator<Item = String> {
    [(6, &BASE64_DIGITS), (5, &BASE32_DIGITS), (4, &HEX_DIGITS)]
        .into_iter()
        .filter_map(|(bits, digits)| read(place, bits, digits))
}

fn read(place: &[u8], bits: u32, digits: &[u8; 256]) -> Option<String> {
    let (mut held, mut count) = (0_u32, 0);
    let values = place.iter().map(|byte| digits[usize::from(*byte)]).take_while(|value| *value != NO_DIGIT);
    let whole = values.filter_map(|value| {
        held = held << bits & 0xffff | u32::from(value);
        count += bits;
        count.checked_sub(8).map(|left| {
            count = left;
            (held >> left & 0xff) as u8
        })
    });
    let printable = |byte: &u8| !byte.is_ascii_control() || byte.is_ascii_whitespace();
    let mut readable = whole.take_while(printable).take(TEXT_BYTES_MAX);
    // Most places say nothing, which their first bytes tell.
    let mut head = [0; TEXT_BYTES_MIN];
    for to in &mut head {
        *to = readable.next()?;
    }
    if str::from_utf8(&head).is_err_and(|fault| fault.error_len().is_some()) {
        return None;
    }
    let bytes: Vec<u8> = head.into_iter().chain(readable).collect();
    let said = bytes.utf8_chunks().next()?.valid();
    (said.len() >= TEXT_BYTES_MIN).then(|| said.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_sentences_are_found_wherever_an_address_holds_them() {
        let sentences = [
            "https://e.example/?q=VGhlIHNlY3JldCBpcyBtYW5nbw",
            "HTTPS://e.example/a/b/VGhlIHNlY3JldCBpcyBtYW5nbw.png",
            "//e.example/p.gif#VGhlIHNlY3JldCBpcyBtYW5nbw==",
            "https://54686520736563726574206973206d616e676f.e.example/",
            "https://5468652073656372.6574206973206d61.6e676f21.e.example/",
            "https://krugkidtmvrxezluebuxgidnmfxgo3y.e.example",
            "wss://e.example/s?a=1&note=VGhlIHNlY3JldCBpcyBtYW5nbw%3D%3D",
            "https://r.example/url?q=https%3A%2F%2Fe.example%2F%3Fd%3DVGhlIHNlY3JldCBpcyBtYW5nbw",
            "https://r.example/url?q=https%253A%252F%252Fe.example%252F%253Fd%253DVGhlIHNlY3JldCBpcyBtYW5nbw",
            "https://p.example/i/aHR0cHM6Ly9lLmV4YW1wbGUvP2Q9VkdobElITmxZM0psZENCcGN5QnRZVzVuYnc.png",
            "https://e.example/?t=YTovL1RoZSBzZWNyZXQgaXMgbWFuZ28",
            "https://e.example/?t=55eY5a-G5piv6IqS5p6c5ZKM6JOd6Imy",
        ];
        for address in sentences {
            assert!(carries_words(address.as_bytes()) && carries_text(address.as_bytes()), "{address}");
        }
        let texts =
            ["https://e.example/MTIzLTQ1LTY3ODktQW5uYQ.png", "https://636f6e666964656e7469616c.e.example/x"];
        for address in texts {
            assert!(!carries_words(address.as_bytes()) && carries_text(address.as_bytes()), "{address}");
        }
    }

    #[test]
    fn an_address_within_address_within_address_is_not_read_without_end() {
        // "ab?ab?" and "://YWI/YWI/?" in base64: behind each slash another value may begin, which reads on to the end.
        for tail in ["YWI/".repeat(1000), "Oi8vWVdJL1lXSS8/".repeat(250)] {
            let (address, mut read) = (format!("https://e.example/{tail}"), 0);
            is_carrier(address.as_bytes(), DEPTH_MAX, &mut read, is_sentence);
            assert!(read <= READ_BYTES_MAX + TEXT_BYTES_MAX, "{read} bytes of {tail:.20}");
        }
    }

    #[test]
    fn a_logo_in_an_address_is_none_of_it_however_long() {
        let logo =
            "PHN2ZyByb2xlPSJpbWciIHdpZHRoPSIxIiBoZWlnaHQ9IjEiPjxwYXRoIGQ9Ik0xIDEiLz48L3N2Zz4".repeat(40);
        let address = format!("https://img.example/v1?logo=data:image/svg+xml;base64,{logo}");
        assert!(!carries_text(address.as_bytes()));
    }

    #[test]
    fn ordinary_addresses_carry_nothing() {
        let ordinary = [
            "https://example.com/docs/how-to-write-a-parser-in-rust/chapter-12?page=2#error-handling",
            "https://github.com/o/r/commit/5600870c9f1d2b3a4e5f60718293a4b5c6d7e8f9",
            "https://camo.githubusercontent.com/4bf1f0c9f1/68747470733a2f2f696d672e736869656c64732e696f2f6e70",
            "https://d1.cloudfront.net/eyJidWNrZXQiOiJhc3NldHMiLCJrZXkiOiJpbWcvMS5wbmcifQ==",
            "https://i.example/u.png?jwt=eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJnaXRodWIuY29tIiwiZXhwIjoxfQ.c2ln",
            "https://mermaid.ink/img/Z3JhcGggVEQKICBBIC0tPiBCCiAgQiAtLT4gQw",
            "https://img.example/static/v1?label=docs&logo=data:image/svg+xml;base64,PHN2ZyByb2xlPSJpbWciIHdpZHRoPSIxIiBoZWlnaHQ9IjEiPg",
            "https://www.google.com/search?q=how+to+write+a+parser&ei=Zr9eZt_tKNKB9u8P1bCQ2AE",
            "https://lh3.googleusercontent.com/a-/AOh14Gg5nq0d9cWc0oJcYQ2y1vB7ZkP3xK4mN8rT6sU=s96-c",
            "https://example.com/?a=%zz%4",
            "https://",
            "",
        ];
        for address in ordinary {
            assert!(!carries_words(address.as_bytes()) && !carries_text(address.as_bytes()), "{address}");
        }
    }

    #[test]
    fn an_address_of_a_site_that_draws_it_is_told_by_its_host() {
        for address in ["https://image.pollinations.ai/prompt/a%20red%20house", "//placehold.co?text=My+Logo"]
        {
            assert!(!not_drawn_by_site(address.as_bytes()), "{address}");
        }
        for address in [
            "https://e.example/placehold.co/a+b",
            "https://xplacehold.co/a+b",
            "https://placehold.co@e.example/a+b",
            "https://placehold.co:8080/a+b",
            "https://e.example\\.placehold.co/a+b",
            "placehold",
        ] {
            assert!(not_drawn_by_site(address.as_bytes()), "{address}");
        }
    }
}
