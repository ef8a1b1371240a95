//! Creates the EC2 driver from the clock, the randomness and the environment of the process.

use std::sync::Arc;

use driver::Driver;
use driver_aws::{AwsDriver, Settings};
use driver_common::http::Client;

use crate::Host;

/// Creates the EC2 driver. Endpoints and credentials of the process come from its environment.
pub fn driver(host: Host) -> Arc<dyn Driver> {
    let Host { clock, random, .. } = host;
    let client = Client::new().unwrap_or_else(|error| {
        // Every call reports the problem as a TLS error. Exiting would only cause a restart.
        tracing::error!(%error, "failed to read the system's CA certificates; set SSL_CERT_FILE to a bundle");
        Client::without_ca_certificates()
    });
    #[allow(clippy::disallowed_methods, reason = "a program is where the environment is read")]
    let settings = Settings::from_environment(|name| std::env::var(name).ok());
    let (clock, chance) = (Arc::new(move || clock.now()), Arc::new(move || random.fraction()));
    Arc::new(AwsDriver::new(Arc::new(client), settings, clock, chance))
}
