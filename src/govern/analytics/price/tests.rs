use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

const NOW: &str = "2026-11-21T12:00:00Z";

fn builtin() -> PriceList {
    read(None).unwrap_or_else(|faults| panic!("{faults:?}"))
}

/// Returns what tokens of a model cost, in the currency, with what has no price.
fn cost(list: &PriceList, model: &str, tokens: Tokens, when: &str) -> (f64, u64) {
    let cost = list.cost(Some(model), &tokens, at(when));
    (cost.pico as f64 / PICO_PER_UNIT, cost.unpriced_tokens)
}

fn tokens(prompt: u64, completion: u64) -> Tokens {
    Tokens { prompt, completion, total: prompt.saturating_add(completion), ..Tokens::default() }
}

#[test]
fn every_kind_of_token_has_its_price() {
    let list = builtin();
    let million = 1_000_000;
    let cases = [
        ("gpt-4o-mini", tokens(million, 0), 0.15),
        ("openai/GPT-4o-mini-2024-07-18", tokens(0, million), 0.60),
        ("gpt-4o", Tokens { cached: million / 2, ..tokens(million, 0) }, 1.25 + 0.625),
        // Thinking is part of what was written, and costs no second time.
        ("o3", Tokens { reasoning: million / 2, ..tokens(0, million) }, 8.0),
        ("gpt-audio", Tokens { audio_prompt: million / 2, ..tokens(million, 0) }, 1.25 + 16.0),
        (
            "claude-sonnet-4-6",
            Tokens {
                cached: 300_000,
                cache_write: 200_000,
                cache_write_long: 100_000,
                ..tokens(million, million)
            },
            1.5 + 0.09 + 0.375 + 0.6 + 15.0,
        ),
        // The longer the prompt, the dearer all of it.
        ("gemini-2.5-pro", tokens(200_000, 1000), 0.25 + 0.01),
        ("gemini-2.5-pro", tokens(200_001, 1000), 0.500_002_5 + 0.015),
    ];
    for (model, used, expected) in cases {
        let (found, unpriced) = cost(&list, model, used, NOW);
        assert!((found - expected).abs() < 1e-9 && unpriced == 0, "{model}: {found}, {unpriced}");
    }
}

#[test]
fn what_has_no_price_is_counted_and_not_guessed() {
    let list = builtin();
    assert_eq!(cost(&list, "llama-9", tokens(10, 5), NOW), (0.0, 15));
    assert_eq!(list.cost(None, &tokens(10, 5), at(NOW)).unpriced_tokens, 15);
    // A closer name is another model.
    assert_eq!(cost(&list, "gpt-5-ultra", tokens(10, 5), NOW), (0.0, 15));
    // Sound without a price of its own, and tokens of which nobody says what they were.
    let (found, unpriced) = cost(&list, "gpt-4o", Tokens { audio_prompt: 4, ..tokens(10, 0) }, NOW);
    assert_eq!((found, unpriced), (1.5e-5, 4));
    assert_eq!(cost(&list, "gpt-4o", Tokens { total: 20, ..tokens(10, 5) }, NOW).1, 5);
}

#[test]
fn a_price_counts_from_its_first_day() {
    let list = builtin();
    let price = |when| cost(&list, "gemini-3.8-flash", tokens(1_000_000, 0), when).0;
    assert_eq!((price("2026-12-31T23:59:59Z"), price("2027-01-01T00:00:00Z")), (0.75, 1.5));
}

#[test]
fn nothing_is_lost_to_rounding() {
    let list = builtin();
    let one = list.cost(Some("text-embedding-3-small"), &tokens(1, 0), at(NOW)).pico;
    assert_eq!(one * 1_000_000, 20_000_000_000);
    let huge = list.cost(Some("gpt-5.4-pro"), &tokens(u64::MAX, u64::MAX), at(NOW));
    assert_eq!(huge.pico, u64::MAX);
}

#[test]
fn a_file_of_ones_own_lies_over_the_built_in_one() {
    let text = "currency = \"USD\"\n[[price]]\nmodels = [\"gpt-4o\", \"llama*\"]\ninput = 0\noutput = 0\n\
                source = \"https://example.com/prices\"\nseen = \"2026-11-01\"\n";
    let list = read(Some(("own.toml", text))).unwrap();
    assert_eq!(cost(&list, "gpt-4o", tokens(10, 5), NOW), (0.0, 0));
    assert_eq!(cost(&list, "llama-9", tokens(10, 5), NOW), (0.0, 0));
    assert!(cost(&list, "gpt-4o-mini", tokens(10, 5), NOW).0 > 0.0);
    // Sums of two currencies mean nothing.
    let euros = read(Some(("own.toml", &text.replace("USD", "EUR")))).unwrap();
    assert_eq!((euros.currency.as_str(), cost(&euros, "gpt-4o-mini", tokens(10, 5), NOW).1), ("EUR", 15));
}

#[test]
fn every_fault_is_told_with_its_line() {
    let text = "currency = \"dollars\"\n[[price]]\nmodels = [\"m\"]\ninput = -1\nsource = \"a page\"\n\
                seen = \"yesterday\"\nimput = 1\n[[price]]\nmodels = [\"m\"]\ninput = 1\n\
                source = \"https://example.com\"\nseen = \"2026-11-01\"\n";
    let faults = read(Some(("own.toml", text))).unwrap_err();
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let lines: Vec<Option<usize>> = faults.iter().map(crate::document::Fault::line).collect();
    assert_eq!(lines, [1, 4, 5, 6, 7, 9].map(Some), "{told:#?}");
    assert!(told[4].contains("did you mean `input`"), "{told:#?}");
}

#[test]
fn patterns_fit_whole_names() {
    let cases = [
        ("m", "m", true),
        ("m", "mm", false),
        ("m*", "m", true),
        ("m-20*", "m-2026-01-01", true),
        ("m-20*", "m-mini-2026", false),
        ("*m*x", "ammx", true),
        ("*m*x", "ammxy", false),
        ("a*b*a", "aba", true),
        ("a*a", "a", false),
    ];
    for (pattern, name, expected) in cases {
        assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
    }
}
