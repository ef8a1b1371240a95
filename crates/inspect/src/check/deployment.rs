//! Checks the strategy, the times and the selector of MachineDeployments.

use api::names::labels;
use api::{IntOrString, MachineDeployment, Object, Rounding, SpecDuration, StrategyType, UpdateLimits, validation};

use super::{Findings, template};

pub(super) fn check(found: &mut Findings<'_>) {
    let deployments = &found.input.snapshot.deployments.readable;
    for deployment in deployments {
        let object = format!("machinedeployment/{}", deployment.name());
        found.add_errors(&object, &validation::machine_deployment(deployment));
        let strict = validation::strict::machine_deployment(deployment);
        found.add_strict(&object, &strict);
        selector(found, &object, deployment);
        strategy(found, &object, deployment, strict.is_empty());
        times(found, &object, deployment);
        name_label(found, &object, deployment);
        template::check(found, &object, "spec.template", &template::Part::of(&deployment.spec.template));
    }
    overlaps(found);
}

fn selector(found: &mut Findings<'_>, object: &str, deployment: &MachineDeployment) {
    if deployment.spec.selector.as_ref().is_some_and(api::LabelSelector::is_empty) {
        let fix = "select a label of spec.template.metadata.labels, for example name";
        found.add(
            object,
            "spec.selector",
            "an empty selector selects all Machines; the MachineDeployment is rejected",
            fix,
        );
    }
}

fn strategy(found: &mut Findings<'_>, object: &str, deployment: &MachineDeployment, sensible: bool) {
    let strategy = &deployment.spec.strategy;
    let replicas = deployment.spec.replicas.max(0);
    if let (true, Some(rolling)) = (sensible, &strategy.rolling_update) {
        limits(found, object, "spec.strategy.rollingUpdate", &rolling.limits, replicas);
    }
    if let (true, Some(in_place)) = (sensible, &strategy.in_place_update) {
        limits(found, object, "spec.strategy.inPlaceUpdate", &in_place.limits, replicas);
    }
    let unused = [
        ("spec.strategy.rollingUpdate", strategy.rolling_update.is_some(), StrategyType::RollingUpdate),
        ("spec.strategy.inPlaceUpdate", strategy.in_place_update.is_some(), StrategyType::InPlaceUpdate),
    ];
    for (field, given, of) in unused {
        if given && strategy.kind != of {
            let problem = format!("no effect: spec.strategy.type is {:?}", strategy.kind.as_str());
            found.add(object, field, problem, format!("remove it, or set spec.strategy.type to {}", of.as_str()));
        }
    }
}

fn limits(found: &mut Findings<'_>, object: &str, path: &str, limits: &UpdateLimits, replicas: i32) {
    let number =
        |limit: &Option<IntOrString>, rounding| limit.as_ref().and_then(|limit| limit.scaled(replicas, rounding));
    let (surge, unavailable) =
        (number(&limits.max_surge, Rounding::Up), number(&limits.max_unavailable, Rounding::Down));
    if let (Some(..=0), Some(..=0)) = (surge, unavailable) {
        let problem =
            "maxSurge and maxUnavailable are both 0; the controller replaces one Machine at a time without surge";
        found.add(
            object,
            &format!("{path}.maxUnavailable"),
            problem,
            "set maxSurge to 1, or maxUnavailable to 1 for the same effect",
        );
    }
}

fn times(found: &mut Findings<'_>, object: &str, deployment: &MachineDeployment) {
    let spec = &deployment.spec;
    if spec.min_ready_seconds != 0 {
        found.add(
            object,
            "spec.minReadySeconds",
            "no effect: a Machine is available when its Node is ready",
            "remove it",
        );
    }
    let creation = spec.template.spec.configuration.creation_timeout.as_ref().and_then(SpecDuration::valid);
    let creation = creation.map_or(planner::Policy::default().creation_timeout, api::GoDuration::to_std).as_secs();
    if let Some(deadline) = spec.progress_deadline_seconds
        && u64::try_from(deadline).unwrap_or(0) < creation
    {
        let problem = format!(
            "{deadline} s is shorter than creationTimeout ({creation} s): a rollout is reported as failed although its first Machine \
             may still join"
        );
        found.add(
            object,
            "spec.progressDeadlineSeconds",
            problem,
            format!("set it above {creation}, or decrease creationTimeout"),
        );
    }
    if spec.revision_history_limit.is_some_and(|limit| limit <= 0) {
        let fix = "keep some revisions, or remove the field to keep all";
        found.add(object, "spec.revisionHistoryLimit", "no old MachineSet is kept, so a rollback is not possible", fix);
    }
    if spec.paused && spec.rollback_to.is_some() {
        let problem = "a rollback of a paused MachineDeployment starts only after it is resumed";
        found.add(object, "spec.rollbackTo", problem, "set spec.paused to false, or remove spec.rollbackTo");
    }
    if spec.auto_preserve_failed_machine_max > spec.replicas.max(0) {
        let problem = format!(
            "{} failed Machines may be preserved, but only {} are desired: failed Machines may never be replaced",
            spec.auto_preserve_failed_machine_max, spec.replicas
        );
        found.add(object, "spec.autoPreserveFailedMachineMax", problem, "set it below spec.replicas");
    }
    if deployment.label(labels::FREEZE) == Some(labels::FREEZE_VALUE) {
        let fix =
            format!("delete the surplus Machines, then set annotation {}=True", api::names::annotations::UNFREEZE);
        found.add(object, "metadata.labels.freeze", "the MachineDeployment is frozen: no Machines are created", fix);
    }
}

/// Checks the label `name`, by which concurrent replacements are limited.
fn name_label(found: &mut Findings<'_>, object: &str, deployment: &MachineDeployment) {
    let label = deployment.spec.template.metadata.labels.as_ref().and_then(|labels| labels.text(labels::NAME));
    let field = "spec.template.metadata.labels.name";
    match label {
        Some(name) if name == deployment.name() => {}
        Some(name) => {
            let problem = format!(
                "the label names MachineDeployment {name:?}: the limit of concurrent replacements is shared with it"
            );
            found.add(object, field, problem, format!("set it to {:?}", deployment.name()));
        }
        None => {
            let problem =
                "without the label, the number of concurrent replacements of unhealthy Machines is not limited";
            found.add(object, field, problem, format!("set it to {:?}", deployment.name()));
        }
    }
}

/// Checks for MachineDeployments that select the same Machines.
fn overlaps(found: &mut Findings<'_>) {
    let deployments = &found.input.snapshot.deployments.readable;
    for one in deployments {
        let Some(selector) = one.spec.selector.as_ref().filter(|selector| !selector.is_empty()) else { continue };
        for other in deployments.iter().filter(|other| other.name() != one.name()) {
            let labels = other.spec.template.metadata.labels.as_ref();
            if labels.is_some_and(|labels| selector.matches(labels) == Ok(true)) {
                let problem = format!("it also selects the Machines of machinedeployment/{}", other.name());
                found.add(
                    &format!("machinedeployment/{}", one.name()),
                    "spec.selector",
                    problem,
                    "use a unique label for each MachineDeployment, for example name",
                );
            }
        }
    }
}
