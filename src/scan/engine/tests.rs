use super::*;

fn shape(expression: &str, start: Start) -> Shape {
    Shape { expression: expression.to_owned(), start, lead: None, is_wide: false }
}

#[test]
fn ends_are_gathered_into_runs() {
    let known = shape("[0-9]{3}", Start::Known { back: 3 });
    let within = shape("x", Start::Within { back_min: 1, back_max: 4 });
    let engine = Engine::compile(&[known, within]).unwrap();
    let runs = |text: &str| engine.scan(text.as_bytes(), 0..text.len(), |_| true, <[Run]>::to_vec).unwrap();
    let run = |group, first, last| Run { group, first, last };
    assert_eq!(runs("12345 678"), [run(0, 3, 5), run(0, 9, 9)]);
    assert_eq!(runs("x..x....x"), [run(1, 1, 4), run(1, 9, 9)]);
    assert_eq!(runs("12345"), [run(0, 3, 5)], "a workspace starts clean");
}

#[test]
fn phrases_and_tokens_are_found_in_one_scan() {
    let shapes = (0..SPLIT_SHAPES_MIN).flat_map(|at| {
        let known = |expression: String| shape(&expression, Start::Known { back: expression.len() });
        [known(format!("key{at:03}")), known(format!(r"say\x20{at:03}"))]
    });
    let shapes: Vec<Shape> = shapes.collect();
    let engine = Engine::compile(&shapes).unwrap();
    assert_eq!(engine.databases.len(), 2);
    for pad in 0..100 {
        let text = format!("{}key007 say 123", ".".repeat(pad));
        let mut runs = engine.scan(text.as_bytes(), 0..text.len(), |_| true, <[Run]>::to_vec).unwrap();
        runs.sort_by_key(|run| run.group);
        let run = |group, end| Run { group, first: end, last: end };
        assert_eq!(runs, [run(14, pad + 6), run(247, pad + 14)]);
    }
    assert_eq!(Engine::compile(&shapes[..20]).unwrap().databases.len(), 1);
}

/// What Vectorscan 5.4.9 misses by itself: a word of few in the last bytes of a text.
#[test]
fn few_shapes_are_found_up_to_the_end() {
    let phrase = |expression: &str| shape(expression, Start::Known { back: 8 });
    let engine = Engine::compile(&["[Ii]gnore [a-z]", "[Pp]assword: [a-z]"].map(phrase)).unwrap();
    for before in 0..200 {
        for after in 0..40 {
            let text = [&vec![b'.'; before][..], b"password: x", &vec![b'.'; after]].concat();
            let ends: Vec<usize> = engine
                .scan(&text, 0..text.len(), |_| true, |runs| runs.iter().map(|run| run.last).collect())
                .unwrap();
            assert_eq!(ends, [before + 11], "{before} bytes before, {after} after");
        }
    }
}

#[test]
fn phrases_are_looked_for_where_they_may_be_new_and_all_else_everywhere() {
    let shapes: Vec<Shape> = (0..SPLIT_SHAPES_MIN)
        .flat_map(|at| [Shape::known(format!("key{at:03}"), 6), Shape::known(format!(r"say\x20{at:03}"), 7)])
        .collect();
    let engine = Engine::compile(&shapes).unwrap();
    let text = b"say 001 key002 say 003 say 004 say 005 key006";
    let ends = |near: Option<&[Range<usize>]>| {
        let ends = |runs: &[Run]| runs.iter().map(|run| run.first).collect::<Vec<_>>();
        let mut ends = engine.scan_near(text, 0..text.len(), near, |_| true, ends).unwrap();
        ends.sort_unstable();
        ends
    };
    assert_eq!(ends(None), [7, 14, 22, 30, 38, 45]);
    assert_eq!(ends(Some(&[])), [14, 45]);
    assert_eq!(ends(Some(&[0..1, 23..24])), [7, 14, 30, 45]);
    assert_eq!(ends(Some(&[1..15, 16..32])), [14, 22, 30, 38, 45], "what is read anyway is told");
}

#[test]
fn a_refused_shape_is_named() {
    let good = shape("abc", Start::Known { back: 3 });
    let bad = shape("(?=a)b", Start::Known { back: 1 });
    let faults = Engine::compile(&[good, bad]).map(|_| ()).unwrap_err();
    assert!(matches!(faults.as_slice(), [(Some(1), EngineFault::Refused(_))]));
}

#[test]
fn too_many_candidates_are_an_error() {
    let pair = |expression: &str| shape(expression, Start::Known { back: 2 });
    let pairs = ["ab", "[a]b", "a[b]", "(?:ab)"].map(pair);
    let engine = Engine::compile(&pairs).unwrap();
    let scan =
        |pairs: usize| engine.scan("ab".repeat(pairs).as_bytes(), 0..pairs * 2, |_| true, <[Run]>::len);
    assert_eq!(scan(1000).unwrap(), 4000);
    assert!(matches!(scan(1 << 18), Err(EngineFault::TooManyRuns { .. })));
    assert_eq!(scan(1000).unwrap(), 4000, "a workspace starts clean after a fault");
}

#[test]
fn equal_shapes_are_looked_for_once() {
    let shapes = [("ab", 2), ("cd", 2), ("ab", 2)].map(|(it, back)| shape(it, Start::Known { back }));
    let engine = Engine::compile(&shapes).unwrap();
    let found = |wanted: u32| engine.scan(b"cdab", 0..4, |it| it == wanted, <[Run]>::to_vec).unwrap();
    assert_eq!(found(2), [Run { group: 0, first: 4, last: 4 }]);
    assert_eq!((found(2), engine.shapes(0), engine.shapes(1)), (found(0), &[0, 2][..], &[1][..]));
    assert!(found(3).is_empty());
}

#[test]
fn an_empty_engine_finds_nothing() {
    assert!(Engine::compile(&[]).unwrap().scan(b"text", 0..4, |_| true, <[Run]>::is_empty).unwrap());
}
