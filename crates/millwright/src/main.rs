//! The `millwright` binary. Everything is in the library, so that a driver can be a program of the same kind.

use std::process::ExitCode;

/// The system's allocator keeps what a burst of lists once needed; mimalloc gives it back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    millwright::main()
}
