//! The driver of OpenStack, made from what a process has: its clock and its randomness.

use std::sync::Arc;

use driver::Driver;
use driver_common::http::{Client, Transport};
use driver_openstack::OpenStackDriver;

use crate::Host;

/// The driver of OpenStack for a process like this one. Where the cloud is and who asks it is in the Secrets of classes.
pub fn driver(host: Host) -> Arc<dyn Driver> {
    let Host { clock, random, .. } = host;
    let (clock, chance) = (Arc::new(move || clock.now()), Arc::new(move || random.fraction()));
    let transports = Arc::new(|tls: &_| Ok(Arc::new(Client::of(tls)?) as Arc<dyn Transport>));
    Arc::new(OpenStackDriver::new(transports, clock, chance))
}
