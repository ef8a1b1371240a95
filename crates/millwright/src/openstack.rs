//! Creates the OpenStack driver from the clock and the randomness of the process.

use std::sync::Arc;

use driver::Driver;
use driver_common::http::{Client, Transport};
use driver_openstack::OpenStackDriver;

use crate::Host;

/// Creates the OpenStack driver. Endpoint and credentials of the cloud are in the Secrets of MachineClasses.
pub fn driver(host: Host) -> Arc<dyn Driver> {
    let Host { clock, random, .. } = host;
    let (clock, chance) = (Arc::new(move || clock.now()), Arc::new(move || random.fraction()));
    let transports = Arc::new(|tls: &_| Ok(Arc::new(Client::of(tls)?) as Arc<dyn Transport>));
    Arc::new(OpenStackDriver::new(transports, clock, chance))
}
