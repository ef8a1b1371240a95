//! End-to-end scenarios of the behaviour that Millwright guarantees.
//!
//! A scenario uses only the API server, as a user would. So the same scenario runs on two servers. On the API server
//! in memory, a test clock makes an hour pass in milliseconds. On a real control plane, the scenario has to be short.
//! Only the [`Pace`] differs between the two; the expectations are the same.
//!
//! `cargo test` runs every scenario in memory; `cargo xtask e2e machines`, `e2e fleet` and `e2e drain` run them on
//! the real control plane.

mod drain;
mod environment;
mod fixture;
mod fleet;
mod machine_failures;
mod machines;
mod pace;
mod restore;
mod result;
mod scale;
mod storm;
mod takeover;
mod workload;

pub use drain::DRAIN_SCENARIOS;
pub use environment::Environment;
pub use fixture::{Fixture, Process};
pub use fleet::FLEET_SCENARIOS;
pub use machines::SCENARIOS;
pub use pace::Pace;
pub use restore::restore;
pub use result::{Failure, Report, ScenarioResult, run};
pub use scale::SCALE_SCENARIOS;
pub use storm::STORM_SCENARIOS;
pub use takeover::TAKEOVER_SCENARIOS;

use futures::future::BoxFuture;

/// A scenario.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Name: the guaranteed behaviour.
    pub name: &'static str,
    /// Runs the scenario.
    pub run: for<'a> fn(&'a Fixture) -> BoxFuture<'a, Result<(), Failure>>,
}
