//! Embeds every plugin file, so that the binary alone is a working gateway.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("plugins");
    println!("cargo::rerun-if-changed=plugins");
    println!("cargo::rerun-if-changed=build.rs");
    tell_commit();
    let mut files = Vec::new();
    if root.is_dir() {
        collect(&root, &mut files)?;
    }
    files.sort();
    let models =
        files.iter().filter(|path| path.starts_with(root.join("models"))).cloned().collect::<Vec<_>>();
    files.retain(|path| !models.contains(path));
    let list = listing(&root, &files, "include_str!")?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?).join("plugins.rs");
    fs::write(out, list)?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?).join("models.rs");
    fs::write(out, listing(&root, &models, "include_bytes!")?)?;
    Ok(())
}

/// Tells the commit and its date, from the environment of a package build or from git.
fn tell_commit() {
    println!("cargo::rerun-if-env-changed=PORTCULLIS_COMMIT");
    println!("cargo::rerun-if-env-changed=PORTCULLIS_BUILD_DATE");
    for head in [".git/HEAD", ".git/logs/HEAD"] {
        if Path::new(head).exists() {
            println!("cargo::rerun-if-changed={head}");
        }
    }
    let commit = told("PORTCULLIS_COMMIT", &["rev-parse", "--short=12", "HEAD"], "unknown");
    let date = told("PORTCULLIS_BUILD_DATE", &["log", "-1", "--format=%cI"], "1970-01-01T00:00:00Z");
    println!("cargo::rustc-env=PORTCULLIS_COMMIT={commit}");
    println!("cargo::rustc-env=PORTCULLIS_BUILD_DATE={date}");
}

fn told(variable: &str, git: &[&str], otherwise: &str) -> String {
    let from_git = || {
        let output = std::process::Command::new("git").args(git).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    std::env::var(variable).ok().or_else(from_git).unwrap_or_else(|| otherwise.to_owned())
}

/// Gathers every `.toml` and `.bin` file below `folder`.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml" || extension == "bin") {
            files.push(path);
        }
    }
    Ok(())
}

/// Writes the list as a Rust slice of `(path below plugins, content)`.
fn listing(root: &Path, files: &[PathBuf], include: &str) -> Result<String, Box<dyn Error>> {
    let mut list = String::from("&[\n");
    for path in files {
        let name =
            path.strip_prefix(root)?.to_str().ok_or("a plugin's path is not UTF-8")?.replace('\\', "/");
        let full = path.to_str().ok_or("a plugin's path is not UTF-8")?;
        writeln!(list, "    ({name:?}, {include}({full:?})),")?;
    }
    list.push_str("]\n");
    Ok(list)
}
