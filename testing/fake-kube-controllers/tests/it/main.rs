//! The simulated kube-controllers at work: an API server in memory, a virtual cloud with its kubelets, and what becomes of pods between them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "everything here is test code, also the functions that are not tests themselves"
)]

mod evictions;
mod lost_nodes;
mod placement;
mod simulated_cluster;
mod volumes;
