//! The scenarios of sets and deployments. The server includes a garbage collector, which deletes or orphans
//! dependents.

use runtime::Tasks;
use scenarios::{FLEET_SCENARIOS, Scenario, run};

use crate::server_and_environment;

async fn holds(name: &str) {
    holds_in_order(FLEET_SCENARIOS, name).await;
}

/// Runs a scenario on a server with a garbage collector.
pub(super) async fn holds_in_order(scenarios: &[Scenario], name: &str) {
    let scenario = scenarios.iter().find(|scenario| scenario.name == name).unwrap();
    for seed in 1..=2 {
        let tasks = Tasks::new();
        let (server, environment) = server_and_environment(seed);
        let stop = tasks.stopping();
        tasks.spawn("garbage collector", async move {
            tokio::select! {
                () = stop.cancelled() => {}
                _ = server.keep_house() => {}
            }
        });
        let result = run(scenario, &environment).await;
        tasks.stop();
        assert_eq!(result.failure, None, "seed {seed}");
    }
}

#[test]
fn every_fleet_scenario_is_a_test_here() {
    let this_file = include_str!("fleet.rs");
    for scenario in FLEET_SCENARIOS {
        let is_here = this_file.contains(&format!("async fn {}()", scenario.name));
        assert!(is_here, "{} is not run in memory", scenario.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_grows_to_fifty_shrinks_to_ten_and_to_none() {
    holds("a_set_grows_to_fifty_shrinks_to_ten_and_to_none").await;
}

#[tokio::test(start_paused = true)]
async fn set_adopts_machines_without_a_controller() {
    holds("set_adopts_machines_without_a_controller").await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_deleted_is_replaced() {
    holds("a_machine_that_is_deleted_is_replaced").await;
}

#[tokio::test(start_paused = true)]
async fn deleted_set_deletes_its_machines() {
    holds("deleted_set_deletes_its_machines").await;
}

#[tokio::test(start_paused = true)]
async fn a_set_deleted_without_its_machines_leaves_them_running() {
    holds("a_set_deleted_without_its_machines_leaves_them_running").await;
}

#[tokio::test(start_paused = true)]
async fn invalid_set_is_reported_and_resumes_once_fixed() {
    holds("invalid_set_is_reported_and_resumes_once_fixed").await;
}

/// Shows MS-R15.
#[tokio::test(start_paused = true)]
async fn killed_controller_creates_no_surplus_machine_in_a_scale_up() {
    holds("killed_controller_creates_no_surplus_machine_in_a_scale_up").await;
}

#[tokio::test(start_paused = true)]
async fn rollout_in_numbers_stays_within_its_limits() {
    holds("rollout_in_numbers_stays_within_its_limits").await;
}

#[tokio::test(start_paused = true)]
async fn rollout_in_percent_continues_while_it_is_scaled() {
    holds("rollout_in_percent_continues_while_it_is_scaled").await;
}

#[tokio::test(start_paused = true)]
async fn rollout_to_a_broken_class_stops_and_can_be_rolled_back() {
    holds("rollout_to_a_broken_class_stops_and_can_be_rolled_back").await;
}

#[tokio::test(start_paused = true)]
async fn two_changes_in_a_row_end_with_the_last() {
    holds("two_changes_in_a_row_end_with_the_last").await;
}

#[tokio::test(start_paused = true)]
async fn pause_stops_a_rollout_in_progress() {
    holds("pause_stops_a_rollout_in_progress").await;
}

#[tokio::test(start_paused = true)]
async fn recreate_deletes_old_machines_before_it_creates_new_ones() {
    holds("recreate_deletes_old_machines_before_it_creates_new_ones").await;
}

#[tokio::test(start_paused = true)]
async fn the_autoscaler_scales_up_down_by_name_and_back() {
    holds("the_autoscaler_scales_up_down_by_name_and_back").await;
}

#[tokio::test(start_paused = true)]
async fn deleted_deployment_deletes_its_machines_unless_orphaned() {
    holds("deleted_deployment_deletes_its_machines_unless_orphaned").await;
}

#[tokio::test(start_paused = true)]
async fn invalid_deployment_is_reported_and_resumes_once_fixed() {
    holds("invalid_deployment_is_reported_and_resumes_once_fixed").await;
}

/// Shows MS-W13.
#[tokio::test(start_paused = true)]
async fn rapid_scale_down_freezes_and_unfreezes_the_set_once() {
    holds("rapid_scale_down_freezes_and_unfreezes_the_set_once").await;
}

#[tokio::test(start_paused = true)]
async fn too_many_machines_freeze_a_set_until_they_are_gone() {
    holds("too_many_machines_freeze_a_set_until_they_are_gone").await;
}

#[tokio::test(start_paused = true)]
async fn machines_updated_in_place_are_kept() {
    holds("machines_updated_in_place_are_kept").await;
}

#[tokio::test(start_paused = true)]
async fn in_place_update_stops_on_failure_and_resumes_on_success() {
    holds("in_place_update_stops_on_failure_and_resumes_on_success").await;
}

#[tokio::test(start_paused = true)]
async fn manual_in_place_update_updates_only_the_chosen_machine() {
    holds("manual_in_place_update_updates_only_the_chosen_machine").await;
}
