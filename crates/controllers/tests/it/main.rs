//! The machine controller on an API server in memory and a virtual cloud, under a clock the test owns.
//!
//! Everything is real except time and the cloud: client, caches, queue, planner, driver contract, watches. A virtual hour costs
//! milliseconds, and the same seed takes the same course.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that cannot be set up must fail where it stands"
)]

mod absent;
mod classes;
mod components;
mod costs;
mod deployments;
mod drains;
mod driver_calls;
mod health;
mod hostile;
mod in_use_protection;
mod limiter;
mod metrics;
mod mishaps;
mod node;
mod orphans;
mod outages;
mod page;
mod replicas;
mod rollout_costs;
mod secrets;
mod sets;
mod targetless;
mod telling;
mod test_cluster;
mod tokens;
mod unmanaged_nodes;
mod watchdog;
