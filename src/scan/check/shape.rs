//! What random values look like, and what only stands in for one.
//!
//! In: a value on its own. Out: how random it is, or whether it is an example, a mask, a template, an identifier
//! or a digest. These are judgements, not proofs: a checksum says more wherever there is one.

use super::published::not_published;

/// Words that stand in examples and templates, never (next to never) in a random value.
const PLACEHOLDER_WORDS: &[&str] = &[
    "example",
    "sample",
    "placeholder",
    "change",
    "dummy",
    "redact",
    "insert",
    "replace",
    "your",
    "fake",
    "mock",
    "todo",
    "foobar",
    "foo_bar",
    "token_here",
    "key_here",
    "keyhere",
    "enter_",
    "fixme",
    "notreal",
    "not_real",
    "not-real",
    "invalid",
    "undefined",
    "null",
    "none",
    "deadbeef",
    "cafebabe",
    "lorem",
    "mysecret",
    "my_secret",
    "my-secret",
    "mypassword",
    "xxxx",
    "****",
    "...",
    "____",
    "----",
];

/// What keys are called: a value that is called so stands for one, unless the rest of it was drawn.
const NAMES_OF_KEYS: &[&str] = &["secret_key", "secretkey", "api_key", "apikey", "api-key", "access_token"];

/// Words of passwords that stand in examples, and in passwords that somebody took care to choose.
const PASSWORD_WORDS: &[&str] =
    &["hunter2", "letmein", "supersecret", "super_secret", "super-secret", "topsecret"];

/// What is typed rather than drawn: parts of the alphabet, of the numbers and of the keyboard.
const TYPED_WORDS: &[&str] = &["abcdef", "qwerty", "asdf", "12345", "01234", "98765"];

/// Marks of templates: what they stand in is filled in later.
const TEMPLATE_MARKS: &[&str] =
    &["${", "{{", "}}", "<", ">", "%(", "$(", "process.env", "os.environ", "getenv", "…"];

/// What a reference to a value that is kept elsewhere begins with, or one that is encrypted: SOPS, 1Password, AWS Systems
/// Manager, Vault, files.
const REFERENCES: &[&str] = &["enc[", "op://", "ssm:/", "vault:", "file:/"];

/// Passwords of manuals and compose files, lower case.
const COMMON_PASSWORDS: &[&str] = &[
    "password",
    "passwd",
    "pass",
    "pwd",
    "pw",
    "secret",
    "admin",
    "root",
    "user",
    "username",
    "test",
    "guest",
    "postgres",
    "mysql",
    "mongo",
    "mongodb",
    "redis",
    "rabbitmq",
    "default",
    "foo",
    "bar",
    "baz",
    "token",
    "string",
    "value",
    "true",
    "false",
    "key",
    "credentials",
    "my-password",
    "my_password",
    "welcome",
    "demo",
];

/// Characters that repeat before a value counts as a mask.
const RUN_MAX: usize = 5;
/// For so many bytes of a value such a run may be one longer: it comes by chance in a long one.
const RUN_SHARE: usize = 20;
/// The part of a long value that may be a run of `A`: so tokens that are records in base64 write zeros.
const ZEROS_SHARE: usize = 10;
/// Words of so many letters come by chance in values that are drawn …
const SHORT_WORD_BYTES: usize = 4;
/// … of at least so many bytes.
const DRAWN_BYTES_MIN: usize = 20;
/// The fewest bytes of a password that was chosen with care around a word.
const EMBELLISHED_BYTES_MIN: usize = 10;
/// Characters that count up or down before a value counts as typed, not drawn.
const SEQUENCE_MAX: usize = 6;
/// Share of neighbours of different class below which letters and digits read as an identifier.
const DISORDER_PERCENT_MIN: usize = 25;
/// The same share for a value of `LONG_BYTES` whose digits stand in one place only.
const LONG_DISORDER_PERCENT_MIN: usize = 35;
/// Bytes from which disorder alone may speak for a value.
const LONG_BYTES: usize = 20;

/// Returns the Shannon entropy of the bytes of `value`, in bits a byte; 0 for an empty one.
pub fn entropy(value: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in value {
        counts[usize::from(*byte)] += 1;
    }
    let length = value.len() as f64;
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| f64::from(*count) / length)
        .map(|p| -p * p.log2())
        .sum()
}

/// Tells whether `value` is none of: an example, a mask, a template, a run, a sequence, a word repeated.
pub fn not_placeholder(value: &[u8]) -> bool {
    let lower = value.to_ascii_lowercase();
    not_mask(value)
        && !holds(&lower, TYPED_WORDS)
        && longest_step(&lower, 1) < SEQUENCE_MAX
        && longest_step(&lower, -1) < SEQUENCE_MAX
}

/// Tells whether `value` is none of: an example, a key of a manual, a mask, a template, a reference, a run, a word repeated.
///
/// It may hold what counts up, if that is not half of it: for values that the name of their issuer stands beside.
pub fn not_mask(value: &[u8]) -> bool {
    let lower = value.to_ascii_lowercase();
    let counted = longest_step(&lower, 1).max(longest_step(&lower, -1));
    !(stands_in(value, &lower)
        || is_name_of_key(value, &lower)
        || holds(&lower, PASSWORD_WORDS) && !is_embellished(value)
        || holds(&lower, TEMPLATE_MARKS)
        || REFERENCES.iter().any(|mark| lower.starts_with(mark.as_bytes()))
        || holds_run(value)
        || counted >= SEQUENCE_MAX.max(value.len() / 2)
        || few_characters(value)
        || is_periodic(value))
        && not_published(value)
}

fn holds_run(value: &[u8]) -> bool {
    let most = RUN_MAX + value.len() / RUN_SHARE;
    let zeros_max = most.max(value.len() / ZEROS_SHARE);
    value.chunk_by(|a, b| a == b).any(|run| run.len() >= if run[0] == b'A' { zeros_max } else { most })
}

/// Tells whether a word of examples stands in `value`. A short one within others comes by chance in a long value of
/// letters of both cases and digits.
fn stands_in(value: &[u8], lower: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| value.iter().any(is);
    let is_drawn = value.len() >= DRAWN_BYTES_MIN
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_digit);
    let is_apart = |at: usize, word: &str| {
        let is_sign = |at: Option<usize>| {
            at.and_then(|at| lower.get(at)).is_none_or(|byte| !byte.is_ascii_alphanumeric())
        };
        is_sign(at.checked_sub(1)) || is_sign(Some(at + word.len()))
    };
    PLACEHOLDER_WORDS.iter().any(|word| {
        let mut places = memchr::memmem::find_iter(lower, word.as_bytes());
        // Crosses in a row are a mask, however short.
        let is_short = word.len() <= SHORT_WORD_BYTES
            && word.bytes().all(|byte| byte.is_ascii_lowercase() && byte != b'x');
        places.any(|at| !is_short || !is_drawn || is_apart(at, word))
    })
}

/// Tells whether a value is what keys are called, and hardly more than that.
fn is_name_of_key(value: &[u8], lower: &[u8]) -> bool {
    let is_drawn =
        |part: Option<&[u8]>| part.is_some_and(|it| it.len() >= DRAWN_BYTES_MIN && mixed_classes(it));
    NAMES_OF_KEYS.iter().any(|name| {
        let at = memchr::memmem::find(lower, name.as_bytes());
        at.is_some_and(|at| !is_drawn(value.get(..at)) && !is_drawn(value.get(at + name.len()..)))
    })
}

/// Tells whether `value` is a password of all classes, and of more than a word.
pub fn is_embellished(value: &[u8]) -> bool {
    value.len() >= EMBELLISHED_BYTES_MIN
        && (0..4).all(|wanted| value.iter().any(|byte| class(*byte) == wanted))
}

fn holds(lower: &[u8], words: &[&str]) -> bool {
    words.iter().any(|word| memchr::memmem::find(lower, word.as_bytes()).is_some())
}

/// Tells whether letters and digits alternate as in a random value: two of each at least, digits in two places
/// at least (or much disorder in a long value), and enough neighbours of another class. The step from a capital
/// to a small letter is a word's beginning and does not count.
pub fn mixed_classes(value: &[u8]) -> bool {
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = value.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    let differs =
        |pair: &[u8]| class(pair[0]) != class(pair[1]) && !(class(pair[0]) == 1 && class(pair[1]) == 0);
    let changes = value.windows(2).filter(|pair| differs(pair)).count() * 100;
    let digit_runs = value.split(|byte| !byte.is_ascii_digit()).filter(|run| !run.is_empty()).count();
    let steps = value.len().saturating_sub(1);
    let scattered =
        digit_runs >= 2 || (value.len() >= LONG_BYTES && changes >= steps * LONG_DISORDER_PERCENT_MIN);
    digits >= 2 && letters >= 2 && scattered && changes >= steps * DISORDER_PERCENT_MIN
}

/// Tells whether `value` is written as a UUID: 8-4-4-4-12 hexadecimal digits.
pub fn is_uuid(value: &[u8]) -> bool {
    value.len() == 36
        && value.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Tells whether `value` is a digest: hexadecimal of a usual length, or an `algorithm-` or `algorithm:` prefix.
pub fn is_hash(value: &[u8]) -> bool {
    let lower = value.to_ascii_lowercase();
    let named = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512", "blake"];
    named.iter().any(|name| lower.starts_with(name.as_bytes()))
        || (matches!(value.len(), 7..=12 | 32 | 40 | 48 | 56 | 64 | 96 | 128)
            && value.iter().all(|byte| byte.is_ascii_hexdigit()))
}

/// Tells whether `value` is a password someone chose with care: eight characters or more of at least three
/// classes, no placeholder, no word of manuals with a tail of digits.
pub fn strong_password(value: &[u8]) -> bool {
    let mut seen = [false; 4];
    value.iter().for_each(|byte| seen[class(*byte)] = true);
    // A leading `$` is a reference, or a stored hash such as `$argon2id$`.
    value.len() >= 8
        && value.first() != Some(&b'$')
        && seen.iter().filter(|class| **class).count() >= 3
        && value.iter().any(u8::is_ascii_digit)
        && not_placeholder(value)
        && !is_common_password(value)
        && (!says_password(value) || is_embellished(value))
        && !is_uuid(value)
}

/// Tells whether `value` speaks of passwords, as names of fields and functions do.
pub fn says_password(value: &[u8]) -> bool {
    let lower = value.to_ascii_lowercase();
    ["passw", "pwd", "secret"].iter().any(|word| memchr::memmem::find(&lower, word.as_bytes()).is_some())
}

/// Tells whether `value` is a password of manuals, whatever digits and marks follow it.
pub fn is_common_password(value: &[u8]) -> bool {
    let lower = value.to_ascii_lowercase();
    let end = lower.iter().rposition(u8::is_ascii_alphabetic).map_or(0, |at| at + 1);
    let word = lower.get(..end).unwrap_or_default();
    word.is_empty() || COMMON_PASSWORDS.iter().any(|common| common.as_bytes() == word)
}

fn class(byte: u8) -> usize {
    match byte {
        b'a'..=b'z' => 0,
        b'A'..=b'Z' => 1,
        b'0'..=b'9' => 2,
        _ => 3,
    }
}

/// Returns the length of the longest stretch in which each byte is the one before it plus `step`, within
/// letters and within digits only.
fn longest_step(value: &[u8], step: i16) -> usize {
    let mut longest = 0;
    let mut current = 1;
    for pair in value.windows(2) {
        let follows = i16::from(pair[1]) - i16::from(pair[0]) == step;
        let counts = class(pair[0]) == class(pair[1]) && class(pair[0]) != 3;
        current = if follows && counts { current + 1 } else { 1 };
        longest = longest.max(current);
    }
    longest
}

fn few_characters(value: &[u8]) -> bool {
    let mut seen = [false; 256];
    value.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    let distinct = seen.iter().filter(|byte| **byte).count();
    distinct < 4 || (value.len() >= 16 && distinct < 6)
}

/// Tells whether the second half of `value` repeats a period of at most eight bytes.
fn is_periodic(value: &[u8]) -> bool {
    let tail = value.get(value.len() / 4..).unwrap_or_default();
    (1..=8).any(|period| {
        tail.len() >= 3 * period
            && tail.iter().zip(tail.iter().skip(period)).all(|(before, after)| before == after)
    })
}

#[cfg(test)]
mod tests;
