//! What the reference accepts although nobody can mean it.
//!
//! The controllers act on such an object as the reference does: somebody's manifests have it. Whoever writes a new one is told, by
//! the policies of `deploy/admission` and by `millwright check`.

use super::{ErrorKind, FieldError};
use crate::{
    IntOrString, Machine, MachineConfiguration, MachineDeployment, MachineSet, OrchestrationType, Rounding,
    StrategyType, UpdateLimits,
};

/// What nobody can mean in a Machine.
#[must_use]
pub fn machine(machine: &Machine) -> Vec<FieldError> {
    retries("spec", &machine.spec.configuration).into_iter().collect()
}

/// What nobody can mean in a MachineSet.
#[must_use]
pub fn machine_set(set: &MachineSet) -> Vec<FieldError> {
    retries("spec.template.spec", &set.spec.template.spec.configuration).into_iter().collect()
}

/// What nobody can mean in a MachineDeployment.
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

/// Where machines are chosen by hand (`manual`), both limits may be 0: nothing moves by itself anyway.
fn limits(path: &str, limits: &UpdateLimits, manual: bool) -> Vec<FieldError> {
    let (Some(unavailable), Some(surge)) = (usable(limits.max_unavailable.as_ref()), usable(limits.max_surge.as_ref()))
    else {
        return Vec::new(); // said by the other rules
    };
    let mut errors = Vec::new();
    for (field, limit) in [("maxUnavailable", unavailable), ("maxSurge", surge)] {
        let wrong = match limit {
            IntOrString::Text(_) if of_a_hundred(limit) > 100 => "must be at most 100%; more has no effect",
            _ if of_a_hundred(limit) < 0 => "must be 0 or more; less counts as 0",
            _ => continue,
        };
        errors.push(invalid(format!("{path}.{field}"), limit.to_string(), wrong));
    }
    if !manual && of_a_hundred(unavailable) == 0 && of_a_hundred(surge) == 0 {
        let wrong =
            "must not be 0 while maxSurge is 0; one machine at a time is missing all the same, so set one of them to 1";
        errors.push(invalid(format!("{path}.maxUnavailable"), unavailable.to_string(), wrong));
    }
    errors
}

fn usable(limit: Option<&IntOrString>) -> Option<&IntOrString> {
    limit.filter(|limit| limit.scaled(0, Rounding::Up).is_some())
}

/// The number itself, or that before the percent sign.
fn of_a_hundred(limit: &IntOrString) -> i64 {
    match limit {
        IntOrString::Int(number) => *number,
        IntOrString::Text(text) => text.strip_suffix('%').and_then(|number| number.parse().ok()).unwrap_or_default(),
    }
}

fn retries(path: &str, configuration: &MachineConfiguration) -> Option<FieldError> {
    let retries = configuration.max_evict_retries.filter(|retries| *retries < 0)?;
    let wrong = "must be 0 or more; without it --machine-max-evict-retries counts";
    Some(invalid(format!("{path}.maxEvictRetries"), retries.to_string(), wrong))
}

fn invalid(path: String, value: String, detail: &str) -> FieldError {
    FieldError { path, kind: ErrorKind::Invalid(value), detail: detail.to_owned() }
}
