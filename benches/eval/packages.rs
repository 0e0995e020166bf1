//! Harmless texts that nothing was learnt from: documentation and code of the packages this project is built of.

use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;

use crate::rows::Text;

/// Where the packages are named.
pub const LOCK: &str = "Cargo.lock";
/// What is read of each package, and as what.
const FILES: [(&str, &str); 3] = [
    ("README.md", "packages' read-me files"),
    ("CHANGELOG.md", "packages' news"),
    ("src/lib.rs", "packages' code"),
];
/// Files are judged in pieces of this many bytes, as many as that at most.
const PIECE_BYTES: usize = 3000;
const PIECES_MAX: usize = 4;
/// The shortest piece.
const PIECE_BYTES_MIN: usize = 200;

#[derive(Deserialize)]
struct Lock {
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
}

/// Returns pieces of the files of all locked packages that lie on this machine, in the order of the lock file.
pub fn texts() -> Result<Vec<Text>, Box<dyn Error>> {
    let lock: Lock = toml::from_str(&fs::read_to_string(LOCK)?)?;
    let sources = sources();
    let mut texts = Vec::new();
    for package in &lock.package {
        let folder = format!("{}-{}", package.name, package.version);
        let Some(folder) = sources.iter().map(|it| it.join(&folder)).find(|it| it.is_dir()) else { continue };
        for (file, source) in FILES {
            let Ok(text) = fs::read_to_string(folder.join(file)) else { continue };
            let long_enough = pieces(&text).filter(|piece| piece.len() >= PIECE_BYTES_MIN);
            texts.extend(long_enough.take(PIECES_MAX).map(|piece| Text {
                text: piece.to_owned(),
                label: Some(0),
                kind: "benign_document".to_owned(),
                source: source.to_owned(),
            }));
        }
    }
    Ok(texts)
}

/// Returns where cargo keeps what it fetched, a folder for each registry.
fn sources() -> Vec<PathBuf> {
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cargo"));
    let Some(cargo) = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home) else { return Vec::new() };
    let Ok(registries) = fs::read_dir(cargo.join("registry/src")) else { return Vec::new() };
    let mut found: Vec<PathBuf> = registries.filter_map(|it| Some(it.ok()?.path())).collect();
    found.sort();
    found
}

/// Cuts a text between characters.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut cut = rest.len().min(PIECE_BYTES);
        while !rest.is_char_boundary(cut) {
            cut -= 1;
        }
        let (piece, behind) = rest.split_at(cut);
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}
