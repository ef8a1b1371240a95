use rstest::rstest;

use super::*;
use crate::{Explored, search};

const ONE_ACTION: Bounds = Bounds { replicas: 2, scales: 1, failures: 0, deletions: 0, faults: 0, crashes: 0 };

fn explore(bounds: Bounds) -> Explored {
    search::explore(&bounds, &SetModel::new(bounds), 30_000_000)
}

/// Shows MS-R20.
#[rstest]
#[case::scaled_twice(Bounds { scales: 2, ..ONE_ACTION })]
#[case::scaled_twice_with_a_fault(Bounds { scales: 2, faults: 1, ..ONE_ACTION })]
#[case::with_three_faults(Bounds { faults: 3, ..ONE_ACTION })]
#[case::a_machine_fails_and_a_request_does(Bounds { failures: 1, faults: 1, ..ONE_ACTION })]
#[case::somebody_deletes_a_machine(Bounds { deletions: 1, ..ONE_ACTION })]
#[case::a_process_ends_twice_and_a_request_is_lost(Bounds { crashes: 2, faults: 1, ..ONE_ACTION })]
#[case::three_machines_and_a_fault(Bounds { replicas: 3, faults: 1, ..ONE_ACTION })]
fn a_set_is_right_in_every_order_of_events(#[case] bounds: Bounds) {
    assert!(explore(bounds).states > 1_000, "it can fail only where there is something to visit");
}

/// Minutes in a release build: `cargo test --release -p sim -- --ignored --nocapture`.
#[rstest]
#[case::two_of_everything(Bounds { replicas: 2, scales: 2, failures: 1, deletions: 1, faults: 1, crashes: 1 })]
#[case::two_faults(Bounds { scales: 2, faults: 2, failures: 1, ..ONE_ACTION })]
#[case::three_machines(Bounds { replicas: 3, scales: 2, faults: 1, ..ONE_ACTION })]
#[case::three_machines_that_fail(Bounds { replicas: 3, failures: 1, faults: 1, crashes: 1, ..ONE_ACTION })]
#[ignore = "takes minutes, and gigabytes of memory"]
fn a_set_is_right_in_every_order_of_more_events(#[case] bounds: Bounds) {
    explore(bounds);
}

/// Without what the lease is for, the search finds what it is for.
/// Shows MS-R15.
#[test]
fn a_successor_that_does_not_wait_for_the_lease_makes_a_machine_too_many() {
    let bounds = Bounds { replicas: 1, crashes: 1, ..ONE_ACTION };
    let violation = search::search(&SetModel { lease: false, ..SetModel::new(bounds) }, 1_000_000).unwrap_err();
    assert!(violation.wrong.starts_with("2 machines, and nobody wanted more than 1"), "{violation}");
}
