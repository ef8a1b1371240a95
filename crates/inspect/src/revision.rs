//! Revisions of a MachineDeployment: the templates kept in its MachineSets, as in `kubectl rollout history`.

use std::sync::Arc;

use api::names::annotations::REVISION;
use api::printable::printable;
use api::{MachineDeployment, MachineSet, MachineTemplateSpec, Object};
use jiff::Timestamp;
use planner::deployment::same_template;
use serde::Serialize;

use crate::Snapshot;
use crate::words::age;

/// Annotation with the cause of a change, as in kubectl.
pub const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";

/// One revision.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Revision {
    /// Its number.
    pub revision: i64,
    /// MachineSet with the template.
    pub machine_set: String,
    /// MachineClass.
    pub class: String,
    /// Desired number of Machines.
    pub replicas: i32,
    /// Whether it is the deployment's template.
    pub current: bool,
    /// Creation time of the MachineSet.
    pub created: Option<Timestamp>,
    /// Cause of the change, if annotated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_cause: Option<String>,
    /// Template.
    pub template: MachineTemplateSpec,
}

/// Returns the revisions of a MachineDeployment, oldest first.
#[must_use]
pub fn history(snapshot: &Snapshot, deployment: &MachineDeployment) -> Vec<Revision> {
    let uid = deployment.uid();
    let revision = |set: &Arc<MachineSet>| Revision {
        revision: set.annotation(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0),
        machine_set: set.name().to_owned(),
        class: set.spec.template.spec.class.name.clone(),
        replicas: set.spec.replicas,
        current: same_template(&set.spec.template, &deployment.spec.template),
        created: set.created_at(),
        change_cause: set.annotation(CHANGE_CAUSE).map(str::to_owned),
        template: set.spec.template.clone(),
    };
    let mut all: Vec<Revision> = snapshot.sets.of_owner(uid.as_str()).map(revision).collect();
    all.sort_by(|a, b| a.revision.cmp(&b.revision).then_with(|| a.machine_set.cmp(&b.machine_set)));
    all
}

/// Returns the revisions as a table.
#[must_use]
pub fn table(revisions: &[Revision], now: Timestamp) -> String {
    let mut rows = vec![["REVISION", "MACHINESET", "MACHINES", "CLASS", "AGE", "CHANGE-CAUSE"].map(str::to_owned)];
    for one in revisions {
        let current = if one.current { " (current)" } else { "" };
        rows.push([
            format!("{}{current}", one.revision),
            printable(&one.machine_set),
            one.replicas.to_string(),
            printable(&one.class),
            age(one.created, now).unwrap_or_else(|| "<unknown>".to_owned()),
            one.change_cause.as_deref().map_or_else(|| "<none>".to_owned(), printable),
        ]);
    }
    aligned(&rows)
}

/// Aligns columns as kubectl does.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let cell = |(column, cell): (usize, &String)| format!("{cell:<width$}", width = width(column).unwrap_or(0) + 3);
    let line = |row: &[String; N]| row.iter().enumerate().map(cell).collect::<String>().trim_end().to_owned();
    rows.iter().map(|row| line(row) + "\n").collect()
}
