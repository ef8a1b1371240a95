//! The `millwright` binary. Its code is in the library, which other driver programs use too.

use std::process::ExitCode;

/// Unlike the system allocator, mimalloc returns the memory of large temporary lists.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    millwright::main()
}
