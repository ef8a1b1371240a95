//! Validation of objects.
//!
//! The API server validates types only. These functions validate specs before objects are reconciled. An invalid object is not
//! reconciled, and the errors are reported in a condition, an Event and the log. The rules, their order and their texts are those of
//! MCM. Some rules exist in Millwright only, for inputs that crash MCM or that MCM cannot decode; they are marked below.
//!
//! A Machine that is being deleted must not be validated, because its VM must be deleted in any case. A MachineClass is validated when
//! a Machine uses it.

pub mod strict;

use std::fmt;

use crate::{
    GoDuration, IntOrString, LabelSelector, Machine, MachineClass, MachineConfiguration, MachineDeployment, MachineSet,
    MachineSpec, MachineTemplateSpec, Object, OrchestrationType, Rounding, SecretData, SpecDuration, StrategyType,
    UpdateLimits, names,
};

/// Detail of the error for an empty selector.
pub const EMPTY_SELECTOR: &str =
    "an empty selector would select all machines; it must match spec.template.metadata.labels";

/// An error of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path, for example `spec.strategy.type`.
    pub path: String,
    /// Kind of the error.
    pub kind: ErrorKind,
    /// Cause or fix.
    pub detail: String,
}

/// Kind of an error of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The value is missing.
    Required,
    /// The value is invalid.
    Invalid(String),
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::Required => write!(f, "{}: Required value: {}", self.path, self.detail),
            ErrorKind::Invalid(value) => write!(f, "{}: Invalid value: {value:?}: {}", self.path, self.detail),
        }
    }
}

/// Returns all errors as one text: a single error, or `[a, b]`.
pub fn joined(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::with_capacity(errors.len());
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// Validates a Machine.
#[must_use]
pub fn machine(machine: &Machine) -> Vec<FieldError> {
    let mut errors = Errors::default();
    errors.check_machine_spec("spec", &machine.spec);
    errors.check_timeout_annotation(machine);
    errors.0
}

/// Validates a MachineSet.
#[must_use]
pub fn machine_set(set: &MachineSet) -> Vec<FieldError> {
    let mut errors = Errors::default();
    errors.check_replicas(set.spec.replicas);
    errors.check_selector(set.spec.selector.as_ref(), &set.spec.template);
    if set.spec.selector.as_ref().is_some_and(LabelSelector::is_empty) {
        errors.require("spec.selector", EMPTY_SELECTOR);
    }
    errors.check_machine_spec("spec.template.spec", &set.spec.template.spec);
    errors.check_timeout_annotation(set);
    errors.0
}

/// Validates a MachineDeployment.
#[must_use]
pub fn machine_deployment(deployment: &MachineDeployment) -> Vec<FieldError> {
    let mut errors = Errors::default();
    errors.check_replicas(deployment.spec.replicas);
    errors.check_strategy(deployment);
    errors.check_selector(deployment.spec.selector.as_ref(), &deployment.spec.template);
    errors.check_machine_spec("spec.template.spec", &deployment.spec.template.spec);
    errors.0
}

/// Validates the node template of a MachineClass. The driver validates the rest.
#[must_use]
pub fn machine_class(class: &MachineClass) -> Vec<FieldError> {
    let mut errors = Errors::default();
    if let Some(template) = &class.node_template {
        for resource in ["cpu", "gpu", "memory"] {
            if !template.capacity.contains_key(resource) {
                errors.require(format!("nodeTemplate.capacity.{resource}"), "capacity must name cpu, gpu and memory");
            }
        }
        let texts = [("instanceType", &template.instance_type), ("region", &template.region), ("zone", &template.zone)];
        for (field, text) in texts {
            if text.is_empty() {
                errors.require(format!("nodeTemplate.{field}"), &format!("{field} must not be empty"));
            }
        }
    }
    errors.0
}

/// The Secrets of a MachineClass contain no user data, so no VM can be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("userdata field not found in secret for machine {machine:?}")]
pub struct MissingUserData {
    /// Name of the Machine.
    pub machine: String,
}

/// Returns the user data of a VM. Required for its creation only.
pub fn user_data<'a>(secret: &'a SecretData, machine: &str) -> Result<&'a [u8], MissingUserData> {
    secret.get(names::secrets::USER_DATA).ok_or_else(|| MissingUserData { machine: machine.to_owned() })
}

const NEGATIVE: &str = "must be 0 or more";

#[derive(Default)]
struct Errors(Vec<FieldError>);

impl Errors {
    fn require(&mut self, path: impl Into<String>, detail: &str) {
        self.0.push(FieldError { path: path.into(), kind: ErrorKind::Required, detail: detail.to_owned() });
    }

    fn reject(&mut self, path: impl Into<String>, value: &str, detail: &str) {
        let kind = ErrorKind::Invalid(value.to_owned());
        self.0.push(FieldError { path: path.into(), kind, detail: detail.to_owned() });
    }

    fn check_replicas(&mut self, replicas: i32) {
        if replicas < 0 {
            self.require("spec.replicas", "Replicas has to be a whole number");
        }
    }

    fn check_machine_spec(&mut self, path: &str, spec: &MachineSpec) {
        if spec.class.kind.is_empty() {
            self.require(format!("{path}.class.kind"), "Kind is required");
        }
        if spec.class.name.is_empty() {
            self.require(format!("{path}.class.name"), "Name is required");
        }
        self.check_durations(path, &spec.configuration);
    }

    /// Millwright only: MCM cannot decode such an object, nor a list that contains it.
    fn check_durations(&mut self, path: &str, configuration: &MachineConfiguration) {
        let fields = [
            ("drainTimeout", &configuration.drain_timeout),
            ("healthTimeout", &configuration.health_timeout),
            ("creationTimeout", &configuration.creation_timeout),
            ("inPlaceUpdateTimeout", &configuration.in_place_update_timeout),
            ("machinePreserveTimeout", &configuration.machine_preserve_timeout),
        ];
        for (field, duration) in fields {
            match duration {
                Some(SpecDuration::Invalid(text)) => {
                    self.reject(format!("{path}.{field}"), text, "must be a Go duration such as 20m or 1h30m");
                }
                Some(SpecDuration::Valid(duration)) if duration.is_negative() => {
                    self.reject(format!("{path}.{field}"), &duration.to_string(), NEGATIVE);
                }
                _ => {}
            }
        }
    }

    /// Millwright only: with a negative creation timeout each new Machine would fail immediately and be replaced endlessly.
    fn check_timeout_annotation(&mut self, object: &impl Object) {
        let key = names::annotations::EFFECTIVE_CREATION_TIMEOUT;
        let Some(text) = object.annotation(key) else { return };
        if text.parse::<GoDuration>().is_ok_and(GoDuration::is_negative) {
            self.reject(format!("metadata.annotations[{key}]"), text, NEGATIVE);
        }
    }

    fn check_strategy(&mut self, deployment: &MachineDeployment) {
        let (strategy, replicas) = (&deployment.spec.strategy, deployment.spec.replicas);
        match &strategy.kind {
            StrategyType::Recreate => {}
            StrategyType::RollingUpdate => match &strategy.rolling_update {
                Some(update) => self.check_limits("spec.strategy.rollingUpdate", &update.limits, replicas),
                None => self.require(
                    "spec.strategy.rollingUpdate",
                    "RollingUpdate parameter cannot be nil for rolling update strategy",
                ),
            },
            StrategyType::InPlaceUpdate => match &strategy.in_place_update {
                Some(update) => {
                    self.check_limits("spec.strategy.inPlaceUpdate", &update.limits, replicas);
                    if !matches!(update.orchestration_type, OrchestrationType::Auto | OrchestrationType::Manual) {
                        self.reject(
                            "spec.strategy.inPlaceUpdate.orchestrationType",
                            update.orchestration_type.as_str(),
                            "orchestrationType must be either Auto or Manual",
                        );
                    }
                }
                None => self.require(
                    "spec.strategy.inPlaceUpdate",
                    "InPlaceUpdate parameter cannot be nil for in-place update strategy",
                ),
            },
            unknown @ (StrategyType::Unset | StrategyType::Other(_)) => self.reject(
                "spec.strategy.type",
                unknown.as_str(),
                "strategy type must be one of [InPlaceUpdate Recreate RollingUpdate]",
            ),
        }
    }

    fn check_limits(&mut self, path: &str, limits: &UpdateLimits, replicas: i32) {
        let usable = |limit: &Option<IntOrString>| {
            limit.as_ref().is_some_and(|limit| limit.scaled(replicas, Rounding::Up).is_some())
        };
        if !usable(&limits.max_unavailable) {
            self.require(format!("{path}.maxUnavailable"), "unable to convert maxUnavailable to int32");
        }
        if !usable(&limits.max_surge) {
            self.require(format!("{path}.maxSurge"), "unable to convert maxSurge to int32");
        }
    }

    fn check_selector(&mut self, selector: Option<&LabelSelector>, template: &MachineTemplateSpec) {
        let Some(selector) = selector else {
            // Millwright only: MCM crashes.
            self.require("spec.selector", "a selector is required; it must match spec.template.metadata.labels");
            return;
        };
        let label = |key: &String| template.metadata.labels.as_ref().and_then(|labels| labels.text(key));
        // A missing label equals an empty one, as in MCM.
        let matches = |(key, value): (&String, &String)| label(key).unwrap_or_default() == value;
        if !selector.match_labels.iter().all(matches) {
            self.require("spec.selector.matchLabels", "is not matching with spec.template.metadata.labels");
        }
        // Millwright only: MCM fails later, at each use of the selector.
        for (index, requirement) in selector.match_expressions.iter().enumerate() {
            let alone = LabelSelector { match_expressions: vec![requirement.clone()], ..Default::default() };
            if let Err(error) = alone.matches(&crate::TextMap::default()) {
                let path = format!("spec.selector.matchExpressions[{index}].operator");
                self.reject(path, &requirement.operator, &error.to_string());
            }
        }
    }
}
