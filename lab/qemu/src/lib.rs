//! Machines on one Linux host as virtual machines of qemu.
//!
//! A machine is a directory with an overlay of a disk image and a seed with its user data, and a process of qemu. The
//! process is found by the UUID on its command line, which follows from the machine's name, so that after a kill at any
//! moment the next driver finds it even without a record. [`steps`] derives the remaining steps from the observed
//! state; [`vm`] carries them out.

mod command_line;
mod provider;
mod qmp;
mod record;
mod reservation;
mod seed;
mod spec;
mod steps;
mod vm;

pub use provider::{Boot, QemuDriver, Settings};
pub use spec::PROVIDER;
