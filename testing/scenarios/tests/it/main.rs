//! Every scenario on the API server in memory, with a test clock.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]

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
use scenarios::{Environment, Pace, SCENARIOS, run};

fn in_memory(seed: u64) -> Environment {
    server_and_environment(seed).1
}

fn server_and_environment(seed: u64) -> (Server, Environment) {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    let random = Random::seeded(seed);
    let now = clock.clone();
    let server = Server::new(Options::new(Arc::new(move || now.now()), random.number()));
    for definition in api::crd::definitions() {
        assert!(server.insert(&definition).is_ok(), "the CRDs must be accepted");
    }
    let metrics = Metrics::new().unwrap();
    let behind = server.clone();
    let environment = Environment::new(clock, random, Pace::production(), move |agent| {
        let spec = ClientSpec::new(UserAgent::new(agent, "0", "test")).within(Duration::from_secs(20));
        in_process(behind.service(), "default", &spec, &metrics.rest)
    });
    (server, environment)
}

async fn holds_in_memory(name: &str) {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap();
    for seed in 1..=3 {
        let result = run(scenario, &in_memory(seed)).await;
        assert_eq!(result.failure, None, "seed {seed}");
    }
}

/// Shows TWO-3.
#[test]
fn every_scenario_is_a_test_here() {
    let this_file = include_str!("main.rs");
    for scenario in SCENARIOS {
        assert!(this_file.contains(&format!("async fn {}()", scenario.name)), "{} is not run in memory", scenario.name);
    }
}

/// Shows MC-W45.
#[tokio::test(start_paused = true)]
async fn orphan_vms_are_deleted_and_no_others() {
    holds_in_memory("orphan_vms_are_deleted_and_no_others").await;
}

/// Shows THR-1, MC-D7.
#[tokio::test(start_paused = true)]
async fn a_machine_joins_and_leaves_nothing_behind() {
    holds_in_memory("a_machine_joins_and_leaves_nothing_behind").await;
}

/// Shows THR-3.
#[tokio::test(start_paused = true)]
async fn ten_machines_survive_a_controller_killed_repeatedly() {
    holds_in_memory("ten_machines_survive_a_controller_killed_repeatedly").await;
}

/// Shows THR-7.
#[tokio::test(start_paused = true)]
async fn machine_continues_when_its_class_is_created() {
    holds_in_memory("machine_continues_when_its_class_is_created").await;
}

/// Shows THR-7, MC-W34.
#[tokio::test(start_paused = true)]
async fn machine_continues_when_its_secret_is_created() {
    holds_in_memory("machine_continues_when_its_secret_is_created").await;
}

/// Shows THR-7, FLG-11.
#[tokio::test(start_paused = true)]
async fn unknown_provider_is_reported_on_the_machine() {
    holds_in_memory("unknown_provider_is_reported_on_the_machine").await;
}

/// Shows THR-8.
#[tokio::test(start_paused = true)]
async fn invalid_duration_is_reported_and_blocks_no_other_machine() {
    holds_in_memory("invalid_duration_is_reported_and_blocks_no_other_machine").await;
}

/// Shows MC-H7, MC-W24.
#[tokio::test(start_paused = true)]
async fn machine_whose_node_never_joins_is_marked_failed() {
    holds_in_memory("machine_whose_node_never_joins_is_marked_failed").await;
}

/// Shows MC-W36.
#[tokio::test(start_paused = true)]
async fn constant_edits_of_a_machine_do_not_stop_it() {
    holds_in_memory("constant_edits_of_a_machine_do_not_stop_it").await;
}

/// Shows MC-W44.
#[tokio::test(start_paused = true)]
async fn four_events_report_the_life_of_a_machine() {
    holds_in_memory("four_events_report_the_life_of_a_machine").await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_on_standby_takes_over_when_the_leader_dies() {
    holds_in_memory("a_replica_on_standby_takes_over_when_the_leader_dies").await;
}

/// Shows THR-5, MC-W5.
#[tokio::test(start_paused = true)]
async fn machine_deleted_during_creation_leaves_nothing_behind() {
    holds_in_memory("machine_deleted_during_creation_leaves_nothing_behind").await;
}

/// Shows THR-8, MC-W44.
#[tokio::test(start_paused = true)]
async fn undecodable_machine_gets_an_event_and_blocks_no_other() {
    holds_in_memory("undecodable_machine_gets_an_event_and_blocks_no_other").await;
}

#[tokio::test(start_paused = true)]
async fn create_error_of_each_code_is_reported_and_retried() {
    holds_in_memory("create_error_of_each_code_is_reported_and_retried").await;
}

/// Shows MC-H2.
#[tokio::test(start_paused = true)]
async fn node_that_joins_after_the_timeout_is_accepted() {
    holds_in_memory("node_that_joins_after_the_timeout_is_accepted").await;
}

/// Shows MC-H3.
#[tokio::test(start_paused = true)]
async fn lost_node_that_returns_keeps_its_vm() {
    holds_in_memory("lost_node_that_returns_keeps_its_vm").await;
}

/// Shows MC-H9.
#[tokio::test(start_paused = true)]
async fn permanently_lost_nodes_are_marked_failed_one_at_a_time() {
    holds_in_memory("permanently_lost_nodes_are_marked_failed_one_at_a_time").await;
}

/// Shows MC-H1.
#[tokio::test(start_paused = true)]
async fn vanished_vm_is_detected_and_its_machine_can_be_deleted() {
    holds_in_memory("vanished_vm_is_detected_and_its_machine_can_be_deleted").await;
}

/// Shows MC-W3.
#[tokio::test(start_paused = true)]
async fn a_name_is_free_again_as_soon_as_its_machine_is_gone() {
    holds_in_memory("a_name_is_free_again_as_soon_as_its_machine_is_gone").await;
}

/// Shows MC-W73.
#[tokio::test(start_paused = true)]
async fn broken_secret_stops_neither_running_nor_deletion() {
    holds_in_memory("broken_secret_stops_neither_running_nor_deletion").await;
}
