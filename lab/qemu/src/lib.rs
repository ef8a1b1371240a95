//! Machines on one Linux host as virtual machines of qemu.
//!
//! A machine is a directory with an overlay of a disk image and a seed with its user data, and a process of qemu. Its process is known by the id that
//! stands on its command line, which follows from the machine's name; so a driver that is killed at any moment is followed by one that finds what it
//! started, whether or not that was written down. What is left to do is decided from that alone ([`steps`]); what carries it out is thin ([`vm`]).

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
