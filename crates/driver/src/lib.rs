//! The contract between Millwright and a cloud.
//!
//! A driver turns "make this machine", "remove it", "is it there?" into the calls of one cloud. Everything that keeps
//! machines safe rests on a few promises a driver gives here: that creating twice makes one VM, that deleting what is gone
//! succeeds, that a stub with a name and a provider id is enough to delete by, and that a failure carries a [`Code`] which
//! tells a full quota from a broken network. The [`conformance`] cases hold any driver to them.
//!
//! Requests own their data behind [`std::sync::Arc`]s, so that a call can live in a task of its own while the controller goes
//! on. Each call carries a [`Call`]: until when an answer is of use, and a token that ends it early.

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
pub use meter::{CloudPressure, CloudRequest, Kept, Meter, Reply};
pub use request::{ClassRequest, MachineRequest, served_by};
