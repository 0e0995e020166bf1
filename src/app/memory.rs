//! Memory that compiling took and nobody needs afterwards: for the shipped packs some fifty megabytes, which an
//! allocator keeps for a next time that rarely comes.
//!
//! The allocator is the program's, not the library's (fuzz targets have another, which watches it), so the program says how
//! it gives memory back.

use std::sync::OnceLock;

static HOW: OnceLock<fn()> = OnceLock::new();

/// Says how this process gives back to the system what is free; only what is said first counts.
pub fn gives_memory_back(how: fn()) {
    HOW.get_or_init(|| how);
}

/// Gives back what is free, where somebody said how.
pub(super) fn give_back() {
    if let Some(how) = HOW.get() {
        how();
    }
}
