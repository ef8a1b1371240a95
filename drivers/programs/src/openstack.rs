//! The OpenStack driver as a separate process behind the driver protocol. With a command of Millwright, the controllers
//! run with the driver built in.
//!
//!     millwright-driver-openstack --listen=unix:/run/driver/driver.sock
//!     millwright-driver-openstack machine-controller --target-kubeconfig FILE

use std::process::ExitCode;

use millwright::About;

/// mimalloc returns memory after a burst of lists; the system allocator keeps it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let about = About { name: "OpenStack".to_owned(), version: millwright::VERSION.to_owned() };
    let command = std::env::args().nth(1).is_some_and(|word| !word.starts_with('-'));
    if command {
        millwright::run_with(about, millwright::openstack::driver)
    } else {
        millwright::serve_driver(about, millwright::openstack::driver)
    }
}
