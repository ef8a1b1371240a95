//! Environment of machines with real kubelets on one Linux host, for `millwright up` and for suites.
//!
//! - [`node_image`] makes the root image that machines boot from, [`boot`] that and the kubelet.
//! - [`namespaces`] is the outer half: network, mount and process namespaces in which a control plane and its machines live, and with which all of
//!   them end.
//! - [`network`] says which addresses there are in them.
//! - [`join`] is what a kubelet needs to become a node: rights, and user data.

pub mod boot;
pub mod join;
pub mod namespaces;
pub mod network;
pub mod node_image;
