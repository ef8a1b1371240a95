//! Whether a node is well.
//!
//! Ready must be True, and none of the conditions that the machine's owner calls harmful may be anything but False. Everything
//! else that node agents report is for people.

use api::names::conditions::node::READY;
use api::names::taints;
use api::view::NodeView;
use api::{ConditionStatus, Machine, MachinePhase, NodeCondition, TaintEffect};

use super::facts;
use crate::Policy;
use crate::node::Departure;
use crate::policy::MissingReady;

/// What makes the node of a machine unhealthy, in words; `None` for a healthy one.
pub(super) fn unhealthy_reason(machine: &Machine, conditions: &[NodeCondition], policy: &Policy) -> Option<String> {
    if conditions.is_empty() {
        return Some("it has not reported any condition yet".into());
    }
    let harmful = facts::node_conditions(machine, policy);
    let ill = conditions.iter().find_map(|condition| {
        let kind = &*condition.kind;
        let ill = match kind {
            READY => condition.status != ConditionStatus::True,
            _ => harmful.contains(&kind) && condition.status != ConditionStatus::False,
        };
        ill.then(|| format!("{kind} is {}", condition.status))
    });
    ill.or_else(|| {
        let silent = conditions.iter().all(|condition| &*condition.kind != READY);
        let counts = policy.missing_ready == MissingReady::Unhealthy;
        (silent && counts).then(|| "it has not said whether it is Ready".into())
    })
}

/// Whether the node is held back until its critical components run.
pub(super) fn awaits_critical_components(node: &NodeView) -> bool {
    node.spec
        .taints
        .iter()
        .any(|taint| taint.key == taints::CRITICAL_COMPONENTS && taint.effect == TaintEffect::NoSchedule)
}

/// Why a machine leaves.
///
/// Its phase says so only until the deletion has begun, and a manager may have changed it even before. What stays is the copy of
/// the node's conditions, which nobody refreshes any more: a machine that was well to the last was no longer wanted.
pub(super) fn departure(machine: &Machine, policy: &Policy) -> Departure {
    let failed = *machine.phase() == MachinePhase::Failed;
    if failed || unhealthy_reason(machine, &machine.status.conditions, policy).is_some() {
        Departure::Unhealthy
    } else {
        Departure::ScaleDown
    }
}
