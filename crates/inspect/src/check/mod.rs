//! What is wrong with objects before it costs machines.
//!
//! The API server checks types, the controllers refuse what makes no sense, and both do so one object at a time and when it is too late. Here all objects of
//! a namespace are looked at together, those of a cluster or those of files that nobody has applied yet: what contradicts itself, names something that is not
//! there, has no effect, or keeps machines from ever going. Each finding names the object, the field and the fix.

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

/// What is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The objects.
    pub snapshot: &'a Snapshot,
    /// The same as they were written, where they come from files: what a typed object has no room for is found in them.
    pub documents: &'a [Value],
    /// Whether what is not in the snapshot does not exist.
    pub references: References,
    /// The objects that are judged, as `kind/name`; all of them if nobody named some.
    pub about: Option<&'a BTreeSet<String>>,
}

/// Whether what is not in the snapshot does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum References {
    /// A cluster was read, so what it lacks is missing.
    Known,
    /// Only files were read; the rest may be in the cluster.
    FilesOnly,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// `machinedeployment/pool`.
    pub object: String,
    /// Which field of it.
    pub field: String,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub fix: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [object, field, problem, fix] =
            [&self.object, &self.field, &self.problem, &self.fix].map(|part| printable(part));
        write!(f, "{object}  {field}\n    {problem}\n    fix: {fix}")
    }
}

/// All that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What is wrong, by object and field.
    pub findings: Vec<Finding>,
    /// What could not be looked at.
    pub not_checked: Vec<String>,
}

impl Report {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines: Vec<String> = self.findings.iter().map(ToString::to_string).collect();
        lines.extend(self.not_checked.iter().map(|what| format!("not checked: {}", printable(what))));
        lines.push(match self.findings.len() {
            0 => "Nothing is wrong.".to_owned(),
            some => format!("{} found.", count(some, "mistake")),
        });
        lines.join("\n") + "\n"
    }
}

/// Looks at everything.
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

/// What has been found so far.
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

    /// The faults that the controllers would find, in their words.
    fn add_errors(&mut self, object: &str, errors: &[api::validation::FieldError]) {
        for error in errors {
            let problem = match &error.kind {
                api::validation::ErrorKind::Required => "it is missing or cannot be used".to_owned(),
                api::validation::ErrorKind::Invalid(value) => format!("{value:?} cannot be used"),
            };
            self.add(object, &error.path, format!("{problem}; nothing is done with the object"), error.detail.clone());
        }
    }

    /// What the controllers act on as MCM does, although nobody can mean it.
    fn add_strict(&mut self, object: &str, errors: &[api::validation::FieldError]) {
        for error in errors {
            let value = match &error.kind {
                api::validation::ErrorKind::Required => "nothing",
                api::validation::ErrorKind::Invalid(value) => value,
            };
            let problem = format!("{value:?} is accepted as MCM accepts it, and nobody can mean it");
            self.add(object, &error.path, problem, error.detail.clone());
        }
    }
}
