//! What to do next with one machine, and why.
//!
//! A machine's life is a sequence: a VM is made, it is written down, its node joins; later the node is emptied, the VM
//! goes, the node goes, the machine goes. What makes it hard is that anything can happen between two steps: the process dies,
//! an answer is lost, the object is deleted half-way, the cloud is asked twice. So nothing here remembers what it did last.
//! Each reconcile looks at everything afresh and answers with the next steps; whatever was already done is seen, not recalled, and
//! planning a machine that needs nothing gives an empty plan.
//!
//! A plan holds at most one driver call, always as its last step: its outcome must be seen before anything follows from it.

mod barrier;
mod builder;
mod create;
mod delete;
mod diagnosis;
mod drain_in_place;
mod drain_view;
mod facts;
mod health;
mod hold;
mod in_place;
pub mod interest;
mod living;
mod node_lookup;
mod preserve;
mod reason;
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
use crate::{Awaited, Event, EventType, LookedFor, Policy, Presence, Wake};

pub use barrier::{Barrier, NOT_KEPT, Obstruction, not_kept, set_up_by};
pub use delete::removal_failed;
pub use drain_view::{DrainView, Watching};
pub use facts::{Facts, creation_timeout};
pub use node_lookup::{NodeLookup, Unanswered};
pub use reason::Reason;
pub use stage::{Stage, stage};
pub use status::StatusWrite;
pub use step::{DrainNeed, MachinePatch, Plan, Step};
pub use tokens::removal_retry as token_removal_retry;
pub use vm::{Call, CallUnderWay, Failure, Initialized, Origin, Vm, VmState};

/// Everything the decision may look at.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The machine itself.
    pub machine: &'a Machine,
    /// The class it names.
    pub class: Presence<&'a MachineClass>,
    /// Whether a driver of this process serves the class's provider.
    pub driver: &'a DriverState,
    /// Whether a class that is absent was looked for.
    pub class_looked_for: LookedFor,
    /// Whether the class's secret can be used.
    pub secret: &'a SecretState,
    /// Its place in the target cluster, if there is one.
    pub target: Target<'a>,
    /// What the cloud last said of its VM.
    pub vm: &'a VmState,
    /// The driver call about it that has not ended, if there is one.
    pub call_under_way: Option<CallUnderWay>,
    /// The node that already has the name under which the VM is about to register, while nobody has linked the two.
    pub namesake: Presence<&'a NodeView>,
    /// The other machines of its deployment; counted only if it [may ask](crate::replacement_limit::may_ask).
    pub siblings: Siblings,
    /// Whether its class has room for another VM, as far as the cloud has said.
    pub capacity: Capacity<'a>,
    /// What is known of its bootstrap token.
    pub token: TokenRecord,
    /// The other machines that name the same node.
    pub rivals: &'a [Arc<Machine>],
    /// The other Machines whose `spec.providerID` is the VM of this Machine, recorded or reported by the driver.
    pub vm_rivals: &'a [Arc<Machine>],
    /// Whether its deployment replaces its machines just now.
    pub rollout: RollOut,
    /// Whether what we see can be relied on.
    pub connectivity: Connectivity,
    /// When it could not be: time that counts against no deadline ([`Outages::deadline`]).
    pub outages: &'a Outages,
    /// Limits and periods.
    pub policy: &'a Policy,
    /// The time of the decision.
    pub now: Timestamp,
}

/// The cluster that the machine's node joins.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// Millwright runs without one: machines are made and deleted, nothing joins.
    None,
    /// There is one.
    Cluster {
        /// The Node of this Machine, as [`node::select`](crate::node::select) selects it.
        node: Presence<&'a NodeView>,
        /// What the API server itself said of it, if it was asked because the cache does not show it.
        node_lookup: &'a NodeLookup,
        /// What is known of the drain of that node, should it be asked for.
        drain_view: &'a DrainView,
    },
}

/// Whether we have seen the API servers lately. Who has been disconnected for too long must not decide that anybody is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Connectivity {
    /// We see.
    #[default]
    Connected,
    /// We have been disconnected for longer than the freeze timeout: nothing new is made and no machine is marked Failed.
    Frozen,
}

/// Whether the data that the driver needs is at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretState {
    /// Merged and complete.
    Ready,
    /// It was asked for and will come.
    Fetching,
    /// It cannot be used; the sentence says why and names the fix.
    Unusable(String),
}

/// Whether a driver of this process serves the provider that the class names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverState {
    /// One does.
    Served,
    /// None does, so no cloud can be asked about the machine; the sentence says which there are.
    Missing(String),
}

/// Whether the deployment of a machine replaces its machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RollOut {
    /// Not as far as this process knows. The deployment controller, here or elsewhere, sees to what a roll-out writes on nodes.
    #[default]
    NotKnown,
    /// It does, and the autoscaler is kept from its nodes: what a new node gets for that is written together with our marks.
    UnderWay,
}

/// Decides what to do next with a machine.
#[must_use]
pub fn plan(seen: &Observed<'_>) -> Plan {
    let facts = Facts::of(seen.machine);
    tokens::tidy(seen, &facts, next_steps(seen, &facts))
}

fn next_steps(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    if facts.deleting {
        return delete::plan(seen, facts);
    }
    if let Some(finalizers) = facts.with_our_finalizer() {
        let patch = MachinePatch { finalizers: Some(finalizers), ..MachinePatch::default() };
        return Plan::of(vec![Step::Patch(patch)], Wake::Again, Reason::FinalizerFirst);
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
            api::names::events::ours::INVALID,
            Awaited::Change,
        );
    }
    if stale::was_given_up(seen.machine, facts) {
        return stale::plan(seen);
    }
    if create::is_due(facts) && !health::has_joined_all_the_same(seen, facts) {
        return create::plan(seen, facts);
    }
    living::plan(seen, facts)
}

/// A class that the cache does not show may exist all the same, and nothing is concluded from its absence before a list that could
/// have shown it has come.
fn awaits_class(seen: &Observed<'_>) -> Option<Plan> {
    if !matches!(seen.class, Presence::Absent) || seen.class_looked_for == LookedFor::Yes {
        return None;
    }
    let at = facts::later(seen.now, seen.policy.short_retry);
    let because = Reason::ClassNotSeen(seen.machine.spec.class.name.clone());
    Some(Plan::wait(Wake::By { awaited: Awaited::Class, at }, because))
}

/// The input is at fault: say so once, in the status and as an Event, and wait for it to be mended.
fn refusal(seen: &Observed<'_>, because: Reason, event: &'static str, awaited: Awaited) -> Plan {
    let write = StatusWrite::refused(&because.to_string(), seen.now);
    let mut steps = Vec::new();
    if write.is_news(seen.machine, seen.policy, seen.now) {
        steps.push(Step::Status(write));
        steps.push(Step::Tell(Event { event_type: EventType::Warning, reason: event, message: because.to_string() }));
    }
    let wake = Wake::By { awaited, at: facts::later(seen.now, seen.policy.long_retry) };
    Plan::of(steps, wake, because)
}

#[cfg(test)]
mod tests;
