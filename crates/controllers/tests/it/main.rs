//! Tests of all controllers with an in-memory API server, a virtual cloud and a simulated clock.
//!
//! Client, caches, queues, planners, driver calls and watches are real; only time and the cloud are simulated. A simulated hour takes
//! milliseconds, and a run with the same seed is identical.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test whose setup fails must fail"
)]

mod captured_log;
mod classes;
mod components;
mod costs;
mod deployments;
mod drains;
mod driver_calls;
mod faults;
mod health;
mod hostile_driver;
mod in_use_protection;
mod limiter;
mod logging;
mod metrics;
mod no_target_cluster;
mod node;
mod node_lookup;
mod orphans;
mod outages;
mod replicas;
mod rollout_costs;
mod secrets;
mod sets;
mod test_cluster;
mod tokens;
mod unmanaged_nodes;
mod watchdog;
