//! What a PodDisruptionBudget allows, computed as the real controller does.
//!
//! The eviction API takes the answer from the status and never looks at pods itself, so the numbers here decide how fast a drain
//! goes. Two details matter more than they look: a pod that was just evicted counts as unhealthy although it is still ready (it is
//! remembered in `disruptedPods` until it is being deleted, for two minutes at most), and a share is taken of what the owners want,
//! not of what is there.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::pod::{controller_of, is_leaving, is_ready, name_of};
use crate::share::{Rounding, share_of};
use crate::time::later;

/// The size an owner wants, and its uid, so that an owner of many pods counts once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) owner: String,
    pub(crate) replicas: i32,
}

/// A budget's numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) expected: i32,
    pub(crate) desired_healthy: i32,
    pub(crate) current_healthy: i32,
    pub(crate) allowed: i32,
    /// Pods that were evicted and are not being deleted yet.
    pub(crate) disrupted: BTreeMap<String, Time>,
    /// When the next of them is forgotten.
    pub(crate) look_again: Option<Timestamp>,
}

/// Why a budget cannot be computed, in the words of its condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unclear {
    #[error("found no controllers for pod {0:?}")]
    NoController(String),
    #[error("invalid value for IntOrString: invalid type: string is not a percentage")]
    NoShare,
}

/// Computes a budget from its pods and what their owners want. `scale` answers for a pod with a controller.
pub(crate) fn account(
    budget: &PodDisruptionBudget,
    pods: &[&Pod],
    scale: impl Fn(&Pod) -> Option<Scale>,
    memory: Duration,
    now: Timestamp,
) -> Result<Account, Unclear> {
    let spec = budget.spec.clone().unwrap_or_default();
    let (expected, desired_healthy) = expectation(&spec, pods, scale)?;
    let (disrupted, look_again) = remembered(budget, pods, memory, now);
    let healthy = pods
        .iter()
        .filter(|pod| !is_leaving(&pod.metadata) && is_ready(pod))
        .filter(|pod| !disrupted.contains_key(name_of(&pod.metadata)))
        .count();
    let current_healthy = count(healthy);
    // A budget that expects nothing allows nothing: its first pods may appear before we look again.
    let allowed = if expected <= 0 { 0 } else { (current_healthy - desired_healthy).max(0) };
    Ok(Account { expected, desired_healthy, current_healthy, allowed, disrupted, look_again })
}

fn expectation(
    spec: &PodDisruptionBudgetSpec,
    pods: &[&Pod],
    scale: impl Fn(&Pod) -> Option<Scale>,
) -> Result<(i32, i32), Unclear> {
    let share = |share: &IntOrString, whole| share_of(share, whole, Rounding::Up).ok_or(Unclear::NoShare);
    match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => {
            let expected = wanted(pods, scale)?;
            Ok((expected, (expected - share(most, expected)?).max(0)))
        }
        (None, Some(IntOrString::Int(least))) => Ok((count(pods.len()), *least)),
        (None, Some(least)) => {
            let expected = wanted(pods, scale)?;
            Ok((expected, share(least, expected)?))
        }
        (None, None) => Ok((0, 0)),
    }
}

/// How many pods the owners want together. Pods without one do not count.
fn wanted(pods: &[&Pod], scale: impl Fn(&Pod) -> Option<Scale>) -> Result<i32, Unclear> {
    let mut scales: BTreeMap<String, i32> = BTreeMap::new();
    for pod in pods {
        let Some(owner) = controller_of(&pod.metadata) else { continue };
        if scales.contains_key(&owner.uid) {
            continue;
        }
        let scale = scale(pod).ok_or_else(|| Unclear::NoController(name_of(&pod.metadata).to_owned()))?;
        scales.insert(scale.owner, scale.replicas);
    }
    Ok(scales.values().sum())
}

/// The evictions that still count, and when the first of them no longer does.
fn remembered(
    budget: &PodDisruptionBudget,
    pods: &[&Pod],
    memory: Duration,
    now: Timestamp,
) -> (BTreeMap<String, Time>, Option<Timestamp>) {
    let told = budget.status.as_ref().and_then(|status| status.disrupted_pods.as_ref());
    let mut kept = BTreeMap::new();
    let mut look_again: Option<Timestamp> = None;
    for pod in pods.iter().filter(|pod| !is_leaving(&pod.metadata)) {
        let name = name_of(&pod.metadata);
        let Some(at) = told.and_then(|told| told.get(name)) else { continue };
        let forgotten = later(at.0, memory);
        if forgotten > now {
            kept.insert(name.to_owned(), at.clone());
            look_again = Some(look_again.map_or(forgotten, |sooner| sooner.min(forgotten)));
        }
    }
    (kept, look_again)
}

fn count(pods: usize) -> i32 {
    i32::try_from(pods).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    const MEMORY: Duration = Duration::from_mins(2);

    fn now() -> Timestamp {
        "2026-01-01T00:10:00Z".parse().unwrap()
    }

    fn budget(spec: &Value, disrupted: &Value) -> PodDisruptionBudget {
        let status = json!({ "disruptedPods": disrupted, "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0 });
        serde_json::from_value(json!({ "metadata": { "name": "b" }, "spec": spec, "status": status })).unwrap()
    }

    /// Pods by their letters: `R`eady, `u`nready, `l`eaving though ready, `o`rphaned but ready.
    fn pods(letters: &str) -> Vec<Pod> {
        let pod = |(i, letter): (usize, char)| {
            let ready = if letter == 'u' { "False" } else { "True" };
            let mut pod = json!({
                "metadata": { "name": format!("p{i}") },
                "status": { "conditions": [{ "type": "Ready", "status": ready }] },
            });
            if letter == 'l' {
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:10:00Z".into();
            }
            if letter != 'o' {
                pod["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": true }]);
            }
            serde_json::from_value(pod).unwrap()
        };
        letters.chars().enumerate().map(pod).collect()
    }

    fn computed(spec: &Value, disrupted: &Value, letters: &str, scale: Option<i32>) -> Result<Account, Unclear> {
        let pods = pods(letters);
        let scale = |_: &Pod| scale.map(|replicas| Scale { owner: "rs".into(), replicas });
        account(&budget(spec, disrupted), &pods.iter().collect::<Vec<_>>(), scale, MEMORY, now())
    }

    /// Shows STN-3.
    #[rstest]
    #[case(json!({ "minAvailable": 2 }), "RRR", 3, (3, 2, 3, 1))]
    #[case(json!({ "minAvailable": 2 }), "RRu", 3, (3, 2, 2, 0))]
    #[case(json!({ "minAvailable": 2 }), "RRl", 3, (3, 2, 2, 0))]
    #[case(json!({ "minAvailable": 2 }), "ooo", 3, (3, 2, 3, 1))]
    #[case(json!({ "minAvailable": 5 }), "RRR", 3, (3, 5, 3, 0))]
    #[case(json!({ "minAvailable": "50%" }), "RRR", 3, (3, 2, 3, 1))]
    #[case(json!({ "minAvailable": "50%" }), "RR", 5, (5, 3, 2, 0))]
    #[case(json!({ "maxUnavailable": 1 }), "RRR", 3, (3, 2, 3, 1))]
    #[case(json!({ "maxUnavailable": 1 }), "RRl", 3, (3, 2, 2, 0))]
    #[case(json!({ "maxUnavailable": 1 }), "RRRR", 3, (3, 2, 4, 2))]
    #[case(json!({ "maxUnavailable": "34%" }), "RRR", 3, (3, 1, 3, 2))]
    #[case(json!({ "maxUnavailable": 9 }), "RRR", 3, (3, 0, 3, 3))]
    #[case(json!({ "maxUnavailable": 1 }), "ooo", 3, (0, 0, 3, 0))]
    #[case(json!({ "minAvailable": 0 }), "", 0, (0, 0, 0, 0))]
    fn numbers_are_the_real_controllers(
        #[case] spec: Value,
        #[case] letters: &str,
        #[case] scale: i32,
        #[case] expected: (i32, i32, i32, i32),
    ) {
        let account = computed(&spec, &json!({}), letters, Some(scale)).unwrap();
        assert_eq!((account.expected, account.desired_healthy, account.current_healthy, account.allowed), expected);
    }

    /// Shows STN-3.
    #[test]
    fn an_evicted_pod_counts_as_gone_for_two_minutes() {
        let spec = json!({ "minAvailable": 1 });
        let fresh =
            computed(&spec, &json!({ "p0": "2026-01-01T00:09:00Z", "gone": "2026-01-01T00:09:00Z" }), "RR", Some(2));
        let fresh = fresh.unwrap();
        assert_eq!((fresh.current_healthy, fresh.allowed), (1, 0));
        assert_eq!(fresh.disrupted.keys().collect::<Vec<_>>(), ["p0"]);
        assert_eq!(fresh.look_again, Some("2026-01-01T00:11:00Z".parse().unwrap()));
        let stale = computed(&spec, &json!({ "p0": "2026-01-01T00:08:00Z" }), "RR", Some(2)).unwrap();
        assert_eq!((stale.current_healthy, stale.allowed, stale.disrupted.len(), stale.look_again), (2, 1, 0, None));
        let leaving = computed(&spec, &json!({ "p0": "2026-01-01T00:09:00Z" }), "lR", Some(2)).unwrap();
        assert!(leaving.disrupted.is_empty(), "a pod that is being deleted needs no memory");
    }

    #[test]
    fn percentage_of_an_unknown_scale_is_an_error() {
        let unclear = computed(&json!({ "maxUnavailable": 1 }), &json!({}), "R", None).unwrap_err();
        assert_eq!(unclear.to_string(), "found no controllers for pod \"p0\"");
        assert!(computed(&json!({ "minAvailable": 1 }), &json!({}), "R", None).is_ok(), "a count needs no scale");
    }
}
