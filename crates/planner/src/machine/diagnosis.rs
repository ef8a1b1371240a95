//! Whether a Node is healthy.
//!
//! The condition Ready must be True, and all conditions that are configured as unhealthy must be False. Other
//! conditions do not count.

use api::names::conditions::node::READY;
use api::names::taints;
use api::view::NodeView;
use api::{ConditionStatus, Machine, MachinePhase, NodeCondition, TaintEffect};

use super::facts;
use crate::Policy;
use crate::node::TerminationReason;
use crate::policy::MissingReady;

/// Returns why the Node of a Machine is unhealthy, or `None` if it is healthy.
pub(super) fn unhealthy_reason(machine: &Machine, conditions: &[NodeCondition], policy: &Policy) -> Option<String> {
    if conditions.is_empty() {
        return Some("no condition is reported yet".into());
    }
    let configured = facts::node_conditions(machine, policy);
    let unhealthy = conditions.iter().find_map(|condition| {
        let kind = &*condition.kind;
        let unhealthy = match kind {
            READY => condition.status != ConditionStatus::True,
            _ => configured.contains(&kind) && condition.status != ConditionStatus::False,
        };
        unhealthy.then(|| format!("{kind} is {}", condition.status))
    });
    unhealthy.or_else(|| {
        let is_missing = conditions.iter().all(|condition| &*condition.kind != READY);
        let counts = policy.missing_ready == MissingReady::Unhealthy;
        (is_missing && counts).then(|| "condition Ready is missing".into())
    })
}

/// Returns whether the Node is tainted until its critical components are ready.
pub(super) fn awaits_critical_components(node: &NodeView) -> bool {
    node.spec
        .taints
        .iter()
        .any(|taint| taint.key == taints::CRITICAL_COMPONENTS && taint.effect == TaintEffect::NoSchedule)
}

/// Returns why a Machine is deleted.
///
/// The phase shows it only until the deletion begins, and a manager may have changed the phase before. The copy of the
/// Node's conditions is no longer updated then: if they are healthy, the Machine was deleted by a scale-down.
pub(super) fn departure(machine: &Machine, policy: &Policy) -> TerminationReason {
    let failed = *machine.phase() == MachinePhase::Failed;
    if failed || unhealthy_reason(machine, &machine.status.conditions, policy).is_some() {
        TerminationReason::Unhealthy
    } else {
        TerminationReason::ScaleDown
    }
}
