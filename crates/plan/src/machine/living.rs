//! A machine that has a VM and is not being deleted.
//!
//! Its node is marked as ours as soon as it registers, so that its deletion by a person is noticed; then the machine follows
//! its node's health. Whatever is to be written to the node goes out in one write.

use api::names::events;

use super::{Facts, Notice, Observed, Plan, Reason, Step, Target, Tone, health};
use crate::{Awaited, Lookup, Wake, node};

pub(super) fn plan(seen: &Observed<'_>, facts: &Facts<'_>) -> Plan {
    let Target::Cluster { node, .. } = seen.target else {
        return Plan::wait(Wake::On(Awaited::Change), Reason::Converged);
    };
    let mut steps = Vec::new();
    if let Lookup::Present(node) = node {
        steps.extend(node::mark(node, facts.name).map(Step::PatchNode));
    }
    let marks = !steps.is_empty();
    let (status, wake, because) = health::verdict(seen, facts, node);
    if let Some(write) = status {
        if because == Reason::Joined {
            let message = write.description().to_owned();
            steps.push(Step::Status(write));
            steps.push(Step::Tell(Notice { tone: Tone::Normal, reason: events::ours::JOINED, message }));
        } else {
            let bad = (because == Reason::JoinTimedOut).then(|| Notice {
                tone: Tone::Warning,
                reason: events::ours::GIVEN_UP,
                message: write.description().to_owned(),
            });
            steps.push(Step::Status(write));
            steps.extend(bad.map(Step::Tell));
        }
    }
    let because = if marks && because == Reason::Converged { Reason::MarkNode } else { because };
    Plan::of(steps, wake, because)
}
