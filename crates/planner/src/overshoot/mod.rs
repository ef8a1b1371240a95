//! Whether a set has more machines than it can ever be meant to have.
//!
//! A fault somewhere, in a cache, in a second controller, in someone's script, can make machines faster than anybody notices, and
//! machines cost money. So apart from all other logic machines are simply counted. A set that has reached a limit it could never
//! reach in earnest is *frozen*: it makes no more machines, and its deployment shows it too. It thaws by itself when enough are gone,
//! or when someone says so.
//!
//! By default all machines of a set count, those that are being deleted too, as in the reference: a rapid scale-down then freezes a set
//! while the cloud is busy. Where that is not wanted ([`OvershootCount::NotDeleting`]) these are left out, and nothing is judged before
//! the controllers have acted on a change.
//!
//! All sets are judged in one reconcile, each by itself and once, so that one deployment nobody can make sense of does not leave the others
//! unwatched.

use std::collections::BTreeMap;
use std::fmt;

use api::names::conditions::{deployment as words, set as set_words};
use api::names::events::{messages, reference};
use api::names::{annotations, labels};
use api::{
    ConditionStatus, MachineDeployment, MachineDeploymentCondition, MachineSet, MachineSetCondition, Object, Rounding,
    StrategyType, TextMap, Time, Uid, merge,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::Policy;
use crate::deployment::OvershootCount;
use crate::{Event, EventType};

/// Everything the decision may look at.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// All sets, each with its deployment and the number of its machines.
    pub sets: &'a [SeenSet<'a>],
    /// All deployments.
    pub deployments: &'a [&'a MachineDeployment],
    /// The limits.
    pub policy: &'a Policy,
    /// The time of the decision.
    pub now: Timestamp,
}

/// A set and what backs it.
#[derive(Clone, Copy, Debug)]
pub struct SeenSet<'a> {
    /// The set.
    pub set: &'a MachineSet,
    /// The deployment that owns it.
    pub deployment: Option<&'a MachineDeployment>,
    /// How many machines it owns.
    pub machines: i32,
    /// How many of them are being deleted.
    pub deleting: i32,
}

impl SeenSet<'_> {
    /// How many of its machines count.
    fn counted(&self, count: OvershootCount) -> i32 {
        match count {
            OvershootCount::All => self.machines,
            OvershootCount::NotDeleting => self.machines.saturating_sub(self.deleting),
        }
    }

    /// The uid of the deployment that owns it.
    fn owner(&self) -> Option<Uid> {
        #[cfg(test)]
        tests::LOOKS.with(|looks| looks.set(looks.get() + 1));
        self.deployment.map(Object::uid)
    }
}

/// One write, or one thing to tell.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Change an object.
    Write(Edit),
    /// Tell people, as an Event on a set.
    Tell {
        /// The set's name.
        set: String,
        /// The Event.
        event: Event,
    },
}

/// A merge patch, guarded by uid and version: conditions are a list that is rewritten whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Edit {
    /// What kind of object it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// The very one the decision was about.
    pub uid: Uid,
    /// Whether its status is written.
    pub part: Part,
    /// What for.
    pub change: Change,
    /// The patch, without guards.
    pub changes: Value,
}

/// Which kind of object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A MachineSet.
    Set,
    /// A MachineDeployment.
    Deployment,
}

/// Which part of an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Labels and annotations.
    Metadata,
    /// Conditions.
    Status,
}

/// What an object is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It makes no more machines.
    Freeze,
    /// It does again.
    Thaw,
    /// The wish to thaw its deployment is handed down to it.
    HandDown,
}

/// What is to be true of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FreezeDecision {
    /// As it is.
    Keep,
    /// Frozen, with this reason and message.
    Freeze(&'static str, String),
    Thaw,
}

/// Judges all sets and deployments.
#[must_use]
pub fn plan(seen: &Observed<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    let now = Time::from(seen.now);
    let judged: Vec<(&SeenSet<'_>, FreezeDecision)> =
        seen.sets.iter().map(|set| (set, judge(set, seen.policy))).collect();
    let mut by_owner: BTreeMap<Uid, Vec<&(&SeenSet<'_>, FreezeDecision)>> = BTreeMap::new();
    for child in &judged {
        let (candidate, decision) = child;
        steps.extend(set_steps(candidate.set, decision, now));
        if let Some(owner) = candidate.owner() {
            by_owner.entry(owner).or_default().push(child);
        }
    }
    for deployment in seen.deployments {
        let children = || by_owner.get(&deployment.uid()).into_iter().flatten().copied();
        let asked = deployment.annotation(annotations::UNFREEZE).is_some();
        if asked {
            let lacking = || children().filter(|(set, _)| set.set.annotation(annotations::UNFREEZE).is_none());
            steps.extend(lacking().map(|(set, _)| hand_down(set.set)));
            // It keeps the wish until each frozen set of its own has it: one that it lost first would be handed down by nobody.
            if lacking().any(|(set, _)| is_labelled(set.set) || has_condition(set.set)) {
                continue;
            }
        }
        let decision = if asked { FreezeDecision::Thaw } else { judge_deployment(deployment, children()) };
        steps.extend(deployment_steps(deployment, &decision, now));
    }
    steps
}

/// Where a set is frozen, and where it thaws.
fn limits(seen: &SeenSet<'_>, policy: &Policy) -> (i32, i32) {
    let most = match seen.deployment {
        Some(deployment) => deployment.spec.replicas.max(0).saturating_add(surge(deployment)),
        None => seen.set.spec.replicas.max(0).saturating_mul(2),
    };
    let upper = most.saturating_add(policy.fleet.safety_up);
    (upper, upper.saturating_sub(policy.fleet.safety_down))
}

/// What the strategy in use allows beyond the replicas; nothing where that cannot be read.
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

fn judge(seen: &SeenSet<'_>, policy: &Policy) -> FreezeDecision {
    let (upper, lower) = limits(seen, policy);
    let set = seen.set;
    if set.annotation(annotations::UNFREEZE).is_some() {
        return FreezeDecision::Thaw;
    }
    let count = policy.fleet.overshoot_count;
    let machines = seen.counted(count);
    let may_judge = count == OvershootCount::All || has_settled(seen);
    if machines >= upper && may_judge && !(is_labelled(set) && has_condition(set)) {
        return FreezeDecision::Freeze(set_words::OVERSHOOTING, words::overshooting(set.name(), machines, upper));
    }
    if machines <= lower && (is_labelled(set) || has_condition(set)) {
        FreezeDecision::Thaw
    } else {
        FreezeDecision::Keep
    }
}

/// Whether both controllers have acted on the numbers they were last given. In the moment after a large scale-down there are many more
/// machines than wanted, and nothing is wrong.
fn has_settled(seen: &SeenSet<'_>) -> bool {
    seen.set.status.observed_generation >= seen.set.generation()
        && seen.deployment.is_none_or(|owner| owner.status.observed_generation >= owner.generation())
}

/// A deployment is frozen exactly if one of its sets is.
fn judge_deployment<'a, 's: 'a>(
    deployment: &MachineDeployment,
    children: impl Iterator<Item = &'a (&'s SeenSet<'s>, FreezeDecision)>,
) -> FreezeDecision {
    let labelled = deployment.label(labels::FREEZE) == Some(labels::FREEZE_VALUE);
    let condition = deployment.status.conditions.iter().any(|condition| condition.kind == words::FROZEN);
    let (mut frozen, mut fresh) = (false, None);
    for (set, decision) in children {
        match decision {
            FreezeDecision::Freeze(reason, message) => fresh = fresh.or(Some((*reason, message.clone()))),
            FreezeDecision::Keep => frozen |= is_labelled(set.set) || has_condition(set.set),
            FreezeDecision::Thaw => {}
        }
    }
    match (fresh, frozen, labelled && condition, labelled || condition) {
        (Some((reason, message)), _, false, _) => FreezeDecision::Freeze(reason, message),
        (None, true, false, _) => FreezeDecision::Freeze(words::STATE_SYNC, words::STATE_SYNC_MESSAGE.to_owned()),
        (None, false, _, true) => FreezeDecision::Thaw,
        _ => FreezeDecision::Keep,
    }
}

fn is_labelled(set: &MachineSet) -> bool {
    set.label(labels::FREEZE) == Some(labels::FREEZE_VALUE)
}

fn has_condition(set: &MachineSet) -> bool {
    set.status.conditions.iter().any(|condition| condition.kind == set_words::FROZEN)
}

/// First what it says, then what it does: whoever sees the label finds the reason beside it.
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
            (Change::Freeze, reference::FROZE_MACHINE_SET, messages::froze(set.name()))
        }
        FreezeDecision::Thaw => {
            after.status.conditions.retain(|condition| condition.kind != set_words::FROZEN);
            thaw(&mut after.metadata.labels, &mut after.metadata.annotations);
            (Change::Thaw, reference::UNFROZE_MACHINE_SET, messages::unfroze(set.name()))
        }
    };
    let about = About { kind: Kind::Set, name: set.name(), uid: set.uid(), change };
    let mut steps = about.edits(merge::changes(set, &after));
    if !steps.is_empty() {
        let event = Event { event_type: EventType::Normal, reason, message };
        steps.push(Step::Tell { set: set.name().to_owned(), event });
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
        FreezeDecision::Thaw => {
            after.status.conditions.retain(|condition| condition.kind != words::FROZEN);
            thaw(&mut after.metadata.labels, &mut after.metadata.annotations);
            Change::Thaw
        }
    };
    let about = About { kind: Kind::Deployment, name: deployment.name(), uid: deployment.uid(), change };
    about.edits(merge::changes(deployment, &after))
}

fn hand_down(set: &MachineSet) -> Step {
    let about = About { kind: Kind::Set, name: set.name(), uid: set.uid(), change: Change::HandDown };
    let wish = json!({ "metadata": { "annotations": { annotations::UNFREEZE: annotations::UNFREEZE_VALUE } } });
    about.edit(Part::Metadata, wish)
}

struct About<'a> {
    kind: Kind,
    name: &'a str,
    uid: Uid,
    change: Change,
}

impl About<'_> {
    /// Status and metadata are two requests.
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

fn thaw(labels_of: &mut TextMap, annotations_of: &mut TextMap) {
    labels_of.remove(labels::FREEZE);
    annotations_of.remove(annotations::UNFREEZE);
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(Edit { kind, name, change, .. }) => {
                let kind = match kind {
                    Kind::Set => "set",
                    Kind::Deployment => "deployment",
                };
                match change {
                    Change::Freeze => write!(f, "freeze {kind} {name:?}"),
                    Change::Thaw => write!(f, "thaw {kind} {name:?}"),
                    Change::HandDown => write!(f, "let {kind} {name:?} thaw with its deployment"),
                }
            }
            Self::Tell { event, .. } => write!(f, "tell: {}", event.reason),
        }
    }
}

#[cfg(test)]
mod tests;
