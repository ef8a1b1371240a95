//! How the demo speaks: lines for people, or a JSON object a line for programs.

use std::fmt::Display;
use std::io::Write;
use std::time::Duration;

use controllers::Decision;
use serde_json::json;
use tokio::time::Instant;

use crate::cli::Output;

/// Prints what happens, with the time since the beginning.
#[derive(Clone)]
pub(crate) struct Voice {
    output: Output,
    begin: Instant,
}

#[allow(clippy::print_stdout, reason = "printing is what the demo is for")]
impl Voice {
    pub(crate) fn new(output: Output) -> Self {
        Self { output, begin: Instant::now() }
    }

    /// Something the audience should know; programs need no headings.
    pub(super) fn title(&self, text: &str) {
        if self.output == Output::Text {
            println!("{text}");
        }
    }

    /// A person does something.
    pub(super) fn person(&self, text: &str) {
        self.line("you", text, None);
    }

    /// An act begins; programs see it as a line like any other.
    pub(super) fn act(&self, text: &str) {
        match self.output {
            Output::Text => println!("\n--- {text}"),
            Output::Json => println!("{}", json!({ "act": text })),
        }
    }

    /// Millwright does something, for a reason.
    pub(crate) fn millwright(&self, decision: &Decision) {
        let Decision { about, key, did, because, .. } = decision;
        let what = format!("{about} {}: {}", key.name, did.join(", then "));
        self.line("millwright", &what, Some(because));
    }

    /// The world outside does something.
    pub(super) fn world(&self, text: &str) {
        self.line("world", text, None);
    }

    /// Whether a promise was kept.
    pub(super) fn promise(&self, promise: &str, kept: bool, detail: impl Display) {
        match self.output {
            Output::Text => println!("  {} {promise}: {detail}", if kept { "kept  " } else { "BROKEN" }),
            Output::Json => println!("{}", json!({ "promise": promise, "kept": kept, "detail": detail.to_string() })),
        }
    }

    /// The last line.
    pub(super) fn end(&self, kept: bool) {
        let took = self.elapsed();
        match self.output {
            Output::Text if kept => println!("\nEverything went as promised, in {:.1} s.", took.as_secs_f64()),
            Output::Text => println!("\nSomething did not go as promised; see above."),
            Output::Json => println!("{}", json!({ "end": { "kept": kept, "seconds": took.as_secs_f64() } })),
        }
    }

    fn line(&self, who: &str, what: &str, because: Option<&str>) {
        let at = self.elapsed().as_secs_f64();
        let line = match (self.output, because) {
            (Output::Text, None) => format!("{at:6.2} s  {who:<10}  {what}"),
            (Output::Text, Some(why)) => format!("{at:6.2} s  {who:<10}  {what}\n{:22}because {why}", ""),
            (Output::Json, _) => json!({ "seconds": at, "who": who, "what": what, "because": because }).to_string(),
        };
        // Not `println!`, which panics when nobody reads any more: this is called in the middle of the controllers' work.
        let _unread = writeln!(std::io::stdout(), "{line}");
    }

    fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }
}
