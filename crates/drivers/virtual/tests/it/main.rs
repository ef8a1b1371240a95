//! The virtual cloud, seen from outside.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may die of what it did not expect, and clippy does not see that its words are part of it"
)]

mod bench;
mod faults;
mod fixture;
mod lag;
mod lives;
mod nodes;
mod provider;

use bench::Environment;
use driver::conformance;
use driver::{Capabilities, Support};
use virtual_cloud::Config;

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

#[tokio::test(start_paused = true)]
async fn a_cloud_without_optional_calls_keeps_the_contract_too() {
    let config = Config { capabilities: Capabilities::MINIMAL, ..Config::default() };
    let report = conformance::run(|| Environment::new(config.clone())).await;
    assert!(report.passed(), "{report}");
}
