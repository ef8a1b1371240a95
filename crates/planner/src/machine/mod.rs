//! Plans the next steps of one Machine.
//!
//! The lifecycle of a Machine is a sequence: its VM is created and recorded, and its Node joins. Later the Node is
//! drained, then the VM, the Node and the Machine are deleted. Anything can happen between two steps: the process
//! stops, a response is lost, the Machine is deleted in the middle, the driver reports another state. Therefore a
//! planner does not remember its last steps. Each reconcile observes the current state and returns the next steps.
//! Steps that are already done are visible in that state, and the plan of a Machine that needs no change is empty.
//!
//! A plan contains at most one driver call, always as its last step: later steps depend on its result.

mod barrier;
mod builder;
mod create;
mod delete;
mod diagnosis;
mod drain_in_place;
mod drain_view;
mod facts;
mod health;
mod in_place;
pub mod interest;
mod living;
mod node_lookup;
mod preserve;
mod reason;
mod retry;
mod shared_vm;
mod stage;
mod stale;
mod status;
mod step;
mod tokens;
mod vm;

use std::sync::Arc;

use api::view::NodeView;
use api::{Machine, MachineClass};
use jiff::Timestamp;

use crate::limiter::Capacity;
use crate::replacement_limit::Siblings;
use crate::safety::Outages;
use crate::token::TokenRecord;
use crate::{Awaited, Event, EventType, LookedFor, MachinePatch, Policy, Presence, Wake};

pub use barrier::{Barrier, BarrierFailure, NOT_KEPT, not_kept, set_up_by};
pub use delete::removal_failed;
pub use drain_view::{DrainView, Watching};
pub use facts::{Facts, creation_timeout};
pub use node_lookup::{LookupFailure, NodeLookup};
pub use reason::Reason;
pub use stage::{Stage, stage};
pub use status::StatusWrite;
pub use step::{DrainNeed, Plan, Step};
pub use tokens::removal_retry as token_removal_retry;
pub use vm::{Call, CallUnderWay, Failure, Initialized, Origin, Vm, VmState};

/// The input of the decision.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The Machine.
    pub machine: &'a Machine,
    /// The MachineClass that the Machine names.
    pub class: Presence<&'a MachineClass>,
    /// Whether this process has a driver for the provider of the MachineClass.
    pub driver: &'a DriverState,
    /// Whether a MachineClass that is absent from the cache was looked up.
    pub class_looked_for: LookedFor,
    /// Whether the Secret of the MachineClass can be used.
    pub secret: &'a SecretState,
    /// The target cluster, if there is one.
    pub target: Target<'a>,
    /// The last state of the VM that the driver reported.
    pub vm: &'a VmState,
    /// The driver call for this Machine that has not ended, if there is one.
    pub call_under_way: Option<CallUnderWay>,
    /// The Node that already has the name under which the VM will register, while the Machine is not linked to a Node.
    pub namesake: Presence<&'a NodeView>,
    /// The other Machines of the MachineDeployment. Counted only if the Machine [is a
    /// candidate](crate::replacement_limit::is_candidate).
    pub siblings: Siblings,
    /// Whether the MachineClass has capacity for another VM, as last reported by the driver.
    pub capacity: Capacity<'a>,
    /// The state of the bootstrap token.
    pub token: TokenRecord,
    /// The other Machines that name the same Node.
    pub rivals: &'a [Arc<Machine>],
    /// The other Machines whose `spec.providerID` is the VM of this Machine, recorded or reported by the driver.
    pub vm_rivals: &'a [Arc<Machine>],
    /// Whether a rollout of the MachineDeployment is in progress.
    pub rollout: Rollout,
    /// Whether the observed state is reliable.
    pub connectivity: Connectivity,
    /// Periods in which it was not. They do not count towards deadlines ([`Outages::deadline`]).
    pub outages: &'a Outages,
    /// Timeouts and limits.
    pub policy: &'a Policy,
    /// The time of the decision.
    pub now: Timestamp,
}

/// The cluster that the Machine's Node joins.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// There is no target cluster: VMs are created and deleted, and no Node joins.
    None,
    /// There is a target cluster.
    Cluster {
        /// The Node of this Machine, as [`node::select`](crate::node::select) selects it.
        node: Presence<&'a NodeView>,
        /// The last response of the API server about a Node that is not in the cache.
        node_lookup: &'a NodeLookup,
        /// The drain of that Node, if one is requested.
        drain_view: &'a DrainView,
    },
}

/// Whether the API servers were reachable recently. While they are not, a missing heartbeat is no evidence that a Node
/// is unhealthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Connectivity {
    /// The API servers are reachable.
    #[default]
    Connected,
    /// The API servers were unreachable for longer than the freeze timeout. No VM is created and no Machine is marked
    /// Failed.
    Frozen,
}

/// Whether the Secret data for the driver is available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretState {
    /// The data is merged and complete.
    Ready,
    /// The Secret was requested and is not available yet.
    Fetching,
    /// The Secret cannot be used. The text names the cause and the fix.
    Unusable(String),
}

/// Whether this process has a driver for the provider of the MachineClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverState {
    /// It has.
    Served,
    /// It has none, so the state of the VM cannot be queried. The text lists the drivers of this process.
    Missing(String),
}

/// Whether a rollout of the Machine's MachineDeployment is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Rollout {
    /// Unknown to this process. The MachineDeployment controller writes the rollout's changes of Nodes.
    #[default]
    Unknown,
    /// In progress, and the cluster-autoscaler must not scale down its Nodes. For a new Node the annotation is written
    /// together with the other changes.
    InProgress,
}

/// Plans the next steps of a Machine.
#[must_use]
pub fn plan(seen: &Observed<'_>) -> Plan {
    let facts = Facts::of(seen.machine);
    tokens::add_token_removal(seen, &facts, next_steps(seen, &facts))
}

fn next_steps(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    if facts.deleting {
        return delete::plan(seen, facts);
    }
    if let Some(finalizers) = facts.with_finalizer() {
        let patch = MachinePatch { finalizers: Some(finalizers), ..MachinePatch::default() };
        return Plan::of(vec![Step::Patch(patch)], Wake::Again, Reason::FinalizerMissing);
    }
    if seen.connectivity == Connectivity::Frozen {
        return Plan::wait(Wake::On(Awaited::Connectivity), Reason::Frozen);
    }
    if let Some(plan) = living::correct_label(seen, facts) {
        return plan;
    }
    if let Some(plan) = living::follow_node(seen) {
        return plan;
    }
    let errors = api::validation::machine(seen.machine);
    if !errors.is_empty() {
        return refusal(
            seen,
            Reason::Invalid(api::validation::joined(&errors)),
            api::names::events::millwright::INVALID,
            Awaited::Change,
        );
    }
    if stale::is_marked_failed(seen.machine, facts) {
        return stale::plan(seen);
    }
    if create::is_due(facts) && !health::has_healthy_node(seen, facts) {
        return create::plan(seen, facts);
    }
    living::plan(seen, facts)
}

/// Waits if the MachineClass is not in the cache. Its absence is conclusive only after a list that would contain it was
/// completed.
fn awaits_class(seen: &Observed<'_>) -> Option<Plan> {
    if !matches!(seen.class, Presence::Absent) || seen.class_looked_for == LookedFor::Yes {
        return None;
    }
    let at = facts::later(seen.now, seen.policy.short_retry);
    let because = Reason::ClassNotCached(seen.machine.spec.class.name.clone());
    Some(Plan::wait(Wake::By { awaited: Awaited::Class, at }, because))
}

/// Reports invalid input once, in the status and as an Event, and waits for a correction.
fn refusal(seen: &Observed<'_>, because: Reason, event: &'static str, awaited: Awaited) -> Plan {
    let write = StatusWrite::invalid_input(&because.to_string(), seen.now);
    let mut steps = Vec::new();
    if write.is_new(seen.machine, seen.policy, seen.now) {
        steps.push(Step::Status(write));
        steps.push(Step::EmitEvent(Event {
            event_type: EventType::Warning,
            reason: event,
            message: because.to_string(),
        }));
    }
    let wake = Wake::By { awaited, at: facts::later(seen.now, seen.policy.long_retry) };
    Plan::of(steps, wake, because)
}

#[cfg(test)]
mod tests;
