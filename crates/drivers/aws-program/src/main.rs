//! Millwright with the driver of EC2 in it: all commands and flags, and machines in AWS.
//!
//!     millwright-driver-aws machine-controller --target-kubeconfig FILE

use std::process::ExitCode;
use std::sync::Arc;

use aws_driver::{AwsDriver, PROVIDER, Settings};
use cloud::http::Client;
use millwright::{About, Host};

/// The system's allocator keeps what a burst of lists once needed; mimalloc gives it back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let about = About { name: PROVIDER.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    #[allow(clippy::disallowed_methods, reason = "a binary is where the environment is read")]
    let settings = Settings::from_environment(|name| std::env::var(name).ok());
    millwright::run_with(about, move |Host { clock, random, .. }| {
        let client = Client::new().unwrap_or_else(|error| {
            // Every call tells it again, as an error of TLS; a process that ends would only be started anew.
            tracing::error!(%error, "failed to read the system's certificate authorities; name a bundle in SSL_CERT_FILE");
            Client::trusting_nobody()
        });
        let (clock, chance) = (Arc::new(move || clock.now()), Arc::new(move || random.fraction()));
        Arc::new(AwsDriver::new(Arc::new(client), settings, clock, chance))
    })
}
