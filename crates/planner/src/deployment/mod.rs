//! What to do next with one deployment, and why.
//!
//! A deployment never makes a machine. It makes sets, says how many machines each is to have, and takes a fleet from one template to
//! the next by letting the new set grow and the old ones shrink, never leaving the limits the user gave. Everything in between may
//! change under its hands: the replicas (the autoscaler scales during a roll-out), the template (a second change before the first is
//! done), the strategy, a pause, a wish to go back. So no reconcile remembers where a roll-out stands. Which set is new is read from the
//! templates, how far it got from the sets, and each reconcile answers with whatever is allowed next.
//!
//! All rules of a reconcile change one draft ([`draft`]); what differs from what was seen is written at its end, each object once.

mod backfill;
mod builder;
mod claim;
mod deletion;
mod draft;
mod fleet_policy;
mod hash;
mod history;
mod in_place;
pub mod interest;
mod limits;
mod nodes;
mod reason;
mod recreate;
mod refusal;
mod requested_deletions;
mod revision;
mod rollback;
mod rolling;
mod scale;
mod status;
mod step;
mod template;

use std::collections::{BTreeMap, BTreeSet};

use api::view::NodeView;
use api::{Machine, MachineDeployment, MachineSet, Object};
use jiff::Timestamp;

use crate::{Awaited, Policy, Wake};

pub use fleet_policy::{AutoscalerGuard, FleetPolicy, OvershootCount};
pub use hash::TemplateHash;
pub use limits::Limits;
pub use reason::Reason;
pub use requested_deletions::machines_named;
pub use step::{
    DeploymentEdit, MachineChange, MachineEdit, NewSet, Plan, Purpose, SetChange, SetEdit, StatusEdit, Step,
};
pub use template::same_template;

use builder::PlanBuilder;
use requested_deletions::RequestedDeletions;

/// Everything the decision may look at.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The deployment itself.
    pub deployment: &'a MachineDeployment,
    /// The sets it owns, and those that nobody owns.
    pub sets: &'a [SeenSet<'a>],
    /// The names of all sets of the namespace, readable or not: a new one needs another.
    pub names_in_use: &'a BTreeSet<String>,
    /// Sets it owns that cannot be decoded.
    pub undecodable_sets: &'a [UndecodableSet],
    /// The machines that [`machines_named`] names.
    pub named: &'a BTreeMap<String, Named<'a>>,
    /// Whether nodes join a cluster that we see.
    pub target: TargetCluster,
    /// Limits and periods.
    pub policy: &'a Policy,
    /// When we last wrote its status; `None` if we have not.
    pub reported: Option<Timestamp>,
    /// The time of the decision.
    pub now: Timestamp,
}

/// A set and what it owns.
#[derive(Clone, Debug)]
pub struct SeenSet<'a> {
    /// The set, with what it has counted, written or not.
    pub set: &'a MachineSet,
    /// The machines it owns.
    pub machines: Vec<SeenMachine<'a>>,
    /// How many more there are or may be: those that cannot be read, and those that were asked for and that nobody has seen yet. They
    /// count as present.
    pub unseen: usize,
}

/// A set of the deployment that cannot be decoded. It counts as present, and its template and size are unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndecodableSet {
    /// Its name.
    pub name: String,
    /// Why it cannot be decoded.
    pub error: String,
}

/// A machine and its node.
#[derive(Clone, Copy, Debug)]
pub struct SeenMachine<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Its node, if it has joined and can be read.
    pub node: Option<&'a NodeView>,
}

/// What is known of a machine that someone named.
#[derive(Clone, Copy, Debug)]
pub enum Named<'a> {
    /// Here it is.
    Seen(&'a Machine),
    /// It is there, but nobody can read it.
    Unreadable,
    /// The cache does not know it. The cache may be behind.
    NotVisible,
    /// The API server says that it does not exist.
    Gone,
}

/// Whether there is a cluster that nodes join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetCluster {
    /// Millwright runs without one: machines have no nodes.
    None,
    /// There is one.
    Seen,
}

/// Decides what to do next with a deployment.
#[must_use]
pub fn plan(seen: &Observed<'_>) -> Plan {
    let claim = claim::claim(seen);
    if seen.deployment.is_deleting() {
        return deletion::plan(seen, &claim);
    }
    if let Some(refusal) = refusal::plan(seen) {
        return refusal;
    }
    let (annotations, marks, dropped) = match requested_deletions::read(seen, &claim.sets) {
        RequestedDeletions::Ask(names) => {
            return Plan::of(vec![Step::AskForMachines(names)], Wake::Again, Reason::UnknownMachinesNamed);
        }
        RequestedDeletions::Known { annotations, marks, dropped } => (annotations, marks, dropped),
    };
    let backfill = backfill::steps(seen, &claim.sets);
    let mut builder = PlanBuilder::begin(*seen, claim, &annotations, marks);
    builder.events.extend(dropped);
    if let Some((set, steps)) = backfill {
        let steps = builder.opening().into_iter().chain(steps).collect();
        return Plan::of(steps, Wake::On(Awaited::Sets), Reason::HashMissing(set));
    }
    revision::keep_up(&mut builder);
    let spec = &seen.deployment.spec;
    if spec.paused {
        scale::apply(&mut builder);
        history::trim(&mut builder);
        return builder.finish(status::Report::Plain, Reason::Paused);
    }
    if let Some(wish) = &spec.rollback_to {
        return rollback::plan(builder, wish.revision);
    }
    if scale::is_due(&builder) && scale::apply(&mut builder) == scale::Resized::Whole {
        let to = builder.limits.replicas;
        return builder.finish(status::Report::Plain, Reason::Resized { to });
    }
    let because = builder.roll();
    builder.finish(status::Report::Rollout, because)
}

/// What to write and tell when the new set could not be made.
#[must_use]
pub fn creation_failed(seen: &Observed<'_>, set: &str, error: &str) -> Plan {
    status::creation_failed(seen, set, error)
}

#[cfg(test)]
mod tests;
