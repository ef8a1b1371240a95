//! What a run showed, for people and for machines.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

/// How a server did in one case.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the case is about.
    pub topic: &'static str,
    /// The case.
    pub name: String,
    /// What was different, if anything was.
    pub difference: Option<String>,
    /// How long it took.
    pub took: Duration,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, name, difference, took } = self;
        match difference {
            None => write!(f, "ok      {topic}: {name} ({} ms)", took.as_millis()),
            Some(difference) => write!(f, "FAILED  {topic}: {name} ({} ms): {difference}", took.as_millis()),
        }
    }
}

/// How a server did in all cases. There is no such thing as a skipped case: what a server cannot be asked is a difference.
#[derive(Clone, Debug)]
pub struct Report {
    outcomes: Vec<Outcome>,
}

impl Report {
    /// Of these outcomes, in the order of topics and names.
    pub fn of(mut outcomes: Vec<Outcome>) -> Self {
        outcomes.sort_by(|a, b| (a.topic, &a.name).cmp(&(b.topic, &b.name)));
        Self { outcomes }
    }

    /// How many cases ended as they should.
    pub fn passed(&self) -> usize {
        self.outcomes.len() - self.failed()
    }

    /// How many did not.
    pub fn failed(&self) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.difference.is_some()).count()
    }

    /// As JSON, in the form of every end-to-end suite.
    pub fn to_json(&self) -> Value {
        let cases: Vec<_> = self
            .outcomes
            .iter()
            .map(|Outcome { topic, name, difference, took }| {
                json!({ "topic": topic, "case": name, "millis": took.as_millis(), "failure": difference })
            })
            .collect();
        json!({ "suite": "conformance", "passed": self.passed(), "failed": self.failed(), "skipped": 0, "cases": cases })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, 0 skipped", self.passed(), self.failed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows TWO-1.
    #[test]
    fn a_difference_is_counted_and_told() {
        let outcome = |name: &str, difference: Option<&str>| Outcome {
            topic: "verbs",
            name: name.to_owned(),
            difference: difference.map(str::to_owned),
            took: Duration::from_millis(7),
        };
        let report = Report::of(vec![outcome("b", Some("got 1, expected 2")), outcome("a", None)]);
        assert_eq!(report.to_string(), "1 passed, 1 failed, 0 skipped");
        assert_eq!(report.to_json()["cases"][1]["failure"], "got 1, expected 2");
        assert_eq!(report.outcomes[1].to_string(), "FAILED  verbs: b (7 ms): got 1, expected 2");
    }
}
