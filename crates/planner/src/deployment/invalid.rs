//! MachineDeployments that cannot be reconciled.
//!
//! A condition and an Event report the error with its field and its fix, once per error. All objects of the
//! MachineDeployment and its other conditions stay unchanged, because they are still correct.

use api::names::conditions::millwright;
use api::names::events::{self, mcm};
use api::texts::events as messages;
use api::{ConditionStatus, LabelSelector, StrategyType, validation};

use super::Observed;
use super::reason::Reason;
use super::status::{self, Conditions};
use super::step::{Plan, Step};
use crate::{Awaited, Wake};
use crate::{Event, EventType};

pub(super) fn plan(seen: &Observed<'_>) -> Option<Plan> {
    let Fault { event: reason, condition, message: fault } = fault(seen)?;
    let deployment = seen.deployment;
    let mut status = deployment.status.clone();
    let mut conditions = Conditions { list: status.conditions, now: seen.now.into() };
    let is_reported = conditions.find(millwright::INVALID).is_some_and(|condition| condition.message == fault);
    if !is_reported {
        conditions.replace(millwright::INVALID, ConditionStatus::True, condition, fault.clone());
    }
    status.conditions = conditions.list;
    if reason == mcm::SELECTING_ALL {
        status.observed_generation = status.observed_generation.max(api::Object::generation(deployment));
    }
    let mut steps: Vec<Step> = status::step(&deployment.status, status).into_iter().collect();
    if !is_reported {
        let message = if reason == mcm::SELECTING_ALL { messages::SELECTING_ALL.to_owned() } else { fault.clone() };
        steps.push(Step::EmitEvent(Event { event_type: EventType::Warning, reason, message }));
    }
    Some(Plan::of(steps, Wake::On(Awaited::Change), Reason::Invalid(fault)))
}

/// The error and how it is reported.
struct Fault {
    event: &'static str,
    condition: &'static str,
    message: String,
}

fn fault(seen: &Observed<'_>) -> Option<Fault> {
    let invalid = |event, message| Some(Fault { event, condition: millwright::INVALID_SPEC, message });
    let errors = validation::machine_deployment(seen.deployment);
    if !errors.is_empty() {
        return invalid(events::millwright::INVALID, validation::joined(&errors));
    }
    let spec = &seen.deployment.spec;
    if spec.selector.as_ref().is_none_or(LabelSelector::is_empty) {
        let fault = format!("spec.selector: Required value: {}", validation::EMPTY_SELECTOR);
        return invalid(mcm::SELECTING_ALL, fault);
    }
    if spec.strategy.kind == StrategyType::InPlaceUpdate && !seen.has_target_cluster {
        let fault = "spec.strategy.type: Invalid value: \"InPlaceUpdate\": in-place updates are not supported if running without a target cluster; use RollingUpdate or Recreate";
        return invalid(events::millwright::INVALID, fault.to_owned());
    }
    // A MachineSet that cannot be decoded may be the one of the current template. A second one would double the number
    // of Machines.
    seen.undecodable_sets.first().map(|set| Fault {
        event: events::millwright::INVALID,
        condition: millwright::UNDECODABLE_SET,
        message: format!(
            "MachineSet {:?} of this MachineDeployment cannot be decoded: {}; correct or delete it",
            set.name, set.error
        ),
    })
}
