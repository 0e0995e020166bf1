use std::fs;

use super::*;
use crate::scan::detector::ContextWords;
use crate::scan::detector::MaskKind;

const HEAD: &str = "[pack]\nname = 'probe'\nversion = '1.0.0'\n";

/// Writes a good detector with some lines replaced (`key`, whole line) or added.
fn written(name: &str, changes: &[(&str, &str)]) -> String {
    let mut lines = vec![
        ("type", format!("type = '{name}'")),
        ("category", "category = 'secrets'".to_owned()),
        ("severity", "severity = 'high'".to_owned()),
        ("confidence", "confidence = 'low'".to_owned()),
        ("pattern", "pattern = '\\bab_[0-9]{4,8}\\b'".to_owned()),
        ("why", "why = 'It matters.'".to_owned()),
        ("finds", "finds = ['ab_12345']".to_owned()),
        ("ignores", "ignores = ['ab_123']".to_owned()),
    ];
    for (key, line) in changes {
        match lines.iter_mut().find(|(known, _)| known == key) {
            Some(known) => known.1 = (*line).to_owned(),
            None => lines.push((key, (*line).to_owned())),
        }
    }
    let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    format!("[[detector]]\n{}\n", lines.join("\n"))
}

fn read(files: &[(&str, String)]) -> Result<Vec<Detector>, Vec<String>> {
    let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.clone().into())).collect();
    parse_all(&files).map_err(|faults| faults.iter().map(ToString::to_string).collect())
}

#[test]
fn a_pack_becomes_detectors() {
    let context = ("context", "context = { words = ['Key'], required = true }");
    let more = [context, ("mask", "mask = 'keep_last_4'"), ("anchor", "anchor = 'ab_'")];
    let text = format!("{HEAD}\n{}{}", written("one", &[]), written("two", &more));
    let detectors = read(&[("detectors/probe.toml", text)]).unwrap();
    let [one, two] = detectors.as_slice() else { panic!("two detectors") };
    assert_eq!((one.name.as_str(), one.line, one.mask), ("one", 5, MaskKind::Label));
    assert_eq!((one.pack.as_str(), one.pack_version.as_str()), ("probe", "1.0.0"));
    assert_eq!((two.line, two.mask), (14, MaskKind::KeepLast4));
    assert!(two.anchor.is_some() && two.context.as_ref().is_some_and(ContextWords::required));
}

#[test]
fn a_fault_names_file_line_and_detector() {
    for (change, expected) in [
        (("type", "type = 'No Name'"), "p.toml:5: No Name: `type` must be snake_case and at most 64 bytes"),
        (
            ("category", "category = 'odd'"),
            "p.toml:6: one: `category` is unknown: expected one of secrets, pii",
        ),
        (
            ("severity", "severity = 'dire'"),
            "p.toml:7: one: `severity` is unknown: expected one of low, medium",
        ),
        (
            ("confidence", "confidence = '1'"),
            "p.toml:8: one: `confidence` is unknown: expected one of low, medium",
        ),
        (("pattern", "pattern = 'a+'"), "p.toml:9: one: `pattern` has a repetition without an upper bound"),
        (("pattern", "pattern = '('"), "p.toml:9: one: `pattern` does not parse: unclosed group"),
        (("pattern", "pattern = 3"), "p.toml:9: one: invalid type: integer `3`, expected a string"),
        (("why", "why = ' '"), "p.toml:10: one: `why` must not be empty"),
        (("finds", "finds = []"), "p.toml:11: one: `finds` must not be empty"),
        (("anchor", "anchor = 'x?'"), "p.toml:13: one: `anchor` can match nothing at all"),
        (
            ("anchor", "anchor = '(?:a|bc){1000}'"),
            "p.toml:13: one: `anchor` has 3000 places to be looked for, 2048 are allowed",
        ),
        (("behind", "behind = 'x*'"), "p.toml:13: one: `behind` has a repetition without an upper bound"),
        (
            ("behind", "behind = '[.] '"),
            "p.toml:13: one: `behind` needs `not_before`, and a pattern of at most 95",
        ),
        (("not_before", "not_before = '[.]x'"), "p.toml:13: one: `not_before` must be one class of bytes"),
        (("checks", "checks = ['no_check']"), "p.toml:13: one: `checks` is unknown: "),
        (("mask", "mask = 'blur'"), "p.toml:13: one: `mask` is unknown: expected one of label"),
        (("context", "context = { words = [] }"), "p.toml:13: one: `context` must not be empty"),
        (("extra", "extra = 1"), "p.toml:13: one: unknown field `extra`"),
        (("why", ""), "p.toml:4: one: missing field `why`"),
    ] {
        let faults = read(&[("p.toml", format!("{HEAD}{}", written("one", &[change])))]).unwrap_err();
        assert!(faults.len() == 1 && faults[0].starts_with(expected), "{change:?}: {faults:?}");
    }
}

#[test]
fn every_fault_of_every_file_is_told() {
    let two = written("one", &[("pattern", "pattern = 'a*'"), ("mask", "mask = 'blur'")]);
    let files = [
        ("a.toml", format!("{HEAD}{two}{}", written("two", &[("extra", "extra = 1")]))),
        ("b.toml", "[pack\n".to_owned()),
        ("c.toml", format!("{}\n[other]\n", written("three", &[]))),
    ];
    let faults = read(&files).unwrap_err();
    let places: Vec<&str> = faults.iter().map(|fault| fault.split(": ").next().unwrap()).collect();
    assert_eq!(places.iter().filter(|place| place.starts_with("a.toml")).count(), 3, "{faults:?}");
    assert_eq!(places.iter().filter(|place| place.starts_with("b.toml")).count(), 1, "{faults:?}");
    assert_eq!(places.iter().filter(|place| place.starts_with("c.toml")).count(), 2, "{faults:?}");
}

#[test]
fn names_are_unique_over_all_packs() {
    let pack = format!("{HEAD}{}", written("one", &[]));
    let faults = read(&[("a.toml", pack.clone()), ("b.toml", pack)]).unwrap_err();
    assert_eq!(faults, ["b.toml:4: one: `type` is already used in a.toml"]);
}

#[test]
fn limits_hold() {
    let many = vec!["'x'"; EXAMPLES_MAX + 1].join(",");
    let long = "x".repeat(EXAMPLE_BYTES_MAX + 1);
    for line in [format!("ignores = [{many}]"), format!("ignores = ['{long}']")] {
        let faults =
            read(&[("p.toml", format!("{HEAD}{}", written("one", &[("ignores", &line)])))]).unwrap_err();
        assert!(faults[0].ends_with("`ignores` has more or longer entries than allowed"), "{}", faults.len());
    }
    let faults = read(&[("p.toml", " ".repeat(PACK_BYTES_MAX + 1))]).unwrap_err();
    assert_eq!(faults.len(), 1);
    let files: Vec<String> = (0..=PACKS_MAX).map(|at| format!("{at}.toml")).collect();
    let files: Vec<(&str, String)> = files.iter().map(|name| (name.as_str(), HEAD.to_owned())).collect();
    assert!(read(&files).unwrap_err()[0].ends_with("there are more than 512 packs"));
}

#[test]
fn a_folder_is_laid_over_file_by_file() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("detectors/custom");
    fs::create_dir_all(&below).unwrap();
    let before = builtin().unwrap().len();
    fs::write(below.join("mine.toml"), format!("{HEAD}{}", written("mine_only", &[]))).unwrap();
    fs::write(below.join("notes.md"), "no pack").unwrap();
    let detectors = load_dir(folder.path()).unwrap();
    assert_eq!(detectors.len(), before + 1);
    assert!(detectors.iter().any(|it| it.name == "mine_only" && it.file == "detectors/custom/mine.toml"));
    fs::write(below.join("bad.toml"), [0xff, 0xfe]).unwrap();
    let faults = load_dir(folder.path()).unwrap_err();
    assert!(faults[0].to_string().starts_with("detectors/custom/bad.toml: cannot be read"));
}

/// A pipe would keep whoever reads it waiting for good.
#[test]
fn what_is_no_file_is_no_pack() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("detectors");
    fs::create_dir_all(&below).unwrap();
    let owner = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let pipe = below.join("pipe.toml");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, owner, 0).unwrap();
    std::os::unix::fs::symlink(&pipe, below.join("link.toml")).unwrap();
    let faults: Vec<String> = load_dir(folder.path()).unwrap_err().iter().map(ToString::to_string).collect();
    let reason = "cannot be read: is no regular file";
    assert_eq!(faults, [format!("detectors/link.toml: {reason}"), format!("detectors/pipe.toml: {reason}")]);
}

#[test]
fn embedded_files_are_named_by_their_path_below_plugins() {
    let sorted = embedded().is_sorted_by_key(|(path, _)| *path);
    assert!(sorted && embedded().iter().all(|(path, _)| path.ends_with(".toml") && !path.starts_with('/')));
}

#[test]
fn values_that_are_made_to_be_shown_are_no_secrets_of_any_pack() {
    let shown = "[[shown]]\nbegins = 'ab_77'\nwhy = 'It stands in pages.'\n[[shown]]\nbegins = 'ab_88'\nbytes_min = 9\nwhy = 'x'\n";
    let files = [
        ("detectors/a.toml", format!("{HEAD}\n{}", written("one", &[]))),
        ("detectors/b.toml", format!("{HEAD}\n{shown}")),
        ("detectors/c.toml", format!("{HEAD}\n{}", written("two", &[("category", "category = 'custom'")]))),
    ];
    let scanner = crate::scan::scanner::Scanner::compile(read(&files).unwrap()).unwrap();
    let found = |text: &str| {
        let found = scanner.scan(text.as_bytes(), &scanner.all()).unwrap();
        found
            .iter()
            .map(|it| scanner.detectors()[usize::from(it.detector.0)].name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(found("ab_12345"), ["one", "two"]);
    assert_eq!(found("ab_77345"), ["two"]);
    assert_eq!(found("ab_88345"), ["one", "two"]);
    assert_eq!(found("ab_883456"), ["two"]);
    for (line, problem) in [
        ("begins = 'ab'", "p.toml:5: `begins` must be of 3 to 32 signs of ASCII"),
        ("begins = 'a b c'", "p.toml:5: `begins` must be of 3 to 32 signs of ASCII"),
        ("begin = 'abc'", "p.toml:6: unknown field `begin`"),
    ] {
        let pack = format!("{HEAD}\n[[shown]]\n{line}\nwhy = 'x'\n");
        let told = read(&[("p.toml", pack)]).unwrap_err();
        assert!(told.len() == 1 && told[0].starts_with(problem), "{told:?}");
    }
}
