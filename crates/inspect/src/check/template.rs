//! Checks Machine templates and Machines.

use api::names::{annotations, labels};
use api::{GoDuration, MachineSpec, MachineTemplateSpec, Object, PreserveValue, SpecDuration, validation};
use planner::Presence;
use planner::replacement_limit::Limit;

use super::{Findings, References};

/// Labels, annotations and spec of a template or Machine.
pub(super) struct Part<'a> {
    labels: Vec<(&'a str, &'a str)>,
    annotations: Vec<(&'a str, &'a str)>,
    spec: &'a MachineSpec,
    /// Whether it is a template.
    template: bool,
}

impl<'a> Part<'a> {
    pub(super) fn of(template: &'a MachineTemplateSpec) -> Self {
        Self {
            labels: template.metadata.labels.iter().flat_map(api::TextMap::texts).collect(),
            annotations: template.metadata.annotations.iter().flat_map(api::TextMap::texts).collect(),
            spec: &template.spec,
            template: true,
        }
    }

    fn label(&self, key: &str) -> Option<&'a str> {
        self.labels.iter().find(|(found, _)| *found == key).map(|(_, value)| *value)
    }

    fn annotation(&self, key: &str) -> Option<&'a str> {
        self.annotations.iter().find(|(found, _)| *found == key).map(|(_, value)| *value)
    }
}

/// Checks MachineSets and Machines without an owner. Others repeat the mistakes of their owner.
pub(super) fn check_sets_and_machines(found: &mut Findings<'_>) {
    let snapshot = found.input.snapshot;
    for set in snapshot.sets.readable.iter().filter(|set| set.controller_owner().is_none()) {
        let object = format!("machineset/{}", set.name());
        found.add_errors(&object, &validation::machine_set(set));
        found.add_strict(&object, &validation::strict::machine_set(set));
        if set.spec.min_ready_seconds != 0 {
            found.add(
                &object,
                "spec.minReadySeconds",
                "no effect: a Machine is available when its Node is ready",
                "remove it",
            );
        }
        if !set.spec.machine_class.name.is_empty() {
            found.add(
                &object,
                "spec.machineClass",
                "the field is no longer used",
                "set spec.template.spec.class instead, and remove it",
            );
        }
        check(found, &object, "spec.template", &Part::of(&set.spec.template));
    }
    for machine in snapshot.machines.readable.iter().filter(|machine| machine.controller_owner().is_none()) {
        let object = format!("machine/{}", machine.name());
        if machine.is_deleting() {
            continue;
        }
        found.add_errors(&object, &validation::machine(machine));
        found.add_strict(&object, &validation::strict::machine(machine));
        let keys =
            |list: &'_ [&'static str], of: fn(&api::Machine, &str) -> Option<String>| -> Vec<(&'static str, String)> {
                list.iter().filter_map(|key| Some((*key, of(machine, key)?))).collect()
            };
        let annotated = keys(&ANNOTATIONS, |machine, key| machine.annotation(key).map(str::to_owned));
        let part = Part {
            labels: Vec::new(),
            annotations: annotated.iter().map(|(key, value)| (*key, value.as_str())).collect(),
            spec: &machine.spec,
            template: false,
        };
        check(found, &object, "", &part);
    }
}

/// Annotations to check.
const ANNOTATIONS: [&str; 4] = [
    annotations::PRESERVE,
    annotations::PRIORITY,
    annotations::EFFECTIVE_CREATION_TIMEOUT,
    annotations::MAX_REPLACEMENTS,
];

pub(super) fn check(found: &mut Findings<'_>, object: &str, path: &str, part: &Part<'_>) {
    let below = |field: &str| if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") };
    class(found, object, &below("spec.class"), part.spec);
    configuration(found, object, &below("spec"), part.spec);
    check_annotations(found, object, &below("metadata.annotations"), part);
    if !part.template {
        return;
    }
    if part.label(labels::FORCE_DELETION).and_then(labels::is_true) == Some(true) {
        let problem =
            "every Machine is deleted without waiting for its pods: PodDisruptionBudgets and grace periods are ignored";
        found.add(
            object,
            &below("metadata.labels.force-deletion"),
            problem,
            "remove it. As a last resort, label a single Machine",
        );
    }
    if part.label(labels::NODE).is_some_and(|node| !node.is_empty()) {
        let problem = "every Machine would have the same Node; the controller sets the label when the VM exists";
        found.add(object, &below("metadata.labels.node"), problem, "remove it");
    }
    let taints = &part.spec.node_template.spec.taints;
    for (index, taint) in taints.iter().enumerate() {
        if taints.iter().take(index).any(|earlier| earlier.is_same_as(taint)) {
            let problem = format!("taint {}:{} is set twice; only one is used", taint.key, taint.effect);
            found.add(
                object,
                &below(&format!("spec.nodeTemplate.spec.taints[{index}]")),
                problem,
                "remove one of them",
            );
        }
    }
}

fn class(found: &mut Findings<'_>, object: &str, path: &str, spec: &MachineSpec) {
    let (name, kind) = (&spec.class.name, &spec.class.kind);
    if !kind.is_empty() && kind != "MachineClass" {
        found.add(object, &format!("{path}.kind"), format!("unknown kind {kind:?}"), "set MachineClass");
    }
    if name.is_empty() {
        return;
    }
    let classes = &found.input.snapshot.classes;
    match (classes.look_up(name), found.input.references) {
        (Presence::Present(_) | Presence::Undecodable(()), _) => {}
        (Presence::Absent, References::Known) if classes.refused.is_none() => {
            let fix = format!("create MachineClass {name:?}, or set another one");
            found.add(
                object,
                &format!("{path}.name"),
                format!("MachineClass {name:?} does not exist, so no Machine can be created"),
                fix,
            );
        }
        (Presence::Absent, _) => found.not_checked(format!("whether MachineClass {name:?} exists")),
    }
}

fn configuration(found: &mut Findings<'_>, object: &str, path: &str, spec: &MachineSpec) {
    let configuration = &spec.configuration;
    let field = |name: &str| format!("{path}.{name}");
    let usable = |duration: &Option<SpecDuration>| duration.as_ref().and_then(SpecDuration::valid);
    let none = |duration: GoDuration| duration.to_std().is_zero();
    let zero_durations = [
        (
            "drainTimeout",
            &configuration.drain_timeout,
            "drains are forced immediately: pods are deleted, and PodDisruptionBudgets are ignored",
        ),
        ("healthTimeout", &configuration.health_timeout, "a Machine is marked Failed as soon as its Node is not ready"),
        ("creationTimeout", &configuration.creation_timeout, "a Machine is marked Failed before it can join"),
        ("inPlaceUpdateTimeout", &configuration.in_place_update_timeout, "an update times out before it can finish"),
        (
            "machinePreserveTimeout",
            &configuration.machine_preserve_timeout,
            "the preservation of a Machine ends immediately",
        ),
    ];
    for (name, duration, problem) in zero_durations {
        if usable(duration).is_some_and(none) {
            found.add(
                object,
                &field(name),
                problem,
                "set a longer duration, for example 20m, or remove it to use the flag",
            );
        }
    }
    if configuration.disable_health_timeout == Some(true) && configuration.health_timeout.is_some() {
        let fix = "remove it, or set disableHealthTimeout to false";
        found.add(object, &field("healthTimeout"), "no effect: disableHealthTimeout is true", fix);
    }
    if configuration.max_evict_retries == Some(0) {
        let problem = "pods are deleted instead of evicted: PodDisruptionBudgets are ignored";
        found.add(object, &field("maxEvictRetries"), problem, "set it to 1 or more, or remove it to use the flag");
    }
    let conditions = configuration.node_conditions.as_deref().unwrap_or_default();
    if conditions.split(',').any(|kind| kind.trim() != kind) {
        let problem = "separate names by commas without spaces: a name with a space matches no condition";
        found.add(object, &field("nodeConditions"), problem, "remove the spaces");
    }
}

fn check_annotations(found: &mut Findings<'_>, object: &str, path: &str, part: &Part<'_>) {
    let field = |key: &str| format!("{path}[{key}]");
    if let Some(value) = part.annotation(annotations::PRESERVE).filter(|value| !PreserveValue::from(*value).is_valid())
    {
        let fix = "set now, when-failed, auto-preserved or false";
        found.add(object, &field(annotations::PRESERVE), format!("{value:?} is invalid; no Machine is preserved"), fix);
    }
    if let Some(value) = part.annotation(annotations::PRIORITY).filter(|value| value.parse::<i64>().is_err()) {
        let problem = format!("{value:?} is not an integer; {} is used", annotations::PRIORITY_DEFAULT);
        found.add(object, &field(annotations::PRIORITY), problem, "set an integer; the lowest is deleted first");
    }
    if let Some(value) =
        part.annotation(annotations::EFFECTIVE_CREATION_TIMEOUT).filter(|value| value.parse::<GoDuration>().is_err())
    {
        let problem = format!("{value:?} is not a duration; it is ignored");
        found.add(object, &field(annotations::EFFECTIVE_CREATION_TIMEOUT), problem, "set a Go duration such as 20m");
    }
    if let Some(Err(odd)) = part.annotation(annotations::MAX_REPLACEMENTS).map(str::parse::<Limit>) {
        found.add(
            object,
            &field(annotations::MAX_REPLACEMENTS),
            odd.to_string(),
            "set a number such as 2, or a percentage such as 10%",
        );
    }
}
