//! Template fields that are applied to existing Machines.
//!
//! A new class name requires new Machines. The node template, the configuration (for example the drain timeout) and the
//! class kind are applied to existing Machines. The patch of a Machine contains only the fields that differ. The
//! annotation for the maximum number of replacements is applied too: a user who raises it for a MachineDeployment has
//! unhealthy Machines now, and the limit is read from the Machine.

use api::names::annotations;
use api::{GoDuration, Machine, MachinePhase, MachineSet, MachineTemplateSpec, Object, merge, semantically_equal};
use serde_json::{Map, Value};

use super::member::Member;

/// Returns the merge patch of the Machine's spec, or `None` if nothing differs.
pub(super) fn difference(member: &Member<'_>, template: &MachineTemplateSpec) -> Option<Map<String, Value>> {
    let (machine, wanted) = (member.machine, &template.spec);
    let mut spec = None;
    if is_active(member) {
        if !semantically_equal(&machine.spec.node_template, &wanted.node_template) {
            spec.get_or_insert_with(|| machine.spec.clone()).node_template = wanted.node_template.clone();
        }
        let mut configuration = wanted.configuration.clone();
        if has_own_creation_timeout(machine) {
            // The annotation takes precedence over the field, and MCM writes the annotation's value into the field. A
            // write has no effect.
            configuration.creation_timeout.clone_from(&machine.spec.configuration.creation_timeout);
        }
        if !semantically_equal(&machine.spec.configuration, &configuration) {
            spec.get_or_insert_with(|| machine.spec.clone()).configuration = configuration;
        }
    }
    if machine.spec.class.kind != wanted.class.kind {
        spec.get_or_insert_with(|| machine.spec.clone()).class.kind.clone_from(&wanted.class.kind);
    }
    let spec = spec?;
    match merge::changes(&machine.spec, &spec)? {
        Value::Object(changes) => Some(changes),
        _ => None,
    }
}

/// Returns the maximum number of replacements if the annotation of the MachineSet differs from the Machine's. If the
/// MachineSet has no annotation, the one on the Machine stays, because a user may have set it.
pub(super) fn new_limit<'a>(member: &Member<'_>, set: &'a MachineSet) -> Option<&'a str> {
    let wanted = set.annotation(annotations::MAX_REPLACEMENTS)?;
    (is_active(member) && member.machine.annotation(annotations::MAX_REPLACEMENTS) != Some(wanted)).then_some(wanted)
}

/// Returns whether changes are applied to a Machine. Failed and terminating Machines are not changed.
fn is_active(member: &Member<'_>) -> bool {
    !member.is_terminating() && *member.machine.phase() != MachinePhase::Failed
}

fn has_own_creation_timeout(machine: &Machine) -> bool {
    machine.annotation(annotations::EFFECTIVE_CREATION_TIMEOUT).is_some_and(|text| text.parse::<GoDuration>().is_ok())
}
