//! Environment of machines with real kubelets on one Linux host, for `millwright up` and for suites.
//!
//! - [`node_image`] creates the root image of machines, [`boot`] the image and the kubelet.
//! - [`namespaces`] is the outer half: network, mount and process namespaces in which a control plane and its machines live, and with which all of
//!   them end.
//! - [`network`] contains their addresses.
//! - [`join`] contains the permissions and user data of a kubelet that joins.

pub mod boot;
pub mod join;
pub mod namespaces;
pub mod network;
pub mod node_image;
