//! The scenarios about sets and deployments. The server keeps house: owners that go take their dependents along, or let them go.

use millwright_scenarios::{FLEET_SCENARIOS, play};
use runtime::Tasks;

use crate::server_and_ground;

async fn holds(name: &str) {
    let scenario = FLEET_SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap();
    for seed in 1..=2 {
        let tasks = Tasks::new();
        let (server, ground) = server_and_ground(seed);
        let stop = tasks.stopping();
        tasks.spawn("house", async move {
            tokio::select! {
                () = stop.cancelled() => {}
                _ = server.keep_house() => {}
            }
        });
        let verdict = play(scenario, &ground).await;
        tasks.stop();
        assert_eq!(verdict.broken, None, "seed {seed}");
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
