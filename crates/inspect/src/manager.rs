//! Plans MachineSets and MachineDeployments as the manager would now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::names::annotations::UNFREEZE;
use api::{MachineDeployment, MachinePhase, MachineSet, Object};
use planner::deployment::{Named, SeenMachine, SeenSet, UndecodableSet, machines_named};
use planner::machineset::{Member, NameSeed, Outstanding, UndecodableMachine};
use planner::{Policy, Presence};

use crate::words::count;
use crate::{Health, Snapshot, Verdict, advice};

/// Returns the verdict for a MachineSet.
pub(crate) fn set(snapshot: &Snapshot, set: &Arc<MachineSet>) -> Verdict {
    let uid = set.uid();
    let mut machines: Vec<_> = snapshot.machines.of_owner(uid.as_str()).chain(snapshot.machines.orphans()).collect();
    machines.sort_by(|a, b| a.name().cmp(b.name()));
    let member = |machine: &&Arc<api::Machine>| {
        let failed = *machine.phase() == MachinePhase::Failed;
        let node = if failed { snapshot.node_of(machine) } else { Presence::Absent };
        (Arc::clone(machine), node)
    };
    let members: Vec<_> = machines.iter().map(member).collect();
    let members: Vec<Member<'_>> =
        members.iter().map(|(machine, node)| Member { machine, node: node.map(|node| &**node) }).collect();
    let undecodable: Vec<UndecodableMachine> = snapshot
        .machines
        .unreadable_of(uid.as_str())
        .map(|left| UndecodableMachine {
            name: left.name.as_str().into(),
            uid: left.uid.clone(),
            resource_version: left.resource_version.clone(),
            labels: left.labels.clone(),
            is_deleting: left.deleting,
        })
        .collect();
    let policy = Policy::default();
    let plan = planner::machineset::plan(&planner::machineset::Observed {
        set,
        machines: &members,
        undecodable: &undecodable,
        outstanding: &Outstanding::default(),
        refused: &BTreeMap::new(),
        clock: planner::machineset::ClockTrust::Trusted,
        early_failures: planner::machineset::EarlyFailures::restored(set, &policy.set),
        name_seed: NameSeed(0),
        policy: &policy,
        now: snapshot.now,
    });
    let steps = plan.steps.iter().map(set_step).collect();
    let advice = advice::set(&plan.because, set.name());
    let mut verdict = Verdict::new(advice.health, plan.because.to_string(), steps, plan.wake);
    if let Some(help) = advice.unblock {
        let deployment = snapshot.deployment_of(set).map(|deployment| deployment.name());
        verdict.unblock.push(match deployment {
            Some(deployment) => help.replace("machinedeployment NAME", &format!("machinedeployment {deployment}")),
            None => help.replace(
                &format!("machinedeployment NAME {UNFREEZE}"),
                &format!("machineset {} {UNFREEZE}", set.name()),
            ),
        });
    }
    if let Some(failure) = set.status.conditions.iter().find(|condition| {
        condition.kind == api::names::conditions::set::REPLICA_FAILURE && condition.status == api::ConditionStatus::True
    }) {
        verdict.health = Health::NeedsAttention;
        if failure.reason != api::names::conditions::millwright::REPLACEMENT_DELAYED {
            verdict.unblock.push(format!("the API server rejected Machines of this MachineSet: {}", failure.message));
        }
    }
    verdict
}

/// Returns the text of a step. Names of new Machines are generated on creation, so only their number is known.
fn set_step(step: &planner::machineset::Step) -> String {
    match step {
        planner::machineset::Step::Create(batches) => {
            format!("create {}", count(batches.iter().map(Vec::len).sum(), "machine"))
        }
        other => other.to_string(),
    }
}

/// Returns the verdict for a MachineDeployment.
pub(crate) fn deployment(snapshot: &Snapshot, deployment: &Arc<MachineDeployment>) -> Verdict {
    let uid = deployment.uid();
    let owned = snapshot.sets.of_owner(uid.as_str()).chain(snapshot.sets.orphans());
    let sets: Vec<SeenSet<'_>> = owned.map(|set| seen_set(snapshot, set)).collect();
    let readable = snapshot.sets.readable.iter().map(|set| set.name().to_owned());
    let names_in_use: BTreeSet<String> =
        readable.chain(snapshot.sets.unreadable.iter().map(|set| set.name.clone())).collect();
    let named: BTreeMap<String, Named<'_>> = machines_named(deployment)
        .into_iter()
        .map(|name| {
            let found = match snapshot.machines.look_up(&name) {
                Presence::Present(machine) => Named::Found(machine),
                Presence::Undecodable(()) => Named::Undecodable,
                // The list came from the API server, so an absent Machine does not exist.
                Presence::Absent => Named::NotFound,
            };
            (name, found)
        })
        .collect();
    let unreadable = snapshot.sets.unreadable_of(uid.as_str()).filter(|set| !set.deleting);
    let undecodable_sets: Vec<UndecodableSet> =
        unreadable.map(|set| UndecodableSet { name: set.name.clone(), error: set.error.clone() }).collect();
    let policy = Policy::default();
    let plan = planner::deployment::plan(&planner::deployment::Observed {
        deployment,
        sets: &sets,
        names_in_use: &names_in_use,
        undecodable_sets: &undecodable_sets,
        named: &named,
        has_target_cluster: snapshot.cluster().is_some(),
        policy: &policy,
        reported: None,
        now: snapshot.now,
    });
    let steps = plan.steps.iter().map(ToString::to_string).collect();
    let advice = advice::deployment(&plan.because, deployment.name());
    let mut verdict = Verdict::new(advice.health, plan.because.to_string(), steps, plan.wake);
    verdict.unblock.extend(advice.unblock);
    verdict
}

fn seen_set<'a>(snapshot: &'a Snapshot, set: &'a Arc<MachineSet>) -> SeenSet<'a> {
    let uid = set.uid();
    let theirs =
        |machine: &&Arc<api::Machine>| machine.controller_owner().is_some_and(|owner| uid == owner.uid.as_str());
    let machines = snapshot.machines.readable.iter().filter(theirs);
    let node = |machine: &api::Machine| snapshot.node_of(machine).present().map(|node| &**node);
    SeenSet {
        set,
        machines: machines.map(|machine| SeenMachine { machine, node: node(machine) }).collect(),
        unseen: snapshot.machines.unreadable_of(uid.as_str()).count(),
    }
}
