use super::*;
use crate::scan::rule::fact::Facts;

/// Half of what a worker's stack has.
const SMALL_STACK_BYTES: usize = 1 << 20;

/// A kind of parts that stand in one another: its name, and how it is written to some depth.
type Kind = (&'static str, fn(usize) -> String);

/// Whatever goes deeper with every few bytes.
const DEEP: [Kind; 20] = [
    ("brackets", |depth| around("(", "risk", ")", depth)),
    ("lists", |depth| around("[", "risk", "]", depth)),
    ("maps", |depth| around("{1:", "risk", "}", depth)),
    ("keys of maps", |depth| around("{", "risk", ":1}", depth)),
    ("messages", |depth| around("A{a:", "risk", "}", depth)),
    ("negations of brackets", |depth| around("!(", "true", ")", depth)),
    ("negatives of brackets", |depth| around("-(", "risk", ")", depth)),
    ("functions", |depth| around("size(", "risk", ")", depth)),
    ("indices in indices", |depth| around("tools[", "risk", "]", depth)),
    ("conjunctions in brackets", |depth| around("true&&(", "true", ")", depth)),
    ("alternatives by `?`", |depth| around("true?1:", "risk", "", depth)),
    ("alternatives by `?` that are chosen", |depth| around("false?1:", "risk", "", depth)),
    ("conditions of alternatives", |depth| around("(", "true", "?true:false)", depth)),
    ("members", |depth| around("", "tools", ".a", depth)),
    ("optional members", |depth| around("", "tools", ".?a", depth)),
    ("indices", |depth| around("", "tools", "[0]", depth)),
    ("methods", |depth| around("", "types", ".size()", depth)),
    ("sums", |depth| around("", "risk", "+1", depth)),
    ("products", |depth| around("", "risk", "*1", depth)),
    ("comparisons", |depth| around("", "risk", "<1", depth)),
];

fn around(before: &str, middle: &str, behind: &str, depth: usize) -> String {
    [before.repeat(depth).as_str(), middle, behind.repeat(depth).as_str()].concat()
}

/// Does something where little of a stack is left.
fn on_a_small_stack(does: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let small = thread::Builder::new().stack_size(SMALL_STACK_BYTES);
        small.spawn_scoped(scope, does).unwrap().join().unwrap();
    });
}

fn judge(condition: &Condition) {
    let facts = Facts::default();
    let scene = Scene { direction: "request", dialect: "generic", facts: &facts, asked: &[] };
    let _ = condition.judge(&Variables::of(&scene, &[]));
}

#[test]
fn whatever_stands_too_deep_is_refused_and_what_does_not_can_be_judged() {
    on_a_small_stack(|| {
        for (name, written) in DEEP {
            let deepest = (DEPTH_MAX / 4..=DEPTH_MAX).rev();
            let mut compiled = deepest.map(|depth| (depth, Condition::compile(&written(depth))));
            let (depth, condition) = compiled.find(|(_, compiled)| compiled.is_ok()).expect(name);
            judge(&condition.expect("found as such"));
            for beyond in [depth + 1, depth + 2, DEPTH_MAX * 2] {
                let told = Condition::compile(&written(beyond)).err();
                assert_eq!(told, Some(ConditionFault::TooNested), "{name}, {beyond} deep");
            }
        }
    });
}

#[test]
fn as_many_parts_in_one_another_as_there_are_bytes_for_are_refused() {
    on_a_small_stack(|| {
        for (name, written) in DEEP {
            let bytes = written(1).len() - written(0).len();
            let source = written((CONDITION_BYTES_MAX - written(0).len()) / bytes);
            assert!(source.len() > CONDITION_BYTES_MAX - 16 && source.len() <= CONDITION_BYTES_MAX, "{name}");
            assert_eq!(Condition::compile(&source).err(), Some(ConditionFault::TooNested), "{name}");
        }
    });
}

/// The parser is bounded by bytes alone: there has to be room for what takes most of a stack.
#[test]
fn the_parsers_stack_is_several_times_what_it_takes() {
    for (_, written) in DEEP {
        let bytes = written(1).len() - written(0).len();
        for depth in [DEPTH_MAX, CONDITION_BYTES_MAX / bytes] {
            let source = written(depth);
            thread::scope(|scope| {
                let parser = thread::Builder::new().stack_size(PARSER_STACK_BYTES / 8);
                parser.spawn_scoped(scope, || Condition::parse(&source).is_ok()).unwrap().join().unwrap();
            });
        }
    }
}

#[test]
fn brackets_that_nobody_closes_are_no_condition() {
    on_a_small_stack(|| {
        for open in ["(", "[", "{", "{1:", "A{a:", "size(", "tools[", "true?", "true?1:", "!(", "-(", "1+("] {
            let source = open.repeat(CONDITION_BYTES_MAX / open.len());
            let told = Condition::compile(&source).expect_err(open);
            assert!(
                matches!(told, ConditionFault::TooNested | ConditionFault::Syntax { .. }),
                "{open}: {told}"
            );
        }
    });
}

#[test]
fn what_stands_beside_one_another_may_be_as_long_as_a_condition() {
    on_a_small_stack(|| {
        for (before, behind) in [("!", ""), ("", "&&true"), ("", "||true")] {
            let bytes = before.len() + behind.len();
            let source = around(before, "true", behind, (CONDITION_BYTES_MAX - 4) / bytes);
            judge(&Condition::compile(&source).expect("it is flat"));
        }
        judge(&Condition::compile(&around("-", "risk", "", CONDITION_BYTES_MAX - 4)).expect("it is flat"));
        let list = format!("[{}0]", "0,".repeat(CONDITION_BYTES_MAX / 2 - 2));
        judge(&Condition::compile(&list).expect("it is flat"));
    });
}
