//! Results of scenarios.

use std::fmt;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use serde::Serialize;
use tokio::time::Instant;

use crate::{Environment, Fixture, Scenario};

/// An expectation that was not met, or a request that the scenario needs and that failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An expectation was not met.
    #[error("{0}")]
    Expectation(String),
    /// A request of the scenario failed.
    #[error("failed to {what}")]
    Api {
        /// What was attempted.
        what: String,
        /// Why it did not work.
        #[source]
        source: kube::Error,
    },
}

impl Failure {
    pub(crate) fn api(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| Self::Api { what, source }
    }
}

/// Fails with this message unless the expectation is met.
pub(crate) fn ensure(kept: bool, sentence: impl FnOnce() -> String) -> Result<(), Failure> {
    if kept { Ok(()) } else { Err(Failure::Expectation(sentence())) }
}

/// Result of one scenario.
#[derive(Clone, Debug, Serialize)]
pub struct ScenarioResult {
    /// Its name.
    #[serde(rename = "case")]
    pub name: &'static str,
    /// Why it failed, if it did.
    #[serde(rename = "failure")]
    pub failure: Option<String>,
    /// Duration, if it was measured.
    pub millis: Option<u64>,
}

/// Runs one scenario on a fixture of its own.
pub async fn run(scenario: &Scenario, environment: &Environment) -> ScenarioResult {
    let run = async {
        let fixture = Fixture::new(environment, scenario.name).await?;
        let outcome = (scenario.run)(&fixture).await;
        fixture.clear().await;
        outcome
    };
    let begin = Instant::now();
    let outcome = AssertUnwindSafe(run).catch_unwind().await;
    let outcome = outcome.unwrap_or_else(|_| Err(Failure::Expectation("it panicked".to_owned())));
    let millis = u64::try_from(begin.elapsed().as_millis()).ok();
    ScenarioResult { millis, ..ScenarioResult::of(scenario.name, outcome) }
}

impl ScenarioResult {
    pub(crate) fn of(name: &'static str, outcome: Result<(), Failure>) -> Self {
        Self { name, failure: outcome.err().map(|failure| full(&failure)), millis: None }
    }
}

impl fmt::Display for ScenarioResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", if self.failure.is_none() { "ok    " } else { "FAILED" }, self.name)?;
        if let Some(millis) = self.millis {
            write!(f, " ({millis} ms)")?;
        }
        self.failure.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
    }
}

/// A suite's results together, in the form of every end-to-end suite.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    suite: &'static str,
    passed: usize,
    failed: usize,
    skipped: usize,
    cases: Vec<ScenarioResult>,
}

impl Report {
    /// Creates the report of these results. No case is ever skipped.
    pub fn of(suite: &'static str, cases: Vec<ScenarioResult>) -> Self {
        let failed = cases.iter().filter(|result| result.failure.is_some()).count();
        Self { suite, passed: cases.len() - failed, failed, skipped: 0, cases }
    }

    /// Whether at least one case passed and none failed.
    pub fn is_good(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

fn full(failure: &Failure) -> String {
    match std::error::Error::source(failure) {
        Some(source) => format!("{failure}: {source}"),
        None => failure.to_string(),
    }
}
