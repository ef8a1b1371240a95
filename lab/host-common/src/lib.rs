//! Shared code of the drivers for machines on one host.
//!
//! Processes keep no state. The state of a machine is in the kernel and in its directory: [`state`] describes the
//! directory and its lock, [`files`] writes files atomically, [`identity`] names machines, [`process`] finds the
//! process of a machine. [`budget`] checks the capacity, [`fields`] reads common fields of MachineClasses, [`tools`]
//! runs programs, and [`requests`] interprets driver calls.

pub mod budget;
pub mod error;
pub mod fields;
pub mod files;
pub mod identity;
pub mod process;
pub mod requests;
pub mod state;
pub mod tools;

pub use error::HostError;
pub use state::Scope;
