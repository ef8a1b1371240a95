//! Machines as pods: Gardener's provider-local, for local setups and tests.
//!
//! A machine is a privileged pod with an image in which systemd runs the user data. All names follow from its name: a
//! pod `machine-<name>`, and a Secret and a Service that it owns, so that a repeated creation changes nothing and the
//! deletion of the pod also deletes the rest. There have been two generations of these objects; both are found and
//! deleted ([`names`]).

mod failure;
mod names;
mod objects;
mod provider;
mod spec;

pub use provider::{Clusters, LocalDriver};
pub use spec::PROVIDER;
