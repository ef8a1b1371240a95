//! Result of a suite in numbers.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use crate::workspace::root;

/// Numbers of passed, failed and skipped cases of a suite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Passed cases.
    pub passed: u64,
    /// Failed cases.
    pub failed: u64,
    /// Skipped cases.
    pub skipped: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

impl Tally {
    /// Creates a tally without skipped cases.
    pub fn of(passed: usize, failed: usize) -> Self {
        let count = |number| u64::try_from(number).unwrap_or(u64::MAX);
        Self { passed: count(passed), failed: count(failed), skipped: 0 }
    }

    /// Reads the report of a suite.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
        let report: Value = serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
        let count = |field: &str| {
            let number = report.get(field).and_then(Value::as_u64);
            number.with_context(|| format!("{} has no number {field}", path.display()))
        };
        Ok(Self { passed: count("passed")?, failed: count("failed")?, skipped: count("skipped")? })
    }

    /// Returns whether nothing ran, and at least one case is marked as skipped.
    pub fn is_skipped(self) -> bool {
        self.skipped > 0 && self.passed == 0 && self.failed == 0
    }

    /// Returns whether the suite succeeded: something passed and nothing failed; with kube-apiserver, nothing was
    /// skipped either.
    pub fn shows(self, server: Server) -> bool {
        match server {
            Server::Real => self.failed == 0 && self.skipped == 0 && self.passed > 0,
            Server::InMemory => self.failed == 0,
        }
    }
}

/// The API server of a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// A kube-apiserver with its etcd.
    Real,
    /// The fake API server.
    InMemory,
}

/// The result of a suite run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Its name.
    pub suite: &'static str,
    /// `None` if it could not run or crashed.
    pub tally: Option<Tally>,
    /// Its duration.
    pub took: Duration,
}

impl Ran {
    /// Returns whether the suite succeeded.
    pub fn shows(&self, server: Server) -> bool {
        self.tally.is_some_and(|tally| tally.shows(server))
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (suite, seconds) = (self.suite, self.took.as_secs());
        match self.tally {
            Some(tally) => write!(f, "{suite:<12} {tally} in {seconds} s"),
            None => write!(f, "{suite:<12} failed to run, after {seconds} s"),
        }
    }
}

/// Returns the path of a suite's report.
pub(crate) fn file_of(suite: &str) -> anyhow::Result<PathBuf> {
    let folder = root().join("target/e2e");
    std::fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    Ok(folder.join(format!("{suite}.json")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: Tally = Tally { passed: 3, failed: 0, skipped: 0 };

    /// Shows TWO-4.
    #[test]
    fn a_skipped_case_is_a_failure_only_with_kube_apiserver() {
        let skipping = Tally { skipped: 1, ..CLEAN };
        assert!(CLEAN.shows(Server::Real) && skipping.shows(Server::InMemory));
        assert!(!skipping.shows(Server::Real));
    }

    /// Shows TWO-4.
    #[test]
    fn a_suite_without_cases_has_not_succeeded() {
        assert!(!Tally::default().shows(Server::Real));
    }

    #[test]
    fn a_suite_that_failed_to_run_is_reported() {
        let ran = Ran { suite: "smoke", tally: None, took: Duration::from_secs(3) };
        assert!(!ran.shows(Server::Real) && !ran.shows(Server::InMemory));
        assert_eq!(ran.to_string(), "smoke        failed to run, after 3 s");
        let ran = Ran { tally: Some(CLEAN), ..ran };
        assert_eq!(ran.to_string(), "smoke        3 passed, 0 failed, 0 skipped in 3 s");
    }

    #[test]
    fn a_file_without_numbers_is_not_a_report() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        std::fs::write(&path, r#"{"passed": 3, "failed": 0, "skipped": 0}"#).unwrap();
        assert_eq!(Tally::read(&path).unwrap(), CLEAN);
        std::fs::write(&path, r#"[{"case": "a"}]"#).unwrap();
        assert!(Tally::read(&path).unwrap_err().to_string().ends_with("has no number passed"));
    }
}
