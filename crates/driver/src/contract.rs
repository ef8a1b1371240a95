//! The six calls.

use api::Code;
use api::view::PersistentVolumeSpec;
use async_trait::async_trait;
use tokio::sync::watch;

use crate::{Call, Capabilities, ClassRequest, Created, Deleted, DriverError, Found, MachineRequest, Owners};

/// A cloud, as Millwright sees it.
///
/// Every call may run beside any other, may be repeated, and ends by itself when its [`Call`] does. An implementation keeps
/// nothing it cannot lose: the process may be killed between a call and the record of its answer, and the next process asks
/// again. [`conformance`](crate::conformance) turns what is promised here into tests.
#[async_trait]
pub trait Driver: Send + Sync + 'static {
    /// Which of the optional calls there are. The answer never changes.
    fn capabilities(&self) -> Capabilities;

    /// Changes whenever another driver answers than before, of another version for example: what failed may succeed now. `None` for
    /// one that stays the same for as long as the process lives.
    fn changes(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Makes the VM of a machine, or finds the one that was made before: never two for one machine, also when called twice at
    /// once or after a crash. A VM of that name with other properties is `AlreadyExists`, a full quota or an empty zone is
    /// `ResourceExhausted`. An error may carry a last known state.
    async fn create(&self, call: &Call, request: &MachineRequest) -> Result<Created, DriverError>;

    /// Removes the VM and everything that hangs on it, and answers when it is gone. No VM is success. Works from a stub, and
    /// touches nothing of another cluster.
    async fn delete(&self, call: &Call, request: &MachineRequest) -> Result<Deleted, DriverError>;

    /// Does what is left to do once a VM exists; may be repeated. Until it has succeeded, status is `Uninitialized`.
    async fn initialize(&self, _call: &Call, _request: &MachineRequest) -> Result<Found, DriverError> {
        Err(not_offered("initialize"))
    }

    /// Finds the VM of a machine, by provider id where there is one and by name. None is `NotFound`, several are `OutOfRange`,
    /// one that still has to be initialised is `Uninitialized` with [what was found](DriverError::found).
    async fn status(&self, _call: &Call, _request: &MachineRequest) -> Result<Found, DriverError> {
        Err(not_offered("status"))
    }

    /// All VMs of the cluster that the class points to, with the names of their machines. A VM that is listed and has no
    /// machine will be deleted, so what is not certainly ours must not be in it.
    async fn list(&self, _call: &Call, _request: &ClassRequest) -> Result<Owners, DriverError> {
        Err(not_offered("list"))
    }

    /// The cloud's ids of these volumes; foreign ones are left out. No call to the cloud.
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
    async fn what_a_driver_leaves_out_answers_unimplemented() {
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
