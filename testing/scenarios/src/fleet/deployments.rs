//! Scenarios of MachineDeployments: replicas, and rollouts from one template to the next.

use api::names::{annotations, labels};
use api::{MachineDeployment, MachineSet, Object, Time};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PropagationPolicy};
use runtime::client::Api;
use serde_json::{Value, json};

use super::pool::Machines;
use crate::fixture::{CLASS, create};
use crate::result::ensure;
use crate::{Failure, Fixture};

/// The class that machines are rolled to.
const LARGE: &str = "large";

pub(super) fn rolling(surge: impl Into<Value>, unavailable: impl Into<Value>) -> Value {
    json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": surge.into(), "maxUnavailable": unavailable.into() } })
}

fn in_place(orchestration: &str) -> Value {
    let block = json!({ "maxSurge": 0, "maxUnavailable": 1, "orchestrationType": orchestration });
    json!({ "type": "InPlaceUpdate", "inPlaceUpdate": block })
}

impl Fixture {
    /// Creates a deployment, and a second class to roll it to.
    pub(super) async fn create_deployment(&self, replicas: i32, strategy: Value) -> Result<(), Failure> {
        self.add_class(LARGE, driver_virtual::PROVIDER, &self.environment.pace.provider_spec()).await?;
        self.make_deployment(replicas, strategy).await
    }

    async fn make_deployment(&self, replicas: i32, strategy: Value) -> Result<(), Failure> {
        self.make_deployment_of(CLASS, replicas, strategy).await
    }

    /// Creates a deployment whose machines are of this class.
    pub(super) async fn make_deployment_of(&self, class: &str, replicas: i32, strategy: Value) -> Result<(), Failure> {
        let deployment = json!({
            "metadata": { "name": self.pool() },
            "spec": {
                "replicas": replicas,
                "strategy": strategy,
                "selector": { "matchLabels": { labels::NAME: self.pool() } },
                "template": self.template_of(class),
            },
        });
        create(&self.api::<MachineDeployment>(), "create a MachineDeployment", deployment).await
    }

    pub(super) async fn edit_deployment(&self, change: Value) -> Result<(), Failure> {
        let patch = Patch::Merge(change);
        let edited = self.api::<MachineDeployment>().patch(&self.pool(), &PatchParams::default(), &patch).await;
        edited.map(drop).map_err(Failure::api("edit the MachineDeployment"))
    }

    async fn roll_to(&self, class: &str) -> Result<(), Failure> {
        self.edit_deployment(json!({ "spec": { "template": { "spec": { "class": { "name": class } } } } })).await
    }

    pub(super) async fn until_deployment(
        &self,
        what: &str,
        wanted: impl Fn(Option<&MachineDeployment>) -> bool,
    ) -> Result<Option<MachineDeployment>, Failure> {
        let begin = self.environment.clock.instant();
        loop {
            let found = self.api::<MachineDeployment>().get_opt(&self.pool()).await;
            let found = found.map_err(Failure::api("read the MachineDeployment"))?;
            if wanted(found.as_ref()) {
                return Ok(found);
            }
            ensure(begin.elapsed() < self.environment.pace.timeout, || {
                format!(
                    "timed out waiting until {what}; the status of the deployment is {:?}",
                    found.map(|found| found.status)
                )
            })?;
            tokio::time::sleep(self.environment.pace.poll_interval).await;
        }
    }

    /// Waits until this many machines of this class run, no others are left, and the deployment reports that it is
    /// complete.
    pub(super) async fn until_rolled(&self, class: &str, count: usize, at_most: usize) -> Result<Machines, Failure> {
        let what = format!("{count} of class {class} run");
        let done = |machines: &Machines| machines.run(count) && of_class(machines, class) == count;
        self.until_machines(&what, at_most, done).await?;
        let wanted = i32::try_from(count).unwrap_or_default();
        self.until_deployment("it reports that it is complete", |deployment| {
            deployment.is_some_and(|d| {
                let status = &d.status;
                reason(d, "Progressing") == "NewMachineSetAvailable"
                    && (status.replicas, status.updated_replicas, status.available_replicas) == (wanted, wanted, wanted)
                    && (status.ready_replicas, status.unavailable_replicas) == (wanted, 0)
                    && status.observed_generation == d.generation()
            })
        })
        .await?;
        self.pool_machines().await
    }

    pub(super) async fn machine_sets(&self) -> Result<Vec<MachineSet>, Failure> {
        let listed = self.api::<MachineSet>().list(&ListParams::default()).await;
        listed.map(|list| list.items).map_err(Failure::api("list the MachineSets"))
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.environment.client("user"))
    }

    async fn label_node(&self, name: &str, labels: Value) -> Result<(), Failure> {
        let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
        let labelled = self.nodes().patch(name, &PatchParams::default(), &patch).await;
        labelled.map(drop).map_err(Failure::api("label a Node"))
    }

    /// Returns the matching Nodes of the pool.
    async fn nodes_where(&self, holds: impl Fn(&Node) -> bool) -> Result<Vec<String>, Failure> {
        let nodes = self.nodes().list(&ListParams::default()).await.map_err(Failure::api("list the Nodes"))?;
        let own = nodes.items.into_iter().filter(|node| node.metadata.name.iter().any(|n| n.starts_with(&self.pool())));
        Ok(own.filter(|node| holds(node)).filter_map(|node| node.metadata.name).collect())
    }

    /// Acts as node agent: sets this result on each node that is ready for its update, until `count` nodes have one.
    async fn answer_updates(&self, result: &str, count: usize) -> Result<Vec<String>, Failure> {
        let begin = self.environment.clock.instant();
        let mut answered = Vec::new();
        while answered.len() < count {
            for name in self.nodes_where(|node| update_reason(node) == "ReadyForUpdate").await? {
                if !answered.contains(&name) {
                    self.label_node(&name, json!({ labels::UPDATE_RESULT: result })).await?;
                    answered.push(name);
                }
            }
            ensure(begin.elapsed() < self.environment.pace.timeout, || format!("only {answered:?} became ready"))?;
            tokio::time::sleep(self.environment.pace.poll_interval).await;
        }
        Ok(answered)
    }
}

fn update_reason(node: &Node) -> String {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.filter(|c| c.type_ == "InPlaceUpdate").find_map(|c| c.reason.clone()).unwrap_or_default()
}

fn of_class(machines: &Machines, class: &str) -> usize {
    machines.0.iter().filter(|machine| machine.spec.class.name == class).count()
}

pub(super) fn reason<'d>(deployment: &'d MachineDeployment, kind: &str) -> &'d str {
    let found = deployment.status.conditions.iter().find(|condition| condition.kind == kind);
    found.map_or("", |condition| condition.reason.as_str())
}

fn names(machines: &Machines) -> Vec<String> {
    machines.0.iter().map(|machine| machine.name().to_owned()).collect()
}

pub(super) async fn rollout_in_numbers_stays_within_its_limits(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create_deployment(5, rolling(2, 1)).await?;
    fixture.until_rolled("small", 5, 5).await?;
    fixture.roll_to(LARGE).await?;
    fixture.until_rolled(LARGE, 5, 7).await?;
    let marked = |node: &Node| {
        let kept = node.metadata.annotations.iter().flatten().any(|(key, _)| key == annotations::SCALE_DOWN_DISABLED);
        let tainted = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        kept || tainted.into_iter().any(|taint| taint.key == api::names::taints::PREFER_NO_SCHEDULE)
    };
    fixture.wait_briefly().await;
    let left = fixture.nodes_where(marked).await?;
    ensure(left.is_empty(), || format!("nodes still carry annotations or taints of the rollout: {left:?}"))
}

pub(super) async fn rollout_in_percent_continues_while_it_is_scaled(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create_deployment(4, rolling("25%", "25%")).await?;
    fixture.until_rolled("small", 4, 4).await?;
    fixture.roll_to(LARGE).await?;
    fixture.until_machines("one is new", 5, |machines| of_class(machines, LARGE) > 0).await?;
    fixture.edit_deployment(json!({ "spec": { "replicas": 6 } })).await?;
    fixture.until_rolled(LARGE, 6, 8).await?;
    fixture.edit_deployment(json!({ "spec": { "replicas": 2 } })).await?;
    fixture.until_rolled(LARGE, 2, 6).await.map(drop)
}

pub(super) async fn rollout_to_a_broken_class_stops_and_can_be_rolled_back(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create_deployment(3, rolling(1, 0)).await?;
    fixture.edit_deployment(json!({ "spec": { "progressDeadlineSeconds": 3 } })).await?;
    fixture.until_rolled("small", 3, 3).await?;
    fixture.roll_to("nowhere").await?;
    let stuck = |d: &MachineDeployment| reason(d, "Progressing") == "ProgressDeadlineExceeded";
    fixture.until_deployment("it reports that it makes no progress", |d| d.is_some_and(stuck)).await?;
    let machines = fixture.pool_machines().await?;
    ensure(of_class(&machines, "small") == 3, || format!("a healthy machine was replaced: {}", machines.summary()))?;
    fixture.edit_deployment(json!({ "spec": { "rollbackTo": { "revision": 0 } } })).await?;
    fixture.until_rolled("small", 3, 4).await.map(drop)
}

pub(super) async fn two_changes_in_a_row_end_with_the_last(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create_deployment(3, rolling(1, 1)).await?;
    fixture.add_class("middle", driver_virtual::PROVIDER, &fixture.environment.pace.provider_spec()).await?;
    fixture.until_rolled("small", 3, 3).await?;
    fixture.roll_to("middle").await?;
    fixture
        .until_machines("one machine of the middle class exists", 4, |machines| of_class(machines, "middle") > 0)
        .await?;
    fixture.roll_to(LARGE).await?;
    fixture.until_rolled(LARGE, 3, 4).await.map(drop)
}

pub(super) async fn pause_stops_a_rollout_in_progress(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create_deployment(4, rolling(1, 0)).await?;
    fixture.until_rolled("small", 4, 4).await?;
    fixture.roll_to(LARGE).await?;
    fixture.until_machines("one is new", 5, |machines| of_class(machines, LARGE) > 0).await?;
    fixture.edit_deployment(json!({ "spec": { "paused": true } })).await?;
    let paused = |d: &MachineDeployment| reason(d, "Progressing") == "DeploymentPaused";
    fixture.until_deployment("it reports the pause", |d| d.is_some_and(paused)).await?;
    let sizes = |sets: Vec<MachineSet>| sets.iter().map(|set| set.spec.replicas).collect::<Vec<_>>();
    let before = sizes(fixture.machine_sets().await?);
    fixture.wait_briefly().await;
    let after = sizes(fixture.machine_sets().await?);
    ensure(before == after, || format!("{before:?} became {after:?} during the pause"))?;
    fixture.edit_deployment(json!({ "spec": { "paused": false } })).await?;
    fixture.until_rolled(LARGE, 4, 5).await.map(drop)
}

pub(super) async fn recreate_deletes_old_machines_before_it_creates_new_ones(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create_deployment(3, json!({ "type": "Recreate" })).await?;
    fixture.until_rolled("small", 3, 3).await?;
    fixture.roll_to(LARGE).await?;
    let mixed = |machines: &Machines| of_class(machines, LARGE) > 0 && of_class(machines, "small") > 0;
    let seen = fixture.until_machines("new machines exist", 3, |machines| of_class(machines, LARGE) > 0).await?;
    ensure(!mixed(&seen), || seen.summary())?;
    fixture.until_rolled(LARGE, 3, 3).await.map(drop)
}

pub(super) async fn machines_updated_in_place_are_kept(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create_deployment(2, in_place("Auto")).await?;
    let before = names(&fixture.until_rolled("small", 2, 2).await?);
    fixture.roll_to(LARGE).await?;
    fixture.answer_updates("successful", 2).await?;
    let moved = |sets: &[MachineSet]| {
        let new = sets.iter().find(|set| set.spec.template.spec.class.name == LARGE);
        new.is_some_and(|set| set.spec.replicas == 2 && set.status.available_replicas == 2)
    };
    let begin = fixture.environment.clock.instant();
    while !moved(&fixture.machine_sets().await?) {
        ensure(begin.elapsed() < fixture.environment.pace.timeout, || {
            "timed out waiting until they move to the new set".to_owned()
        })?;
        tokio::time::sleep(fixture.environment.pace.poll_interval).await;
    }
    let after = fixture.pool_machines().await?;
    ensure(names(&after) == before, || format!("{before:?} became {}", after.summary()))?;
    ensure(fixture.cloud.vms().len() == 2, || format!("{} VMs", fixture.cloud.vms().len()))?;
    fixture.wait_briefly().await;
    let left = fixture.nodes_where(|node| {
        let labelled = node.metadata.labels.iter().flatten().any(|(key, _)| key.ends_with("-for-update"));
        labelled || node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true))
    });
    let left = left.await?;
    ensure(left.is_empty(), || format!("nodes are still labelled or cordoned: {left:?}"))
}

pub(super) async fn in_place_update_stops_on_failure_and_resumes_on_success(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create_deployment(2, in_place("Auto")).await?;
    fixture.until_rolled("small", 2, 2).await?;
    fixture.roll_to(LARGE).await?;
    // Without a result, no other node is selected.
    let selected =
        |node: &Node| node.metadata.labels.iter().flatten().any(|(key, _)| key == labels::SELECTED_FOR_UPDATE);
    let begin = fixture.environment.clock.instant();
    while fixture.nodes_where(selected).await?.is_empty() {
        ensure(begin.elapsed() < fixture.environment.pace.timeout, || "no node was selected".to_owned())?;
        tokio::time::sleep(fixture.environment.pace.poll_interval).await;
    }
    fixture.wait_briefly().await;
    let chosen = fixture.nodes_where(selected).await?;
    ensure(chosen.len() == 1, || format!("{chosen:?} were chosen, but only one may be unavailable"))?;
    let failed = fixture.answer_updates("failed", 1).await?;
    fixture.wait_briefly().await;
    let chosen = fixture.nodes_where(selected).await?;
    ensure(chosen == failed, || format!("{chosen:?} were chosen after {failed:?} failed"))?;
    for name in failed {
        fixture.label_node(&name, json!({ labels::UPDATE_RESULT: "successful" })).await?;
    }
    fixture.answer_updates("successful", 1).await?;
    let done = |d: &MachineDeployment| d.status.updated_replicas == 2 && d.status.available_replicas == 2;
    fixture.until_deployment("both are updated", |d| d.is_some_and(done)).await.map(drop)
}

pub(super) async fn manual_in_place_update_updates_only_the_chosen_machine(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create_deployment(2, in_place("Manual")).await?;
    let machines = names(&fixture.until_rolled("small", 2, 2).await?);
    fixture.roll_to(LARGE).await?;
    let candidate =
        |node: &Node| node.metadata.labels.iter().flatten().any(|(key, _)| key == labels::CANDIDATE_FOR_UPDATE);
    let begin = fixture.environment.clock.instant();
    while fixture.nodes_where(candidate).await?.len() < 2 {
        ensure(begin.elapsed() < fixture.environment.pace.timeout, || "no candidates were named".to_owned())?;
        tokio::time::sleep(fixture.environment.pace.poll_interval).await;
    }
    fixture.wait_briefly().await;
    let Some(chosen) = machines.last() else { return Ok(()) };
    fixture.label_node(chosen, json!({ labels::SELECTED_FOR_UPDATE: "true" })).await?;
    let answered = fixture.answer_updates("successful", 1).await?;
    ensure(answered == [chosen.clone()], || format!("{answered:?} were updated instead of {chosen}"))?;
    let one = |d: &MachineDeployment| d.status.updated_replicas == 1 && d.status.available_replicas == 2;
    fixture.until_deployment("one is updated", |d| d.is_some_and(one)).await.map(drop)
}

pub(super) async fn the_autoscaler_scales_up_down_by_name_and_back(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create_deployment(2, rolling(1, 0)).await?;
    fixture.until_rolled("small", 2, 2).await?;
    // The autoscaler scales up.
    fixture.edit_deployment(json!({ "spec": { "replicas": 5 } })).await?;
    let machines = fixture.until_rolled("small", 5, 5).await?;
    // The autoscaler scales down and names the Machines that it has drained.
    let chosen: Vec<String> = names(&machines).into_iter().skip(1).step_by(2).collect();
    let requested_at = Time::from(fixture.environment.clock.now());
    let list: Vec<String> = chosen.iter().map(|name| format!("{name}~{requested_at}")).collect();
    let named = json!({ annotations::TRIGGER_DELETION: list.join(","), annotations::LAST_REPLICA_CHANGE_BY_SCALER: requested_at.to_string() });
    fixture.edit_deployment(json!({ "metadata": { "annotations": named }, "spec": { "replicas": 3 } })).await?;
    let machines = fixture.until_rolled("small", 3, 5).await?;
    let deleted = names(&machines).iter().all(|name| !chosen.contains(name));
    ensure(deleted, || format!("expected {chosen:?} to be deleted, but {} are left", machines.summary()))?;
    let pruned = |d: &MachineDeployment| d.annotation(annotations::TRIGGER_DELETION).is_none();
    fixture.until_deployment("its list of machines to delete is empty", |d| d.is_some_and(pruned)).await?;
    // The autoscaler reverts a scale-up without naming Machines.
    fixture.edit_deployment(json!({ "spec": { "replicas": 2 } })).await?;
    fixture.until_rolled("small", 2, 3).await.map(drop)
}

pub(super) async fn deleted_deployment_deletes_its_machines_unless_orphaned(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create_deployment(2, rolling(1, 0)).await?;
    let before = names(&fixture.until_rolled("small", 2, 2).await?);
    let orphan = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    delete(fixture, &orphan).await?;
    fixture.until_deployment("it is gone", |d| d.is_none()).await?;
    fixture.wait_briefly().await;
    let left = fixture.pool_machines().await?;
    ensure(names(&left) == before && left.run(2), || format!("{before:?} were to stay: {}", left.summary()))?;
    // Another deployment of the same template takes them over.
    fixture.make_deployment(2, rolling(1, 0)).await?;
    let after = names(&fixture.until_rolled("small", 2, 2).await?);
    ensure(after == before, || format!("{before:?} were replaced by {after:?}"))?;
    delete(fixture, &DeleteParams::default()).await?;
    fixture.until_deployment("it is gone", |d| d.is_none()).await?;
    fixture.until_machines("its machines are gone", 0, |machines| machines.0.is_empty()).await?;
    ensure(fixture.cloud.vms().is_empty(), || format!("VMs were left behind: {:?}", fixture.cloud.vms()))
}

async fn delete(fixture: &Fixture, parameters: &DeleteParams) -> Result<(), Failure> {
    let deleted = fixture.api::<MachineDeployment>().delete(&fixture.pool(), parameters).await;
    deleted.map(drop).map_err(Failure::api("delete the MachineDeployment"))
}

pub(super) async fn invalid_deployment_is_reported_and_resumes_once_fixed(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create_deployment(1, json!({ "type": "Sideways" })).await?;
    let invalid = |d: &MachineDeployment| {
        let condition = d.status.conditions.iter().find(|condition| condition.kind == "Invalid");
        condition.is_some_and(|condition| condition.message.contains("spec.strategy.type"))
    };
    fixture.until_deployment("it reports the invalid field", |d| d.is_some_and(invalid)).await?;
    fixture.edit_deployment(json!({ "spec": { "strategy": rolling(1, 0) } })).await?;
    fixture.until_rolled("small", 1, 1).await?;
    fixture
        .until_deployment("it reports no invalid field", |d| d.is_some_and(|d| reason(d, "Invalid").is_empty()))
        .await
        .map(drop)
}
