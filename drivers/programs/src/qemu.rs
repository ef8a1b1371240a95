//! Millwright with the driver of virtual machines on the host it runs on: all commands and flags, and machines of qemu.
//!
//!     millwright-driver-qemu run --target-kubeconfig FILE

use std::process::ExitCode;

use lab_qemu::{Boot, PROVIDER, QemuDriver, Settings};
use millwright::About;

/// The system's allocator keeps what a burst of lists once needed; mimalloc gives it back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let about = About { name: PROVIDER.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    #[allow(clippy::disallowed_methods, reason = "a binary is where the environment is read")]
    let path = std::env::var_os("PATH").unwrap_or_default();
    millwright::run(QemuDriver::new(Settings { path, boot: Boot::AtOnce }), about)
}
