//! A file of OCSF events, one in a line, put aside when it is full.

use std::fs::OpenOptions;
use std::io;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

use async_trait::async_trait;

use super::Delivery;
use super::Sink;
use super::Trouble;
use crate::govern::audit::Entry;
use crate::govern::siem::config::FileTarget;
use crate::govern::siem::format::Teller;
use crate::govern::siem::format::ocsf;

pub(super) struct OcsfFile {
    pub(super) target: FileTarget,
    pub(super) teller: Teller,
}

#[async_trait]
impl Sink for OcsfFile {
    async fn deliver(&mut self, entries: &[&Entry]) -> Result<Delivery, Trouble> {
        let mut lines = Vec::new();
        for entry in entries {
            serde_json::to_writer(&mut lines, &ocsf::event(entry, &self.teller))
                .map_err(|_| Trouble::Unsendable)?;
            lines.push(b'\n');
        }
        let target = self.target.clone();
        let written = tokio::task::spawn_blocking(move || append(&target, &lines)).await;
        let written = written.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()));
        written.map_err(|error| Trouble::File(error.kind()))?;
        Ok(Delivery::Taken)
    }
}

/// Adds lines and comes back once they would survive a power cut. The file is opened each time: whoever moved it
/// away gets a new one. A part of a line that a crash left behind is ended first.
fn append(target: &FileTarget, lines: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).read(true).append(true).mode(0o640).open(&target.path)?;
    let length = file.metadata()?.len();
    if length > 0 && length + lines.len() as u64 > target.bytes_max {
        put_aside(&target.path, target.kept)?;
        file = OpenOptions::new().create(true).append(true).mode(0o640).open(&target.path)?;
    } else if length > 0 && !ends_in_line(&file, length)? {
        file.write_all(b"\n")?;
    }
    file.write_all(lines)?;
    file.sync_data()
}

fn ends_in_line(file: &std::fs::File, length: u64) -> io::Result<bool> {
    use std::os::unix::fs::FileExt;
    let mut last = [0];
    file.read_exact_at(&mut last, length - 1)?;
    Ok(last == *b"\n")
}

/// Renames `PATH` to `PATH.1`, what was there to `PATH.2`, and so on; the oldest goes.
fn put_aside(path: &Path, kept: u32) -> io::Result<()> {
    let numbered = |number: u32| -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        name.into()
    };
    if kept == 0 {
        return std::fs::remove_file(path);
    }
    for number in (1..kept).rev() {
        match std::fs::rename(numbered(number), numbered(number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    std::fs::rename(path, numbered(1))
}
