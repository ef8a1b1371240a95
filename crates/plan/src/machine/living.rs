//! A machine that has a VM and is not being deleted.
//!
//! Its node is marked as ours as soon as it registers, so that its deletion by a person is noticed; then the machine follows
//! its node's health. Whatever is to be written to the node goes out in one write.

use super::{Facts, Observed, Plan, Reason, Step, Target, health};
use crate::{Awaited, Lookup, Wake, node};

pub(super) fn plan(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    let Target::Cluster { node, .. } = seen.target else {
        return Plan::wait(Wake::On(Awaited::Change), Reason::Converged);
    };
    let mut steps = Vec::new();
    if let Lookup::Present(node) = node {
        let mut draft = node::Draft::of(node);
        node::mark(&mut draft, facts.name);
        steps.extend(draft.finish().map(Step::PatchNode));
    }
    let marks = !steps.is_empty();
    let health = health::verdict(seen, facts, node);
    steps.extend(health.status.map(Step::Status));
    steps.extend(health.tell.map(Step::Tell));
    let because = if marks && health.because == Reason::Converged { Reason::MarkNode } else { health.because };
    Plan { alone_in: health.alone_in, ..Plan::of(steps, health.wake, because) }
}
