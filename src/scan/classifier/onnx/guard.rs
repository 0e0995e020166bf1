//! A border against what other libraries do with files that they do not expect.

use std::fmt;
use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

/// What another library could not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed(pub String);

impl Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Lets another library work; a panic is a failure like others. What it worked on is not used again then.
///
/// # Errors
/// It fails.
pub fn guarded<T, E: Display>(work: impl FnOnce() -> Result<T, E>) -> Result<T, Failed> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(done)) => Ok(done),
        // The alternate form tells the causes, too.
        Ok(Err(error)) => Err(Failed(format!("{error:#}"))),
        Err(_) => Err(Failed("it ended early".to_owned())),
    }
}
