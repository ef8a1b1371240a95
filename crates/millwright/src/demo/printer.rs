//! The output of the demo: text, JSON, or the live view.

use std::fmt::Display;
use std::time::Duration;

use controllers::Decision;
use serde_json::json;
use tokio::time::Instant;

use super::frame::{Entry, MILLWRIGHT};
use super::live::Live;
use crate::cli::Output;
use crate::print;

/// Prints what happens, with the time since the start.
#[derive(Clone)]
pub(crate) struct Printer {
    output: Output,
    begin: Instant,
    /// Live view that shows what happens instead.
    live: Option<Live>,
}

impl Printer {
    pub(crate) fn new(output: Output) -> Self {
        Self { output, begin: Instant::now(), live: None }
    }

    /// Returns a printer that shows what happens in the live view.
    pub(super) fn with_live_view(self, live: Option<Live>) -> Self {
        Self { live, ..self }
    }

    /// Prints a heading in text output.
    pub(super) fn title(&self, text: &str) {
        if self.output == Output::Text {
            print::line(text);
        }
    }

    /// Prints an action of the user.
    pub(super) fn user(&self, text: &str) {
        self.line("you", text, None);
    }

    /// Starts a step of the scenario.
    pub(super) fn step(&self, text: &str) {
        if let Some(live) = &self.live {
            return live.step(self.elapsed().as_secs_f64(), text);
        }
        match self.output {
            Output::Text => print::line(format!("\n--- {text}")),
            Output::Json => print::line(json!({ "act": text })),
        }
    }

    /// Prints a decision of the controllers with its reason.
    pub(crate) fn millwright(&self, decision: &Decision) {
        let Decision { about, key, steps, because, .. } = decision;
        let what = format!("{about} {}: {}", key.name, steps.join(", then "));
        self.line(MILLWRIGHT, &what, Some(because));
    }

    /// Prints an event in the cluster.
    pub(super) fn cluster(&self, text: &str) {
        self.line("cluster", text, None);
    }

    /// Prints the result of a check.
    pub(super) fn check(&self, name: &str, passed: bool, detail: impl Display) {
        match self.output {
            Output::Text => print::line(format!("  {} {name}: {detail}", if passed { "pass" } else { "FAIL" })),
            Output::Json => print::line(json!({ "promise": name, "kept": passed, "detail": detail.to_string() })),
        }
    }

    /// Prints the overall result.
    pub(super) fn end(&self, passed: bool) {
        let took = self.elapsed();
        match self.output {
            Output::Text if passed => {
                print::line(format!("\nAll checks passed in {:.1} s.", took.as_secs_f64()));
            }
            Output::Text => print::line("\nSome checks failed; see above."),
            Output::Json => print::line(json!({ "end": { "kept": passed, "seconds": took.as_secs_f64() } })),
        }
    }

    fn line(&self, actor: &'static str, action: &str, reason: Option<&str>) {
        let at = self.elapsed().as_secs_f64();
        if let Some(live) = &self.live {
            let (action, reason) = (action.to_owned(), reason.map(str::to_owned));
            return live.add(Entry { seconds: at, actor, action, reason });
        }
        let line = match (self.output, reason) {
            (Output::Text, None) => format!("{at:6.2} s  {actor:<10}  {action}"),
            (Output::Text, Some(reason)) => format!("{at:6.2} s  {actor:<10}  {action}\n{:22}reason: {reason}", ""),
            (Output::Json, _) => json!({ "seconds": at, "who": actor, "what": action, "because": reason }).to_string(),
        };
        print::line(line);
    }

    /// Returns the time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }
}
