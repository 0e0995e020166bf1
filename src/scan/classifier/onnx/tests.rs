use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use prost::Message;

use super::fixture;
use super::fixture::GraphProto;
use super::fixture::ModelProto;
use super::fixture::Size;
use super::graph::Length;
use super::*;
use crate::scan::classifier::card::Card;
use crate::scan::classifier::shelf::ModelFiles;
use crate::scan::classifier::shelf::Shelf;

const ORDER: &str = "xyzzy please";
const PERSONA: &str = "plugh mode";
const ANY: Size = Size::Named("tokens");

/// A tokenizer of whole words: those of [`WORDS`] by their place, others as the first.
const WORDS: [&str; 6] = ["[UNK]", "[CLS]", "[SEP]", "the", "harbour", "xyzzy"];

fn tokenizer() -> String {
    let vocabulary = WORDS.iter().enumerate().map(|(at, word)| format!("\"{word}\":{at}"));
    let vocabulary = vocabulary.collect::<Vec<_>>().join(",");
    let special = |id: usize| {
        format!(
            r#"{{"id":{id},"content":"{}","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}}"#,
            WORDS[id]
        )
    };
    format!(
        r#"{{"version":"1.0",
        "truncation":{{"direction":"Right","max_length":16,"strategy":"LongestFirst","stride":0}},
        "padding":null,
        "added_tokens":[{},{},{}],
        "normalizer":{{"type":"Lowercase"}},
        "pre_tokenizer":{{"type":"Whitespace"}},
        "post_processor":{{"type":"BertProcessing","sep":["[SEP]",2],"cls":["[CLS]",1]}},
        "decoder":null,
        "model":{{"type":"WordLevel","vocab":{{{vocabulary}}},"unk_token":"[UNK]"}}}}"#,
        special(0),
        special(1),
        special(2)
    )
}

fn of_bytes(has_mask: bool, tokens: Size) -> ModelProto {
    fixture::of_bytes(&[ORDER, PERSONA], has_mask, tokens)
}

/// A card for [`fixture::of_bytes`] with some of its `[onnx]` table replaced.
fn card(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(fixture::card("tiny", ""), |card, (from, to)| {
        assert!(card.contains(from), "{from}");
        card.replace(from, to)
    })
}

fn read_with(model: &ModelProto, card: &str, beside: &[(&'static str, String)]) -> Result<Onnx, OnnxFault> {
    let (card, _) = Card::read(card.as_bytes(), "tiny").unwrap();
    let find = |name: &str| beside.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_bytes());
    Onnx::read(&card.onnx.unwrap(), ("model.onnx", &model.encode_to_vec()), find)
}

fn read(model: &ModelProto, changes: &[(&str, &str)]) -> Result<Onnx, OnnxFault> {
    read_with(model, &card(changes), &[])
}

fn judge(model: &Onnx, text: &str) -> Verdict {
    model.judge(text.as_bytes(), Origin::User, &Signals::default(), &|| false).unwrap()
}

fn sure(verdict: &Verdict) -> bool {
    verdict.confidence.is_some_and(|it| it >= Confidence::HIGH)
}

#[test]
fn a_model_of_bytes_tells_its_words_and_where_they_stand() {
    for (has_mask, tokens) in [(false, ANY), (true, ANY), (true, Size::Always(64))] {
        let model = read(&of_bytes(has_mask, tokens), &[]).unwrap();
        let filler = "The harbour lay still that morning. ".repeat(20);
        for (word, head) in [(ORDER, Head::Override), (PERSONA, Head::Persona)] {
            let text = format!("{filler}{word}{filler}");
            let verdict = judge(&model, &text);
            assert!(sure(&verdict) && verdict.head == head, "{word}: {verdict:?}");
            assert!(text[verdict.window.clone()].contains(word), "{verdict:?}");
            assert!(verdict.window.len() <= 64);
        }
        assert_eq!(judge(&model, &filler).confidence, None);
        assert_eq!(judge(&model, "").confidence, None);
    }
}

#[test]
fn what_stands_deep_in_a_long_document_is_judged_as_it_is_alone() {
    let cut = [
        ("\"bytes\"", "\"tokenizer.json\""),
        ("\"benign\", \"override\", \"persona\"", "\"benign\", \"override\""),
    ];
    let files = [("tokenizer.json", tokenizer())];
    let of_words = read_with(&fixture::of_tokens(&[-9.0, -9.0, -9.0, -9.0, -9.0, 7.0]), &card(&cut), &files);
    let cases = [
        (read(&of_bytes(false, ANY), &[]).unwrap(), "The harbour lay still. ", ORDER, 32_768 / 23),
        (of_words.unwrap(), "the harbour ", "xyzzy", 32_768 / 2),
    ];
    for (model, filler, payload, deep) in cases {
        let alone = judge(&model, payload);
        assert!(sure(&alone));
        // Every place of a window, the borders of parts, and the end of a document of 32 thousand tokens.
        let near_a_part = window::PART_BYTES_MAX / filler.len();
        let places = (0..12).chain(near_a_part - 2..near_a_part + 3).chain([deep]);
        for before in places {
            let text = format!("{}{payload} {filler}", filler.repeat(before));
            let verdict = judge(&model, &text);
            assert_eq!((verdict.odds, verdict.head), (alone.odds, alone.head), "behind {before}");
            assert!(text[verdict.window.clone()].contains(payload), "behind {before}: {verdict:?}");
        }
    }
}

#[test]
fn a_tokenizer_puts_its_marks_around_each_window_and_takes_none_from_a_text() {
    let tokens = Tokens::read("tokenizer.json", tokenizer().as_bytes()).unwrap();
    assert_eq!(tokens.marks(), 2);
    // A mark that a text spells is no mark; broken characters hide nothing and move nothing.
    for (text, ids) in [
        (&b"The harbour xyzzy"[..], vec![1, 3, 4, 5, 2]),
        (b"[SEP] xyzzy", vec![1, 0, 0, 0, 5, 2]),
        (b"\xff\xfe xyzzy", vec![1, 5, 2]),
        ("漢 xyzzy".as_bytes(), vec![1, 0, 5, 2]),
    ] {
        let mut cut = Vec::new();
        tokens.push(text, 0..text.len(), &mut cut).unwrap();
        assert_eq!(tokens.window(&cut), ids, "{}", text.escape_ascii());
        assert_eq!(&text[cut[cut.len() - 1].range.clone()], b"xyzzy");
    }
}

#[test]
fn a_transformer_is_read_at_any_length_and_what_fills_a_window_up_changes_nothing() {
    let text = card(&[("\"override\", \"persona\"", "\"override\"")]);
    let (card, _) = Card::read(text.as_bytes(), "tiny").unwrap();
    let draft =
        Draft::read("model.onnx", &attention::transformer().encode_to_vec(), &card.onnx.unwrap()).unwrap();
    let [any, fixed] = [Length::Any, Length::Fixed(64)].map(|length| draft.ready(length).unwrap());
    let ids: Vec<u32> = (0..attention::PLACES).map(|at| (at * 7 % attention::VOCABULARY) as u32).collect();
    let mut seen: Vec<f32> = Vec::new();
    for count in [1, 2, 9, 63, 64] {
        let numbers = any.run(&ids[..count], 0).unwrap();
        let filled = fixed.run(&ids[..count], 5).unwrap();
        assert_eq!(numbers.len(), 2);
        let is_near = numbers.iter().zip(&filled).all(|(one, other)| (one - other).abs() < 1e-4);
        assert!(is_near, "{count} tokens: {numbers:?} {filled:?}");
        assert!(!seen.contains(&numbers[0]), "the text counts");
        seen.push(numbers[0]);
    }
    assert!(any.run(&[attention::VOCABULARY as u32], 0).is_err(), "a token beyond the vocabulary");
}

#[test]
fn levels_are_those_of_the_card_for_whoever_speaks() {
    let changes = [(
        "levels = { watch = 0.7, sure = 0.95 }",
        "levels = { watch = 0.7, sure = 0.95, tool = { watch = 0.9998, sure = 0.9999 } }",
    )];
    let model = read(&of_bytes(false, ANY), &changes).unwrap();
    let told = |origin, bias| {
        let signals = Signals { bias, ..Signals::default() };
        model.judge(ORDER.as_bytes(), origin, &signals, &|| false).unwrap().confidence
    };
    assert!(told(Origin::User, 0.0) >= Some(Confidence::HIGH));
    assert_eq!(told(Origin::Tool, 0.0), None, "eight is not enough there");
    let watched = told(Origin::User, -6.0).expect("told");
    assert!((Confidence::MEDIUM..Confidence::HIGH).contains(&watched), "who asks may move it: {watched:?}");
    assert_eq!(told(Origin::User, -8.0), None);
}

#[test]
fn time_that_ends_is_told_unless_the_verdict_is_sure() {
    let model = read(&of_bytes(false, ANY), &[]).unwrap();
    let judged_in = |text: &str, windows: usize| {
        let asked = AtomicUsize::new(0);
        let expired = || asked.fetch_add(1, Ordering::Relaxed) > windows;
        model.judge(text.as_bytes(), Origin::User, &Signals::default(), &expired)
    };
    let filler = "The harbour lay still that morning. ".repeat(20);
    assert_eq!(judged_in(&filler, 3), Err(Unjudged::Late));
    assert!(judged_in(&filler, 1000).is_ok());
    assert_eq!(judged_in(&format!("{filler}{ORDER}"), 3), Err(Unjudged::Late));
    assert!(sure(&judged_in(&format!("{ORDER}{filler}"), 3).unwrap()));
}

#[test]
fn a_model_that_gives_no_number_has_not_judged() {
    let model = read(&fixture::broken_for(&[ORDER, PERSONA], ANY), &[]).unwrap();
    let told = |text: &str| model.judge(text.as_bytes(), Origin::User, &Signals::default(), &|| false);
    assert_eq!(told("The harbour lay still.").unwrap().confidence, None);
    assert_eq!(told(ORDER), Err(Unjudged::Failed));
}

#[test]
fn faults_of_a_card_say_what_to_write() {
    for (from, to, told) in [
        ("window = 64", "window = 4", "`onnx.window`: expected 8 to 8192 tokens"),
        ("stride = 32", "stride = 65", "`onnx.stride`"),
        ("stride = 32", "stride = 0", "`onnx.stride`"),
        ("\"softmax\"", "\"loud\"", "`onnx.scores`: expected one of softmax, sigmoid, probabilities"),
        (
            "\"override\", \"persona\"",
            "\"override\", \"rude\"",
            "`rude` is none of benign, override, persona",
        ),
        ("\"benign\", \"override\", \"persona\"", "\"override\", \"persona\"", "one of them `benign`"),
        ("\"benign\", \"override\", \"persona\"", "\"benign\"", "some of them not `benign`"),
        (
            "\"benign\", \"override\", \"persona\"",
            "\"benign\", \"override\"",
            "gives 3 numbers for a text; the card has 2",
        ),
        ("watch = 0.7", "watch = 0.97", "expected 0 < watch <= sure < 1"),
        ("sure = 0.95", "sure = 1.0", "expected 0 < watch <= sure < 1"),
        ("\"bytes\"", "\"words.json\"", "the file `words.json` is not there"),
        (
            "stride = 32",
            "stride = 32\nids = \"tokens\"",
            "`model.onnx` has no input `tokens`; it has `input_ids`",
        ),
        ("stride = 32", "stride = 32\nmask = \"mask\"", "has no input `mask`"),
        (
            "stride = 32",
            "stride = 32\noutput = \"scores\"",
            "`model.onnx` has no output `scores`; it has `logits`",
        ),
    ] {
        let fault = read(&of_bytes(false, ANY), &[(from, to)]).unwrap_err().to_string();
        assert!(fault.contains(told), "{from} -> {to}: {fault}");
    }
}

#[test]
fn faults_of_a_file_are_told_before_it_judges_anything() {
    let changed = |change: fn(&mut GraphProto)| {
        let mut model = of_bytes(true, ANY);
        change(model.graph.as_mut().unwrap());
        read(&model, &[]).unwrap_err().to_string()
    };
    for (told, expected) in [
        (
            changed(|graph| graph.node[1].op_type = "Teleport".to_owned()),
            "operators that are not known: Teleport",
        ),
        (changed(|graph| graph.output.clear()), "holds no graph with an output"),
        (changed(|graph| graph.output[0].name = "nowhere".to_owned()), "has no output `nowhere`"),
        (
            changed(|graph| graph.input.push(fixture::input("pixels", fixture::FLOAT, &[ANY]))),
            "has an input `pixels` that the card gives nothing for",
        ),
        (
            changed(|graph| graph.input[0] = fixture::input("input_ids", fixture::FLOAT, &[ANY, ANY])),
            "its input `input_ids` takes no whole numbers of shape [1, tokens]",
        ),
        (
            changed(|graph| {
                graph.input[0] = fixture::input("input_ids", fixture::INT64, &[Size::Always(8), ANY])
            }),
            "takes no whole numbers of shape [1, tokens]",
        ),
        (
            changed(|graph| {
                graph.input[0] = fixture::input("input_ids", fixture::INT32, &[ANY, Size::Always(128)])
            }),
            "its input `input_ids` takes 128 tokens, unlike `onnx.window`",
        ),
        (
            changed(|graph| {
                let entry = fixture::StringStringEntryProto {
                    key: "location".to_owned(),
                    value: "/etc/passwd".to_owned(),
                };
                graph.initializer[0].float_data.clear();
                graph.initializer[0].external_data.push(entry);
                graph.initializer[0].data_location = 1;
            }),
            "keeps weights in other files",
        ),
        (changed(|graph| graph.node[5].input[1] = "nobody".to_owned()), "cannot be read as an ONNX model"),
        (changed(|graph| graph.initializer[0].dims = vec![255, 9]), "`model.onnx` cannot be"),
        (changed(|graph| graph.initializer[1].dims = vec![2, 4, 24]), "`model.onnx` cannot be"),
        // Some bytes are beyond the rows that are left: the trial finds out.
        (
            changed(|graph| {
                graph.initializer[0].dims = vec![200, 8];
                graph.initializer[0].float_data.truncate(200 * 8);
            }),
            "`model.onnx` cannot be run",
        ),
        (
            changed(|graph| graph.initializer[2].float_data = vec![f32::NAN, 0.0]),
            "gave a number that is none, or no probability",
        ),
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    let (card, _) = Card::read(card(&[]).as_bytes(), "tiny").unwrap();
    let card = card.onnx.unwrap();
    let whole = of_bytes(false, ANY).encode_to_vec();
    for bytes in [&b"PCM2"[..], b"", &whole[..whole.len() / 2]] {
        let fault = Onnx::read(&card, ("model.onnx", bytes), |_| None).unwrap_err().to_string();
        assert!(fault.starts_with("`model.onnx` cannot be read as an ONNX model: "), "{fault}");
    }
}

#[test]
fn faults_of_a_tokenizer_are_told() {
    let told = |text: &str| Tokens::read("tokenizer.json", text.as_bytes()).unwrap_err().to_string();
    assert!(told("{}").starts_with("`tokenizer.json` cannot be read as a tokenizer: "), "{}", told("{}"));
    let chance = r#"{"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":null,"post_processor":null,
        "decoder":null,"model":{"type":"BPE","dropout":0.1,"vocab":{"a":0},"merges":[]}}"#;
    assert!(told(chance).contains("cuts the same text in different ways"), "{}", told(chance));
    let silent = tokenizer().replace("\"unk_token\":\"[UNK]\"", "\"unk_token\":\"[NONE]\"");
    assert!(told(&silent).contains("cannot be read as a tokenizer"), "{}", told(&silent));
    // The marks leave no room for the stride.
    let cut = [("\"bytes\"", "\"tokenizer.json\""), ("stride = 32", "stride = 63")];
    let files = [("tokenizer.json", tokenizer())];
    let fault = read_with(&fixture::of_tokens(&[0.0; 6]), &card(&cut), &files).unwrap_err();
    assert_eq!(fault, OnnxFault::Stride);
}

fn files(extra: &[(&str, &str, Vec<u8>)]) -> ModelFiles {
    let mut files = crate::scan::pack::builtin_models();
    for (folder, name, bytes) in extra {
        files.insert(format!("models/{folder}/{name}"), bytes.clone().into());
    }
    files
}

#[test]
fn a_shelf_holds_it_beside_the_shipped_model_or_in_its_place() {
    let model = of_bytes(false, ANY).encode_to_vec();
    let folder = |name: &'static str, extra: &str| {
        [(name, "card.toml", fixture::card(name, extra).into_bytes()), (name, "model.onnx", model.clone())]
    };
    let found = |shelf: &Shelf| {
        let wanted = shelf.ids().collect();
        let found = shelf.find(ORDER.as_bytes(), Origin::User, &Signals::default(), &wanted, &|| false);
        found.unwrap().map(|finding| shelf.kind(finding.detector).unwrap().name.clone())
    };
    let beside = Shelf::read(files(&folder("a_tiny", "")), &[]).unwrap();
    assert!(beside.names().eq(["a_tiny", "gatehouse"]));
    assert_eq!(found(&beside), None, "the shipped model does not know the word");
    assert!(beside.model(Some("a_tiny")).unwrap().is_slow() && !beside.model(None).unwrap().is_slow());
    // An operator's model takes the place of the shipped one, whatever their names; of two of them none does.
    let usual = Shelf::read(files(&folder("a_tiny", "default = true")), &[]).unwrap();
    assert_eq!(found(&usual).as_deref(), Some("prompt_injection"));
    let both = [folder("a_tiny", "default = true"), folder("b_tiny", "default = true")].concat();
    let faults = Shelf::read(files(&both), &[]).unwrap_err();
    let told = faults.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("models/b_tiny/card.toml: `a_tiny` has `default = true`, too"), "{told:?}");
}

#[test]
fn a_card_declares_what_its_graph_reports_and_says_how_it_is_used() {
    let told = |card: String| {
        let model = of_bytes(false, ANY).encode_to_vec();
        let faults = Shelf::read(
            files(&[("tiny", "card.toml", card.into_bytes()), ("tiny", "model.onnx", model)]),
            &[],
        );
        faults.unwrap_err()[0].to_string()
    };
    let whole = fixture::card("tiny", "");
    let (before, persona) = whole.split_at(whole.rfind("[[finding]]").unwrap());
    assert!(told(before.to_owned()).contains("no `[[finding]]` has the head `persona`"));
    let only = before.replace("\"override\", \"persona\"", "\"override\", \"override\"");
    assert!(told(format!("{only}{persona}")).contains("the model cannot report `persona`"));
    let bare = format!(
        "{}{}",
        &whole[..whole.find("[onnx]").unwrap()],
        &whole[whole.find("[[finding]]").unwrap()..]
    );
    assert!(told(bare).contains("a card has an `[onnx]` table if, and only if"));
    let unknown = whole.replace("stride = 32", "stride = 32\nstep = 1");
    assert!(told(unknown).contains("unknown field `step`"));
    let missing = whole.replace("model.onnx", "guard.onnx");
    assert!(told(missing).contains("the file `guard.onnx` that the card names is not there"));
}

#[test]
fn scores_are_read_as_the_card_says() {
    use settings::Scores;
    let read = |numbers: &[f32], classes: &[Option<Head>], scores| scores::read(numbers, classes, scores);
    let all = [None, Some(Head::Override), Some(Head::Persona)];
    let near = |said: Option<Said>, odds: f32, head: Head| {
        let said = said.expect("numbers");
        assert!((said.odds - odds).abs() < 1e-3 && said.head == head, "{said:?}, {odds}");
    };
    near(read(&[0.0, 3.0, -50.0], &all, Scores::Softmax), 3.0, Head::Override);
    near(read(&[0.0, 1.0, 1.0], &all, Scores::Softmax), 1.0 + 2f32.ln(), Head::Override);
    near(read(&[3e38, -3e38, -3e38], &all, Scores::Softmax), -30.0, Head::Override);
    near(read(&[-1.0, 2.0], &all[1..], Scores::Sigmoid), 2.0, Head::Persona);
    near(read(&[0.25, 0.25, 0.5], &all, Scores::Probabilities), 3f32.ln(), Head::Persona);
    near(read(&[1.0], &all[1..2], Scores::Probabilities), 30.0, Head::Override);
    near(read(&[0.0], &all[1..2], Scores::Probabilities), -30.0, Head::Override);
    for wrong in [f32::NAN, f32::INFINITY] {
        assert_eq!(read(&[0.0, wrong, 0.0], &all, Scores::Softmax), None);
    }
    assert_eq!(read(&[0.0, 1.5, 0.0], &all, Scores::Probabilities), None);
    assert_eq!(read(&[0.0, 0.5], &all, Scores::Softmax), None);
}
