//! Disk faults on order, for the tests of this folder.

use std::io;

use parking_lot::Mutex;

/// Says of each disk operation, in order, whether it fails; past the list all work.
#[derive(Default)]
pub(super) struct Faults(Mutex<Vec<Option<i32>>>);

impl Faults {
    /// Sets what happens to the next operations: an error number, or none.
    pub(super) fn plan(&self, mut outcomes: Vec<Option<i32>>) {
        outcomes.reverse();
        *self.0.lock() = outcomes;
    }

    pub(super) fn strike(&self) -> io::Result<()> {
        match self.0.lock().pop() {
            Some(Some(number)) => Err(io::Error::from_raw_os_error(number)),
            Some(None) | None => Ok(()),
        }
    }
}
