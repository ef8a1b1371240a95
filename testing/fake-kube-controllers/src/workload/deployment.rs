//! Deployments: one ReplicaSet for each version of the template, and pods moved from the old ones to the newest.
//!
//! Only what a drain or a rolling node pool meets is played: creation, scaling, rolling update and recreation. Pausing, rollback,
//! proportional scaling and the pruning of old ReplicaSets are not.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use runtime::{Key, Outcome, Queue};
use serde_json::{Value, json};

use super::revision::revision;
use super::{SETS_BY_CONTROLLER, key_of_owner, owner, status_patch};
use crate::context::{ControllerContext, Duty};
use crate::pod::{is_leaving, key_of, name_of};
use crate::share::{Rounding, share_of};
use crate::supply::Supplies;
use crate::time::whole_seconds;
use crate::write::{ObjectPart, WriteError, create, patch};

/// Makes and scales the ReplicaSets of Deployments.
pub(crate) struct Deployments(pub(crate) ControllerContext);

/// On a ReplicaSet and its pods: the version of the template.
const HASH_LABEL: &str = "pod-template-hash";

/// A ReplicaSet in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    /// What its spec says.
    wanted: i32,
    /// What its status says.
    there: i32,
    available: i32,
}

/// How fast pods may be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// The old ones go first, all of them.
    Recreate,
    Rolling {
        surge: i32,
        unavailable: i32,
    },
}

fn pace(spec: &DeploymentSpec, replicas: i32) -> Pace {
    let strategy = spec.strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate") {
        return Pace::Recreate;
    }
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.clone()).unwrap_or_default();
    let quarter = IntOrString::String("25%".into());
    let share = |share: Option<IntOrString>, rounding| {
        share_of(&share.unwrap_or_else(|| quarter.clone()), replicas, rounding).unwrap_or_default().max(0)
    };
    let surge = share(rolling.max_surge, Rounding::Up);
    let unavailable = share(rolling.max_unavailable, Rounding::Down);
    // Both zero would never move.
    Pace::Rolling { surge, unavailable: if surge == 0 && unavailable == 0 { 1 } else { unavailable.min(replicas) } }
}

/// The sizes to give now: the newest ReplicaSet's, and each old one's, in the order given (oldest first).
fn sizes(replicas: i32, pace: Pace, newest: Size, old: &[Size]) -> (i32, Vec<i32>) {
    let all_old: i32 = old.iter().map(|set| set.wanted).sum();
    match pace {
        Pace::Recreate => {
            let left: i32 = old.iter().map(|set| set.there.max(set.wanted)).sum();
            (if left > 0 { newest.wanted.min(replicas) } else { replicas }, vec![0; old.len()])
        }
        Pace::Rolling { surge, unavailable } => {
            let room = (replicas + surge - all_old - newest.wanted).max(0);
            let grown = (newest.wanted + room).min(replicas);
            let least = replicas - unavailable;
            // Unavailable pods can be deleted, but pending new ones must be awaited.
            let pending = (newest.wanted - newest.available).max(0);
            let mut may_go = (all_old + newest.wanted - least - pending).max(0);
            let mut sizes: Vec<i32> = old.iter().map(|set| set.wanted).collect();
            for (size, set) in sizes.iter_mut().zip(old) {
                let idle = (set.wanted - set.available).clamp(0, may_go);
                *size -= idle;
                may_go -= idle;
            }
            let available = newest.available + old.iter().map(|set| set.available).sum::<i32>();
            let mut may_go = may_go.min((available - least).max(0));
            for size in &mut sizes {
                let going = may_go.min(*size);
                *size -= going;
                may_go -= going;
            }
            (grown, sizes)
        }
    }
}

fn size_of(set: &ReplicaSet) -> Size {
    let status = set.status.as_ref();
    Size {
        wanted: set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
        there: status.map(|status| status.replicas).unwrap_or_default(),
        available: status.and_then(|status| status.available_replicas).unwrap_or_default(),
    }
}

/// The ReplicaSet for a Deployment's template as it is now.
fn newest_set(deployment: &Deployment, spec: &DeploymentSpec, hash: &str, replicas: i32) -> ReplicaSet {
    let mut template = spec.template.clone();
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(HASH_LABEL.into(), hash.to_owned());
    let labels = labels.clone();
    let mut selector = spec.selector.clone();
    selector.match_labels.get_or_insert_default().insert(HASH_LABEL.into(), hash.to_owned());
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", name_of(&deployment.metadata))),
            namespace: deployment.metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![owner("Deployment", &deployment.metadata)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(replicas),
            selector,
            template: Some(template),
            min_ready_seconds: spec.min_ready_seconds,
        }),
        status: None,
    }
}

fn status(
    deployment: &Deployment,
    replicas: i32,
    newest: Option<&ReplicaSet>,
    all: &[Arc<ReplicaSet>],
    now: Timestamp,
) -> Value {
    let sum = |number: fn(&ReplicaSet) -> i32| all.iter().map(|set| number(set)).sum::<i32>();
    let there = sum(|set| size_of(set).there);
    let available = sum(|set| size_of(set).available);
    let ready = sum(|set| set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or_default());
    let updated = newest.map(|set| size_of(set).there).unwrap_or_default();
    let unavailable = (all.iter().map(|set| size_of(set).wanted).sum::<i32>() - available).max(0);
    let spec = deployment.spec.as_ref();
    let tolerated = spec.map_or(0, |spec| match pace(spec, replicas) {
        Pace::Recreate => 0,
        Pace::Rolling { unavailable, .. } => unavailable,
    });
    let serving = available >= replicas - tolerated;
    let complete = updated == replicas && there == replicas && available == replicas;
    let conditions = [
        if serving {
            ("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        } else {
            ("Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        },
        if complete {
            ("Progressing", "True", "NewReplicaSetAvailable", "The newest ReplicaSet has successfully progressed.")
        } else {
            ("Progressing", "True", "ReplicaSetUpdated", "The newest ReplicaSet is progressing.")
        },
    ];
    let before = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let condition = |(kind, word, reason, message): (&str, &str, &str, &str)| {
        let said = before.clone().find(|said| said.type_ == kind && said.status == word);
        let since = said.and_then(|said| said.last_transition_time.clone()).unwrap_or_else(|| whole_seconds(now));
        let same = said.filter(|said| said.reason.as_deref() == Some(reason));
        let updated = same.and_then(|said| said.last_update_time.clone()).unwrap_or_else(|| whole_seconds(now));
        json!({ "type": kind, "status": word, "reason": reason, "message": message, "lastTransitionTime": since, "lastUpdateTime": updated })
    };
    let mut status = json!({
        "observedGeneration": deployment.metadata.generation,
        "conditions": conditions.map(condition),
    });
    let numbers = [
        ("replicas", there),
        ("updatedReplicas", updated),
        ("readyReplicas", ready),
        ("availableReplicas", available),
        ("unavailableReplicas", unavailable),
    ];
    if let Some(fields) = status.as_object_mut() {
        fields.extend(numbers.into_iter().filter(|(_, n)| *n != 0).map(|(field, n)| (field.to_owned(), n.into())));
    }
    status
}

impl Deployments {
    async fn resize(&self, set: &ReplicaSet, replicas: i32) -> Result<(), WriteError> {
        if size_of(set).wanted == replicas {
            return Ok(());
        }
        let body = json!({
            "metadata": { "uid": set.metadata.uid, "resourceVersion": set.metadata.resource_version },
            "spec": { "replicas": replicas },
        });
        let (client, sets) = (&self.0.client, &self.0.views.replica_sets);
        patch(client, sets, &key_of(&set.metadata), (ObjectPart::Main, &body), "resize a ReplicaSet").await
    }
}

impl Duty for Deployments {
    const NAME: &'static str = "deployments";

    fn wire(&self, supplies: &mut Supplies, queue: &Queue<Key>) {
        supplies.deployments.wake_itself(queue);
        let woken = queue.clone();
        supplies.replica_sets.tell(move |_, delta| {
            for set in [delta.before(), delta.now()].into_iter().flatten() {
                if let Some(key) = key_of_owner(&set.metadata, "Deployment") {
                    woken.add(key);
                }
            }
        });
    }

    async fn reconcile(&self, key: Key) -> Result<Outcome, WriteError> {
        let (client, views) = (&self.0.client, &self.0.views);
        let Some(deployment) = views.deployments.get(&key) else { return Ok(Outcome::Done) };
        let Some(spec) = &deployment.spec else { return Ok(Outcome::Done) };
        let uid = deployment.metadata.uid.as_deref().unwrap_or_default();
        let (replicas, hash) = (spec.replicas.unwrap_or(1).max(0), revision(&spec.template));
        let is_newest = |set: &ReplicaSet| {
            set.metadata.labels.as_ref().and_then(|labels| labels.get(HASH_LABEL)).is_some_and(|label| *label == hash)
        };
        if !is_leaving(&deployment.metadata) {
            let mut sets = views.replica_sets.find(&SETS_BY_CONTROLLER, uid);
            sets.retain(|set| !is_leaving(&set.metadata));
            sets.sort_by_key(|set| (set.metadata.creation_timestamp.as_ref().map(|at| at.0), key_of(&set.metadata)));
            let (newest, old): (Vec<_>, Vec<_>) = sets.into_iter().partition(|set| is_newest(set));
            let newest = newest.into_iter().next();
            let none = Size { wanted: 0, there: 0, available: 0 };
            let old_sizes: Vec<Size> = old.iter().map(|set| size_of(set)).collect();
            let now_wanted =
                sizes(replicas, pace(spec, replicas), newest.as_ref().map_or(none, |set| size_of(set)), &old_sizes);
            if let Some(set) = &newest {
                self.resize(set, now_wanted.0).await?;
            } else {
                let set = newest_set(&deployment, spec, &hash, now_wanted.0);
                create(client, &views.replica_sets, &set, "make a ReplicaSet of a Deployment").await?;
            }
            for (set, size) in old.iter().zip(now_wanted.1) {
                self.resize(set, size).await?;
            }
        }
        let sets = views.replica_sets.find(&SETS_BY_CONTROLLER, uid);
        let newest = sets.iter().find(|set| is_newest(set)).map(|set| &**set);
        let status = status(&deployment, replicas, newest, &sets, self.0.now());
        if let Some(body) = status_patch(&deployment.metadata, &json!(deployment.status), &status) {
            patch(client, &views.deployments, &key, (ObjectPart::Status, &body), "say how a Deployment is").await?;
        }
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    fn size((wanted, there, available): (i32, i32, i32)) -> Size {
        Size { wanted, there, available }
    }

    const ROLLING: Pace = Pace::Rolling { surge: 1, unavailable: 1 };

    #[rstest]
    #[case(ROLLING, (0, 0, 0), &[], (4, vec![]))]
    #[case(ROLLING, (6, 6, 6), &[], (4, vec![]))]
    #[case(ROLLING, (0, 0, 0), &[(4, 4, 4)], (1, vec![3]))]
    #[case(ROLLING, (2, 2, 0), &[(3, 3, 3)], (2, vec![3]))]
    #[case(ROLLING, (2, 2, 2), &[(3, 3, 3)], (2, vec![1]))]
    #[case(ROLLING, (1, 1, 0), &[(4, 4, 2)], (1, vec![3]))]
    #[case(ROLLING, (4, 4, 4), &[(0, 0, 0)], (4, vec![0]))]
    #[case(Pace::Recreate, (0, 0, 0), &[(4, 4, 4)], (0, vec![0]))]
    #[case(Pace::Recreate, (0, 0, 0), &[(0, 1, 0)], (0, vec![0]))]
    #[case(Pace::Recreate, (0, 0, 0), &[(0, 0, 0)], (4, vec![0]))]
    fn pods_move_from_the_old_to_the_newest(
        #[case] pace: Pace,
        #[case] newest: (i32, i32, i32),
        #[case] old: &[(i32, i32, i32)],
        #[case] expected: (i32, Vec<i32>),
    ) {
        let old: Vec<Size> = old.iter().copied().map(size).collect();
        assert_eq!(sizes(4, pace, size(newest), &old), expected);
    }

    proptest! {
        #[test]
        fn a_rolling_update_keeps_its_promises(
            replicas in 0i32..20, surge in 0i32..5, unavailable in 0i32..5,
            newest in (0i32..20, 0i32..20), old in prop::collection::vec((0i32..20, 0i32..20), 0..4),
        ) {
            let full = |(wanted, available): (i32, i32)| size((wanted, wanted, available.min(wanted)));
            let (newest, old): (Size, Vec<Size>) = (full(newest), old.into_iter().map(full).collect());
            let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable }.min(replicas);
            let (grown, shrunk) = sizes(replicas, Pace::Rolling { surge, unavailable }, newest, &old);
            prop_assert!(grown <= replicas);
            let before = newest.wanted + old.iter().map(|set| set.wanted).sum::<i32>();
            let most = grown.max(newest.wanted) + old.iter().map(|set| set.wanted).sum::<i32>();
            prop_assert!(most <= before.max(replicas + surge), "too many at once");
            let available = newest.available + old.iter().map(|set| set.available).sum::<i32>();
            let lost: i32 = old.iter().zip(&shrunk).map(|(set, size)| (set.available - size).max(0)).sum();
            prop_assert!(lost == 0 || available - lost >= replicas - unavailable, "too few left");
        }
    }
}
