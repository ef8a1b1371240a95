//! What a machine takes over from the template while it lives.
//!
//! A new class name means a new machine, but how long a drain may take, or which labels a node is to have, reaches the machines
//! that are there: the node template, the configuration and the kind of the class are kept as the template has them. The patch
//! of a machine holds what differs and nothing else, and what is the same is not written at all. So is the annotation that says how
//! many may be replaced at once: whoever raises it for a deployment has sick machines now, and they read it on themselves.

use api::names::annotations;
use api::{GoDuration, Machine, MachinePhase, MachineSet, MachineTemplateSpec, Object, merge, same_meaning};
use serde_json::Value;

use super::member::Member;

/// What differs in the machine's spec from the template, as a merge patch; `None` if nothing does.
pub(super) fn difference(member: &Member<'_>, template: &MachineTemplateSpec) -> Option<Value> {
    let (machine, wanted) = (member.machine, &template.spec);
    let mut spec = None;
    if is_active(member) {
        if !same_meaning(&machine.spec.node_template, &wanted.node_template) {
            spec.get_or_insert_with(|| machine.spec.clone()).node_template = wanted.node_template.clone();
        }
        let mut configuration = wanted.configuration.clone();
        if has_timeout_of_its_own(machine) {
            // The annotation beats the field, and the reference writes the annotation's value into it: not worth a write.
            configuration.creation_timeout.clone_from(&machine.spec.configuration.creation_timeout);
        }
        if !same_meaning(&machine.spec.configuration, &configuration) {
            spec.get_or_insert_with(|| machine.spec.clone()).configuration = configuration;
        }
    }
    if machine.spec.class.kind != wanted.class.kind {
        spec.get_or_insert_with(|| machine.spec.clone()).class.kind.clone_from(&wanted.class.kind);
    }
    let spec = spec?;
    merge::changes(&machine.spec, &spec)
}

/// How many of its deployment may be replaced at once, if the set says otherwise than the machine. A set that says nothing leaves the
/// machine what a person may have written on it.
pub(super) fn new_limit<'a>(member: &Member<'_>, set: &'a MachineSet) -> Option<&'a str> {
    let wanted = set.annotation(annotations::MAX_REPLACEMENTS)?;
    (is_active(member) && member.machine.annotation(annotations::MAX_REPLACEMENTS) != Some(wanted)).then_some(wanted)
}

/// A machine that has failed or is going needs no new orders.
fn is_active(member: &Member<'_>) -> bool {
    !member.is_leaving() && *member.machine.phase() != MachinePhase::Failed
}

fn has_timeout_of_its_own(machine: &Machine) -> bool {
    machine.annotation(annotations::EFFECTIVE_CREATION_TIMEOUT).is_some_and(|text| text.parse::<GoDuration>().is_ok())
}
