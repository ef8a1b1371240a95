//! The pods of a node: the next action for each and its time.
//!
//! A kubelet starts the pods bound to its node. A deleted pod ends within its grace period and is then removed. Its
//! volumes must be attached before it starts, and are released when it is removed (see `mounts`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use backoff::shortened;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::WatchEvent;
use tokio::time::Instant;

use super::NodeLife;
use super::kubelets::Kubelets;
use super::writes::{WriteError, Writes};
use crate::cloud::Now;

/// Pod annotation: duration until the pod ends, as a Go duration, limited by the grace period. `never` is a pod whose
/// containers cannot be killed, as with a process that hangs in the kernel.
pub const RUNDOWN_ANNOTATION: &str = "virtual.millwright.dev/rundown";

/// Pod annotation: `false` for a pod that runs but is never ready.
pub const READY_ANNOTATION: &str = "virtual.millwright.dev/ready";

/// Maximum silence of a watch. A server ends a healthy watch earlier, so a longer silence is a dead connection.
pub(super) const WATCH_PATIENCE: Duration = Duration::from_mins(5);

/// Namespace and name of a pod.
pub(super) type PodKey = (String, String);

/// A pod, as its kubelet sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KubeletPod {
    pub(super) uid: String,
    pub(super) containers: Vec<Container>,
    pub(super) readiness: Readiness,
    /// The claims it mounts.
    pub(super) claims: Vec<String>,
    stage: Stage,
}

/// Whether a running pod is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    Ready,
    NotReady,
}

impl Readiness {
    /// Returns the value of the condition.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ready => "True",
            Self::NotReady => "False",
        }
    }
}

/// A container in a pod's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) image: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting {
        starts: Instant,
    },
    Running,
    Finished,
    /// The containers end at this instant. `end` is set unless the status already contains their end.
    Ending {
        ends: Instant,
        end: Option<End>,
    },
}

/// How the containers of a deleted pod end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// By themselves, within the grace period.
    Itself,
    /// Killed after the grace period.
    Killed,
}

/// An action for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Chore {
    /// Report it as running.
    Start,
    /// Remove it: its containers have ended.
    Remove,
}

impl KubeletPod {
    /// Returns the current state of a pod, given its previous state.
    pub(super) fn see(pod: &Pod, before: Option<&Self>, life: &NodeLife, (now, at): (Instant, Timestamp)) -> Self {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let before = before.filter(|before| before.uid == uid).map(|before| before.stage);
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        let finished = matches!(phase, "Succeeded" | "Failed");
        let readiness = match annotation(pod, READY_ANNOTATION) {
            Some("false") => Readiness::NotReady,
            _ => Readiness::Ready,
        };
        let stage = match &pod.metadata.deletion_timestamp {
            Some(_) if finished => Stage::Ending { ends: now, end: None },
            Some(_) if annotation(pod, RUNDOWN_ANNOTATION) == Some("never") => Stage::Running,
            Some(deadline) => {
                let killed = now + Duration::try_from(deadline.0.duration_since(at)).unwrap_or_default();
                let (ends, end) = match before {
                    // A second deletion may shorten the grace period, never extend it.
                    Some(Stage::Ending { ends, end }) => (ends, end),
                    _ => (now + rundown(pod, life), Some(End::Itself)),
                };
                if killed < ends {
                    Stage::Ending { ends: killed, end: Some(End::Killed) }
                } else {
                    Stage::Ending { ends, end }
                }
            }
            None if finished => Stage::Finished,
            // A node marked Unknown has its pods marked not ready; the kubelet overrides that.
            None if phase == "Running" && is_said(pod, readiness) => Stage::Running,
            None => match before {
                Some(waiting @ Stage::Waiting { .. }) => waiting,
                _ => Stage::Waiting { starts: now + life.pod_start },
            },
        };
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let container = |c: &k8s_openapi::api::core::v1::Container| Container {
            name: c.name.clone(),
            image: c.image.clone().unwrap_or_default(),
        };
        let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let claims = volumes.filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.clone()));
        let claims = claims.collect();
        Self { uid, containers: containers.map(container).collect(), readiness, claims, stage }
    }

    /// Returns whether its containers have ended without a deletion: it uses nothing.
    pub(super) fn is_finished(&self) -> bool {
        self.stage == Stage::Finished
    }

    /// Returns the next action and its time.
    pub(super) fn next(&self) -> Option<(Instant, Chore)> {
        match self.stage {
            Stage::Waiting { starts } => Some((starts, Chore::Start)),
            Stage::Ending { ends, .. } => Some((ends, Chore::Remove)),
            Stage::Running | Stage::Finished => None,
        }
    }

    /// Returns how it ends, if that is not reported yet.
    pub(super) fn end(&self) -> Option<End> {
        match self.stage {
            Stage::Ending { end, .. } => end,
            Stage::Waiting { .. } | Stage::Running | Stage::Finished => None,
        }
    }
}

fn annotation<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn is_said(pod: &Pod, readiness: Readiness) -> bool {
    let conditions = pod.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    conditions.filter(|condition| condition.type_ == "Ready").any(|condition| condition.status == readiness.word())
}

fn rundown(pod: &Pod, life: &NodeLife) -> Duration {
    let asked = annotation(pod, RUNDOWN_ANNOTATION).and_then(|text| text.parse::<api::GoDuration>().ok());
    asked.map_or(life.pod_rundown, api::GoDuration::to_std)
}

/// Follows the pods of the cluster. Never returns: failures are retried with backoff.
pub(super) async fn follow(writes: &Writes, kubelets: &Kubelets, life: &NodeLife, mut dice: fastrand::Rng, now: &Now) {
    let mut attempts = 1_u32;
    loop {
        let begun = Instant::now();
        let ended = list_and_watch(writes, kubelets, life, now).await;
        // A watch that lasted resets the backoff.
        attempts = if begun.elapsed() > life.lease_period { 1 } else { attempts.saturating_add(1) };
        if let Err(error) = ended {
            tracing::debug!(%error, "watch of pods ended; relisting");
        }
        tokio::time::sleep(shortened(life.pauses().after(attempts), 0.5, 1.0 - dice.f64())).await;
    }
}

async fn list_and_watch(writes: &Writes, kubelets: &Kubelets, life: &NodeLife, now: &Now) -> Result<(), WriteError> {
    let put = |pod: &Pod| {
        let (node, key) = place(pod)?;
        let time = (Instant::now(), now());
        kubelets.put(&node, key.clone(), |before| KubeletPod::see(pod, before, life, time));
        Some((node, key))
    };
    let (pods, version) = writes.list::<Pod>().await?;
    let there: BTreeSet<_> = pods.iter().filter_map(put).collect();
    kubelets.retain(&there);
    let mut events = writes.watch::<Pod>(&version).await?;
    while let Some(event) = tokio::time::timeout(WATCH_PATIENCE, events.next()).await.map_err(|_| WriteError::Late)? {
        match event.map_err(WriteError::from)? {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => drop(put(&pod)),
            WatchEvent::Deleted(pod) => {
                if let Some((node, key)) = place(&pod) {
                    kubelets.remove(&node, &key);
                }
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(status) => return Err(WriteError::from(kube::Error::Api(status))),
        }
    }
    Ok(())
}

/// Returns the node to which a pod is bound, and its key.
fn place(pod: &Pod) -> Option<(String, PodKey)> {
    let node = pod.spec.as_ref()?.node_name.clone().filter(|node| !node.is_empty())?;
    Some((node, (pod.metadata.namespace.clone().unwrap_or_default(), pod.metadata.name.clone()?)))
}

/// The completed actions by pod, so that none is repeated while the watch lags.
#[derive(Debug, Default)]
pub(super) struct Done(BTreeMap<String, Chore>);

impl Done {
    pub(super) fn note(&mut self, uid: &str, chore: Chore) {
        self.0.insert(uid.to_owned(), chore);
    }

    /// Returns whether a pod was removed, even if the watch has not shown it yet.
    pub(super) fn is_removed(&self, uid: &str) -> bool {
        self.0.get(uid) == Some(&Chore::Remove)
    }

    /// Returns the pending actions, soonest first.
    pub(super) fn left<'a>(
        &mut self,
        pods: &'a BTreeMap<PodKey, KubeletPod>,
    ) -> Vec<(Instant, Chore, &'a PodKey, &'a KubeletPod)> {
        // Dropped once the watch shows the result: if it is reverted later, the action is repeated.
        let under_way: BTreeSet<&str> =
            pods.values().filter(|pod| pod.next().is_some()).map(|pod| pod.uid.as_str()).collect();
        self.0.retain(|uid, _| under_way.contains(uid.as_str()));
        let chores = pods.iter().filter_map(|(key, pod)| pod.next().map(|(at, chore)| (at, chore, key, pod)));
        let mut left: Vec<_> =
            chores.filter(|(_, chore, _, pod)| self.0.get(&pod.uid).is_none_or(|done| done < chore)).collect();
        left.sort_by_key(|(at, _, key, _)| (*at, (*key).clone()));
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SECOND: Duration = Duration::from_secs(1);

    fn pod(patch: serde_json::Value) -> Pod {
        let mut pod = json!({ "metadata": { "uid": "u" }, "spec": { "containers": [{ "name": "c" }] } });
        json_merge(&mut pod, patch);
        serde_json::from_value(pod).unwrap()
    }

    fn json_merge(into: &mut serde_json::Value, patch: serde_json::Value) {
        match patch {
            serde_json::Value::Object(fields) => {
                for (key, value) in fields {
                    json_merge(&mut into[&key], value);
                }
            }
            value => *into = value,
        }
    }

    fn life() -> NodeLife {
        NodeLife { pod_start: SECOND, pod_rundown: 5 * SECOND, ..NodeLife::default() }
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn new_pod_starts_once_after_its_start_time() {
        let now = Instant::now();
        let first = KubeletPod::see(&pod(json!({})), None, &life(), (now, Timestamp::UNIX_EPOCH));
        let again = KubeletPod::see(&pod(json!({})), Some(&first), &life(), (now + SECOND / 2, Timestamp::UNIX_EPOCH));
        assert_eq!(again.next(), Some((now + SECOND, Chore::Start)));
        let ready = json!([{ "type": "Ready", "status": "True" }]);
        let running = pod(json!({ "status": { "phase": "Running", "conditions": ready } }));
        assert_eq!(KubeletPod::see(&running, Some(&again), &life(), (now, Timestamp::UNIX_EPOCH)).next(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn pod_ends_after_its_rundown_within_its_grace_period() {
        let now = Instant::now();
        let told = at("2026-01-01T00:00:00Z");
        let ends = |deadline: &str, rundown: Option<&str>| {
            let annotations = rundown.map(|text| json!({ RUNDOWN_ANNOTATION: text }));
            let metadata = json!({ "deletionTimestamp": deadline, "annotations": annotations });
            KubeletPod::see(&pod(json!({ "metadata": metadata })), None, &life(), (now, told)).next()
        };
        assert_eq!(ends("2026-01-01T00:00:30Z", None), Some((now + 5 * SECOND, Chore::Remove)));
        assert_eq!(ends("2026-01-01T00:00:30Z", Some("20s")), Some((now + 20 * SECOND, Chore::Remove)));
        assert_eq!(ends("2026-01-01T00:00:30Z", Some("1h")), Some((now + 30 * SECOND, Chore::Remove)));
        assert_eq!(ends("2025-01-01T00:00:30Z", None), Some((now, Chore::Remove)));
    }

    #[tokio::test(start_paused = true)]
    async fn second_deletion_can_only_shorten_the_grace_period() {
        let now = Instant::now();
        let told = at("2026-01-01T00:00:00Z");
        let dying = |deadline: &str| pod(json!({ "metadata": { "deletionTimestamp": deadline } }));
        let first = KubeletPod::see(&dying("2026-01-01T00:00:30Z"), None, &life(), (now, told));
        let later = KubeletPod::see(&dying("2026-01-01T00:00:30Z"), Some(&first), &life(), (now + SECOND, told));
        assert_eq!(later.next(), first.next());
        let sooner = KubeletPod::see(&dying("2026-01-01T00:00:01Z"), Some(&first), &life(), (now, told));
        assert_eq!(sooner.next(), Some((now + SECOND, Chore::Remove)));
    }

    #[tokio::test(start_paused = true)]
    async fn completed_actions_are_not_repeated() {
        let now = Instant::now();
        let mut done = Done::default();
        let key = ("default".to_owned(), "p".to_owned());
        let waiting = KubeletPod::see(&pod(json!({})), None, &life(), (now, Timestamp::UNIX_EPOCH));
        let pods = BTreeMap::from([(key.clone(), waiting)]);
        assert_eq!(done.left(&pods).len(), 1);
        done.note("u", Chore::Start);
        assert!(done.left(&pods).is_empty());
        let dying = pod(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }));
        let pods = BTreeMap::from([(key, KubeletPod::see(&dying, None, &life(), (now, Timestamp::UNIX_EPOCH)))]);
        assert_eq!(done.left(&pods).len(), 1);
    }
}
