//! How the demo speaks: lines for people, or a JSON object a line for programs; or it tells the live view.

use std::fmt::Display;
use std::time::Duration;

use controllers::Decision;
use serde_json::json;
use tokio::time::Instant;

use super::frame::{MILLWRIGHT, Told};
use super::live::Live;
use crate::cli::Output;
use crate::print;

/// Prints what happens, with the time since the beginning.
#[derive(Clone)]
pub(crate) struct Printer {
    output: Output,
    begin: Instant,
    /// Who shows what happens instead, as long as it does.
    live: Option<Live>,
}

impl Printer {
    pub(crate) fn new(output: Output) -> Self {
        Self { output, begin: Instant::now(), live: None }
    }

    /// The same, with a live view that shows what happens.
    pub(super) fn shown_by(self, live: Option<Live>) -> Self {
        Self { live, ..self }
    }

    /// Something the audience should know; programs need no headings.
    pub(super) fn title(&self, text: &str) {
        if self.output == Output::Text {
            print::line(text);
        }
    }

    /// A person does something.
    pub(super) fn person(&self, text: &str) {
        self.line("you", text, None);
    }

    /// An act begins; programs see it as a line like any other.
    pub(super) fn act(&self, text: &str) {
        if let Some(live) = &self.live {
            return live.act(self.elapsed().as_secs_f64(), text);
        }
        match self.output {
            Output::Text => print::line(format!("\n--- {text}")),
            Output::Json => print::line(json!({ "act": text })),
        }
    }

    /// Millwright does something, for a reason.
    pub(crate) fn millwright(&self, decision: &Decision) {
        let Decision { about, key, did, because, .. } = decision;
        let what = format!("{about} {}: {}", key.name, did.join(", then "));
        self.line(MILLWRIGHT, &what, Some(because));
    }

    /// The world outside does something.
    pub(super) fn world(&self, text: &str) {
        self.line("world", text, None);
    }

    /// Whether a promise was kept.
    pub(super) fn promise(&self, promise: &str, kept: bool, detail: impl Display) {
        match self.output {
            Output::Text => print::line(format!("  {} {promise}: {detail}", if kept { "kept  " } else { "BROKEN" })),
            Output::Json => print::line(json!({ "promise": promise, "kept": kept, "detail": detail.to_string() })),
        }
    }

    /// The last line.
    pub(super) fn end(&self, kept: bool) {
        let took = self.elapsed();
        match self.output {
            Output::Text if kept => {
                print::line(format!("\nEverything went as promised, in {:.1} s.", took.as_secs_f64()));
            }
            Output::Text => print::line("\nSomething did not go as promised; see above."),
            Output::Json => print::line(json!({ "end": { "kept": kept, "seconds": took.as_secs_f64() } })),
        }
    }

    fn line(&self, who: &'static str, what: &str, because: Option<&str>) {
        let at = self.elapsed().as_secs_f64();
        if let Some(live) = &self.live {
            let (what, because) = (what.to_owned(), because.map(str::to_owned));
            return live.tell(Told { seconds: at, who, what, because });
        }
        let line = match (self.output, because) {
            (Output::Text, None) => format!("{at:6.2} s  {who:<10}  {what}"),
            (Output::Text, Some(why)) => format!("{at:6.2} s  {who:<10}  {what}\n{:22}because {why}", ""),
            (Output::Json, _) => json!({ "seconds": at, "who": who, "what": what, "because": because }).to_string(),
        };
        print::line(line);
    }

    /// How long it has been going on.
    pub(super) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }
}
