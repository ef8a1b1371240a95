//! The driver of EC2, made from what a process has: its clock, its randomness, its environment.

use std::sync::Arc;

use driver::Driver;
use driver_aws::{AwsDriver, Settings};
use driver_common::http::Client;

use crate::Host;

/// The driver of EC2 for a process like this one: endpoints and credentials of the process come from its environment.
pub fn driver(host: Host) -> Arc<dyn Driver> {
    let Host { clock, random, .. } = host;
    let client = Client::new().unwrap_or_else(|error| {
        // Every call tells it again, as an error of TLS; a process that ends would only be started anew.
        tracing::error!(%error, "failed to read the system's certificate authorities; name a bundle in SSL_CERT_FILE");
        Client::trusting_nobody()
    });
    #[allow(clippy::disallowed_methods, reason = "a program is where the environment is read")]
    let settings = Settings::from_environment(|name| std::env::var(name).ok());
    let (clock, chance) = (Arc::new(move || clock.now()), Arc::new(move || random.fraction()));
    Arc::new(AwsDriver::new(Arc::new(client), settings, clock, chance))
}
