//! A cloud with a clock: virtual machines that boot, join, hang and die on demand.
//!
//! It is the first driver, and the only one that needs no credentials: tests, benchmarks, the simulation and the demo run on
//! it. [`VirtualCloud`] is the cloud and its [`driver::Driver`] in one; it has quotas, it can lag, lose answers and stall
//! ([`Script`]), and whoever holds it sees every VM and every call. [`VirtualCloud::run_nodes`] plays the kubelets: nodes
//! register, renew their leases, run pods and fall silent.
//!
//! All waiting is on tokio's clock and all chance comes from a seed, so under a paused clock a day passes in milliseconds and
//! the same seed takes the same course.

pub mod node_life;

mod calls;
mod cloud;
mod faults;
mod journal;
mod kept;
mod ledger;
mod observer;
mod provider;
mod spec;
mod vm;

pub use calls::{CallEnd, CallRecord};
pub use cloud::{Config, Now, VirtualCloud};
pub use faults::{Fault, Script};
pub use kept::KeptVm;
pub use ledger::{Doubles, Quotas};
pub use node_life::{Monitor, NodeLife};
pub use observer::{Observer, VmEvent};
pub use provider::CSI_DRIVER;
pub use spec::{Join, NodeNaming, PROVIDER, Spec, SpecError, Taint};
pub use vm::{State, Vm, VmId};
