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
    let (reason, fault) = fault(seen)?;
    let deployment = seen.deployment;
    let mut status = deployment.status.clone();
    let mut conditions = Conditions { list: status.conditions, now: seen.now.into() };
    let said = conditions.find(ours::INVALID).is_some_and(|condition| condition.message == fault);
    if !said {
        conditions.restate(ours::INVALID, ConditionStatus::True, ours::INVALID_SPEC, fault.clone());
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

/// What is wrong, and under which word it is told.
fn fault(seen: &Observed<'_>) -> Option<(&'static str, String)> {
    let errors = validation::machine_deployment(seen.deployment);
    if !errors.is_empty() {
        return Some((events::ours::INVALID, validation::joined(&errors)));
    }
    let spec = &seen.deployment.spec;
    if spec.selector.as_ref().is_none_or(LabelSelector::is_empty) {
        let fault = "spec.selector: Required value: an empty selector would select all machines; it must match spec.template.metadata.labels";
        return Some((reference::SELECTING_ALL, fault.to_owned()));
    }
    if spec.strategy.kind == StrategyType::InPlaceUpdate && seen.target == TargetCluster::None {
        let fault = "spec.strategy.type: Invalid value: \"InPlaceUpdate\": in-place updates are not supported if running without a target cluster; use RollingUpdate or Recreate";
        return Some((events::ours::INVALID, fault.to_owned()));
    }
    None
}
