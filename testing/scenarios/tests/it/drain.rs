//! The scenarios of drains. The simulated kube-controllers bind, replace and count the pods.

use fake_apiserver::Server;
use fake_kube_controllers::KubeControllers;
use runtime::Tasks;
use scenarios::{DRAIN_SCENARIOS, Environment, run};

use crate::server_and_environment;

/// Adds controllers that bind, replace and count pods, until the tasks are stopped.
pub(crate) fn add_kube_controllers(environment: Environment, server: Server, tasks: &Tasks) -> Environment {
    let environment = environment.with_kube_controllers();
    let stop = tasks.stopping();
    tasks.spawn("garbage collector", async move {
        tokio::select! {
            () = stop.cancelled() => {}
            _ = server.keep_house() => {}
        }
    });
    let (client, clock, random, stop) = (
        environment.client("kube-controllers"),
        environment.clock.clone(),
        environment.random.fork(),
        tasks.stopping(),
    );
    tasks.spawn("kube-controllers", async move { KubeControllers::default().run(client, clock, random, stop).await });
    environment
}

async fn holds(name: &str) {
    let scenario = DRAIN_SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap();
    for seed in 1..=2 {
        let tasks = Tasks::new();
        let (server, environment) = server_and_environment(seed);
        let result = run(scenario, &add_kube_controllers(environment, server, &tasks)).await;
        tasks.stop();
        assert_eq!(result.failure, None, "seed {seed}");
    }
}

#[test]
fn every_drain_scenario_is_a_test_here() {
    let this_file = include_str!("drain.rs");
    for scenario in DRAIN_SCENARIOS {
        let is_here = this_file.contains(&format!("async fn {}()", scenario.name));
        assert!(is_here, "{} is not run in memory", scenario.name);
    }
}

/// Shows DR-Q3, MC-D3.
#[tokio::test(start_paused = true)]
async fn node_is_drained_before_its_vm_is_deleted() {
    holds("node_is_drained_before_its_vm_is_deleted").await;
}

#[tokio::test(start_paused = true)]
async fn two_hundred_pods_leave_in_the_time_of_the_slowest() {
    holds("two_hundred_pods_leave_in_the_time_of_the_slowest").await;
}

#[tokio::test(start_paused = true)]
async fn drain_continues_when_its_budget_allows_it() {
    holds("drain_continues_when_its_budget_allows_it").await;
}

#[tokio::test(start_paused = true)]
async fn drain_with_a_blocking_budget_ends_at_its_timeout() {
    holds("drain_with_a_blocking_budget_ends_at_its_timeout").await;
}

#[tokio::test(start_paused = true)]
async fn misconfigured_budget_is_reported_immediately() {
    holds("misconfigured_budget_is_reported_immediately").await;
}

#[tokio::test(start_paused = true)]
async fn the_disks_of_a_stateful_set_move_one_by_one() {
    holds("the_disks_of_a_stateful_set_move_one_by_one").await;
}

#[tokio::test(start_paused = true)]
async fn shared_disk_does_not_delay_a_drain() {
    holds("shared_disk_does_not_delay_a_drain").await;
}

/// Shows DR-Q16, MC-D4.
#[tokio::test(start_paused = true)]
async fn attachments_of_a_dead_node_are_deleted_to_free_its_disks() {
    holds("attachments_of_a_dead_node_are_deleted_to_free_its_disks").await;
}

#[tokio::test(start_paused = true)]
async fn long_unreachable_node_is_drained_forcibly() {
    holds("long_unreachable_node_is_drained_forcibly").await;
}

#[tokio::test(start_paused = true)]
async fn pod_held_by_a_finalizer_is_named_during_the_drain() {
    holds("pod_held_by_a_finalizer_is_named_during_the_drain").await;
}

/// Shows MC-W31.
#[tokio::test(start_paused = true)]
async fn force_label_takes_effect_during_a_drain() {
    holds("force_label_takes_effect_during_a_drain").await;
}

/// Shows DR-Q18.
#[tokio::test(start_paused = true)]
async fn drain_continues_after_controller_restarts() {
    holds("drain_continues_after_controller_restarts").await;
}

/// Shows MC-W23.
#[tokio::test(start_paused = true)]
async fn fifty_drains_do_not_slow_a_creation() {
    holds("fifty_drains_do_not_slow_a_creation").await;
}
