//! What came of the cases, for people and for programs.

use std::process::ExitCode;

use api::view::SecretData;
use driver::conformance::{Case, CaseResult};
use driver::text::printable;
use planner::scrub::Scrubber;
use serde_json::{Value, json};

use crate::cli::Output;
use crate::print;

/// The results so far. For people each is printed when it is known, for programs all at the end.
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
            let (word, why) = self.told(&result);
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            print::line(format!("{word:<8} {case:?}{why}"));
        }
        self.results.push((case, result));
    }

    /// Nothing more comes; an error of the sweep says what is left.
    pub(super) fn end(&mut self, swept: Result<(), String>) {
        self.left = swept.err().map(|left| self.shown(&left));
        match self.output {
            Output::Json => print::line(self.json()),
            Output::Text => {
                if let Some(left) = &self.left {
                    print::line(format!("VMs may be left: {left}"));
                }
                let [held, skipped, broken] = self.counts();
                print::line(format!("{held} held, {skipped} skipped, {broken} broken"));
            }
        }
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        let [_, _, broken] = self.counts();
        if broken == 0 && self.left.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn json(&self) -> Value {
        let case = |(case, result): &(Case, CaseResult)| {
            let (word, why) = self.told(result);
            json!({ "case": format!("{case:?}"), "result": word.to_lowercase(), "why": why })
        };
        let [held, skipped, broken] = self.counts();
        json!({
            "passed": broken == 0 && self.left.is_none(),
            "held": held, "skipped": skipped, "broken": broken,
            "cases": self.results.iter().map(case).collect::<Vec<_>>(),
            "left": self.left,
        })
    }

    fn told(&self, result: &CaseResult) -> (&'static str, Option<String>) {
        match result {
            CaseResult::Held => ("held", None),
            CaseResult::Skipped(why) => ("skipped", Some((*why).to_owned())),
            CaseResult::Broken(how) => ("BROKEN", Some(self.shown(how))),
        }
    }

    fn shown(&self, text: &str) -> String {
        printable(&self.scrubber.scrub(text))
    }

    fn counts(&self) -> [usize; 3] {
        let count = |wanted: fn(&CaseResult) -> bool| self.results.iter().filter(|(_, result)| wanted(result)).count();
        [
            count(|result| *result == CaseResult::Held),
            count(|result| matches!(result, CaseResult::Skipped(_))),
            count(|result| matches!(result, CaseResult::Broken(_))),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_says_is_told_on_one_line_without_secrets() {
        let mut report = Report::new(Output::Json, &SecretData::from_iter([("key", "hunter2-hunter2")]));
        report.add(Case::AMachineLivesAndDies, CaseResult::Broken("\u{1b}[31mkey hunter2-hunter2\nrefused".into()));
        report.add(Case::CreatingTwiceMakesOneVm, CaseResult::Held);
        report.end(Err("still there: hunter2-hunter2".into()));
        let told = report.json();
        let why = told["cases"][0]["why"].as_str().unwrap();
        assert!(why.starts_with("\\u{1b}[31mkey ") && why.ends_with("\\nrefused"), "{why}");
        assert!(!told.to_string().contains("hunter2"), "{told}");
        assert_eq!(
            (told["passed"].as_bool(), told["held"].as_u64(), told["broken"].as_u64()),
            (Some(false), Some(1), Some(1))
        );
    }

    #[test]
    fn what_is_left_is_a_failure_and_a_skipped_case_is_none() {
        let mut report = Report::new(Output::Json, &SecretData::default());
        report.add(Case::AMachineLivesAndDies, CaseResult::Skipped("no bench"));
        report.end(Ok(()));
        assert_eq!(format!("{:?}", report.exit_code()), format!("{:?}", ExitCode::SUCCESS));
        report.end(Err("vm".into()));
        assert_eq!(format!("{:?}", report.exit_code()), format!("{:?}", ExitCode::FAILURE));
    }
}
