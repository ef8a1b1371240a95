//! The limits of rollouts: pause, shares, availability, Recreate and in-place updates.

use api::names::{annotations, labels};
use serde_json::Value;

use super::machines::{Deployment, Machine, Set, annotation, count, label};
use super::{DEPLOYMENTS, Invariant, MACHINES, Oracle, SETS, Write, is_deleting, number, owner};

/// Checks the replicas of a MachineSet that is created or changed.
pub(super) fn of_set(oracle: &Oracle, write: &Write<'_>) -> Option<(Invariant, String)> {
    let after = write.after.filter(|set| !is_deleting(set))?;
    let name = owner(after);
    let deployment = oracle.machines.deployments.get(name).filter(|deployment| !deployment.deleting)?;
    let resize = Resize {
        oracle,
        name: write.name,
        pool: name,
        deployment,
        seen: oracle.shown.oldest(DEPLOYMENTS, oracle.now),
        from: write.before.map(|set| number(set, "/spec/replicas")),
        to: number(after, "/spec/replicas"),
        desired_replicas: desired_replicas(after),
        is_changed: write.before.is_none_or(|before| {
            desired_replicas(before) != desired_replicas(after) || replicas(before) != replicas(after)
        }),
    };
    resize.paused().or_else(|| resize.shares()).or_else(|| resize.available())
}

fn replicas(set: &Value) -> i64 {
    number(set, "/spec/replicas")
}

/// Returns the last replicas of the MachineDeployment that were written to the annotation of a MachineSet.
pub(super) fn desired_replicas(set: &Value) -> Option<i64> {
    annotation(set, annotations::DESIRED_REPLICAS).parse().ok()
}

/// A write of the replicas of a MachineSet.
struct Resize<'a> {
    oracle: &'a Oracle,
    name: &'a str,
    pool: &'a str,
    deployment: &'a Deployment,
    /// The revision of MachineDeployments on which it may have been decided.
    seen: u64,
    /// Replicas before the write; `None` if the MachineSet is created.
    from: Option<i64>,
    to: i64,
    desired_replicas: Option<i64>,
    is_changed: bool,
}

impl Resize<'_> {
    /// The other sets of the MachineDeployment that are not being deleted, with their replicas.
    fn others(&self) -> impl Iterator<Item = (&String, &Set, i64)> {
        let sets = self.oracle.machines.sets.iter();
        sets.filter(|(name, set)| set.deployment == self.pool && *name != self.name).filter_map(|(name, set)| {
            let spec = set.specs.now().filter(|spec| !spec.deleting)?;
            Some((name, set, spec.replicas))
        })
    }

    fn others_replicas(&self) -> i64 {
        self.others().map(|(.., replicas)| replicas).sum()
    }

    /// Returns the replicas before the write if the MachineSet is scaled down by a component that knows its own writes.
    fn shrinks(&self) -> Option<i64> {
        self.from.filter(|from| self.to < *from && self.oracle.is_clear())
    }

    fn paused(&self) -> Option<(Invariant, String)> {
        let paused = &self.deployment.paused;
        if paused.began_at() > self.seen || !paused.since(self.seen).all(|paused| *paused) {
            return None;
        }
        let (name, pool) = (self.name, self.pool);
        if self.from.is_none() {
            return Some((Invariant::Paused, format!("set {name} is created while deployment {pool} is paused")));
        }
        let from = self.shrinks()?;
        let (max, wanted) =
            (min(self.deployment.max_machines.since(self.seen)), min(self.deployment.replicas.since(self.seen)));
        let is_one_of_several = self.others().any(|(.., replicas)| replicas > 0);
        let is_saturated = self.others().any(|(.., replicas)| replicas >= wanted) || from >= wanted;
        let sum = from + self.others_replicas();
        (is_one_of_several && !is_saturated && sum <= max).then(|| {
            let message = format!(
                "set {name} is scaled down from {from} to {} while deployment {pool} is paused and has {sum} of at most {max}",
                self.to
            );
            (Invariant::Paused, message)
        })
    }

    fn shares(&self) -> Option<(Invariant, String)> {
        if !self.deployment.is_rolling() || !self.is_changed || !self.oracle.is_clear() {
            return None;
        }
        let desired_replicas = self.desired_replicas.filter(|desired_replicas| {
            self.deployment.replicas.since(self.seen).any(|known| known == desired_replicas)
        })?;
        let mut active = self.others().filter(|(.., replicas)| *replicas > 0).peekable();
        active.peek()?;
        if self.to == 0 || active.any(|(_, set, _)| set.desired_replicas != Some(desired_replicas)) {
            return None;
        }
        // The limit that belongs to the recorded number, not to one of the numbers before.
        let limits = self.deployment.max_machines.since(self.seen).zip(self.deployment.replicas.since(self.seen));
        let surge = limits.map(|(max, replicas)| max - replicas).max().unwrap_or_default();
        let (sum, max) = (self.to + self.others_replicas(), desired_replicas + surge);
        (sum > max).then(|| {
            let message = format!(
                "the sets of deployment {} know the new number {desired_replicas}, but have {sum} replicas of at most {max}",
                self.pool
            );
            (Invariant::ScalingShares, message)
        })
    }

    fn available(&self) -> Option<(Invariant, String)> {
        let from = self.shrinks().filter(|_| self.deployment.is_rolling())?;
        let machines = &self.oracle.machines;
        if machines.of_deployment(self.pool).any(|(_, machine)| machine.preserve_requested) {
            return None;
        }
        let rolls =
            |(name, _, replicas): (&String, &Set, i64)| replicas > 0 || machines.living_of_set(name).count() > 0;
        if !self.others().any(rolls) {
            return None;
        }
        let min = min(self.deployment.replicas.since(self.seen)) - self.deployment.unavailable;
        // The component may have acted on any state since the last delivered one. A step that is correct for one of
        // them is no violation: a Machine that stopped running in between may be the one that is deleted.
        let is_wrong = |(before, after): (i64, i64)| after < before && after < min;
        let (generous, strict) = (self.left(from, Self::ran), self.left(from, Self::runs));
        if !is_wrong(generous) || !is_wrong(strict) {
            return None;
        }
        let (_, after) = generous;
        let message = format!(
            "set {} is scaled down from {from} to {}, which leaves {after} available machines of at least {min} of deployment {}",
            self.name, self.to, self.pool
        );
        Some((Invariant::Available, message))
    }

    /// The available Machines of the deployment before and after the set shrinks.
    fn left(&self, from: i64, running: fn(&Self, &str) -> i64) -> (i64, i64) {
        let left = |name: &str, replicas: i64| replicas.min(running(self, name));
        let others: i64 = self.others().map(|(name, _, replicas)| left(name, replicas)).sum();
        (others + left(self.name, from), others + left(self.name, self.to))
    }

    /// The Machines of a set that ran in any state since what was shown.
    fn ran(&self, set: &str) -> i64 {
        self.counted(set, |states| states.contains(&true))
    }

    /// The Machines of a set that ran in all states since what was shown.
    fn runs(&self, set: &str) -> i64 {
        self.counted(set, |states| !states.contains(&false))
    }

    fn counted(&self, set: &str, is_counted: fn(&[bool]) -> bool) -> i64 {
        let seen = self.oracle.shown.oldest(MACHINES, self.oracle.now);
        let runs = self.oracle.machines.shown_of_set(set, seen).filter(|machine| {
            let is_running = |phase: &String| ["Running", "Available"].contains(&phase.as_str());
            let states: Vec<bool> = machine.phase.since(seen).map(is_running).collect();
            machine.deleting.since(seen).any(|deleting| !deleting) && is_counted(&states)
        });
        count(runs.count())
    }
}

fn min<'a>(values: impl Iterator<Item = &'a i64>) -> i64 {
    values.min().copied().unwrap_or_default()
}

/// Checks the creation of a Machine of a MachineDeployment with the strategy Recreate: no old Machine may exist.
pub(super) fn recreation(oracle: &Oracle, write: &Write<'_>) -> Option<(Invariant, String)> {
    let machines = &oracle.machines;
    let name = owner(write.after?);
    let set = machines.sets.get(name)?;
    let deployment =
        machines.deployments.get(&set.deployment).filter(|deployment| deployment.strategy == "Recreate")?;
    // The Machines that existed when the set was given replicas: until then it creates none.
    let given = set.specs.first_since(oracle.shown.oldest(SETS, oracle.now), |spec| spec.replicas > 0)?;
    let seen = oracle.shown.oldest(DEPLOYMENTS, oracle.now).min(given);
    if deployment.paused.since(seen).any(|paused| *paused) {
        return None;
    }
    let shown = oracle.shown.oldest(MACHINES, oracle.now).min(given);
    let mut old = machines.of_deployment(&set.deployment).filter(|(_, machine)| {
        machine.rank.began_at() <= shown && machine.rank.since(shown).all(|rank| !rank.is_of(name))
    });
    let (old, machine) = old.next()?;
    let message =
        format!("machine {} of set {name} is created while machine {old} of set {} exists", write.name, machine.set);
    Some((Invariant::Recreate, message))
}

/// Checks the selection of a Node for an in-place update: the limit must not be reached.
pub(super) fn selection(oracle: &Oracle, write: &Write<'_>) -> Option<(Invariant, String)> {
    let is_selected = |node: &Value| !label(node, labels::SELECTED_FOR_UPDATE).is_empty();
    if write.before.is_some_and(is_selected) || !write.after.is_some_and(is_selected) {
        return None;
    }
    let machines = &oracle.machines;
    let machine = machines.known.values().find(|machine| machine.node == write.name)?;
    let pool = &machines.sets.get(&machine.set)?.deployment;
    let limit = machines.deployments.get(pool).filter(|deployment| deployment.strategy == "InPlaceUpdate")?.unavailable;
    let (nodes, seen) = (oracle.shown.oldest("nodes", oracle.now), oracle.shown.oldest(MACHINES, oracle.now));
    // The update of a Machine that is not available takes none away.
    let is_available = |phase: &String| ["Running", "Available"].contains(&phase.as_str());
    if !machine.phase.since(seen).all(is_available) {
        return None;
    }
    let is_selected = |other: &Machine| {
        other.node != write.name
            && !other.deleting.since(seen).any(|deleting| *deleting)
            && oracle.nodes.is_known_as_selected(&other.node, nodes, write.writer, oracle.is_clear())
    };
    let others: Vec<&Machine> =
        machines.of_deployment(pool).map(|(_, other)| other).filter(|other| is_selected(other)).collect();
    // Machines beyond the replicas of their set are about to be deleted.
    let sets = machines.sets.iter().filter(|(_, set)| set.deployment == *pool);
    let staying = sets.map(|(name, set)| {
        let replicas = set.specs.now().map_or(0, |spec| spec.replicas);
        count(others.iter().filter(|other| other.set == *name).count()).min(replicas)
    });
    (staying.sum::<i64>() >= limit.max(1)).then(|| {
        let others: Vec<&str> = others.iter().map(|other| other.node.as_str()).collect();
        let message = format!(
            "node {} is selected for an update in addition to {others:?}, but deployment {pool} allows {limit}",
            write.name
        );
        (Invariant::InPlaceLimit, message)
    })
}
