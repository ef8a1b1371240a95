//! The takeover scenarios on the server in memory, with a test clock.

use scenarios::{Fixture, TAKEOVER_SCENARIOS};

use crate::fleet::holds_in_order;

#[test]
fn every_takeover_scenario_is_a_test_here() {
    let this_file = include_str!("takeover.rs");
    for scenario in TAKEOVER_SCENARIOS {
        assert!(this_file.contains(&format!("async fn {}()", scenario.name)), "{} is not run in memory", scenario.name);
    }
}

#[tokio::test(start_paused = true)]
async fn settled_objects_of_the_reference_are_not_written() {
    holds_in_order(TAKEOVER_SCENARIOS, "settled_objects_of_the_reference_are_not_written").await;
}

#[tokio::test(start_paused = true)]
async fn machines_that_were_starting_become_running() {
    holds_in_order(TAKEOVER_SCENARIOS, "machines_that_were_starting_become_running").await;
}

#[tokio::test(start_paused = true)]
async fn rollout_in_progress_is_resumed() {
    holds_in_order(TAKEOVER_SCENARIOS, "rollout_in_progress_is_resumed").await;
}

#[tokio::test(start_paused = true)]
async fn rollback_that_was_not_yet_observed_is_done() {
    holds_in_order(TAKEOVER_SCENARIOS, "rollback_that_was_not_yet_observed_is_done").await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_rollout_stays_paused() {
    holds_in_order(TAKEOVER_SCENARIOS, "a_paused_rollout_stays_paused").await;
}

#[tokio::test(start_paused = true)]
async fn machine_chosen_by_the_autoscaler_is_the_one_deleted() {
    holds_in_order(TAKEOVER_SCENARIOS, "machine_chosen_by_the_autoscaler_is_the_one_deleted").await;
}

#[tokio::test(start_paused = true)]
async fn lost_node_is_replaced_once() {
    holds_in_order(TAKEOVER_SCENARIOS, "lost_node_is_replaced_once").await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_had_just_begun_is_finished() {
    holds_in_order(TAKEOVER_SCENARIOS, "a_deletion_that_had_just_begun_is_finished").await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_before_its_drain_is_finished() {
    holds_in_order(TAKEOVER_SCENARIOS, "a_deletion_before_its_drain_is_finished").await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_after_its_drain_is_finished() {
    holds_in_order(TAKEOVER_SCENARIOS, "a_deletion_after_its_drain_is_finished").await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_whose_vm_is_gone_is_finished() {
    holds_in_order(TAKEOVER_SCENARIOS, "a_deletion_whose_vm_is_gone_is_finished").await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_whose_node_is_gone_is_finished() {
    holds_in_order(TAKEOVER_SCENARIOS, "a_deletion_whose_node_is_gone_is_finished").await;
}

#[tokio::test(start_paused = true)]
async fn in_place_update_continues_without_a_new_machine() {
    holds_in_order(TAKEOVER_SCENARIOS, "in_place_update_continues_without_a_new_machine").await;
}

/// A controller of `steady` once outlived its scenario on the real control plane and deleted the Node of the same name
/// in the next scenario.
#[tokio::test(start_paused = true)]
async fn cleared_fixture_has_no_running_controller() {
    let (_server, environment) = crate::server_and_environment(1);
    let fixture = Fixture::new(&environment, "over").await.unwrap();
    let process = fixture.start().unwrap();
    fixture.clear().await;
    assert!(process.cluster.tasks().stopping().is_cancelled());
}
