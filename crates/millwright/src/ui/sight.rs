//! What the process sees, in the form in which `operator` computes answers.
//!
//! All of it is in caches. Secrets are not looked at: where one matters, the answer says that it is not known.

use std::collections::BTreeMap;

use api::{MachineClass, Object};
use controllers::state::ClusterState;
use inspect::process::Process;
use inspect::snapshot::{Cluster, Index, Secret};
use inspect::{Kind, Snapshot, Target};
use runtime::Clock;
use runtime::cache::{Cache, Cached};

use super::View;
use crate::operator::unreadable;

/// The pools of these controllers as a picture.
#[cfg(feature = "dev")]
pub(crate) fn picture(cluster: &controllers::Cluster, clock: &Clock) -> inspect::picture::Picture {
    inspect::picture::of(&snapshot(cluster, clock))
}

/// The objects, at this moment.
pub(super) fn objects(view: &View) -> Snapshot {
    snapshot(&view.cluster, &view.clock)
}

/// Everything, at this moment: the objects, and what only this process knows.
pub(super) fn of(view: &View) -> Snapshot {
    Snapshot { process: told(&view.cluster), ..objects(view) }
}

fn snapshot(cluster: &controllers::Cluster, clock: &Clock) -> Snapshot {
    let (fleet, machine_controller) = (cluster.fleet(), cluster.machine_controller());
    let classes = seen(Some(machine_controller.classes()));
    let target = cluster.nodes().map_or(Target::None, |nodes| {
        let drained = machine_controller.drains().map(controllers::drain::Drains::pods).unwrap_or_default();
        let of_node = |pods| Kind { readable: pods, ..Kind::default() };
        let pods = drained.into_iter().map(|(node, pods)| (node, of_node(pods))).collect();
        Target::Cluster(Box::new(Cluster { nodes: seen(Some(nodes)), pods, ..Cluster::default() }))
    });
    Snapshot {
        namespace: cluster.namespace().to_owned(),
        deployments: seen(fleet.map(controllers::fleet::Fleet::deployments)),
        sets: seen(fleet.map(controllers::fleet::Fleet::sets)),
        machines: seen(Some(cluster.machines())),
        secrets: secrets(&classes),
        classes,
        leases: Vec::new(), // whether we lead is known without them
        process: Process::NotAsked,
        target,
        now: clock.now(),
        index: Index::default(),
    }
}

/// What `/debug/state` would tell, but for decisions: the timeline beside it has them.
fn told(cluster: &controllers::Cluster) -> Process {
    let state = serde_json::to_value(ClusterState::of(cluster)).and_then(serde_json::from_value);
    state.map_or_else(|error| Process::Silent(error.to_string()), |state| Process::Told(Box::new(state)))
}

/// The objects of a cache, if this process reads them.
fn seen<K: Cached + Object>(cache: Option<&Cache<K>>) -> Kind<K> {
    match cache.filter(|cache| cache.is_synced()) {
        None => Kind::refused("this process has not read them".to_owned()),
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

const NOT_READ: &str = "the web view does not look at Secrets; `millwright explain` does";
