//! The picture of a web view.

use serde_json::json;

use super::fixture::World;
use crate::picture::{Picture, changes, of};

/// Shows OPR-10.
#[test]
fn old_machine_sets_are_first_in_a_rollout() {
    let picture = of(&super::rollouts::rolling().snapshot());
    let pool = &picture.pools[0];
    assert_eq!((pool.kind, pool.name.as_str()), (Some("machinedeployment"), "pool"));
    let order: Vec<bool> = pool.sets.iter().map(|set| set.current).collect();
    assert!(order.len() > 1 && order.is_sorted() && order.last() == Some(&true), "{order:?}");
    assert!(picture.machines.values().all(|cell| pool.sets.iter().any(|set| set.name == cell.set)));
}

#[test]
fn deleted_machine_is_terminating_before_its_status_is() {
    let mut world = World::shrinking(1);
    world.machines[2]["status"]["currentStatus"]["phase"] = json!("Running");
    assert_eq!(of(&world.snapshot()).machines["pool-6c9f-c"].phase, "Terminating");
}

#[test]
fn machine_without_a_set_is_in_the_picture() {
    let mut world = World::healthy();
    world.machines[0]["metadata"]["ownerReferences"] = json!([]);
    world.sets[0]["metadata"]["ownerReferences"] = json!([]);
    let kinds: Vec<_> = of(&world.snapshot()).pools.iter().map(|pool| pool.kind).collect();
    assert_eq!(kinds, [Some("machinedeployment"), Some("machineset"), None]);
}

/// Shows OPR-10.
#[test]
fn changes_contain_only_what_has_changed() {
    let (before, now) = (of(&World::healthy().snapshot()), of(&World::shrinking(1).snapshot()));
    assert!(changes(&before, &before).is_empty());
    let changed = changes(&before, &now);
    assert_eq!(changed.machines.keys().collect::<Vec<_>>(), [&"pool-6c9f-c"]);
    assert_eq!((changed.pools, changed.gone.len()), (None, 0));

    let empty = Picture::default();
    assert_eq!(changes(&now, &empty).gone.len(), 3);
    assert_eq!(changes(&empty, &now).machines.len(), 3);
    assert!(changes(&empty, &now).pools.is_some());
}
