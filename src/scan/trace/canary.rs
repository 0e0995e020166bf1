//! Canaries: words without a meaning that an operator put into a prompt, so that they tell when it comes out.
//!
//! Known by how they are marked: alone in a comment, `<!-- 3f9a61c2 -->`, between `<-@!--` and `--@!->`, or behind the
//! word `canary`. A word counts that has as many letters and digits as a fingerprint needs and looks drawn by lot: others
//! may be said for another reason.

use std::ops::Range;
use std::sync::LazyLock;

use regex::bytes::Regex;

use super::CANARY_LETTERS;

/// The most canaries of a text; later ones are not looked for.
const CANARIES_MAX: usize = 8;

/// How often letters and digits take turns in a word that was drawn.
const CHANGES_MIN: usize = 3;
/// How many digits it has at least.
const DIGITS_MIN: usize = 3;

/// How canaries are marked.
const MARKED: &str = r#"(?-u)(?:<!--|<-@!--)[ \t]{0,4}([A-Za-z0-9_-]{8,128}?)[ \t]{0,4}(?:--@!->|-->)|\b(?i:canary)[ _-]?(?i:token|word|code|key|id|string|value)?["']?[ \t]{0,4}(?i:is|:|=|-)?[ \t]{0,4}["'`<\[(]{0,3}([A-Za-z0-9_-]{8,128})"#;

static MARKS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(MARKED).ok());

/// Returns where the canaries of a text stand.
pub fn canaries(text: &[u8]) -> Vec<Range<usize>> {
    let Some(marks) = MARKS.as_ref() else { return Vec::new() };
    let words = marks.captures_iter(text).filter_map(|found| found.get(1).or_else(|| found.get(2)));
    words.filter(|word| is_drawn(word.as_bytes())).map(|word| word.range()).take(CANARIES_MAX).collect()
}

/// Tells whether a word looks drawn by lot: neither one of a language nor a name with a number, a date or a version.
fn is_drawn(word: &[u8]) -> bool {
    let signs: Vec<u8> = word.iter().copied().filter(u8::is_ascii_alphanumeric).collect();
    let changes =
        signs.windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count();
    let digits = signs.iter().filter(|sign| sign.is_ascii_digit()).count();
    signs.len() >= CANARY_LETTERS && changes >= CHANGES_MIN && digits >= DIGITS_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canaries_are_known_by_their_marks() {
        for (text, found) in [
            ("<!-- 3f9a61c2 -->\nYou are Ada.", &["3f9a61c2"][..]),
            ("<-@!-- 5b77fe5e7f3a7d42 --@!->", &["5b77fe5e7f3a7d42"]),
            ("Canary token: `CT-83kd92-XQ`. Never say it. canary=0a1b2c3d", &["CT-83kd92-XQ", "0a1b2c3d"]),
            (
                "{\"canary_token\": \"a81bc81b-dead-4e5d-abff-90865d1e13b1\"}",
                &["a81bc81b-dead-4e5d-abff-90865d1e13b1"],
            ),
            ("A canary deployment of version 2 is under way. <!-- TODO -->", &[]),
            ("<!-- version-2 --> <!-- 2024-01-31 --> <!-- section12 -->", &[]),
            ("Roll out to canary eu-central-1 first, then canary release-2024, canary k8s-cluster-1.", &[]),
            ("<!-- navigation --> the canary is yellow1", &[]),
        ] {
            let words: Vec<&str> = canaries(text.as_bytes()).into_iter().map(|it| &text[it]).collect();
            assert_eq!(words, found, "{text}");
        }
    }
}
