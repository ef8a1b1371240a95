use rstest::rstest;

use super::*;
use crate::{Explored, search};

const ONE_ROLL: Bounds = Bounds {
    replicas: 2,
    surge: 1,
    unavailable: 0,
    classes: 1,
    scales: 0,
    failures: 0,
    crashes: 0,
    lag: CacheLag::CacheAndCounts,
};

fn explore(bounds: Bounds) -> Explored {
    search::explore(&bounds, &RolloutModel::new(bounds).unwrap(), 10_000_000)
}

/// Shows MD-S12.5.
#[rstest]
#[case::one_more_at_a_time(ONE_ROLL)]
#[case::one_less_at_a_time(Bounds { surge: 0, unavailable: 1, ..ONE_ROLL })]
#[case::with_a_crash(Bounds { crashes: 1, ..ONE_ROLL })]
#[case::changed_during_the_rollout(Bounds { replicas: 1, classes: 2, ..ONE_ROLL })]
#[case::three_machines(Bounds { replicas: 3, ..ONE_ROLL })]
#[case::four_machines(Bounds { replicas: 4, ..ONE_ROLL })]
#[case::four_machines_one_less_at_a_time(Bounds { replicas: 4, surge: 0, unavailable: 1, ..ONE_ROLL })]
fn rollout_is_correct_in_every_order_of_events(#[case] bounds: Bounds) {
    assert!(explore(bounds).states > 100, "the search must visit enough states");
}

/// Takes minutes in a release build: `cargo test --release -p sim -- --ignored --nocapture`.
#[rstest]
#[case::a_machine_fails(Bounds { replicas: 1, failures: 1, ..ONE_ROLL })]
#[case::two_machines_one_fails(Bounds { failures: 1, ..ONE_ROLL })]
#[case::two_machines_and_three_classes(Bounds { classes: 2, crashes: 1, ..ONE_ROLL })]
#[case::scaled_during_the_rollout(Bounds { replicas: 1, scales: 1, crashes: 1, ..ONE_ROLL })]
#[case::three_machines(Bounds { replicas: 3, unavailable: 1, crashes: 1, ..ONE_ROLL })]
#[case::three_machines_one_fails(Bounds { replicas: 3, failures: 1, ..ONE_ROLL })]
#[case::four_machines(Bounds { replicas: 4, unavailable: 1, crashes: 1, ..ONE_ROLL })]
#[case::four_machines_and_three_classes(Bounds { replicas: 4, classes: 2, ..ONE_ROLL })]
#[case::four_machines_one_fails(Bounds { replicas: 4, failures: 1, ..ONE_ROLL })]
#[case::four_machines_scaled(Bounds { replicas: 4, scales: 1, lag: CacheLag::Counts, ..ONE_ROLL })]
#[case::four_machines_scaled_and_a_crash(Bounds { replicas: 4, scales: 1, crashes: 1, lag: CacheLag::None, ..ONE_ROLL })]
#[ignore = "takes minutes and gigabytes of memory"]
fn rollout_is_correct_in_every_order_of_more_events(#[case] bounds: Bounds) {
    explore(bounds);
}
