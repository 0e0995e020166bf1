//! The `portcullis` program.

use std::process::ExitCode;

// Exchanges allocate many short-lived buffers on several threads; the system's allocator keeps what a
// burst of streams took.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    portcullis::cli::main()
}
