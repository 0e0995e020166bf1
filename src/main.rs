//! The `portcullis` program.

use std::process::ExitCode;

// Exchanges allocate many short-lived buffers on several threads; the system's allocator keeps what a
// burst of streams took, and what compiling patterns took: libraries in C allocate here, too. Without huge
// pages: a connection's buffers are large and hardly used, and a huge page keeps all of them resident.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    portcullis::cli::main()
}
