//! Additional rules for values that MCM accepts although they are never useful.
//!
//! The controllers accept such objects like MCM, because existing manifests may contain them. The policies of `deploy/admission` and
//! `millwright check` report them for new objects.

use super::{ErrorKind, FieldError};
use crate::{
    IntOrString, Machine, MachineConfiguration, MachineDeployment, MachineSet, OrchestrationType, Rounding,
    StrategyType, UpdateLimits,
};

/// Checks a Machine.
#[must_use]
pub fn machine(machine: &Machine) -> Vec<FieldError> {
    retries("spec", &machine.spec.configuration).into_iter().collect()
}

/// Checks a MachineSet.
#[must_use]
pub fn machine_set(set: &MachineSet) -> Vec<FieldError> {
    retries("spec.template.spec", &set.spec.template.spec.configuration).into_iter().collect()
}

/// Checks a MachineDeployment.
#[must_use]
pub fn machine_deployment(deployment: &MachineDeployment) -> Vec<FieldError> {
    let strategy = &deployment.spec.strategy;
    let mut errors = match (&strategy.kind, &strategy.rolling_update, &strategy.in_place_update) {
        (StrategyType::RollingUpdate, Some(update), _) => limits("spec.strategy.rollingUpdate", &update.limits, false),
        (StrategyType::InPlaceUpdate, _, Some(update)) => {
            let manual = update.orchestration_type == OrchestrationType::Manual;
            limits("spec.strategy.inPlaceUpdate", &update.limits, manual)
        }
        _ => Vec::new(),
    };
    errors.extend(retries("spec.template.spec", &deployment.spec.template.spec.configuration));
    errors
}

/// If users select the Machines (`manual`), both limits may be 0.
fn limits(path: &str, limits: &UpdateLimits, manual: bool) -> Vec<FieldError> {
    let (Some(unavailable), Some(surge)) = (usable(limits.max_unavailable.as_ref()), usable(limits.max_surge.as_ref()))
    else {
        return Vec::new(); // reported by the other rules
    };
    let mut errors = Vec::new();
    for (field, limit) in [("maxUnavailable", unavailable), ("maxSurge", surge)] {
        let detail = match limit {
            IntOrString::Text(_) if number(limit) > 100 => "must be at most 100%; more has no effect",
            _ if number(limit) < 0 => "must be 0 or more; less counts as 0",
            _ => continue,
        };
        errors.push(invalid(format!("{path}.{field}"), limit.to_string(), detail));
    }
    if !manual && number(unavailable) == 0 && number(surge) == 0 {
        let detail = "must not be 0 while maxSurge is 0; set one of them to 1";
        errors.push(invalid(format!("{path}.maxUnavailable"), unavailable.to_string(), detail));
    }
    errors
}

fn usable(limit: Option<&IntOrString>) -> Option<&IntOrString> {
    limit.filter(|limit| limit.scaled(0, Rounding::Up).is_some())
}

/// Returns the number, without a percent sign.
fn number(limit: &IntOrString) -> i64 {
    match limit {
        IntOrString::Int(number) => *number,
        IntOrString::Text(text) => text.strip_suffix('%').and_then(|digits| digits.parse().ok()).unwrap_or_default(),
    }
}

fn retries(path: &str, configuration: &MachineConfiguration) -> Option<FieldError> {
    let retries = configuration.max_evict_retries.filter(|retries| *retries < 0)?;
    let detail = "must be 0 or more; the default is --machine-max-evict-retries";
    Some(invalid(format!("{path}.maxEvictRetries"), retries.to_string(), detail))
}

fn invalid(path: String, value: String, detail: &str) -> FieldError {
    FieldError { path, kind: ErrorKind::Invalid(value), detail: detail.to_owned() }
}
