//! Decides what to do next with a MachineDeployment, and why.
//!
//! A MachineDeployment does not create Machines. It creates MachineSets, sets their replicas, and rolls out a new
//! template by scaling up the new MachineSet and scaling down the old ones within the user's limits. At any time the
//! replicas may change (the cluster-autoscaler scales during a rollout), and so may the template, the strategy, the
//! pause and the rollback request. So a reconcile stores no progress of a rollout. Which MachineSet is new follows from
//! the templates, and the progress from the MachineSets. Each reconcile does what is allowed next.
//!
//! All rules of a reconcile change one draft ([`draft`]). At its end, every object that differs from its observed state
//! is written once.

mod backfill;
mod builder;
mod claim;
mod deletion;
mod draft;
mod hash;
mod history;
mod in_place;
pub mod interest;
mod invalid;
mod limits;
mod nodes;
mod policy;
mod reason;
mod recreate;
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

pub use hash::TemplateHash;
pub use limits::Limits;
pub use policy::{AutoscalerGuard, DeploymentPolicy, OvershootCount};
pub use reason::Reason;
pub use requested_deletions::machines_named;
pub use step::{
    DeploymentEdit, MachineChange, MachineEdit, NewSet, Plan, Purpose, SetChange, SetEdit, StatusEdit, Step,
};
pub use template::same_template;

use builder::PlanBuilder;
use requested_deletions::RequestedDeletions;

/// Input of the decision.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The MachineDeployment.
    pub deployment: &'a MachineDeployment,
    /// The MachineSets that it owns, and those without a controller.
    pub sets: &'a [SeenSet<'a>],
    /// The names of all MachineSets of the namespace. A new MachineSet needs another name.
    pub names_in_use: &'a BTreeSet<String>,
    /// MachineSets that it owns and that cannot be decoded.
    pub undecodable_sets: &'a [UndecodableSet],
    /// The Machines whose names [`machines_named`] returns.
    pub named: &'a BTreeMap<String, Named<'a>>,
    /// Whether there is a target cluster. Without one, Machines have no Nodes.
    pub has_target_cluster: bool,
    /// Settings.
    pub policy: &'a Policy,
    /// When this process last wrote its status.
    pub reported: Option<Timestamp>,
    /// The time of the decision.
    pub now: Timestamp,
}

/// A MachineSet and its Machines.
#[derive(Clone, Debug)]
pub struct SeenSet<'a> {
    /// The MachineSet, with its current counts, written or not.
    pub set: &'a MachineSet,
    /// The Machines that it owns.
    pub machines: Vec<SeenMachine<'a>>,
    /// Number of further Machines: those that cannot be decoded, and those with a pending create. They count as
    /// present.
    pub unseen: usize,
}

/// A MachineSet that cannot be decoded. It counts as present. Its template and size are unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndecodableSet {
    /// Name of the MachineSet.
    pub name: String,
    /// Why it cannot be decoded.
    pub error: String,
}

/// A Machine and its Node.
#[derive(Clone, Copy, Debug)]
pub struct SeenMachine<'a> {
    /// The Machine.
    pub machine: &'a Machine,
    /// Its Node, if it has joined and can be decoded.
    pub node: Option<&'a NodeView>,
}

/// A Machine that is named for deletion.
#[derive(Clone, Copy, Debug)]
pub enum Named<'a> {
    /// The Machine exists.
    Found(&'a Machine),
    /// The Machine exists, but cannot be decoded.
    Undecodable,
    /// The Machine is not in the cache, which may be behind.
    NotCached,
    /// The Machine does not exist according to the API server.
    NotFound,
}

/// Decides what to do next with a MachineDeployment.
#[must_use]
pub fn plan(seen: &Observed<'_>) -> Plan {
    let claim = claim::claim(seen);
    if seen.deployment.is_deleting() {
        return deletion::plan(seen, &claim);
    }
    if let Some(plan) = invalid::plan(seen) {
        return plan;
    }
    let (annotations, marks, dropped) = match requested_deletions::read(seen, &claim.sets) {
        RequestedDeletions::LookUp(names) => {
            return Plan::of(vec![Step::LookUpMachines(names)], Wake::Again, Reason::MachinesNotCached);
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
    revision::update_new_set(&mut builder);
    let spec = &seen.deployment.spec;
    if spec.paused {
        scale::apply(&mut builder);
        history::trim(&mut builder);
        return builder.finish(status::Report::Plain, Reason::Paused);
    }
    if let Some(rollback) = &spec.rollback_to {
        return rollback::plan(builder, rollback.revision);
    }
    if scale::is_due(&builder) && scale::apply(&mut builder) == scale::Resized::Complete {
        let to = builder.limits.replicas;
        return builder.finish(status::Report::Plain, Reason::Resized { to });
    }
    let because = builder.roll();
    builder.finish(status::Report::Rollout, because)
}

/// Returns the plan that reports a failed creation of the new MachineSet.
#[must_use]
pub fn creation_failed(seen: &Observed<'_>, set: &str, error: &str) -> Plan {
    status::creation_failed(seen, set, error)
}

#[cfg(test)]
mod tests;
