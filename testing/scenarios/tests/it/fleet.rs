//! The scenarios about sets and deployments. The server keeps house: owners that go take their dependents along, or let them go.

use runtime::Tasks;
use scenarios::{FLEET_SCENARIOS, Scenario, play};

use crate::server_and_environment;

async fn holds(name: &str) {
    holds_in_order(FLEET_SCENARIOS, name).await;
}

/// Plays a scenario on a server that keeps house.
pub(super) async fn holds_in_order(scenarios: &[Scenario], name: &str) {
    let scenario = scenarios.iter().find(|scenario| scenario.name == name).unwrap();
    for seed in 1..=2 {
        let tasks = Tasks::new();
        let (server, environment) = server_and_environment(seed);
        let stop = tasks.stopping();
        tasks.spawn("house", async move {
            tokio::select! {
                () = stop.cancelled() => {}
                _ = server.keep_house() => {}
            }
        });
        let result = play(scenario, &environment).await;
        tasks.stop();
        assert_eq!(result.broken, None, "seed {seed}");
    }
}

#[test]
fn every_fleet_scenario_is_a_test_here() {
    let this_file = include_str!("fleet.rs");
    for scenario in FLEET_SCENARIOS {
        let is_here = this_file.contains(&format!("async fn {}()", scenario.name));
        assert!(is_here, "{} is not played in memory", scenario.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_grows_to_fifty_shrinks_to_ten_and_to_none() {
    holds("a_set_grows_to_fifty_shrinks_to_ten_and_to_none").await;
}

#[tokio::test(start_paused = true)]
async fn a_set_adopts_machines_that_nobody_manages() {
    holds("a_set_adopts_machines_that_nobody_manages").await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_deleted_is_replaced() {
    holds("a_machine_that_is_deleted_is_replaced").await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_set_takes_its_machines_along() {
    holds("a_deleted_set_takes_its_machines_along").await;
}

#[tokio::test(start_paused = true)]
async fn a_set_deleted_without_its_machines_leaves_them_running() {
    holds("a_set_deleted_without_its_machines_leaves_them_running").await;
}

#[tokio::test(start_paused = true)]
async fn an_invalid_set_is_told_and_goes_on_once_it_is_mended() {
    holds("an_invalid_set_is_told_and_goes_on_once_it_is_mended").await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_killed_while_a_set_grows_makes_no_machine_too_many() {
    holds("a_controller_that_is_killed_while_a_set_grows_makes_no_machine_too_many").await;
}

#[tokio::test(start_paused = true)]
async fn a_roll_out_in_numbers_stays_within_its_limits() {
    holds("a_roll_out_in_numbers_stays_within_its_limits").await;
}

#[tokio::test(start_paused = true)]
async fn a_roll_out_in_percent_goes_on_while_it_is_scaled() {
    holds("a_roll_out_in_percent_goes_on_while_it_is_scaled").await;
}

#[tokio::test(start_paused = true)]
async fn a_class_that_cannot_start_halts_a_roll_out_and_rolling_back_heals_it() {
    holds("a_class_that_cannot_start_halts_a_roll_out_and_rolling_back_heals_it").await;
}

#[tokio::test(start_paused = true)]
async fn two_changes_in_a_row_end_with_the_last() {
    holds("two_changes_in_a_row_end_with_the_last").await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_in_mid_roll_holds_everything() {
    holds("a_pause_in_mid_roll_holds_everything").await;
}

#[tokio::test(start_paused = true)]
async fn a_recreating_deployment_has_no_old_machine_beside_a_new_one() {
    holds("a_recreating_deployment_has_no_old_machine_beside_a_new_one").await;
}

#[tokio::test(start_paused = true)]
async fn the_autoscaler_scales_up_down_by_name_and_back() {
    holds("the_autoscaler_scales_up_down_by_name_and_back").await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_deployment_takes_everything_along_unless_told_otherwise() {
    holds("a_deleted_deployment_takes_everything_along_unless_told_otherwise").await;
}

#[tokio::test(start_paused = true)]
async fn an_invalid_deployment_is_told_and_goes_on_once_it_is_mended() {
    holds("an_invalid_deployment_is_told_and_goes_on_once_it_is_mended").await;
}

#[tokio::test(start_paused = true)]
async fn a_rapid_scale_down_freezes_the_set_once_and_thaws_it_once() {
    holds("a_rapid_scale_down_freezes_the_set_once_and_thaws_it_once").await;
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
async fn an_in_place_update_that_fails_or_never_answers_halts_and_a_success_carries_on() {
    holds("an_in_place_update_that_fails_or_never_answers_halts_and_a_success_carries_on").await;
}

#[tokio::test(start_paused = true)]
async fn under_manual_orchestration_only_the_chosen_machine_is_updated() {
    holds("under_manual_orchestration_only_the_chosen_machine_is_updated").await;
}
