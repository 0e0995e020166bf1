//! The checks of identifiers against python-stdnum, on random and mutated values.
//!
//! Runs where a Python has the package (`tests/clients/setup.sh` installs it under `target/clients`), skips loudly
//! elsewhere. The values are the same in each run; `PORTCULLIS_STDNUM_SEED=1` draws others, and
//! `PORTCULLIS_STDNUM_VALUES=400` fewer.

use std::collections::BTreeMap;
use std::io::BufRead as _;
use std::io::BufReader;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;

use portcullis::scan::check::Check;

/// What the values are drawn with, unless the environment says otherwise.
const SEED: &str = "20251121";

/// How many values are made for each check, unless the environment says otherwise.
const VALUES: &str = "100000";

/// Checks that differ from the oracle on purpose; what they say is not compared. `us_aba` takes only the districts of
/// the Federal Reserve, which the oracle does not look at; `tw_ubn` takes what Taiwan's Ministry of Finance gives out
/// since April 2023, multiples of 5, where the oracle still wants multiples of 10.
const NOT_COMPARED: [&str; 2] = ["us_aba", "tw_ubn"];

/// Checks that ask for more than the oracle: what it refuses, they refuse. `kr_brn` has a check digit; nobody has the
/// serial number 0 in `dk_cpr`, `fr_nir` and `id_nik`; nobody is born in years to come in `lv_pvn` and `ua_rnokpp`.
const STRICTER: [&str; 6] = ["dk_cpr", "fr_nir", "id_nik", "kr_brn", "lv_pvn", "ua_rnokpp"];

/// What is judged of one check.
#[derive(Default)]
struct Judged {
    valid: usize,
    invalid: usize,
}

/// Returns a Python that can ask the oracle, if there is one.
fn python() -> Option<PathBuf> {
    let venv = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/clients/venv/bin/python");
    [venv, "python3".into()].into_iter().find(|python| {
        let run = Command::new(python).args(["-c", "import stdnum"]).stderr(Stdio::null()).status();
        run.is_ok_and(|status| status.success())
    })
}

#[test]
fn checks_agree_with_python_stdnum() {
    let variable = |name, otherwise: &str| std::env::var(name).unwrap_or_else(|_| otherwise.to_owned());
    let seed = variable("PORTCULLIS_STDNUM_SEED", SEED);
    let Some(python) = python() else {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("SKIPPED checks_agree_with_python_stdnum: no Python with python-stdnum");
        }
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/stdnum_oracle.py");
    let mut oracle = Command::new(python)
        .arg(script)
        .args([&seed, &variable("PORTCULLIS_STDNUM_VALUES", VALUES)])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the oracle starts");
    let verdicts = BufReader::new(oracle.stdout.take().expect("its output is a pipe"));
    let mut checks: BTreeMap<String, (Check, Judged)> = BTreeMap::new();
    let mut disagreements = Vec::new();
    for line in verdicts.lines() {
        let line = line.expect("the oracle writes text");
        let [name, value, verdict] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        if NOT_COMPARED.contains(&name) {
            continue;
        }
        if !checks.contains_key(name) {
            let check = name.parse().unwrap_or_else(|fault| panic!("{name}: {fault}"));
            checks.insert(name.to_owned(), (check, Judged::default()));
        }
        let Some((check, judged)) = checks.get_mut(name) else { continue };
        let is_valid = verdict == "1";
        *if is_valid { &mut judged.valid } else { &mut judged.invalid } += 1;
        let is_stricter = STRICTER.contains(&name) && is_valid;
        if check.passes(value.as_bytes()) != is_valid && !is_stricter {
            disagreements.push(line);
        }
    }
    assert!(oracle.wait().expect("the oracle ends").success(), "the oracle failed");
    let (count, told) = (disagreements.len(), disagreements.join("\n"));
    assert!(disagreements.is_empty(), "{count} disagree, drawn with {seed}:\n{told}");
    assert!(checks.len() >= 110, "{} checks judged", checks.len());
    let is_one_sided = |judged: &Judged| judged.valid == 0 || judged.invalid == 0;
    let one_sided: Vec<&String> =
        checks.iter().filter(|(_, (_, it))| is_one_sided(it)).map(|(name, _)| name).collect();
    assert!(one_sided.is_empty(), "never both valid and invalid: {one_sided:?}");
}
