//! The disruption controller: the status of PodDisruptionBudgets follows their pods.

mod budget;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use runtime::{Key, Outcome, Queue};
use serde_json::{Value, json};

use crate::context::{ControllerContext, Duty};
use crate::pod::{controller_of, key_of, namespace_of};
use crate::selection::{Labels, selects};
use crate::supply::Supplies;
use crate::time::{again_at, whole_seconds};
use crate::write::{ObjectPart, WriteError, patch};
use budget::{Account, Scale, Unclear, account};

/// Keeps the status of PodDisruptionBudgets.
pub(crate) struct Disruption(pub(crate) ControllerContext);

impl Disruption {
    /// What the owner of a pod wants: the Deployment above its ReplicaSet, the ReplicaSet itself, or the StatefulSet.
    fn scale(&self, pod: &Pod) -> Option<Scale> {
        let owner = controller_of(&pod.metadata)?;
        let (views, namespace) = (&self.0.views, namespace_of(&pod.metadata));
        let key = Key::new(namespace, owner.name.as_str());
        let scale = |meta: &ObjectMeta, replicas: Option<i32>| {
            Some(Scale { owner: meta.uid.clone()?, replicas: replicas.unwrap_or(1) })
        };
        match owner.kind.as_str() {
            "ReplicaSet" => {
                let set = views.replica_sets.get(&key).filter(|set| set.metadata.uid.as_ref() == Some(&owner.uid))?;
                let above = controller_of(&set.metadata).filter(|above| above.kind == "Deployment");
                let Some(above) = above else {
                    return scale(&set.metadata, set.spec.as_ref().and_then(|spec| spec.replicas));
                };
                let deployment = views.deployments.get(&Key::new(namespace, above.name.as_str()))?;
                let deployment = Some(deployment).filter(|it| it.metadata.uid.as_ref() == Some(&above.uid))?;
                scale(&deployment.metadata, deployment.spec.as_ref().and_then(|spec| spec.replicas))
            }
            "StatefulSet" => {
                let set = views.stateful_sets.get(&key).filter(|set| set.metadata.uid.as_ref() == Some(&owner.uid))?;
                scale(&set.metadata, set.spec.as_ref().and_then(|spec| spec.replicas))
            }
            _ => None,
        }
    }
}

fn covers(budget: &PodDisruptionBudget, labels: Option<&Labels>) -> bool {
    budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()).is_some_and(|selector| selects(selector, labels))
}

impl Duty for Disruption {
    const NAME: &'static str = "disruption";

    fn wire(&self, supplies: &mut Supplies, queue: &Queue<Key>) {
        supplies.budgets.wake_itself(queue);
        let (budgets, woken) = (self.0.views.budgets.clone(), queue.clone());
        supplies.pods.tell(move |key, delta| {
            let sides = [delta.before(), delta.now()];
            for budget in budgets.list() {
                let meets = |pod: &&std::sync::Arc<Pod>| covers(&budget, pod.metadata.labels.as_ref());
                let here = budget.metadata.namespace.as_deref() == Some(&*key.namespace);
                if here && sides.iter().flatten().any(meets) {
                    woken.add(key_of(&budget.metadata));
                }
            }
        });
        // A changed size changes the shares of every budget of the namespace; sizes change rarely.
        let wake_namespace = || {
            let (budgets, woken) = (self.0.views.budgets.clone(), queue.clone());
            move |namespace: &str| {
                for budget in budgets.list() {
                    if namespace_of(&budget.metadata) == namespace {
                        woken.add(key_of(&budget.metadata));
                    }
                }
            }
        };
        let wake = wake_namespace();
        supplies.replica_sets.tell(move |key, delta| {
            let size = |set: &k8s_openapi::api::apps::v1::ReplicaSet| set.spec.as_ref().map(|spec| spec.replicas);
            if delta.before().map(|set| size(set)) != delta.now().map(|set| size(set)) {
                wake(&key.namespace);
            }
        });
        let wake = wake_namespace();
        supplies.stateful_sets.tell(move |key, delta| {
            let size = |set: &k8s_openapi::api::apps::v1::StatefulSet| set.spec.as_ref().map(|spec| spec.replicas);
            if delta.before().map(|set| size(set)) != delta.now().map(|set| size(set)) {
                wake(&key.namespace);
            }
        });
        let wake = wake_namespace();
        supplies.deployments.tell(move |key, delta| {
            let size = |it: &k8s_openapi::api::apps::v1::Deployment| it.spec.as_ref().map(|spec| spec.replicas);
            if delta.before().map(|it| size(it)) != delta.now().map(|it| size(it)) {
                wake(&key.namespace);
            }
        });
    }

    async fn reconcile(&self, key: Key) -> Result<Outcome, WriteError> {
        let views = &self.0.views;
        let Some(budget) = views.budgets.get(&key) else { return Ok(Outcome::Done) };
        let pods = views.pods.list();
        let covered: Vec<&Pod> = pods
            .iter()
            .map(|pod| &**pod)
            .filter(|pod| namespace_of(&pod.metadata) == &*key.namespace)
            .filter(|pod| covers(&budget, pod.metadata.labels.as_ref()))
            .collect();
        let now = self.0.now();
        let account = account(&budget, &covered, |pod| self.scale(pod), self.0.policy.disruption_memory, now);
        let look_again = account.as_ref().ok().and_then(|account| account.look_again);
        let status = status(&budget, &account, now);
        if Some(&status) != json!(budget.status).as_object().map(|said| Value::Object(said.clone())).as_ref() {
            let body = guarded(&budget, &status);
            patch(&self.0.client, &views.budgets, &key, (ObjectPart::Status, &body), "say what a budget allows")
                .await?;
        }
        Ok(again_at(look_again, now))
    }
}

/// The whole status as it should be.
fn status(budget: &PodDisruptionBudget, account: &Result<Account, Unclear>, now: Timestamp) -> Value {
    let mut status = budget.status.clone().unwrap_or_default();
    let said = match account {
        Ok(account) => {
            status.expected_pods = Some(account.expected);
            status.desired_healthy = Some(account.desired_healthy);
            status.current_healthy = Some(account.current_healthy);
            status.disruptions_allowed = Some(account.allowed);
            status.disrupted_pods = Some(account.disrupted.clone()).filter(|disrupted| !disrupted.is_empty());
            status.observed_generation = budget.metadata.generation;
            if account.allowed > 0 {
                ("True", "SufficientPods", String::new())
            } else {
                ("False", "InsufficientPods", String::new())
            }
        }
        Err(unclear) => {
            status.disruptions_allowed = Some(0);
            ("False", "SyncFailed", unclear.to_string())
        }
    };
    let conditions = status.conditions.get_or_insert_default();
    let (word, reason, message) = said;
    let since = conditions.iter().find(|said| said.type_ == "DisruptionAllowed" && said.status == word);
    let since = since.map_or_else(|| whole_seconds(now), |said| said.last_transition_time.clone());
    conditions.retain(|condition| condition.type_ != "DisruptionAllowed");
    conditions.push(k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition {
        type_: "DisruptionAllowed".into(),
        status: word.into(),
        reason: reason.into(),
        message,
        last_transition_time: since,
        observed_generation: status.observed_generation,
    });
    json!(status)
}

/// A merge patch that replaces the status as it was read: an eviction in between must not be overwritten. Names that left
/// `disruptedPods` are taken out one by one, because a merge keeps what it does not mention.
fn guarded(budget: &PodDisruptionBudget, status: &Value) -> Value {
    let mut status = status.clone();
    let told = budget.status.iter().filter_map(|status| status.disrupted_pods.as_ref()).flatten();
    for (name, _) in told {
        let gone = status.pointer("/disruptedPods").and_then(|kept| kept.get(name)).is_none();
        if gone && let Some(fields) = status.as_object_mut() {
            let kept = fields.entry("disruptedPods").or_insert_with(|| json!({}));
            if let Some(kept) = kept.as_object_mut() {
                kept.insert(name.clone(), Value::Null);
            }
        }
    }
    json!({ "metadata": { "uid": budget.metadata.uid, "resourceVersion": budget.metadata.resource_version }, "status": status })
}
