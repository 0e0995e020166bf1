//! Every pack that is shipped proves itself: what it says it finds is found, what it says it ignores is not, and the first stage
//! sees whatever its shapes match.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;

use portcullis::govern::compliance::framework;
use portcullis::scan::check::Check;
use portcullis::scan::hold::Watch;
use portcullis::scan::lane::Lane;
use portcullis::scan::pack;
use portcullis::scan::proof;
use portcullis::scan::scanner::Scanner;
use portcullis::scan::threat::Category;
use portcullis::scan::threat::DetectorId;
use portcullis::scan::threat::DetectorSet;
use portcullis::scan::threat::Finding;

// Most of what tests take is starts, which take half as long with the program's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn lines(faults: &[impl Display]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Feeds a text to a lane in pieces and returns what it finds, sorted like the findings of a block.
fn streamed(scanner: &Scanner, watch: &Watch, text: &[u8], cuts: &[usize]) -> Vec<Finding> {
    let mut lane = Lane::new();
    let (mut found, mut from, mut left) = (Vec::new(), 0, 0);
    for cut in cuts.iter().copied().chain([text.len()]) {
        let advance = lane.feed(scanner, watch, &text[from..cut]).expect("an example can be judged");
        let early = |finding: &Finding| finding.value.start < left;
        assert!(!advance.findings.iter().any(early), "a byte of a value left before it was found");
        left = advance.judged_to;
        found.extend(advance.findings);
        from = cut;
    }
    found.extend(lane.finish(scanner, watch).expect("an example can be judged").findings);
    found.sort_by_key(|finding| (finding.span.start, finding.detector));
    found
}

#[test]
fn every_shipped_detector_lives_up_to_its_examples() {
    let detectors = pack::builtin().unwrap_or_else(|faults| panic!("{}", lines(&faults)));
    let scanner = Scanner::compile(detectors).unwrap_or_else(|faults| panic!("{}", lines(&faults)));
    let watched: RefCell<Option<(DetectorId, Watch)>> = RefCell::new(None);
    let replay = |scanner: &Scanner, id: DetectorId, text: &[u8], cut: usize| {
        let mut watched = watched.borrow_mut();
        let known = watched.take().filter(|(known, _)| *known == id);
        let (_, watch) = watched.insert(known.unwrap_or_else(|| {
            let alone: DetectorSet = [id].into_iter().collect();
            (id, Watch::compile(scanner.detectors(), &alone, &alone))
        }));
        streamed(scanner, watch, text, &[cut])
    };
    let proven = proof::prove(&scanner, Some(&replay));
    assert!(proven.is_ok(), "{}", proven.err().map(|faults| lines(&faults)).unwrap_or_default());
}

/// What people write to each other, with the verbs that orders to agents begin with.
const ERRANDS: &str = "Hello Ruth, thank you for your letter. Could you send me the minutes when you have them, and forward the \
    plan to Tom? I will post the parcel on Monday. Please read the second part before we meet; it is short. We have added a \
    table and will include the figures of May, so copy what you need and leave the rest. When you open the file, use the new \
    version. Tom asked me to tell you that the hall is free, and to remind you of the key to the shed, which you may keep. I \
    paid the deposit and will send the receipt later. If the printer does not work, run the small program on the desk, then \
    call the shop. Do not forget to write to the school and to ask whether they will deliver the chairs. Now the roof: the \
    builder wants to show us two ways to mend it. He will email his offer, and we should answer within a week. I would repeat \
    what we said in spring: act early, make a list, and never pay before the work is done. You are right that the committee \
    must decide; still, let us pretend for a moment that it has. Translate the invitation into French for our guests, and \
    insert the map. Remember that the bus leaves at nine. Ignore the old sign at the gate. From now on the side door is \
    open. Submit your hours by Friday, and add a note if you were ill. The neighbours upload their pictures to the page of the \
    village; print one for the wall if you like it. Always lock the door behind you. Say hello to everybody, and give my best \
    to your mother. As for the summer, imagine a table under the trees, with no speeches at all. Yours, Anna";

/// How much of it a detector's pattern may look at, in percent: one that is asked at every such verb looks at all of it, and
/// at some of it twice.
const LOOKED_AT_PERCENT_MAX: usize = 110;

#[test]
fn no_pattern_is_asked_at_every_common_verb() {
    let detectors = pack::builtin().unwrap_or_else(|faults| panic!("{}", lines(&faults)));
    let scanner = Scanner::compile(detectors).unwrap_or_else(|faults| panic!("{}", lines(&faults)));
    let mut looked_at = scanner.looked_at(ERRANDS.as_bytes()).unwrap();
    looked_at.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let share = |bytes: usize| bytes * 100 / ERRANDS.len();
    let eager: Vec<String> = looked_at
        .into_iter()
        .filter(|(_, bytes)| share(*bytes) > LOOKED_AT_PERCENT_MAX)
        .filter_map(|(id, bytes)| Some(format!("{} looks at {} %", scanner.detector(id)?.name, share(bytes))))
        .collect();
    assert!(eager.is_empty(), "give these an `anchor` that is rarer:\n{}", eager.join("\n"));
}

#[test]
fn every_shipped_detector_says_where_its_facts_come_from() {
    let detectors = pack::builtin().unwrap_or_else(|faults| panic!("{}", lines(&faults)));
    let silent: Vec<&str> =
        detectors.iter().filter(|it| it.references.is_empty()).map(|it| it.name.as_str()).collect();
    assert!(silent.is_empty(), "no references: {silent:?}");
}

#[test]
fn the_readme_tells_how_many_detectors_there_are() {
    let detectors = pack::builtin().unwrap_or_else(|faults| panic!("{}", lines(&faults)));
    let count = |category| detectors.iter().filter(|it| it.category == category).count();
    let counts = [
        detectors.len(),
        count(Category::Secrets),
        count(Category::Pii),
        count(Category::Injection),
        count(Category::Exfiltration),
    ];
    let readme = include_str!("../README.md");
    let told = readme.lines().find_map(|line| line.strip_prefix("What is looked for are more than "));
    let numbers: Vec<usize> = told
        .expect("a line of numbers")
        .replace(',', "")
        .split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect();
    // The fourth and the sixth are countries and languages.
    let numbers = [numbers[0], numbers[1], numbers[2], numbers[4], numbers[6]];
    for (told, count) in numbers.into_iter().zip(counts) {
        assert!(told <= count && count - told <= 50, "{told} are told of {count}");
    }
}

/// Packs whose secrets are of no provider: passwords, private keys, and whatever a text calls a secret.
const NO_PROVIDER: [&str; 13] = [
    "assigned.toml",
    "commands.toml",
    "generic.toml",
    "keys.toml",
    "literals.toml",
    "loosely.toml",
    "material.toml",
    "passwords.toml",
    "plain.toml",
    "signing.toml",
    "told.toml",
    "told_further.toml",
    "tongues_chosen.toml",
];

/// What stands before the language in the types of injections that are told apart by it.
const BY_LANGUAGE: [&str; 5] = [
    "ignore_instructions_",
    "override_with_orders_",
    "reveal_prompt_",
    "no_rules_persona_",
    "no_rules_model_",
];

#[test]
fn as_much_is_looked_for_as_is_promised() {
    let detectors = pack::builtin().unwrap_or_else(|faults| panic!("{}", lines(&faults)));
    let of = |category: Category| detectors.iter().filter(move |it| it.category == category);
    // What only differs in what was proven about it is one type.
    let providers: BTreeSet<&str> = of(Category::Secrets)
        .filter(|it| !NO_PROVIDER.iter().any(|pack| it.file.ends_with(pack)))
        .map(|it| it.name.strip_suffix("_unproven").unwrap_or(&it.name))
        .collect();
    assert!(providers.len() >= 450, "{} secrets of providers", providers.len());

    let personal: BTreeSet<&str> = of(Category::Pii)
        .map(|it| {
            ["_bare", "_contextual"]
                .iter()
                .find_map(|it_too| it.name.strip_suffix(it_too))
                .unwrap_or(&it.name)
        })
        .collect();
    assert!(personal.len() >= 110, "{} types of personal data", personal.len());
    let bic: Check = "bic".parse().expect("a check");
    let is_country =
        |code: &&str| code.len() == 2 && bic.passes(format!("BANK{}XX", code.to_uppercase()).as_bytes());
    let countries: BTreeSet<&str> = personal
        .iter()
        .filter_map(|name| name.strip_prefix("number_plate_").or_else(|| name.split('_').next()))
        .map(|code| if code == "uk" { "gb" } else { code })
        .filter(is_country)
        .collect();
    assert!(countries.len() >= 45, "{} countries", countries.len());

    let injections: BTreeSet<&str> = of(Category::Injection).map(|it| it.pattern.source()).collect();
    assert!(injections.len() >= 250, "{} patterns of injection", injections.len());
    let languages: BTreeSet<&str> = of(Category::Injection)
        .filter_map(|it| BY_LANGUAGE.iter().find_map(|stem| it.name.strip_prefix(stem)))
        .filter(|language| language.len() == 2)
        .collect();
    assert!(languages.len() >= 12, "languages beside English: {languages:?}");
}

#[test]
fn every_shipped_framework_proves_itself() {
    let frameworks =
        framework::read(&pack::builtin_frameworks()).unwrap_or_else(|faults| panic!("{}", lines(&faults)));
    let count = |id: &str| frameworks.get(id).map_or(0, |framework| framework.controls.len());
    // As many controls as the framework has: the criteria of SOC 2, Annex A, the requirements of PCI DSS, the core of
    // the AI RMF, the ten of OWASP; of the others those that are listed.
    let whole = [("soc2", 61), ("iso_27001", 93), ("pci_dss", 63), ("nist_ai_rmf", 72), ("owasp_llm", 10)];
    for (id, controls) in whole {
        assert_eq!(count(id), controls, "{id}");
    }
    assert_eq!(count("hipaa"), 69, "every standard and every implementation specification");
    assert!(count("eu_ai_act") > 20 && count("mitre_atlas") > 40);
    let silent = frameworks.values().filter(|framework| !framework.source.starts_with("https://"));
    assert_eq!(silent.count(), 0, "every framework names its source");
}
