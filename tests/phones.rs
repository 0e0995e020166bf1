//! The check of international telephone numbers against libphonenumber, on numbers of all countries and changed ones.
//!
//! Runs where a Python has its port (`tests/clients/setup.sh` installs it under `target/clients`), skips loudly elsewhere.
//! The numbers are the same on every day and of the same data as `plans.bin`: whoever asks for newer data in
//! `tests/clients/requirements.txt` makes that anew, with `src/scan/check/identity/phone/plans.py`.

use std::path::Path;
use std::process::Command;

use portcullis::scan::check::Check;

/// How many numbers are made, and what they are drawn with.
const NUMBERS: &str = "6000";
const SEED: &str = "20251121";

/// Of so many numbers the two may see one otherwise: the library forgives digits that are dialled within a country only,
/// and knows no numbers of films.
const TOLD_OTHERWISE: usize = 100;

/// Returns what the oracle says, if there is a Python that can ask it.
fn verdicts() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = root.join("tests/clients/phone_oracle.py");
    let pythons = [root.join("target/clients/venv/bin/python"), "python3".into()];
    pythons.into_iter().find_map(|python| {
        let run = Command::new(python).arg(&script).args([SEED, NUMBERS]).output().ok()?;
        run.status.success().then(|| String::from_utf8_lossy(&run.stdout).into_owned())
    })
}

#[test]
fn the_check_agrees_with_libphonenumber() {
    let Some(verdicts) = verdicts() else {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("SKIPPED the_check_agrees_with_libphonenumber: no Python with phonenumbers");
        }
        return;
    };
    let mut judged = [0_usize; 2];
    let mut disagreements = Vec::new();
    for line in verdicts.lines() {
        let Some((number, verdict)) = line.split_once(' ') else { continue };
        let valid = verdict == "1";
        judged[usize::from(valid)] += 1;
        if Check::E164.passes(number.as_bytes()) != valid {
            disagreements.push(line);
        }
    }
    assert!(judged.iter().all(|count| *count > 1000), "refused and taken: {judged:?}");
    let (count, told) = (disagreements.len(), disagreements.join("\n"));
    assert!(count * TOLD_OTHERWISE < judged.iter().sum::<usize>(), "{count} disagree:\n{told}");
}
