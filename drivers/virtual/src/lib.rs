//! A simulated cloud: virtual machines that boot, join, hang and fail on demand.
//!
//! It needs no credentials: tests, benchmarks, the simulation and the demo use it. [`VirtualCloud`] is the cloud and
//! its [`driver::Driver`]. It has quotas, it can lag, lose responses and stall ([`Script`]), and it exposes every VM
//! and every call. [`VirtualCloud::run_nodes`] simulates the kubelets: nodes register, renew their leases, run pods and
//! become silent.
//!
//! All waiting uses tokio's clock and all randomness comes from a seed. Under a paused clock a day passes in
//! milliseconds, and the same seed has the same result.

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
