//! The `portcullis` program.

use std::ffi::OsStr;
use std::ffi::c_void;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use rustix::mm::Advice;

// Exchanges allocate many short-lived buffers on several threads; the system's allocator keeps what a
// burst of streams took, and what compiling patterns took: libraries in C allocate here, too. Without huge
// pages: a connection's buffers are large and hardly used, and a huge page keeps all of them resident.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[allow(unsafe_code)]
// SAFETY: `mimalloc.h` declares `void mi_collect(bool force)`. It leaves alone what is in use, and any thread may
// call it at any time.
unsafe extern "C" {
    /// Gives back to the system what is free; by itself the allocator keeps most of it while nothing is allocated.
    safe fn mi_collect(force: bool);
}

fn main() -> ExitCode {
    portcullis::app::gives_memory_back(|| {
        mi_collect(true);
        forget_code();
    });
    portcullis::cli::main()
}

/// What the files of the scanner's library are called, with which the program is linked.
const SCANNER_LIBRARY: &str = "libhs.";

/// Lets go of the pages of the program's files that a start has read: packs, the compiler of patterns, tables. What is
/// needed again is mapped again from the page cache.
fn forget_code() {
    let Ok(program) = std::env::current_exe() else { return };
    let Ok(maps) = std::fs::read_to_string("/proc/self/smaps") else { return };
    let is_of_scanner = |file: &OsStr| file.as_bytes().starts_with(SCANNER_LIBRARY.as_bytes());
    let is_ours = |file: &Path| file == program || file.file_name().is_some_and(is_of_scanner);
    for range in unwritten(&maps, is_ours) {
        let start = std::ptr::without_provenance_mut::<c_void>(range.start);
        #[allow(unsafe_code)]
        // SAFETY: the range is one private mapping of a file of the running program, which is never unloaded.
        // It cannot be written to and has no page that is not the file's, so each page comes back with the same bytes.
        let _ = unsafe { rustix::mm::madvise(start, range.len(), Advice::LinuxDontNeed) };
    }
}

/// Returns the private mappings of some files that cannot be written to and never were, from the text of
/// `/proc/PID/smaps` (`proc_pid_smaps(5)`).
fn unwritten(maps: &str, is_wanted: impl Fn(&Path) -> bool) -> impl Iterator<Item = Range<usize>> {
    let mut of_file = None;
    maps.lines().filter_map(move |line| {
        if let Some(range) = line.split_once(' ').and_then(|(range, _)| addresses(range)) {
            let mut fields = line.split_ascii_whitespace().skip(1);
            let is_private = fields.next().is_some_and(|may| matches!(may, "r-xp" | "r--p"));
            of_file =
                Some(range).filter(|_| is_private && fields.nth(3).map(Path::new).is_some_and(&is_wanted));
        }
        let written = line.strip_prefix("Anonymous:")?;
        of_file.take().filter(|_| written.trim() == "0 kB")
    })
}

/// Reads `START-END`, in hexadecimal digits.
fn addresses(range: &str) -> Option<Range<usize>> {
    let (start, end) = range.split_once('-')?;
    let address = |digits| usize::from_str_radix(digits, 16).ok();
    Some(address(start)?..address(end)?)
}
