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
#[case::a_machine_and_a_request_fail(Bounds { failures: 1, faults: 1, ..ONE_ACTION })]
#[case::another_client_deletes_a_machine(Bounds { deletions: 1, ..ONE_ACTION })]
#[case::a_process_ends_twice_and_a_request_is_lost(Bounds { crashes: 2, faults: 1, ..ONE_ACTION })]
#[case::three_machines_and_a_fault(Bounds { replicas: 3, faults: 1, ..ONE_ACTION })]
fn set_is_correct_in_every_order_of_events(#[case] bounds: Bounds) {
    assert!(explore(bounds).states > 1_000, "the search must visit enough states");
}

/// Takes minutes in a release build: `cargo test --release -p sim -- --ignored --nocapture`.
#[rstest]
#[case::two_of_everything(Bounds { replicas: 2, scales: 2, failures: 1, deletions: 1, faults: 1, crashes: 1 })]
#[case::two_faults(Bounds { scales: 2, faults: 2, failures: 1, ..ONE_ACTION })]
#[case::three_machines(Bounds { replicas: 3, scales: 2, faults: 1, ..ONE_ACTION })]
#[case::three_machines_that_fail(Bounds { replicas: 3, failures: 1, faults: 1, crashes: 1, ..ONE_ACTION })]
#[ignore = "takes minutes and gigabytes of memory"]
fn set_is_correct_in_every_order_of_more_events(#[case] bounds: Bounds) {
    explore(bounds);
}

/// Without the lease, the search finds the violation that the lease prevents.
/// Shows MS-R15.
#[test]
fn successor_without_a_lease_creates_a_surplus_machine() {
    let bounds = Bounds { replicas: 1, crashes: 1, ..ONE_ACTION };
    let violation = search::search(&SetModel { lease: false, ..SetModel::new(bounds) }, 1_000_000).unwrap_err();
    assert!(violation.message.starts_with("2 machines, but at most 1 are allowed"), "{violation}");
}
