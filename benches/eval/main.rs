//! `make eval`: how often the shipped scanner is right and wrong, with the number of texts and 95 % intervals.
//!
//! In: the shared rows, the packages that cargo fetched, and what the trainer or the model's card says of sources left out. Out: tables on standard output and
//! in `target/eval/report.{json,md}`. The model has learnt from most of the shared rows: what is measured here on
//! them says how the product behaves on them, not how it does on others; the table of sources left out says that.
//! `-- names` measures only what the tagger finds. `-- near` measures only the prompts that come near an attack, and shows those of the first set it judges wrongly.

use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::path::Path;

mod ablation;
mod alarms;
mod gateway;
mod injection;
mod kept;
mod layers;
mod left_out;
mod measure;
mod names;
mod near;
mod packages;
mod personal;
mod report;
mod rows;
mod secrets;
mod spans;
mod speed;
mod thresholds;
mod transform;

use gateway::Gateway;
use layers::Layers;
use report::Report;

const TARGET: &str = "target/eval";

fn main() -> Result<(), Box<dyn Error>> {
    let layers = Layers::shipped()?;
    let mut report = Report::default();
    if std::env::args().nth(1).as_deref() == Some("near") {
        near::faults(&layers)?;
        near::measure(&layers, &mut report)?;
        std::io::stdout().write_all(report.markdown().as_bytes())?;
        return Ok(());
    }
    let shared = rows::shared();
    if std::env::args().nth(1).as_deref() == Some("names") {
        personal::measure(&layers, &rows::personal(&shared)?, &mut report);
        names::measure(&layers, &rows::personal(&shared)?, &rows::long(&shared)?, &mut report);
        std::io::stdout().write_all(report.markdown().as_bytes())?;
        return Ok(());
    }
    let folds = fs::read_to_string(Path::new(TARGET).join("folds.json")).ok();
    left_out::tables(folds.as_deref(), &fs::read_to_string(left_out::CARD)?, &mut report)?;
    let rows = rows::injection(&shared)?;
    let outcomes = injection::outcomes(&layers, &rows);
    injection::by_source(&rows, &outcomes, &mut report);
    thresholds::measure(&layers, &rows, &outcomes, &mut report)?;
    ablation::measure(&rows, &outcomes, &mut report);
    near::measure(&layers, &mut report)?;
    let keys = rows::secrets(&shared)?;
    let people = rows::personal(&shared)?;
    kept::measure(&layers, &rows, &keys, &people, &mut report);
    let long = rows::long(&shared)?;
    injection::needles(&layers, &rows, &long, &mut report);
    let gateway = Gateway::shipped(&layers)?;
    alarms::long(&gateway, &long, &mut report);
    alarms::traffic(&gateway, &rows::traffic(&shared)?, &mut report);
    secrets::measure(&layers, &keys, &mut report);
    personal::measure(&layers, &people, &mut report);
    names::measure(&layers, &people, &long, &mut report);
    speed::measure(&layers, &gateway, &long, &mut report);
    fs::create_dir_all(TARGET)?;
    fs::write(Path::new(TARGET).join("report.json"), report.json())?;
    fs::write(Path::new(TARGET).join("report.md"), report.markdown())?;
    std::io::stdout().write_all(report.markdown().as_bytes())?;
    Ok(())
}
