//! Rollback to an earlier template.
//!
//! The request names a revision, or 0 for the previous one. The template of that MachineSet becomes the template of the
//! MachineDeployment. The following reconciles handle it like any other template change: the MachineSet is the new one,
//! gets a new revision and is scaled up. The request is processed once: whatever the result, it is removed in the same
//! write.

use api::Object;
use api::merge;
use api::names::events::mcm;
use api::texts::events as messages;

use super::builder::PlanBuilder;
use super::draft::Draft;
use super::reason::Reason;
use super::revision;
use super::step::{DeploymentEdit, Plan, Purpose, Step};
use super::template::{same_template, without_hash};
use crate::Wake;
use crate::{Event, EventType};

pub(super) fn plan(mut builder: PlanBuilder<'_>, wanted: i64) -> Plan {
    let mut steps = builder.opening();
    let before = builder.deployment.clone();
    let process = process(&mut builder, wanted);
    builder.deployment.spec.rollback_to = None;
    if let Some(changes) = merge::changes(&before, &builder.deployment) {
        steps.push(Step::Deployment(DeploymentEdit { purpose: Purpose::RollBack, changes }));
    }
    steps.push(Step::EmitEvent(process));
    Plan::of(steps, Wake::Again, Reason::RollbackRequested(wanted))
}

fn process(builder: &mut PlanBuilder<'_>, wanted: i64) -> Event {
    let warn = |reason, message: String| Event { event_type: EventType::Warning, reason, message };
    let name = builder.deployment.name().to_owned();
    let last = builder.sets.old.iter().map(|old| revision::of(&old.set)).max().unwrap_or(0);
    let revision = if wanted == 0 { last } else { wanted };
    if revision == 0 {
        return warn(mcm::ROLLBACK_REVISION_NOT_FOUND, messages::NO_LAST_REVISION.to_owned());
    }
    let found = builder.sets.all().find(|set: &&Draft<'_>| revision::of(&set.set) == revision);
    let Some(found) = found else {
        return warn(mcm::ROLLBACK_REVISION_NOT_FOUND, messages::NO_SUCH_REVISION.to_owned());
    };
    if same_template(&found.set.spec.template, &builder.deployment.spec.template) {
        return warn(mcm::ROLLBACK_TEMPLATE_UNCHANGED, messages::rollback_unchanged(&name));
    }
    builder.deployment.spec.template = without_hash(&found.set.spec.template);
    let theirs = found.set.metadata.annotations.texts().filter(|(key, _)| revision::is_inherited(key));
    let annotations = &mut builder.deployment.metadata.annotations;
    annotations.retain(|key| !revision::is_inherited(key));
    annotations.extend(theirs);
    Event { event_type: EventType::Normal, reason: mcm::ROLLBACK, message: messages::rolled_back(&name, revision) }
}
