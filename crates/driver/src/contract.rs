//! The driver interface.

use api::Code;
use api::view::PersistentVolumeSpec;
use async_trait::async_trait;
use tokio::sync::watch;

use crate::{Call, Capabilities, ClassRequest, Created, Deleted, DriverError, Found, MachineRequest, Owners};

/// Interface of a cloud.
///
/// Calls may run concurrently and may be repeated, and each ends when its [`Call`] ends. An implementation must not depend on
/// state in memory: the process may be killed before the result of a call is recorded, and the next process repeats the call.
/// [`conformance`](crate::conformance) tests these requirements.
#[async_trait]
pub trait Driver: Send + Sync + 'static {
    /// Returns the optional calls that the driver offers. The result never changes.
    fn capabilities(&self) -> Capabilities;

    /// Returns a value that changes when the driver behind the interface is replaced, for example by another version, so that
    /// failed calls can be retried. `None` if that cannot happen within the lifetime of the process.
    fn changes(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Creates the VM of a Machine, or finds the one that was created before. It must not create two VMs for one Machine, also if
    /// called concurrently or after a crash. If a VM with that name and other properties exists, it returns `AlreadyExists`; if a
    /// quota or the capacity of a zone is exhausted, `ResourceExhausted`. An error may contain a last known state.
    async fn create(&self, call: &Call, request: &MachineRequest) -> Result<Created, DriverError>;

    /// Deletes the VM and its resources, and returns when they are deleted. Succeeds if there is no VM. Must accept a stub, and must
    /// not delete resources of other clusters.
    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError>;

    /// Initializes an existing VM; may be repeated. Until it has succeeded, `status` returns `Uninitialized`.
    async fn initialize(&self, _call: &Call, _request: &MachineRequest) -> Result<Found, DriverError> {
        Err(not_offered("initialize"))
    }

    /// Finds the VM of a Machine, by provider ID if known and by name. Returns `NotFound` if there is none, `OutOfRange` if there
    /// are several, and `Uninitialized` with [the VM](DriverError::found) if it is not initialized.
    async fn status(&self, _call: &Call, _request: &MachineRequest) -> Result<Found, DriverError> {
        Err(not_offered("status"))
    }

    /// Lists the VMs of the cluster of the MachineClass, with the names of their Machines. A listed VM without a Machine is
    /// deleted, so the list must contain only VMs that certainly belong to the cluster.
    async fn list(&self, _call: &Call, _request: &ClassRequest) -> Result<Owners, DriverError> {
        Err(not_offered("list"))
    }

    /// Returns the IDs of these volumes in the cloud, without volumes of other drivers. Sends no request to the cloud.
    async fn volume_ids(&self, _call: &Call, _volumes: &[PersistentVolumeSpec]) -> Result<Vec<String>, DriverError> {
        Err(not_offered("volume_ids"))
    }
}

fn not_offered(method: &str) -> DriverError {
    DriverError::new(Code::Unimplemented, format!("this driver does not offer {method}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    struct Bare;

    #[async_trait]
    impl Driver for Bare {
        fn capabilities(&self) -> Capabilities {
            Capabilities::MINIMAL
        }
        async fn create(&self, _call: &Call, _request: &MachineRequest) -> Result<Created, DriverError> {
            Err(DriverError::new(Code::Internal, ""))
        }
        async fn delete(&self, _call: &Call, _request: &MachineRequest) -> Result<Deleted, DriverError> {
            Ok(Deleted::default())
        }
    }

    /// Shows DRV-3.
    #[tokio::test(start_paused = true)]
    async fn calls_that_are_not_offered_return_unimplemented() {
        let (call, driver) = (Call::default(), Bare);
        let class = ClassRequest { class: Arc::default(), secret: Arc::default() };
        let request =
            MachineRequest { machine: Arc::default(), class: class.class.clone(), secret: class.secret.clone() };
        let codes = [
            driver.initialize(&call, &request).await.map(drop).unwrap_err().code(),
            driver.status(&call, &request).await.map(drop).unwrap_err().code(),
            driver.list(&call, &class).await.map(drop).unwrap_err().code(),
            driver.volume_ids(&call, &[]).await.map(drop).unwrap_err().code(),
        ];
        assert_eq!(codes, [Code::Unimplemented; 4]);
    }
}
