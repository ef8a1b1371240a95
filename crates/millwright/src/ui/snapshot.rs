//! Builds the snapshot from which the crate `inspect` computes its answers.
//!
//! All of it comes from caches. Secrets are not read: if an answer depends on one, it says that the Secret is unknown.

use std::collections::BTreeMap;

use api::{MachineClass, Object};
use controllers::state::ClusterState;
use inspect::process::Process;
use inspect::snapshot::{Cluster, Index, Secret};
use inspect::{Kind, Snapshot, Target};
use runtime::Clock;
use runtime::cache::{Cache, Cached};

use super::View;
use crate::inspect_commands::unreadable;

/// Returns the pools of these controllers.
#[cfg(feature = "dev")]
pub(crate) fn picture(cluster: &controllers::Cluster, clock: &Clock) -> inspect::picture::Picture {
    inspect::picture::of(&snapshot(cluster, clock))
}

/// Returns a snapshot of the objects.
pub(super) fn objects(view: &View) -> Snapshot {
    snapshot(&view.cluster, &view.clock)
}

/// Returns a snapshot of the objects and of the state that only this process has.
pub(super) fn of(view: &View) -> Snapshot {
    Snapshot { process: process(&view.cluster), ..objects(view) }
}

fn snapshot(cluster: &controllers::Cluster, clock: &Clock) -> Snapshot {
    let (manager, machine_controller) = (cluster.manager(), cluster.machine_controller());
    let classes = cached(Some(machine_controller.classes()));
    let target = cluster.nodes().map_or(Target::None, |nodes| {
        let drained = machine_controller.drains().map(controllers::drain::Drains::pods).unwrap_or_default();
        let of_node = |pods| Kind { readable: pods, ..Kind::default() };
        let pods = drained.into_iter().map(|(node, pods)| (node, of_node(pods))).collect();
        Target::Cluster(Box::new(Cluster { nodes: cached(Some(nodes)), pods, ..Cluster::default() }))
    });
    Snapshot {
        namespace: cluster.namespace().to_owned(),
        deployments: cached(manager.map(controllers::manager::Manager::deployments)),
        sets: cached(manager.map(controllers::manager::Manager::sets)),
        machines: cached(Some(cluster.machines())),
        secrets: secrets(&classes),
        classes,
        leases: Vec::new(), // the process knows whether it leads
        process: Process::NotQueried,
        target,
        now: clock.now(),
        index: Index::default(),
    }
}

/// Returns the content of `/debug/state` without decisions. The timeline shows the decisions.
fn process(cluster: &controllers::Cluster) -> Process {
    let state = serde_json::to_value(ClusterState::of(cluster)).and_then(serde_json::from_value);
    state.map_or_else(|error| Process::Unavailable(error.to_string()), |state| Process::Reported(Box::new(state)))
}

/// Returns the objects of a cache, if this process has synced it.
fn cached<K: Cached + Object>(cache: Option<&Cache<K>>) -> Kind<K> {
    match cache.filter(|cache| cache.is_synced()) {
        None => Kind::refused("not cached by this process".to_owned()),
        Some(cache) => Kind {
            readable: cache.list(),
            unreadable: cache.undecodable().iter().map(|object| unreadable((**object).clone())).collect(),
            refused: None,
        },
    }
}

fn secrets(classes: &Kind<MachineClass>) -> BTreeMap<String, Secret> {
    let named = classes.readable.iter().flat_map(|class| planner::secret::named_by(class));
    let not_read = |(namespace, name)| (format!("{namespace}/{name}"), Secret::NotRead(NOT_READ.to_owned()));
    named.map(not_read).collect()
}

const NOT_READ: &str = "the web view does not read Secrets; use `millwright explain`";
