//! The files of a folder of packs, read with a limit.

use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use super::PACKS_MAX;
use super::PackFault;
use super::PackProblem;
use super::PluginFiles;

/// Returns the bytes of a file, unless there are too many.
pub(super) fn read_bounded(path: &Path, limit: usize) -> io::Result<Option<Vec<u8>>> {
    let fits = regular(path)?.len() <= limit as u64;
    if fits { fs::read(path).map(Some) } else { Ok(None) }
}

/// Lays every `.toml` file below `folder` over `files`.
pub(super) fn read_folder(
    root: &Path,
    folder: &Path,
    depth: usize,
    files: &mut PluginFiles,
    faults: &mut Vec<PackFault>,
) {
    for path in sorted_entries(root, folder, faults) {
        if path.is_dir() && depth > 0 {
            read_folder(root, &path, depth - 1, files, faults);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            match read_text(&path) {
                Ok(text) => drop(files.insert(name_below(root, &path), text.into())),
                Err(fault) => faults.push(unreadable(root, &path, fault)),
            }
        }
    }
}

pub(super) fn sorted_entries(root: &Path, folder: &Path, faults: &mut Vec<PackFault>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    match fs::read_dir(folder) {
        Ok(entries) => {
            for entry in entries.take(PACKS_MAX + 1) {
                match entry {
                    Ok(entry) => paths.push(entry.path()),
                    Err(fault) => faults.push(unreadable(root, folder, fault)),
                }
            }
        }
        Err(fault) => faults.push(unreadable(root, folder, fault)),
    }
    paths.sort();
    paths
}

pub(super) fn too_long(root: &Path, path: &Path, limit: usize) -> PackFault {
    let problem = PackProblem::TooLong(limit);
    PackFault { file: name_below(root, path), line: None, detector: None, problem }
}

pub(super) fn unreadable(root: &Path, path: &Path, fault: io::Error) -> PackFault {
    let problem = PackProblem::Unreadable(fault);
    PackFault { file: name_below(root, path), line: None, detector: None, problem }
}

pub(super) fn name_below(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

fn read_text(path: &Path) -> io::Result<String> {
    regular(path)?;
    fs::read_to_string(path)
}

/// Returns what is known of a regular file: a pipe would keep its reader waiting for good.
fn regular(path: &Path) -> io::Result<fs::Metadata> {
    let facts = fs::metadata(path)?;
    if facts.is_file() { Ok(facts) } else { Err(io::Error::other("is no regular file")) }
}
