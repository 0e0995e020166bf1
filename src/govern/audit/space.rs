//! Room on the disk: a reserve that is given up when the disk is full, and a mark that warns before.

use std::fs::File;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use rustix::fs::FallocateFlags;

const RESERVE_FILE: &str = "reserve";

/// Asks how many bytes are free where a path lies.
type FreeBytes = dyn Fn(&Path) -> io::Result<u64> + Send;

/// Watches the disk that the journal is on.
pub(super) struct Space {
    directory: PathBuf,
    reserve_bytes: u64,
    low_water_bytes: u64,
    free_bytes: Box<FreeBytes>,
}

impl Space {
    pub(super) fn new(directory: &Path, reserve_bytes: u64, low_water_bytes: u64) -> Self {
        let free_bytes = Box::new(free_bytes);
        Self { directory: directory.to_owned(), reserve_bytes, low_water_bytes, free_bytes }
    }

    #[cfg(test)]
    pub(super) fn pretend(&mut self, free_bytes: impl Fn(&Path) -> io::Result<u64> + Send + 'static) {
        self.free_bytes = Box::new(free_bytes);
    }

    /// Returns how many bytes are free, when that is below the mark.
    pub(super) fn below_mark(&self) -> io::Result<Option<u64>> {
        let free = (self.free_bytes)(&self.directory)?;
        Ok((free < self.low_water_bytes).then_some(free))
    }

    /// Makes the reserve if it is missing and would leave the disk above its mark.
    pub(super) fn restore(&self) -> io::Result<()> {
        let path = self.directory.join(RESERVE_FILE);
        let present = std::fs::metadata(&path).is_ok_and(|file| file.len() == self.reserve_bytes);
        let free = (self.free_bytes)(&self.directory)?;
        if present || self.reserve_bytes == 0 || free < self.reserve_bytes + self.low_water_bytes {
            return Ok(());
        }
        let file = File::options().create(true).truncate(true).write(true).open(&path)?;
        // Blocks are really taken: a sparse file would reserve nothing.
        let taken = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, self.reserve_bytes);
        if let Err(error) = taken {
            std::fs::remove_file(&path)?;
            return Err(error.into());
        }
        file.sync_all()
    }

    /// Gives the reserve up; tells whether there was one.
    pub(super) fn release(&self) -> bool {
        std::fs::remove_file(self.directory.join(RESERVE_FILE)).is_ok()
    }
}

fn free_bytes(directory: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(directory)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_takes_real_blocks_and_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut space = Space::new(folder.path(), 1 << 20, 100);
        space.restore().unwrap();
        let taken = std::fs::metadata(folder.path().join(RESERVE_FILE)).unwrap();
        assert!(std::os::unix::fs::MetadataExt::blocks(&taken) * 512 >= 1 << 20);
        assert!(space.release());
        assert!(!space.release());
        space.pretend(|_| Ok((1 << 20) + 99));
        space.restore().unwrap();
        assert!(!space.release());
        assert_eq!(space.below_mark().unwrap(), None);
        space.pretend(|_| Ok(99));
        assert_eq!(space.below_mark().unwrap(), Some(99));
    }
}
