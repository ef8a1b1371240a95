//! Machines as pods: Gardener's provider-local, for local setups and tests.
//!
//! A machine is a privileged pod with an image in which systemd runs the user data. Its name says all: a pod `machine-<name>`, with a Secret and a
//! Service that belong to it, so that creating twice changes nothing and deleting the pod takes the rest along. There have been two
//! generations of these objects; what either of them made is found and deleted ([`names`]).

mod failure;
mod names;
mod objects;
mod provider;
mod spec;

pub use provider::{Clusters, LocalDriver};
pub use spec::PROVIDER;
