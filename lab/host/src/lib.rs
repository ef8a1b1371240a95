//! Machines on one Linux host, without a cloud and without a hypervisor.
//!
//! A machine is a set of namespaces (network, mounts, processes, host name, IPC, cgroup) on an overlay of a root image. Its init runs
//! the user data, which starts containerd and a kubelet. It is no security boundary: whoever is root in a machine can become root
//! on the host.
//!
//! Nothing is remembered in this process. What is known of a machine is what the kernel shows and what lies in its directory;
//! [`steps`] decides from that alone what is left to do, so a process that is killed between any two steps leaves nothing that the next
//! one could not finish or remove. What carries the steps out is thin ([`machine`]).

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
