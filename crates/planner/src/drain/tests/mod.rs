//! Scenarios and property tests of drains in a small simulated cluster.

mod attachments;
mod cluster;
mod evict;
mod force;
mod promises;
mod volumes;
