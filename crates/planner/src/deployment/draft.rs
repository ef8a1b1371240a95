//! The desired state of the MachineSets of a MachineDeployment.
//!
//! Several rules of one reconcile may change the same MachineSet: its replicas, its revision, its labels. Each rule
//! changes a copy. At the end, every MachineSet that differs from its observed state is written once. So the rules are
//! independent of each other, and the writes of a reconcile do not contradict each other.

use std::cmp::Ordering;
use std::iter::once;

use api::names::annotations::{DESIRED_REPLICAS, MAX_REPLICAS};
use api::names::events::mcm;
use api::names::labels;
use api::texts::events as messages;
use api::{Machine, MachinePhase, MachineSet, Object, TextMap, merge};
use jiff::Timestamp;
use serde_json::json;

use super::limits::Limits;
use super::step::{NewSet, SetChange, SetEdit, Step};
use super::{SeenMachine, SeenSet};
use crate::machineset::{Member, available_at};
use crate::{Event, EventType, Policy, Presence};

/// A MachineSet and its desired state.
#[derive(Clone, Debug)]
pub(super) struct Draft<'a> {
    /// The observed state; `None` if it is to be created.
    pub(super) before: Option<&'a MachineSet>,
    /// The desired state.
    pub(super) set: MachineSet,
    /// Its decodable Machines.
    pub(super) machines: &'a [SeenMachine<'a>],
    /// Number of further Machines that cannot be decoded or are being created.
    pub(super) unseen: usize,
    /// Number of its Failed Machines that are preserved. A MachineSet deletes them last.
    pub(super) preserved: i32,
    /// Number of its Machines that are available now. The status of the MachineSet may be behind, see [`crate::Due`].
    pub(super) available: i32,
}

impl Draft<'_> {
    pub(super) fn name(&self) -> &str {
        self.set.name()
    }

    /// Returns whether it is being deleted. Then all its Machines are deleted, whatever its replicas.
    pub(super) fn is_terminating(&self) -> bool {
        self.set.is_deleting()
    }

    /// Its desired number of Machines.
    pub(super) fn size(&self) -> i32 {
        if self.is_terminating() { 0 } else { self.set.spec.replicas.max(0) }
    }

    pub(super) fn is_active(&self) -> bool {
        self.size() > 0
    }

    /// Number of its Machines that are available and stay so after scaling. The preserved Machines are deleted last and
    /// reduce the number.
    pub(super) fn available(&self) -> i32 {
        let others = self.size().min(self.live()).saturating_sub(self.preserved).max(0);
        self.available.clamp(0, others)
    }

    /// Number of its Machines that are not being deleted.
    pub(super) fn live(&self) -> i32 {
        count(self.machines.iter().filter(|seen| !is_terminating(seen.machine)).count() + self.unseen)
    }

    /// Number of its Machines including those that are being deleted: the largest of three values, because each may be
    /// outdated.
    pub(super) fn present(&self) -> i32 {
        count(self.machines.len() + self.unseen).max(self.set.status.replicas).max(self.size())
    }

    /// Number of Machines that it has or may create at any moment, without those that are being deleted.
    pub(super) fn held(&self) -> i32 {
        if self.creates_none() { self.live() } else { self.live().max(self.size()) }
    }

    /// Returns whether an in-place rollout has disabled its scale-up, and its controller can know that.
    pub(super) fn creates_none(&self) -> bool {
        let forbidden = |set: &MachineSet| set.label(labels::SCALE_UP_DISABLED).is_some();
        self.before.is_some_and(forbidden) && forbidden(&self.set)
    }

    /// Returns whether it has or wants Machines.
    pub(super) fn is_populated(&self) -> bool {
        self.present() > 0
    }

    /// Returns the number in one of its annotations.
    pub(super) fn number(&self, annotation: &str) -> Option<i32> {
        self.set.annotation(annotation)?.parse().ok()
    }

    /// Sets its replicas, and records the numbers of the MachineDeployment if they change.
    pub(super) fn resize(&mut self, to: i32, limits: &Limits) {
        if self.size() != to && !self.is_terminating() {
            self.set.spec.replicas = to;
            self.record(limits);
        }
    }

    /// Records the numbers of the MachineDeployment, so that a later change of them is detected.
    pub(super) fn record(&mut self, limits: &Limits) {
        self.annotate(DESIRED_REPLICAS, Some(&limits.replicas.to_string()));
        self.annotate(MAX_REPLICAS, Some(&limits.recorded_maximum().to_string()));
    }

    pub(super) fn annotate(&mut self, key: &str, value: Option<&str>) {
        change(&mut self.set.metadata.annotations, key, value);
    }

    pub(super) fn label(&mut self, key: &str, value: Option<&str>) {
        change(&mut self.set.metadata.labels, key, value);
    }

    /// Returns its replicas before and after.
    pub(super) fn resized(&self) -> (i32, i32) {
        (self.before.map_or(0, |set| set.spec.replicas.max(0)), self.set.spec.replicas)
    }

    /// Returns the step that writes it.
    pub(super) fn step(&self) -> Option<Step> {
        let Some(before) = self.before else {
            return Some(Step::CreateSet(Box::new(NewSet { set: self.set.clone() })));
        };
        let mut changes = merge::changes(before, &self.set)?;
        let (from, to) = self.resized();
        let change = if from == to { SetChange::Update } else { SetChange::Scale { from, to } };
        // Zero replicas are omitted when a MachineSet is serialized, and a missing field cannot be scaled by others.
        if let Some(spec) = changes.get_mut("spec").and_then(|spec| spec.as_object_mut()).filter(|_| from != to) {
            spec.insert("replicas".to_owned(), json!(to));
        }
        Some(Step::Set(SetEdit {
            name: self.name().to_owned(),
            uid: before.uid(),
            resource_version: None,
            change,
            changes,
        }))
    }

    /// Returns the Event about a change of its replicas.
    pub(super) fn event(&self) -> Option<Step> {
        let (from, to) = self.resized();
        let message = match from.cmp(&to) {
            Ordering::Less => messages::scaled_up(self.name(), to),
            Ordering::Greater => messages::scaled_down(self.name(), to),
            Ordering::Equal => return None,
        };
        Some(Step::EmitEvent(Event { event_type: EventType::Normal, reason: mcm::SCALING_MACHINE_SET, message }))
    }
}

/// All MachineSets of a MachineDeployment.
#[derive(Clone, Debug, Default)]
pub(super) struct Sets<'a> {
    /// The one of the current template.
    pub(super) new: Option<Draft<'a>>,
    /// All others, oldest first.
    pub(super) old: Vec<Draft<'a>>,
}

impl<'a> Sets<'a> {
    pub(super) fn all(&self) -> impl Iterator<Item = &Draft<'a>> {
        self.old.iter().chain(&self.new)
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Draft<'a>> {
        self.old.iter_mut().chain(&mut self.new)
    }

    pub(super) fn sum(&self, of: impl Fn(&Draft<'a>) -> i32) -> i32 {
        total(self.all().map(of))
    }

    pub(super) fn old_size(&self) -> i32 {
        total(self.old.iter().map(Draft::size))
    }

    pub(super) fn new_size(&self) -> i32 {
        self.new.as_ref().map_or(0, Draft::size)
    }

    /// Returns whether a rollout is in progress: an old MachineSet has or wants Machines.
    pub(super) fn rolling(&self) -> bool {
        self.old.iter().any(Draft::is_populated)
    }

    /// Returns the largest possible size of one MachineSet within the limit on all Machines that are not being deleted.
    pub(super) fn maximum_for(&self, name: &str, most: i32) -> i32 {
        most.saturating_sub(total(self.all().filter(|set| set.name() != name).map(Draft::held)))
    }

    /// Returns the writes in an order in which an interrupted reconcile results in too few Machines rather than too
    /// many.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut sets: Vec<_> = self.all().collect();
        sets.sort_by_key(|set| WriteOrder::of(set));
        let written = |set: &Draft<'_>| set.step().map(|step| once(step).chain(set.event()));
        sets.into_iter().filter_map(written).flatten().collect()
    }
}

/// Order in which the MachineSets of a MachineDeployment are written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WriteOrder {
    /// Its replicas are raised to the Machines that it still has: it creates none, and would lose some if it were not
    /// written.
    Keep,
    /// It is scaled down or stays.
    Shrink,
    /// It creates Machines.
    Grow,
}

impl WriteOrder {
    fn of(set: &Draft<'_>) -> Self {
        let (from, to) = set.resized();
        match to.cmp(&from) {
            Ordering::Greater if to <= set.live() => Self::Keep,
            Ordering::Greater => Self::Grow,
            Ordering::Less | Ordering::Equal => Self::Shrink,
        }
    }
}

/// Sort key by age and name, so that reconciles agree on the oldest.
pub(super) fn age(set: &MachineSet) -> (Option<Timestamp>, &str) {
    (set.created_at(), set.name())
}

/// Returns whether the Machine is being deleted.
pub(super) fn is_terminating(machine: &Machine) -> bool {
    machine.is_deleting() || *machine.phase() == MachinePhase::Terminating
}

/// Returns the number of Failed Machines that are preserved and therefore deleted last by their MachineSet.
pub(super) fn preserved(machines: &[SeenMachine<'_>], now: Timestamp) -> i32 {
    let is_kept = |machine: &Machine| {
        let current = &machine.status.current_status;
        current.phase == MachinePhase::Failed
            && current.preserve_expiry_time.is_some_and(|expiry| expiry.timestamp() > now)
    };
    count(machines.iter().filter(|seen| !is_terminating(seen.machine) && is_kept(seen.machine)).count())
}

/// Returns the number of available Machines, counted on the Machines themselves.
pub(super) fn available(seen: &SeenSet<'_>, policy: &Policy, now: Timestamp) -> i32 {
    let is_available = |machine| {
        let member = Member { machine, node: Presence::Absent };
        available_at(seen.set, &member, policy).is_some_and(|at| at <= now)
    };
    count(seen.machines.iter().filter(|seen| is_available(seen.machine)).count())
}

/// Returns the sum of replicas, which saturates at the maximum, because users may write any number.
pub(super) fn total(replicas: impl Iterator<Item = i32>) -> i32 {
    replicas.fold(0, i32::saturating_add)
}

/// The API counts Machines in 32 bits.
pub(super) fn count(machines: usize) -> i32 {
    i32::try_from(machines).unwrap_or(i32::MAX)
}

fn change(map: &mut TextMap, key: &str, value: Option<&str>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(key),
    };
}
