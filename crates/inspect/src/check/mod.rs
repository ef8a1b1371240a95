//! Finds mistakes in objects before they affect Machines.
//!
//! The API server and the controllers validate one object at a time, after it was applied. `check` compares all objects
//! of a namespace, from a cluster or from files: contradictions, references to missing objects, settings without
//! effect, and objects that prevent deletions. Each finding names the object, the field and the fix.

mod budget;
mod class;
mod deployment;
mod fields;
mod manifests;
mod namespace;
mod template;

use std::collections::BTreeSet;
use std::fmt;

use api::printable::printable;
use serde::Serialize;
use serde_json::Value;

use crate::Snapshot;
use crate::words::count;

pub use manifests::{Manifests, nothing, read};

/// Input of a check.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The objects.
    pub snapshot: &'a Snapshot,
    /// The objects of files as written. They contain fields that the types do not have.
    pub documents: &'a [Value],
    /// Whether an object that is not in the snapshot does not exist.
    pub references: References,
    /// The objects to check, as `kind/name`; all if `None`.
    pub about: Option<&'a BTreeSet<String>>,
}

/// Whether an object that is not in the snapshot does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum References {
    /// A cluster was read: the object does not exist.
    Known,
    /// Only files were read: the object may exist in the cluster.
    FilesOnly,
}

/// A mistake.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// `machinedeployment/pool`.
    pub object: String,
    /// Field.
    pub field: String,
    /// Problem.
    pub problem: String,
    /// Fix.
    pub fix: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [object, field, problem, fix] =
            [&self.object, &self.field, &self.problem, &self.fix].map(|part| printable(part));
        write!(f, "{object}  {field}\n    {problem}\n    fix: {fix}")
    }
}

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Mistakes, sorted by object and field.
    pub findings: Vec<Finding>,
    /// Checks that could not be done.
    pub not_checked: Vec<String>,
}

impl Report {
    /// Returns the report as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines: Vec<String> = self.findings.iter().map(ToString::to_string).collect();
        lines.extend(self.not_checked.iter().map(|what| format!("not checked: {}", printable(what))));
        lines.push(match self.findings.len() {
            0 => "No mistakes found.".to_owned(),
            some => format!("{} found.", count(some, "mistake")),
        });
        lines.join("\n") + "\n"
    }
}

/// Runs all checks.
#[must_use]
pub fn of(input: &Input<'_>) -> Report {
    let mut found = Findings { input: *input, report: Report::default() };
    deployment::check(&mut found);
    template::check_sets_and_machines(&mut found);
    class::check(&mut found);
    budget::check(&mut found);
    namespace::check(&mut found);
    fields::check(&mut found);
    let mut report = found.report;
    if let Some(about) = input.about {
        report.findings.retain(|finding| about.contains(&finding.object));
    }
    report.findings.sort();
    report.findings.dedup();
    report.not_checked.sort();
    report.not_checked.dedup();
    report
}

/// Findings so far.
struct Findings<'a> {
    input: Input<'a>,
    report: Report,
}

impl Findings<'_> {
    fn add(&mut self, object: &str, field: &str, problem: impl Into<String>, fix: impl Into<String>) {
        let (problem, fix) = (problem.into(), fix.into());
        self.report.findings.push(Finding { object: object.to_owned(), field: field.to_owned(), problem, fix });
    }

    fn not_checked(&mut self, what: String) {
        self.report.not_checked.push(what);
    }

    /// Adds the validation errors of the controllers.
    fn add_errors(&mut self, object: &str, errors: &[api::validation::FieldError]) {
        for error in errors {
            let problem = match &error.kind {
                api::validation::ErrorKind::Required => "required field is missing or invalid".to_owned(),
                api::validation::ErrorKind::Invalid(value) => format!("{value:?} is invalid"),
            };
            self.add(
                object,
                &error.path,
                format!("{problem}; the object is ignored until this is fixed"),
                error.detail.clone(),
            );
        }
    }

    /// Adds values that the controllers accept, as MCM does, but that are never useful.
    fn add_strict(&mut self, object: &str, errors: &[api::validation::FieldError]) {
        for error in errors {
            let value = match &error.kind {
                api::validation::ErrorKind::Required => "nothing",
                api::validation::ErrorKind::Invalid(value) => value,
            };
            let problem = format!("{value:?} is accepted, as in MCM, but is never useful");
            self.add(object, &error.path, problem, error.detail.clone());
        }
    }
}
