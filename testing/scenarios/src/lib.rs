//! What Millwright promises, as scenarios.
//!
//! A scenario looks at the world only through the API server, as a user would, so the same scenario runs on the API server in
//! memory, where a clock of our own makes an hour pass in milliseconds, and on a real control plane, where it has to be short. What
//! differs between the two is the [`Pace`]; what must hold does not.
//!
//! `cargo test` runs every scenario in memory; `cargo xtask e2e machines`, `e2e fleet` and `e2e drain` run them on the real control
//! plane.

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
pub use result::{Broken, Report, ScenarioResult, play};
pub use scale::SCALE_SCENARIOS;
pub use storm::STORM_SCENARIOS;
pub use takeover::TAKEOVER_SCENARIOS;

use futures::future::BoxFuture;

/// A scenario with a promise in its name.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// The promise, as a sentence in a function's name.
    pub name: &'static str,
    /// Plays it.
    pub play: for<'a> fn(&'a Fixture) -> BoxFuture<'a, Result<(), Broken>>,
}
