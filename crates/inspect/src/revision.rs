//! The templates that a deployment had.
//!
//! Each is kept as a set with a number. What `kubectl rollout history` shows of a Deployment, this shows of a MachineDeployment.

use std::sync::Arc;

use api::names::annotations::REVISION;
use api::printable::printable;
use api::{MachineDeployment, MachineSet, MachineTemplateSpec, Object};
use jiff::Timestamp;
use planner::deployment::same_template;
use serde::Serialize;

use crate::Snapshot;
use crate::words::age;

/// The annotation in which people say why they changed something; kubectl's.
pub const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";

/// One template.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Revision {
    /// Its number.
    pub revision: i64,
    /// The set that keeps it.
    pub machine_set: String,
    /// The class it names.
    pub class: String,
    /// How many machines its set is to have.
    pub replicas: i32,
    /// Whether it is the deployment's template.
    pub current: bool,
    /// When its set was made.
    pub created: Option<Timestamp>,
    /// Why it was written, if somebody said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_cause: Option<String>,
    /// The template itself.
    pub template: MachineTemplateSpec,
}

/// The revisions of a deployment, the oldest first.
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

/// As a table.
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

/// Columns as kubectl aligns them.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let cell = |(column, cell): (usize, &String)| format!("{cell:<width$}", width = width(column).unwrap_or(0) + 3);
    let line = |row: &[String; N]| row.iter().enumerate().map(cell).collect::<String>().trim_end().to_owned();
    rows.iter().map(|row| line(row) + "\n").collect()
}
