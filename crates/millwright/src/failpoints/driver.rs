//! Failpoints in driver calls that have an effect or decide about one.

use std::sync::Arc;

use api::view::PersistentVolumeSpec;
use async_trait::async_trait;
use driver::{Call, Capabilities, ClassRequest, Created, Deleted, Driver, DriverError, Found, MachineRequest, Owners};

use super::Failpoints;

/// A driver with failpoints in its calls.
struct Guarded {
    driver: Arc<dyn Driver>,
    failpoints: Failpoints,
}

impl Failpoints {
    /// Returns a driver with failpoints in its calls.
    pub(crate) fn guard_driver(&self, driver: Arc<dyn Driver>) -> Arc<dyn Driver> {
        Arc::new(Guarded { driver, failpoints: self.clone() })
    }
}

#[async_trait]
impl Driver for Guarded {
    fn capabilities(&self) -> Capabilities {
        self.driver.capabilities()
    }

    async fn create(&self, call: &Call, request: &MachineRequest) -> Result<Created, DriverError> {
        self.failpoints.around("driver: create", self.driver.create(call, request), |_| true).await
    }

    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError> {
        self.failpoints.around("driver: delete", self.driver.delete(call, request), |_| true).await
    }

    async fn initialize(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        self.failpoints.around("driver: initialize", self.driver.initialize(call, request), |_| true).await
    }

    async fn status(&self, call: &Call, request: &MachineRequest) -> Result<Found, DriverError> {
        self.failpoints.around("driver: status", self.driver.status(call, request), |_| true).await
    }

    async fn list(&self, call: &Call, request: &ClassRequest) -> Result<Owners, DriverError> {
        self.driver.list(call, request).await
    }

    async fn volume_ids(&self, call: &Call, volumes: &[PersistentVolumeSpec]) -> Result<Vec<String>, DriverError> {
        self.driver.volume_ids(call, volumes).await
    }
}
