//! The checks of identifiers against python-stdnum, on random and mutated values.
//!
//! Runs where a Python has the package (`tests/clients/setup.sh` installs it under `target/clients`), skips loudly
//! elsewhere. The values are the same in each run; `PORTCULLIS_STDNUM_SEED=1` draws others, and
//! `PORTCULLIS_STDNUM_VALUES=100000` makes it thorough.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use portcullis::scan::check::Check;

/// What the values are drawn with, unless the environment says otherwise.
const SEED: &str = "20251121";

/// How many values are made for each check, unless the environment says otherwise.
const VALUES: &str = "400";

/// Checks that differ from the oracle on purpose; what they say is not compared. `us_aba` takes only the districts of
/// the Federal Reserve, which the oracle does not look at; `tw_ubn` takes what Taiwan's Ministry of Finance gives out
/// since April 2023, multiples of 5, where the oracle still wants multiples of 10.
const NOT_COMPARED: [&str; 2] = ["us_aba", "tw_ubn"];

/// Checks that ask for more than the oracle, a check digit: what it refuses, they refuse.
const STRICTER: [&str; 1] = ["kr_brn"];

/// Returns what the oracle says of values drawn with a seed, if there is a Python that can ask it.
fn verdicts(seed: &str) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = root.join("tests/clients/stdnum_oracle.py");
    let values = std::env::var("PORTCULLIS_STDNUM_VALUES").unwrap_or_else(|_| VALUES.to_owned());
    let pythons = [root.join("target/clients/venv/bin/python"), "python3".into()];
    pythons.into_iter().find_map(|python| {
        let run = Command::new(python).arg(&script).args([seed, &values]).output().ok()?;
        run.status.success().then(|| String::from_utf8_lossy(&run.stdout).into_owned())
    })
}

#[test]
fn checks_agree_with_python_stdnum() {
    let seed = std::env::var("PORTCULLIS_STDNUM_SEED").unwrap_or_else(|_| SEED.to_owned());
    let Some(verdicts) = verdicts(&seed) else {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("SKIPPED checks_agree_with_python_stdnum: no Python with python-stdnum");
        }
        return;
    };
    let mut judged: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    let mut disagreements = Vec::new();
    for line in verdicts.lines() {
        let [name, value, verdict] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
        if NOT_COMPARED.contains(&name) {
            continue;
        }
        let check: Check = name.parse().unwrap_or_else(|fault| panic!("{name}: {fault}"));
        let valid = verdict == "1";
        judged.entry(name).or_default()[usize::from(valid)] += 1;
        let passes = check.passes(value.as_bytes());
        let is_stricter = STRICTER.contains(&name) && valid;
        if passes != valid && !is_stricter {
            disagreements.push(line);
        }
    }
    let (count, told) = (disagreements.len(), disagreements.join("\n"));
    assert!(disagreements.is_empty(), "{count} disagree, drawn with {seed}:\n{told}");
    assert!(judged.len() >= 110, "{} checks judged", judged.len());
    let one_sided: Vec<&str> =
        judged.iter().filter(|(_, both)| both.contains(&0)).map(|(name, _)| *name).collect();
    assert!(one_sided.is_empty(), "never both valid and invalid: {one_sided:?}");
}
