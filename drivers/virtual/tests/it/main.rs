//! Tests of the virtual cloud through its public API.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests panic on unexpected errors, and clippy does not recognize the helpers as test code"
)]

mod bench;
mod faults;
mod fixture;
mod lag;
mod lives;
mod nodes;
mod provider;

use bench::{Environment, SECOND};
use driver::conformance::{self, Timing};
use driver::{Capabilities, Support};
use driver_virtual::Config;

/// Shows DRV-2, VIR-1.
#[tokio::test(start_paused = true)]
async fn the_driver_keeps_the_contract() {
    for initialize in [Support::Offered, Support::NotOffered] {
        let capabilities = Capabilities { initialize, ..Capabilities::ALL };
        let report = conformance::run(|| Environment::new(Config { capabilities, ..Config::default() })).await;
        assert!(report.passed(), "{report}");
        let moot = usize::from(initialize == Support::NotOffered);
        assert_eq!(report.skipped().len(), moot, "{report}");
    }
}

/// Shows VIR-1.
#[tokio::test(start_paused = true)]
async fn a_cloud_without_optional_calls_keeps_the_contract_too() {
    let config = Config { capabilities: Capabilities::MINIMAL, ..Config::default() };
    let report = conformance::run(|| Environment::new(config.clone())).await;
    assert!(report.passed(), "{report}");
}

/// Shows DRV-8.
#[tokio::test(start_paused = true)]
async fn a_cloud_that_shows_late_what_it_did_keeps_the_contract() {
    let config =
        Config { capabilities: Capabilities::ALL, status_lag: 5 * SECOND, list_lag: 20 * SECOND, ..Config::default() };
    let at_once = conformance::run(|| Environment::new(config.clone())).await;
    assert!(!at_once.passed(), "changes are visible with a delay:\n{at_once}");
    let timing = Timing { shows_within: 30 * SECOND, ..Timing::IMMEDIATE };
    let report = conformance::run(|| Environment { timing, ..Environment::new(config.clone()) }).await;
    assert!(report.passed(), "{report}");
    assert_eq!(report.skipped(), [], "{report}");
}
