//! What a node's health makes of its machine.
//!
//! The machine is Running when its node is healthy and its critical components have started. A node that does not come in time
//! makes the machine Failed, and its set replaces it.

use api::names::conditions::node::READY;
use api::names::taints;
use api::view::NodeView;
use api::{ConditionStatus, MachinePhase, TaintEffect};

use super::{Facts, Observed, Reason, StatusWrite, facts};
use crate::{Awaited, Lookup, Wake};

/// What becomes of the machine, given its node: a status to write if anything changes, and what is waited for.
pub(super) fn verdict(
    seen: &Observed<'_>,
    facts: &Facts<'_>,
    node: Lookup<&NodeView>,
) -> (Option<StatusWrite>, Wake, Reason) {
    let change = Wake::On(Awaited::Change);
    if *facts.phase == MachinePhase::Failed {
        return (None, change, Reason::AwaitsReplacement);
    }
    let pending = *facts.phase == MachinePhase::Pending;
    let deadline = facts.created.map(|c| facts::later(c, facts::creation_timeout(seen.machine, seen.policy)));
    let obstacle = match node {
        Lookup::Absent => Some(Reason::NodeNotThere(facts.node_name.unwrap_or_default().to_owned())),
        Lookup::Undecodable => Some(Reason::NodeNotHealthy("its Node object cannot be read".into())),
        Lookup::Present(node) => ailment(node, &facts::node_conditions(seen.machine, seen.policy))
            .map(Reason::NodeNotHealthy)
            .or_else(|| (pending && awaits_critical_components(node)).then_some(Reason::CriticalComponentsNotReady)),
    };
    match obstacle {
        None if pending => {
            let node = node.present();
            (Some(StatusWrite::joined(seen.machine, node, seen.now)), change, Reason::Joined)
        }
        None => copy_conditions(seen, node, change, Reason::Converged),
        Some(_) if pending && deadline.is_some_and(|d| d < seen.now) => {
            (Some(StatusWrite::join_timed_out(seen.machine, seen.policy, seen.now)), change, Reason::JoinTimedOut)
        }
        Some(why) => {
            let wake = match deadline {
                // One second late on purpose: timestamps in objects have no fractions, and "not after" must have become "after".
                Some(at) if pending => {
                    Wake::By { awaited: Awaited::Node, at: facts::later(at, std::time::Duration::from_secs(1)) }
                }
                _ => Wake::On(Awaited::Node),
            };
            copy_conditions(seen, node, wake, why)
        }
    }
}

/// The machine shows its node's conditions, refreshed when one of them says something new.
fn copy_conditions(
    seen: &Observed<'_>,
    node: Lookup<&NodeView>,
    wake: Wake,
    because: Reason,
) -> (Option<StatusWrite>, Wake, Reason) {
    match node {
        Lookup::Present(node) if StatusWrite::conditions_differ(seen.machine, node) => {
            let because = if because == Reason::Converged { Reason::ConditionsChanged } else { because };
            (Some(StatusWrite::conditions(node)), wake, because)
        }
        _ => (None, wake, because),
    }
}

/// What makes a node unhealthy, in words; `None` for a healthy one.
fn ailment(node: &NodeView, harmful: &[&str]) -> Option<String> {
    let conditions = &node.status.conditions;
    if conditions.is_empty() {
        return Some("it has not reported any condition yet".into());
    }
    conditions.iter().find_map(|condition| {
        let kind = &*condition.kind;
        let ill = match kind {
            READY => condition.status != ConditionStatus::True,
            _ => harmful.contains(&kind) && condition.status != ConditionStatus::False,
        };
        ill.then(|| format!("{kind} is {}", condition.status))
    })
}

fn awaits_critical_components(node: &NodeView) -> bool {
    node.spec
        .taints
        .iter()
        .any(|taint| taint.key == taints::CRITICAL_COMPONENTS && taint.effect == TaintEffect::NoSchedule)
}
