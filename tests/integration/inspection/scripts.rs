//! Ordinary words of many scripts, with emoji and flags among them: nothing is found in any mixture, and no byte changes.

use portcullis::llm::stream::StreamFormat;
use portcullis::policy::decision::Action;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::Config;
use proptest::test_runner::TestRunner;

use super::Bench;
use super::Case;
use super::End;
use super::carrier::CARRIERS;
use super::policy_of_all;

/// Pictures, alone or with a tone of skin or the sign that they are to be drawn as such.
const EMOJI: &str = "[\u{1f300}-\u{1f5ff}\u{1f600}-\u{1f64f}\u{1f680}-\u{1f6d7}\u{1f900}-\u{1f9ff}\u{2600}-\u{27bf}][\u{1f3fb}-\u{1f3ff}\u{fe0f}]?";
/// Two letters that are a country's flag, and the flags that are written in tags.
const FLAG: &str = "[\u{1f1e6}-\u{1f1ff}]{2}|\u{1f3f4}(\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}|\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074})\u{e007f}";
/// Letters and their vowel signs.
const ARABIC: &str = "([\u{621}-\u{64a}][\u{64b}-\u{652}]?){2,8}";
/// Parts of a word that a joiner of no width keeps apart.
const PERSIAN: &str = "[ابپتجچحخدرزژسشصطعغفقکگلمنوهی]{2,5}(\u{200c}[ابپتجچحخدرزژسشصطعغفقکگلمنوهی]{1,5}){0,2}";
const HEBREW: &str = "([\u{5d0}-\u{5ea}][\u{5b0}-\u{5bc}]?){2,8}";
/// Syllables: consonants, joined ones among them, with or without a joiner that is not seen, and vowel signs.
const HINDI: &str =
    "([\u{915}-\u{939}](\u{94d}[\u{200c}\u{200d}]?[\u{915}-\u{939}])?[\u{93e}-\u{94c}\u{902}]?){1,5}";
const ENGLISH: &str =
    "the|build|took|report|is ready|see page 12|for all of it|tea at noon|at home|v2|OK|don't";
/// What stands between words; marks of direction are where scripts meet.
const BETWEEN: &str = " |, |\\. |! |\n|؟ |، |। |\u{200e} |\u{200f} |";

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        EMOJI,
        vec(EMOJI, 2..5).prop_map(|family| family.join("\u{200d}")),
        FLAG,
        ARABIC,
        PERSIAN,
        HEBREW,
        HINDI,
        ENGLISH,
    ]
}

fn mixture() -> impl Strategy<Value = String> {
    let part = (word(), BETWEEN).prop_map(|(word, between)| word + &between);
    vec(part, 1..24).prop_map(|parts| parts.concat())
}

/// Writes each unit of UTF-16 as an escape of JSON.
fn escaped(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
}

/// Cuts a text between characters.
fn pieces<'t>(text: &'t str, cuts: &[Index]) -> Vec<&'t str> {
    let borders: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let mut at: Vec<usize> = cuts.iter().map(|cut| *cut.get(&borders)).chain([0, text.len()]).collect();
    at.sort_unstable();
    at.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

#[test]
fn ordinary_words_of_many_scripts_pass_as_they_are() {
    let bench = Bench::new(&policy_of_all("all", "redact", ""));
    let carriers = CARRIERS.iter().filter(|carrier| carrier.format != StreamFormat::JsonArray);
    let carriers: Vec<_> = carriers.collect();
    let cuts = || vec(any::<Index>(), 0..6);
    let mut runner = TestRunner::new(Config::with_cases(200));
    let outcome =
        runner.run(&(mixture(), cuts(), cuts(), any::<Index>()), |(text, cuts, chunks, carrier)| {
            let quoted = serde_json::to_string(&text).expect("text");
            for written in [quoted, format!("\"{}\"", escaped(&text))] {
                let request =
                    format!(r#"{{"model":"m","messages":[{{"role":"user","content":{written}}}]}}"#);
                let answer = format!(
                    r#"{{"choices":[{{"index":0,"message":{{"role":"assistant","content":{written}}}}}]}}"#
                );
                for (case, body) in
                    [(Case::request("all", "openai"), request), (Case::response("all", "openai"), answer)]
                {
                    let judged = bench.whole(case, &mut bench.vault(), body.as_bytes());
                    let seen = bench.seen(judged.observations);
                    prop_assert!(seen.is_empty(), "{:?}", seen);
                    prop_assert_eq!(judged.action, Action::Allow);
                    let left = judged.cleared.map(|body| body.into_bytes());
                    prop_assert_eq!(left.as_deref(), Some(body.as_bytes()));
                }
            }
            let carrier = carrier.get(&carriers);
            let stream = carrier.stream(&pieces(&text, &cuts));
            let mut at: Vec<usize> = chunks.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            at.extend([0, stream.len()]);
            at.sort_unstable();
            let chunks = at.windows(2).map(|pair| &stream.as_bytes()[pair[0]..pair[1]]);
            let case = Case::response("all", carrier.dialect);
            let streamed = bench.stream(case, carrier.format, &mut bench.vault(), chunks);
            prop_assert_eq!((streamed.end, &streamed.seen), (End::Finished, &Vec::new()), "{}", carrier.name);
            prop_assert_eq!(String::from_utf8_lossy(&streamed.out), stream);
            Ok(())
        });
    outcome.unwrap_or_else(|fault| panic!("{fault}"));
}
