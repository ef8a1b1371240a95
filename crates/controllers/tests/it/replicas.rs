//! Two replicas, one lease: at most one acts, whatever happens to the other.

use std::time::Duration;

use api::MachinePhase;
use jiff::Timestamp;
use rstest::rstest;

use crate::world::World;

/// When a replica wrote anything but its lease.
fn effects(world: &World, agent: &str) -> Vec<Timestamp> {
    world
        .server
        .requests()
        .into_iter()
        .filter(|entry| entry.tally.user_agent.starts_with(agent) && entry.tally.resource != "leases")
        .filter(|entry| ["create", "update", "patch", "delete"].contains(&entry.tally.verb.as_str()))
        .map(|entry| entry.at)
        .collect()
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_before_the_next_one_begins(#[values(1, 2, 3, 4)] seed: u64) {
    let world = World::new(seed);
    let _first = world.start_replica("replica-a");
    tokio::time::sleep(Duration::from_secs(20)).await;
    let _second = world.start_replica("replica-b");
    for n in 0..20 {
        world.create(&format!("m-{n}")).await;
    }
    tokio::time::sleep(Duration::from_secs(7)).await;
    // Whatever replica-a sends from now on breaks on the way; what the cloud does for it goes on.
    world.server.faults().on_any().by_agent("replica-a").disconnect();
    world
        .until("the other one has brought all of them up", |w| {
            (0..20).all(|n| w.phase(&format!("m-{n}")) == Some(MachinePhase::Running))
        })
        .await;

    let (a, b) = (effects(&world, "replica-a"), effects(&world, "replica-b"));
    assert!(!a.is_empty() && !b.is_empty());
    assert!(a.iter().max() < b.iter().min(), "a until {:?}, b from {:?}", a.iter().max(), b.iter().min());
    for n in 0..20 {
        assert!(world.cloud.vms_of(&format!("m-{n}")).len() <= 1, "two VMs for m-{n}: {:#?}", world.cloud.calls());
    }
}
