//! Machines on one Linux host, without a cloud and without a hypervisor.
//!
//! A machine is a set of namespaces (network, mount, PID, UTS, IPC, cgroup) on an overlay of a root image. Its init
//! runs the user data, which starts containerd and a kubelet. It is not a security boundary: root in a machine can
//! become root on the host.
//!
//! This process keeps no state. The state of a machine is in the kernel and in its directory. [`steps`] derives the
//! remaining steps from that state, so that after a kill at any moment the next process can complete or remove
//! everything. [`machine`] carries out the steps.

mod addresses;
mod cgroups;
mod identity;
mod link;
mod machine;
mod processes;
mod provider;
mod record;
mod reservation;
mod spec;
mod state;
mod steps;
mod tools;
mod volumes;

pub use lab_host_common::tools::Settings;
pub use provider::HostDriver;
pub use spec::PROVIDER;
