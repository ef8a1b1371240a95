//! The report of the check, as text or JSON.

use std::process::ExitCode;

use api::view::SecretData;
use driver::conformance::{Case, CaseResult};
use driver::text::printable;
use planner::scrub::Scrubber;
use serde_json::{Value, json};

use crate::cli::Output;
use crate::print;

/// The results so far. Text output prints each result immediately, JSON output prints all at the end.
pub(super) struct Report {
    output: Output,
    scrubber: Scrubber,
    results: Vec<(Case, CaseResult)>,
    left: Option<String>,
}

impl Report {
    pub(super) fn new(output: Output, secret: &SecretData) -> Self {
        Self { output, scrubber: Scrubber::of(secret), results: Vec::new(), left: None }
    }

    pub(super) fn add(&mut self, case: Case, result: CaseResult) {
        if self.output == Output::Text {
            let (_, why) = self.result(&result);
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            print::line(format!("{:<8} {case:?}{why}", label(&result)));
        }
        self.results.push((case, result));
    }

    /// Ends the report. An error of the sweep lists the VMs that are left.
    pub(super) fn end(&mut self, swept: Result<(), String>) {
        self.left = swept.err().map(|left| self.shown(&left));
        match self.output {
            Output::Json => print::line(self.json()),
            Output::Text => {
                if let Some(left) = &self.left {
                    print::line(format!("VMs may remain: {left}"));
                }
                let [passed, skipped, failed] = self.counts();
                print::line(format!("{passed} passed, {skipped} skipped, {failed} failed"));
            }
        }
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        let [_, _, failed] = self.counts();
        if failed == 0 && self.left.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn json(&self) -> Value {
        let case = |(case, result): &(Case, CaseResult)| {
            let (word, why) = self.result(result);
            json!({ "case": format!("{case:?}"), "result": word, "why": why })
        };
        let [passed, skipped, failed] = self.counts();
        json!({
            "passed": failed == 0 && self.left.is_none(),
            "held": passed, "skipped": skipped, "broken": failed,
            "cases": self.results.iter().map(case).collect::<Vec<_>>(),
            "left": self.left,
        })
    }

    /// Returns the name of the result in JSON, and its reason.
    fn result(&self, result: &CaseResult) -> (&'static str, Option<String>) {
        match result {
            CaseResult::Passed => ("held", None),
            CaseResult::Skipped(why) => ("skipped", Some((*why).to_owned())),
            CaseResult::Failed(how) => ("broken", Some(self.shown(how))),
        }
    }

    fn shown(&self, text: &str) -> String {
        printable(&self.scrubber.scrub(text))
    }

    fn counts(&self) -> [usize; 3] {
        let count = |wanted: fn(&CaseResult) -> bool| self.results.iter().filter(|(_, result)| wanted(result)).count();
        [
            count(|result| *result == CaseResult::Passed),
            count(|result| matches!(result, CaseResult::Skipped(_))),
            count(|result| matches!(result, CaseResult::Failed(_))),
        ]
    }
}

/// Returns the name of the result in text output.
fn label(result: &CaseResult) -> &'static str {
    match result {
        CaseResult::Passed => "pass",
        CaseResult::Skipped(_) => "skip",
        CaseResult::Failed(_) => "FAIL",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_error_is_printed_on_one_line_without_secrets() {
        let mut report = Report::new(Output::Json, &SecretData::from_iter([("key", "hunter2-hunter2")]));
        report.add(Case::Lifecycle, CaseResult::Failed("\u{1b}[31mkey hunter2-hunter2\nrefused".into()));
        report.add(Case::RepeatedCreateMakesOneVm, CaseResult::Passed);
        report.end(Err("still there: hunter2-hunter2".into()));
        let json = report.json();
        let why = json["cases"][0]["why"].as_str().unwrap();
        assert!(why.starts_with("\\u{1b}[31mkey ") && why.ends_with("\\nrefused"), "{why}");
        assert!(!json.to_string().contains("hunter2"), "{json}");
        assert_eq!(
            (json["passed"].as_bool(), json["held"].as_u64(), json["broken"].as_u64()),
            (Some(false), Some(1), Some(1))
        );
    }

    #[test]
    fn remaining_vm_is_a_failure_and_skipped_case_is_not() {
        let mut report = Report::new(Output::Json, &SecretData::default());
        report.add(Case::Lifecycle, CaseResult::Skipped("no bench"));
        report.end(Ok(()));
        assert_eq!(format!("{:?}", report.exit_code()), format!("{:?}", ExitCode::SUCCESS));
        report.end(Err("vm".into()));
        assert_eq!(format!("{:?}", report.exit_code()), format!("{:?}", ExitCode::FAILURE));
    }
}
