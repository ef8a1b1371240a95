//! Millwright with the driver of the host it runs on: all commands and flags, and machines as namespaces.
//!
//!     millwright-driver-host run --target-kubeconfig FILE

use std::process::ExitCode;

use lab_host::{HostDriver, PROVIDER, Settings};
use millwright::About;

/// The system's allocator keeps what a burst of lists once needed; mimalloc gives it back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let about = About { name: PROVIDER.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    #[allow(clippy::disallowed_methods, reason = "a binary is where the environment is read")]
    let path = std::env::var_os("PATH").unwrap_or_default();
    millwright::run(HostDriver::new(Settings { path }), about)
}
