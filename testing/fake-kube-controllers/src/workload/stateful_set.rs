//! StatefulSets: pods with names that stay, one after the other.
//!
//! A pod of a StatefulSet may own a disk. So its successor is made only when it is gone for sure, object and all, and (unless the
//! set says that order does not matter) nothing happens to a higher ordinal before the lower ones run and are ready.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, Volume};
use runtime::{Key, Outcome, Queue};
use serde_json::json;

use super::replica_set::some;
use super::revision::revision;
use super::{Naming, count, pod_of, status_patch, wake_owner_of_pods};
use crate::context::{ControllerContext, Duty};
use crate::pod::{BY_CONTROLLER, available_from, is_leaving, is_ready, is_terminal, name_of, namespace_of, phase_of};
use crate::supply::Supplies;
use crate::time::again_at;
use crate::write::{Farewell, ObjectPart, WriteError, create, delete, patch};

/// Keeps StatefulSets at their size.
pub(crate) struct StatefulSets(pub(crate) ControllerContext);

/// On a pod: the version of the template it was made from.
const REVISION_LABEL: &str = "controller-revision-hash";

/// One change to a set.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Create(i32),
    Delete(i32),
}

/// The pods of a set by their ordinals.
type Members = BTreeMap<i32, Arc<Pod>>;

/// Whether order matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    OneByOne,
    AllAtOnce,
}

fn order(spec: &StatefulSetSpec) -> Order {
    match spec.pod_management_policy.as_deref() {
        Some("Parallel") => Order::AllAtOnce,
        _ => Order::OneByOne,
    }
}

/// The ordinals a set wants.
fn wanted(spec: &StatefulSetSpec) -> std::ops::Range<i32> {
    let start = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or_default();
    start..start.saturating_add(spec.replicas.unwrap_or(1).max(0))
}

fn is_healthy(pod: &Pod) -> bool {
    phase_of(pod) == "Running" && is_ready(pod) && !is_leaving(&pod.metadata)
}

/// Returns the next steps; none while an earlier member must be awaited.
fn steps(spec: &StatefulSetSpec, members: &Members, newest: &str) -> Vec<Step> {
    let (wanted, order) = (wanted(spec), order(spec));
    let mut steps = Vec::new();
    for ordinal in wanted.clone() {
        let member = members.get(&ordinal);
        match member {
            None => steps.push(Step::Create(ordinal)),
            // An ended member is recreated under its name once it is gone.
            Some(pod) if is_terminal(pod) && !is_leaving(&pod.metadata) => steps.push(Step::Delete(ordinal)),
            Some(_) => {}
        }
        if order == Order::OneByOne && !member.is_some_and(|pod| is_healthy(pod)) {
            return steps;
        }
    }
    for (ordinal, pod) in members.iter().rev().filter(|(ordinal, _)| !wanted.contains(ordinal)) {
        if !is_leaving(&pod.metadata) {
            steps.push(Step::Delete(*ordinal));
        }
        if order == Order::OneByOne {
            return steps;
        }
    }
    if steps.is_empty() {
        steps.extend(outdated(spec, members, newest));
    }
    steps
}

/// The next member to be replaced by one of the newest version: highest first, one at a time.
fn outdated(spec: &StatefulSetSpec, members: &Members, newest: &str) -> Option<Step> {
    let strategy = spec.update_strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
        return None;
    }
    let partition = strategy.and_then(|strategy| strategy.rolling_update.as_ref()?.partition).unwrap_or_default();
    let first = wanted(spec).start.saturating_add(partition);
    for (ordinal, pod) in members.range(first..).rev() {
        if version(pod) != Some(newest) {
            return (!is_leaving(&pod.metadata)).then_some(Step::Delete(*ordinal));
        }
        if !is_healthy(pod) {
            return None;
        }
    }
    None
}

fn version(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(REVISION_LABEL).map(String::as_str)
}

/// The ordinal in a pod's name, if it is one of this set's.
fn ordinal(set: &str, pod: &str) -> Option<i32> {
    pod.strip_prefix(set)?.strip_prefix('-')?.parse().ok().filter(|ordinal| *ordinal >= 0)
}

/// The member with this ordinal, as it is made.
fn member(set: &StatefulSet, spec: &StatefulSetSpec, ordinal: i32, newest: &str) -> Pod {
    let name = format!("{}-{ordinal}", name_of(&set.metadata));
    let mut pod = pod_of(&spec.template, "StatefulSet", &set.metadata, Naming::Exact(&name));
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert("statefulset.kubernetes.io/pod-name".into(), name.clone());
    labels.insert("apps.kubernetes.io/pod-index".into(), ordinal.to_string());
    labels.insert(REVISION_LABEL.into(), newest.to_owned());
    if let Some(pod_spec) = &mut pod.spec {
        pod_spec.hostname = Some(name.clone());
        pod_spec.subdomain.clone_from(&spec.service_name);
        let volumes = pod_spec.volumes.get_or_insert_default();
        for template in spec.volume_claim_templates.iter().flatten() {
            let volume = name_of(&template.metadata);
            volumes.retain(|other| other.name != volume);
            volumes.push(Volume {
                name: volume.to_owned(),
                persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                    claim_name: format!("{volume}-{name}"),
                    read_only: None,
                }),
                ..Volume::default()
            });
        }
    }
    pod
}

/// The claims of the member with this ordinal. They stay when it goes, and wait for the next of its name.
fn claims(set: &StatefulSet, spec: &StatefulSetSpec, ordinal: i32) -> Vec<PersistentVolumeClaim> {
    let pod = format!("{}-{ordinal}", name_of(&set.metadata));
    let claim = |template: &PersistentVolumeClaim| {
        let mut claim = template.clone();
        claim.metadata.name = Some(format!("{}-{pod}", name_of(&template.metadata)));
        claim.metadata.namespace = Some(namespace_of(&set.metadata).to_owned());
        let labels = claim.metadata.labels.get_or_insert_default();
        labels.extend(spec.selector.match_labels.clone().unwrap_or_default());
        claim.status = None;
        claim
    };
    spec.volume_claim_templates.iter().flatten().map(claim).collect()
}

fn status(
    set: &StatefulSet,
    members: &Members,
    newest: &str,
    now: Timestamp,
) -> (StatefulSetStatus, Option<Timestamp>) {
    let before = set.status.as_ref();
    let patience = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or_default();
    let running = || members.values().filter(|pod| !is_terminal(pod));
    let available: Vec<Timestamp> =
        running().filter(|pod| !is_leaving(&pod.metadata)).filter_map(|pod| available_from(pod, patience)).collect();
    let updated = running().filter(|pod| version(pod) == Some(newest) && !is_leaving(&pod.metadata));
    let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let updated = count(updated);
    // Once everyone is of the newest version, it is the current one.
    let current = match before.and_then(|status| status.current_revision.as_deref()).filter(|name| !name.is_empty()) {
        Some(current) if updated < wanted => current.to_owned(),
        _ => newest.to_owned(),
    };
    let of_current = running().filter(|pod| version(pod) == Some(&current) && !is_leaving(&pod.metadata));
    let status = StatefulSetStatus {
        replicas: count(running()),
        ready_replicas: some(count(running().filter(|pod| is_healthy(pod)))),
        available_replicas: Some(count(available.iter().filter(|from| **from <= now))),
        current_replicas: some(count(of_current)),
        updated_replicas: some(updated),
        current_revision: Some(current),
        update_revision: Some(newest.to_owned()),
        observed_generation: set.metadata.generation,
        collision_count: Some(before.and_then(|status| status.collision_count).unwrap_or_default()),
        conditions: before.and_then(|status| status.conditions.clone()),
    };
    (status, available.into_iter().filter(|from| *from > now).min())
}

impl StatefulSets {
    fn members(&self, set: &StatefulSet) -> Members {
        let name = name_of(&set.metadata);
        let pods = self.0.views.pods.find(&BY_CONTROLLER, set.metadata.uid.as_deref().unwrap_or_default());
        pods.into_iter().filter_map(|pod| Some((ordinal(name, name_of(&pod.metadata))?, pod))).collect()
    }
}

impl Duty for StatefulSets {
    const NAME: &'static str = "statefulsets";

    fn wire(&self, supplies: &mut Supplies, queue: &Queue<Key>) {
        supplies.claims.read();
        supplies.stateful_sets.wake_itself(queue);
        wake_owner_of_pods(supplies, "StatefulSet", queue);
    }

    async fn reconcile(&self, key: Key) -> Result<Outcome, WriteError> {
        let (client, views) = (&self.0.client, &self.0.views);
        let Some(set) = views.stateful_sets.get(&key) else { return Ok(Outcome::Done) };
        let Some(spec) = &set.spec else { return Ok(Outcome::Done) };
        let newest = format!("{}-{}", key.name, revision(&spec.template));
        if !is_leaving(&set.metadata) {
            let members = self.members(&set);
            for step in steps(spec, &members, &newest) {
                match step {
                    Step::Create(ordinal) => {
                        for claim in claims(&set, spec, ordinal) {
                            create(client, &views.claims, &claim, "make a claim of a StatefulSet").await?;
                        }
                        let pod = member(&set, spec, ordinal, &newest);
                        create(client, &views.pods, &pod, "make a pod of a StatefulSet").await?;
                    }
                    Step::Delete(ordinal) => {
                        if let Some(pod) = members.get(&ordinal) {
                            delete(client, &views.pods, pod, Farewell::Graceful, "remove a pod of a StatefulSet")
                                .await?;
                        }
                    }
                }
            }
        }
        let now = self.0.now();
        let (status, next) = status(&set, &self.members(&set), &newest, now);
        if let Some(body) = status_patch(&set.metadata, &json!(set.status), &json!(status)) {
            patch(client, &views.stateful_sets, &key, (ObjectPart::Status, &body), "say how a StatefulSet is").await?;
        }
        Ok(again_at(next, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::Value;

    fn spec(replicas: i32, more: &Value) -> StatefulSetSpec {
        let mut spec = json!({
            "replicas": replicas, "selector": { "matchLabels": { "app": "db" } }, "serviceName": "db",
            "template": { "metadata": { "labels": { "app": "db" } }, "spec": { "containers": [{ "name": "c" }] } },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {} }],
        });
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        serde_json::from_value(spec).unwrap()
    }

    /// Members by their letters, from ordinal 0: `H`ealthy, `s`tarting, `l`eaving, `f`ailed, `o`ld but healthy, `-` missing.
    fn members(letters: &str) -> Members {
        let member = |(i, letter): (usize, char)| {
            let phase = match letter {
                's' => "Pending",
                'f' => "Failed",
                _ => "Running",
            };
            let mut pod = json!({
                "metadata": { "name": format!("db-{i}"), "labels": { REVISION_LABEL: if letter == 'o' { "old" } else { "new" } } },
                "status": { "phase": phase, "conditions": [{ "type": "Ready", "status": if letter == 's' { "False" } else { "True" } }] },
            });
            if letter == 'l' {
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            (letter != '-').then(|| (i32::try_from(i).unwrap(), Arc::new(serde_json::from_value(pod).unwrap())))
        };
        letters.chars().enumerate().filter_map(member).collect()
    }

    #[rstest]
    #[case("", json!({}), vec![Step::Create(0)])]
    #[case("s", json!({}), vec![])]
    #[case("H", json!({}), vec![Step::Create(1)])]
    #[case("lHH", json!({}), vec![])]
    #[case("-HH", json!({}), vec![Step::Create(0)])]
    #[case("fHH", json!({}), vec![Step::Delete(0)])]
    #[case("HHH", json!({}), vec![])]
    #[case("HHHHH", json!({}), vec![Step::Delete(4)])]
    #[case("HHHHl", json!({}), vec![])]
    #[case("sHHHH", json!({}), vec![])]
    #[case("", json!({ "podManagementPolicy": "Parallel" }), vec![Step::Create(0), Step::Create(1), Step::Create(2)])]
    #[case("lHHHH", json!({ "podManagementPolicy": "Parallel" }), vec![Step::Delete(4), Step::Delete(3)])]
    #[case("-HHH", json!({ "ordinals": { "start": 1 } }), vec![])]
    #[case("HooH", json!({ "replicas": 4 }), vec![Step::Delete(2)])]
    #[case("HolH", json!({ "replicas": 4 }), vec![])]
    #[case("ooo", json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 3 } } }), vec![])]
    #[case("ooo", json!({ "updateStrategy": { "type": "OnDelete" } }), vec![])]
    fn members_come_and_go_in_order(#[case] letters: &str, #[case] more: Value, #[case] expected: Vec<Step>) {
        assert_eq!(steps(&spec(3, &more), &members(letters), "new"), expected);
    }

    #[test]
    fn a_member_has_its_name_its_index_and_its_claim() {
        let spec = spec(1, &json!({}));
        let set: StatefulSet =
            serde_json::from_value(json!({ "metadata": { "name": "db", "namespace": "ns", "uid": "u" } })).unwrap();
        let pod = json!(member(&set, &spec, 7, "db-x"));
        assert_eq!(pod["metadata"]["name"], "db-7");
        assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "7");
        assert_eq!(
            pod["spec"]["volumes"],
            json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data-db-7" } }])
        );
        let claims = json!(claims(&set, &spec, 7));
        assert_eq!(claims[0]["metadata"], json!({ "name": "data-db-7", "namespace": "ns", "labels": { "app": "db" } }));
    }

    #[rstest]
    #[case("db-0", Some(0))]
    #[case("db-12", Some(12))]
    #[case("db-x", None)]
    #[case("db-1-2", None)]
    #[case("dbx-1", None)]
    fn an_ordinal_is_the_end_of_a_name(#[case] name: &str, #[case] expected: Option<i32>) {
        assert_eq!(ordinal("db", name), expected);
    }
}
