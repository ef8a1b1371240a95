//! The driver interface between Millwright and a cloud.
//!
//! A driver creates, deletes, finds and lists VMs with the API of one cloud. The controllers depend on these guarantees: two
//! creates for one Machine create one VM, deleting a VM that does not exist succeeds, a name and a provider ID are sufficient to
//! delete a VM, and an error has a [`Code`] that distinguishes an exhausted quota from a broken network. The [`conformance`]
//! cases test them for any driver.
//!
//! Requests own their data in [`std::sync::Arc`]s, so that a call can run in its own task. Each call has a [`Call`] with its
//! deadline and a cancellation token.

pub mod conformance;
pub mod text;

mod answer;
mod call;
mod capabilities;
mod contract;
mod error;
mod meter;
mod request;

pub use answer::{Created, Deleted, Found, Owners};
pub use api::Code;
pub use call::Call;
pub use capabilities::{Capabilities, Method, Support};
pub use contract::Driver;
pub use error::{DriverError, RetryClass, Undecodable};
pub use meter::{CloudPressure, CloudRequest, Meter, MeterBuffer, Reply};
pub use request::{ClassRequest, MachineRequest, check_provider};
