//! What machines are made from: in a deployment, in a set, or in a Machine itself.

use api::names::{annotations, labels};
use api::{GoDuration, MachineSpec, MachineTemplateSpec, Object, PreserveValue, SpecDuration, validation};
use planner::Presence;
use planner::replacement_limit::Limit;

use super::{Findings, References};

/// Labels, annotations and spec, wherever they stand.
pub(super) struct Part<'a> {
    labels: Vec<(&'a str, &'a str)>,
    annotations: Vec<(&'a str, &'a str)>,
    spec: &'a MachineSpec,
    /// Whether machines are made from it.
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

/// Sets and machines; those that a deployment or set made repeat its mistakes and are passed over.
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
                "it has no effect: a machine counts as available when its node is ready",
                "remove it",
            );
        }
        if !set.spec.machine_class.name.is_empty() {
            found.add(
                &object,
                "spec.machineClass",
                "it is not used any more",
                "name the class in spec.template.spec.class, and remove it",
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

/// The annotations that are looked at.
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
    said(found, object, &below("metadata.annotations"), part);
    if !part.template {
        return;
    }
    if part.label(labels::FORCE_DELETION).and_then(labels::is_true) == Some(true) {
        let problem =
            "every machine is deleted without waiting for its pods: disruption budgets and grace periods do not count";
        found.add(
            object,
            &below("metadata.labels.force-deletion"),
            problem,
            "remove it; label a single Machine when it has to go at once",
        );
    }
    if part.label(labels::NODE).is_some_and(|node| !node.is_empty()) {
        let problem = "every machine would claim the same node; the label is written once a machine's VM exists";
        found.add(object, &below("metadata.labels.node"), problem, "remove it");
    }
    let taints = &part.spec.node_template.spec.taints;
    for (place, taint) in taints.iter().enumerate() {
        if taints.iter().take(place).any(|earlier| earlier.is_same_as(taint)) {
            let problem = format!("taint {}:{} is there twice; only one of them counts", taint.key, taint.effect);
            found.add(
                object,
                &below(&format!("spec.nodeTemplate.spec.taints[{place}]")),
                problem,
                "remove one of them",
            );
        }
    }
}

fn class(found: &mut Findings<'_>, object: &str, path: &str, spec: &MachineSpec) {
    let (name, kind) = (&spec.class.name, &spec.class.kind);
    if !kind.is_empty() && kind != "MachineClass" {
        found.add(
            object,
            &format!("{path}.kind"),
            format!("{kind:?} is not a kind of class that exists"),
            "write MachineClass",
        );
    }
    if name.is_empty() {
        return;
    }
    let classes = &found.input.snapshot.classes;
    match (classes.look_up(name), found.input.references) {
        (Presence::Present(_) | Presence::Undecodable(_), _) => {}
        (Presence::Absent, References::Known) if classes.refused.is_none() => {
            let fix = format!("create MachineClass {name:?}, or name another one");
            found.add(
                object,
                &format!("{path}.name"),
                format!("MachineClass {name:?} does not exist: no machine can be made"),
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
    let at_once = [
        (
            "drainTimeout",
            &configuration.drain_timeout,
            "a drain is forced at once: pods are deleted, not evicted, and budgets do not count",
        ),
        ("healthTimeout", &configuration.health_timeout, "a machine is marked Failed as soon as its node is not ready"),
        ("creationTimeout", &configuration.creation_timeout, "a machine is marked Failed before it can join"),
        ("inPlaceUpdateTimeout", &configuration.in_place_update_timeout, "an update fails before it can end"),
        ("machinePreserveTimeout", &configuration.machine_preserve_timeout, "a preserved machine is let go at once"),
    ];
    for (name, duration, problem) in at_once {
        if usable(duration).is_some_and(none) {
            found.add(object, &field(name), problem, "give it time, for example 20m, or remove it to take the flag's");
        }
    }
    if configuration.disable_health_timeout == Some(true) && configuration.health_timeout.is_some() {
        let fix = "remove it, or set disableHealthTimeout to false";
        found.add(object, &field("healthTimeout"), "it has no effect: disableHealthTimeout is true", fix);
    }
    if configuration.max_evict_retries == Some(0) {
        let problem = "pods are deleted, not evicted: disruption budgets do not count";
        found.add(object, &field("maxEvictRetries"), problem, "write 1 or more, or remove it to take the flag's");
    }
    let conditions = configuration.node_conditions.as_deref().unwrap_or_default();
    if conditions.split(',').any(|kind| kind.trim() != kind) {
        let problem = "names are separated by commas alone: one with a space in front never matches a condition";
        found.add(object, &field("nodeConditions"), problem, "remove the spaces");
    }
}

fn said(found: &mut Findings<'_>, object: &str, path: &str, part: &Part<'_>) {
    let field = |key: &str| format!("{path}[{key}]");
    if let Some(value) = part.annotation(annotations::PRESERVE).filter(|value| !PreserveValue::from(*value).is_valid())
    {
        let fix = "write now, when-failed, auto-preserved or false";
        found.add(object, &field(annotations::PRESERVE), format!("{value:?} means nothing; nobody is preserved"), fix);
    }
    if let Some(value) = part.annotation(annotations::PRIORITY).filter(|value| value.parse::<i64>().is_err()) {
        let problem = format!("{value:?} is no whole number; it counts as {}", annotations::PRIORITY_DEFAULT);
        found.add(object, &field(annotations::PRIORITY), problem, "write a whole number; the lowest goes first");
    }
    if let Some(value) =
        part.annotation(annotations::EFFECTIVE_CREATION_TIMEOUT).filter(|value| value.parse::<GoDuration>().is_err())
    {
        let problem = format!("{value:?} is no duration; it is passed over");
        found.add(object, &field(annotations::EFFECTIVE_CREATION_TIMEOUT), problem, "write a Go duration such as 20m");
    }
    if let Some(Err(odd)) = part.annotation(annotations::MAX_REPLACEMENTS).map(str::parse::<Limit>) {
        found.add(
            object,
            &field(annotations::MAX_REPLACEMENTS),
            odd.to_string(),
            "write a number such as 2, or a share such as 10%",
        );
    }
}
