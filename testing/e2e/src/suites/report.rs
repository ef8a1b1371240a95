//! The result of a suite, case by case.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::json;
use tokio::time::Instant;

use super::tally::{Tally, file_of};

/// The cases of one suite, in the order in which they ran.
#[derive(Debug)]
pub struct Report {
    suite: &'static str,
    cases: Vec<Case>,
    skipped: Vec<(String, String)>,
}

#[derive(Debug)]
struct Case {
    sentence: String,
    millis: u128,
    complaint: Option<String>,
}

impl Report {
    /// Creates an empty report.
    pub(crate) fn of(suite: &'static str) -> Self {
        Self { suite, cases: Vec::new(), skipped: Vec::new() }
    }

    /// Runs a case, records its result, and returns its value for later cases.
    #[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
    pub(crate) async fn case<T>(
        &mut self,
        sentence: impl Into<String>,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> Option<T> {
        let (sentence, begin) = (sentence.into(), Instant::now());
        let outcome = work.await;
        let millis = begin.elapsed().as_millis();
        let complaint = outcome.as_ref().err().map(|error| format!("{error:#}"));
        match &complaint {
            None => println!("ok      {sentence} ({millis} ms)"),
            Some(complaint) => println!("FAILED  {sentence} ({millis} ms): {complaint}"),
        }
        self.cases.push(Case { sentence, millis, complaint });
        outcome.ok()
    }

    /// Records a case that could not run, with the reason.
    #[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
    pub(crate) fn skip(&mut self, sentence: impl Into<String>, why: &str) {
        let sentence = sentence.into();
        println!("skipped {sentence}: {why}");
        self.skipped.push((sentence, why.to_owned()));
    }

    /// Adds the cases of another report.
    pub(crate) fn absorb(&mut self, beside: Self) {
        self.cases.extend(beside.cases);
        self.skipped.extend(beside.skipped);
    }

    /// Prints the last line and writes the file.
    #[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
    pub fn conclude(&self) -> anyhow::Result<Tally> {
        self.write(&file_of(self.suite)?)?;
        println!("{}", self.tally());
        Ok(self.tally())
    }

    pub(crate) fn tally(&self) -> Tally {
        let failed = self.cases.iter().filter(|case| case.complaint.is_some()).count();
        let skipped = u64::try_from(self.skipped.len()).unwrap_or(u64::MAX);
        Tally { skipped, ..Tally::of(self.cases.len() - failed, failed) }
    }

    fn write(&self, path: &Path) -> anyhow::Result<()> {
        let cases: Vec<_> = self
            .cases
            .iter()
            .map(|case| json!({ "case": case.sentence, "millis": case.millis, "failure": case.complaint }))
            .chain(self.skipped.iter().map(|(sentence, why)| json!({ "case": sentence, "skipped": why })))
            .collect();
        let Tally { passed, failed, skipped } = self.tally();
        let summary = json!({
            "suite": self.suite, "passed": passed, "failed": failed, "skipped": skipped, "cases": cases,
        });
        fs::write(path, format!("{summary:#}\n")).with_context(|| format!("failed to write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows TWO-4, HST-16.
    #[tokio::test]
    async fn failed_and_skipped_cases_are_written_with_their_reasons() {
        let mut report = Report::of("suite");
        assert_eq!(report.case("one works", async { Ok(7) }).await, Some(7));
        let reason = Err::<(), _>(anyhow::anyhow!("inner").context("outer"));
        assert_eq!(report.case("one does not", async { reason }).await, None);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("suite.json");
        report.write(&path).unwrap();
        assert_eq!(Tally::read(&path).unwrap(), Tally { passed: 1, failed: 1, skipped: 0 });
        report.skip("one was skipped", "there is no Python");
        report.write(&path).unwrap();
        assert_eq!(Tally::read(&path).unwrap(), Tally { passed: 1, failed: 1, skipped: 1 });
        let text = fs::read_to_string(path).unwrap();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["cases"][1]["failure"], "outer: inner");
        assert_eq!(read["cases"][2]["skipped"], "there is no Python");
    }
}
