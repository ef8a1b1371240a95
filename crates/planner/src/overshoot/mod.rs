//! Freezes MachineSets that have more Machines than their specification can require.
//!
//! A fault in a cache, in a second controller or in a script can create Machines quickly, and Machines cost money. So
//! the Machines of each MachineSet are counted independently of all other logic. A MachineSet whose count reaches a
//! limit that it never reaches in normal operation is *frozen*: it creates no more Machines, and its MachineDeployment
//! reports it. It is unfrozen when enough Machines are gone, or by a user.
//!
//! By default all Machines of a MachineSet are counted, including those that are being deleted, as in MCM: a rapid
//! scale-down then freezes a MachineSet while the cloud is busy. With [`OvershootCount::NotDeleting`] those are not
//! counted, and nothing is frozen before the controllers have processed a change.
//!
//! One reconcile checks every MachineSet once and independently, so that one invalid MachineDeployment does not affect
//! the others.

use std::collections::BTreeMap;
use std::fmt;

use api::names::conditions::{deployment as words, set as set_words};
use api::names::events::mcm;
use api::names::{annotations, labels};
use api::texts::events as messages;
use api::{
    ConditionStatus, MachineDeployment, MachineDeploymentCondition, MachineSet, MachineSetCondition, Object, Rounding,
    StrategyType, TextMap, Time, Uid, merge,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::Policy;
use crate::deployment::OvershootCount;
use crate::{Event, EventType};

/// Input of the decision.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// All MachineSets, each with its MachineDeployment and the number of its Machines.
    pub sets: &'a [SeenSet<'a>],
    /// All MachineDeployments.
    pub deployments: &'a [&'a MachineDeployment],
    /// Settings.
    pub policy: &'a Policy,
    /// The time of the decision.
    pub now: Timestamp,
}

/// A MachineSet with its owner and the number of its Machines.
#[derive(Clone, Copy, Debug)]
pub struct SeenSet<'a> {
    /// The MachineSet.
    pub set: &'a MachineSet,
    /// The MachineDeployment that owns it.
    pub deployment: Option<&'a MachineDeployment>,
    /// Number of Machines that it owns.
    pub machines: i32,
    /// Number of them that are being deleted.
    pub deleting: i32,
}

impl SeenSet<'_> {
    /// Returns the number of Machines that are counted.
    fn counted(&self, count: OvershootCount) -> i32 {
        match count {
            OvershootCount::All => self.machines,
            OvershootCount::NotDeleting => self.machines.saturating_sub(self.deleting),
        }
    }

    /// Returns the UID of the MachineDeployment that owns it.
    fn owner(&self) -> Option<Uid> {
        #[cfg(test)]
        tests::LOOKUPS.with(|lookups| lookups.set(lookups.get() + 1));
        self.deployment.map(Object::uid)
    }
}

/// A step of the plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Changes an object.
    Write(Edit),
    /// Emits an Event on a MachineSet.
    EmitEvent {
        /// Name of the MachineSet.
        set: String,
        /// The Event.
        event: Event,
    },
}

/// A merge patch with UID and version as preconditions, because it contains the complete list of conditions.
#[derive(Clone, Debug, PartialEq)]
pub struct Edit {
    /// Kind of the object.
    pub kind: Kind,
    /// Name of the object.
    pub name: String,
    /// UID of the object.
    pub uid: Uid,
    /// The part of the object.
    pub part: Part,
    /// The purpose.
    pub change: Change,
    /// The patch, without preconditions.
    pub changes: Value,
}

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A MachineSet.
    Set,
    /// A MachineDeployment.
    Deployment,
}

/// The part of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Labels and annotations.
    Metadata,
    /// Conditions.
    Status,
}

/// The purpose of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Freezes the object.
    Freeze,
    /// Unfreezes the object.
    Unfreeze,
    /// Copies the unfreeze annotation of the MachineDeployment to its MachineSet.
    CopyUnfreeze,
}

/// The desired state of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FreezeDecision {
    /// Unchanged.
    Keep,
    /// Frozen, with this reason and message.
    Freeze(&'static str, String),
    Unfreeze,
}

/// Checks all MachineSets and MachineDeployments.
#[must_use]
pub fn plan(seen: &Observed<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    let now = Time::from(seen.now);
    let checked: Vec<(&SeenSet<'_>, FreezeDecision)> =
        seen.sets.iter().map(|set| (set, check(set, seen.policy))).collect();
    let mut by_owner: BTreeMap<Uid, Vec<&(&SeenSet<'_>, FreezeDecision)>> = BTreeMap::new();
    for child in &checked {
        let (candidate, decision) = child;
        steps.extend(set_steps(candidate.set, decision, now));
        if let Some(owner) = candidate.owner() {
            by_owner.entry(owner).or_default().push(child);
        }
    }
    for deployment in seen.deployments {
        let children = || by_owner.get(&deployment.uid()).into_iter().flatten().copied();
        let unfreeze = deployment.annotation(annotations::UNFREEZE).is_some();
        if unfreeze {
            let lacking = || children().filter(|(set, _)| set.set.annotation(annotations::UNFREEZE).is_none());
            steps.extend(lacking().map(|(set, _)| copy_unfreeze(set.set)));
            // The annotation stays until each frozen MachineSet has it. If it were removed earlier, it could not be
            // copied any more.
            if lacking().any(|(set, _)| is_labelled(set.set) || has_condition(set.set)) {
                continue;
            }
        }
        let decision = if unfreeze { FreezeDecision::Unfreeze } else { check_deployment(deployment, children()) };
        steps.extend(deployment_steps(deployment, &decision, now));
    }
    steps
}

/// Returns the number of Machines at which a MachineSet is frozen, and the number at which it is unfrozen.
fn limits(candidate: &SeenSet<'_>, policy: &Policy) -> (i32, i32) {
    let maximum = match candidate.deployment {
        Some(deployment) => deployment.spec.replicas.max(0).saturating_add(surge(deployment)),
        None => candidate.set.spec.replicas.max(0).saturating_mul(2),
    };
    let upper = maximum.saturating_add(policy.deployment.safety_up);
    (upper, upper.saturating_sub(policy.deployment.safety_down))
}

/// Returns the surge of the strategy; zero if it cannot be parsed.
fn surge(deployment: &MachineDeployment) -> i32 {
    let strategy = &deployment.spec.strategy;
    let limits = match strategy.kind {
        StrategyType::RollingUpdate => strategy.rolling_update.as_ref().map(|update| &update.limits),
        StrategyType::InPlaceUpdate => strategy.in_place_update.as_ref().map(|update| &update.limits),
        StrategyType::Recreate | StrategyType::Unset | StrategyType::Other(_) => None,
    };
    let surge = limits.and_then(|limits| limits.max_surge.as_ref());
    surge.and_then(|surge| surge.scaled(deployment.spec.replicas, Rounding::Up)).unwrap_or(0).max(0)
}

fn check(candidate: &SeenSet<'_>, policy: &Policy) -> FreezeDecision {
    let (upper, lower) = limits(candidate, policy);
    let set = candidate.set;
    if set.annotation(annotations::UNFREEZE).is_some() {
        return FreezeDecision::Unfreeze;
    }
    let count = policy.deployment.overshoot_count;
    let machines = candidate.counted(count);
    let may_freeze = count == OvershootCount::All || is_observed(candidate);
    if machines >= upper && may_freeze && !(is_labelled(set) && has_condition(set)) {
        return FreezeDecision::Freeze(set_words::OVERSHOOTING, words::overshooting(set.name(), machines, upper));
    }
    if machines <= lower && (is_labelled(set) || has_condition(set)) {
        FreezeDecision::Unfreeze
    } else {
        FreezeDecision::Keep
    }
}

/// Returns whether both controllers have processed the current generation. Directly after a large scale-down there are
/// many more Machines than desired, without a fault.
fn is_observed(candidate: &SeenSet<'_>) -> bool {
    candidate.set.status.observed_generation >= candidate.set.generation()
        && candidate.deployment.is_none_or(|owner| owner.status.observed_generation >= owner.generation())
}

/// A MachineDeployment is frozen if and only if one of its MachineSets is.
fn check_deployment<'a, 's: 'a>(
    deployment: &MachineDeployment,
    children: impl Iterator<Item = &'a (&'s SeenSet<'s>, FreezeDecision)>,
) -> FreezeDecision {
    let labelled = deployment.label(labels::FREEZE) == Some(labels::FREEZE_VALUE);
    let condition = deployment.status.conditions.iter().any(|condition| condition.kind == words::FROZEN);
    let (mut frozen, mut new) = (false, None);
    for (set, decision) in children {
        match decision {
            FreezeDecision::Freeze(reason, message) => new = new.or(Some((*reason, message.clone()))),
            FreezeDecision::Keep => frozen |= is_labelled(set.set) || has_condition(set.set),
            FreezeDecision::Unfreeze => {}
        }
    }
    match (new, frozen, labelled && condition, labelled || condition) {
        (Some((reason, message)), _, false, _) => FreezeDecision::Freeze(reason, message),
        (None, true, false, _) => FreezeDecision::Freeze(words::STATE_SYNC, words::STATE_SYNC_MESSAGE.to_owned()),
        (None, false, _, true) => FreezeDecision::Unfreeze,
        _ => FreezeDecision::Keep,
    }
}

fn is_labelled(set: &MachineSet) -> bool {
    set.label(labels::FREEZE) == Some(labels::FREEZE_VALUE)
}

fn has_condition(set: &MachineSet) -> bool {
    set.status.conditions.iter().any(|condition| condition.kind == set_words::FROZEN)
}

/// Writes the condition before the label, so that the reason is visible when the label takes effect.
fn set_steps(set: &MachineSet, decision: &FreezeDecision, now: Time) -> Vec<Step> {
    let mut after = set.clone();
    let (change, reason, message) = match decision {
        FreezeDecision::Keep => return Vec::new(),
        FreezeDecision::Freeze(reason, message) => {
            if !has_condition(set) {
                after.status.conditions.push(MachineSetCondition {
                    kind: set_words::FROZEN.to_owned(),
                    status: ConditionStatus::True,
                    last_transition_time: Some(now),
                    reason: (*reason).to_owned(),
                    message: message.clone(),
                });
            }
            freeze(&mut after.metadata.labels);
            (Change::Freeze, mcm::FROZE_MACHINE_SET, messages::froze(set.name()))
        }
        FreezeDecision::Unfreeze => {
            after.status.conditions.retain(|condition| condition.kind != set_words::FROZEN);
            unfreeze(&mut after.metadata.labels, &mut after.metadata.annotations);
            (Change::Unfreeze, mcm::UNFROZE_MACHINE_SET, messages::unfroze(set.name()))
        }
    };
    let target = Target { kind: Kind::Set, name: set.name(), uid: set.uid(), change };
    let mut steps = target.edits(merge::changes(set, &after));
    if !steps.is_empty() {
        let event = Event { event_type: EventType::Normal, reason, message };
        steps.push(Step::EmitEvent { set: set.name().to_owned(), event });
    }
    steps
}

fn deployment_steps(deployment: &MachineDeployment, decision: &FreezeDecision, now: Time) -> Vec<Step> {
    let mut after = deployment.clone();
    let change = match decision {
        FreezeDecision::Keep => return Vec::new(),
        FreezeDecision::Freeze(reason, message) => {
            if !deployment.status.conditions.iter().any(|condition| condition.kind == words::FROZEN) {
                after.status.conditions.push(MachineDeploymentCondition {
                    kind: words::FROZEN.to_owned(),
                    status: ConditionStatus::True,
                    last_update_time: Some(now),
                    last_transition_time: Some(now),
                    reason: (*reason).to_owned(),
                    message: message.clone(),
                });
            }
            freeze(&mut after.metadata.labels);
            Change::Freeze
        }
        FreezeDecision::Unfreeze => {
            after.status.conditions.retain(|condition| condition.kind != words::FROZEN);
            unfreeze(&mut after.metadata.labels, &mut after.metadata.annotations);
            Change::Unfreeze
        }
    };
    let target = Target { kind: Kind::Deployment, name: deployment.name(), uid: deployment.uid(), change };
    target.edits(merge::changes(deployment, &after))
}

fn copy_unfreeze(set: &MachineSet) -> Step {
    let target = Target { kind: Kind::Set, name: set.name(), uid: set.uid(), change: Change::CopyUnfreeze };
    let changes = json!({ "metadata": { "annotations": { annotations::UNFREEZE: annotations::UNFREEZE_VALUE } } });
    target.edit(Part::Metadata, changes)
}

struct Target<'a> {
    kind: Kind,
    name: &'a str,
    uid: Uid,
    change: Change,
}

impl Target<'_> {
    /// Returns separate writes of the status and of the metadata.
    fn edits(&self, changes: Option<Value>) -> Vec<Step> {
        let Some(Value::Object(mut changes)) = changes else { return Vec::new() };
        let status = changes.remove("status").map(|status| self.edit(Part::Status, json!({ "status": status })));
        let rest = (!changes.is_empty()).then(|| self.edit(Part::Metadata, Value::Object(changes)));
        status.into_iter().chain(rest).collect()
    }

    fn edit(&self, part: Part, changes: Value) -> Step {
        let Self { kind, name, uid, change } = self;
        Step::Write(Edit { kind: *kind, name: (*name).to_owned(), uid: uid.clone(), part, change: *change, changes })
    }
}

fn freeze(of: &mut TextMap) {
    of.insert(labels::FREEZE, labels::FREEZE_VALUE);
}

fn unfreeze(labels_of: &mut TextMap, annotations_of: &mut TextMap) {
    labels_of.remove(labels::FREEZE);
    annotations_of.remove(annotations::UNFREEZE);
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(Edit { kind, name, change, .. }) => {
                let kind = match kind {
                    Kind::Set => "MachineSet",
                    Kind::Deployment => "MachineDeployment",
                };
                match change {
                    Change::Freeze => write!(f, "freeze {kind} {name:?}"),
                    Change::Unfreeze => write!(f, "unfreeze {kind} {name:?}"),
                    Change::CopyUnfreeze => write!(f, "copy the unfreeze annotation to {kind} {name:?}"),
                }
            }
            Self::EmitEvent { event, .. } => write!(f, "emit Event {}", event.reason),
        }
    }
}

#[cfg(test)]
mod tests;
