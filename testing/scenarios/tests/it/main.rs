//! Every scenario on the API server in memory, under a clock of our own.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must fail where it stands")]

mod drain;
mod fleet;
mod scale;
mod storm;
mod takeover;

use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::{Options, Server};
use runtime::client::{ClientSpec, UserAgent, in_process};
use runtime::{Clock, Metrics, Random};
use scenarios::{Environment, Pace, SCENARIOS, play};

fn in_memory(seed: u64) -> Environment {
    server_and_environment(seed).1
}

fn server_and_environment(seed: u64) -> (Server, Environment) {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    let random = Random::seeded(seed);
    let now = clock.clone();
    let server = Server::new(Options::new(Arc::new(move || now.now()), random.number()));
    for definition in api::crd::definitions() {
        assert!(server.insert(&definition).is_ok(), "our definitions must be accepted");
    }
    let metrics = Metrics::new().unwrap();
    let behind = server.clone();
    let environment = Environment::new(clock, random, Pace::lifelike(), move |agent| {
        let spec = ClientSpec::new(UserAgent::new(agent, "0", "test")).within(Duration::from_secs(20));
        in_process(behind.service(), "default", &spec, &metrics.rest)
    });
    (server, environment)
}

async fn holds_in_memory(name: &str) {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap();
    for seed in 1..=3 {
        let result = play(scenario, &in_memory(seed)).await;
        assert_eq!(result.broken, None, "seed {seed}");
    }
}

#[test]
fn every_scenario_is_a_test_here() {
    let this_file = include_str!("main.rs");
    for scenario in SCENARIOS {
        assert!(
            this_file.contains(&format!("async fn {}()", scenario.name)),
            "{} is not played in memory",
            scenario.name
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_belongs_to_nobody_is_collected_and_nobody_elses() {
    holds_in_memory("a_vm_that_belongs_to_nobody_is_collected_and_nobody_elses").await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_joins_and_leaves_nothing_behind() {
    holds_in_memory("a_machine_joins_and_leaves_nothing_behind").await;
}

#[tokio::test(start_paused = true)]
async fn ten_machines_survive_a_controller_that_is_killed_again_and_again() {
    holds_in_memory("ten_machines_survive_a_controller_that_is_killed_again_and_again").await;
}

#[tokio::test(start_paused = true)]
async fn a_class_that_appears_late_wakes_its_machine() {
    holds_in_memory("a_class_that_appears_late_wakes_its_machine").await;
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_appears_late_wakes_its_machine() {
    holds_in_memory("a_secret_that_appears_late_wakes_its_machine").await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_provider_is_told_on_the_machine() {
    holds_in_memory("an_unknown_provider_is_told_on_the_machine").await;
}

#[tokio::test(start_paused = true)]
async fn an_odd_duration_is_told_and_holds_up_nobody_else() {
    holds_in_memory("an_odd_duration_is_told_and_holds_up_nobody_else").await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_node_never_comes_is_marked_failed_at_its_timeout() {
    holds_in_memory("a_machine_whose_node_never_comes_is_marked_failed_at_its_timeout").await;
}

#[tokio::test(start_paused = true)]
async fn someone_who_edits_the_machine_all_the_time_does_not_stop_it() {
    holds_in_memory("someone_who_edits_the_machine_all_the_time_does_not_stop_it").await;
}

#[tokio::test(start_paused = true)]
async fn events_tell_a_machines_life_in_four_lines() {
    holds_in_memory("events_tell_a_machines_life_in_four_lines").await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_on_standby_takes_over_when_the_leader_dies() {
    holds_in_memory("a_replica_on_standby_takes_over_when_the_leader_dies").await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_deleted_at_any_moment_of_its_creation_leaves_nothing_behind() {
    holds_in_memory("a_machine_deleted_at_any_moment_of_its_creation_leaves_nothing_behind").await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_cannot_be_read_is_told_by_an_event_and_holds_up_nobody_else() {
    holds_in_memory("a_machine_that_cannot_be_read_is_told_by_an_event_and_holds_up_nobody_else").await;
}

#[tokio::test(start_paused = true)]
async fn each_error_code_is_shown_and_overcome() {
    holds_in_memory("each_error_code_is_shown_and_overcome").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_too_late_is_taken_all_the_same() {
    holds_in_memory("a_node_that_comes_too_late_is_taken_all_the_same").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_lost_and_comes_back_costs_nothing() {
    holds_in_memory("a_node_that_is_lost_and_comes_back_costs_nothing").await;
}

#[tokio::test(start_paused = true)]
async fn of_nodes_that_are_lost_for_good_one_at_a_time_is_marked_failed() {
    holds_in_memory("of_nodes_that_are_lost_for_good_one_at_a_time_is_marked_failed").await;
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_vanishes_is_noticed_and_its_machine_can_go() {
    holds_in_memory("a_vm_that_vanishes_is_noticed_and_its_machine_can_go").await;
}

#[tokio::test(start_paused = true)]
async fn a_name_is_free_again_as_soon_as_its_machine_is_gone() {
    holds_in_memory("a_name_is_free_again_as_soon_as_its_machine_is_gone").await;
}

#[tokio::test(start_paused = true)]
async fn a_secret_broken_in_use_stops_neither_life_nor_deletion() {
    holds_in_memory("a_secret_broken_in_use_stops_neither_life_nor_deletion").await;
}
