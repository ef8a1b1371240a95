//! Whose changes wake a deployment.
//!
//! | change | wakes |
//! | --- | --- |
//! | a MachineDeployment | itself |
//! | a MachineSet | the deployment that owns it, and the one that did |
//! | a MachineSet without an owner | the deployments that select it |

use api::{LabelSelector, MachineDeployment, MachineSet, Object};
use kube::Resource;
use runtime::Key;
use runtime::cache::Feed;

use crate::fleet::Fleet;

/// A deployment wakes itself.
pub(crate) fn on_deployments(feed: &mut Feed<MachineDeployment>, fleet: &Fleet) {
    let wake = fleet.wake_deployment.clone();
    feed.on_delta(move |key, _| wake.add(key.clone()));
}

/// A set wakes its deployment, or those that may want it.
pub(crate) fn on_sets(feed: &mut Feed<MachineSet>, fleet: &Fleet) {
    let (wake, deployments) = (fleet.wake_deployment.clone(), fleet.deployments.clone());
    feed.on_delta(move |key, delta| {
        let owners = [delta.before(), delta.now()].into_iter().flatten().filter_map(|set| set.controller_owner());
        for owner in owners.filter(|owner| owner.kind == MachineDeployment::kind(&())) {
            wake.add(Key::new(key.namespace.clone(), owner.name.as_str()));
        }
        if let Some(orphan) = delta.now().filter(|set| set.controller_owner().is_none()) {
            for deployment in deployments.list() {
                if selects(deployment.spec.selector.as_ref(), orphan) {
                    wake.add(Key::new(deployment.namespace(), deployment.name()));
                }
            }
        }
    });
}

/// An invalid selector concerns its own deployment only.
fn selects(selector: Option<&LabelSelector>, set: &MachineSet) -> bool {
    let labels = set.metadata.labels.as_ref();
    labels.is_some_and(|labels| !labels.is_empty())
        && selector.is_some_and(|selector| !selector.is_empty() && selector.matches(labels) == Ok(true))
}
