//! Test bench for a driver in another process.

use std::sync::Arc;

use api::MachineClass;
use api::view::SecretData;
use async_trait::async_trait;
use driver::Driver;
use driver::conformance::{Bench, Timing};
use driver_remote::RemoteDriver;

/// A driver whose cloud cannot be inspected. Cases that need a full quota, a VM of another owner or a cloud that hangs
/// are skipped.
pub(super) struct RemoteBench {
    pub(super) driver: RemoteDriver,
    pub(super) class: MachineClass,
    pub(super) secret: SecretData,
    pub(super) timing: Timing,
    pub(super) machine: String,
}

#[async_trait]
impl Bench for RemoteBench {
    fn driver(&self) -> Arc<dyn Driver> {
        Arc::new(self.driver.clone())
    }

    fn class(&self) -> MachineClass {
        self.class.clone()
    }

    fn secret(&self) -> SecretData {
        self.secret.clone()
    }

    fn timing(&self) -> Timing {
        self.timing
    }

    fn machine(&self) -> String {
        self.machine.clone()
    }
}
