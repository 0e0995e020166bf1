//! The `portcullis` program.

use std::process::ExitCode;

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
    portcullis::app::gives_memory_back(|| mi_collect(true));
    portcullis::cli::main()
}
