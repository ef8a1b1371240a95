//! Deployments that cannot be acted upon.
//!
//! The fault is named, with its field and its fix, in a condition of our own and an Event, once for each fault. What the deployment has
//! done so far stays as it is, and so do its other conditions: others read them, and they are still true.

use api::names::conditions::ours;
use api::names::events::{self, messages, reference};
use api::{ConditionStatus, LabelSelector, StrategyType, validation};

use super::reason::Reason;
use super::status::{self, Conditions};
use super::step::{Plan, Step};
use super::{Observed, TargetCluster};
use crate::{Awaited, Wake};
use crate::{Event, EventType};

pub(super) fn plan(seen: &Observed<'_>) -> Option<Plan> {
    let Fault { event: reason, condition, message: fault } = fault(seen)?;
    let deployment = seen.deployment;
    let mut status = deployment.status.clone();
    let mut conditions = Conditions { list: status.conditions, now: seen.now.into() };
    let said = conditions.find(ours::INVALID).is_some_and(|condition| condition.message == fault);
    if !said {
        conditions.restate(ours::INVALID, ConditionStatus::True, condition, fault.clone());
    }
    status.conditions = conditions.list;
    if reason == reference::SELECTING_ALL {
        status.observed_generation = status.observed_generation.max(api::Object::generation(deployment));
    }
    let mut steps: Vec<Step> = status::step(&deployment.status, status).into_iter().collect();
    if !said {
        let message =
            if reason == reference::SELECTING_ALL { messages::SELECTING_ALL.to_owned() } else { fault.clone() };
        steps.push(Step::Tell(Event { event_type: EventType::Warning, reason, message }));
    }
    Some(Plan::of(steps, Wake::On(Awaited::Change), Reason::Invalid(fault)))
}

/// What is wrong, and under which words it is told.
struct Fault {
    event: &'static str,
    condition: &'static str,
    message: String,
}

fn fault(seen: &Observed<'_>) -> Option<Fault> {
    let invalid = |event, message| Some(Fault { event, condition: ours::INVALID_SPEC, message });
    let errors = validation::machine_deployment(seen.deployment);
    if !errors.is_empty() {
        return invalid(events::ours::INVALID, validation::joined(&errors));
    }
    let spec = &seen.deployment.spec;
    if spec.selector.as_ref().is_none_or(LabelSelector::is_empty) {
        let fault = format!("spec.selector: Required value: {}", validation::EMPTY_SELECTOR);
        return invalid(reference::SELECTING_ALL, fault);
    }
    if spec.strategy.kind == StrategyType::InPlaceUpdate && seen.target == TargetCluster::None {
        let fault = "spec.strategy.type: Invalid value: \"InPlaceUpdate\": in-place updates are not supported if running without a target cluster; use RollingUpdate or Recreate";
        return invalid(events::ours::INVALID, fault.to_owned());
    }
    // A set that cannot be decoded may be the one of the current template. A second one would double the pool.
    seen.undecodable_sets.first().map(|set| Fault {
        event: events::ours::INVALID,
        condition: ours::UNDECODABLE_SET,
        message: format!(
            "MachineSet {:?} of this deployment cannot be decoded: {}; correct or delete it",
            set.name, set.error
        ),
    })
}
