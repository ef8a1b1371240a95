//! The sets of a deployment as they are to be.
//!
//! A reconcile may want several things of one set: another size, a newer revision, a marker less. Each rule changes a copy, and at the end
//! every set that differs from what was seen is written once. So no rule has to know which others spoke before it, and no two writes
//! of one reconcile can contradict each other.

use std::cmp::Ordering;
use std::iter::once;

use api::names::annotations::{DESIRED_REPLICAS, MAX_REPLICAS};
use api::names::events::{messages, reference};
use api::names::labels;
use api::{Machine, MachinePhase, MachineSet, Object, TextMap, merge};
use jiff::Timestamp;
use serde_json::json;

use super::limits::Limits;
use super::step::{NewSet, SetChange, SetEdit, Step};
use super::{SeenMachine, SeenSet};
use crate::machineset::{Member, available_at};
use crate::{Event, EventType, Policy, Presence};

/// One set, and what is to become of it.
#[derive(Clone, Debug)]
pub(super) struct Draft<'a> {
    /// As it was seen; `None` for one that is yet to be made.
    pub(super) before: Option<&'a MachineSet>,
    /// As it is to be.
    pub(super) set: MachineSet,
    /// Its machines, as far as they can be read.
    pub(super) machines: &'a [SeenMachine<'a>],
    /// How many more it has that cannot be read.
    pub(super) unseen: usize,
    /// How many of its machines have failed and are preserved. A set deletes these last.
    pub(super) preserved: i32,
    /// How many of its machines are available now. Its status may be behind: it is written in steps of up to a fifth.
    pub(super) available: i32,
}

impl Draft<'_> {
    pub(super) fn name(&self) -> &str {
        self.set.name()
    }

    /// Someone deleted it: whatever its size says, all its machines go.
    pub(super) fn is_leaving(&self) -> bool {
        self.set.is_deleting()
    }

    /// How many machines it is to have.
    pub(super) fn size(&self) -> i32 {
        if self.is_leaving() { 0 } else { self.set.spec.replicas.max(0) }
    }

    pub(super) fn is_active(&self) -> bool {
        self.size() > 0
    }

    /// How many of its machines are available and will be once it has its size. Of its places the preserved ones keep theirs to the
    /// last.
    pub(super) fn available(&self) -> i32 {
        let others = self.size().min(self.live()).saturating_sub(self.preserved).max(0);
        self.available.clamp(0, others)
    }

    /// How many machines it has that nobody has asked to leave.
    pub(super) fn live(&self) -> i32 {
        count(self.machines.iter().filter(|seen| !is_leaving(seen.machine)).count() + self.unseen)
    }

    /// How many machines it has, those leaving included; the latest of three witnesses, because each may be behind.
    pub(super) fn present(&self) -> i32 {
        count(self.machines.len() + self.unseen).max(self.set.status.replicas).max(self.size())
    }

    /// How many live machines it has or may make at any moment.
    pub(super) fn held(&self) -> i32 {
        if self.makes_none() { self.live() } else { self.live().max(self.size()) }
    }

    /// Whether an in-place roll-out has forbidden it to make machines, and its controller can know that.
    pub(super) fn makes_none(&self) -> bool {
        let forbidden = |set: &MachineSet| set.label(labels::SCALE_UP_DISABLED).is_some();
        self.before.is_some_and(forbidden) && forbidden(&self.set)
    }

    /// Whether it wants or has machines.
    pub(super) fn is_populated(&self) -> bool {
        self.present() > 0
    }

    /// The number in one of its annotations.
    pub(super) fn number(&self, annotation: &str) -> Option<i32> {
        self.set.annotation(annotation)?.parse().ok()
    }

    /// Gives it a size, and notes the deployment's numbers at that time. A size that stays writes nothing.
    pub(super) fn resize(&mut self, to: i32, limits: &Limits) {
        if self.size() != to && !self.is_leaving() {
            self.set.spec.replicas = to;
            self.note(limits);
        }
    }

    /// Notes the deployment's numbers, by which a later change of them is noticed.
    pub(super) fn note(&mut self, limits: &Limits) {
        self.annotate(DESIRED_REPLICAS, Some(&limits.replicas.to_string()));
        self.annotate(MAX_REPLICAS, Some(&limits.booked_most().to_string()));
    }

    pub(super) fn annotate(&mut self, key: &str, value: Option<&str>) {
        change(&mut self.set.metadata.annotations, key, value);
    }

    pub(super) fn label(&mut self, key: &str, value: Option<&str>) {
        change(&mut self.set.metadata.labels, key, value);
    }

    /// The size it had, and has now.
    pub(super) fn resized(&self) -> (i32, i32) {
        (self.before.map_or(0, |set| set.spec.replicas.max(0)), self.set.spec.replicas)
    }

    /// The write that brings it about.
    pub(super) fn step(&self) -> Option<Step> {
        let Some(before) = self.before else {
            return Some(Step::CreateSet(Box::new(NewSet { set: self.set.clone() })));
        };
        let mut changes = merge::changes(before, &self.set)?;
        let (from, to) = self.resized();
        let change = if from == to { SetChange::Update } else { SetChange::Scale { from, to } };
        // Zero is left out when a set is written, and a size that is not there cannot be scaled by others.
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

    /// What people are told of it.
    pub(super) fn event(&self) -> Option<Step> {
        let (from, to) = self.resized();
        let message = match from.cmp(&to) {
            Ordering::Less => messages::scaled_up(self.name(), to),
            Ordering::Greater => messages::scaled_down(self.name(), to),
            Ordering::Equal => return None,
        };
        Some(Step::Tell(Event { event_type: EventType::Normal, reason: reference::SCALING_MACHINE_SET, message }))
    }
}

/// All sets of a deployment.
#[derive(Clone, Debug, Default)]
pub(super) struct Sets<'a> {
    /// The one made from the current template.
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

    /// A roll-out runs as long as an old set wants or has machines, ready or not.
    pub(super) fn rolling(&self) -> bool {
        self.old.iter().any(Draft::is_populated)
    }

    /// How large one set may become at most, so that all live machines together stay within the limit whatever the others do.
    pub(super) fn room_for(&self, name: &str, most: i32) -> i32 {
        most.saturating_sub(total(self.all().filter(|set| set.name() != name).map(Draft::held)))
    }

    /// The writes, in their turn, so that a reconcile that ends half-way leaves too few machines rather than too many.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut sets: Vec<_> = self.all().collect();
        sets.sort_by_key(|set| Turn::of(set));
        let written = |set: &Draft<'_>| set.step().map(|step| once(step).chain(set.event()));
        sets.into_iter().filter_map(written).flatten().collect()
    }
}

/// Which of the sets of a deployment is written first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// It is only given the size of what it still has: it makes no machine, and loses some if it is not written.
    Keeps,
    /// It gives machines up, or is not resized.
    Shrinks,
    /// It makes machines.
    Grows,
}

impl Turn {
    fn of(set: &Draft<'_>) -> Self {
        let (from, to) = set.resized();
        match to.cmp(&from) {
            Ordering::Greater if to <= set.live() => Self::Keeps,
            Ordering::Greater => Self::Grows,
            Ordering::Less | Ordering::Equal => Self::Shrinks,
        }
    }
}

/// By age, then by name: two reconciles agree on who is oldest.
pub(super) fn age(set: &MachineSet) -> (Option<Timestamp>, &str) {
    (set.created_at(), set.name())
}

/// Someone asked for the machine's deletion.
pub(super) fn is_leaving(machine: &Machine) -> bool {
    machine.is_deleting() || *machine.phase() == MachinePhase::Terminating
}

/// How many of these machines have failed and are preserved, in the sense in which a set deletes preserved machines last.
pub(super) fn preserved(machines: &[SeenMachine<'_>], now: Timestamp) -> i32 {
    let is_kept = |machine: &Machine| {
        let current = &machine.status.current_status;
        current.phase == MachinePhase::Failed
            && current.preserve_expiry_time.is_some_and(|expiry| expiry.timestamp() > now)
    };
    count(machines.iter().filter(|seen| !is_leaving(seen.machine) && is_kept(seen.machine)).count())
}

/// How many machines of this set are available, counted on the machines themselves.
pub(super) fn available(seen: &SeenSet<'_>, policy: &Policy, now: Timestamp) -> i32 {
    let is_available = |machine| {
        let member = Member { machine, node: Presence::Absent };
        available_at(seen.set, &member, policy).is_some_and(|at| at <= now)
    };
    count(seen.machines.iter().filter(|seen| is_available(seen.machine)).count())
}

/// A sum of replicas. Each is a number that somebody wrote, so that together they may be more than the largest there is; then it is
/// that one, in every build.
pub(super) fn total(replicas: impl Iterator<Item = i32>) -> i32 {
    replicas.fold(0, i32::saturating_add)
}

/// Machines are counted in 32 bits on the wire.
pub(super) fn count(machines: usize) -> i32 {
    i32::try_from(machines).unwrap_or(i32::MAX)
}

fn change(map: &mut TextMap, key: &str, value: Option<&str>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(key),
    };
}
