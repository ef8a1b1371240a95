//! Millwright with the qemu driver, whose machines are virtual machines on the host. It has all commands and flags.
//!
//!     millwright-driver-qemu run --target-kubeconfig FILE

use std::process::ExitCode;

use lab_qemu::{Boot, PROVIDER, QemuDriver, Settings};
use millwright::About;

/// mimalloc returns memory after a burst of lists; the system allocator keeps it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let about = About { name: PROVIDER.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    #[allow(clippy::disallowed_methods, reason = "main reads the environment")]
    let path = std::env::var_os("PATH").unwrap_or_default();
    millwright::run(QemuDriver::new(Settings { path, boot: Boot::Running }), about)
}
